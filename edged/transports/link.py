"""The seam to a wire: what an actor needs of a connection, whatever carries it.

A ``Link`` moves bytes for one line. It is used by the line's work alone, but for ``preempt``,
which any thread may call. Each transport's module has a real one, and ``visa.py`` chooses it;
``tests/bench`` has one that plays a script. Every failure is one of the errors below: whatever
pyvisa, pyserial, pyusb or a socket raised has been translated by the link, because each of them
raises differently.

Beside it: how a line waits, and how a wait is ended from elsewhere.

A link that can wait on a descriptor waits on ``Wake`` beside it; ``LinkBase`` is what all of them
do alike.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import enum
import errno
import math
import queue
import select
import selectors
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar

from edged.clock import Clock
from edged.errors import connection_trouble
from edged.profiles.model import Connection

T = TypeVar("T")

Teller = Callable[[Callable[[Any], None], object], None]
"""Has the loop call the function with the value."""

OpenResource = Callable[[str, float], Any]
"""Gives a PyVISA resource for an address within seconds, or raises a ``LinkError``."""


class LinkError(Exception):
    """The wire did something else than asked; the line is dirty until it was made clean.

    Args:
        text: what happened, at which address.
        why: the same in a few words without the address; ``text`` where there are none.
        came: the bytes of an answer that had come by then, and were not taken.
    """

    def __init__(self, text: str = "", why: str = "", came: bytes = b"") -> None:
        super().__init__(text)
        self.why = why or text
        self.came = came


class LinkTimeout(LinkError):
    """Nothing (or not enough) came before the deadline; a late answer may still come.

    What has come can still be read as bytes.
    """


class LinkLost(LinkError):
    """The connection is gone: refused, reset, closed by the peer, unplugged."""


class LinkGarbled(LinkError):
    """More came than any answer can be, or not in the form that was asked for."""


class LinkShort(LinkGarbled):
    """A message ended before the bytes that were asked for; what came of it can still be read."""


class LinkOverlong(LinkGarbled):
    """A message has no end where any text has one; what came of it can still be read as bytes."""


class LinkPreempted(LinkError):
    """``preempt`` was called for the work in hand; what was asked for may still come.

    Attributes:
        leaves_clean: nothing had been asked for.
    """

    leaves_clean = False


@contextlib.contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turn whatever PyVISA, a backend or a socket raises into a ``LinkError``.

    PyVISA's own errors are told by their VISA code; backends also raise bare ``Exception``,
    ``ValueError`` (descriptors, USB) and ``OSError``.
    """
    try:
        yield
    except LinkError:
        raise
    except TimeoutError as error:
        raise LinkTimeout(f"{doing} took too long") from error
    except Exception as error:
        text = _in_words(error) or " ".join(str(error).split())[:200] or type(error).__name__
        if "VI_ERROR_TMO" in text:
            raise LinkTimeout(f"{doing} took too long") from error
        raise LinkLost(f"{doing} failed: {text}", text) from error


UNKNOWN_HOST: Final = "its host name is not known"
SAME_PORT: Final = "it is another path to a port that is open"
UNROUTED: Final = "there is no route to it"
REMEDIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        UNKNOWN_HOST: "Check the name in INSTRUMENTS, and that this computer can look it up "
        "(getent hosts NAME).",
        SAME_PORT: "Write one path in all entries of INSTRUMENTS for this port.",
        UNROUTED: "Check the address in INSTRUMENTS, and this computer's own network.",
    }
)
"""Why a connection is not there (``LinkError.why``) -> what helps, where it is not the cable."""
NO_ROUTE: Final = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN})


def _in_words(error: BaseException) -> str:
    """What the system said below a backend's own error; empty where it is nothing usual."""
    below: BaseException | None = error
    while below is not None:
        match below:
            case ConnectionRefusedError():
                return connection_trouble(below)
            case socket.gaierror():
                return UNKNOWN_HOST
            case FileNotFoundError():
                return "there is no such device"
            case OSError() if below.errno in NO_ROUTE:
                return UNROUTED
        below = below.__cause__ or below.__context__
    return ""


class Since(enum.Flag):
    """What happened on a wire since a unit's last turn on it."""

    NOTHING = 0
    ANOTHER = enum.auto()
    """Another unit of the same port was spoken to."""
    UNANSWERED = enum.auto()
    """An answer of another unit may still come."""


