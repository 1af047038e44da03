"""Keithley 2450 in its SCPI dialect: sources voltage or current, measures the other.

Quirks kept: ``*LANG?`` names the dialect; compliance is a limit of the source (ILIM, VLIM) and not
a protection of the measurement; functions are quoted; a reading is asked of a buffer with the
elements that are wanted; a reading with the output off is 9.9E37; beyond 21 V at most 105 mA, and
beyond 105 mA at most 21 V; another source function switches the output off. Source: the manuals
that profiles/keithley_2450.yaml names.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
GAIN_ERROR: Final = 100e-6
NOISE: Final = 20e-6
NOT_A_NUMBER: Final = 9.9e37
HIGHEST_V: Final = 210.0
HIGHEST_A: Final = 1.05
CORNER_V: Final = 21.0
CORNER_A: Final = 0.105
"""Beyond one of these only the other is to be had."""
SOURCE_V: Final = (0.02, 0.2, 2.0, 20.0, 200.0)
SOURCE_A: Final = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
OHMS: Final = (2.0, 20.0, 200.0, 2e3, 2e4, 2e5, 2e6, 2e7, 2e8)
OVER_RANGE: Final = 1.05
LONGEST_DELAY_S: Final = 999.9999
BUFFER: Final = "defbuffer1"
MOST_READINGS: Final = 10_000
"""Of a buffer; more would only cost the bench its time."""
SENSED: Final = {"VOLTage": "VOLT", "CURRent": "CURR", "RESistance": "RES"}
SENSED_NAMES: Final = {
    **SENSED,
    "VOLTage:DC": "VOLT",
    "CURRent:DC": "CURR",
}
SENSED_ANSWERS: Final = {"VOLT": "VOLT:DC", "CURR": "CURR:DC", "RES": "RES"}
OFF_STATES: Final = {"HIMPedance": "HIMP", "NORMal": "NORM", "ZERO": "ZERO", "GUARd": "GUAR"}


@dataclass(slots=True, kw_only=True)
class Sense:
    """Settings of one measuring function."""

    highest: float
    range: float
    is_auto: bool = True
    nplc: float = 1.0
    is_remote: bool = False
    averages: int = 10
    has_average: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One entry of the buffer."""

    source: float
    value: float
    seconds: float
    is_limited: bool


class Smu2450:
    """The state of one unit."""

    def __init__(self, unit: SimUnit) -> None:
        node, source = unit.world.connect_source(unit.name, "out")
        gain = 1 + unit.random.uniform(-GAIN_ERROR, GAIN_ERROR)
        self.output = Output(node=node, source=source, gain=gain, noise=NOISE)
        self.language = "SCPI"
        self.reset(0.0)

    def reset(self, now: float) -> None:
        """See ``State``."""
        out = self.output
        out.switch(is_on=False, now=now)
        out.is_current = False
        out.volts = out.amps = 0.0
        out.amps_limit, out.volts_limit = 105e-6, 21.0
        out.apply(now)
        self.source_range = {"VOLT": SOURCE_V[0], "CURR": SOURCE_A[0]}
        self.is_source_auto = {"VOLT": True, "CURR": True}
        self.delay_s = {"VOLT": 0.0, "CURR": 0.0}
        self.off_state = {"VOLT": "NORM", "CURR": "NORM"}
        self.reads_back = {"VOLT": True, "CURR": True}
        self.sensed = "CURR"
        self.sense = {
            "VOLT": Sense(highest=HIGHEST_V, range=SOURCE_V[-1]),
            "CURR": Sense(highest=HIGHEST_A, range=SOURCE_A[-1]),
            "RES": Sense(highest=OHMS[-1], range=OHMS[-1]),
        }
        self.count = 1
        self.terminals = "FRON"
        self.buffer: deque[Reading] = deque(maxlen=MOST_READINGS)

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

    def read(self, call: SimCall, now: float) -> Reading:
        """One measurement into the buffer."""
        out = self.output
        if not out.is_on:
            value = NOT_A_NUMBER
        else:
            volts, amps = out.measure(now, call.random)
            ohms = volts / amps if amps else NOT_A_NUMBER
            value = {"VOLT": volts, "CURR": amps, "RES": ohms}[self.sensed]
        level = out.amps if out.is_current else out.volts
        reading = Reading(
            source=level, value=value, seconds=now, is_limited=out.is_in_compliance(now)
        )
        self.buffer.append(reading)
        return reading


def set_function(unit: Smu2450, call: SimCall) -> None:
    """``:SOUR:FUNC VOLT``: the output goes off when it changes."""
    is_current = call.choice(0, {"VOLTage": False, "CURRent": True})
    if is_current is not unit.output.is_current:
        unit.output.switch(is_on=False, now=call.now)
    unit.output.is_current = is_current
    unit.output.apply(call.now)


