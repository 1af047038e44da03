"""Stanford SR844: a lock-in amplifier for radio frequencies, 50 ohm at its input.

Quirks kept: answers go only to the interface that ``OUTX`` chose; the fourth output is R in dBm and
theta the fifth; steps of sensitivity are 1 and 3; its reference output has no level to set; there
is no ``SYST:ERR?``, only ``*ESR?`` and ``LIAS?``, which are cleared by reading. Source: the manual
and drivers that profiles/srs_sr844.yaml names.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Mapping
from typing import Any, Final

from edged.sim.models.families.lock_in import OVER_SCALE, LockIn, one_three
from edged.sim.scpi import Answer, Dialect, ModelSpec, ScpiError, SimCall, SimUnit, Vocabulary

GPIB: Final = 1
LOWEST_HZ, HIGHEST_HZ = 25e3, 200e6
SENSITIVITIES: Final = one_three(-7, 0)[:15]
TIME_CONSTANTS: Final = one_three(-4, 4)
MOST_AUX_V: Final = 10.5
OUTPUT_OVERLOAD: Final = 4
AUTO_S: Final = 0.3
IDLE_BITS: Final = 0x03
OHMS: Final = 50.0
SNAP_ITEMS: Final = 10


class Sr844(LockIn):
    """The state of one unit."""

    corner_hz = 1e6
    noise_v = 2e-9

    def __init__(self, unit: SimUnit) -> None:
        self.interface = GPIB
        super().__init__(unit)

    def reset(self, now: float) -> None:
        """See ``ModelState``; the interface stays what it is."""
        super().reset(now)
        self.hertz, self.volts = 1e6, 0.3
        self.sensitivity, self.time_constant, self.slope = 14, 6, 1
        self.aux = dict.fromkeys((1, 2), 0.0)
        self.overloads = 0
        self.busy_until = 0.0

    def time_constant_s(self) -> float:
        """See ``LockIn``."""
        return TIME_CONSTANTS[self.time_constant]

    def describe(self, now: float) -> Mapping[str, Any]:
        """See ``ModelState``."""
        shown = self.look(now)
        return {"hertz": self.hertz, "r": abs(shown), "aux": dict(self.aux)}

    def value(self, item: int, now: float) -> float:
        """What ``OUTP?`` and ``SNAP?`` number: X, Y, R, R in dBm, theta, inputs, frequency."""
        shown = self.noisy(now)
        scale = SENSITIVITIES[self.sensitivity] * OVER_SCALE
        if abs(shown) > scale:
            self.overloads |= OUTPUT_OVERLOAD
            shown *= scale / abs(shown)
        milliwatts = abs(shown) ** 2 / OHMS * 1e3
        values = {
            1: shown.real,
            2: shown.imag,
            3: abs(shown),
            4: 10 * math.log10(max(milliwatts, 1e-20)),
            5: math.degrees(cmath.phase(shown)),
            8: self.reference()[0],
        }
        return values.get(item, 0.0)


def _number(value: float) -> str:
    return f"{value:.6g}"


def set_frequency(unit: Sr844, call: SimCall) -> None:
    """``FREQ``: of the internal reference."""
    hertz = call.number(0, lowest=LOWEST_HZ, highest=HIGHEST_HZ)
    unit.look(call.now)
    unit.hertz = hertz


def set_phase(unit: Sr844, call: SimCall) -> None:
    """``PHAS``."""
    degrees = call.number(0, lowest=-360.0, highest=360.0)
    unit.look(call.now)
    unit.phase = (degrees + 180) % 360 - 180


def set_sensitivity(unit: Sr844, call: SimCall) -> None:
    """``SENS 0`` (100 nV) to ``14`` (1 V)."""
    unit.sensitivity = call.whole(0, lowest=0, highest=len(SENSITIVITIES) - 1)


def set_time_constant(unit: Sr844, call: SimCall) -> None:
    """``OFLT 0`` (100 µs) to ``17`` (30 ks)."""
    unit.look(call.now)
    unit.time_constant = call.whole(0, lowest=0, highest=len(TIME_CONSTANTS) - 1)


def set_slope(unit: Sr844, call: SimCall) -> None:
    """``OFSL``."""
    unit.slope = call.whole(0, lowest=0, highest=3)


def snap(unit: Sr844, call: SimCall) -> str:
    """``SNAP? 1,2,3,5,8``: two to six values of one moment."""
    if not 2 <= len(call.arguments) <= 6:
        raise ScpiError(-109)
    items = [call.whole(i, lowest=1, highest=SNAP_ITEMS) for i in range(len(call.arguments))]
    return ",".join(_number(unit.value(item, call.now)) for item in items)


def set_aux(unit: Sr844, call: SimCall) -> None:
    """``AUXO 1,2.5``."""
    number = call.whole(0, lowest=1, highest=2)
    unit.aux[number] = round(call.number(1, lowest=-MOST_AUX_V, highest=MOST_AUX_V), 3)


def auto_phase(unit: Sr844, call: SimCall) -> None:
    """``APHS``: all of the signal into X."""
    unit.phase += math.degrees(cmath.phase(unit.look(call.now)))
    unit.busy_until = call.now + AUTO_S


def auto_gain(unit: Sr844, call: SimCall) -> None:
    """``AGAN``: the finest sensitivity that holds the signal."""
    size = abs(unit.look(call.now))
    fitting = [i for i, scale in enumerate(SENSITIVITIES) if size <= scale]
    unit.sensitivity = fitting[0] if fitting else len(SENSITIVITIES) - 1
    unit.busy_until = call.now + AUTO_S


def status_byte(unit: Sr844, call: SimCall) -> str:
    """``*STB?``, or one bit of it: bit 1 says that no command runs."""
    word = IDLE_BITS if call.now >= unit.busy_until else IDLE_BITS & ~0x02
    return str(word >> call.whole(0, lowest=0, highest=7) & 1) if call.has(0) else str(word)


def event_status(unit: Sr844, _call: SimCall) -> str:
    """``*ESR?``: cleared by reading."""
    unit.status.drain()
    word, unit.status.events = unit.status.events, 0
    return str(word)


def overloads(unit: Sr844, call: SimCall) -> str:
    """``LIAS?``: cleared by reading."""
    unit.value(3, call.now)
    word, unit.overloads = unit.overloads, 0
    return str(word)


def choose_interface(unit: Sr844, call: SimCall) -> None:
    """``OUTX 0`` (RS-232) or ``1`` (GPIB)."""
    unit.interface = call.whole(0, lowest=0, highest=1)


QUERIES: Final[Mapping[str, Any]] = {
    "*STB?": status_byte,
    "*ESR?": event_status,
    "LIAS?": overloads,
    "FREQ?": lambda u, _c: _number(u.reference()[0]),
    "PHAS?": lambda u, _c: f"{u.phase:.2f}",
    "SENS?": lambda u, _c: str(u.sensitivity),
    "OFLT?": lambda u, _c: str(u.time_constant),
    "OFSL?": lambda u, _c: str(u.slope),
    "OUTP?": lambda u, c: _number(u.value(c.whole(0, lowest=1, highest=5), c.now)),
    "SNAP?": snap,
    "AUXO?": lambda u, c: _number(u.aux[c.whole(0, lowest=1, highest=2)]),
}


def _heard(query: Any) -> Any:
    """The query as it is answered: only where ``OUTX`` sends answers to this wire."""

    def answer(unit: Sr844, call: SimCall) -> Answer:
        said: str = query(unit, call)
        return said if unit.interface == GPIB else None

    return answer


VOCABULARY: Final = Vocabulary(
    {
        **{header: _heard(query) for header, query in QUERIES.items()},
        "OUTX": choose_interface,
        "FREQ": set_frequency,
        "PHAS": set_phase,
        "SENS": set_sensitivity,
        "OFLT": set_time_constant,
        "OFSL": set_slope,
        "AUXO": set_aux,
        "APHS": auto_phase,
        "AGAN": auto_gain,
    }
)

MODEL: Final = ModelSpec(
    idn="Stanford_Research_Systems,SR844,{serial},ver1.006",
    serial="s/n{number:05d}",
    first_number=50_066,
    dialect=Dialect(error_format="", latency_s=0.003),
    vocabulary=VOCABULARY,
    build=Sr844,
)
