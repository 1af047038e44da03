"""The fixed grid of a stream: when the next point is due, and which ones were missed. Pure.

Points are due at start, start + interval, start + 2 interval … before the end. A point that is
not begun by half an interval after it was due is skipped and counted, and never taken later.
"""

from __future__ import annotations

import math

from edged.record import record

LATEST_SHARE = 0.5
"""Of an interval: so late a point may begin; the nearest grid point is still this one."""


@record
class Due:
    """The next point: its number from 0, when it is due, and how many were skipped before it."""

    number: int
    at_s: float
    skipped: int


@record
class Grid:
    """A grid on the monotonic scale.

    Attributes:
        start_s: when point 0 is due.
    """

    start_s: float
    interval_ms: int
    duration_ms: int

    @property
    def points(self) -> int:
        """How many points the grid has; at least one."""
        return max(1, math.ceil(self.duration_ms / self.interval_ms))

    def at_s(self, number: int) -> float:
        """When a point is due; by multiplication, so that nothing adds up over a day."""
        return self.start_s + number * self.interval_ms / 1000

    def after(self, number: int, now_s: float) -> Due | None:
        """The next point after ``number`` (-1: the first) that can still be taken.

        Returns:
            ``None`` when the grid is over; ``missed_after`` counts what was skipped at its end.
        """
        following = max(number + 1, self._earliest(now_s))
        if following >= self.points:
            return None
        return Due(number=following, at_s=self.at_s(following), skipped=following - number - 1)

    def missed_after(self, number: int, now_s: float) -> int:
        """How many points after ``number`` are past and were not taken, up to the grid's end."""
        return max(0, min(self._earliest(now_s), self.points) - number - 1)

    def _earliest(self, now_s: float) -> int:
        """The first point that is not too late."""
        return math.ceil((now_s - self.start_s) / (self.interval_ms / 1000) - LATEST_SHARE)
