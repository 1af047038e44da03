"""The unit that a description names: the one fact that is taken from there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

MAX_DOCS: Final = 2_000
_WORDS: Final[Mapping[str, str]] = {
    "volt": "V", "volts": "V", "ampere": "A", "amperes": "A", "amp": "A", "amps": "A",
    "hertz": "Hz", "ohm": "Ohm", "ohms": "Ohm", "watt": "W", "watts": "W", "second": "s",
    "seconds": "s", "kelvin": "K", "celsius": "degC", "tesla": "T", "gauss": "G", "percent": "%",
    "farad": "F", "farads": "F", "henry": "H", "decibel": "dB",
}  # fmt: skip
"""In any case."""
_SIGNS: Final = frozenset(
    {
        "V", "mV", "uV", "kV", "A", "mA", "uA", "nA", "Hz", "kHz", "MHz", "GHz", "W", "mW", "kW",
        "s", "ms", "us", "ns", "K", "mK", "T", "mT", "G", "dB", "dBm", "dBV", "nm", "um", "mm",
        "Ohm", "kOhm", "F", "nF", "pF", "H", "mbar", "Pa", "bar", "%",
    }
)  # fmt: skip
"""As they stand."""
_IN: Final = re.compile(
    r"\bin\s+(?:units\s+of\s+)?:?(?:unit:`)?([A-Za-z%]{1,12}|°\s?C)(?![A-Za-z0-9])"
)
_SUFFIX: Final = re.compile(r"\}\s?([A-Za-z%]{1,4})$")


def unit_in(docs: str, line: str) -> str:
    """The one unit that a description says something is in; empty where it names none, or several.

    Args:
        docs: the description.
        line: the template that is sent; a unit that stands in it must be the same.
    """
    found = {unit for word in _IN.findall(docs[:MAX_DOCS]) if (unit := _unit(word))}
    if len(found) != 1:
        return ""
    unit = found.pop()
    sent = _SUFFIX.search(line)
    return unit if sent is None or sent.group(1) == unit else ""


def _unit(word: str) -> str:
    if word.startswith("°"):
        return "degC"
    if word in _SIGNS:
        return word
    return _WORDS.get(word.lower(), "")
