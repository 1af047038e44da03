"""The seam to a wire: what an actor needs of a connection, whatever carries it.

A ``Link`` moves bytes for one line. It is used by one thread, the actor's, but for ``preempt``,
which any thread may call. ``visa_link.py`` is the real one; ``tests/bench`` has one that plays a
script. Every failure is one of the three errors below: whatever pyvisa, pyserial, pyusb or a socket
raised has been translated here, because each raises differently (shared/facts/visa-and-hotplug.md).
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Link", "LinkError", "LinkLost", "LinkPreempted", "LinkTimeout"]


class LinkError(Exception):
    """The wire did something else than asked; the line is dirty until it was made clean."""


class LinkTimeout(LinkError):
    """Nothing (or not enough) came before the deadline; a late answer may still come."""


class LinkLost(LinkError):
    """The connection is gone: refused, reset, closed by the peer, unplugged."""


class LinkPreempted(LinkError):
    """``preempt`` was called while waiting; what was asked for may still come."""


class Link(Protocol):
    """One connection to one line.

    All times are seconds from the moment of the call. After any ``LinkError`` only ``close``,
    ``clear`` and ``open`` may be called; the actor decides which by ``recovery.py``.
    """

    def open(self, timeout_s: float) -> None:
        """Connect; returns connected or raises. On a raw socket success proves nothing yet."""
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
        """Bytes that had come unasked and are now thrown away; never waits."""
        ...

    def clear(self, timeout_s: float) -> bool:
        """Device clear, where the protocol has one that works; False where it has not."""
        ...

    def preempt(self) -> None:
        """Make a wait in progress, or the next one, end with ``LinkPreempted``. Any thread."""
        ...

    def reset_preempt(self) -> None:
        """Forget an earlier ``preempt``; called by the actor once it has seen it."""
        ...

    def close(self) -> None:
        """Let go of everything; never raises, never waits long; may be called twice."""
        ...
