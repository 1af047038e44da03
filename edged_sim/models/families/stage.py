"""A cold stage with a sensor and a heater, as every maker's temperature controller has it. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

BASE_K: Final = 77.35
"""Nitrogen cools it."""
SETTLE_S: Final = 2.0
"""Real ones take minutes; nobody waits for that on a simulated bench."""
NOISE_K: Final = 0.002


@dataclass(slots=True, kw_only=True)
class Stage:
    """What the heater warms and the nitrogen cools; ``warm`` is told where it would end."""

    kelvin: float = BASE_K
    seen: float | None = None

    def passed(self, now: float) -> float:
        """Seconds since the last look, which this is."""
        passed_s = 0.0 if self.seen is None else max(0.0, now - self.seen)
        self.seen = now
        return passed_s

    def warm(self, target: float, passed_s: float) -> None:
        """Let time pass on the way to ``target``."""
        self.kelvin = target + (self.kelvin - target) * math.exp(-passed_s / SETTLE_S)

    def percent(self, setpoint: float, rise_k: float) -> float:
        """How much of what warms by ``rise_k`` its controller gives."""
        if not rise_k:
            return 0.0
        wanted = (setpoint - BASE_K + 3 * (setpoint - self.kelvin)) / rise_k
        return max(0.0, min(100.0, 100 * wanted))