class Urgency(enum.IntEnum):
    """Who is let first to a wire that several units share."""

    IDLE = 0
    """Looking after a line for which nobody waits; any other work ends it."""
    WORK = 1
    SAFE = 2
    """Making safe; it ends the work of other units."""


class Link(Protocol):
    """One connection to one line.

    All times are seconds from the moment of the call. After any ``LinkError`` only ``close``,
    ``clear``, ``open`` and ``begin`` may be called; the actor decides which by
    ``instruments/line_state.py``.

    Pre-emption goes by ticket, so that one which arrives late cannot hit the next piece of work:
    the actor numbers its work upwards, ``begin`` names the one in hand, and ``preempt`` counts
    only for that one and those before it.
    """

    @property
    def wake(self) -> Wake:
        """How it waits."""
        ...

    @property
    def is_shared(self) -> bool:
        """Other units use the same wire: work takes turns there."""
        ...

    def open(self, timeout_s: float) -> None:
        """Connect; returns connected or raises. On a raw socket success proves nothing yet."""
        ...

    def tune(self, connection: Connection) -> None:
        """How the wire is to be from here on (baud rate, parity); an open one is changed at once.

        Called before each piece of work; cheap when nothing is new.
        """
        ...

    def begin(self, ticket: int) -> None:
        """From here on the link works for ``ticket``; tickets only grow. Keeps nothing waiting."""
        ...

    def take_turn(self, timeout_s: float, urgency: Urgency) -> Since:
        """Wait until nobody else uses the wire; every piece of work does so once, after ``begin``.

        Returns:
            What happened there since the last turn.

        Raises:
            LinkError: it was not to be had in that time; nothing was sent.
        """
        ...

    def end_turn(self, *, is_clean: bool) -> None:
        """Let others use the wire; ``is_clean``: nothing more can come of this turn."""
        ...

    def write(self, data: bytes, timeout_s: float) -> None:
        """Send all of ``data`` as one message (terminator included by the caller)."""
        ...

    def read_message(self, terminator: bytes, timeout_s: float) -> bytes:
        """The next whole message without its terminator; on message-based lines up to END.

        Raises:
            LinkOverlong: it is longer than any text; nothing of it has been taken.
        """
        ...

    def read_exactly(self, count: int, timeout_s: float) -> bytes:
        """Exactly ``count`` bytes, whatever they are (blocks); no terminator is looked for."""
        ...

    def pending(self) -> bytes:
        """Bytes that had come unasked and are now thrown away; never waits.

        Raises:
            LinkLost: the peer has closed or reset the connection, seen without a byte being sent.
        """
        ...

    def is_quiet(self) -> bool:
        """Whether it is open and nothing at all has come; any thread, and never waits.

        False where that cannot be told: then ``pending`` has to look.
        """
        ...

    def pause(self, seconds: float) -> None:
        """Let time pass in the line's work; ``preempt`` ends it like any other wait."""
        ...

    def clear(self, timeout_s: float) -> bool:
        """Device clear, where the protocol has one that works; False where it has not."""
        ...

    def marks_answers(self) -> bool:
        """Whether each answer bears the mark of its question: then a late one is no other's.

        The link drops what bears another mark; nothing that is left over can shift such a line.
        """
        ...

    def status_byte(self, timeout_s: float) -> int | None:
        """The IEEE 488.2 status byte, read beside the messages (by no ``*STB?``).

        None where this wire has no way to ask, or the peer does not know it. MAV (0x10) in it says
        that an answer waits to be read.
        """
        ...

    def preempt(self, ticket: int) -> None:
        """Make waits for ``ticket`` end with ``LinkPreempted``, now or when begun. Any thread."""
        ...

    def close(self) -> None:
        """Let go of the connection; never raises, never waits long; may be called twice."""
        ...

    def release(self) -> None:
        """Let go of everything for good; ``preempt`` is without effect from here on."""
        ...


if sys.platform == "win32":
    SELECTOR_CLASS: type[selectors.BaseSelector] = selectors.SelectSelector
else:
    # poll() has no limit on descriptors and costs no descriptor of its own.
    SELECTOR_CLASS: type[selectors.BaseSelector] = selectors.PollSelector


