"""Keithley 2450 in its SCPI dialect: sources voltage or current, measures the other.

Quirks kept: ``*LANG?`` names the dialect; compliance is a limit of the source (ILIM, VLIM) and not
a protection of the measurement; functions are quoted; a reading is asked of a buffer with the
elements that are wanted; a reading with the output off is 9.9E37; beyond 21 V at most 105 mA, and
beyond 105 mA at most 21 V; another source function switches the output off. Source: the manuals
that profiles/keithley_2450.yaml names.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
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

NOT_A_NUMBER: Final = 9.9e37
RANGES: Final = {
    "VOLT": (0.02, 0.2, 2.0, 20.0, 200.0),
    "CURR": (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0),
    "RES": (2.0, 20.0, 200.0, 2e3, 2e4, 2e5, 2e6, 2e7, 2e8),
}
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


class Smu2450(KeithleySmu):
    """The state of one unit."""

    gain_error = 100e-6
    noise = 20e-6
    ranges = RANGES

    def reset(self, now: float) -> None:
        super().reset(now)
        self.source_range = {"VOLT": RANGES["VOLT"][0], "CURR": RANGES["CURR"][0]}
        self.delay_s = {"VOLT": 0.0, "CURR": 0.0}
        self.off_state = {"VOLT": "NORM", "CURR": "NORM"}
        self.reads_back = {"VOLT": True, "CURR": True}
        self.sensed = "CURR"
        self.sense = {
            "VOLT": Sense(highest=self.highest_v, range=RANGES["VOLT"][-1]),
            "CURR": Sense(highest=self.highest_a, range=RANGES["CURR"][-1]),
            "RES": Sense(highest=RANGES["RES"][-1], range=RANGES["RES"][-1]),
        }
        self.count = 1
        self.buffer: deque[Reading] = deque(maxlen=MOST_READINGS)

    def read(self, call: scpi.SimCall, now: float) -> Reading:
        """As many measurements into the buffer as are set; the last of them."""
        out = self.output
        is_limited = out.is_in_compliance(now)
        if out.is_on:
            values = [
                {"VOLT": volts, "CURR": amps, "RES": volts / amps if amps else NOT_A_NUMBER}[
                    self.sensed
                ]
                for volts, amps in out.measure_often(self.count, now, call.random)
            ]
        else:
            values = [NOT_A_NUMBER] * self.count
        self.buffer.extend(
            Reading(source=out.level, value=value, seconds=now, is_limited=is_limited)
            for value in values
        )
        return self.buffer[-1]


def set_amps_limit(unit: Smu2450, call: scpi.SimCall) -> None:
    """``:SOUR:VOLT:ILIM``."""
    amps = call.number(0, lowest=1e-9, highest=unit.highest_a, default=105e-6, unit="A")
    unit.check_envelope(unit.output.volts, amps)
    unit.output.amps_limit = amps
    unit.output.apply(call.now)


def set_volts_limit(unit: Smu2450, call: scpi.SimCall) -> None:
    """``:SOUR:CURR:VLIM``."""
    volts = call.number(0, lowest=0.02, highest=unit.highest_v, default=21.0, unit="V")
    unit.check_envelope(volts, unit.output.amps)
    unit.output.volts_limit = volts
    unit.output.apply(call.now)


def set_sensed(unit: Smu2450, call: scpi.SimCall) -> None:
    """``:SENS:FUNC "CURR"``: quoted, and one at a time."""
    if not call.has(0) or call.arguments[0][0] not in "\"'":
        raise scpi.ScpiError(-104)
    unit.sensed = call.choice(0, SENSED_NAMES)


def set_sense_range(unit: Smu2450, call: scpi.SimCall, function: str) -> None:
    """``:SENS:CURR:RANG``."""
    sense = unit.sense[function]
    steps = RANGES[function]
    asked = abs(call.number(0, lowest=-sense.highest, highest=sense.highest, default=steps[-1]))
    sense.range, sense.is_auto = scpi.nearest_at_least(asked / OVER_RANGE, steps), False


def take_reading(unit: Smu2450, call: scpi.SimCall) -> scpi.Answer:
    """``:READ? "defbuffer1",SOUR,READ``: the last of the readings that it takes."""
    elements = _elements(call, 1)
    sense = unit.sense[unit.sensed]
    each_s = sense.nplc * LINE_CYCLE_S * (sense.averages if sense.has_average else 1)

    def finish(now: float) -> str:
        return _told([unit.read(call, now)], elements)

    return scpi.Later(each_s * unit.count + unit.delay_s[unit.function], finish)


def _elements(call: scpi.SimCall, first: int) -> Sequence[str]:
    if call.has(0) and first == 1 and call.text(0).lower() != BUFFER:
        raise scpi.ScpiError(-224)
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


def trace_data(unit: Smu2450, call: scpi.SimCall) -> str:
    """``:TRAC:DATA? 1,10,"defbuffer1",SOUR,READ``."""
    first = call.whole(0, lowest=1, highest=MOST_READINGS)
    last = call.whole(1, lowest=1, highest=MOST_READINGS)
    if call.has(2) and call.text(2).lower() != BUFFER:
        raise scpi.ScpiError(-224)
    if first > last or last > len(unit.buffer):
        raise scpi.ScpiError(-222)
    return _told(list(unit.buffer)[first - 1 : last], _elements(call, 3))


def set_language(_unit: Smu2450, call: scpi.SimCall) -> None:
    """``*LANG TSP``: counts after the next power-up, which does not come here."""
    call.choice(0, {"SCPI": "", "TSP": "", "SCPI2400": ""})


def _number(value: float) -> str:
    return f"{value:.6E}"


NUMBER: Final = scpi.Settings(say=_number)
SOURCE_WORDS: Final = {
    **NUMBER.number(":DELay", "delay_s", 0.0, LONGEST_DELAY_S, unit="S"),
    **scpi.OWN.switch(":READ:BACK", "reads_back"),
}
SENSE: Final = scpi.Settings(of=lambda u, _c, which: u.sense[which], say=_number)

SENSE_WORDS: Final = {
    ":RANGe[:UPPer]": set_sense_range,
    ":RANGe[:UPPer]?": lambda u, _c, function: _number(u.sense[function].range),
    **SENSE.switch(":RANGe:AUTO", "is_auto"),
    **SENSE.number(":NPLCycles", "nplc", 0.01, 10.0, default=1.0),
    # Four wires.
    **SENSE.switch(":RSENse", "is_remote"),
    **SENSE.whole(":AVERage:COUNt", "averages", 1, 100),
    **SENSE.switch(":AVERage[:STATe]", "has_average"),
}
OFF_WORDS: Final = {
    **scpi.OWN.choice(":SMODe", "off_state", OFF_STATES),
}

VOCABULARY: Final = scpi.Vocabulary(
    {
        "*LANG": set_language,
        "*LANG?": lambda _u, _c: "SCPI",
        **keithley_words(_number),
        ":SOURce<n>:VOLTage:ILIMit[:LEVel]": set_amps_limit,
        ":SOURce<n>:VOLTage:ILIMit[:LEVel]?": lambda u, _c: _number(u.output.amps_limit),
        ":SOURce<n>:VOLTage:ILIMit[:LEVel]:TRIPped?": lambda u, c: u.tripped(c, is_current=False),
        ":SOURce<n>:CURRent:VLIMit[:LEVel]": set_volts_limit,
        ":SOURce<n>:CURRent:VLIMit[:LEVel]?": lambda u, _c: _number(u.output.volts_limit),
        ":SOURce<n>:CURRent:VLIMit[:LEVel]:TRIPped?": lambda u, c: u.tripped(c, is_current=True),
        **scpi.below(":SOURce<n>:VOLTage", "VOLT", SOURCE_WORDS),
        **scpi.below(":SOURce<n>:CURRent", "CURR", SOURCE_WORDS),
        "[:SENSe]:FUNCtion[:ON]": set_sensed,
        "[:SENSe]:FUNCtion[:ON]?": lambda u, _c: f'"{SENSED_ANSWERS[u.sensed]}"',
        **scpi.OWN.whole("[:SENSe]:COUNt", "count", 1, MOST_READINGS),
        **scpi.below("[:SENSe]:VOLTage[:DC]", "VOLT", SENSE_WORDS),
        **scpi.below("[:SENSe]:CURRent[:DC]", "CURR", SENSE_WORDS),
        **scpi.below("[:SENSe]:RESistance[:DC]", "RES", SENSE_WORDS),
        ":OUTPut[:STATe]": switch,
        ":OUTPut[:STATe]?": lambda u, _c: scpi.flag(u.output.is_on),
        **scpi.below(":OUTPut:VOLTage", "VOLT", OFF_WORDS),
        **scpi.below(":OUTPut:CURRent", "CURR", OFF_WORDS),
        ":READ?": take_reading,
        ":TRACe:DATA?": trace_data,
        ":TRACe:ACTual?": lambda u, _c: str(len(u.buffer)),
        ":TRACe:CLEar": lambda u, _c: u.buffer.clear(),
        ":SYSTem:BEEPer": lambda _u, _c: None,
        ":SYSTem:LFRequency?": lambda _u, _c: "50",
    }
)

MODEL: Final = scpi.ModelSpec(
    idn="KEITHLEY INSTRUMENTS,MODEL 2450,{serial},1.6.4c",
    serial="{number:08d}",
    first_number=1419966,
    dialect=scpi.Dialect(error_format='{code},"{text}"', latency_s=0.002),
    vocabulary=VOCABULARY,
    build=Smu2450,
)
