"""Keithley 6221: sources a current, and a current that swings.

Quirks kept: a wave has to be armed before it is started, and the output is on from then on; while
it is armed its form cannot be set; aborting one that there is not is no error, and is what programs
begin with; the interlock's word says 1 where all is well; nothing is measured. Source: the manual
and drivers that profiles/keithley_6221.yaml names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from edged_sim import scpi
from edged_sim.models.families.source import SourceUnit, switch

MOST_A, MOST_V = 0.105, 105.0
OVER_RANGE: Final = 1.05
RANGES: Final = (*(2 * 10.0**power for power in range(-9, -1)), 0.1)
FORMS: Final = {"SINusoid": "SIN", "SQUare": "SQU", "RAMP": "RAMP"}
LONGEST_S: Final = 999_999.999


class K6221(SourceUnit):
    """The state of one unit."""

    gain_error = 100e-6
    noise = 20e-6
    amps_limit = MOST_A
    volts_limit = 10.0

    def reset(self, now: float) -> None:
        super().reset(now)
        self.output.is_current = True
        self.output.apply(now)
        self.is_auto, self.range = True, RANGES[-1]
        self.has_filter = self.is_earthed = False
        self.form, self.hertz, self.peak, self.offset, self.duty = "SIN", 1000.0, 1e-3, 0.0, 50.0
        self.is_armed = self.is_swinging = False
        self.is_best, self.seconds = True, "INF"

    def describe(self, now: float) -> Mapping[str, Any]:
        return {
            "is_on": self.output.is_on,
            "wave": {"is_on": self.is_swinging, "is_armed": self.is_armed},
            "amps_set": self.output.amps,
            "volts_limit": self.output.volts_limit,
            "amps": self.output.node.advance(now).amps,
        }

    def may_set(self) -> None:
        """Raises while a wave is armed."""
        if self.is_armed:
            raise scpi.ScpiError(-221)


def set_amps(unit: K6221, call: scpi.SimCall) -> None:
    """``:SOUR:CURR``."""
    amps = call.number(0, lowest=-MOST_A, highest=MOST_A, default=0.0, unit="A")
    unit.may_set()
    if unit.is_auto:
        unit.range = scpi.nearest_at_least(abs(amps) / OVER_RANGE, RANGES)
    elif abs(amps) > unit.range * OVER_RANGE:
        raise scpi.ScpiError(-222)
    unit.output.amps = amps
    unit.output.apply(call.now)


def set_limit(unit: K6221, call: scpi.SimCall) -> None:
    """``:SOUR:CURR:COMP``."""
    unit.output.volts_limit = call.number(0, lowest=0.1, highest=MOST_V, default=10.0, unit="V")
    unit.output.apply(call.now)


def set_range(unit: K6221, call: scpi.SimCall) -> None:
    """``:SOUR:CURR:RANG``."""
    asked = abs(call.number(0, lowest=-MOST_A, highest=MOST_A, default=0.1, unit="A"))
    unit.range, unit.is_auto = scpi.nearest_at_least(asked / OVER_RANGE, RANGES), False


def set_form(unit: K6221, call: scpi.SimCall) -> None:
    """``:SOUR:WAVE:FUNC SIN``."""
    form = call.choice(0, FORMS)
    unit.may_set()
    unit.form = form


def set_ranging(unit: K6221, call: scpi.SimCall) -> None:
    """``:SOUR:WAVE:RANG BEST``."""
    unit.is_best = call.choice(0, {"BEST": True, "FIXed": False})


def set_duration(unit: K6221, call: scpi.SimCall) -> None:
    """``:SOUR:WAVE:DUR:TIME``."""
    if call.text(0).upper() == "INF":
        unit.seconds = "INF"
        return
    unit.seconds = _number(call.number(0, lowest=100e-9, highest=LONGEST_S, unit="S"))


def arm(unit: K6221, call: scpi.SimCall) -> None:
    """``:SOUR:WAVE:ARM``: the output is on from then on."""
    if unit.peak + abs(unit.offset) > MOST_A:
        raise scpi.ScpiError(-221)
    unit.is_armed = True
    unit.output.amps = unit.offset
    unit.output.switch(is_on=True, now=call.now)


def start(unit: K6221, _call: scpi.SimCall) -> None:
    """``:SOUR:WAVE:INIT``."""
    if not unit.is_armed:
        raise scpi.ScpiError(-221)
    unit.is_swinging = True


def abort(unit: K6221, _call: scpi.SimCall) -> None:
    """``:SOUR:WAVE:ABOR``: no error where there is nothing to abort."""
    unit.is_armed = unit.is_swinging = False


def _number(value: float) -> str:
    return f"{value:.6E}"


CURRENT: Final = ":SOURce:CURRent"
WAVE: Final = ":SOURce:WAVE"

WAVES: Final = scpi.Settings(say=_number)

VOCABULARY: Final = scpi.Vocabulary(
    {
        f"{CURRENT}[:LEVel][:IMMediate][:AMPLitude]": set_amps,
        f"{CURRENT}[:LEVel][:IMMediate][:AMPLitude]?": lambda u, _c: _number(u.output.amps),
        f"{CURRENT}:COMPliance": set_limit,
        f"{CURRENT}:COMPliance?": lambda u, _c: _number(u.output.volts_limit),
        f"{CURRENT}:RANGe": set_range,
        f"{CURRENT}:RANGe?": lambda u, _c: _number(u.range),
        **WAVES.switch(f"{CURRENT}:RANGe:AUTO", "is_auto"),
        **WAVES.switch(f"{CURRENT}:FILTer[:STATe]", "has_filter"),
        f"{WAVE}:FUNCtion": set_form,
        f"{WAVE}:FUNCtion?": lambda u, _c: u.form,
        **WAVES.number(f"{WAVE}:FREQuency", "hertz", 0.001, 100000.0, unit="HZ"),
        **WAVES.number(f"{WAVE}:AMPLitude", "peak", 2e-12, MOST_A, unit="A"),
        **WAVES.number(f"{WAVE}:OFFSet", "offset", -MOST_A, MOST_A, unit="A"),
        **WAVES.number(f"{WAVE}:DCYCle", "duty", 0.0, 100.0),
        f"{WAVE}:RANGing": set_ranging,
        f"{WAVE}:RANGing?": lambda u, _c: "BEST" if u.is_best else "FIX",
        f"{WAVE}:DURation:TIME": set_duration,
        f"{WAVE}:DURation:TIME?": lambda u, _c: u.seconds,
        f"{WAVE}:ARM": arm,
        f"{WAVE}:ARM?": lambda u, _c: scpi.flag(u.is_armed),
        f"{WAVE}:INITiate": start,
        f"{WAVE}:ABORt": abort,
        ":SOURce:SWEep:ABORt": lambda _u, _c: None,
        ":OUTPut[:STATe]": switch,
        ":OUTPut[:STATe]?": lambda u, _c: scpi.flag(u.output.is_on),
        **scpi.OWN.switch(":OUTPut:LTEarth", "is_earthed"),
        ":OUTPut:INTerlock:TRIPped?": lambda _u, _c: "1",
    }
)

MODEL: Final = scpi.ModelSpec(
    idn="KEITHLEY INSTRUMENTS INC.,MODEL 6221,{serial},D04  /700x",
    serial="{number:07d}",
    first_number=4_559_777,
    dialect=scpi.Dialect(error_format='{code},"{text}"', latency_s=0.002),
    vocabulary=VOCABULARY,
    build=K6221,
)
