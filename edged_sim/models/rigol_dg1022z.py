"""Rigol DG1022Z: two function generator channels; the first is what a scope's channel 2 sees.

Quirks kept: the maker's name is in mixed case; ``:OUTP?`` answers ON and OFF in words; an open
output has the load 9.9E37; ``:APPL?`` is one quoted list; in DC mode ``VOLT:OFFS?`` reads 0 and
``APPL?`` alone knows the level; trigger sources echo their short words; a changed load changes
what is shown. Source: the manuals that
profiles/rigol_dg1022z.yaml names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from edged_sim.models.families.generator import (
    HIGHEST_LOAD,
    Generator,
    set_state,
    set_unit,
    shown_load,
    units,
)
from edged_sim.scpi import Dialect, ModelSpec, ScpiError, Settings, SimCall, Vocabulary

LOWEST_HZ: Final = 1e-6
HIGHEST_HZ: Final[Mapping[str, float]] = {
    "SIN": 25e6,
    "SQU": 25e6,
    "RAMP": 500e3,
    "PULS": 15e6,
    "USER": 10e6,
    "NOIS": 25e6,
    "DC": 25e6,
}
LOWEST_PP: Final = 0.001
FUNCTIONS: Final = {
    "SINusoid": "SIN",
    "SQUare": "SQU",
    "RAMP": "RAMP",
    "PULSe": "PULS",
    "NOISe": "NOIS",
    "DC": "DC",
    "USER": "USER",
}


@dataclass(slots=True)
class Modes:
    """Sweep and burst of one channel, and the unit of its amplitude."""

    unit: str = "VPP"
    is_sweeping: bool = False
    sweep: dict[str, float] = field(
        default_factory=lambda: {"STAR": 100.0, "STOP": 1000.0, "TIME": 1.0}
    )
    is_bursting: bool = False
    cycles: int = 1
    sources: dict[str, str] = field(default_factory=lambda: {"SWE": "INT", "BURS": "INT"})


class Dg1022z(Generator):
    """The state of one unit; ``highest_hz`` is by the waveform."""

    volts_pp = 5.0
    highest_sine_hz: ClassVar[float] = HIGHEST_HZ["SIN"]

    def reset(self, now: float) -> None:
        super().reset(now)
        self.highest_hz = {**HIGHEST_HZ, "SIN": self.highest_sine_hz}
        self.modes = {number: Modes() for number in self.nodes}

    def mode(self, call: SimCall) -> Modes:
        """What else the channel is set to."""
        return self.modes[self.number(call)]


def _number(value: float) -> str:
    return f"{value:.6E}"


def _switch(is_on: bool) -> str:
    return "ON" if is_on else "OFF"


def _hertz(unit: Dg1022z, call: SimCall, place: int, function: str) -> float:
    highest = unit.highest_hz[function]
    return call.number(place, lowest=LOWEST_HZ, highest=highest, default=1000.0, unit="HZ")


def set_function(unit: Dg1022z, call: SimCall) -> None:
    """``:SOUR1:FUNC SIN``: a frequency that the function cannot have comes down."""
    output = unit.output(call)
    output.function = call.choice(0, FUNCTIONS)
    output.hertz = min(output.hertz, unit.highest_hz[output.function])
    output.apply()


def set_frequency(unit: Dg1022z, call: SimCall) -> None:
    """``:SOUR1:FREQ``."""
    output = unit.output(call)
    output.hertz = _hertz(unit, call, 0, output.function)
    output.apply()


def set_voltage(unit: Dg1022z, call: SimCall) -> None:
    """``:SOUR1:VOLT``, in the unit that is set."""
    output = unit.output(call)
    volts = call.number(0, lowest=-100.0, highest=100.0, unit="V")
    factor = units(output, unit.mode(call).unit)
    output.set_level(volts / factor, output.offset, lowest_pp=LOWEST_PP)
    output.apply()


def voltage(unit: Dg1022z, call: SimCall) -> str:
    """``:SOUR1:VOLT?``."""
    output = unit.output(call)
    return _number(output.volts_pp * units(output, unit.mode(call).unit))


def set_offset(unit: Dg1022z, call: SimCall) -> None:
    """``:SOUR1:VOLT:OFFS``."""
    output = unit.output(call)
    offset = call.number(0, lowest=-10.0, highest=10.0, default=0.0, unit="V")
    output.set_level(output.volts_pp, offset, lowest_pp=LOWEST_PP)
    output.apply()


def offset(unit: Dg1022z, call: SimCall) -> str:
    """``:SOUR1:VOLT:OFFS?``: 0 in DC mode, whatever the level is."""
    output = unit.output(call)
    return _number(0.0 if output.function == "DC" else output.offset)


def set_width(unit: Dg1022z, call: SimCall) -> None:
    """``:SOUR1:FUNC:PULS:WIDT``: at most the period."""
    output = unit.output(call)
    width_s = call.number(0, lowest=16e-9, highest=1e6, unit="S")
    if width_s * output.hertz >= 1:
        raise ScpiError(-222)
    output.duty_percent = 100 * width_s * output.hertz
    output.apply()


def apply(unit: Dg1022z, call: SimCall, function: str) -> None:
    """``:SOUR1:APPL:SIN f,a,o,p``: everything at once; nothing where one cannot be."""
    output = unit.output(call)
    before = output.function
    hertz = _hertz(unit, call, 0, function) if call.has(0) else 1000.0
    swing = call.number(1, lowest=0.0, highest=20.0, default=5.0) if call.has(1) else 5.0
    middle = call.number(2, lowest=-10.0, highest=10.0, default=0.0) if call.has(2) else 0.0
    phase = call.number(3, lowest=0.0, highest=360.0, default=0.0) if call.has(3) else 0.0
    output.function = function
    try:
        output.set_level(swing, middle, lowest_pp=LOWEST_PP)
    except ScpiError:
        output.function = before
        raise
    output.hertz, output.phase = hertz, phase
    output.apply()


def applied(unit: Dg1022z, call: SimCall) -> str:
    """``:SOUR1:APPL?`` → ``"SIN,1.000000E+03,5.000000E+00,0.000000E+00,0.000000E+00"``."""
    output = unit.output(call)
    values = (output.hertz, output.volts_pp, output.offset, output.phase)
    return f'"{output.function},{",".join(map(_number, values))}"'


def set_duty(unit: Dg1022z, call: SimCall) -> None:
    """``:SOUR1:FUNC:SQU:DCYC``."""
    output = unit.output(call)
    output.duty_percent = call.number(0, lowest=0.01, highest=99.99, default=50.0)
    output.apply()


def set_load(unit: Dg1022z, call: SimCall) -> None:
    """``:OUTP1:LOAD 50|INF``."""
    output = unit.output(call)
    if call.text(0).upper() in ("INF", "INFINITY"):
        output.set_load(math.inf)
    else:
        output.set_load(call.number(0, lowest=1.0, highest=HIGHEST_LOAD, unit="OHM"))
    output.apply()


def set_sweep(unit: Dg1022z, call: SimCall, what: str) -> None:
    """``:SOUR1:SWE:TIME`` or ``:SOUR1:FREQ:STAR``."""
    lowest, highest = (0.001, 500.0) if what == "TIME" else (LOWEST_HZ, unit.highest_hz["SIN"])
    unit.mode(call).sweep[what] = call.number(0, lowest=lowest, highest=highest)


def set_sweeping(unit: Dg1022z, call: SimCall) -> None:
    """``:SOUR1:SWE:STAT``: ends a burst."""
    mode = unit.mode(call)
    mode.is_sweeping = call.boolean(0)
    mode.is_bursting = mode.is_bursting and not mode.is_sweeping


def set_bursting(unit: Dg1022z, call: SimCall) -> None:
    """``:SOUR1:BURS:STAT``: ends a sweep."""
    mode = unit.mode(call)
    mode.is_bursting = call.boolean(0)
    mode.is_sweeping = mode.is_sweeping and not mode.is_bursting


def set_trigger(unit: Dg1022z, call: SimCall, what: str) -> None:
    """``:SOUR1:BURS:TRIG:SOUR``: the answer will be the short word."""
    sources = {"INTernal": "INT", "EXTernal": "EXT", "MANual": "MAN"}
    unit.mode(call).sources[what] = call.choice(0, sources)


def trigger(unit: Dg1022z, call: SimCall, what: str) -> None:
    """``:SOUR1:BURS:TRIG``: only where a hand is waited for."""
    if unit.mode(call).sources[what] != "MAN":
        raise ScpiError(-211, "Trigger ignored")


SOURCE: Final = "[:SOURce<n>]"

OUTPUT: Final = Settings(of=lambda u, c: u.output(c), say=_number)
ITS_MODE: Final = Settings(of=lambda u, c: u.mode(c))

VOCABULARY: Final = Vocabulary(
    {
        f"{SOURCE}:FUNCtion[:SHAPe]": set_function,
        f"{SOURCE}:FUNCtion[:SHAPe]?": lambda u, c: u.output(c).function,
        f"{SOURCE}:FREQuency[:FIXed]": set_frequency,
        f"{SOURCE}:FREQuency[:FIXed]?": lambda u, c: _number(u.output(c).hertz),
        f"{SOURCE}:VOLTage[:LEVel][:IMMediate][:AMPLitude]": set_voltage,
        f"{SOURCE}:VOLTage[:LEVel][:IMMediate][:AMPLitude]?": voltage,
        f"{SOURCE}:VOLTage[:LEVel][:IMMediate]:OFFSet": set_offset,
        f"{SOURCE}:VOLTage[:LEVel][:IMMediate]:OFFSet?": offset,
        f"{SOURCE}:VOLTage:UNIT": set_unit,
        f"{SOURCE}:VOLTage:UNIT?": lambda u, c: u.mode(c).unit,
        **OUTPUT.number(f"{SOURCE}:PHASe[:ADJust]", "phase", 0.0, 360.0, default=0.0),
        f"{SOURCE}:PHASe:SYNChronize": lambda _u, _c: None,
        f"{SOURCE}:FUNCtion:SQUare:DCYCle": set_duty,
        f"{SOURCE}:FUNCtion:SQUare:DCYCle?": lambda u, c: _number(u.output(c).duty_percent),
        **OUTPUT.number(
            f"{SOURCE}:FUNCtion:RAMP:SYMMetry", "symmetry_percent", 0.0, 100.0, default=50.0
        ),
        f"{SOURCE}:FUNCtion:PULSe:WIDTh": set_width,
        f"{SOURCE}:FUNCtion:PULSe:WIDTh?": lambda u, c: _number(
            u.output(c).duty_percent / 100 / u.output(c).hertz
        ),
        f"{SOURCE}:APPLy:SINusoid": lambda u, c: apply(u, c, "SIN"),
        f"{SOURCE}:APPLy:SQUare": lambda u, c: apply(u, c, "SQU"),
        f"{SOURCE}:APPLy:RAMP": lambda u, c: apply(u, c, "RAMP"),
        f"{SOURCE}:APPLy:PULSe": lambda u, c: apply(u, c, "PULS"),
        f"{SOURCE}:APPLy:DC": lambda u, c: apply(u, c, "DC"),
        f"{SOURCE}:APPLy?": applied,
        ":OUTPut<n>[:STATe]": set_state,
        ":OUTPut<n>[:STATe]?": lambda u, c: _switch(u.output(c).is_on),
        ":OUTPut<n>:LOAD": set_load,
        ":OUTPut<n>:LOAD?": lambda u, c: _number(shown_load(u, c)),
        f"{SOURCE}:FREQuency:STARt": lambda u, c: set_sweep(u, c, "STAR"),
        f"{SOURCE}:FREQuency:STARt?": lambda u, c: _number(u.mode(c).sweep["STAR"]),
        f"{SOURCE}:FREQuency:STOP": lambda u, c: set_sweep(u, c, "STOP"),
        f"{SOURCE}:FREQuency:STOP?": lambda u, c: _number(u.mode(c).sweep["STOP"]),
        f"{SOURCE}:SWEep:TIME": lambda u, c: set_sweep(u, c, "TIME"),
        f"{SOURCE}:SWEep:TIME?": lambda u, c: _number(u.mode(c).sweep["TIME"]),
        f"{SOURCE}:SWEep:STATe": set_sweeping,
        f"{SOURCE}:SWEep:STATe?": lambda u, c: _switch(u.mode(c).is_sweeping),
        f"{SOURCE}:SWEep:TRIGger:SOURce": lambda u, c: set_trigger(u, c, "SWE"),
        f"{SOURCE}:SWEep:TRIGger:SOURce?": lambda u, c: u.mode(c).sources["SWE"],
        **ITS_MODE.whole(f"{SOURCE}:BURSt:NCYCles", "cycles", 1, 1_000_000),
        f"{SOURCE}:BURSt[:STATe]": set_bursting,
        f"{SOURCE}:BURSt[:STATe]?": lambda u, c: _switch(u.mode(c).is_bursting),
        f"{SOURCE}:BURSt:TRIGger:SOURce": lambda u, c: set_trigger(u, c, "BURS"),
        f"{SOURCE}:BURSt:TRIGger:SOURce?": lambda u, c: u.mode(c).sources["BURS"],
        f"{SOURCE}:BURSt:TRIGger[:IMMediate]": lambda u, c: trigger(u, c, "BURS"),
    }
)

MODEL: Final = ModelSpec(
    idn="Rigol Technologies,DG1022Z,{serial},03.01.12",
    serial="DG1ZA{number:09d}",
    first_number=231_101_158,
    dialect=Dialect(error_format='{code},"{text}"', latency_s=0.002),
    vocabulary=VOCABULARY,
    build=Dg1022z,
)
