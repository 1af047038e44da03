"""Keysight (Agilent) 33220A: one function generator output, 20 MHz.

Quirks kept: a level that cannot be is set as near as can be, and told as an error all the same; an
amplitude that leaves the offset no room takes it down; a frequency that a new waveform cannot have
comes down; as delivered it believes in 50 ohm, and an open output is ``+9.9E+37``; ``*TRG`` is
ignored, with an error, unless the bus is what triggers. Source: the manuals that
profiles/keysight_33220a.yaml names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from edged_sim import scpi
from edged_sim.models.families.generator import (
    HIGHEST_LOAD,
    Generator,
    GeneratorOutput,
    set_state,
    set_unit,
    shown_load,
    units,
)

LOWEST_HZ: Final = 1e-6
LOAD_OHMS: Final = 50.0
MOST_CYCLES: Final = 50_000
TRIGGERS: Final = {"IMMediate": "IMM", "EXTernal": "EXT", "BUS": "BUS"}


@dataclass(slots=True)
class Modes:
    """What one channel is set to besides its waveform."""

    unit: str = "VPP"
    polarity: str = "NORM"
    is_bursting: bool = False
    mode: str = "TRIG"
    cycles: int = 1
    trigger: str = "IMM"


class Agilent33220a(Generator):
    """The state of one unit; what differs in its relatives are the class's attributes.

    Attributes:
        highest_hz: by the waveform's short word; the words are all that it has.
        functions: waveforms as its guide writes them, and their short words.
        lowest_open_pp: volts of the smallest amplitude at an open output.
        duty: the least and the greatest duty cycle of a square.
    """

    count = 1
    volts_pp = 0.1
    highest_hz: ClassVar[Mapping[str, float]] = {
        "SIN": 20e6,
        "SQU": 20e6,
        "RAMP": 200e3,
        "PULS": 5e6,
        "NOIS": 20e6,
        "DC": 20e6,
        "USER": 6e6,
    }
    functions: ClassVar[Mapping[str, str]] = {
        "SINusoid": "SIN",
        "SQUare": "SQU",
        "RAMP": "RAMP",
        "PULSe": "PULS",
        "NOISe": "NOIS",
        "DC": "DC",
        "USER": "USER",
    }
    lowest_open_pp: ClassVar[float] = 0.02
    duty: ClassVar[tuple[float, float]] = (20.0, 80.0)

    def reset(self, now: float) -> None:
        super().reset(now)
        for output in self.outputs.values():
            output.load_ohms = LOAD_OHMS
        self.modes = {number: Modes() for number in self.nodes}

    def mode(self, call: scpi.SimCall) -> Modes:
        """What else the channel is set to."""
        return self.modes[self.number(call)]


def _number(value: float) -> str:
    return f"{value:+.13E}"


def set_function(unit: Agilent33220a, call: scpi.SimCall) -> None:
    """``FUNC SIN``: a frequency that the waveform cannot have comes down, which is an error."""
    output = unit.output(call)
    output.function = call.choice(0, unit.functions)
    highest = unit.highest_hz[output.function]
    is_too_fast = output.hertz > highest
    output.hertz = min(output.hertz, highest)
    output.apply()
    if is_too_fast:
        raise scpi.ScpiError(-221)


def set_frequency(unit: Agilent33220a, call: scpi.SimCall) -> None:
    """``FREQ``: beyond its end it is the end, which is an error."""
    output = unit.output(call)
    highest = unit.highest_hz[output.function]
    asked = call.number(0, lowest=-math.inf, highest=math.inf, default=1000.0, unit="HZ")
    output.hertz = min(max(asked, LOWEST_HZ), highest)
    output.apply()
    if output.hertz != asked and math.isfinite(asked):
        raise scpi.ScpiError(-222)


def _room(output: GeneratorOutput) -> float:
    swing = 0.0 if output.function == "DC" else output.volts_pp / 2
    return output.most_pp / 2 - swing


def set_voltage(unit: Agilent33220a, call: scpi.SimCall) -> None:
    """``VOLT``, in the unit that is set: it comes before the offset, which makes room for it."""
    output = unit.output(call)
    asked = call.number(0, lowest=0.0, highest=1000.0, unit="V")
    asked /= units(output, unit.mode(call).unit)
    lowest = unit.lowest_open_pp * output.share
    output.volts_pp = min(max(asked, lowest), output.most_pp)
    is_bent = abs(output.volts_pp - asked) > asked * 1e-9
    room = max(0.0, _room(output))
    is_in_the_way = abs(output.offset) > room * (1 + 1e-9) + 1e-12
    output.offset = math.copysign(min(abs(output.offset), room), output.offset)
    output.apply()
    if is_bent:
        raise scpi.ScpiError(-222)
    if is_in_the_way:
        raise scpi.ScpiError(-221)


def voltage(unit: Agilent33220a, call: scpi.SimCall) -> str:
    """``VOLT?``."""
    output = unit.output(call)
    return _number(output.volts_pp * units(output, unit.mode(call).unit))


def set_offset(unit: Agilent33220a, call: scpi.SimCall) -> None:
    """``VOLT:OFFS``: as far as the amplitude leaves room; further is that far, and an error."""
    output = unit.output(call)
    asked = call.number(0, lowest=-1000.0, highest=1000.0, default=0.0, unit="V")
    room = max(0.0, _room(output))
    output.offset = min(max(asked, -room), room)
    output.apply()
    if abs(output.offset - asked) > 1e-9:
        raise scpi.ScpiError(-222)


def set_duty(unit: Agilent33220a, call: scpi.SimCall) -> None:
    """``FUNC:SQU:DCYC``."""
    lowest, highest = unit.duty
    output = unit.output(call)
    output.duty_percent = call.number(0, lowest=lowest, highest=highest, default=50.0)
    output.apply()


def set_load(unit: Agilent33220a, call: scpi.SimCall) -> None:
    """``OUTP:LOAD 50|INF``: what is shown changes, the source does not."""
    output = unit.output(call)
    if call.text(0).upper() in ("INF", "INFINITY"):
        output.set_load(math.inf)
        unit.mode(call).unit = "VPP" if unit.mode(call).unit == "DBM" else unit.mode(call).unit
    else:
        output.set_load(call.number(0, lowest=1.0, highest=HIGHEST_LOAD, unit="OHM"))
    output.apply()


def set_cycles(unit: Agilent33220a, call: scpi.SimCall) -> None:
    """``BURS:NCYC``."""
    unit.mode(call).cycles = call.whole(0, lowest=1, highest=MOST_CYCLES)


def trigger(unit: Agilent33220a, _call: scpi.SimCall) -> None:
    """``*TRG``: only where a burst waits for the bus."""
    if not any(mode.is_bursting and mode.trigger == "BUS" for mode in unit.modes.values()):
        raise scpi.ScpiError(-211, "Trigger ignored")


SOURCE: Final = "[:SOURce<n>]"

OUTPUT: Final = scpi.Settings(of=lambda u, c: u.output(c), say=_number)
ITS_MODE: Final = scpi.Settings(of=lambda u, c: u.mode(c))

WORDS: Final[Mapping[str, scpi.Function[Any]]] = {
    f"{SOURCE}:FUNCtion[:SHAPe]": set_function,
    f"{SOURCE}:FUNCtion[:SHAPe]?": lambda u, c: u.output(c).function,
    f"{SOURCE}:FREQuency": set_frequency,
    f"{SOURCE}:FREQuency?": lambda u, c: _number(u.output(c).hertz),
    f"{SOURCE}:VOLTage[:LEVel][:IMMediate][:AMPLitude]": set_voltage,
    f"{SOURCE}:VOLTage[:LEVel][:IMMediate][:AMPLitude]?": voltage,
    f"{SOURCE}:VOLTage[:LEVel][:IMMediate]:OFFSet": set_offset,
    f"{SOURCE}:VOLTage[:LEVel][:IMMediate]:OFFSet?": lambda u, c: _number(u.output(c).offset),
    f"{SOURCE}:VOLTage:UNIT": set_unit,
    f"{SOURCE}:VOLTage:UNIT?": lambda u, c: u.mode(c).unit,
    f"{SOURCE}:FUNCtion:SQUare:DCYCle": set_duty,
    f"{SOURCE}:FUNCtion:SQUare:DCYCle?": lambda u, c: _number(u.output(c).duty_percent),
    **OUTPUT.number(
        f"{SOURCE}:FUNCtion:RAMP:SYMMetry", "symmetry_percent", 0.0, 100.0, default=100.0
    ),
    ":OUTPut<n>[:STATe]": set_state,
    ":OUTPut<n>[:STATe]?": lambda u, c: scpi.flag(u.output(c).is_on),
    ":OUTPut<n>:LOAD": set_load,
    ":OUTPut<n>:LOAD?": lambda u, c: _number(shown_load(u, c)),
    **ITS_MODE.choice(":OUTPut<n>:POLarity", "polarity", {"NORMal": "NORM", "INVerted": "INV"}),
    **ITS_MODE.switch(f"{SOURCE}:BURSt:STATe", "is_bursting"),
    **ITS_MODE.choice(f"{SOURCE}:BURSt:MODE", "mode", {"TRIGgered": "TRIG", "GATed": "GAT"}),
    f"{SOURCE}:BURSt:NCYCles": set_cycles,
    f"{SOURCE}:BURSt:NCYCles?": lambda u, c: _number(u.mode(c).cycles),
    **ITS_MODE.choice(":TRIGger<n>:SOURce", "trigger", TRIGGERS),
    "*TRG": trigger,
    ":SYSTem:BEEPer": lambda _u, _c: None,
}

MODEL: Final = scpi.ModelSpec(
    idn="Agilent Technologies,33220A,{serial},2.02-2.02-22-2",
    serial="MY{number:08d}",
    first_number=44_036_372,
    dialect=scpi.Dialect(latency_s=0.002),
    vocabulary=scpi.Vocabulary(WORDS),
    build=Agilent33220a,
)
