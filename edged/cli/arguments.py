"""``key=value`` words of a command line → a tool's arguments, typed by the tool's own schema.

``voltage=5`` is a number where the schema has one, ``name=5`` a text where it has a text.
``key:=JSON`` takes JSON as it stands. ``parameters.voltage=5`` sets a field of an inner object,
which is how execute_command's ``parameters`` are given without quoting JSON. Pure; whether the
value is allowed is the engine's to say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from edged.cli.quantities import number
from edged.errors import Invalid

__all__ = ["parse_arguments"]

Schema = Mapping[str, Any]


def parse_arguments(words: Sequence[str], schema: Schema | None) -> dict[str, Any]:
    """The arguments that those words mean.

    Args:
        words: ``key=value`` or ``key:=JSON``.
        schema: the tool's input schema; None where the tool is not known, and values are guessed.

    Raises:
        Invalid: a word is no assignment, or its value not of the type that the schema wants.
    """
    arguments: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise Invalid(
                f"{word!r} is no argument.", remedy="Write key=value, or key:=JSON for a list."
            )
        is_json = key.endswith(":")
        path = key.removesuffix(":").split(".")
        inner = _schema_at(schema, path)
        value = _read_json(key, text) if is_json else _typed(key, text, inner)
        _put(arguments, path, value)
    return arguments


def _schema_at(schema: Schema | None, path: Sequence[str]) -> Schema:
    for name in path:
        properties = schema.get("properties") if schema else None
        schema = properties.get(name) if isinstance(properties, Mapping) else None
    return schema if isinstance(schema, Mapping) else {}


def _typed(key: str, text: str, schema: Schema) -> Any:
    wanted = schema.get("type")
    if text == "null" and wanted != "string":
        return None
    match wanted:
        case "string":
            return text
        case "number" | "integer":
            return _number(key, text, is_whole=wanted == "integer")
        case "boolean":
            if text in {"true", "false"}:
                return text == "true"
            raise Invalid(f"{key} must be true or false, not {text!r}.")
        case "array" | "object":
            return _read_json(key, text)
        case _:
            return _guessed(text)


def _number(key: str, text: str, *, is_whole: bool) -> int | float:
    # 2.5 for an integer goes out as it is: the engine's refusal names the bounds, too.
    try:
        return number(text)
    except ValueError:
        what = f"a {'whole ' if is_whole else ''}number"
        raise Invalid(f"{key} must be {what}, not {text!r}.") from None


def _guessed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _read_json(key: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{key.removesuffix(':')} is no JSON: {text!r} ({error}).") from error


def _put(arguments: dict[str, Any], path: Sequence[str], value: Any) -> None:
    *outer, last = path
    place = arguments
    for name in outer:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            raise Invalid(f"{'.'.join(path)}: {name} was given a plain value already.")
    place[last] = value
