"""The output buffer of an instrument whose reader has to ask for what it says (VXI-11, GPIB)."""

from __future__ import annotations

import asyncio
from collections import deque


class HeldOutput:
    """A ``Mouth`` that keeps what is said until it is fetched."""

    is_stream = False

    def __init__(self) -> None:
        self._parts: deque[tuple[bytes, bool]] = deque()
        self._news = asyncio.Event()
        # The instrument breaks off (in order, or not) with what is fetched next.
        self.has_ended = False
        self.was_reset = False

    async def say(self, data: bytes, *, is_end: bool, tag: int) -> None:  # noqa: ARG002 - the seam's
        self._parts.append((data, is_end))
        self._news.set()

    def end(self) -> None:
        self.has_ended = True
        self._news.set()

    def reset(self) -> None:
        self.was_reset = True
        self._news.set()

    @property
    def is_waiting(self) -> bool:
        """Whether something was said and not fetched: MAV."""
        return bool(self._parts)

    def clear(self) -> None:
        """A new message interrupts the old answer (IEEE 488.2, 6.3.2.3): its rest goes."""
        self._parts.clear()

    def wake(self) -> None:
        """End a ``wait`` early: an abort."""
        self._news.set()

    async def wait(self, seconds: float) -> bool:
        """Until there is something to fetch; False after ``seconds`` or a ``wake`` for nothing."""
        if not (self._parts or self.has_ended or self.was_reset):
            self._news.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._news.wait()
            except TimeoutError:
                return False
        return bool(self._parts or self.has_ended or self.was_reset)

    def fetch(self, most: int) -> tuple[bytes, bool]:
        """At most so many bytes of the oldest part, and whether the message ends with them."""
        if not self._parts:
            return b"", False
        data, is_end = self._parts.popleft()
        if len(data) > most:
            self._parts.appendleft((data[most:], is_end))
            return data[:most], False
        return data, is_end
