"""Stanford's lock-in amplifiers, whose sine output comes back through an RC low-pass. Pure.

With an external reference channel 1 of the first generator goes into that low-pass and is the
reference, where there is one.
"""

from __future__ import annotations

import cmath
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Final

from edged_sim.scpi import ScpiError, SimCall, SimUnit
from edged_sim.signals import Shape

OVER_SCALE: Final = 1.09
"""What is shown of more than full scale."""
GPIB: Final = 1
MOST_AUX_V: Final = 10.5
AUTO_S: Final = 0.3
IDLE_BITS: Final = 0x03
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


class LockIn(ABC):
    """The state of one unit. Its low-pass has its corner at ``corner_hz``.

    Attributes:
        sensitivities, time_constants: what the numbers of both stand for, in V and s.
        lists: settings that are a number of a list, with the highest one.
        internal: that one of them, and its number, which chooses the internal reference; without
            one there is no other.
        phases: the lowest and the highest that can be set, in degrees.
        snapped: the lowest and the highest item of ``SNAP?``, and how many it takes.
        digits: of a number in an answer.
    """

    corner_hz: ClassVar[float] = 1000.0
    noise_v: ClassVar[float] = 2e-8
    sensitivities: ClassVar[tuple[float, ...]]
    time_constants: ClassVar[tuple[float, ...]]
    lists: ClassVar[Mapping[str, int]]
    internal: ClassVar[tuple[str, int]] = ("", 0)
    phases: ClassVar[tuple[float, float]]
    snapped: ClassVar[tuple[int, int, int]]
    digits: ClassVar[int] = 6

    sensitivity: int
    time_constant: int
    aux: dict[int, float]

    def __init__(self, unit: SimUnit) -> None:
        self.random = unit.random
        self.world = unit.world
        self.status = unit.status
        self.interface = GPIB
        self.shown = 0j
        self.seen: float | None = None
        self.reset(0.0)

    def reset(self, now: float) -> None:  # noqa: ARG002 - the seam's argument
        """See ``ModelState``: the internal reference of 1 kHz; the interface stays what it is."""
        self.hertz, self.volts, self.phase, self.harmonic = 1000.0, 1.0, 0.0, 1
        self.is_internal = True
        self.choices = dict.fromkeys(self.lists, 0)
        self.busy_until = 0.0
        self.overloads = 0

    @abstractmethod
    def value(self, item: int, now: float) -> float:
        """What ``OUTP?`` and ``SNAP?`` number."""

    def text(self, value: float) -> str:
        """A number as it is answered."""
        return f"{value:.{self.digits}g}"

    def time_constant_s(self) -> float:
        """Seconds of its filter."""
        return self.time_constants[self.time_constant]

    def scale(self) -> float:
        """The most that is shown."""
        return self.sensitivities[self.sensitivity] * OVER_SCALE

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


def set_phase(unit: LockIn, call: SimCall) -> None:
    """``PHAS``: shown between -180 and 180 degrees."""
    lowest, highest = unit.phases
    degrees = call.number(0, lowest=lowest, highest=highest)
    unit.look(call.now)
    unit.phase = (degrees + 180) % 360 - 180


def set_sensitivity(unit: LockIn, call: SimCall) -> None:
    """``SENS`` and ``SCAL``: a number of the list."""
    unit.sensitivity = call.whole(0, lowest=0, highest=len(unit.sensitivities) - 1)


def set_time_constant(unit: LockIn, call: SimCall) -> None:
    """``OFLT``: a number of the list."""
    unit.look(call.now)
    unit.time_constant = call.whole(0, lowest=0, highest=len(unit.time_constants) - 1)


def set_aux(unit: LockIn, call: SimCall) -> None:
    """``AUXV 1,2.5`` and ``AUXO``."""
    number = call.whole(0, lowest=min(unit.aux), highest=max(unit.aux))
    unit.aux[number] = round(call.number(1, lowest=-MOST_AUX_V, highest=MOST_AUX_V), 3)


def snap(unit: LockIn, call: SimCall) -> str:
    """``SNAP? 1,2,3``: several values of one moment."""
    lowest, highest, most = unit.snapped
    if not 2 <= len(call.arguments) <= most:
        raise ScpiError(-109)
    items = [call.whole(i, lowest=lowest, highest=highest) for i in range(len(call.arguments))]
    return ",".join(unit.text(unit.value(item, call.now)) for item in items)


def auto_phase(unit: LockIn, call: SimCall) -> None:
    """``APHS``: all of the signal into X."""
    unit.phase += math.degrees(cmath.phase(unit.look(call.now)))
    unit.busy_until = call.now + AUTO_S


def status_byte(unit: LockIn, call: SimCall) -> str:
    """``*STB?``, or one bit of it: bit 0 no scan runs, bit 1 no command runs."""
    word = IDLE_BITS if call.now >= unit.busy_until else IDLE_BITS & ~0x02
    return str(word >> call.whole(0, lowest=0, highest=7) & 1) if call.has(0) else str(word)


def event_status(unit: LockIn, call: SimCall) -> str:
    """``*ESR?``, or one bit of it; what was read is cleared."""
    unit.status.drain()
    word = unit.status.events
    if call.has(0):
        bit = call.whole(0, lowest=0, highest=7)
        unit.status.events &= ~(1 << bit)
        return str(word >> bit & 1)
    unit.status.events = 0
    return str(word)


def overloads(unit: LockIn, call: SimCall) -> str:
    """``LIAS?``: cleared by reading."""
    unit.value(unit.snapped[0], call.now)
    word, unit.overloads = unit.overloads, 0
    return str(word)


def choose_interface(unit: LockIn, call: SimCall) -> None:
    """``OUTX 0`` (RS-232) or ``1`` (GPIB)."""
    unit.interface = call.whole(0, lowest=0, highest=1)


Command = Callable[[Any, SimCall], None]
Query = Callable[[Any, SimCall], str]


def heard(query: Query) -> Callable[[Any, SimCall], str | None]:
    """The query as it is answered: only where ``OUTX`` sends answers to this wire."""

    def answer(unit: LockIn, call: SimCall) -> str | None:
        said = query(unit, call)
        return said if unit.interface == GPIB else None

    return answer


def choices(model: type[LockIn]) -> tuple[dict[str, Command], dict[str, Query]]:
    """The commands and the queries of a model's ``lists``."""
    sets = {name: partial(_set_choice, name=name) for name in model.lists}
    asks = {f"{name}?": partial(_choice, name=name) for name in model.lists}
    return dict(sets), dict(asks)


def _choice(unit: LockIn, _call: SimCall, name: str) -> str:
    return str(unit.choices[name])


def _set_choice(unit: LockIn, call: SimCall, name: str) -> None:
    unit.look(call.now)
    unit.choices[name] = call.whole(0, lowest=0, highest=unit.lists[name])
    setting, number = unit.internal
    unit.is_internal = unit.choices.get(setting, number) == number
