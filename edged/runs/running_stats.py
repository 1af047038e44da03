"""Mean, deviation and extremes of values as they come, in constant memory (Welford). Pure.

Source: B. P. Welford, Technometrics 4 (1962) 419.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

LARGEST: Final = 1e308


class RunningStats:
    """Of the numbers seen so far; those that are not finite are passed over."""

    __slots__ = ("_mean", "_squares", "count", "highest", "lowest")

    def __init__(self) -> None:
        self.count = 0
        self.lowest = math.inf
        self.highest = -math.inf
        self._mean = 0.0
        self._squares = 0.0

    def add(self, value: float) -> None:
        """One more."""
        if not math.isfinite(value):
            return
        self.count += 1
        delta = value - self._mean
        self._mean += delta / self.count
        self._squares += delta * (value - self._mean)
        self.lowest = min(self.lowest, value)
        self.highest = max(self.highest, value)

    def told(self) -> dict[str, float | None]:
        """{mean, std, min, max}; ``std`` is the sample's (n - 1), ``None`` where there is none."""
        if self.count == 0:
            return {"mean": None, "std": None, "min": None, "max": None}
        spread = math.sqrt(self._squares / (self.count - 1)) if self.count > 1 else None
        return {
            "mean": _finite(self._mean),
            "std": None if spread is None else _finite(spread),
            "min": self.lowest,
            "max": self.highest,
        }


class TableStats:
    """Of each column of a table; cells that are no numbers are passed over.

    Args:
        columns: their names, in the order of the cells.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple((name, RunningStats()) for name in columns)

    def add(self, row: Sequence[object]) -> None:
        """One more row."""
        for (_, stats), cell in zip(self._columns, row, strict=False):
            # A truth is an int, and no number; and an int may be too large for a float.
            if (type(cell) is float or type(cell) is int) and -LARGEST < cell < LARGEST:
                stats.add(cell)

    def told(self) -> dict[str, dict[str, Any]]:
        """{column: {mean, std, min, max, n}} of those with a number in them."""
        return {
            name: {**stats.told(), "n": stats.count} for name, stats in self._columns if stats.count
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
