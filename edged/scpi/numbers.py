"""Numbers with a unit or an SI suffix: ``5.0V``, ``500mV``, ``1.00GSa/s``, ``1000HZ``, ``10 kOhm``.

Upper case is ambiguous: SCPI writes milli as ``M`` and mega as ``MA``, with mega meant in ``MHZ``
and ``MOHM`` (SCPI-99 volume 1, 7.2.1.1). ``M`` before volts, amperes, watts, seconds, farads and
henries is milli here, whatever its case: no bench has megavolts.

Bare numbers too, decimal or SCPI's ``#H…``, and a number as the shortest text.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

NUMBER: Final = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?"

MOST_NUMBER: Final = 512
"""Characters of a number; the longest that a float needs is far shorter, and garbage costs time."""

PLAIN_NUMBER: Final = re.compile(NUMBER)
BASES: Final = {"hex": 16, "oct": 8, "bin": 2}
_OTHER_BASE: Final = re.compile(
    r"#h(?P<hex>[0-9a-f]{1,16})|#q(?P<oct>[0-7]{1,22})|#b(?P<bin>[01]{1,64})", re.IGNORECASE
)
_MOST_DIGITS: Final = 20
"""A longer run of digits is read as a float."""

_WITH_SUFFIX: Final = re.compile(rf"({NUMBER})[ \t]*([A-Za-z%µμΩΩ°/^0-9.\-]{{0,16}})")

_AROUND: Final = " \t\r\n"

_PLAIN_UNITS: Final = frozenset(
    {"%", "hz", "ohm", "ohms", "Ω", "db", "dbm", "dbv", "dbc", "dbu", "deg", "degree", "rad", "°"}
    | {"°c", "°f", "c", "cel", "pct", "pts", "pt", "points", "sa", "sa/s", "s/s", "sps", "b", "bit"}
    | {"bits", "bps", "div", "cycles", "cyc", "nplc", "var"}
)
_MILLI_UNITS: Final = frozenset(
    {"v", "a", "w", "s", "sec", "f", "far", "h", "va", "vpp", "vp", "vrms", "vdc", "vac", "vpk"}
    | {"apk", "app", "arms", "adc", "aac", "v/div", "s/div", "a/div", "v/s", "a/s", "w/s"}
)
"""Before these ``M`` is milli."""

_UNITS: Final = _PLAIN_UNITS | _MILLI_UNITS
"""Lower case. What stands here is a unit before it is a prefix: ``F`` is farad, not femto."""

_PREFIXES: Final = {
    "MA": 6,
    "T": 12,
    "G": 9,
    "g": 9,
    "M": 6,
    "k": 3,
    "K": 3,
    "m": -3,
    "u": -6,
    "U": -6,
    "µ": -6,
    "μ": -6,
    "n": -9,
    "N": -9,
    "p": -12,
    "P": -12,
    "f": -15,
}
"""Prefix → power of ten."""

_MOST_PLAIN_EXPONENT: Final = 15
_LEAST_PLAIN_EXPONENT: Final = -15
"""Between these powers of ten a number is written without exponent: old parsers know no other."""


def read_number(text: str) -> float | int | None:
    """A bare number, decimal or SCPI's ``#H…``, or ``None``; integers stay integers."""
    text = text.strip(" \t")
    if len(text) > MOST_NUMBER:
        return None
    if PLAIN_NUMBER.fullmatch(text) is not None:
        if text.lstrip("+-").isdigit() and len(text) <= _MOST_DIGITS:
            return int(text)
        number = float(text)
        return number if math.isfinite(number) else None
    match = _OTHER_BASE.fullmatch(text)
    if match is None:
        return None
    return int(match.group(match.lastgroup or 0), BASES[match.lastgroup or "hex"])


def number_with_suffix(text: str, unit: str = "", *, is_strict: bool = False) -> float | None:
    """The number that a text means, in the base unit.

    Args:
        text: one number with or without suffix, blanks around and between allowed.
        unit: the unit that is expected; its own spelling counts as a unit before anything else.
        is_strict: take no other unit than ``unit``, and no prefix without one (``10k``).

    Returns:
        ``None`` when it is no number, has a suffix that nobody knows, or is too large for a float.
    """
    text = text.strip(_AROUND)
    match = _WITH_SUFFIX.fullmatch(text) if len(text) <= MOST_NUMBER else None
    if match is None:
        return None
    number, suffix = match.groups()
    power = _power(suffix, unit.lower(), is_strict=is_strict) if suffix else 0
    if power is None:
        return None
    # In decimal, because 4.7m must be the float 0.0047 and not one beside it.
    value = float(Decimal(number).scaleb(power)) if power else float(number)
    return value if math.isfinite(value) else None


def _power(suffix: str, unit: str, *, is_strict: bool) -> int | None:
    """The power of ten that a suffix means, or ``None`` when nobody knows it."""
    known = frozenset({unit} - {""}) if is_strict else _UNITS | {unit}
    if suffix.lower() in known:
        return 0
    for prefix, power in _PREFIXES.items():
        rest = suffix.removeprefix(prefix).lower()
        if not suffix.startswith(prefix):
            continue
        if rest and rest in known:
            return -3 if prefix == "M" and rest in _MILLI_UNITS else power
        if not (rest or is_strict) and prefix != "MA":
            return power
    return None


def shortest_text(value: float) -> str:
    """The shortest text that reads back equal: ``5``, ``0.1``, ``0.0000001``, ``1E+20``."""
    if isinstance(value, int):
        return str(value)
    if value == 0:
        return "0"
    exact = Decimal(repr(value))
    if _LEAST_PLAIN_EXPONENT <= exact.adjusted() < _MOST_PLAIN_EXPONENT:
        text = f"{exact:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, exponent = f"{value!r}".upper().partition("E")
    if not exponent:  # repr writes 1e15 as 1000000000000000.0
        mantissa, _, exponent = f"{exact.normalize():E}".partition("E")
    return f"{mantissa.removesuffix('.0')}E{int(exponent):+d}"