def set_volts(unit: Smu2450, call: SimCall) -> None:
    """``:SOUR:VOLT:LEV``."""
    volts = call.number(0, lowest=-HIGHEST_V, highest=HIGHEST_V, default=0.0, unit="V")
    unit.check_envelope(volts, unit.output.amps_limit)
    _check_range(unit, "VOLT", volts)
    unit.output.volts = volts
    unit.output.apply(call.now)


def set_amps(unit: Smu2450, call: SimCall) -> None:
    """``:SOUR:CURR:LEV``."""
    amps = call.number(0, lowest=-HIGHEST_A, highest=HIGHEST_A, default=0.0, unit="A")
    unit.check_envelope(unit.output.volts_limit, amps)
    _check_range(unit, "CURR", amps)
    unit.output.amps = amps
    unit.output.apply(call.now)


def _check_range(unit: Smu2450, function: str, level: float) -> None:
    steps = SOURCE_V if function == "VOLT" else SOURCE_A
    if unit.is_source_auto[function]:
        unit.source_range[function] = nearest_at_least(abs(level) / OVER_RANGE, steps)
    elif abs(level) > unit.source_range[function] * OVER_RANGE:
        raise ScpiError(-222)


def set_amps_limit(unit: Smu2450, call: SimCall) -> None:
    """``:SOUR:VOLT:ILIM``."""
    amps = call.number(0, lowest=1e-9, highest=HIGHEST_A, default=105e-6, unit="A")
    unit.check_envelope(unit.output.volts, amps)
    unit.output.amps_limit = amps
    unit.output.apply(call.now)


def set_volts_limit(unit: Smu2450, call: SimCall) -> None:
    """``:SOUR:CURR:VLIM``."""
    volts = call.number(0, lowest=0.02, highest=HIGHEST_V, default=21.0, unit="V")
    unit.check_envelope(volts, unit.output.amps)
    unit.output.volts_limit = volts
    unit.output.apply(call.now)


def set_source_range(unit: Smu2450, call: SimCall, function: str) -> None:
    """``:SOUR:VOLT:RANG``: one that holds the level; autorange is off after it."""
    steps = SOURCE_V if function == "VOLT" else SOURCE_A
    highest = HIGHEST_V if function == "VOLT" else HIGHEST_A
    asked = abs(call.number(0, lowest=-highest, highest=highest, default=steps[-1]))
    chosen = nearest_at_least(asked / OVER_RANGE, steps)
    level = unit.output.volts if function == "VOLT" else unit.output.amps
    if abs(level) > chosen * OVER_RANGE:
        raise ScpiError(-221)
    unit.source_range[function], unit.is_source_auto[function] = chosen, False


def set_source_auto(unit: Smu2450, call: SimCall, function: str) -> None:
    """``:SOUR:VOLT:RANG:AUTO``."""
    unit.is_source_auto[function] = call.boolean(0)


def set_delay(unit: Smu2450, call: SimCall, function: str) -> None:
    """``:SOUR:VOLT:DEL``."""
    unit.delay_s[function] = call.number(0, lowest=0.0, highest=LONGEST_DELAY_S, unit="S")


def set_off_state(unit: Smu2450, call: SimCall, function: str) -> None:
    """``:OUTP:VOLT:SMOD``."""
    unit.off_state[function] = call.choice(0, OFF_STATES)


def set_read_back(unit: Smu2450, call: SimCall, function: str) -> None:
    """``:SOUR:VOLT:READ:BACK``."""
    unit.reads_back[function] = call.boolean(0)


def set_sensed(unit: Smu2450, call: SimCall) -> None:
    """``:SENS:FUNC "CURR"``: quoted, and one at a time."""
    if not call.has(0) or call.arguments[0][0] not in "\"'":
        raise ScpiError(-104)
    unit.sensed = call.choice(0, SENSED_NAMES)


def set_sense_range(unit: Smu2450, call: SimCall, function: str) -> None:
    """``:SENS:CURR:RANG``."""
    sense = unit.sense[function]
    steps = {"VOLT": SOURCE_V, "CURR": SOURCE_A, "RES": OHMS}[function]
    asked = abs(call.number(0, lowest=-sense.highest, highest=sense.highest, default=steps[-1]))
    sense.range, sense.is_auto = nearest_at_least(asked / OVER_RANGE, steps), False


def set_sense_auto(unit: Smu2450, call: SimCall, function: str) -> None:
    """``:SENS:CURR:RANG:AUTO``."""
    unit.sense[function].is_auto = call.boolean(0)


def set_nplc(unit: Smu2450, call: SimCall, function: str) -> None:
    """``:SENS:CURR:NPLC``."""
    unit.sense[function].nplc = call.number(0, lowest=0.01, highest=10.0, default=1.0)


