"""Keithley 2400: the classic source meter, with the traps of its dialect.

Quirks kept: ``:MEAS?`` switches the output on by itself; ``:READ?`` with the output off is error
+802 and no answer; compliance is set under SENSe (``:SENS:CURR:PROT``); elements come in their own
order (VOLT, CURR, RES, TIME, STAT) whatever the order asked for; what is not measured is the
programmed value or 9.91E37; bit 3 of STAT is compliance; arm count times trigger count is at most
2500. Source: the manuals that
profiles/keithley_2400.yaml names.
"""

from __future__ import annotations

from typing import Final

from edged_sim import scpi
from edged_sim.models.families.keithley_smu import (
    LONGEST_DELAY_S,
    OFF_STATES,
    OVER_RANGE,
    KeithleySmu,
    keithley_words,
)
from edged_sim.models.families.source import LINE_CYCLE_S, switch

NOT_A_NUMBER: Final = 9.91e37
RANGES: Final = {
    "VOLT": (0.2, 2.0, 20.0, 200.0),
    "CURR": (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0),
}
ELEMENTS: Final = ("VOLT", "CURR", "RES", "TIME", "STAT")
ELEMENT_NAMES: Final = {
    "VOLTage": "VOLT",
    "CURRent": "CURR",
    "RESistance": "RES",
    "TIME": "TIME",
    "STATus": "STAT",
}
FUNCTION_NAMES: Final = {
    "VOLTage": "VOLT",
    "VOLTage:DC": "VOLT",
    "CURRent": "CURR",
    "CURRent:DC": "CURR",
    "RESistance": "RES",
}
COMPLIANCE_BIT: Final = 1 << 3
OUTPUT_BIT: Final = 1 << 0
MOST_TRIGGERS: Final = 2500
OUTPUT_IS_OFF: Final = 802


class Smu2400(KeithleySmu):
    """The state of one unit."""

    gain_error = 150e-6
    noise = 30e-6
    ranges = RANGES

    def reset(self, now: float) -> None:
        super().reset(now)
        self.source_range = {name: steps[-1] for name, steps in self.ranges.items()}
        self.sense_ranges = {
            "VOLT": self.ranges["VOLT"][-1],
            "CURR": self.ranges["CURR"][2],
            "RES": 2.1e5,
        }
        self.is_sense_auto = {"VOLT": True, "CURR": True, "RES": True}
        self.functions = {"CURR"}
        self.is_concurrent = True
        self.nplc = 1.0
        self.elements: tuple[str, ...] = ELEMENTS
        self.off_state = "NORM"
        self.has_remote_sense = False
        self.arms = self.triggers = 1
        self.delay_s = 0.0
        self.averages, self.has_average = 10, False

    def read(self, call: scpi.SimCall, now: float) -> str:
        """The elements of one reading."""
        out = self.output
        volts, amps = out.measure(now, call.random)
        if "VOLT" not in self.functions:
            volts = NOT_A_NUMBER if out.is_current else out.volts
        if "CURR" not in self.functions:
            amps = out.amps if out.is_current else NOT_A_NUMBER
        has_ohms = "RES" in self.functions and abs(amps) > 0
        status = OUTPUT_BIT | (COMPLIANCE_BIT if out.is_in_compliance(now) else 0)
        values = {
            "VOLT": volts,
            "CURR": amps,
            "RES": volts / amps if has_ohms else NOT_A_NUMBER,
            "TIME": now,
            "STAT": float(status),
        }
        return ",".join(_number(values[element]) for element in self.elements)


def set_mode(_unit: Smu2400, call: scpi.SimCall) -> None:
    """``:SOUR:VOLT:MODE FIX``; sweeps and lists are not simulated."""
    call.choice(0, {"FIXed": "FIX"})


def set_amps_limit(unit: Smu2400, call: scpi.SimCall) -> None:
    """``:SENS:CURR:PROT``."""
    amps = call.number(0, lowest=-unit.highest_a, highest=unit.highest_a, default=105e-6, unit="A")
    unit.check_envelope(unit.output.volts, amps)
    unit.output.amps_limit = abs(amps)
    unit.output.apply(call.now)


