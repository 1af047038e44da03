"""Time, as something that is handed in.

Nobody else in edged reads the time: whoever needs it takes a ``Clock``, so that tests drive it.
Durations and deadlines are on the monotonic scale in seconds; what people read is Unix epoch
milliseconds.
"""

from __future__ import annotations

import time
from typing import Final, Protocol

RELEASED_MS: Final = 1_767_225_600_000
"""The beginning of 2026: a clock that says less has not been set."""


class Clock(Protocol):
    """The two scales of time and the one way to let it pass."""

    def monotonic(self) -> float:
        """Seconds on a scale that never goes back; its zero means nothing."""
        ...

    def wall_ms(self) -> int:
        """Unix epoch milliseconds, as the machine believes; may jump."""
        ...

    def wall_ns(self) -> int:
        """The same in nanoseconds, for what is noted of every call."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let that many monotonic seconds pass; zero or less is one turn of the loop."""
        ...


class SystemClock:
    """The machine's own time."""

    # The functions themselves: a hardware call reads them some thirty times.
    monotonic = staticmethod(time.monotonic)
    wall_ns = staticmethod(time.time_ns)

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        # Here and not above: the command line, which writes times, is up before asyncio would be.
        import asyncio

        await asyncio.sleep(max(0.0, seconds))


def ago(seconds: float) -> str:
    """How long ago something was, for people: "12 s ago", "3 min ago", "5 h ago", "2 days ago"."""
    for unit, length_s in (("days", 2 * 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length_s:
            return f"{int(seconds / (86_400 if unit == 'days' else length_s))} {unit} ago"
    return f"{max(0, int(seconds))} s ago"
