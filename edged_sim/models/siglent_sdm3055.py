"""Siglent SDM3055: a multimeter across the main load; its current terminals are open.

Quirks kept: ranges go by twos, and are said with their units (``200mV``); M is milli before V and A
and mega before ohms; integration times are 0.3, 1 and 10 power line cycles, and values between them
are taken up to the next one; AC has none of them. Source: the manuals that
profiles/siglent_sdm3055.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Final

from edged_sim.models import keysight_34461a
from edged_sim.models.families.meter import MeterFunction
from edged_sim.scpi import Answer, ScpiError, SimCall, Vocabulary, below, nearest_at_least

VOLTS: Final = (0.2, 2.0, 20.0, 200.0)
AMPS: Final = (2e-4, 2e-3, 0.02, 0.2, 2.0, 10.0)
OHMS: Final = (200.0, 2e3, 2e4, 2e5, 2e6, 1e7, 1e8)
FUNCTIONS: Final = {
    "VOLT": MeterFunction(header=":VOLTage[:DC]", ranges=(*VOLTS, 1000.0), has_nplc=True),
    "VOLT:AC": MeterFunction(header=":VOLTage:AC", ranges=(*VOLTS, 750.0)),
    "CURR": MeterFunction(header=":CURRent[:DC]", ranges=AMPS, has_nplc=True),
    "CURR:AC": MeterFunction(header=":CURRent:AC", ranges=AMPS[2:]),
    "RES": MeterFunction(header=":RESistance", ranges=OHMS, has_nplc=True),
    "FRES": MeterFunction(header=":FRESistance", ranges=OHMS, has_nplc=True),
    "FREQ": MeterFunction(header=":FREQuency"),
}
UNITS: Final = {"VOLT": "V", "CURR": "A", "RES": "OHM", "FRES": "OHM"}


class Sdm3055(keysight_34461a.Truevolt):
    """The state of one unit."""

    functions = FUNCTIONS
    gain_error = 150e-6
    least_nplc = 0.3
    nplc_steps: ClassVar[tuple[float, ...]] = (0.3, 1.0, 10.0)


def configure(unit: Sdm3055, call: SimCall, function: str) -> None:
    """``CONF:VOLT:DC 200mV``: a range with or without its unit, or AUTO."""
    ranges = unit.functions[function].ranges
    asked: float | None = None
    if call.has(0) and call.text(0).upper() not in ("AUTO", "DEF", "DEFAULT"):
        if not ranges:
            raise ScpiError(-108)
        unit_word = UNITS[function.split(":")[0]]
        asked = call.number(0, lowest=-ranges[-1], highest=ranges[-1], unit=unit_word)
    bare = dataclasses.replace(call, arguments=())
    keysight_34461a.configure(unit, bare, function)
    if asked is not None:
        unit.settings[function].range = nearest_at_least(abs(asked), ranges)
        unit.settings[function].is_auto = False


def measure(unit: Sdm3055, call: SimCall, function: str) -> Answer:
    """``MEAS:VOLT:DC?``."""
    configure(unit, call, function)
    return keysight_34461a.take_readings(unit, call)


def _words() -> dict[str, Any]:
    table = keysight_34461a.per_function(FUNCTIONS, banded={}) | dict(keysight_34461a.WORDS)
    for name, function in FUNCTIONS.items():
        table |= below(f":CONFigure{function.header}", name, {"": configure})
        table |= below(f":MEASure{function.header}", name, {"?": measure})
    return table


MODEL: Final = dataclasses.replace(
    keysight_34461a.MODEL,
    idn="Siglent Technologies,SDM3055,{serial},1.01.01.22R1",
    serial="SDM35GBX5R{number:04d}",
    first_number=872,
    vocabulary=Vocabulary(_words()),
    build=Sdm3055,
)
