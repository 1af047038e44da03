"""The seam to a wire: what an actor needs of a connection, whatever carries it.

A ``Link`` moves bytes for one line. It is used by one thread, the actor's, but for ``preempt``,
which any thread may call. ``visa_link.py`` has the real ones; ``tests/bench`` has one that plays a
script. Every failure is one of the errors below: whatever pyvisa, pyserial, pyusb or a socket
raised has been translated by the link, because each of them raises differently.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from edged.profiles.model import Connection

__all__ = [
    "Link",
    "LinkError",
    "LinkGarbled",
    "LinkLost",
    "LinkPreempted",
    "LinkTimeout",
    "OpenResource",
    "translated",
]


OpenResource = Callable[[str, float], Any]
"""Gives a PyVISA resource for an address within seconds, or raises a ``LinkError``."""


class LinkError(Exception):
    """The wire did something else than asked; the line is dirty until it was made clean."""


class LinkTimeout(LinkError):
    """Nothing (or not enough) came before the deadline; a late answer may still come."""


class LinkLost(LinkError):
    """The connection is gone: refused, reset, closed by the peer, unplugged."""


class LinkGarbled(LinkError):
    """More came than any answer can be, or not in the form that was asked for."""


class LinkPreempted(LinkError):
    """``preempt`` was called for the work in hand; what was asked for may still come."""


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


class Link(Protocol):
    """One connection to one line.

    All times are seconds from the moment of the call. After any ``LinkError`` only ``close``,
    ``clear``, ``open`` and ``begin`` may be called; the actor decides which by ``recovery.py``.

    Pre-emption goes by ticket, so that one which arrives late cannot hit the next piece of work:
    the actor numbers its work upwards, ``begin`` names the one in hand, and ``preempt`` counts
    only for that one and those before it.
    """

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

    def write(self, data: bytes, timeout_s: float) -> None:
        """Send all of ``data`` as one message (terminator included by the caller)."""
        ...

    def read_message(self, terminator: bytes, timeout_s: float) -> bytes:
        """The next whole message without its terminator; on message-based lines up to END."""
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
        """Let time pass on the actor's thread; ``preempt`` ends it like any other wait."""
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
