"""Stanford SR830: a lock-in amplifier whose sine output comes back through an RC low-pass.

With the external reference channel 1 of the first generator goes into that low-pass and is the
reference, where there is one.

Quirks kept: answers go only to the interface that ``OUTX`` chose (here 1, GPIB), to the other one
silence; there is no ``SYST:ERR?``, only ``*ESR?``, ``ERRS?`` and ``LIAS?``, which are cleared by
reading; sensitivities, time constants and slopes are numbers of a list; the sine output cannot be
switched off; the automatic functions run on and bit 1 of ``*STB?`` tells their end; what is shown
follows the input as slowly as the time constant says; the two displays are stored at a rate that is
a number of a list, too, and read as text with a comma behind the last number, or as 32-bit floats
without a header. Source: the manuals that profiles/srs_sr830.yaml names.
"""

from __future__ import annotations

import cmath
import math
import struct
from collections.abc import Mapping
from typing import Any, Final

from edged_sim.models.families.lock_in import (
    AUTO_S,
    GPIB,
    LockIn,
    Query,
    auto_phase,
    choices,
    choose_interface,
    event_status,
    heard,
    one_three,
    one_two_five,
    overloads,
    set_aux,
    set_phase,
    set_sensitivity,
    set_time_constant,
    snap,
    status_byte,
)
from edged_sim.scpi import Dialect, ModelSpec, ScpiError, SimCall, SimUnit, Vocabulary

LOWEST_HZ, HIGHEST_HZ = 0.001, 102_000.0
LOWEST_V, HIGHEST_V, STEP_V = 0.004, 5.0, 0.002
OUTPUT_OVERLOAD: Final = 4
MOST_STORED: Final = 16_383
SLOWEST_STORED_HZ: Final = 0.0625
BY_TRIGGER: Final = 14
DISPLAYS: Final = (10, 11)


class Sr830(LockIn):
    """The state of one unit."""

    sensitivities = one_two_five(-9, 0)[1:]
    time_constants = one_three(-5, 4)
    lists = {  # noqa: RUF012 - the class variable
        "OFSL": 3,
        "ISRC": 3,
        "ICPL": 1,
        "IGND": 1,
        "ILIN": 3,
        "RMOD": 2,
        "SYNC": 1,
        "FMOD": 1,
        "RSLP": 2,
        "SRAT": BY_TRIGGER,
        "SEND": 1,
    }
    internal = ("FMOD", 1)
    phases = (-360.0, 729.99)
    snapped = (1, 11, 6)

    def __init__(self, unit: SimUnit) -> None:
        self.idn = f"Stanford_Research_Systems,SR830,{unit.serial},ver1.07"
        super().__init__(unit)

    def reset(self, now: float) -> None:
        super().reset(now)
        self.sensitivity, self.time_constant = 26, 8
        self.choices |= {"OFSL": 1, "FMOD": 1, "SRAT": 4, "SEND": 1}
        self.clear()
        self.aux = dict.fromkeys(range(1, 5), 0.0)

    def describe(self, now: float) -> Mapping[str, Any]:
        shown = self.look(now)
        return {
            "hertz": self.hertz,
            "volts": self.volts,
            "interface": self.interface,
            "r": abs(shown),
            "theta": math.degrees(cmath.phase(shown)) if shown else 0.0,
            "aux": dict(self.aux),
        }

    def clear(self) -> None:
        """``REST``: nothing is stored, and nothing being stored."""
        self.stored: list[tuple[float, ...]] = []
        self.storing_since: float | None = None

    def store(self, now: float) -> None:
        """Keep the points that were due since storage began or went on."""
        rate = self.choices["SRAT"]
        if self.storing_since is None or rate == BY_TRIGGER:
            return
        hertz = SLOWEST_STORED_HZ * 2**rate
        due = int((now - self.storing_since) * hertz)
        self.storing_since += due / hertz
        is_loop = self.choices["SEND"] == 1
        room = due if is_loop else MOST_STORED - len(self.stored)
        for _ in range(min(due, room, MOST_STORED)):
            self.stored.append(tuple(self.value(item, now) for item in DISPLAYS))
        del self.stored[:-MOST_STORED]

    def value(self, item: int, now: float) -> float:
        """What ``OUTP?`` and ``SNAP?`` number: X, Y, R, theta, four inputs, frequency, displays."""
        shown = self.noisy(now)
        if abs(shown) > self.scale():
            self.overloads |= OUTPUT_OVERLOAD
            shown *= self.scale() / abs(shown)
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


def set_harmonic(unit: Sr830, call: SimCall) -> None:
    """``HARM``."""
    harmonic = call.whole(0, lowest=1, highest=19_999)
    if harmonic * unit.hertz > HIGHEST_HZ:
        raise ScpiError(-222)
    unit.look(call.now)
    unit.harmonic = harmonic