class Wake(abc.ABC):
    """Ends a wait from elsewhere, for the piece of work that is meant and no other.

    ``preempt`` and ``stir`` may come from any thread; everything else belongs to the line's own
    work. How a line waits is the whole difference between one that has a thread (``ThreadWake``)
    and one that is served on the event loop (``loop_wake``).
    """

    def __init__(self) -> None:
        # The work in hand, and the latest that was to be pre-empted; plain ints, so that assigning
        # one is atomic.
        self.ticket = 0
        self._preempted = 0
        self._is_released = False

    def preempt(self, ticket: int) -> None:
        if self._is_released:
            return
        self._preempted = max(self._preempted, ticket)
        self.stir()

    @abc.abstractmethod
    def stir(self) -> None:
        """Make the wait look up without pre-empting anything; any thread."""

    def pause(self, seconds: float, clock: Clock) -> None:
        """Let time pass, unless the work in hand is pre-empted."""
        deadline = clock.monotonic() + seconds
        self.check()
        while (left_s := deadline - clock.monotonic()) > 0:
            self.listen(left_s)

    @abc.abstractmethod
    def listen(self, seconds: float) -> None:
        """Wait at most so long for a call; raises ``LinkPreempted`` when it was for this work."""

    def check(self) -> None:
        """Raise ``LinkPreempted`` if the work in hand has been pre-empted."""
        if self._preempted >= self.ticket > 0:
            raise LinkPreempted("pre-empted")

    @abc.abstractmethod
    def heard(self) -> None:
        """Swallow what made the wait end, then ``check``."""

    @abc.abstractmethod
    def watch(self, connection: socket.socket) -> SocketWatch:
        """What waits for this socket and a call at once."""

    @abc.abstractmethod
    def apart(self, function: Callable[[], T]) -> T:
        """Do what waits in a way that cannot be ended from elsewhere; its error is raised."""

    @abc.abstractmethod
    def worker(self, work: Callable[[], None], name: str) -> Worker:
        """What does the line's work, from its ``start`` on."""

    @abc.abstractmethod
    def tokens(self) -> Tokens:
        """What that work waits for while it has nothing to do."""

    @abc.abstractmethod
    def teller(self, loop: asyncio.AbstractEventLoop) -> Teller:
        """What has the loop call a function, by whoever works for the line or on the loop."""

    def release(self) -> None:
        """Close for good."""
        self._is_released = True


class Worker(Protocol):
    """What does the work of one line: a thread has all of it."""

    def start(self) -> None:
        """Begin."""
        ...

    def is_alive(self) -> bool:
        """Whether it has begun and not ended."""
        ...

    def join(self, timeout: float | None = None) -> None:
        """Wait for what follows its last act."""
        ...


class Tokens(Protocol):
    """One for each piece of work that may have come; a ``SimpleQueue`` has all of it."""

    def put(self, item: None) -> None:
        """There may be work; the loop's thread only."""
        ...

    def get(self, *, timeout: float | None = None) -> None:
        """Wait for one; raises ``queue.Empty`` after so many seconds."""
        ...


class SocketWatch(Protocol):
    """Waits for one socket and the calls of a ``Wake`` at once."""

    def wait(self, events: int, seconds: float) -> tuple[bool, bool]:
        """Wait at most so long for ``selectors.EVENT_READ`` or ``EVENT_WRITE``.

        Returns:
            Whether the socket is ready (or broken), and whether there was a call.
        """
        ...

    def close(self) -> None:
        """Stop watching; the socket is somebody else's to close."""
        ...


