"""The sentence for each way in which arguments can fail a schema, and the data beside it.

"voltage 61 V is over the maximum 60 V of rigol_dp832.set_voltage." Values are shown short: a caller
who sends a megabyte does not get it back.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from edged.errors import ErrorCode, Invalid
from edged.profiles.numbers import shortest_text

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

__all__ = ["out_of_bound", "shown", "shown_value", "unfit_number", "worst_refusal"]

_MOST_SHOWN: Final = 60
_MOST_BITS_SHOWN: Final = 256

_KINDS: Final = {
    "number": "a number",
    "integer": "a whole number",
    "string": "a string",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
}
_ORDER: Final = {"additionalProperties": 0, "required": 1, "type": 2}
"""What a caller should hear first: a misspelled name explains the missing one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Violation:
    """One broken keyword: where in the arguments, what was there, what the keyword says."""

    keyword: str
    place: str
    value: Any
    limit: Any
    schema: Mapping[str, Any]
    message: str


def worst_refusal(
    owner: str, errors: Iterable[ValidationError], units: Mapping[str, str]
) -> Invalid | None:
    """The error worth telling, as ``Invalid``; ``None`` when there is none."""
    worst = min(errors, key=lambda error: _ORDER.get(str(error.validator), 3), default=None)
    if worst is None:
        return None
    violation = _Violation(
        keyword=str(worst.validator),
        place=_place(worst.absolute_path),
        value=worst.instance,
        limit=worst.validator_value,
        schema=worst.schema if isinstance(worst.schema, dict) else {},
        message=worst.message,
    )
    return _refusal(owner, violation, units)


def _refusal(owner: str, found: _Violation, units: Mapping[str, str]) -> Invalid:
    place, value, limit = found.place, found.value, found.limit
    match found.keyword:
        case "additionalProperties":
            return _unknown(owner, found)
        case "required":
            return _missing(owner, found)
        case "type":
            return _wrong_kind(owner, found)
        case "enum":
            choices = ", ".join(shown(choice) for choice in limit)
            message = f"{place} {shown(value)} is not one of {choices} of {owner}."
            return _invalid(message, place, value, {"options": list(limit)})
        case "minimum" | "maximum":
            unit = units.get(place, "")
            return out_of_bound(owner, place, value, found.keyword, limit, unit=unit)
        case "exclusiveMinimum":
            message = f"{place} {shown(value)} is not above {shown(limit)}, as {owner} needs."
            return _invalid(message, place, value, {found.keyword: limit})
        case "minLength" | "maxLength" | "minItems" | "maxItems":
            side = "short" if found.keyword.startswith("min") else "long"
            message = f"{place} is too {side} for {owner}: the limit is {limit}."
            return _invalid(message, place, value, {found.keyword: limit})
        case _:
            message = f"{place or 'What was given'} does not fit {owner}: {found.message[:200]}."
            return _invalid(message, place, value, {})


def out_of_bound(
    owner: str,
    name: str,
    value: object,
    side: str,
    limit: float,
    *,
    unit: str = "",
    when: str = "",
) -> Invalid:
    """A number past a bound.

    Args:
        owner: whose parameter it is, as a caller knows it.
        name: the parameter.
        value: what was given.
        side: ``"minimum"`` or ``"maximum"``.
        limit: the bound.
        unit: shown after both numbers.
        when: the condition under which the bound holds (``"channel is 3"``), or empty.
    """
    past = "under" if side == "minimum" else "over"
    gap = f" {unit}" if unit else ""
    condition = f" when {when}" if when else ""
    return _invalid(
        f"{name} {shown(value)}{gap} is {past} the {side} {shown(limit)}{gap} of "
        f"{owner}{condition}.",
        name,
        value,
        {side: limit, "unit": unit} if unit else {side: limit},
    )


def unfit_number(owner: str, name: str, value: object) -> Invalid:
    """A number that is none: NaN, infinity, or too large for anything."""
    message = f"{name} {shown(value)} is not a finite number, as {owner} needs."
    return _invalid(message, name, value, {})


def _unknown(owner: str, found: _Violation) -> Invalid:
    known = list(found.schema.get("properties", {}))
    unknown = next((str(name) for name in found.value if name not in known), "")
    close = difflib.get_close_matches(unknown[:_MOST_SHOWN], known, n=1)
    if close:
        remedy = f"Did you mean {close[0]}?"
    else:
        remedy = f"It takes {', '.join(known)}." if known else "It takes none."
    name = f"{found.place}.{unknown}" if found.place else unknown
    return _invalid(
        f"{owner} has no parameter {shown(name)[1:-1]}.",
        name[:_MOST_SHOWN],
        found.value.get(unknown),
        {"options": known},
        remedy=remedy,
    )


def _missing(owner: str, found: _Violation) -> Invalid:
    leaf = next((str(name) for name in found.limit if name not in found.value), "")
    wanted = found.schema.get("properties", {}).get(leaf, {})
    kind = _KINDS.get(wanted.get("type", ""), "a value")
    if "enum" in wanted:
        kind = "one of " + ", ".join(shown(choice) for choice in wanted["enum"])
    name = f"{found.place}.{leaf}" if found.place else leaf
    return _invalid(f"{owner} needs {name}: {kind}.", name, None, {})


def _wrong_kind(owner: str, found: _Violation) -> Invalid:
    kinds = [found.limit] if isinstance(found.limit, str) else found.limit
    wanted = " or ".join(_KINDS.get(kind, str(kind)) for kind in kinds)
    if found.value is None and found.place:
        message = f"{found.place} is null, and {owner} needs it: {wanted}."
        return _invalid(message, found.place, None, {})
    subject = f"{found.place} {shown(found.value)}" if found.place else "What was given"
    message = f"{subject} is not {wanted}, as {owner} needs."
    return _invalid(message, found.place, found.value, {})


def _place(path: Iterable[str | int]) -> str:
    """Where in the arguments: ``voltage``, ``measure[0].command_name``; empty at the root."""
    place = ""
    for step in path:
        if isinstance(step, int):
            place += f"[{step}]"
        else:
            place += f".{step}" if place else step
    return place


def _invalid(
    message: str, name: str, value: object, bounds: Mapping[str, object], *, remedy: str = ""
) -> Invalid:
    return Invalid(
        message,
        code=ErrorCode.BAD_ARGUMENTS,
        data={"parameter": name, "value": shown_value(value), **bounds},
        remedy=remedy,
    )


def shown(value: object) -> str:
    """A value in a sentence: short, ASCII, without control characters."""
    if isinstance(value, dict):
        return "{...}"
    if isinstance(value, (list, tuple)):
        return "[...]"
    shown_as = shown_value(value)
    if isinstance(value, (int, float)) and isinstance(shown_as, str):
        return shown_as
    return shortest_text(shown_as) if isinstance(shown_as, float) else json.dumps(shown_as)


def shown_value(value: object) -> Any:
    """A value as JSON-ready data of bounded size; NaN and infinity become words."""
    if isinstance(value, float):
        return value if value - value == 0 else repr(value)
    if isinstance(value, int) and value.bit_length() > _MOST_BITS_SHOWN:
        return f"of {value.bit_length()} bits"
    if isinstance(value, str):
        return value if len(value) <= _MOST_SHOWN else value[:_MOST_SHOWN] + "…"
    if value is None or isinstance(value, (bool, int)):
        return value
    return shown(value) if isinstance(value, (dict, list, tuple)) else type(value).__name__