def output(unit: Sr830, call: SimCall) -> str:
    """``OUTP? 3``."""
    return unit.text(unit.value(call.whole(0, lowest=1, highest=4), call.now))


def aux_input(unit: Sr830, call: SimCall) -> str:
    """``OAUX? 1``: nothing is connected."""
    call.whole(0, lowest=1, highest=4)
    return unit.text(round(call.random.gauss(0.0, 3e-4), 4))


def aux(unit: Sr830, call: SimCall) -> str:
    """``AUXV? 1``."""
    return unit.text(unit.aux[call.whole(0, lowest=1, highest=4)])


def auto_gain(unit: Sr830, call: SimCall) -> None:
    """``AGAN``: the finest sensitivity that holds the signal; longer with longer time constants."""
    size = abs(unit.look(call.now))
    fitting = [i for i, scale in enumerate(unit.sensitivities) if size <= scale]
    unit.sensitivity = fitting[0] if fitting else len(unit.sensitivities) - 1
    unit.busy_until = call.now + AUTO_S + unit.time_constant_s()


def auto_reserve(unit: Sr830, call: SimCall) -> None:
    """``ARSV``."""
    unit.choices["RMOD"] = 1
    unit.busy_until = call.now + AUTO_S


def start(unit: Sr830, call: SimCall) -> None:
    """``STRT``."""
    unit.store(call.now)
    unit.storing_since = unit.storing_since or call.now


def pause(unit: Sr830, call: SimCall) -> None:
    """``PAUS``."""
    unit.store(call.now)
    unit.storing_since = None


def clear(unit: Sr830, _call: SimCall) -> None:
    """``REST``."""
    unit.clear()


def fill(unit: Sr830, call: SimCall) -> None:
    """``:DIAG:STOR 100``: what storing so many points takes half a minute for, at once."""
    count = call.whole(0, lowest=1, highest=MOST_STORED)
    unit.stored += [tuple(unit.value(item, call.now) for item in DISPLAYS)] * count
    del unit.stored[:-MOST_STORED]


def stored(unit: Sr830, call: SimCall) -> str:
    """``SPTS?``."""
    unit.store(call.now)
    return str(len(unit.stored))


def _points(unit: Sr830, call: SimCall) -> list[float]:
    """What ``TRCA? 1,0,100`` asks for: display, first point, how many."""
    unit.store(call.now)
    display = call.whole(0, lowest=1, highest=2)
    first = call.whole(1, lowest=0, highest=MOST_STORED)
    count = call.whole(2, lowest=1, highest=MOST_STORED)
    if first + count > len(unit.stored):
        raise ScpiError(-222)
    return [point[display - 1] for point in unit.stored[first : first + count]]


def trace_text(unit: Sr830, call: SimCall) -> str:
    """``TRCA?``."""
    return "".join(f"{unit.text(value)}," for value in _points(unit, call))


def trace(unit: Sr830, call: SimCall) -> bytes | None:
    """``TRCB?``."""
    points = _points(unit, call)
    return struct.pack(f"<{len(points)}f", *points) if unit.interface == GPIB else None


QUERIES: Final[dict[str, Query]] = {
    "*IDN?": lambda u, _c: u.idn,
    "*STB?": status_byte,
    "*ESR?": event_status,
    "ERRS?": lambda _u, _c: "0",
    "LIAS?": overloads,
    "OUTX?": lambda u, _c: str(u.interface),
    "FREQ?": lambda u, _c: u.text(u.reference()[0]),
    "SLVL?": lambda u, _c: f"{u.volts:.3f}",
    "PHAS?": lambda u, _c: f"{u.phase:.2f}",
    "HARM?": lambda u, _c: str(u.harmonic),
    "SENS?": lambda u, _c: str(u.sensitivity),
    "OFLT?": lambda u, _c: str(u.time_constant),
    "OUTP?": output,
    "SNAP?": snap,
    "OAUX?": aux_input,
    "AUXV?": aux,
    "SPTS?": stored,
    "TRCA?": trace_text,
}


SETS, ASKS = choices(Sr830)
VOCABULARY: Final = Vocabulary(
    {
        **{header: heard(query) for header, query in (QUERIES | ASKS).items()},
        **SETS,
        "TRCB?": trace,
        ":DIAGnostic:STORe": fill,
        "STRT": start,
        "PAUS": pause,
        "REST": clear,
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
    dialect=Dialect(error_format="", serial_end=b"\r", latency_s=0.003),
    vocabulary=VOCABULARY,
    build=Sr830,
)