class ThreadWake(Wake):
    """Of a line that has a thread: its waits block that."""

    def __init__(self) -> None:
        super().__init__()
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs.setblocking(False)

    def fileno(self) -> int:
        """What to wait for beside one's own socket."""
        return self._ours.fileno()

    def stir(self) -> None:
        with contextlib.suppress(OSError):
            self._theirs.send(b".")

    def listen(self, seconds: float) -> None:
        if wait_readable(self.fileno(), seconds):
            self.heard()

    def heard(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._ours.recv(4096):
                pass
        self.check()

    def watch(self, connection: socket.socket) -> SocketWatch:
        return BlockingWatch(self, connection)

    def apart(self, function: Callable[[], T]) -> T:
        """See ``Wake``: it waits here."""
        return function()

    def worker(self, work: Callable[[], None], name: str) -> Worker:
        return threading.Thread(target=work, name=name[:64], daemon=True)

    def tokens(self) -> Tokens:
        return queue.SimpleQueue()

    def teller(self, loop: asyncio.AbstractEventLoop) -> Teller:

        def tell(function: Callable[[Any], None], value: object) -> None:
            try:
                loop.call_soon_threadsafe(function, value)
            except RuntimeError:
                # The loop has been closed: the process is on its way out and nobody waits.
                return

        return tell

    def release(self) -> None:
        super().release()
        self._ours.close()
        self._theirs.close()


def wait_readable(descriptor: int, seconds: float) -> bool:
    """True once ``descriptor`` can be read; False when ``seconds`` have passed first."""
    with SELECTOR_CLASS() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(seconds))


class BlockingWatch:
    """See ``SocketWatch``; used by the line's own thread.

    Asks ``poll`` itself where there is one: ``selectors`` costs three times that, for each answer.
    """

    def __init__(self, wake: ThreadWake, connection: socket.socket) -> None:
        self._wake_fd = wake.fileno()
        self._fd = connection.fileno()
        self._events = selectors.EVENT_READ
        if sys.platform == "win32":
            self._selector = SELECTOR_CLASS()
            self._selector.register(self._wake_fd, selectors.EVENT_READ)
            self._selector.register(self._fd, selectors.EVENT_READ)
        else:
            self._poll = select.poll()
            self._poll.register(self._wake_fd, select.POLLIN)
            self._poll.register(self._fd, select.POLLIN)

    def wait(self, events: int, seconds: float) -> tuple[bool, bool]:
        is_new, self._events = events != self._events, events
        if sys.platform == "win32":
            if is_new:
                self._selector.modify(self._fd, events)
            found = [key.fd for key, _ in self._selector.select(seconds)]
        else:
            if is_new:
                wanted = select.POLLIN if events == selectors.EVENT_READ else select.POLLOUT
                self._poll.modify(self._fd, wanted)
            found = [descriptor for descriptor, _ in self._poll.poll(math.ceil(seconds * 1000))]
        return self._fd in found, self._wake_fd in found

    def close(self) -> None:
        """Stop watching; where there is ``poll``, there is nothing to close."""
        if sys.platform == "win32":
            self._selector.close()


class LinkBase(abc.ABC):
    """What the links of this chapter do alike; see ``Link``.

    Where a wire has nothing of a thing (no device clear, no status byte, no marks, nothing to
    tune), this says so; the link of one that has overrides it.

    Args:
        wake: how it waits; as whoever has a thread of its own, where nobody says.
    """

    is_shared = False

    def __init__(self, clock: Clock, wake: Wake | None = None) -> None:
        self._clock = clock
        self._wake = wake or ThreadWake()

    @property
    def wake(self) -> Wake:
        return self._wake

    def tune(self, _connection: Connection) -> None:
        """See ``Link``: nothing of it can be tuned."""
        return

    def begin(self, ticket: int) -> None:
        self._wake.ticket = ticket

    def take_turn(self, _timeout_s: float, _urgency: Urgency) -> Since:
        """See ``Link``: it is nobody else's."""
        return Since.NOTHING

    def end_turn(self, *, is_clean: bool) -> None:  # noqa: ARG002 - the seam's
        """See ``Link``: nobody waits for it."""
        return

    def is_quiet(self) -> bool:
        """See ``Link``: only the line's own work can tell."""
        return False

    def pause(self, seconds: float) -> None:
        self._wake.pause(seconds, self._clock)

    def clear(self, _timeout_s: float) -> bool:
        """See ``Link``: it has none."""
        return False

    def marks_answers(self) -> bool:
        """See ``Link``: it has no marks."""
        return False

    def status_byte(self, _timeout_s: float) -> int | None:
        """See ``Link``: it has no way to ask."""
        return None

    def preempt(self, ticket: int) -> None:
        self._wake.preempt(ticket)

    @abc.abstractmethod
    def close(self) -> None:
        """See ``Link``."""

    def release(self) -> None:
        self.close()
        self._wake.release()
