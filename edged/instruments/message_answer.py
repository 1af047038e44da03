"""An answer gathered in pieces and taken in parts, whether or not the wire marks where it ends."""

from __future__ import annotations

from collections.abc import Callable

from edged.clock import Clock
from edged.instruments.link import LinkGarbled
from edged.instruments.socket_stream import MAX_MESSAGE_BYTES

__all__ = ["MessageAnswer"]

More = Callable[[float], None]
"""Fetches the next piece and adds it; takes the monotonic deadline, and raises a ``LinkError``."""


class MessageAnswer:
    """What has arrived of one answer; once it was taken whole, of the one after it.

    Args:
        more: fetches the next piece.
        clock: the time.

    Attributes:
        has_end: the last piece said that nothing follows.
    """

    def __init__(self, more: More, clock: Clock) -> None:
        self._more = more
        self._clock = clock
        self._bytes = bytearray()
        self.has_end = False
        # Up to its end: whoever takes on wants the message after it, where one comes.
        self._is_taken = False

    def add(self, data: bytes | bytearray | memoryview, *, has_end: bool = False) -> None:
        """A piece has arrived."""
        self._bytes += data
        self.has_end = has_end
        self._is_taken = False

    def forget(self) -> None:
        """Another message is written; what came belongs to no question any more."""
        self._bytes.clear()
        self.has_end = self._is_taken = False

    def take_rest(self) -> bytes:
        """What is here and was not asked for."""
        rest = bytes(self._bytes)
        self._bytes.clear()
        self._is_taken = self.has_end
        return rest

    def take_message(
        self, terminator: bytes, timeout_s: float, *, ends_at_terminator: bool = False
    ) -> bytes:
        """The rest of the message, or the next one after an end; without its terminator.

        Args:
            terminator: what an instrument puts at its end.
            timeout_s: how long pieces may take to come, together.
            ends_at_terminator: below may lie a wire that marks no end.

        Raises:
            LinkError: as ``more`` does; ``LinkGarbled`` when it does not end.
        """
        deadline = self._clock.monotonic() + timeout_s
        if self._is_taken:
            self.forget()
        while not self.has_end and not (ends_at_terminator and terminator in self._bytes):
            self._more(deadline)
            if len(self._bytes) > MAX_MESSAGE_BYTES:
                raise LinkGarbled(f"{len(self._bytes)} bytes came without an end")
        if not self.has_end:
            end = self._bytes.index(terminator)
            message = bytes(self._bytes[:end])
            del self._bytes[: end + len(terminator)]
            return message
        return self.take_rest().removesuffix(terminator)

    def take_exactly(self, count: int, timeout_s: float) -> bytes:
        """The next ``count`` bytes, for blocks.

        Raises:
            LinkError: as ``more`` does; ``LinkGarbled`` when the message ends before.
        """
        deadline = self._clock.monotonic() + timeout_s
        while len(self._bytes) < count:
            if self.has_end:
                raise LinkGarbled("the answer ended before it was whole")
            self._more(deadline)
        data = bytes(self._bytes[:count])
        del self._bytes[:count]
        return data
