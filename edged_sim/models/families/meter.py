"""Multimeters across the main load; their current terminals are open. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from edged_sim.scpi import Settings, SimCall, SimUnit, below, nearest_at_least

LINE_CYCLE_S: Final = 0.02
OVERLOAD: Final = 9.9e37
OVER_RANGE: Final = 1.2
NOISE_OF_RANGE: Final = 1e-6
LIVE_V: Final = 0.01
"""A resistance measurement means nothing above this voltage across the resistor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterFunction:
    """One measuring function: its header, its ranges, and which settings exist for it."""

    header: str
    ranges: tuple[float, ...] = ()
    has_nplc: bool = False
    has_band: bool = False


@dataclass(slots=True, kw_only=True)
class MeterSettings:
    """What one function is set to; ``range`` counts only while ``is_auto`` is False."""

    range: float
    nplc: float
    band_hz: float
    is_auto: bool = True
    has_autozero: bool = True
    averages: int = 10
    has_average: bool = False


class Meter:
    """The state of one unit; the class of a model says what it has and how good it is.

    Attributes:
        functions: by their short names; the first is what is measured as delivered.
        nplc, band_hz: settings as delivered.
        least_nplc: below it the noise grows no more.
        unclocked_s: what a reading takes that does not go by power line cycles.
    """

    functions: ClassVar[Mapping[str, MeterFunction]]
    gain_error: ClassVar[float]
    nplc: ClassVar[float]
    band_hz: ClassVar[float]
    least_nplc: ClassVar[float]
    unclocked_s: ClassVar[float]

    def __init__(self, unit: SimUnit) -> None:
        self.node = unit.world.main()
        self.gain = 1 + unit.random.uniform(-self.gain_error, self.gain_error)
        self.memory: list[float] = []
        self.reset(0.0)

    def reset(self, now: float) -> None:  # noqa: ARG002 - the seam's argument
        self.function = next(iter(self.functions))
        self.settings = {name: self.delivered(name) for name in self.functions}
        self.samples = 1
        self.memory.clear()

    def delivered(self, function: str) -> MeterSettings:
        """The settings of a function as delivered."""
        highest = max(self.functions[function].ranges, default=0.0)
        return MeterSettings(range=highest, nplc=self.nplc, band_hz=self.band_hz)

    def reading_s(self) -> float:
        """Seconds that one reading of the present function takes."""
        settings = self.settings[self.function]
        repeats = settings.averages if settings.has_average else 1
        if not self.functions[self.function].has_nplc:
            return self.unclocked_s * repeats
        return settings.nplc * LINE_CYCLE_S * (2 if settings.has_autozero else 1) * repeats

    def ranged(self, value: float, call: SimCall) -> float:
        """A value as the present function's range, noise and calibration show it."""
        settings = self.settings[self.function]
        limit = settings.range
        if settings.is_auto:
            ranges = self.functions[self.function].ranges
            limit = nearest_at_least(abs(value) / OVER_RANGE, ranges)
        if not math.isfinite(value) or abs(value) > limit * OVER_RANGE:
            return OVERLOAD
        spread = NOISE_OF_RANGE * limit / math.sqrt(max(settings.nplc, self.least_nplc))
        return value * self.gain + call.random.gauss(0.0, spread)

    def ohms(self, now: float) -> float:
        """The load's resistance; infinite while it carries a voltage."""
        node = self.node.advance(now)
        return node.load_ohms if abs(node.volts) < LIVE_V else math.inf


def set_range(unit: Meter, call: SimCall, function: str) -> None:
    """``:SENS:VOLT:RANG``: the range that holds the value; autorange is off after it."""
    ranges = unit.functions[function].ranges
    asked = abs(call.number(0, lowest=-ranges[-1], highest=ranges[-1], default=ranges[-1]))
    unit.settings[function].range = nearest_at_least(asked, ranges)
    unit.settings[function].is_auto = False


SETTINGS: Final = Settings(of=lambda u, _c, which: u.settings[which])


def range_words(
    say: Callable[[float], str], choose: Callable[..., None] = set_range
) -> dict[str, Any]:
    """``:SENS:VOLT:RANG`` and whether it is chosen by itself."""
    return {
        ":RANGe[:UPPer]": choose,
        ":RANGe[:UPPer]?": lambda u, _c, function: say(u.settings[function].range),
        **SETTINGS.switch(":RANGe:AUTO", "is_auto"),
    }


def function_words(
    sense: str,
    functions: Mapping[str, MeterFunction],
    *,
    each: Mapping[str, Any],
    ranged: Mapping[str, Any],
    clocked: Mapping[str, Any],
    banded: Mapping[str, Any],
) -> dict[str, Any]:
    """The words that functions have for themselves, below ``sense`` and their headers.

    Args:
        each: of every function.
        ranged, clocked, banded: of those with ranges, NPLC, a bandwidth; the others do not have
            these headers.
    """
    table: dict[str, Any] = {}
    for name, function in functions.items():
        header = sense + function.header
        table |= below(header, name, each)
        table |= below(header, name, ranged if function.ranges else {})
        table |= below(header, name, clocked if function.has_nplc else {})
        table |= below(header, name, banded if function.has_band else {})
    return table
