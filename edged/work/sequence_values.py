"""The values a sequence computes with: saved answers, loop variables, ``"{name}"`` and expressions.

Pure. A value that is not known yet (it will come from an answer) is ``UNKNOWN`` during the check
before the first step; whatever depends on it raises ``NotKnownYet`` and is checked when it runs.

Source: PROFILE-FORMAT.md, "Sequence steps".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Final

from edged.errors import ErrorCode, Invalid
from edged.profiles.expr import compile_expression
from edged.profiles.model import ForStep, Scalar

__all__ = ["UNKNOWN", "NotKnownYet", "Values", "fill", "loop_values", "number", "saved", "value_of"]

MAX_LOOP_VALUES: Final = 100_000

_WHOLE_BRACES: Final = re.compile(r"\{([^{}]+)\}")


class _Unknown:
    """The type of ``UNKNOWN``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()

Values = dict[str, Scalar | None | _Unknown]


class NotKnownYet(Exception):
    """A value that depends on an answer was asked for before there was one."""


def fill(value: object, values: Values) -> Scalar | None:
    """A parameter as written in a step → the value to use.

    ``"{name}"`` or ``"{expression}"`` alone keeps its type; braces inside a longer text are filled
    in as text; anything else is itself.

    Raises:
        NotKnownYet: it depends on an answer that has not come.
        Invalid: it names something that does not exist.
    """
    if not isinstance(value, str):
        return value if isinstance(value, int | float | bool) else None
    whole = _WHOLE_BRACES.fullmatch(value.strip())
    if whole:
        return value_of(whole.group(1), values)
    return _WHOLE_BRACES.sub(lambda found: _text(value_of(found.group(1), values)), value)


def value_of(text: object, values: Values) -> Scalar | None:
    """An expression or ``"{name}"`` (columns, results, ranges) → its value; numbers are themselves.

    Raises:
        NotKnownYet, Invalid: as ``fill``.
    """
    if not isinstance(text, str):
        return text if isinstance(text, int | float | bool) else None
    stripped = text.strip()
    whole = _WHOLE_BRACES.fullmatch(stripped)
    name = whole.group(1).strip() if whole else stripped
    if name in values:
        return _known(name, values)
    expression = compile_expression(name)
    known: dict[str, Scalar] = {}
    for used in expression.names:
        if used not in values:
            if _is_field_of_unknown(used, values):
                raise NotKnownYet(used)
            raise Invalid(
                f"{used!r} in {text!r} is neither a parameter nor a saved answer.",
                code=ErrorCode.BAD_PROFILE,
                data={"name": used},
            )
        value = _known(used, values)
        if value is None:
            return None
        known[used] = value
    return expression.evaluate(known)


def number(text: object, values: Values, what: str) -> float:
    """``value_of`` as a finite number.

    Raises:
        NotKnownYet, Invalid: as ``value_of``; or it is no number.
    """
    value = value_of(text, values)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Invalid(f"{what} is {value!r}, which is no number.", data={"value": repr(value)})
    return value


def loop_values(step: ForStep, values: Values) -> Iterator[Scalar | None]:
    """What a ``for`` step runs over.

    Raises:
        NotKnownYet, Invalid: as ``value_of``; a count outside 1 to 100,000; a logarithmic range
            that touches zero.
    """
    if step.kind == "list":
        return (fill(value, values) for value in step.values)
    first, last = (number(v, values, f"a bound of {step.name}") for v in step.values[:2])
    count = int(number(step.values[2], values, f"the count of {step.name}"))
    if not 1 <= count <= MAX_LOOP_VALUES:
        raise Invalid(f"{step.name} would take {count} values; 1 to {MAX_LOOP_VALUES} are allowed.")
    if step.kind == "log" and first * last <= 0:
        raise Invalid(f"{step.name} cannot run logarithmically from {first:g} to {last:g}.")
    return _range(step.kind, first, last, count)


def saved(name: str, data: object, primary: float | None = None) -> Values:
    """What an answer saved ``as: name`` adds: the value, or one value a field as ``name_field``."""
    if isinstance(data, Mapping):
        flat: Values = {
            f"{name}_{key}": value
            for key, value in data.items()
            if value is None or isinstance(value, int | float | str | bool)
        }
        flat[name] = primary
        return flat
    if data is None or isinstance(data, int | float | str | bool):
        return {name: data}
    return {name: str(data)}


def _known(name: str, values: Values) -> Scalar | None:
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


def _text(value: Scalar | None) -> str:
    return "" if value is None else str(value)


def _range(kind: str, first: float, last: float, count: int) -> Iterator[float]:
    for i in range(count):
        if count == 1:
            yield first
        elif i == count - 1:
            yield last
        elif kind == "lin":
            yield first + (last - first) * i / (count - 1)
        else:
            yield first * (last / first) ** (i / (count - 1))
