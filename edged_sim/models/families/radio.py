"""A radio-frequency bench: a filter between output and input, and a station on the air. Pure.

Analyzers of spectra and of networks look at the same things: a band-pass filter of one resonator,
which lies between the output (the tracking generator, port 1) and the input (port 2), and, where
nothing is sent, one carrier above the noise of the receiver.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Final

from edged_sim.scpi import ScpiError, SimCall

NOISE_DBM_PER_HZ: Final = -140.0
CARRIER_HZ: Final = 433e6
CARRIER_DBM: Final = -42.0
LEAST: Final = 1e-12
"""What stands for nothing before a logarithm is taken."""


@dataclass(frozen=True, slots=True)
class BandPass:
    """One series resonator in a line of 50 ohm: passive, reciprocal and without loss."""

    middle_hz: float
    quality: float

    def transmission(self, hertz: float) -> complex:
        """S21 and S12."""
        return 1 / (1 + self._detuned(hertz))

    def reflection(self, hertz: float) -> complex:
        """S11 and S22."""
        detuned = self._detuned(hertz)
        return detuned / (1 + detuned)

    def _detuned(self, hertz: float) -> complex:
        hertz = max(hertz, 1.0)
        return 1j * self.quality * (hertz / self.middle_hz - self.middle_hz / hertz)


FILTER: Final = BandPass(middle_hz=100e6, quality=10.0)


def decibels(ratio: complex) -> float:
    """20 log of a ratio of voltages."""
    return 20 * math.log10(max(abs(ratio), LEAST))


def in_steps(lowest: float, highest: float, steps: tuple[int, ...] = (1, 3)) -> tuple[float, ...]:
    """1, 3, 10, 30, …: the values that a bandwidth can have."""
    decades = range(math.floor(math.log10(lowest)), math.ceil(math.log10(highest)) + 1)
    values = (step * 10.0**decade for decade in decades for step in steps)
    return tuple(value for value in values if lowest <= value <= highest)


@dataclass(slots=True)
class Span:
    """What part of the spectrum is swept; one end pushes the other before it."""

    lowest: float
    highest: float
    narrowest: float
    start: float = 0.0
    stop: float = 0.0

    def __post_init__(self) -> None:
        self.start, self.stop = self.lowest, self.highest

    @property
    def middle(self) -> float:
        """The centre frequency."""
        return (self.start + self.stop) / 2

    @property
    def width(self) -> float:
        """The span."""
        return self.stop - self.start

    def begin(self, call: SimCall) -> None:
        """``FREQ:STAR``."""
        self.start = call.number(
            0, lowest=self.lowest, highest=self.highest - self.narrowest, unit="HZ"
        )
        self.stop = max(self.stop, self.start + self.narrowest)

    def end(self, call: SimCall) -> None:
        """``FREQ:STOP``."""
        self.stop = call.number(
            0, lowest=self.lowest + self.narrowest, highest=self.highest, unit="HZ"
        )
        self.start = min(self.start, self.stop - self.narrowest)

    def centre(self, call: SimCall) -> None:
        """``FREQ:CENT``: the span becomes narrower where it would not fit."""
        middle = call.number(0, lowest=self.lowest, highest=self.highest, unit="HZ")
        half = min(self.width / 2, middle - self.lowest, self.highest - middle)
        self.start, self.stop = middle - half, middle + half

    def widen(self, call: SimCall) -> None:
        """``FREQ:SPAN``: the centre moves where it would not fit; 0 is one frequency."""
        width = call.number(0, lowest=0.0, highest=self.highest - self.lowest, unit="HZ")
        if 0 < width < self.narrowest:
            raise ScpiError(-222)
        middle = min(max(self.middle, self.lowest + width / 2), self.highest - width / 2)
        self.start, self.stop = middle - width / 2, middle + width / 2

    def frequency(self, place: int, points: int) -> float:
        """Of one of so many points."""
        return self.start + self.width * place / (points - 1)


class Receiver(ABC):
    """What sweeps a span: continuously, or once when it is told; a sweep takes its time.

    A sweep that was begun is whole when ``busy_until`` has come; ``trace`` is what it found.
    """

    most_points: ClassVar[int]
    least_points: ClassVar[int]
    usual_points: ClassVar[int]

    span: Span

    def __init__(self, random: Random) -> None:
        self.random = random
        self.reset(0.0)

    def reset(self, now: float) -> None:
        """See ``ModelState``; a model's own comes after it."""
        self.points = self.usual_points
        self.is_continuous = True
        self.busy_until = now
        self.trace: tuple[complex, ...] = ()

    @property
    @abstractmethod
    def sweep_s(self) -> float:
        """How long a sweep takes."""

    @abstractmethod
    def sample(self, hertz: float) -> complex:
        """What a sweep finds at one frequency; the model says in which unit."""

    def sweep(self, now: float) -> None:
        """Begin one sweep."""
        self.busy_until = now + self.sweep_s
        self.trace = tuple(
            self.sample(self.span.frequency(place, self.points)) for place in range(self.points)
        )

    def seen(self, now: float) -> tuple[complex, ...]:
        """The trace that is there: of now while it sweeps continuously, else of the last sweep."""
        if self.is_continuous or not self.trace:
            self.sweep(now)
            self.busy_until = now
        return self.trace

    def set_points(self, call: SimCall) -> None:
        """``SWE:POIN``: what was swept before has another number."""
        self.points = call.whole(0, lowest=self.least_points, highest=self.most_points)
        self.trace = ()

    def noise_dbm(self, bandwidth_hz: float) -> float:
        """Of the receiver, in a bandwidth."""
        return NOISE_DBM_PER_HZ + 10 * math.log10(bandwidth_hz) + self.random.gauss(0.0, 1.0)

    def carrier_dbm(self, hertz: float, bandwidth_hz: float) -> float:
        """Of the station, as wide as the filter that looks at it."""
        away = (hertz - CARRIER_HZ) / bandwidth_hz
        return CARRIER_DBM - 12.0 * away * away

    def describe(self, now: float) -> Mapping[str, Any]:
        return {
            "start_hz": self.span.start,
            "stop_hz": self.span.stop,
            "points": self.points,
            "is_continuous": self.is_continuous,
            "is_sweeping": self.is_continuous or now < self.busy_until,
        }


def power_sum(*levels_dbm: float) -> float:
    """Levels of signals that have nothing to do with one another, together."""
    return 10 * math.log10(sum(10 ** (level / 10) for level in levels_dbm))
