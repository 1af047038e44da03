"""Keithley 2000: a multimeter across the main load; its current terminals are open.

Quirks kept: the name has blanks before its last part; a range is asked for by the reading that is
expected, up to a little beyond the highest one; integration is any number of power line cycles from
0.01 to 10, and AC has it too; functions are answered in quotes, and booleans are 1 and 0. Source:
the manuals that profiles/keithley_2000.yaml names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from edged_sim import scpi
from edged_sim.models.families.meter import (
    SETTINGS,
    Meter,
    MeterFunction,
    function_words,
    range_words,
)

LOWEST_NPLC: Final = 0.01
HIGHEST_NPLC: Final = 10.0
MOST_AVERAGES: Final = 100
VOLTS: Final = (0.1, 1.0, 10.0, 100.0)
OHMS: Final = tuple(10.0**power for power in range(2, 9))
FUNCTIONS: Final[Mapping[str, MeterFunction]] = {
    "VOLT:DC": MeterFunction(header=":VOLTage[:DC]", ranges=(*VOLTS, 1000.0), has_nplc=True),
    "VOLT:AC": MeterFunction(header=":VOLTage:AC", ranges=(*VOLTS, 750.0), has_nplc=True),
    "CURR:DC": MeterFunction(header=":CURRent[:DC]", ranges=(0.01, 0.1, 1.0, 3.0), has_nplc=True),
    "CURR:AC": MeterFunction(header=":CURRent:AC", ranges=(1.0, 3.0), has_nplc=True),
    "RES": MeterFunction(header=":RESistance", ranges=OHMS, has_nplc=True),
    "FRES": MeterFunction(header=":FRESistance", ranges=OHMS, has_nplc=True),
}
MOST: Final[Mapping[str, float]] = {
    "VOLT:DC": 1010.0,
    "VOLT:AC": 757.5,
    "CURR:DC": 3.1,
    "CURR:AC": 3.1,
    "RES": 120e6,
    "FRES": 120e6,
}
"""The highest reading that may be expected."""


class Keithley2000(Meter):
    """The state of one unit."""

    functions = FUNCTIONS
    gain_error = 30e-6
    nplc = 1.0
    band_hz = 30.0
    least_nplc = LOWEST_NPLC
    unclocked_s = 0.1

    def reset(self, now: float) -> None:
        super().reset(now)
        self.moves = "REP"

    def describe(self, now: float) -> Mapping[str, Any]:
        settings = self.settings[self.function]
        return {
            "function": self.function,
            "nplc": settings.nplc,
            "range": None if settings.is_auto else settings.range,
            "volts": self.node.advance(now).volts,
        }

    def read(self, call: scpi.SimCall, now: float) -> float:
        """One reading at ``now``."""
        node = self.node.advance(now)
        match self.function:
            case "VOLT:DC":
                return self.ranged(node.volts, call)
            case "VOLT:AC":
                return self.ranged(node.seen_by_scope().rms_ac(), call)
            case "RES" | "FRES":
                return self.ranged(self.ohms(now), call)
            case _:
                return self.ranged(0.0, call)


def _number(value: float) -> str:
    return f"{value:+.8E}"


def configure(unit: Keithley2000, _call: scpi.SimCall, function: str) -> None:
    """``CONF:VOLT:DC``: chooses the function."""
    unit.function = function


def set_function(unit: Keithley2000, call: scpi.SimCall) -> None:
    """``SENS:FUNC 'VOLT:DC'``."""
    names = {"VOLTage:DC": "VOLT:DC", "VOLTage:AC": "VOLT:AC", "CURRent:DC": "CURR:DC"}
    names |= {"CURRent:AC": "CURR:AC", "RESistance": "RES", "FRESistance": "FRES"}
    unit.function = call.choice(0, names)


def set_range(unit: Keithley2000, call: scpi.SimCall, function: str) -> None:
    """``SENS:VOLT:RANG 955``: the range that holds what is expected; it chooses no more."""
    asked = call.number(0, lowest=0.0, highest=MOST[function])
    unit.settings[function].range = scpi.nearest_at_least(asked, unit.functions[function].ranges)
    unit.settings[function].is_auto = False


def set_autozero(unit: Keithley2000, call: scpi.SimCall, function: str) -> None:
    """``SENS:VOLT:AZER``, which cannot be asked."""
    unit.settings[function].has_autozero = call.boolean(0)


def take_reading(unit: Keithley2000, call: scpi.SimCall) -> scpi.Answer:
    """``READ?``: one reading, after the time that it takes."""
    return scpi.Later(unit.reading_s(), lambda now: _number(unit.read(call, now)))


EACH: Final = {
    **SETTINGS.switch(":AVERage:STATe", "has_average"),
    **SETTINGS.whole(":AVERage:COUNt", "averages", 1, MOST_AVERAGES),
    **scpi.OWN.choice(":AVERage:TCONtrol", "moves", {"MOVing": "MOV", "REPeat": "REP"}),
}
RANGED: Final = range_words(_number, set_range)
CLOCKED: Final = {
    **replace(SETTINGS, say="{:.2f}".format).number(
        ":NPLCycles", "nplc", LOWEST_NPLC, HIGHEST_NPLC, default=1.0
    ),
    ":AZERo": set_autozero,
}


def _configurations() -> dict[str, Any]:
    table: dict[str, Any] = {}
    for name, function in FUNCTIONS.items():
        table |= scpi.below(f":CONFigure{function.header}", name, {"": configure})
    return table


VOCABULARY: Final = scpi.Vocabulary(
    {
        **function_words(
            "[:SENSe]", FUNCTIONS, each=EACH, ranged=RANGED, clocked=CLOCKED, banded={}
        ),
        **_configurations(),
        ":CONFigure?": lambda u, _c: f'"{u.function}"',
        "[:SENSe]:FUNCtion": set_function,
        "[:SENSe]:FUNCtion?": lambda u, _c: f'"{u.function}"',
        ":READ?": take_reading,
        ":ABORt": lambda _u, _c: None,
        ":SYSTem:REMote": lambda _u, _c: None,
        ":SYSTem:LOCal": lambda _u, _c: None,
        ":SYSTem:RWLock": lambda _u, _c: None,
    }
)

MODEL: Final = scpi.ModelSpec(
    idn="KEITHLEY INSTRUMENTS INC.,MODEL 2000,{serial},A19  /A02",
    serial="{number:07d}",
    first_number=1_103_202,
    dialect=scpi.Dialect(latency_s=0.005),
    vocabulary=VOCABULARY,
    build=Keithley2000,
)
