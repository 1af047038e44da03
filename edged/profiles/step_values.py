"""The values that steps compute with: parameters, saved answers, loop variables.

A value that is not known yet (it will come from an answer) is ``UNKNOWN`` during the check before
the first step; what depends on it raises ``NotKnownYet`` and is judged when it runs. Pure.

Source: docs/profiles.md, "Sequence steps".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from edged.errors import Invalid
from edged.profiles.expr import compile_expression, expression_text
from edged.profiles.model import ForStep, Parameter
from edged.profiles.template import placeholders, render
from edged.yaml.tree import Scalar

MOST_VALUES: Final = 100_000
"""Of one loop."""


class _Unknown:
    """The type of ``UNKNOWN``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()

Values = Mapping[str, Scalar | _Unknown | None]


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


def rendered(template: str, parameters: Mapping[str, Parameter], values: Values) -> str:
    """A raw line with what is known filled in.

    Raises:
        NotKnownYet: it needs an answer that has not come.
        Invalid: a value that cannot stand in a line.
    """
    used = {hole.name: fill(f"{{{hole.name}}}", values) for hole in placeholders(template)}
    known = {name: value for name, value in used.items() if value is not None}
    return render(template, parameters, known)


def saved(name: str, data: object, primary: Scalar | None = None) -> dict[str, Scalar | None]:
    """What an answer saved ``as: name`` adds: the value, or one value a field as ``name_field``."""
    if isinstance(data, Mapping):
        flat: dict[str, Scalar | None] = {
            f"{name}_{key}": value
            for key, value in data.items()
            if value is None or isinstance(value, int | float | str | bool)
        }
        flat[name] = primary
        return flat
    if data is None or isinstance(data, int | float | str | bool):
        return {name: data}
    return {name: str(data)}


def loop_values(step: ForStep, values: Values) -> tuple[Scalar, ...]:
    """What a ``for`` step runs over.

    Raises:
        NotKnownYet, Invalid: as ``fill``; a value that is missing, a count that is no whole number
            from 1 to 100,000, a logarithmic range that touches zero.
    """
    if step.kind == "list":
        found = [fill(value, values) for value in step.values]
        if None in found:
            raise Invalid(f"{step.name}: one of its values is missing.")
        return tuple(value for value in found if value is not None)
    *ends, last = step.values
    bounds = [number(end, values, f"a bound of {step.name}") for end in ends]
    count = number(last, values, f"the count of {step.name}")
    if not 1 <= count <= MOST_VALUES or count != int(count):
        raise Invalid(f"{step.name} would take {count} values; 1 to {MOST_VALUES} are allowed.")
    if step.kind == "count":
        return tuple(range(int(count)))
    if step.kind == "log" and bounds[0] * bounds[1] <= 0:
        raise Invalid(
            f"{step.name} cannot run logarithmically from {bounds[0]:g} to {bounds[1]:g}."
        )
    return tuple(_spaced(step.kind, bounds[0], bounds[1], int(count)))


def _spaced(kind: str, first: float, last: float, count: int) -> Iterator[float]:
    for i in range(count):
        if i == 0:
            yield first
        elif i == count - 1:
            yield last
        elif kind == "lin":
            yield float(f"{first + (last - first) * i / (count - 1):.12g}")
        else:
            yield float(f"{first * (last / first) ** (i / (count - 1)):.12g}")


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
