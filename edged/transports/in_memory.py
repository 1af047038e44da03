"""A link to a simulated instrument on the same event loop: its wire is in memory.

No socket and no thread has a part in it, so that nothing is under way that the loop does not know
of: what virtual time needs (``edged/engine/virtual_time.py``). It carries bytes, as a TCP socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from edged.clock import Clock
from edged.transports.link import LinkBase, LinkLost, LinkOverlong, LinkTimeout
from edged.transports.loop_wake import LoopWake
from edged.transports.tcp import MAX_MESSAGE_BYTES, line_end_by


class Joined(Protocol):
    """One connection, as the instrument's end has it."""

    def hear(self, data: bytes) -> bool:
        """Bytes for the instrument; False: it takes no more now, and some of them are lost."""
        ...

    def leave(self) -> None:
        """The engine's end has closed it; what was heard is still done."""
        ...


class FarEnd(Protocol):
    """The instrument's end of a wire."""

    @property
    def address(self) -> str:
        """What the wire is called: a VISA address."""
        ...

    def join(self, say: Callable[[bytes], None], end: Callable[[], None]) -> Joined | None:
        """Connect.

        Args:
            say: takes what the instrument says, on the loop.
            end: called there when the instrument closes the connection.

        Returns:
            ``None``: it takes no connection now.
        """
        ...


class InMemoryLink(LinkBase):
    """See ``Link``; made on the loop.

    Args:
        far_end: the instrument's.
    """

    def __init__(self, far_end: FarEnd, clock: Clock) -> None:
        self._on_loop = LoopWake(asyncio.get_running_loop())
        super().__init__(clock, self._on_loop)
        self._far_end = far_end
        # None while closed, by either end.
        self._joined: Joined | None = None
        # Came in and was not asked for yet.
        self._came = bytearray()

    def open(self, timeout_s: float) -> None:  # noqa: ARG002 - the seam's
        self.close()
        self._came.clear()
        self._joined = self._far_end.join(self._hear, self._end)
        if self._joined is None:
            raise LinkLost(f"{self._far_end.address} takes no connection")

    def write(self, data: bytes, timeout_s: float) -> None:  # noqa: ARG002 - the seam's
        self._wake.check()
        if not self._connection().hear(data):
            raise LinkTimeout("the instrument takes no more messages")

    def read_message(self, terminator: bytes, timeout_s: float) -> bytes:
        deadline, came = self._clock.monotonic() + timeout_s, self._came
        try:
            while (end := came.find(terminator)) < 0:
                if len(came) > MAX_MESSAGE_BYTES:
                    raise LinkOverlong(f"{len(came)} bytes came without a line end")
                self._receive(line_end_by(came, deadline, self._clock) if came else deadline)
        except (LinkTimeout, LinkLost) as ended:
            ended.came = bytes(came)
            raise
        message = bytes(came[:end])
        del came[: end + len(terminator)]
        return message

    def read_exactly(self, count: int, timeout_s: float) -> bytes:
        deadline, came = self._clock.monotonic() + timeout_s, self._came
        try:
            while len(came) < count:
                self._receive(deadline)
        except (LinkTimeout, LinkLost) as ended:
            ended.came = bytes(came)
            raise
        data = bytes(came[:count])
        del came[:count]
        return data

    def pending(self) -> bytes:
        self._connection()
        unasked = bytes(self._came)
        self._came.clear()
        return unasked

    def is_quiet(self) -> bool:
        return self._joined is not None and not self._came

    def close(self) -> None:
        joined, self._joined = self._joined, None
        if joined is not None:
            joined.leave()

    # The instrument's side

    def _hear(self, data: bytes) -> None:
        self._came += data
        self._on_loop.resume_soon(self._on_loop)

    def _end(self) -> None:
        self._joined = None
        self._on_loop.resume_soon(self._on_loop)

    def _receive(self, deadline: float) -> None:
        """Wait for more; returns when some has come, or for another reason."""
        self._connection()
        left_s = deadline - self._clock.monotonic()
        if left_s <= 0:
            raise LinkTimeout("nothing came before the time limit")
        self._wake.listen(left_s)

    def _connection(self) -> Joined:
        if self._joined is None:
            raise LinkLost("the instrument closed the connection")
        return self._joined
