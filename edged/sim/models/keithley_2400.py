"""Keithley 2400: the classic source meter, with the traps of its dialect.

Quirks kept: ``:MEAS?`` switches the output on by itself; ``:READ?`` with the output off is error
+802 and no answer; compliance is set under SENSe (``:SENS:CURR:PROT``); elements come in their own
order (VOLT, CURR, RES, TIME, STAT) whatever the order asked for; what is not measured is the
programmed value or 9.91E37; bit 3 of STAT is compliance; arm count times trigger count is at most
2500. Source: the manuals that
profiles/keithley_2400.yaml names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from edged.sim.scpi import (
    Answer,
    Dialect,
    Later,
    ModelSpec,
    ScpiError,
    SimCall,
    SimUnit,
    Vocabulary,
    nearest_at_least,
)
from edged.sim.sources import Output

LINE_CYCLE_S: Final = 0.02
GAIN_ERROR: Final = 150e-6
NOISE: Final = 30e-6
NOT_A_NUMBER: Final = 9.91e37
HIGHEST_V: Final = 210.0
HIGHEST_A: Final = 1.05
CORNER_V: Final = 21.0
CORNER_A: Final = 0.105
VOLT_RANGES: Final = (0.2, 2.0, 20.0, 200.0)
AMP_RANGES: Final = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
OVER_RANGE: Final = 1.05
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
LONGEST_DELAY_S: Final = 999.9999
OFF_STATES: Final = {"HIMPedance": "HIMP", "NORMal": "NORM", "ZERO": "ZERO", "GUARd": "GUAR"}
OUTPUT_IS_OFF: Final = 802


class Smu2400:
    """The state of one unit."""

    def __init__(self, unit: SimUnit) -> None:
        node, source = unit.world.connect_source(unit.name, "out")
        gain = 1 + unit.random.uniform(-GAIN_ERROR, GAIN_ERROR)
        self.output = Output(node=node, source=source, gain=gain, noise=NOISE)
        self.reset(0.0)

    def reset(self, now: float) -> None:
        """See ``State``."""
        out = self.output
        out.switch(is_on=False, now=now)
        out.is_current = False
        out.volts = out.amps = 0.0
        out.amps_limit, out.volts_limit = 105e-6, 21.0
        out.apply(now)
        self.ranges = {"VOLT": VOLT_RANGES[-1], "CURR": AMP_RANGES[-1]}
        self.is_auto = {"VOLT": True, "CURR": True}
        self.sense_ranges = {"VOLT": VOLT_RANGES[-1], "CURR": AMP_RANGES[2], "RES": 2.1e5}
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
        self.terminals = "FRON"

    def describe(self, now: float) -> Mapping[str, Any]:
        """See ``State``."""
        out = self.output
        return {
            "is_on": out.is_on,
            "function": self.function,
            "volts_set": out.volts,
            "amps_set": out.amps,
            "amps_limit": out.amps_limit,
            "volts_limit": out.volts_limit,
            "volts": out.node.advance(now).terminal_volts,
            "amps": out.node.amps,
            "is_limited": out.is_in_compliance(now),
        }

    @property
    def function(self) -> str:
        """VOLT or CURR: what is sourced."""
        return "CURR" if self.output.is_current else "VOLT"

    def check_envelope(self, volts: float, amps: float) -> None:
        """Raises -221 where the instrument cannot deliver both at once."""
        if abs(volts) > CORNER_V and abs(amps) > CORNER_A:
            raise ScpiError(-221)

    def read(self, call: SimCall, now: float) -> str:
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


def set_function(unit: Smu2400, call: SimCall) -> None:
    """``:SOUR:FUNC VOLT``: the output goes off when it changes."""
    is_current = call.choice(0, {"VOLTage": False, "CURRent": True})
    if is_current is not unit.output.is_current:
        unit.output.switch(is_on=False, now=call.now)
    unit.output.is_current = is_current
    unit.output.apply(call.now)


def set_mode(_unit: Smu2400, call: SimCall) -> None:
    """``:SOUR:VOLT:MODE FIX``; sweeps and lists are not simulated."""
    call.choice(0, {"FIXed": "FIX"})


def set_volts(unit: Smu2400, call: SimCall) -> None:
    """``:SOUR:VOLT:LEV``."""
    volts = call.number(0, lowest=-HIGHEST_V, highest=HIGHEST_V, default=0.0, unit="V")
    unit.check_envelope(volts, unit.output.amps_limit)
    _check_range(unit, "VOLT", volts)
    unit.output.volts = volts
    unit.output.apply(call.now)


def set_amps(unit: Smu2400, call: SimCall) -> None:
    """``:SOUR:CURR:LEV``."""
    amps = call.number(0, lowest=-HIGHEST_A, highest=HIGHEST_A, default=0.0, unit="A")
    unit.check_envelope(unit.output.volts_limit, amps)
    _check_range(unit, "CURR", amps)
    unit.output.amps = amps
    unit.output.apply(call.now)


def _check_range(unit: Smu2400, function: str, level: float) -> None:
    steps = VOLT_RANGES if function == "VOLT" else AMP_RANGES
    if unit.is_auto[function]:
        unit.ranges[function] = nearest_at_least(abs(level) / OVER_RANGE, steps)
    elif abs(level) > unit.ranges[function] * OVER_RANGE:
        raise ScpiError(-222)


def set_range(unit: Smu2400, call: SimCall, function: str) -> None:
    """``:SOUR:VOLT:RANG``."""
    steps = VOLT_RANGES if function == "VOLT" else AMP_RANGES
    highest = steps[-1] * OVER_RANGE
    asked = abs(call.number(0, lowest=-highest, highest=highest, default=steps[-1]))
    chosen = nearest_at_least(asked / OVER_RANGE, steps)
    level = unit.output.volts if function == "VOLT" else unit.output.amps
    if abs(level) > chosen * OVER_RANGE:
        raise ScpiError(-221)
    unit.ranges[function], unit.is_auto[function] = chosen, False


def set_auto(unit: Smu2400, call: SimCall, function: str) -> None:
    """``:SOUR:VOLT:RANG:AUTO``."""
    unit.is_auto[function] = call.boolean(0)


def set_amps_limit(unit: Smu2400, call: SimCall) -> None:
    """``:SENS:CURR:PROT``."""
    amps = call.number(0, lowest=-HIGHEST_A, highest=HIGHEST_A, default=105e-6, unit="A")
    unit.check_envelope(unit.output.volts, amps)
    unit.output.amps_limit = abs(amps)
    unit.output.apply(call.now)


def set_volts_limit(unit: Smu2400, call: SimCall) -> None:
    """``:SENS:VOLT:PROT``."""
    volts = call.number(0, lowest=-HIGHEST_V, highest=HIGHEST_V, default=21.0, unit="V")
    unit.check_envelope(volts, unit.output.amps)
    unit.output.volts_limit = abs(volts)
    unit.output.apply(call.now)


def set_functions(unit: Smu2400, call: SimCall) -> None:
    """``:SENS:FUNC "VOLT","CURR"``: quoted; without concurrency the last one counts."""
    if any(raw[:1] not in ("'", '"') for raw in call.arguments) or not call.arguments:
        raise ScpiError(-104)
    wanted = [call.choice(place, FUNCTION_NAMES) for place in range(len(call.arguments))]
    unit.functions = set(wanted) if unit.is_concurrent else {wanted[-1]}


def functions(unit: Smu2400, _call: SimCall) -> str:
    """``:SENS:FUNC?`` → ``"VOLT:DC","CURR:DC"``."""
    names = {"VOLT": '"VOLT:DC"', "CURR": '"CURR:DC"', "RES": '"RES"'}
    return ",".join(text for name, text in names.items() if name in unit.functions)


def set_concurrent(unit: Smu2400, call: SimCall) -> None:
    """``:SENS:FUNC:CONC ON``."""
    unit.is_concurrent = call.boolean(0)


def set_nplc(unit: Smu2400, call: SimCall) -> None:
    """``:SENS:CURR:NPLC``: one value for all functions."""
    unit.nplc = call.number(0, lowest=0.01, highest=10.0, default=1.0)


def set_sense_range(unit: Smu2400, call: SimCall, function: str) -> None:
    """``:SENS:CURR:RANG``: not beyond compliance."""
    steps = VOLT_RANGES if function == "VOLT" else AMP_RANGES
    highest = steps[-1] * OVER_RANGE
    asked = abs(call.number(0, lowest=-highest, highest=highest, default=steps[-1]))
    unit.sense_ranges[function] = nearest_at_least(asked / OVER_RANGE, steps)
    unit.is_sense_auto[function] = False


def set_sense_auto(unit: Smu2400, call: SimCall, function: str) -> None:
    """``:SENS:CURR:RANG:AUTO``."""
    unit.is_sense_auto[function] = call.boolean(0)


def set_elements(unit: Smu2400, call: SimCall) -> None:
    """``:FORM:ELEM VOLT,CURR,STAT``: the order is the instrument's own."""
    wanted = {call.choice(place, ELEMENT_NAMES) for place in range(len(call.arguments))}
    if not wanted:
        raise ScpiError(-109)
    unit.elements = tuple(element for element in ELEMENTS if element in wanted)


