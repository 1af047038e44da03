"""A bath whose circulator heats and cools it towards a set-point while it runs. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from edged_sim.scpi import SimUnit

AMBIENT_C: Final = 22.0
SETTLE_S: Final = 1.5
"""Real ones take minutes; nobody waits for that on a simulated bench."""
NOISE_C: Final = 0.004


class Bath:
    """What circulators of all makers have: a set-point, a switch and a temperature."""

    lowest_c: float
    highest_c: float

    def __init__(self, unit: SimUnit) -> None:
        self.random = unit.random
        self.celsius = AMBIENT_C
        self._seen: float | None = None
        self.reset(0.0)

    def reset(self, now: float) -> None:  # noqa: ARG002 - the seam's argument
        """See ``ModelState``: standing still at its usual set-point, the bath as warm as it is."""
        self.setpoint = 20.0
        self.is_running = False

    def describe(self, now: float) -> Mapping[str, Any]:
        self.advance(now)
        return {
            "setpoint": self.setpoint,
            "is_on": self.is_running,
            "celsius": self.celsius,
        }

    def advance(self, now: float) -> None:
        """Let the time since the last look pass."""
        passed_s = 0.0 if self._seen is None else max(0.0, now - self._seen)
        self._seen = now
        target = self.setpoint if self.is_running else AMBIENT_C
        self.celsius = target + (self.celsius - target) * math.exp(-passed_s / SETTLE_S)

    def measured(self, now: float) -> float:
        """What its sensor tells."""
        self.advance(now)
        return self.celsius + self.random.gauss(0.0, NOISE_C)

    @property
    def percent(self) -> float:
        """Of its power, that it heats (or, below 0, cools) with."""
        if not self.is_running:
            return 0.0
        return max(-100.0, min(100.0, 10.0 * (self.setpoint - self.celsius)))
