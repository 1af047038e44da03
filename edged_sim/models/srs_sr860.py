"""Stanford SR860: the SR830's successor, in words that look like the SR830's and are others.

Quirks kept: outputs count from 0 (X), and so do the auxiliary outputs; sensitivities are numbers
of a list from the largest down; ``SNAP?`` takes two or three; six digits of a frequency are kept,
three of the sine's level, which goes to 0 and has a DC level beside it; ``CUROVLDSTAT?`` tells what
is overloaded now and ``LIAS?`` what was, cleared by reading; there is no ``SYST:ERR?``, only
``*ESR?``. Source: the manuals and drivers that profiles/srs_sr860.yaml names.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from edged_sim.models.families.lock_in import (
    LockIn,
    auto_phase,
    choices,
    event_status,
    one_three,
    one_two_five,
    overloads,
    set_aux,
    set_phase,
    set_sensitivity,
    set_time_constant,
    snap,
)
from edged_sim.scpi import Dialect, ModelSpec, SimCall, Vocabulary

LOWEST_HZ: Final = 0.001
HIGHEST_V, MOST_DC_V = 2.0, 5.0
NOISE_BANDWIDTHS: Final = (1 / 4, 1 / 8, 3 / 32, 5 / 64)
"""Of each slope, over the time constant."""
OUTPUT_OVERLOAD, UNLOCKED = 0x01, 0x08
LAST_ITEM: Final = 16


class Sr860(LockIn):
    """The state of one unit."""

    highest_hz: ClassVar[float] = 500_000.0
    sensitivities = tuple(reversed(one_two_five(-9, 0)))
    time_constants = one_three(-6, 4)
    lists = {  # noqa: RUF012 - the class variable
        "OFSL": 3,
        "IRNG": 4,
        "IVMD": 1,
        "ISRC": 1,
        "ICPL": 1,
        "IGND": 1,
        "ICUR": 1,
        "SYNC": 1,
        "ADVFILT": 1,
        "RSRC": 3,
        "RTRG": 2,
        "REFZ": 1,
        "REFM": 1,
    }
    internal = ("RSRC", 0)
    phases = (-360_000.0, 360_000.0)
    snapped = (0, LAST_ITEM, 3)
    digits = 9

    def reset(self, now: float) -> None:
        super().reset(now)
        self.hertz, self.volts, self.dc = 100_000.0, 0.0, 0.0
        self.sensitivity, self.time_constant = 0, 10
        self.aux = dict.fromkeys(range(4), 0.0)

    def describe(self, now: float) -> Mapping[str, Any]:
        shown = self.look(now)
        return {
            "hertz": self.hertz,
            "volts": self.volts,
            "r": abs(shown),
            "theta": math.degrees(cmath.phase(shown)) if shown else 0.0,
            "aux": {**self.aux, "dc": self.dc},
        }

    def overloaded(self, now: float) -> int:
        """What is overloaded or unlocked now."""
        is_over = abs(self.look(now)) > self.scale()
        is_unlocked = not self.is_internal and not self.reference()[0]
        word = (OUTPUT_OVERLOAD if is_over else 0) | (UNLOCKED if is_unlocked else 0)
        self.overloads |= word
        return word

    def value(self, item: int, now: float) -> float:
        """What ``OUTP?`` and ``SNAP?`` number."""
        self.overloaded(now)
        shown = self.noisy(now)
        if abs(shown) > self.scale():
            shown *= self.scale() / abs(shown)
        values = {
            0: shown.real,
            1: shown.imag,
            2: abs(shown),
            3: math.degrees(cmath.phase(shown)),
            8: abs(self.random.gauss(0.0, self.noise_v)),
            9: abs(self.random.gauss(0.0, self.noise_v)),
            10: self.aux[0],
            11: self.aux[1],
            12: self.phase,
            13: self.volts,
            14: self.dc,
            15: self.hertz,
            16: 0.0 if self.is_internal else self.reference()[0],
        }
        return values.get(item, round(self.random.gauss(0.0, 3e-4), 4))


def set_frequency(unit: Sr860, call: SimCall) -> None:
    """``FREQ`` and ``FREQINT``: of the internal reference, six digits."""
    hertz = call.number(0, lowest=LOWEST_HZ, highest=unit.highest_hz)
    unit.look(call.now)
    unit.hertz = float(f"{hertz:.6g}")


def set_level(unit: Sr860, call: SimCall) -> None:
    """``SLVL``: three digits, and 0."""
    volts = call.number(0, lowest=0.0, highest=HIGHEST_V)
    unit.look(call.now)
    unit.volts = float(f"{volts:.3g}")


def set_dc(unit: Sr860, call: SimCall) -> None:
    """``SOFF``: the DC level."""
    unit.dc = float(f"{call.number(0, lowest=-MOST_DC_V, highest=MOST_DC_V):.3g}")


def set_harmonic(unit: Sr860, call: SimCall) -> None:
    """``HARM``."""
    harmonic = call.whole(0, lowest=1, highest=99)
    unit.look(call.now)
    unit.harmonic = harmonic


def aux_input(unit: Sr860, call: SimCall) -> str:
    """``OAUX? 0``: nothing is connected."""
    return unit.text(unit.value(4 + call.whole(0, lowest=0, highest=3), call.now))


def auto_scale(unit: Sr860, call: SimCall) -> None:
    """``ASCL``: the finest sensitivity that holds the signal."""
    size = abs(unit.look(call.now))
    unit.sensitivity = max(
        i for i, scale in enumerate(unit.sensitivities) if size <= scale or not i
    )


def auto_range(unit: Sr860, call: SimCall) -> None:
    """``ARNG``: the widest, with a signal that nothing amplifies."""
    unit.look(call.now)
    unit.choices["IRNG"] = 0


def noise_bandwidth(unit: Sr860, _call: SimCall) -> str:
    """``ENBW?``."""
    return unit.text(NOISE_BANDWIDTHS[unit.choices["OFSL"]] / unit.time_constant_s())


def strength(unit: Sr860, call: SimCall) -> str:
    """``ILVL?``: 0 to 4, by how much of the range the signal is."""
    ranges = (1.0, 0.3, 0.1, 0.03, 0.01)
    share = abs(unit.look(call.now)) * math.sqrt(2) / ranges[unit.choices["IRNG"]]
    return str(sum(share > step for step in (0.1, 0.25, 0.5, 1.0)))


SETS, ASKS = choices(Sr860)
VOCABULARY: Final = Vocabulary(
    {
        **SETS,
        **ASKS,
        "*ESR?": event_status,
        "ERRS?": lambda _u, _c: "0",
        "LIAS?": overloads,
        "CUROVLDSTAT?": lambda u, c: str(u.overloaded(c.now)),
        "FREQ": set_frequency,
        "FREQ?": lambda u, _c: u.text(u.reference()[0]),
        "FREQINT": set_frequency,
        "FREQINT?": lambda u, _c: u.text(u.hertz),
        "FREQEXT?": lambda u, c: u.text(u.value(16, c.now)),
        "FREQDET?": lambda u, _c: u.text(u.reference()[0] * u.harmonic),
        "SLVL": set_level,
        "SLVL?": lambda u, _c: u.text(u.volts),
        "SOFF": set_dc,
        "SOFF?": lambda u, _c: u.text(u.dc),
        "PHAS": set_phase,
        "PHAS?": lambda u, _c: f"{u.phase:.6f}",
        "HARM": set_harmonic,
        "HARM?": lambda u, _c: str(u.harmonic),
        "SCAL": set_sensitivity,
        "SCAL?": lambda u, _c: str(u.sensitivity),
        "OFLT": set_time_constant,
        "OFLT?": lambda u, _c: str(u.time_constant),
        "OUTP?": lambda u, c: u.text(u.value(c.whole(0, lowest=0, highest=LAST_ITEM), c.now)),
        "SNAP?": snap,
        "OAUX?": aux_input,
        "AUXV": set_aux,
        "AUXV?": lambda u, c: u.text(u.aux[c.whole(0, lowest=0, highest=3)]),
        "ENBW?": noise_bandwidth,
        "ILVL?": strength,
        "APHS": auto_phase,
        "ASCL": auto_scale,
        "ARNG": auto_range,
    }
)

MODEL: Final = ModelSpec(
    idn="Stanford_Research_Systems,SR860,{serial},V1.51",
    serial="{number:06d}",
    first_number=3693,
    dialect=Dialect(error_format="", latency_s=0.002),
    vocabulary=VOCABULARY,
    build=Sr860,
)
