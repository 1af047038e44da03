"""Keysight E4980A: an LCR meter with a capacitor in its fixture.

The capacitor has 100 nF with 10 megohm across it and half an ohm before it. Quirks kept: an answer
is two numbers and a status; a correction takes its time, which only the operation register tells;
nothing is answered to ``:FETC?`` before a measurement was triggered; a bias is one of three values
where its option is missing. Source: the manuals that
profiles/keysight_e4980a.yaml names.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from edged_sim import scpi

FARADS: Final = 100e-9
LEAK_OHMS: Final = 10e6
LEAD_OHMS: Final = 0.5
NOISE: Final = 2e-5
GAIN_ERROR: Final = 3e-4
LOWEST_HZ, HIGHEST_HZ = 20.0, 2e6
BIASES: Final = (0.0, 1.5, 2.0)
MEASURE_S: Final[Mapping[str, float]] = {"SHOR": 0.006, "MED": 0.088, "LONG": 0.22}
CORRECTION_S: Final = 0.8
CORRECTING: Final = 1
MEASURING: Final = 16
RANGES: Final = (0.1, 1.0, 10.0, 100.0, 300.0, 1e3, 3e3, 1e4, 3e4, 1e5)

Pair = Callable[[complex, float], tuple[float, float]]


def _admittance(z: complex) -> complex:
    return 1 / z


FUNCTIONS: Final[Mapping[str, Pair]] = {
    "CPD": lambda z, w: ((1 / z).imag / w, (1 / z).real / (1 / z).imag),
    "CPQ": lambda z, w: ((1 / z).imag / w, (1 / z).imag / (1 / z).real),
    "CPG": lambda z, w: ((1 / z).imag / w, (1 / z).real),
    "CPRP": lambda z, w: ((1 / z).imag / w, 1 / (1 / z).real),
    "CSD": lambda z, w: (-1 / (w * z.imag), -z.real / z.imag),
    "CSQ": lambda z, w: (-1 / (w * z.imag), -z.imag / z.real),
    "CSRS": lambda z, w: (-1 / (w * z.imag), z.real),
    "LPD": lambda z, w: (-1 / (w * (1 / z).imag), -(1 / z).real / (1 / z).imag),
    "LPQ": lambda z, w: (-1 / (w * (1 / z).imag), -(1 / z).imag / (1 / z).real),
    "LPRP": lambda z, w: (-1 / (w * (1 / z).imag), 1 / (1 / z).real),
    "LSD": lambda z, w: (z.imag / w, z.real / z.imag),
    "LSQ": lambda z, w: (z.imag / w, z.imag / z.real),
    "LSRS": lambda z, w: (z.imag / w, z.real),
    "RX": lambda z, _w: (z.real, z.imag),
    "ZTD": lambda z, _w: (abs(z), math.degrees(cmath.phase(z))),
    "ZTR": lambda z, _w: (abs(z), cmath.phase(z)),
    "GB": lambda z, _w: (_admittance(z).real, _admittance(z).imag),
    "YTD": lambda z, _w: (abs(1 / z), math.degrees(cmath.phase(1 / z))),
    "YTR": lambda z, _w: (abs(1 / z), cmath.phase(1 / z)),
}


class E4980a:
    """The state of one unit."""

    highest_hz: ClassVar[float] = HIGHEST_HZ
    lowest_v: ClassVar[float] = 0.0
    lowest_a: ClassVar[float] = 0.0

    def __init__(self, unit: scpi.SimUnit) -> None:
        self.random = unit.random
        self.gain = 1 + unit.random.uniform(-GAIN_ERROR, GAIN_ERROR)
        self.reset(0.0)

    def reset(self, now: float) -> None:  # noqa: ARG002 - the seam's argument
        self.hertz = 1000.0
        self.volts, self.amps, self.is_current = 1.0, 0.0, False
        self.function = "CPD"
        self.range_ohms, self.is_auto = 100.0, True
        self.speed, self.averages = "MED", 1
        self.trigger, self.is_continuous = "INT", True
        self.bias_volts, self.has_bias = 0.0, False
        self.is_levelled = False
        self.corrections = {"OPEN": False, "SHOR": False}
        self.busy_until = 0.0
        self.ready_at: float | None = None
        self.last: str = ""

    def describe(self, now: float) -> Mapping[str, Any]:
        return {
            "hertz": self.hertz,
            "volts": self.volts,
            "function": self.function,
            "has_bias": self.has_bias,
            "bias_volts": self.bias_volts,
            "is_correcting": now < self.busy_until,
            "corrections": dict(self.corrections),
        }

    def measure_s(self) -> float:
        """Seconds of one measurement; low frequencies need whole periods."""
        return (MEASURE_S[self.speed] + 4 / self.hertz) * self.averages

    def measure(self) -> str:
        """Two numbers and the status."""
        w = 2 * math.pi * self.hertz
        z = LEAD_OHMS + 1 / (1 / LEAK_OHMS + 1j * w * FARADS)
        z *= self.gain * (1 + self.random.gauss(0.0, NOISE))
        first, second = FUNCTIONS[self.function](z, w)
        self.last = f"{first:+.5E},{second:+.5E},+0"
        return self.last


def _number(value: float) -> str:
    return f"{value:+.5E}"


def set_volts(unit: E4980a, call: scpi.SimCall) -> None:
    """``:VOLT``: to 2 V without option 001; the level is a voltage from then on."""
    unit.volts = call.number(0, lowest=unit.lowest_v, highest=2.0, default=1.0, unit="V")
    unit.is_current = False


def set_amps(unit: E4980a, call: scpi.SimCall) -> None:
    """``:CURR``: the level is a current from then on."""
    unit.amps = call.number(0, lowest=unit.lowest_a, highest=0.02, unit="A")
    unit.is_current = True


def level(unit: E4980a, _call: scpi.SimCall, *, is_current: bool) -> str:
    """``:VOLT?`` and ``:CURR?``: -230 for the one that is not in use."""
    if unit.is_current is not is_current:
        raise scpi.ScpiError(-230)
    return _number(unit.amps if is_current else unit.volts)


def set_range(unit: E4980a, call: scpi.SimCall) -> None:
    """``:FUNC:IMP:RANG``: the next range; autorange is off after it."""
    asked = call.number(0, lowest=RANGES[0], highest=RANGES[-1], unit="OHM")
    unit.range_ohms = next(step for step in RANGES if asked <= step)
    unit.is_auto = False


def set_aperture(unit: E4980a, call: scpi.SimCall) -> None:
    """``:APER LONG,4``."""
    unit.speed = call.choice(0, {"SHORt": "SHOR", "MEDium": "MED", "LONG": "LONG"})
    if call.has(1):
        unit.averages = call.whole(1, lowest=1, highest=256)


def set_trigger(unit: E4980a, call: scpi.SimCall) -> None:
    """``:TRIG:SOUR``."""
    sources = {"INTernal": "INT", "HOLD": "HOLD", "EXTernal": "EXT", "BUS": "BUS"}
    unit.trigger = call.choice(0, sources)
    unit.ready_at, unit.last = None, ""


def trigger(unit: E4980a, call: scpi.SimCall) -> None:
    """``:TRIG:IMM``: begin one measurement."""
    unit.ready_at = max(call.now, unit.busy_until) + unit.measure_s()


def fetch(unit: E4980a, call: scpi.SimCall) -> scpi.Answer:
    """``:FETC?``: the triggered measurement; free-running, the next one."""
    if unit.trigger == "INT":
        unit.ready_at = max(call.now, unit.busy_until) + unit.measure_s()
    if unit.ready_at is None:
        if unit.last:
            return unit.last
        raise scpi.ScpiError(-230)
    wait_s = max(0.0, unit.ready_at - call.now)

    def finish(_now: float) -> str:
        unit.ready_at = None
        return unit.measure()

    return scpi.Later(wait_s, finish)


def abort(unit: E4980a, _call: scpi.SimCall) -> None:
    """``:ABOR``."""
    unit.ready_at = None


def set_bias(unit: E4980a, call: scpi.SimCall) -> None:
    """``:BIAS:VOLT``: 0, 1.5 or 2 V."""
    volts = call.number(0, lowest=0.0, highest=2.0, default=0.0, unit="V")
    if volts not in BIASES:
        raise scpi.ScpiError(-222)
    unit.bias_volts = volts


def correct(unit: E4980a, call: scpi.SimCall) -> None:
    """``:CORR:OPEN``: runs on while the line is free; measurements wait for its end."""
    if call.now < unit.busy_until:
        raise scpi.ScpiError(-213)
    unit.busy_until = call.now + CORRECTION_S


def set_correction(unit: E4980a, call: scpi.SimCall, which: str) -> None:
    """``:CORR:OPEN:STAT``."""
    unit.corrections[which] = call.boolean(0)


def condition(unit: E4980a, call: scpi.SimCall) -> str:
    """``:STAT:OPER:COND?``."""
    word = CORRECTING if call.now < unit.busy_until else 0
    if unit.ready_at is not None and call.now < unit.ready_at:
        word |= MEASURING
    return f"{word:+d}"


OWN: Final = scpi.Settings(say=_number)

VOCABULARY: Final = scpi.Vocabulary(
    {
        **OWN.row(
            ":FREQuency[:CW]",
            "hertz",
            lambda u, c: c.number(
                0, lowest=LOWEST_HZ, highest=u.highest_hz, default=1000.0, unit="HZ"
            ),
        ),
        ":VOLTage[:LEVel]": set_volts,
        ":VOLTage[:LEVel]?": lambda u, c: level(u, c, is_current=False),
        ":CURRent[:LEVel]": set_amps,
        ":CURRent[:LEVel]?": lambda u, c: level(u, c, is_current=True),
        **OWN.choice(":FUNCtion:IMPedance[:TYPE]", "function", tuple(FUNCTIONS)),
        ":FUNCtion:IMPedance:RANGe[:VALue]": set_range,
        ":FUNCtion:IMPedance:RANGe[:VALue]?": lambda u, _c: _number(u.range_ohms),
        **OWN.switch(":FUNCtion:IMPedance:RANGe:AUTO", "is_auto"),
        ":APERture": set_aperture,
        ":APERture?": lambda u, _c: f"{u.speed},{u.averages:+d}",
        ":TRIGger:SOURce": set_trigger,
        ":TRIGger:SOURce?": lambda u, _c: u.trigger,
        ":TRIGger[:IMMediate]": trigger,
        "*TRG": trigger,
        **OWN.switch(":INITiate:CONTinuous", "is_continuous"),
        ":FETCh[:IMPedance][:FORMatted]?": fetch,
        ":ABORt": abort,
        **OWN.switch(":BIAS:STATe", "has_bias"),
        ":BIAS:VOLTage[:LEVel]": set_bias,
        ":BIAS:VOLTage[:LEVel]?": lambda u, _c: _number(u.bias_volts),
        **OWN.switch(":AMPLitude:ALC", "is_levelled"),
        ":CORRection:OPEN[:EXECute]": correct,
        ":CORRection:OPEN:STATe": lambda u, c: set_correction(u, c, "OPEN"),
        ":CORRection:OPEN:STATe?": lambda u, _c: scpi.flag(u.corrections["OPEN"]),
        ":CORRection:SHORt[:EXECute]": correct,
        ":CORRection:SHORt:STATe": lambda u, c: set_correction(u, c, "SHOR"),
        ":CORRection:SHORt:STATe?": lambda u, _c: scpi.flag(u.corrections["SHOR"]),
        ":STATus:OPERation:CONDition?": condition,
        ":FORMat[:DATA]": lambda _u, c: c.choice(0, {"ASCii": None}),
        "*OPT?": lambda _u, _c: "0",
    }
)

MODEL: Final = scpi.ModelSpec(
    idn="Keysight Technologies,E4980A,{serial},A.02.10",
    serial="MY{number:08d}",
    first_number=46_516_036,
    dialect=scpi.Dialect(latency_s=0.002),
    vocabulary=VOCABULARY,
    build=E4980a,
)
