"""The values that steps compute with: parameters, saved answers, loop variables.

A value that is not known yet (it will come from an answer) is ``UNKNOWN`` during the check before
the first step; what depends on it raises ``NotKnownYet`` and is judged when it runs. Pure.

Source: docs/profiles.md, "Sequence steps".
"""

from __future__ import annotations

import math
from typing import Final

from edged.errors import Invalid
from edged.profiles.expr import compile_expression, expression_text
from edged.yaml.tree import Scalar


class _Unknown:
    """The type of ``UNKNOWN``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()

Values = dict[str, Scalar | _Unknown | None]


class NotKnownYet(Exception):
    """A value that depends on an answer was asked for before there was one."""


def fill(value: object, values: Values, *, is_bare: bool = False) -> Scalar | None:
    """A value as written in a step → the value to use.

    ``"{name}"`` and ``"{expression}"`` keep their type; where ``is_bare`` (columns, ends of ranges)
    an expression may stand without braces; anything else is itself. An expression over a value that
    is missing (the instrument answered "no value") is missing too.

    Raises:
        NotKnownYet: it depends on an answer that has not come.
        Invalid: it names something that does not exist, or cannot be worked out.
    """
    text = expression_text(value, is_bare=is_bare)
    if text is None:
        return value if isinstance(value, int | float | bool | str) else None
    if text in values:
        return _known(text, values)
    expression = compile_expression(text)
    known: dict[str, Scalar] = {}
    for used in expression.names:
        held = _known(used, values)
        if held is None:
            return None
        known[used] = held
    return expression.evaluate(known)


def number(text: object, values: Values, what: str) -> float:
    """``fill`` as a finite number.

    Raises:
        NotKnownYet, Invalid: as ``fill``; or it is no number.
    """
    value = fill(text, values, is_bare=True)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Invalid(f"{what} is {value!r}, which is not a number.", data={"value": repr(value)})
    return value


def _known(name: str, values: Values) -> Scalar | None:
    if name not in values:
        if _is_field_of_unknown(name, values):
            raise NotKnownYet(name)
        raise Invalid(
            f"{name!r} is neither a parameter nor a saved answer here.", data={"name": name}
        )
    value = values[name]
    if isinstance(value, _Unknown):
        raise NotKnownYet(name)
    return value


def _is_field_of_unknown(name: str, values: Values) -> bool:
    """``m_voltage`` is not known yet while ``m`` is not: its fields come with the answer."""
    return any(
        isinstance(value, _Unknown) and name.startswith(f"{saved_name}_")
        for saved_name, value in values.items()
    )