def switch(unit: Smu2400, call: SimCall) -> None:
    """``:OUTP ON``."""
    unit.output.switch(is_on=call.boolean(0), now=call.now)


def take_readings(unit: Smu2400, call: SimCall) -> Answer:
    """``:READ?``: error +802 and silence while the output is off."""
    if not unit.output.is_on:
        raise ScpiError(OUTPUT_IS_OFF, "Output is off")
    return _readings(unit, call)


def measure(unit: Smu2400, call: SimCall) -> Answer:
    """``:MEAS?``: the trap; it switches the output on, and leaves it on."""
    unit.output.switch(is_on=True, now=call.now)
    return _readings(unit, call)


def _readings(unit: Smu2400, call: SimCall) -> Answer:
    count = unit.arms * unit.triggers
    each_s = unit.nplc * LINE_CYCLE_S * (unit.averages if unit.has_average else 1) + unit.delay_s

    def finish(now: float) -> str:
        return ",".join(unit.read(call, now) for _ in range(count))

    return Later(each_s * count, finish)


def set_arms(unit: Smu2400, call: SimCall) -> None:
    """``:ARM:COUN``."""
    unit.arms = _count(call, unit.triggers)


def set_triggers(unit: Smu2400, call: SimCall) -> None:
    """``:TRIG:COUN``."""
    unit.triggers = _count(call, unit.arms)


