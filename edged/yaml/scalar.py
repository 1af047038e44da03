"""What a plain YAML scalar means: YAML 1.2's core schema (section 10.3.2 of its specification).

``on``, ``off``, ``yes`` and ``no`` are strings, ``017`` is seventeen, and a number is finite: what
is configured with these ends up as a limit or a set-point.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from edged.yaml.tree import Scalar

__all__ = ["NotFinite", "core_scalar"]

_INT: Final = re.compile(r"[-+]?[0-9]+")
_OCTAL: Final = re.compile(r"0o[0-7]+")
_HEX: Final = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: Final[Mapping[str, Scalar | None]] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_MOST_DIGITS: Final = 400
"""Longer ones stay text; turning digits into a number is quadratic."""


class NotFinite(ValueError):
    """The text is infinity, not a number, or over a double's range."""


def core_scalar(text: str) -> Scalar | None:
    """The value of an unquoted scalar; ``None`` for null.

    Raises:
        NotFinite: see there.
    """
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > _MOST_DIGITS or text[0] not in "+-.0123456789":
        return text
    if _INT.fullmatch(text):
        return int(text)
    if _HEX.fullmatch(text):
        return int(text[2:], 16)
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    if _NOT_FINITE.fullmatch(text):
        raise NotFinite(f"{text} is not a finite number.")
    if _FLOAT.fullmatch(text):
        value = float(text)
        if math.isinf(value):
            raise NotFinite(f"{text} is not a finite number.")
        return value
    return text