def set_remote_sense(unit: Smu2450, call: SimCall, function: str) -> None:
    """``:SENS:CURR:RSEN``: four wires."""
    unit.sense[function].is_remote = call.boolean(0)


def set_averages(unit: Smu2450, call: SimCall, function: str) -> None:
    """``:SENS:CURR:AVER:COUN``."""
    unit.sense[function].averages = call.whole(0, lowest=1, highest=100)


def set_averaging(unit: Smu2450, call: SimCall, function: str) -> None:
    """``:SENS:CURR:AVER``."""
    unit.sense[function].has_average = call.boolean(0)


def switch(unit: Smu2450, call: SimCall) -> None:
    """``:OUTP ON``."""
    unit.output.switch(is_on=call.boolean(0), now=call.now)


def take_reading(unit: Smu2450, call: SimCall) -> Answer:
    """``:READ? "defbuffer1",SOUR,READ``: the last of the readings that it takes."""
    elements = _elements(call, 1)
    sense = unit.sense[unit.sensed]
    each_s = sense.nplc * LINE_CYCLE_S * (sense.averages if sense.has_average else 1)

    def finish(now: float) -> str:
        readings = [unit.read(call, now) for _ in range(unit.count)]
        return _told(readings[-1:], elements)

    return Later(each_s * unit.count + unit.delay_s[unit.function], finish)


def _elements(call: SimCall, first: int) -> Sequence[str]:
    if call.has(0) and first == 1 and call.text(0).lower() != BUFFER:
        raise ScpiError(-224)
    names = {"SOURce": "SOUR", "READing": "READ", "RELative": "REL", "STATus": "STAT"}
    given = [call.choice(place, names) for place in range(first, len(call.arguments))]
    return given or ["READ"]


def _told(readings: Sequence[Reading], elements: Sequence[str]) -> str:
    return ",".join(
        {
            "SOUR": _number(reading.source),
            "READ": _number(reading.value),
            "REL": f"{reading.seconds:.6f}",
            "STAT": "8" if reading.is_limited else "0",
        }[element]
        for reading in readings
        for element in elements
    )


def trace_data(unit: Smu2450, call: SimCall) -> str:
    """``:TRAC:DATA? 1,10,"defbuffer1",SOUR,READ``."""
    first = call.whole(0, lowest=1, highest=MOST_READINGS)
    last = call.whole(1, lowest=1, highest=MOST_READINGS)
    if call.has(2) and call.text(2).lower() != BUFFER:
        raise ScpiError(-224)
    if first > last or last > len(unit.buffer):
        raise ScpiError(-222)
    return _told(list(unit.buffer)[first - 1 : last], _elements(call, 3))


def set_count(unit: Smu2450, call: SimCall) -> None:
    """``:SENS:COUN``."""
    unit.count = call.whole(0, lowest=1, highest=MOST_READINGS)


def set_terminals(unit: Smu2450, call: SimCall) -> None:
    """``:ROUT:TERM REAR``: the output goes off."""
    unit.output.switch(is_on=False, now=call.now)
    unit.terminals = call.choice(0, {"FRONt": "FRON", "REAR": "REAR"})


def set_language(_unit: Smu2450, call: SimCall) -> None:
    """``*LANG TSP``: counts after the next power-up, which does not come here."""
    call.choice(0, {"SCPI": "", "TSP": "", "SCPI2400": ""})


def _number(value: float) -> str:
    return f"{value:.6E}"


def _flag(is_true: bool) -> str:
    return str(int(is_true))


def _source_words(header: str, function: str) -> dict[str, Any]:
    """What both source functions have."""
    return {
        f"{header}:RANGe": lambda u, c: set_source_range(u, c, function),
        f"{header}:RANGe?": lambda u, _c: _number(u.source_range[function]),
        f"{header}:RANGe:AUTO": lambda u, c: set_source_auto(u, c, function),
        f"{header}:RANGe:AUTO?": lambda u, _c: _flag(u.is_source_auto[function]),
        f"{header}:DELay": lambda u, c: set_delay(u, c, function),
        f"{header}:DELay?": lambda u, _c: _number(u.delay_s[function]),
        f"{header}:READ:BACK": lambda u, c: set_read_back(u, c, function),
        f"{header}:READ:BACK?": lambda u, _c: _flag(u.reads_back[function]),
    }