def _count(call: SimCall, other: int) -> int:
    count = call.whole(0, lowest=1, highest=MOST_TRIGGERS)
    if count * other > MOST_TRIGGERS:
        raise ScpiError(-221)
    return count


def set_delay(unit: Smu2400, call: SimCall) -> None:
    """``:SOUR:DEL``."""
    unit.delay_s = call.number(0, lowest=0.0, highest=LONGEST_DELAY_S, unit="S")


def set_off_state(unit: Smu2400, call: SimCall) -> None:
    """``:OUTP:SMOD``."""
    unit.off_state = call.choice(0, OFF_STATES)


def set_remote_sense(unit: Smu2400, call: SimCall) -> None:
    """``:SYST:RSEN``."""
    unit.has_remote_sense = call.boolean(0)


def set_terminals(unit: Smu2400, call: SimCall) -> None:
    """``:ROUT:TERM REAR``: the output goes off."""
    unit.output.switch(is_on=False, now=call.now)
    unit.terminals = call.choice(0, {"FRONt": "FRON", "REAR": "REAR"})


def set_averages(unit: Smu2400, call: SimCall) -> None:
    """``:SENS:AVER:COUN``."""
    unit.averages = call.whole(0, lowest=1, highest=100)


def set_averaging(unit: Smu2400, call: SimCall) -> None:
    """``:SENS:AVER``."""
    unit.has_average = call.boolean(0)


def _tripped(unit: Smu2400, call: SimCall, *, is_current: bool) -> str:
    out = unit.output
    return _flag(out.is_current is is_current and out.is_in_compliance(call.now))


def _number(value: float) -> str:
    return f"{value:+.6E}"


def _flag(is_true: bool) -> str:
    return str(int(is_true))


def _source_words(word: str, function: str) -> dict[str, Any]:
    header = f":SOURce<n>:{word}"
    return {
        f"{header}:RANGe": lambda u, c: set_range(u, c, function),
        f"{header}:RANGe?": lambda u, _c: _number(u.ranges[function]),
        f"{header}:RANGe:AUTO": lambda u, c: set_auto(u, c, function),
        f"{header}:RANGe:AUTO?": lambda u, _c: _flag(u.is_auto[function]),
        f"{header}:MODE": set_mode,
        f"{header}:MODE?": lambda _u, _c: "FIX",
    }


def _sense_words(word: str, function: str) -> dict[str, Any]:
    header = f"[:SENSe<n>]:{word}[:DC]"
    return {
        f"{header}:RANGe[:UPPer]": lambda u, c: set_sense_range(u, c, function),
        f"{header}:RANGe[:UPPer]?": lambda u, _c: _number(u.sense_ranges[function]),
        f"{header}:RANGe:AUTO": lambda u, c: set_sense_auto(u, c, function),
        f"{header}:RANGe:AUTO?": lambda u, _c: _flag(u.is_sense_auto[function]),
        f"{header}:NPLCycles": set_nplc,
        f"{header}:NPLCycles?": lambda u, _c: f"{u.nplc:.2f}",
    }


