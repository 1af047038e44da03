"""ParameterConfig → the JSON Schema that agents see: flat, and valid in every draft since 06.

Clients refuse ``allOf``, ``oneOf``, ``anyOf`` or ``if`` at the root of a tool's schema, so what a
flat schema cannot say (``by``, ``checks``) is a sentence in a description, and a second check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from edged.profiles.model import Bound, Parameter, ParameterType
from edged.profiles.template import labels, widest_bound
from edged.scpi.numbers import shortest_text
from edged.yaml.tree import Scalar

MAX_STRING: Final = 256
"""Characters of a string parameter: longer than any label, name or file name of the facts."""

_TYPES: Final = {
    ParameterType.FLOAT: "number",
    ParameterType.INT: "integer",
    ParameterType.STRING: "string",
    ParameterType.BOOL: "boolean",
    ParameterType.ENUM: "string",
}


def parameters_schema(
    parameters: Mapping[str, Parameter],
    checks: Sequence[str] = (),
    optional: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """The schema of an object with these parameters.

    Args:
        parameters: by name, in the order to show them.
        checks: expressions that must hold; shown as a sentence.
        optional: names that stand in optional template parts only, so that they may be left out.
    """
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            name: _property(parameter, parameters, optional)
            for name, parameter in parameters.items()
        },
        "additionalProperties": False,
    }
    required = [
        name
        for name, parameter in parameters.items()
        if name not in optional and usable_default(parameter) is None
    ]
    if required:
        schema["required"] = required
    if checks:
        schema["description"] = "Must hold: " + "; ".join(checks) + "."
    return schema


def usable_default(parameter: Parameter) -> Scalar | None:
    """The default, unless an owner's limit put it out of bounds: then the caller must say."""
    default = parameter.default
    if default is None:
        return None
    choices = labels(parameter)
    if choices:
        return default if default in choices else None
    if isinstance(default, (bool, str)):
        return default
    if parameter.min is not None and default < parameter.min:
        return None
    return None if parameter.max is not None and default > parameter.max else default


def _property(
    parameter: Parameter, parameters: Mapping[str, Parameter], optional: frozenset[str]
) -> dict[str, Any]:
    bound = widest_bound(parameter, parameters, optional)
    schema: dict[str, Any] = {"type": _TYPES[parameter.type]}
    if bound.options is not None:
        schema = {"type": "string", "enum": list(bound.options)}
    elif parameter.type is ParameterType.STRING:
        schema["maxLength"] = MAX_STRING
    elif parameter.type is not ParameterType.BOOL:
        if bound.min is not None:
            schema["minimum"] = _plain(bound.min)
        if bound.max is not None:
            schema["maximum"] = _plain(bound.max)
    default = usable_default(parameter)
    if default is not None:
        schema["default"] = default
    description = _description(parameter)
    if description:
        schema["description"] = description
    return schema


def _plain(number: float) -> float | int:
    """32 rather than 32.0, where a JSON integer is exact for every client."""
    is_exact = float(number).is_integer() and abs(number) <= 2**53
    return int(number) if is_exact else float(number)


def _description(parameter: Parameter) -> str:
    sentences = [parameter.description.strip()] if parameter.description.strip() else []
    sentences += _by_sentences(parameter)
    if not parameter.unit:
        return " ".join(sentences)
    return (" ".join(sentences) or parameter.name) + f" (unit: {parameter.unit})"


def _by_sentences(parameter: Parameter) -> list[str]:
    """One sentence for each bound that another parameter brings, equal bounds together."""
    own = Bound(min=parameter.min, max=parameter.max)
    sentences: list[str] = []
    for other, cases in parameter.by.items():
        grouped: dict[Bound, list[str]] = {}
        for value, bound in cases.items():
            shown = str(value).lower() if isinstance(value, bool) else str(value)
            grouped.setdefault(bound, []).append(shown)
        for bound, values in grouped.items():
            words = _bound_words(bound, own)
            if words:
                sentences.append(f"{words} when {other} is {' or '.join(values)}.")
    return sentences


def _bound_words(bound: Bound, own: Bound) -> str:
    if bound.options is not None:
        return "One of " + ", ".join(bound.options)
    low = bound.min if bound.min != own.min else None
    high = bound.max if bound.max != own.max else None
    if low is not None and high is not None:
        return f"From {shortest_text(low)} to {shortest_text(high)}"
    if low is not None:
        return f"At least {shortest_text(low)}"
    return "" if high is None else f"At most {shortest_text(high)}"
