"""HP, Agilent and Keysight 34401A: a multimeter across the main load.

Quirks kept: AUTO is no range here, DEFault is; there is no ``ABOR``; ``DET:BAND`` is one setting
for all of AC; currents begin at 10 mA, those of AC at 1 A, and its current terminals are open; the
name has no serial number. Source: the manuals that profiles/keysight_34401a.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from edged_sim.models import keysight_34461a
from edged_sim.models.families.meter import MeterFunction
from edged_sim.scpi import Answer, Dialect, ScpiError, SimCall, Vocabulary, below

FUNCTIONS: Final = {
    **{name: keysight_34461a.FUNCTIONS[name] for name in ("VOLT", "VOLT:AC", "RES", "FRES")},
    "CURR": MeterFunction(header=":CURRent[:DC]", ranges=(0.01, 0.1, 1.0, 3.0), has_nplc=True),
    "CURR:AC": MeterFunction(header=":CURRent:AC", ranges=(1.0, 3.0), has_band=True),
    "FREQ": MeterFunction(header=":FREQuency", has_band=True),
}
BANDED: Final = [name for name, function in FUNCTIONS.items() if function.has_band]


class Dmm34401a(keysight_34461a.Truevolt):
    """The state of one unit."""

    functions = FUNCTIONS


def _check_range(call: SimCall, function: str) -> None:
    if not call.has(0):
        return
    if call.text(0).upper() == "AUTO":
        raise ScpiError(-224)
    if not FUNCTIONS[function].ranges:
        raise ScpiError(-108)


def configure(unit: Dmm34401a, call: SimCall, function: str) -> None:
    """``CONF:…``: the range is a number, MIN, MAX or DEF."""
    _check_range(call, function)
    keysight_34461a.configure(unit, call, function)


def measure(unit: Dmm34401a, call: SimCall, function: str) -> Answer:
    """``MEAS:…?``."""
    _check_range(call, function)
    return keysight_34461a.measure(unit, call, function)


def set_bandwidth(unit: Dmm34401a, call: SimCall) -> None:
    """``DET:BAND``: of all that has one."""
    for function in BANDED:
        unit.settings[function].band_hz = keysight_34461a.asked_bandwidth(unit, call)


def _words() -> dict[str, Any]:
    table = keysight_34461a.per_function(FUNCTIONS, banded={}) | dict(keysight_34461a.WORDS)
    del table[":ABORt"]
    del table["*OPT?"]
    for name, function in FUNCTIONS.items():
        table |= below(f":CONFigure{function.header}", name, {"": configure})
        table |= below(f":MEASure{function.header}", name, {"?": measure})
    return table


VOCABULARY: Final = Vocabulary(
    {
        **_words(),
        "[:SENSe]:DETector:BANDwidth": set_bandwidth,
        "[:SENSe]:DETector:BANDwidth?": lambda u, _c: f"{u.settings[BANDED[0]].band_hz:+.8E}",
        ":SYSTem:REMote": lambda _u, _c: None,
        ":SYSTem:RWLock": lambda _u, _c: None,
        ":SYSTem:LOCal": lambda _u, _c: None,
    }
)

MODEL: Final = dataclasses.replace(
    keysight_34461a.MODEL,
    idn="HEWLETT-PACKARD,34401A,0,11-5-2",
    dialect=Dialect(line_end=b"\r\n", latency_s=0.01),
    vocabulary=VOCABULARY,
    build=Dmm34401a,
)