VOCABULARY: Final = Vocabulary(
    {
        ":SOURce<n>:FUNCtion[:MODE]": set_function,
        ":SOURce<n>:FUNCtion[:MODE]?": lambda u, _c: u.function,
        ":SOURce<n>:VOLTage[:LEVel][:IMMediate][:AMPLitude]": set_volts,
        ":SOURce<n>:VOLTage[:LEVel][:IMMediate][:AMPLitude]?": lambda u, _c: _number(
            u.output.volts
        ),
        ":SOURce<n>:CURRent[:LEVel][:IMMediate][:AMPLitude]": set_amps,
        ":SOURce<n>:CURRent[:LEVel][:IMMediate][:AMPLitude]?": lambda u, _c: _number(u.output.amps),
        ":SOURce<n>:DELay": set_delay,
        ":SOURce<n>:DELay?": lambda u, _c: f"{u.delay_s:.5f}",
        **_source_words("VOLTage", "VOLT"),
        **_source_words("CURRent", "CURR"),
        "[:SENSe<n>]:CURRent[:DC]:PROTection[:LEVel]": set_amps_limit,
        "[:SENSe<n>]:CURRent[:DC]:PROTection[:LEVel]?": lambda u, _c: _number(u.output.amps_limit),
        "[:SENSe<n>]:CURRent[:DC]:PROTection:TRIPped?": lambda u, c: _tripped(
            u, c, is_current=False
        ),
        "[:SENSe<n>]:VOLTage[:DC]:PROTection[:LEVel]": set_volts_limit,
        "[:SENSe<n>]:VOLTage[:DC]:PROTection[:LEVel]?": lambda u, _c: _number(u.output.volts_limit),
        "[:SENSe<n>]:VOLTage[:DC]:PROTection:TRIPped?": lambda u, c: _tripped(
            u, c, is_current=True
        ),
        "[:SENSe<n>]:FUNCtion[:ON]": set_functions,
        "[:SENSe<n>]:FUNCtion[:ON]?": functions,
        "[:SENSe<n>]:FUNCtion:CONCurrent": set_concurrent,
        "[:SENSe<n>]:FUNCtion:CONCurrent?": lambda u, _c: _flag(u.is_concurrent),
        "[:SENSe<n>]:AVERage:COUNt": set_averages,
        "[:SENSe<n>]:AVERage:COUNt?": lambda u, _c: str(u.averages),
        "[:SENSe<n>]:AVERage[:STATe]": set_averaging,
        "[:SENSe<n>]:AVERage[:STATe]?": lambda u, _c: _flag(u.has_average),
        **_sense_words("VOLTage", "VOLT"),
        **_sense_words("CURRent", "CURR"),
        ":FORMat:ELEMents": set_elements,
        ":FORMat:ELEMents?": lambda u, _c: ",".join(u.elements),
        ":OUTPut<n>[:STATe]": switch,
        ":OUTPut<n>[:STATe]?": lambda u, _c: _flag(u.output.is_on),
        ":OUTPut<n>:SMODe": set_off_state,
        ":OUTPut<n>:SMODe?": lambda u, _c: u.off_state,
        ":READ?": take_readings,
        ":MEASure?": measure,
        ":MEASure:VOLTage?": measure,
        ":MEASure:CURRent?": measure,
        ":ARM:COUNt": set_arms,
        ":ARM:COUNt?": lambda u, _c: str(u.arms),
        ":TRIGger:COUNt": set_triggers,
        ":TRIGger:COUNt?": lambda u, _c: str(u.triggers),
        ":ROUTe:TERMinals": set_terminals,
        ":ROUTe:TERMinals?": lambda u, _c: u.terminals,
        ":SYSTem:RSENse": set_remote_sense,
        ":SYSTem:RSENse?": lambda u, _c: _flag(u.has_remote_sense),
        ":SYSTem:BEEPer:STATe": lambda _u, _c: None,
        ":SYSTem:VERSion?": lambda _u, _c: "1996.0",
        ":ABORt": lambda _u, _c: None,
    }
)

MODEL: Final = ModelSpec(
    idn="KEITHLEY INSTRUMENTS INC.,MODEL 2400,{serial},C30 Mar 17 2006 09:29:29/A02 /K/J",
    serial="{number:07d}",
    first_number=1234567,
    dialect=Dialect(error_format='{code},"{text}"', latency_s=0.003),
    vocabulary=VOCABULARY,
    build=Smu2400,
)
