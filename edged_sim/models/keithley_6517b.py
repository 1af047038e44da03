"""Keithley 6517B: an electrometer with a voltage source of 1000 V beside it.

Its input is in series with what the source drives. Quirks kept: it wakes up with zero check on, and
reads nothing of the input then; a reading comes with its unit, a time and a number unless FORM:ELEM
says READ alone; a level has to fit the range of the source, 100 V or 1000 V.
Source: the manual and programs that profiles/keithley_6517b.yaml names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from edged_sim import scpi
from edged_sim.models.families.source import LINE_CYCLE_S, SourceUnit, switch

OVERFLOW: Final = 9.9e37
SOURCE_RANGES: Final = (100.0, 1000.0)
RANGES: Final = {
    "CURR": (2e-11, 2e-10, 2e-9, 2e-8, 2e-7, 2e-6, 2e-5, 2e-4, 2e-3, 2e-2),
    "VOLT": (2.0, 20.0, 200.0),
    "RES": (1e20,),
}
OVER_RANGE: Final = 1.05
UNITS: Final = {"CURR": "NADC", "VOLT": "NVDC", "RES": "NOHM"}
NAMES: Final = {"CURRent": "CURR", "VOLTage": "VOLT", "RESistance": "RES"}


class K6517b(SourceUnit):
    """The state of one unit."""

    gain_error = 1e-3
    noise = 1e-6
    amps_limit = 0.02
    volts_limit = 1000.0

    def reset(self, now: float) -> None:
        """See ``ModelState``: zero check on."""
        super().reset(now)
        self.source_range = SOURCE_RANGES[0]
        self.measured = "VOLT"
        self.has_check, self.is_corrected, self.is_bare = True, False, False
        self.range = {name: steps[-1] for name, steps in RANGES.items()}
        self.is_auto = dict.fromkeys(RANGES, True)
        self.nplc = dict.fromkeys(RANGES, 1.0)
        self.readings = 0

    def describe(self, now: float) -> Mapping[str, Any]:
        return {
            "is_on": self.output.is_on,
            "volts_set": self.output.volts,
            "volts": self.output.node.advance(now).terminal_volts,
            "amps": self.output.node.amps,
            "has_check": self.has_check,
        }

    def value(self, call: scpi.SimCall, now: float) -> float:
        """One reading of the present function."""
        volts, amps = self.output.measure(now, call.random)
        values = {"VOLT": volts, "CURR": amps, "RES": volts / amps if amps else OVERFLOW}
        value = 0.0 if self.has_check else values[self.measured]
        steps = RANGES[self.measured]
        most = steps[-1] if self.is_auto[self.measured] else self.range[self.measured]
        return value if abs(value) <= most * OVER_RANGE else OVERFLOW

    def read(self, call: scpi.SimCall, now: float) -> str:
        """A reading as it is told."""
        self.readings += 1
        value = f"{self.value(call, now):+.6E}"
        if self.is_bare:
            return value
        return f"{value}{UNITS[self.measured]},{now:+015.6f}secs,+{self.readings:05d}RDNG#"


def set_volts(unit: K6517b, call: scpi.SimCall) -> None:
    """``:SOUR:VOLT``: within its range."""
    volts = call.number(0, lowest=-1000.0, highest=1000.0, default=0.0, unit="V")
    if abs(volts) > unit.source_range:
        raise scpi.ScpiError(-222)
    unit.output.volts = volts
    unit.output.apply(call.now)


def set_source_range(unit: K6517b, call: scpi.SimCall) -> None:
    """``:SOUR:VOLT:RANG``: a level that it does not hold comes down."""
    asked = abs(call.number(0, lowest=-1000.0, highest=1000.0, unit="V"))
    unit.source_range = scpi.nearest_at_least(asked, SOURCE_RANGES)
    most = unit.source_range
    unit.output.volts = max(-most, min(most, unit.output.volts))
    unit.output.apply(call.now)


def set_function(unit: K6517b, call: scpi.SimCall) -> None:
    """``:SENS:FUNC 'CURR'``: quoted."""
    if not call.has(0) or call.arguments[0][0] not in "\"'":
        raise scpi.ScpiError(-104)
    names = {**NAMES, **{f"{name}:DC": short for name, short in NAMES.items()}}
    unit.measured = call.choice(0, names)


def set_elements(unit: K6517b, call: scpi.SimCall) -> None:
    """``:FORM:ELEM READ``."""
    names = {"READing": "READ", "TSTamp": "TST", "RNUMber": "RNUM", "UNITs": "UNIT"}
    chosen = [call.choice(place, names) for place in range(len(call.arguments))]
    unit.is_bare = chosen == ["READ"]


def set_range(unit: K6517b, call: scpi.SimCall, function: str) -> None:
    """``:SENS:CURR:RANG``."""
    steps = RANGES[function]
    asked = abs(call.number(0, lowest=-steps[-1] * OVER_RANGE, highest=steps[-1] * OVER_RANGE))
    unit.range[function] = scpi.nearest_at_least(asked / OVER_RANGE, steps)
    unit.is_auto[function] = False


def read(unit: K6517b, call: scpi.SimCall) -> scpi.Answer:
    """``:READ?``."""
    return scpi.Later(unit.nplc[unit.measured] * LINE_CYCLE_S, lambda now: unit.read(call, now))


def _number(value: float) -> str:
    return f"{value:+.6E}"


NUMBER: Final = scpi.Settings(say=_number)
SENSE_WORDS: Final = {
    ":RANGe[:UPPer]": set_range,
    ":RANGe[:UPPer]?": lambda u, _c, function: _number(u.range[function]),
    **scpi.OWN.switch(":RANGe:AUTO", "is_auto"),
    **NUMBER.number(":NPLCycles", "nplc", 0.01, 10.0, default=1.0),
}

VOCABULARY: Final = scpi.Vocabulary(
    {
        ":SOURce:VOLTage[:LEVel][:IMMediate][:AMPLitude]": set_volts,
        ":SOURce:VOLTage[:LEVel][:IMMediate][:AMPLitude]?": lambda u, _c: _number(u.output.volts),
        ":SOURce:VOLTage:RANGe": set_source_range,
        ":SOURce:VOLTage:RANGe?": lambda u, _c: _number(u.source_range),
        ":SOURce:CURRent:LIMit[:STATe]?": lambda u, c: scpi.flag(u.output.is_in_compliance(c.now)),
        ":OUTPut[:STATe]": switch,
        ":OUTPut[:STATe]?": lambda u, _c: scpi.flag(u.output.is_on),
        **scpi.OWN.switch(":SYSTem:ZCHeck[:STATe]", "has_check"),
        **scpi.OWN.switch(":SYSTem:ZCORrect[:STATe]", "is_corrected"),
        "[:SENSe]:FUNCtion": set_function,
        "[:SENSe]:FUNCtion?": lambda u, _c: f'"{u.measured}:DC"',
        **scpi.below("[:SENSe]:CURRent[:DC]", "CURR", SENSE_WORDS),
        **scpi.below("[:SENSe]:VOLTage[:DC]", "VOLT", SENSE_WORDS),
        **scpi.below("[:SENSe]:RESistance", "RES", SENSE_WORDS),
        ":FORMat:ELEMents": set_elements,
        ":READ?": read,
    }
)

MODEL: Final = scpi.ModelSpec(
    idn="KEITHLEY INSTRUMENTS INC.,MODEL 6517B,{serial},A13/700X",
    serial="{number:07d}",
    first_number=4_096_271,
    dialect=scpi.Dialect(error_format='{code},"{text}"', latency_s=0.003),
    vocabulary=VOCABULARY,
    build=K6517b,
)
