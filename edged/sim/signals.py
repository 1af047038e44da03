"""Periodic signals and their samples: what a generator makes and a scope sees. Pure."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from random import Random
from typing import Final

__all__ = ["SILENCE", "Shape", "Wave", "sample"]

LONGEST_TILE: Final = 16_384
"""Values computed one by one; a longer trace repeats them."""


class Shape(enum.Enum):
    """The form of one period."""

    SINE = "sine"
    SQUARE = "square"
    RAMP = "ramp"
    DC = "dc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """A periodic signal: volts peak to peak around ``offset`` volts; ``duty`` from 0 to 1."""

    shape: Shape
    hertz: float = 1000.0
    volts_pp: float = 0.0
    offset: float = 0.0
    duty: float = 0.5

    def level(self, phase: float) -> float:
        """Volts at ``phase`` periods after a rising edge."""
        return self.offset + self._unit(phase % 1.0) * self.volts_pp / 2

    def _unit(self, phase: float) -> float:
        match self.shape:
            case Shape.SINE:
                return math.sin(2 * math.pi * phase)
            case Shape.SQUARE:
                return 1.0 if phase < self.duty else -1.0
            case Shape.RAMP:
                return 4 * abs((phase + 0.75) % 1.0 - 0.5) - 1
            case Shape.DC:
                return 0.0

    def rms_ac(self) -> float:
        """Root mean square of what changes, in volts."""
        match self.shape:
            case Shape.SINE:
                return self.volts_pp / 2 / math.sqrt(2)
            case Shape.SQUARE:
                return self.volts_pp * math.sqrt(self.duty * (1 - self.duty))
            case Shape.RAMP:
                return self.volts_pp / 2 / math.sqrt(3)
            case Shape.DC:
                return 0.0


SILENCE: Final = Wave(shape=Shape.DC)


def sample(
    wave: Wave, *, points: int, interval_s: float, start_s: float, noise_v: float, random: Random
) -> tuple[list[float], int]:
    """Volts of a stretch of ``wave``: values, and for how many points each of them holds.

    Of a long stretch only a whole number of periods is computed, at most ``LONGEST_TILE`` values;
    the rest repeats it, so that a million points cost as little as a few thousand.
    """
    step = wave.hertz * interval_s
    count, held = points, 1
    if points > LONGEST_TILE:
        period = 1 / step if step > 0 else float(LONGEST_TILE)
        held = max(1, math.ceil(period / LONGEST_TILE))
        periods = max(1, math.floor(LONGEST_TILE * held / period))
        count = max(1, min(math.ceil(points / held), round(periods * period / held)))
    first, each = start_s * wave.hertz, step * held
    level, gauss = wave.level, random.gauss
    return [level(first + i * each) + gauss(0.0, noise_v) for i in range(count)], held
