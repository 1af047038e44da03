"""Links over VISA: the only module that imports pyvisa.

``VisaLibrary`` owns the one ResourceManager of the process (closing one closes all, pyvisa issue
742) and makes a link for an address; each kind of transport has its own link class in
``LINK_CLASSES``, because each fails and is woken in its own way.

``RawSocketLink`` lets PyVISA open and close the session and moves the bytes over that session's
socket itself. pyvisa-py's own read and write of a raw socket lose the bytes read so far at a
timeout, wait out the whole timeout after the peer has closed, cannot be woken, wait without bound
when the peer does not take what is written, and fail with descriptors over 1,023 (``select``). This
becomes needless when pyvisa-py's SOCKET session can be woken and keeps its bytes.
"""

from __future__ import annotations

import contextlib
import math
import selectors
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from edged.clock import Clock
from edged.errors import ErrorCode, Invalid
from edged.instruments.address import Transport, parse_address
from edged.instruments.link import (
    Link,
    LinkError,
    LinkGarbled,
    LinkLost,
    LinkPreempted,
    LinkTimeout,
)

__all__ = ["RawSocketLink", "VisaLibrary"]

MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024
"""Longer than any answer in text (a deep waveform in ASCII); garbage without line ends is cut."""
RECEIVE_BYTES: Final = 64 * 1024
MAX_PENDING_READS: Final = 64
"""A peer that floods is not read for ever before a write."""
CONNECT_SLICE_S: Final = 1.5
"""pyvisa-py's connect cannot be woken; tried in slices, a stop waits for one of them. A slice
outlasts the first repetition of a lost SYN (1 s)."""
KEEPALIVE: Final = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3))
"""Seconds, seconds, times: a peer that vanished without a word is noticed after about 11 s."""

if sys.platform == "win32":
    SELECTOR_CLASS = selectors.SelectSelector
else:
    # poll() has no limit on descriptors and costs no descriptor of its own.
    SELECTOR_CLASS = selectors.PollSelector


class VisaLibrary:
    """The one VISA of this process.

    Args:
        library: what PyVISA calls it: ``@py``, ``@ivi``, or the path of a vendor's library.
    """

    def __init__(self, *, library: str = "@py", clock: Clock) -> None:
        self._library = library
        self._clock = clock
        # Made by whichever line opens first; guarded, because two would be one and its ghost.
        self._manager: Any = None
        self._making = threading.Lock()

    def open_link(self, address: str) -> Link:
        """A link for this address, not yet opened; called on the loop, touches nothing.

        Raises:
            Invalid: BAD_CONFIG, for what is no address or a transport without a link.
        """
        transport = parse_address(address).transport
        link_class = LINK_CLASSES.get(transport)
        if link_class is None:
            raise Invalid(
                f"{address} is a {transport.value} address, which this version cannot open.",
                code=ErrorCode.BAD_CONFIG,
                data={"address": address, "transport": transport.value},
                remedy="Use the instrument's raw socket (TCPIP::<host>::<port>::SOCKET).",
            )
        return link_class(address, self.open_resource, self._clock)

    def open_resource(self, address: str, timeout_s: float) -> Any:
        """A PyVISA resource; called on a line's own thread.

        Raises:
            LinkError: whatever went wrong, translated.
        """
        with translated(f"opening {address}"):
            return self._resource_manager().open_resource(
                address, open_timeout=max(1, math.ceil(timeout_s * 1000))
            )

    def close(self) -> None:
        """Close everything that is still open; at exit only."""
        with self._making:
            manager, self._manager = self._manager, None
        if manager is not None:
            with contextlib.suppress(LinkError), translated("closing VISA"):
                manager.close()

    def _resource_manager(self) -> Any:
        with self._making:
            if self._manager is None:
                # Imported late: it takes a quarter of a second, and the first answer to a client
                # need not wait for it.
                import pyvisa

                self._manager = pyvisa.ResourceManager(self._library)
            return self._manager


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
        text = " ".join(str(error).split())[:200] or type(error).__name__
        if "VI_ERROR_TMO" in text:
            raise LinkTimeout(f"{doing} took too long") from error
        raise LinkLost(f"{doing} failed: {text}") from error