def _sense_words(word: str, function: str) -> dict[str, Any]:
    """What each measuring function has."""
    header = f"[:SENSe]:{word}[:DC]"
    return {
        f"{header}:RANGe[:UPPer]": lambda u, c: set_sense_range(u, c, function),
        f"{header}:RANGe[:UPPer]?": lambda u, _c: _number(u.sense[function].range),
        f"{header}:RANGe:AUTO": lambda u, c: set_sense_auto(u, c, function),
        f"{header}:RANGe:AUTO?": lambda u, _c: _flag(u.sense[function].is_auto),
        f"{header}:NPLCycles": lambda u, c: set_nplc(u, c, function),
        f"{header}:NPLCycles?": lambda u, _c: _number(u.sense[function].nplc),
        f"{header}:RSENse": lambda u, c: set_remote_sense(u, c, function),
        f"{header}:RSENse?": lambda u, _c: _flag(u.sense[function].is_remote),
        f"{header}:AVERage:COUNt": lambda u, c: set_averages(u, c, function),
        f"{header}:AVERage:COUNt?": lambda u, _c: str(u.sense[function].averages),
        f"{header}:AVERage[:STATe]": lambda u, c: set_averaging(u, c, function),
        f"{header}:AVERage[:STATe]?": lambda u, _c: _flag(u.sense[function].has_average),
    }


VOCABULARY: Final = Vocabulary(
    {
        "*LANG": set_language,
        "*LANG?": lambda u, _c: u.language,
        ":SOURce<n>:FUNCtion[:MODE]": set_function,
        ":SOURce<n>:FUNCtion[:MODE]?": lambda u, _c: u.function,
        ":SOURce<n>:VOLTage[:LEVel][:IMMediate][:AMPLitude]": set_volts,
        ":SOURce<n>:VOLTage[:LEVel][:IMMediate][:AMPLitude]?": lambda u, _c: _number(
            u.output.volts
        ),
        ":SOURce<n>:CURRent[:LEVel][:IMMediate][:AMPLitude]": set_amps,
        ":SOURce<n>:CURRent[:LEVel][:IMMediate][:AMPLitude]?": lambda u, _c: _number(u.output.amps),
        ":SOURce<n>:VOLTage:ILIMit[:LEVel]": set_amps_limit,
        ":SOURce<n>:VOLTage:ILIMit[:LEVel]?": lambda u, _c: _number(u.output.amps_limit),
        ":SOURce<n>:VOLTage:ILIMit[:LEVel]:TRIPped?": lambda u, c: _flag(
            not u.output.is_current and u.output.is_in_compliance(c.now)
        ),
        ":SOURce<n>:CURRent:VLIMit[:LEVel]": set_volts_limit,
        ":SOURce<n>:CURRent:VLIMit[:LEVel]?": lambda u, _c: _number(u.output.volts_limit),
        ":SOURce<n>:CURRent:VLIMit[:LEVel]:TRIPped?": lambda u, c: _flag(
            u.output.is_current and u.output.is_in_compliance(c.now)
        ),
        **_source_words(":SOURce<n>:VOLTage", "VOLT"),
        **_source_words(":SOURce<n>:CURRent", "CURR"),
        "[:SENSe]:FUNCtion[:ON]": set_sensed,
        "[:SENSe]:FUNCtion[:ON]?": lambda u, _c: f'"{SENSED_ANSWERS[u.sensed]}"',
        "[:SENSe]:COUNt": set_count,
        "[:SENSe]:COUNt?": lambda u, _c: str(u.count),
        **_sense_words("VOLTage", "VOLT"),
        **_sense_words("CURRent", "CURR"),
        **_sense_words("RESistance", "RES"),
        ":OUTPut[:STATe]": switch,
        ":OUTPut[:STATe]?": lambda u, _c: _flag(u.output.is_on),
        ":OUTPut:VOLTage:SMODe": lambda u, c: set_off_state(u, c, "VOLT"),
        ":OUTPut:VOLTage:SMODe?": lambda u, _c: u.off_state["VOLT"],
        ":OUTPut:CURRent:SMODe": lambda u, c: set_off_state(u, c, "CURR"),
        ":OUTPut:CURRent:SMODe?": lambda u, _c: u.off_state["CURR"],
        ":READ?": take_reading,
        ":TRACe:DATA?": trace_data,
        ":TRACe:ACTual?": lambda u, _c: str(len(u.buffer)),
        ":TRACe:CLEar": lambda u, _c: u.buffer.clear(),
        ":ROUTe:TERMinals": set_terminals,
        ":ROUTe:TERMinals?": lambda u, _c: u.terminals,
        ":ABORt": lambda _u, _c: None,
        ":SYSTem:BEEPer": lambda _u, _c: None,
        ":SYSTem:LFRequency?": lambda _u, _c: "50",
        ":SYSTem:VERSion?": lambda _u, _c: "1996.0",
    }
)

MODEL: Final = ModelSpec(
    idn="KEITHLEY INSTRUMENTS,MODEL 2450,{serial},1.6.4c",
    serial="{number:08d}",
    first_number=1419966,
    dialect=Dialect(error_format='{code},"{text}"', latency_s=0.002),
    vocabulary=VOCABULARY,
    build=Smu2450,
)
