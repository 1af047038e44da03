"""The rows of one sweep in memory: bounded, and handed out evenly.

Everything measured is on the disk (``runs.py``); these are for looking at while it goes on. When
there are too many, every second one is dropped and from then on every second one is kept, so that
the whole sweep stays in view.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from edged.profiles.model import Scalar

__all__ = ["Cell", "SweepRows"]

Cell = Scalar | None

MAX_ROWS: Final = 10_000
"""Some 2 MB a sweep; more than any model or plot can use."""


class SweepRows:
    """Rows under fixed columns.

    Args:
        columns: (name, unit) of each, in order.
    """

    def __init__(self, columns: Sequence[tuple[str, str]]) -> None:
        self.columns = tuple(columns)
        self.count = 0
        self._kept: list[tuple[Cell, ...]] = []
        self._every = 1
        self._last: tuple[Cell, ...] | None = None

    def append(self, row: tuple[Cell, ...]) -> None:
        """One more row."""
        if self.count % self._every == 0:
            self._kept.append(row)
        self._last = row
        self.count += 1
        if len(self._kept) > MAX_ROWS:
            self.thin(MAX_ROWS // 2)

    def thin(self, most: int) -> None:
        """Keep at most so many, evenly."""
        while len(self._kept) > most:
            self._kept = self._kept[::2]
            self._every *= 2

    def evenly(self, most: int) -> list[dict[str, Any]]:
        """At most ``most`` rows over the whole sweep, oldest first, the newest among them."""
        if most <= 0 or self._last is None:
            return []
        rows = self._kept if self._kept[-1] is self._last else [*self._kept, self._last]
        names = [name for name, _ in self.columns]
        return [dict(zip(names, rows[i], strict=True)) for i in _picked(len(rows), most)]

    def units(self) -> list[dict[str, str]]:
        """{name, unit} of each column."""
        return [{"name": name, "unit": unit} for name, unit in self.columns]


def _picked(count: int, most: int) -> list[int]:
    if count <= most:
        return list(range(count))
    if most == 1:
        return [count - 1]
    return [round(i * (count - 1) / (most - 1)) for i in range(most)]