class Wake:
    """Ends a wait on sockets from another thread, for the piece of work that is meant and no other.

    ``preempt`` may come from any thread; everything else belongs to the line's own.
    """

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs.setblocking(False)
        # The work in hand, and the latest that was to be pre-empted; plain ints, so that assigning
        # one is atomic.
        self._ticket = 0
        self._preempted = 0
        self._is_released = False

    def fileno(self) -> int:
        """What to wait for beside one's own socket."""
        return self._ours.fileno()

    def begin(self, ticket: int) -> None:
        """See ``Link.begin``."""
        self._ticket = ticket

    def preempt(self, ticket: int) -> None:
        """See ``Link.preempt``."""
        if self._is_released:
            return
        self._preempted = max(self._preempted, ticket)
        with contextlib.suppress(BlockingIOError):
            self._theirs.send(b"!")

    def check(self) -> None:
        """Raise ``LinkPreempted`` if the work in hand has been pre-empted."""
        if self._preempted >= self._ticket > 0:
            raise LinkPreempted("pre-empted")

    def heard(self) -> None:
        """Swallow what made the wait end, then ``check``."""
        with contextlib.suppress(BlockingIOError):
            while self._ours.recv(4096):
                pass
        self.check()

    def release(self) -> None:
        """Close for good."""
        self._is_released = True
        self._ours.close()
        self._theirs.close()


