"""The small pieces from which ``format_schema`` builds."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from edged.errors import ErrorCode, Fault
from edged.profiles.grammar_connection import MAX_TIMEOUT_MS

__all__ = [
    "EXPRESSION",
    "NAME",
    "NUMBER",
    "SCALAR",
    "TEMPLATE",
    "TEXT",
    "TIMEOUT",
    "TRUTH",
    "bounded",
    "closed",
    "described",
    "list_of",
    "map_of",
    "named",
    "one_of",
    "ref",
]

Schema = dict[str, Any]

# A plain scalar that looks like a number is text all the same where text belongs (model: 2450).
TEXT: Final[Schema] = {"type": ["string", "number"]}
TEMPLATE: Final[Schema] = {"type": ["string", "number"], "minLength": 1}
EXPRESSION: Final[Schema] = {"type": ["string", "number", "boolean"]}
NUMBER: Final[Schema] = {"type": "number"}
SCALAR: Final[Schema] = {"type": ["string", "number", "boolean"]}
TRUTH: Final[Schema] = {"type": "boolean"}
NAME_PATTERN: Final = "^(?!.*__)[a-z][a-z0-9_]*$"
NAME: Final[Schema] = {"type": "string", "pattern": NAME_PATTERN}
TIMEOUT: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": MAX_TIMEOUT_MS}


def bounded(kind: str, least: float, most: float | None = None) -> Schema:
    """A number within bounds."""
    schema: Schema = {"type": kind, "minimum": least}
    return schema if most is None else {**schema, "maximum": most}


def one_of(words: Iterable[str]) -> Schema:
    """One of a few words."""
    return {"enum": [str(word) for word in words]}


def list_of(schema: Schema, *, least: int = 0) -> Schema:
    """A list of these."""
    found: Schema = {"type": "array", "items": schema}
    return {**found, "minItems": least} if least else found


def map_of(schema: Schema) -> Schema:
    """A mapping whose keys are the file's own."""
    return {"type": "object", "additionalProperties": schema}


def named(schema: Schema) -> Schema:
    """A mapping whose keys are names as commands and parameters have them."""
    return {**map_of(schema), "propertyNames": {"pattern": NAME_PATTERN}}


def described(sentence: str, schema: Schema) -> Schema:
    """With what an editor shows beside the key."""
    return {"description": sentence, **schema}


def ref(name: str) -> Schema:
    """What stands under ``$defs``."""
    return {"$ref": f"#/$defs/{name}"}


def closed(
    owner: str,
    keys: Collection[str],
    properties: Schema,
    *,
    required: Iterable[str] = (),
    is_nullable: bool = False,
) -> Schema:
    """A mapping with exactly the grammar's keys; ``null`` takes an inherited entry away."""
    if set(keys) != set(properties):
        odd = ", ".join(sorted(set(keys) ^ set(properties)))
        raise Fault(f"The schema of a {owner} and its grammar disagree about {odd}.",
                    code=ErrorCode.INTERNAL)  # fmt: skip
    schema: Schema = {
        "type": ["object", "null"] if is_nullable else "object",
        "additionalProperties": False,
        "properties": properties,
    }
    needed = list(required)
    return {**schema, "required": needed} if needed else schema
