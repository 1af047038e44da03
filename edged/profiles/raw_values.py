"""One argument of raw SCPI → the value or label that its parameter would have.

A number with a unit has two readings. SCPI-99 lets ``30mV`` be 0.03; many instruments read the
number and pass over what they do not understand, and set 30.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from edged.profiles.answer_text import read_number, unquoted
from edged.profiles.bounds import labels, possible_values
from edged.profiles.model import Parameter, ParameterType, Scalar
from edged.profiles.render import wire_text
from edged.profiles.scpi_words import match_header
from edged.profiles.suffixes import NUMBER, number_with_suffix

__all__ = ["bare_choices", "value_choices"]

_TRUTHS: Final[Mapping[str, bool]] = {"ON": True, "1": True, "OFF": False, "0": False}
_LEADING_NUMBER: Final = re.compile(NUMBER)
_NUMBERS: Final = frozenset({ParameterType.FLOAT, ParameterType.INT})


def value_choices(parameter: Parameter, text: str | None) -> list[Scalar]:
    """The values that a text may mean; a suffix that was left out may mean the selected channel."""
    if text is not None:
        value = _value(parameter, text)
        return [] if value is None else [value]
    first = _value(parameter, "1")
    others = [value for value in possible_values(parameter) if value != first]
    return others if first is None else [first, *others]


def bare_choices(parameter: Parameter, text: str | None) -> list[Scalar] | None:
    """What an instrument that ignores units takes a number for; ``None`` where it has no unit."""
    if text is None or parameter.type not in _NUMBERS or labels(parameter):
        return None
    bare = unquoted(text).strip()
    number = _LEADING_NUMBER.match(bare)
    if number is None or number.end() == len(bare):
        return None
    value = _value(parameter, number.group())
    return [] if value is None else [value]


def _value(parameter: Parameter, text: str) -> Scalar | None:
    """A raw argument as its parameter's value or label; ``None`` when it cannot be read."""
    bare = unquoted(text)
    if parameter.type is ParameterType.BOOL:
        return _truth(parameter, bare)
    names = labels(parameter)
    if names:
        return _label({unquoted(wire_text(name, parameter)): name for name in names}, bare)
    if parameter.type is ParameterType.STRING:
        return bare
    # Upper case, because SCPI does not tell cases apart: "10mhz" sent is ten megahertz.
    number = read_number(bare.upper())
    if number is None:
        number = number_with_suffix(bare.upper(), parameter.unit, is_strict=True)
    if number is None:
        return None
    if parameter.type is ParameterType.FLOAT:
        return float(number)
    return int(number) if float(number).is_integer() else None


def _truth(parameter: Parameter, text: str) -> bool | None:
    label = _label({unquoted(str(wire)): label for label, wire in parameter.map.items()}, text)
    return _TRUTHS.get(text.upper()) if label is None else label == "true"


def _label(labels_by_wire: Mapping[str, str], text: str) -> str | None:
    """The label whose wire value a text is, the exact spelling first."""
    for is_same in (_is_spelled, _is_equal):
        for wire, label in labels_by_wire.items():
            if is_same(wire, text):
                return label
    return None


def _is_spelled(wire: str, text: str) -> bool:
    return wire.upper() == text.upper()


def _is_equal(wire: str, text: str) -> bool:
    """Another spelling of one value: ``VOLTAGE:DC`` and ``VOLT``, ``1.0`` and ``1``."""
    if wire.upper() in _TRUTHS and text.upper() in _TRUTHS:
        return _TRUTHS[wire.upper()] == _TRUTHS[text.upper()]
    number = read_number(text)
    if number is not None:
        return number == read_number(wire)
    return match_header(wire.split(":"), text.split(":")) is not None
