"""Numbers as SCPI text, rounded without ever passing a bound.

A value that is allowed must stay allowed after rounding: 5.25 V with ``.1f`` under a maximum of
5.26 V goes out as 5.2, never as 5.3. The grid is decimal, because formats and bounds are.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Final

from edged.errors import Invalid
from edged.profiles.model import Bound

__all__ = ["format_step", "number_text", "shortest_text"]

_EXACT: Final = Context(prec=1_000)
"""Enough digits for any float with any precision that a template may ask for."""

_MOST_PLAIN_EXPONENT: Final = 15
_LEAST_PLAIN_EXPONENT: Final = -15
"""Between these powers of ten a number is written without exponent: old parsers know no other."""


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


def number_text(value: float, spec: str, bound: Bound, *, name: str) -> str:
    """``value`` in Python's number format ``spec`` (empty: shortest), within ``bound`` as written.

    Args:
        value: finite, and within ``bound``.
        spec: one of a template's number formats.
        bound: what the text must not pass when it is read back.
        name: the parameter, for the message.

    Raises:
        Invalid: the format cannot write any number near ``value`` that lies within the bound.
    """
    if not spec:
        return shortest_text(value)
    text = _formatted(value, spec)
    if _is_within(text, bound):
        return text
    exact = Decimal(value) if isinstance(value, int) else Decimal(repr(value))
    for rounding in (ROUND_FLOOR, ROUND_CEILING):
        rounded = _rounded(exact, spec, rounding)
        text = _formatted(int(rounded) if spec[-1] == "d" else float(rounded), spec)
        if _is_within(text, bound):
            return text
    raise Invalid(
        f"{name} {shortest_text(value)} cannot be written in the format {spec} "
        f"without passing its bounds {_shown(bound)}.",
        data={"parameter": name, "value": value, "minimum": bound.min, "maximum": bound.max},
    )


def format_step(spec: str) -> float | None:
    """The resolution of a number format, or ``None`` when it depends on the value."""
    kind = spec[-1:]
    if kind == "d":
        return 1.0
    if kind != "f":
        return None
    return float(Decimal(1).scaleb(-_precision(spec)))


def _precision(spec: str) -> int:
    _, dot, digits = spec[:-1].partition(".")
    return int(digits) if dot else 6


def _rounded(exact: Decimal, spec: str, rounding: str) -> Decimal:
    """``exact`` on the grid that the format can write."""
    kind = spec[-1].lower()
    match kind:
        case "d":
            exponent = 0
        case "f":
            exponent = -_precision(spec)
        case "e":
            exponent = exact.adjusted() - _precision(spec)
        case _:
            exponent = exact.adjusted() - max(1, _precision(spec)) + 1
    if exact.is_zero():
        return Decimal(0)
    return exact.quantize(Decimal(1).scaleb(exponent), rounding=rounding, context=_EXACT)


def _formatted(value: float, spec: str) -> str:
    if spec[-1] == "d":
        return format(round(value), spec)
    text = format(value, spec)
    # A rounded zero loses its sign: "-0.000" makes some instruments answer with an error.
    return format(0.0, spec) if "-" in text and float(text) == 0.0 else text


def _is_within(text: str, bound: Bound) -> bool:
    number = float(text)
    return (bound.min is None or number >= bound.min) and (bound.max is None or number <= bound.max)


def _shown(bound: Bound) -> str:
    low = "…" if bound.min is None else shortest_text(bound.min)
    high = "…" if bound.max is None else shortest_text(bound.max)
    return f"{low} to {high}"
