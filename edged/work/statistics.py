"""Mean, deviation and extremes of values as they come, in constant memory (Welford). Pure.

Source: B. P. Welford, Technometrics 4 (1962) 419.
"""

from __future__ import annotations

import math

__all__ = ["RunningStats"]


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


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
