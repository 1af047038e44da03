"""What a trace says in few numbers: its figures, its frequency, its outline. Pure.

A sample may be NaN or infinite (an instrument's "no value"); such are passed over, and told by
their number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

__all__ = ["Outline", "frequency_of", "outline_of", "short", "summary_of"]

HYSTERESIS: Final = 0.1
"""Of peak to peak, on both sides of the middle: what noise may do without counting as a period."""
UNUSUAL: Final = 0.02
"""The share of the samples that is left out at each end when a wave is looked for."""
SAMPLED: Final = 4_096
MAX_SPREAD: Final = 0.25
"""Standard deviation of the periods over their mean, beyond which there is no one frequency."""
Outline = tuple[list[float | None], list[float | None]]
"""The lowest and the highest of each stretch; ``None`` where a stretch has no finite sample."""


def summary_of(values: Sequence[float], x_increment: float, x_unit: str) -> dict[str, Any]:
    """{y_min, y_max, y_mean, y_rms, y_peak_to_peak, frequency, frequency_unit, periods, …}.

    ``frequency`` is an estimate and ``None`` for what is no regular wave of at least two rising
    edges; ``not_finite`` counts the samples that are no number.
    """
    finite = [value for value in values if math.isfinite(value)]
    told: dict[str, Any] = {
        "y_min": None,
        "y_max": None,
        "y_mean": None,
        "y_rms": None,
        "y_peak_to_peak": None,
        "frequency": None,
        "frequency_unit": "Hz" if x_unit == "s" else f"1/{x_unit}" if x_unit else "",
        "periods": 0,
        "not_finite": len(values) - len(finite),
    }
    if not finite:
        return told
    lowest, highest = min(finite), max(finite)
    if len(finite) < len(values):
        # An infinity would be an edge.
        values = [value if math.isfinite(value) else math.nan for value in values]
    frequency, periods = frequency_of(values, x_increment, *_usual_range(finite))
    if frequency is None:
        # Short pulses are none of what is usual.
        frequency, periods = frequency_of(values, x_increment, lowest, highest)
    return told | {
        "y_min": short(lowest),
        "y_max": short(highest),
        "y_mean": short(math.fsum(finite) / len(finite)),
        "y_rms": short(math.sqrt(math.fsum(value * value for value in finite) / len(finite))),
        "y_peak_to_peak": short(highest - lowest),
        "frequency": None if frequency is None else short(frequency),
        "periods": periods,
    }


def _usual_range(finite: Sequence[float]) -> tuple[float, float]:
    """Between which values most samples lie: one spike must not hide a wave."""
    some = sorted(finite[:: len(finite) // SAMPLED + 1])
    margin = int(len(some) * UNUSUAL)
    return some[margin], some[len(some) - 1 - margin]


def frequency_of(
    values: Sequence[float], x_increment: float, lowest: float, highest: float
) -> tuple[float | None, int]:
    """Periods per unit of x by the rising edges, and of how many periods that is the mean.

    An edge is where the trace rises through the middle by more than the hysteresis; its place is
    interpolated. ``None`` with fewer than two edges, or where the periods differ too much.
    """
    height = highest - lowest
    if not (height > 0 and math.isfinite(height) and x_increment > 0):
        return None, 0
    middle = lowest + height / 2
    over, under = middle + HYSTERESIS * height, middle - HYSTERESIS * height
    edges: list[float] = []
    is_low = False
    before = math.nan
    for index, value in enumerate(values):
        if value < under:
            is_low = True
        elif is_low and value > over:
            is_low = False
            # The sample before is at most ``over`` (or no number): the edge is between the two.
            rise = value - before
            edges.append(index - ((value - over) / rise if rise > 0 else 0.0))
        before = value
    if len(edges) < 2:
        return None, 0
    count = len(edges) - 1
    period = (edges[-1] - edges[0]) / count
    spread = math.sqrt(math.fsum((b - a - period) ** 2 for a, b in pairwise(edges)) / count)
    if spread > MAX_SPREAD * period:
        return None, 0
    return 1 / (period * x_increment), count


def outline_of(values: Sequence[float], stretches: int) -> tuple[int, Outline]:
    """Samples a stretch, and the extremes of each of at most so many stretches."""
    size = max(1, math.ceil(len(values) / stretches))
    lows: list[float | None] = []
    highs: list[float | None] = []
    for start in range(0, len(values), size):
        finite = [value for value in values[start : start + size] if math.isfinite(value)]
        lows.append(short(min(finite)) if finite else None)
        highs.append(short(max(finite)) if finite else None)
    return size, (lows, highs)


def short(value: float) -> float | None:
    """With the digits that a 32-bit float has; JSON knows no infinity."""
    return float(f"{value:.7g}") if math.isfinite(value) else None