def set_volts_limit(unit: Smu2400, call: scpi.SimCall) -> None:
    """``:SENS:VOLT:PROT``."""
    volts = call.number(0, lowest=-unit.highest_v, highest=unit.highest_v, default=21.0, unit="V")
    unit.check_envelope(volts, unit.output.amps)
    unit.output.volts_limit = abs(volts)
    unit.output.apply(call.now)


def set_functions(unit: Smu2400, call: scpi.SimCall) -> None:
    """``:SENS:FUNC "VOLT","CURR"``: quoted; without concurrency the last one counts."""
    if any(raw[:1] not in ("'", '"') for raw in call.arguments) or not call.arguments:
        raise scpi.ScpiError(-104)
    wanted = [call.choice(place, FUNCTION_NAMES) for place in range(len(call.arguments))]
    unit.functions = set(wanted) if unit.is_concurrent else {wanted[-1]}


def functions(unit: Smu2400, _call: scpi.SimCall) -> str:
    """``:SENS:FUNC?`` → ``"VOLT:DC","CURR:DC"``."""
    names = {"VOLT": '"VOLT:DC"', "CURR": '"CURR:DC"', "RES": '"RES"'}
    return ",".join(text for name, text in names.items() if name in unit.functions)


def set_nplc(unit: Smu2400, call: scpi.SimCall) -> None:
    """``:SENS:CURR:NPLC``: one value for all functions."""
    unit.nplc = call.number(0, lowest=0.01, highest=10.0, default=1.0)


def set_sense_range(unit: Smu2400, call: scpi.SimCall, function: str) -> None:
    """``:SENS:CURR:RANG``: not beyond compliance."""
    steps = unit.ranges[function]
    highest = steps[-1] * OVER_RANGE
    asked = abs(call.number(0, lowest=-highest, highest=highest, default=steps[-1]))
    unit.sense_ranges[function] = scpi.nearest_at_least(asked / OVER_RANGE, steps)
    unit.is_sense_auto[function] = False


def set_elements(unit: Smu2400, call: scpi.SimCall) -> None:
    """``:FORM:ELEM VOLT,CURR,STAT``: the order is the instrument's own."""
    wanted = {call.choice(place, ELEMENT_NAMES) for place in range(len(call.arguments))}
    if not wanted:
        raise scpi.ScpiError(-109)
    unit.elements = tuple(element for element in ELEMENTS if element in wanted)


def take_readings(unit: Smu2400, call: scpi.SimCall) -> scpi.Answer:
    """``:READ?``: error +802 and silence while the output is off."""
    if not unit.output.is_on:
        raise scpi.ScpiError(OUTPUT_IS_OFF, "Output is off")
    return _readings(unit, call)


def measure(unit: Smu2400, call: scpi.SimCall) -> scpi.Answer:
    """``:MEAS?``: the trap; it switches the output on, and leaves it on."""
    unit.output.switch(is_on=True, now=call.now)
    return _readings(unit, call)


def _readings(unit: Smu2400, call: scpi.SimCall) -> scpi.Answer:
    count = unit.arms * unit.triggers
    each_s = unit.nplc * LINE_CYCLE_S * (unit.averages if unit.has_average else 1) + unit.delay_s

    def finish(now: float) -> str:
        return ",".join(unit.read(call, now) for _ in range(count))

    return scpi.Later(each_s * count, finish)


def set_arms(unit: Smu2400, call: scpi.SimCall) -> None:
    """``:ARM:COUN``."""
    unit.arms = _count(call, unit.triggers)


def set_triggers(unit: Smu2400, call: scpi.SimCall) -> None:
    """``:TRIG:COUN``."""
    unit.triggers = _count(call, unit.arms)


def _count(call: scpi.SimCall, other: int) -> int:
    count = call.whole(0, lowest=1, highest=MOST_TRIGGERS)
    if count * other > MOST_TRIGGERS:
        raise scpi.ScpiError(-221)
    return count


