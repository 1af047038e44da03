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

from edged_sim.models.families.lock_in import (
    AUTO_S,
    LockIn,
    Query,
    auto_phase,
    choices,
    choose_interface,
    event_status,
    heard,
    one_three,
    overloads,
    set_aux,
    set_phase,
    set_sensitivity,
    set_time_constant,
    snap,
    status_byte,
)
from edged_sim.scpi import Dialect, ModelSpec, SimCall, Vocabulary

LOWEST_HZ, HIGHEST_HZ = 25e3, 200e6
OUTPUT_OVERLOAD: Final = 4
OHMS: Final = 50.0


class Sr844(LockIn):
    """The state of one unit."""

    corner_hz = 1e6
    noise_v = 2e-9
    sensitivities = one_three(-7, 0)[:15]
    time_constants = one_three(-4, 4)
    lists = {"OFSL": 3}  # noqa: RUF012 - the class variable
    phases = (-360.0, 360.0)
    snapped = (1, 10, 6)

    def reset(self, now: float) -> None:
        super().reset(now)
        self.hertz, self.volts = 1e6, 0.3
        self.sensitivity, self.time_constant = 14, 6
        self.choices["OFSL"] = 1
        self.aux = dict.fromkeys((1, 2), 0.0)

    def describe(self, now: float) -> Mapping[str, Any]:
        shown = self.look(now)
        return {"hertz": self.hertz, "r": abs(shown), "aux": dict(self.aux)}

    def value(self, item: int, now: float) -> float:
        """What ``OUTP?`` and ``SNAP?`` number: X, Y, R, R in dBm, theta, inputs, frequency."""
        shown = self.noisy(now)
        if abs(shown) > self.scale():
            self.overloads |= OUTPUT_OVERLOAD
            shown *= self.scale() / abs(shown)
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


def set_frequency(unit: Sr844, call: SimCall) -> None:
    """``FREQ``: of the internal reference."""
    hertz = call.number(0, lowest=LOWEST_HZ, highest=HIGHEST_HZ)
    unit.look(call.now)
    unit.hertz = hertz


def auto_gain(unit: Sr844, call: SimCall) -> None:
    """``AGAN``: the finest sensitivity that holds the signal."""
    size = abs(unit.look(call.now))
    fitting = [i for i, scale in enumerate(unit.sensitivities) if size <= scale]
    unit.sensitivity = fitting[0] if fitting else len(unit.sensitivities) - 1
    unit.busy_until = call.now + AUTO_S


QUERIES: Final[dict[str, Query]] = {
    "*STB?": status_byte,
    "*ESR?": event_status,
    "LIAS?": overloads,
    "FREQ?": lambda u, _c: u.text(u.reference()[0]),
    "PHAS?": lambda u, _c: f"{u.phase:.2f}",
    "SENS?": lambda u, _c: str(u.sensitivity),
    "OFLT?": lambda u, _c: str(u.time_constant),
    "OUTP?": lambda u, c: u.text(u.value(c.whole(0, lowest=1, highest=5), c.now)),
    "SNAP?": snap,
    "AUXO?": lambda u, c: u.text(u.aux[c.whole(0, lowest=1, highest=2)]),
}


SETS, ASKS = choices(Sr844)
VOCABULARY: Final = Vocabulary(
    {
        **{header: heard(query) for header, query in (QUERIES | ASKS).items()},
        **SETS,
        "OUTX": choose_interface,
        "FREQ": set_frequency,
        "PHAS": set_phase,
        "SENS": set_sensitivity,
        "OFLT": set_time_constant,
        "AUXO": set_aux,
        "APHS": auto_phase,
        "AGAN": auto_gain,
    }
)

MODEL: Final = ModelSpec(
    idn="Stanford_Research_Systems,SR844,{serial},ver1.006",
    serial="s/n{number:05d}",
    first_number=50_066,
    dialect=Dialect(error_format="", serial_end=b"\r", latency_s=0.003),
    vocabulary=VOCABULARY,
    build=Sr844,
)
