"""Stanford SR830: a lock-in amplifier whose sine output comes back through an RC low-pass.

With the external reference channel 1 of the first generator goes into that low-pass and is the
reference, where there is one.

Quirks kept: answers go only to the interface that ``OUTX`` chose (here 1, GPIB), to the other one
silence; there is no ``SYST:ERR?``, only ``*ESR?``, ``ERRS?`` and ``LIAS?``, which are cleared by
reading; sensitivities, time constants and slopes are numbers of a list; the sine output cannot be
switched off; the automatic functions run on and bit 1 of ``*STB?`` tells their end; what is shown
follows the input as slowly as the time constant says. Source: the manuals that
profiles/srs_sr830.yaml names.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from edged.sim.models.families.lock_in import OVER_SCALE, LockIn, one_three, one_two_five
from edged.sim.scpi import Dialect, ModelSpec, ScpiError, SimCall, SimUnit, Vocabulary

GPIB: Final = 1
LOWEST_HZ, HIGHEST_HZ = 0.001, 102_000.0
LOWEST_V, HIGHEST_V, STEP_V = 0.004, 5.0, 0.002
SENSITIVITIES: Final = one_two_five(-9, 0)[1:]
TIME_CONSTANTS: Final = one_three(-5, 4)
AUTO_S: Final = 0.3
OUTPUT_OVERLOAD: Final = 4
IDLE_BITS: Final = 0x03
MOST_AUX_V: Final = 10.5
SNAP_ITEMS: Final = 11
LISTS: Final[Mapping[str, int]] = {
    "OFSL": 3,
    "ISRC": 3,
    "ICPL": 1,
    "IGND": 1,
    "ILIN": 3,
    "RMOD": 2,
    "SYNC": 1,
    "FMOD": 1,
    "RSLP": 2,
}
"""Settings that are a number of a list, with the highest one."""


class Sr830(LockIn):
    """The state of one unit."""

    def __init__(self, unit: SimUnit) -> None:
        self.idn = f"Stanford_Research_Systems,SR830,{unit.serial},ver1.07"
        self.interface = GPIB
        super().__init__(unit)

    def reset(self, now: float) -> None:
        """See ``ModelState``; the interface stays what it is."""
        super().reset(now)
        self.sensitivity, self.time_constant = 26, 8
        self.choices = {"OFSL": 1, "FMOD": 1} | {n: 0 for n in LISTS if n not in ("OFSL", "FMOD")}
        self.aux = dict.fromkeys(range(1, 5), 0.0)
        self.busy_until = 0.0
        self.overloads = 0

    def time_constant_s(self) -> float:
        """See ``LockIn``."""
        return TIME_CONSTANTS[self.time_constant]

    def describe(self, now: float) -> Mapping[str, Any]:
        """See ``ModelState``."""
        shown = self.look(now)
        return {
            "hertz": self.hertz,
            "volts": self.volts,
            "interface": self.interface,
            "r": abs(shown),
            "theta": math.degrees(cmath.phase(shown)) if shown else 0.0,
            "aux": dict(self.aux),
        }

    def value(self, item: int, now: float) -> float:
        """What ``OUTP?`` and ``SNAP?`` number: X, Y, R, theta, four inputs, frequency, displays."""
        shown = self.noisy(now)
        scale = SENSITIVITIES[self.sensitivity] * OVER_SCALE
        if abs(shown) > scale:
            self.overloads |= OUTPUT_OVERLOAD
            shown *= scale / abs(shown)
        values = {
            1: shown.real,
            2: shown.imag,
            3: abs(shown),
            4: math.degrees(cmath.phase(shown)),
            9: self.reference()[0],
            10: shown.real,
            11: shown.imag,
        }
        return values.get(item, 0.0)


def _number(value: float) -> str:
    return f"{value:.6g}"


def set_frequency(unit: Sr830, call: SimCall) -> None:
    """``FREQ``: five digits; with the harmonic at most 102 kHz."""
    hertz = call.number(0, lowest=LOWEST_HZ, highest=HIGHEST_HZ)
    if hertz * unit.harmonic > HIGHEST_HZ or not unit.choices["FMOD"]:
        raise ScpiError(-221)
    unit.look(call.now)
    unit.hertz = float(f"{hertz:.5g}")


def set_level(unit: Sr830, call: SimCall) -> None:
    """``SLVL``: in steps of 2 mV, and never off."""
    volts = call.number(0, lowest=LOWEST_V, highest=HIGHEST_V)
    unit.look(call.now)
    unit.volts = round(volts / STEP_V) * STEP_V


def set_phase(unit: Sr830, call: SimCall) -> None:
    """``PHAS``: shown between -180 and 180 degrees."""
    degrees = call.number(0, lowest=-360.0, highest=729.99)
    unit.look(call.now)
    unit.phase = (degrees + 180) % 360 - 180


def set_harmonic(unit: Sr830, call: SimCall) -> None:
    """``HARM``."""
    harmonic = call.whole(0, lowest=1, highest=19_999)
    if harmonic * unit.hertz > HIGHEST_HZ:
        raise ScpiError(-222)
    unit.look(call.now)
    unit.harmonic = harmonic


def set_sensitivity(unit: Sr830, call: SimCall) -> None:
    """``SENS 0`` (2 nV) to ``26`` (1 V)."""
    unit.sensitivity = call.whole(0, lowest=0, highest=len(SENSITIVITIES) - 1)


def set_time_constant(unit: Sr830, call: SimCall) -> None:
    """``OFLT 0`` (10 µs) to ``19`` (30 ks)."""
    unit.look(call.now)
    unit.time_constant = call.whole(0, lowest=0, highest=len(TIME_CONSTANTS) - 1)


def set_choice(unit: Sr830, call: SimCall, name: str) -> None:
    """``OFSL`` and its kin."""
    unit.look(call.now)
    unit.choices[name] = call.whole(0, lowest=0, highest=LISTS[name])
    unit.is_internal = bool(unit.choices["FMOD"])


def output(unit: Sr830, call: SimCall) -> str:
    """``OUTP? 3``."""
    return _number(unit.value(call.whole(0, lowest=1, highest=4), call.now))


def snap(unit: Sr830, call: SimCall) -> str:
    """``SNAP? 1,2,9``: two to six values of one moment."""
    if not 2 <= len(call.arguments) <= 6:
        raise ScpiError(-109)
    items = [call.whole(i, lowest=1, highest=SNAP_ITEMS) for i in range(len(call.arguments))]
    return ",".join(_number(unit.value(item, call.now)) for item in items)


def aux_input(_unit: Sr830, call: SimCall) -> str:
    """``OAUX? 1``: nothing is connected."""
    call.whole(0, lowest=1, highest=4)
    return _number(round(call.random.gauss(0.0, 3e-4), 4))


def set_aux(unit: Sr830, call: SimCall) -> None:
    """``AUXV 1,2.5``."""
    number = call.whole(0, lowest=1, highest=4)
    unit.aux[number] = round(call.number(1, lowest=-MOST_AUX_V, highest=MOST_AUX_V), 3)


def aux(unit: Sr830, call: SimCall) -> str:
    """``AUXV? 1``."""
    return _number(unit.aux[call.whole(0, lowest=1, highest=4)])


def auto_phase(unit: Sr830, call: SimCall) -> None:
    """``APHS``: all of the signal into X."""
    unit.phase += math.degrees(cmath.phase(unit.look(call.now)))
    unit.busy_until = call.now + AUTO_S


def auto_gain(unit: Sr830, call: SimCall) -> None:
    """``AGAN``: the finest sensitivity that holds the signal; longer with longer time constants."""
    size = abs(unit.look(call.now))
    fitting = [i for i, scale in enumerate(SENSITIVITIES) if size <= scale]
    unit.sensitivity = fitting[0] if fitting else len(SENSITIVITIES) - 1
    unit.busy_until = call.now + AUTO_S + TIME_CONSTANTS[unit.time_constant]


def auto_reserve(unit: Sr830, call: SimCall) -> None:
    """``ARSV``."""
    unit.choices["RMOD"] = 1
    unit.busy_until = call.now + AUTO_S


def status_byte(unit: Sr830, call: SimCall) -> str:
    """``*STB?``, or one bit of it: bit 0 no scan runs, bit 1 no command runs."""
    word = IDLE_BITS if call.now >= unit.busy_until else IDLE_BITS & ~0x02
    if call.has(0):
        return str(word >> call.whole(0, lowest=0, highest=7) & 1)
    return str(word)


def event_status(unit: Sr830, call: SimCall) -> str:
    """``*ESR?``, or one bit of it; what was read is cleared."""
    unit.status.drain()
    word = unit.status.events
    if call.has(0):
        bit = call.whole(0, lowest=0, highest=7)
        unit.status.events &= ~(1 << bit)
        return str(word >> bit & 1)
    unit.status.events = 0
    return str(word)


def overloads(unit: Sr830, call: SimCall) -> str:
    """``LIAS?``: cleared by reading."""
    unit.value(3, call.now)
    word, unit.overloads = unit.overloads, 0
    return str(word)


def choose_interface(unit: Sr830, call: SimCall) -> None:
    """``OUTX 0`` (RS-232) or ``1`` (GPIB)."""
    unit.interface = call.whole(0, lowest=0, highest=1)


Query = Callable[[Sr830, SimCall], str]

QUERIES: Final[Mapping[str, Query]] = {
    "*IDN?": lambda u, _c: u.idn,
    "*STB?": status_byte,
    "*ESR?": event_status,
    "ERRS?": lambda _u, _c: "0",
    "LIAS?": overloads,
    "OUTX?": lambda u, _c: str(u.interface),
    "FREQ?": lambda u, _c: _number(u.reference()[0]),
    "SLVL?": lambda u, _c: f"{u.volts:.3f}",
    "PHAS?": lambda u, _c: f"{u.phase:.2f}",
    "HARM?": lambda u, _c: str(u.harmonic),
    "SENS?": lambda u, _c: str(u.sensitivity),
    "OFLT?": lambda u, _c: str(u.time_constant),
    "OUTP?": output,
    "SNAP?": snap,
    "OAUX?": aux_input,
    "AUXV?": aux,
}


def _heard(query: Query) -> Callable[[Sr830, SimCall], str | None]:
    """The query as it is answered: only where ``OUTX`` sends answers to this wire."""

    def answer(unit: Sr830, call: SimCall) -> str | None:
        said = query(unit, call)
        return said if unit.interface == GPIB else None

    return answer


def _chosen(name: str) -> Query:
    return lambda unit, _call: str(unit.choices[name])


def _choices() -> dict[str, Any]:
    table: dict[str, Any] = {}
    for name in LISTS:
        table[name] = lambda u, c, n=name: set_choice(u, c, n)
        table[f"{name}?"] = _heard(_chosen(name))
    return table


VOCABULARY: Final = Vocabulary(
    {
        **{header: _heard(query) for header, query in QUERIES.items()},
        **_choices(),
        "OUTX": choose_interface,
        "FREQ": set_frequency,
        "SLVL": set_level,
        "PHAS": set_phase,
        "HARM": set_harmonic,
        "SENS": set_sensitivity,
        "OFLT": set_time_constant,
        "AUXV": set_aux,
        "APHS": auto_phase,
        "AGAN": auto_gain,
        "ARSV": auto_reserve,
    }
)

MODEL: Final = ModelSpec(
    idn="Stanford_Research_Systems,SR830,{serial},ver1.07",
    serial="s/n{number:05d}",
    first_number=12_345,
    dialect=Dialect(error_format="", latency_s=0.003),
    vocabulary=VOCABULARY,
    build=Sr830,
)