def _number(value: float) -> str:
    return f"{value:+.6E}"


SENSE_WORDS: Final = {
    ":RANGe[:UPPer]": set_sense_range,
    ":RANGe[:UPPer]?": lambda u, _c, function: _number(u.sense_ranges[function]),
    **scpi.OWN.switch(":RANGe:AUTO", "is_sense_auto"),
    ":NPLCycles": lambda u, c, _function: set_nplc(u, c),
    ":NPLCycles?": lambda u, _c, _function: f"{u.nplc:.2f}",
}

OWN: Final = scpi.Settings(say="{:.5f}".format)

VOCABULARY: Final = scpi.Vocabulary(
    {
        **keithley_words(_number),
        ":SOURce<n>:VOLTage:MODE": set_mode,
        ":SOURce<n>:VOLTage:MODE?": lambda _u, _c: "FIX",
        ":SOURce<n>:CURRent:MODE": set_mode,
        ":SOURce<n>:CURRent:MODE?": lambda _u, _c: "FIX",
        **OWN.number(":SOURce<n>:DELay", "delay_s", 0.0, LONGEST_DELAY_S, unit="S"),
        "[:SENSe<n>]:CURRent[:DC]:PROTection[:LEVel]": set_amps_limit,
        "[:SENSe<n>]:CURRent[:DC]:PROTection[:LEVel]?": lambda u, _c: _number(u.output.amps_limit),
        "[:SENSe<n>]:CURRent[:DC]:PROTection:TRIPped?": lambda u, c: u.tripped(c, is_current=False),
        "[:SENSe<n>]:VOLTage[:DC]:PROTection[:LEVel]": set_volts_limit,
        "[:SENSe<n>]:VOLTage[:DC]:PROTection[:LEVel]?": lambda u, _c: _number(u.output.volts_limit),
        "[:SENSe<n>]:VOLTage[:DC]:PROTection:TRIPped?": lambda u, c: u.tripped(c, is_current=True),
        "[:SENSe<n>]:FUNCtion[:ON]": set_functions,
        "[:SENSe<n>]:FUNCtion[:ON]?": functions,
        **OWN.switch("[:SENSe<n>]:FUNCtion:CONCurrent", "is_concurrent"),
        **OWN.whole("[:SENSe<n>]:AVERage:COUNt", "averages", 1, 100),
        **OWN.switch("[:SENSe<n>]:AVERage[:STATe]", "has_average"),
        **scpi.below("[:SENSe<n>]:VOLTage[:DC]", "VOLT", SENSE_WORDS),
        **scpi.below("[:SENSe<n>]:CURRent[:DC]", "CURR", SENSE_WORDS),
        ":FORMat:ELEMents": set_elements,
        ":FORMat:ELEMents?": lambda u, _c: ",".join(u.elements),
        ":OUTPut<n>[:STATe]": switch,
        ":OUTPut<n>[:STATe]?": lambda u, _c: scpi.flag(u.output.is_on),
        **OWN.choice(":OUTPut<n>:SMODe", "off_state", OFF_STATES),
        ":READ?": take_readings,
        ":MEASure?": measure,
        ":MEASure:VOLTage?": measure,
        ":MEASure:CURRent?": measure,
        ":ARM:COUNt": set_arms,
        ":ARM:COUNt?": lambda u, _c: str(u.arms),
        ":TRIGger:COUNt": set_triggers,
        ":TRIGger:COUNt?": lambda u, _c: str(u.triggers),
        **OWN.switch(":SYSTem:RSENse", "has_remote_sense"),
        ":SYSTem:BEEPer:STATe": lambda _u, _c: None,
    }
)

MODEL: Final = scpi.ModelSpec(
    idn="KEITHLEY INSTRUMENTS INC.,MODEL 2400,{serial},C30 Mar 17 2006 09:29:29/A02 /K/J",
    serial="{number:07d}",
    first_number=1234567,
    dialect=scpi.Dialect(error_format='{code},"{text}"', latency_s=0.003),
    vocabulary=VOCABULARY,
    build=Smu2400,
)