class RawSocketLink:
    """``TCPIP::host::port::SOCKET``: a stream of bytes, split into messages here."""

    def __init__(
        self, address: str, open_resource: Callable[[str, float], Any], clock: Clock
    ) -> None:
        self._address = address
        self._open_resource = open_resource
        self._clock = clock
        self._wake = Wake()
        # PyVISA's resource, and the socket inside of it; None while closed.
        self._resource: Any = None
        self._socket: socket.socket | None = None
        # Waits for the socket and the wake; made with each connection.
        self._selector: selectors.BaseSelector | None = None
        # Came in and was not asked for yet; emptied with each connection.
        self._buffer = bytearray()

    def open(self, timeout_s: float) -> None:
        """See ``Link``. Tries in slices, between which a pre-emption is heard."""
        self.close()
        deadline = self._clock.monotonic() + timeout_s
        while self._resource is None:
            self._wake.check()
            began = self._clock.monotonic()
            slice_s = max(0.001, min(deadline - began, CONNECT_SLICE_S))
            try:
                self._resource = self._open_resource(self._address, slice_s)
            except LinkError as error:
                now = self._clock.monotonic()
                if now - began < slice_s * 0.9:
                    raise
                if now >= deadline:
                    raise LinkLost(f"{self._address} cannot be reached") from error
        try:
            with translated(f"connecting to {self._address}"):
                self._adopt()
        except LinkError:
            self.close()
            raise

    def begin(self, ticket: int) -> None:
        """See ``Link``."""
        self._wake.begin(ticket)

    def write(self, data: bytes, timeout_s: float) -> None:
        """See ``Link``."""
        deadline = self._clock.monotonic() + timeout_s
        rest = memoryview(data)
        connection = self._connected()
        self._wake.check()
        while rest:
            try:
                rest = rest[connection.send(rest) :]
            except BlockingIOError:
                self._wait(selectors.EVENT_WRITE, deadline)
            except OSError as error:
                raise LinkLost(f"writing failed: {error}") from error

    def read_message(self, terminator: bytes, timeout_s: float) -> bytes:
        """See ``Link``."""
        deadline = self._clock.monotonic() + timeout_s
        buffer = self._buffer
        searched = 0
        while True:
            end = buffer.find(terminator, searched)
            if end >= 0:
                message = bytes(buffer[:end])
                del buffer[: end + len(terminator)]
                return message
            if len(buffer) > MAX_MESSAGE_BYTES:
                raise LinkGarbled(f"{len(buffer)} bytes came without a line end")
            searched = max(0, len(buffer) - len(terminator) + 1)
            self._receive(deadline)

    def read_exactly(self, count: int, timeout_s: float) -> bytes:
        """See ``Link``."""
        deadline = self._clock.monotonic() + timeout_s
        while len(self._buffer) < count:
            self._receive(deadline)
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    def pending(self) -> bytes:
        """See ``Link``."""
        connection = self._connected()
        for _ in range(MAX_PENDING_READS):
            try:
                data = connection.recv(RECEIVE_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                raise LinkLost(f"the connection broke: {error}") from error
            if not data:
                raise LinkLost("the instrument closed the connection")
            self._buffer += data
        unasked = bytes(self._buffer)
        self._buffer.clear()
        return unasked

    def pause(self, seconds: float) -> None:
        """See ``Link``."""
        deadline = self._clock.monotonic() + seconds
        self._wake.check()
        while (left_s := deadline - self._clock.monotonic()) > 0:
            if wait_readable(self._wake.fileno(), left_s):
                self._wake.heard()

    def clear(self, timeout_s: float) -> bool:
        """See ``Link``: raw sockets have none (pyvisa-py's spins for ever after a FIN)."""
        del timeout_s
        return False

    def preempt(self, ticket: int) -> None:
        """See ``Link``."""
        self._wake.preempt(ticket)

    def close(self) -> None:
        """See ``Link``."""
        resource, self._resource = self._resource, None
        selector, self._selector = self._selector, None
        self._socket = None
        self._buffer.clear()
        if selector is not None:
            selector.close()
        if resource is not None:
            with contextlib.suppress(LinkError), translated("closing"):
                resource.close()

    def release(self) -> None:
        """See ``Link``."""
        self.close()
        self._wake.release()

    def _adopt(self) -> None:
        """Take the session's socket over and make sure that it is connected.

        pyvisa-py reports success for a refused port: its ``select`` finds the socket "ready".
        """
        session = self._resource.visalib.sessions[self._resource.session]
        connection: socket.socket = session.interface
        failure = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failure:
            raise OSError(failure, "connection refused or unreachable")
        connection.getpeername()
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE:
            option = TCP_OPTIONS.get(name)
            if option is not None:
                connection.setsockopt(socket.IPPROTO_TCP, option, value)
        self._selector = SELECTOR_CLASS()
        self._selector.register(self._wake.fileno(), selectors.EVENT_READ)
        self._selector.register(connection, selectors.EVENT_READ)
        self._socket = connection

    def _connected(self) -> socket.socket:
        if self._socket is None:
            raise LinkLost("not connected")
        return self._socket

    def _receive(self, deadline: float) -> None:
        """Wait for bytes and add them to the buffer."""
        self._wait(selectors.EVENT_READ, deadline)
        try:
            data = self._connected().recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise LinkLost(f"reading failed: {error}") from error
        if not data:
            raise LinkLost("the instrument closed the connection")
        self._buffer += data

    def _wait(self, events: int, deadline: float) -> None:
        """Wait until the socket is ready for ``events``.

        Raises:
            LinkTimeout, LinkPreempted: it was not, before that.
        """
        connection, selector = self._connected(), self._selector
        if selector is None:
            raise LinkLost("not connected")
        if selector.get_key(connection).events != events:
            selector.modify(connection, events)
        while True:
            left_s = deadline - self._clock.monotonic()
            if left_s <= 0:
                raise LinkTimeout("nothing came before the time limit")
            is_ready = False
            for key, _ in selector.select(left_s):
                if key.fileobj is connection:
                    is_ready = True
                else:
                    self._wake.heard()
            if is_ready:
                return


def wait_readable(descriptor: int, seconds: float) -> bool:
    """True once ``descriptor`` can be read; False when ``seconds`` have passed first."""
    with SELECTOR_CLASS() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(seconds))


TCP_OPTIONS: Final[Mapping[str, int]] = MappingProxyType(
    {name: value for name, value in vars(socket).items() if name.startswith("TCP_KEEP")}
)

LinkClass = Callable[[str, Callable[[str, float], Any], Clock], Link]

LINK_CLASSES: Final[Mapping[Transport, LinkClass]] = MappingProxyType(
    {
        Transport.SOCKET: RawSocketLink,
    }
)
