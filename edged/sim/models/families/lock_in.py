"""Lock-in amplifiers whose sine output comes back through an RC low-pass. Pure.

With an external reference channel 1 of the first generator goes into that low-pass and is the
reference, where there is one.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Mapping
from typing import ClassVar, Final

from edged.sim.scpi import SimUnit
from edged.sim.signals import Shape

__all__ = ["OVER_SCALE", "LockIn", "one_three", "one_two_five"]

OVER_SCALE: Final = 1.09
"""What is shown of more than full scale."""
FUNDAMENTAL: Final[Mapping[Shape, float]] = {
    Shape.SINE: 1.0,
    Shape.SQUARE: 4 / math.pi,
    Shape.RAMP: 8 / math.pi**2,
}
"""Amplitude of the first harmonic over the signal's own; a lock-in sees nothing else."""


def one_two_five(lowest: int, highest: int) -> tuple[float, ...]:
    """1, 2 and 5 of each power of ten from ``lowest`` on, to 1 of ``highest``."""
    steps = (float(f"{digit}e{power}") for power in range(lowest, highest) for digit in (1, 2, 5))
    return (*steps, float(f"1e{highest}"))


def one_three(lowest: int, highest: int) -> tuple[float, ...]:
    """1 and 3 of each power of ten from ``lowest`` to ``highest``."""
    return tuple(
        float(f"{digit}e{power}") for power in range(lowest, highest + 1) for digit in (1, 3)
    )


class LockIn:
    """The state of one unit; the class of a model says where its low-pass has its corner."""

    corner_hz: ClassVar[float] = 1000.0
    noise_v: ClassVar[float] = 2e-8

    def __init__(self, unit: SimUnit) -> None:
        self.random = unit.random
        self.world = unit.world
        self.status = unit.status
        self.shown = 0j
        self.seen: float | None = None
        self.reset(0.0)

    def reset(self, now: float) -> None:  # noqa: ARG002 - the seam's argument
        """See ``ModelState``: the internal reference of 1 kHz."""
        self.hertz, self.volts, self.phase, self.harmonic = 1000.0, 1.0, 0.0, 1
        self.is_internal = True

    def time_constant_s(self) -> float:
        """Seconds of its filter."""
        raise NotImplementedError

    def reference(self) -> tuple[float, float]:
        """Hertz of the reference, and RMS volts of what goes into the low-pass."""
        node = self.world.signal()
        if self.is_internal or node is None:
            return self.hertz, self.volts
        wave = node.wave
        if wave.shape is Shape.DC or not wave.hertz:
            return 0.0, 0.0
        fundamental = FUNDAMENTAL[wave.shape] * wave.volts_pp / 2
        return wave.hertz, fundamental / math.sqrt(2)

    def look(self, now: float) -> complex:
        """X + jY as they are shown now: one time constant behind the input."""
        hertz, volts = self.reference()
        response = 1 / (1 + 1j * hertz / self.corner_hz)
        target = volts * response * cmath.exp(-1j * math.radians(self.phase))
        target *= 1.0 if self.harmonic == 1 else 0.0
        if self.seen is None:
            self.shown = target
        else:
            passed_s = max(0.0, now - self.seen)
            fade = math.exp(-passed_s / self.time_constant_s())
            self.shown = target + (self.shown - target) * fade
        self.seen = now
        return self.shown

    def noisy(self, now: float) -> complex:
        """The same with its noise."""
        return self.look(now) + complex(
            self.random.gauss(0.0, self.noise_v), self.random.gauss(0.0, self.noise_v)
        )
