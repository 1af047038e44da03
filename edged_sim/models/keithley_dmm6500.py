"""Keithley DMM6500 in its SCPI dialect: a multimeter across the main load.

Quirks kept: a header that the function does not have (NPLC of AC, of capacitance) is never answered
and leaves -113; functions are quoted; ``*LANG?`` names the dialect; the terminals are a switch on
the front that can only be read, and 10 A exists on the rear ones alone; the largest NPLC goes by
the line frequency (12 at 50 Hz). Source: the manuals that
profiles/keithley_dmm6500.yaml names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from edged_sim import scpi
from edged_sim.models.families.meter import (
    OVERLOAD,
    SETTINGS,
    Meter,
    MeterFunction,
    function_words,
    range_words,
)
from edged_sim.physics import RIPPLE_HZ

LOWEST_NPLC: Final = 0.0005
HIGHEST_NPLC: Final = 12.0
OPEN_LEADS_F: Final = 12e-12
MOST_SAMPLES: Final = 1_000_000
BUFFER: Final = 100_000
"""defbuffer1 as it is after a reset; it drops the oldest of more."""
BUFFERS: Final = ("DEFBUFFER1", "DEFBUFFER2")


VOLTS: Final = (0.1, 1.0, 10.0, 100.0, 1000.0)
AMPS: Final = (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 3.0)
FUNCTIONS: Final[Mapping[str, MeterFunction]] = {
    "VOLT:DC": MeterFunction(header=":VOLTage[:DC]", ranges=VOLTS, has_nplc=True),
    "VOLT:AC": MeterFunction(
        header=":VOLTage:AC", ranges=(0.1, 1.0, 10.0, 100.0, 750.0), has_band=True
    ),
    "CURR:DC": MeterFunction(header=":CURRent[:DC]", ranges=AMPS, has_nplc=True),
    "CURR:AC": MeterFunction(header=":CURRent:AC", ranges=AMPS[1:], has_band=True),
    "RES": MeterFunction(
        header=":RESistance", ranges=tuple(10.0**power for power in range(1, 9)), has_nplc=True
    ),
    "FRES": MeterFunction(
        header=":FRESistance", ranges=tuple(10.0**power for power in range(9)), has_nplc=True
    ),
    "CAP": MeterFunction(header=":CAPacitance", ranges=(1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)),
    "TEMP": MeterFunction(header=":TEMPerature", has_nplc=True),
    "DIOD": MeterFunction(header=":DIODe", has_nplc=True),
    "CONT": MeterFunction(header=":CONTinuity"),
    "FREQ:VOLT": MeterFunction(header=":FREQuency[:VOLTage]"),
    "PER:VOLT": MeterFunction(header=":PERiod[:VOLTage]"),
    "VOLT:DC:RAT": MeterFunction(header=":VOLTage:DC:RATio", ranges=VOLTS, has_nplc=True),
}
FUNCTION_NAMES: Final = {
    "VOLTage": "VOLT:DC",
    "VOLTage:DC": "VOLT:DC",
    "VOLTage:AC": "VOLT:AC",
    "CURRent": "CURR:DC",
    "CURRent:DC": "CURR:DC",
    "CURRent:AC": "CURR:AC",
    "RESistance": "RES",
    "FRESistance": "FRES",
    "CAPacitance": "CAP",
    "TEMPerature": "TEMP",
    "DIODe": "DIOD",
    "CONTinuity": "CONT",
    "FREQuency:VOLTage": "FREQ:VOLT",
    "PERiod:VOLTage": "PER:VOLT",
    "VOLTage:DC:RATio": "VOLT:DC:RAT",
}


class Dmm6500(Meter):
    """The state of one unit."""

    functions = FUNCTIONS
    gain_error = 25e-6
    nplc = 1.0
    band_hz = 3.0
    least_nplc = 0.01
    unclocked_s = 0.1

    def reset(self, now: float) -> None:
        super().reset(now)
        self.temperature_unit = "CELS"

    def describe(self, now: float) -> Mapping[str, Any]:
        settings = self.settings[self.function]
        return {
            "function": self.function,
            "nplc": settings.nplc if FUNCTIONS[self.function].has_nplc else None,
            "range": None if settings.is_auto else settings.range,
            "samples": self.samples,
            "volts": self.node.advance(now).volts,
        }

    def read(self, call: scpi.SimCall, now: float) -> float:
        """One reading at ``now``."""
        return self.shown(self.true_value(now), call)

    def shown(self, value: float, call: scpi.SimCall) -> float:
        """A true value as one reading shows it."""
        if FUNCTIONS[self.function].ranges:
            return self.ranged(value, call)
        if not math.isfinite(value):
            return OVERLOAD
        return value * (1 + call.random.gauss(0.0, 1e-6))

    def true_value(self, now: float) -> float:
        """What an ideal meter shows."""
        node = self.node.advance(now)
        wave = node.seen_by_scope()
        match self.function:
            case "VOLT:DC":
                return node.volts
            case "VOLT:AC":
                return wave.rms_ac()
            case "RES" | "FRES" | "CONT":
                return self.ohms(now)
            case "TEMP":
                return node.celsius if self.temperature_unit == "CELS" else node.celsius + 273.15
            case "CAP":
                return OPEN_LEADS_F
            case "FREQ:VOLT":
                return RIPPLE_HZ if wave.rms_ac() > 0 else math.inf
            case "PER:VOLT":
                return 1 / RIPPLE_HZ if wave.rms_ac() > 0 else math.inf
            case "CURR:DC" | "CURR:AC":
                return 0.0
            case _:
                return math.inf


def _number(value: float) -> str:
    return f"{value:.6E}"


def set_function(unit: Dmm6500, call: scpi.SimCall) -> None:
    """``:SENS:FUNC "VOLT:DC"``: only in quotes."""
    if call.arguments and call.arguments[0][:1] not in ("'", '"'):
        raise scpi.ScpiError(-104)
    unit.function = call.choice(0, FUNCTION_NAMES)


def asked_band(_unit: Dmm6500, call: scpi.SimCall) -> float:
    """``:SENS:VOLT:AC:DET:BAND``: 3, 30 or 300 Hz."""
    asked = call.number(0, lowest=3.0, highest=300.0, default=3.0)
    return scpi.nearest_at_least(asked, (3.0, 30.0, 300.0))


def take_readings(unit: Dmm6500, call: scpi.SimCall) -> scpi.Answer:
    """``:READ?``: takes all samples into the buffer and answers with the last one."""
    _check_buffer(call, 0)

    def finish(now: float) -> str:
        value = unit.true_value(now)
        unit.memory = [unit.shown(value, call) for _ in range(min(unit.samples, BUFFER))]
        return _number(unit.memory[-1])

    return scpi.Later(unit.reading_s() * unit.samples, finish)


def fetch(unit: Dmm6500, call: scpi.SimCall) -> str:
    """``:FETC?``: the last reading again."""
    _check_buffer(call, 0)
    if not unit.memory:
        raise scpi.ScpiError(-230)
    return _number(unit.memory[-1])


def statistics(unit: Dmm6500, call: scpi.SimCall, what: str) -> str:
    """``:TRAC:STAT:AVER?`` and its kin."""
    _check_buffer(call, 0)
    values = unit.memory
    if not values:
        raise scpi.ScpiError(-230)
    mean = math.fsum(values) / len(values)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    return _number({"AVER": mean, "MIN": min(values), "MAX": max(values), "STDD": spread}[what])


def buffer_data(unit: Dmm6500, call: scpi.SimCall) -> str:
    """``:TRAC:DATA? 1,10,"defbuffer1"``."""
    most = len(unit.memory)
    if not most:
        raise scpi.ScpiError(-230)
    first = call.whole(0, lowest=1, highest=most)
    last = call.whole(1, lowest=first, highest=most)
    _check_buffer(call, 2)
    return ",".join(map(_number, unit.memory[first - 1 : last]))


def clear_buffer(unit: Dmm6500, call: scpi.SimCall) -> None:
    """``:TRAC:CLE``."""
    _check_buffer(call, 0)
    unit.memory.clear()


def _check_buffer(call: scpi.SimCall, place: int) -> None:
    if call.has(place) and call.text(place).upper() not in BUFFERS:
        raise scpi.ScpiError(-224)


PLAIN: Final = replace(SETTINGS, say="{:g}".format)

AVERAGE_WORDS: Final = {
    **PLAIN.whole(":AVERage:COUNt", "averages", 1, 100),
    **PLAIN.switch(":AVERage[:STATe]", "has_average"),
}
RANGED_WORDS: Final = range_words(_number)
CLOCKED_WORDS: Final = {
    **PLAIN.number(":NPLCycles", "nplc", LOWEST_NPLC, HIGHEST_NPLC, default=1.0),
    **PLAIN.switch(":AZERo[:STATe]", "has_autozero"),
}
BANDED_WORDS: Final = PLAIN.row(":DETector:BANDwidth", "band_hz", asked_band)

VOCABULARY: Final = scpi.Vocabulary(
    {
        **function_words(
            "[:SENSe<n>]",
            FUNCTIONS,
            each=AVERAGE_WORDS,
            ranged=RANGED_WORDS,
            clocked=CLOCKED_WORDS,
            banded=BANDED_WORDS,
        ),
        "[:SENSe<n>]:FUNCtion[:ON]": set_function,
        "[:SENSe<n>]:FUNCtion[:ON]?": lambda u, _c: f'"{u.function}"',
        **scpi.OWN.whole("[:SENSe<n>]:COUNt", "samples", 1, MOST_SAMPLES),
        **scpi.OWN.choice(
            "[:SENSe<n>]:TEMPerature:UNIT",
            "temperature_unit",
            {"CELSius": "CELS", "KELVin": "KELV"},
        ),
        "[:SENSe<n>]:AZERo:ONCE": lambda _u, _c: None,
        ":READ?": take_readings,
        ":FETCh?": fetch,
        ":ABORt": lambda _u, _c: None,
        ":TRACe:DATA?": buffer_data,
        ":TRACe:CLEar": clear_buffer,
        ":TRACe:ACTual?": lambda u, _c: str(len(u.memory)),
        ":TRACe:STATistics:AVERage?": lambda u, c: statistics(u, c, "AVER"),
        ":TRACe:STATistics:MINimum?": lambda u, c: statistics(u, c, "MIN"),
        ":TRACe:STATistics:MAXimum?": lambda u, c: statistics(u, c, "MAX"),
        ":TRACe:STATistics:STDDev?": lambda u, c: statistics(u, c, "STDD"),
        ":ROUTe:TERMinals?": lambda _u, _c: "FRON",
        ":SYSTem:LFRequency?": lambda _u, _c: "50",
        "*LANG?": lambda _u, _c: "SCPI",
    }
)

MODEL: Final = scpi.ModelSpec(
    idn="KEITHLEY INSTRUMENTS,MODEL DMM6500,{serial},1.7.12b",
    serial="{number:08d}",
    first_number=4_592_448,
    dialect=scpi.Dialect(latency_s=0.002),
    vocabulary=VOCABULARY,
    build=Dmm6500,
)
