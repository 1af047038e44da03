"""The words in which static tools are written: schemas, hints, and one entry.

Not a place for rules: what a tool means is its action, and what it may is the command path's.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from edged.actions.action import Action, Check
from edged.profiles.schema import Given, compile_given, compile_schema
from edged.tools.tool import MakeAction, Tool, ToolAnnotations, ToolCall

__all__ = [
    "ANYTHING",
    "BOOLEAN",
    "CALM",
    "INTEGER",
    "LIST",
    "MEASURE",
    "NO_ARGUMENTS",
    "NUMBER",
    "OBJECT",
    "READ",
    "STRING",
    "WORK",
    "Schema",
    "entry",
    "parameters_of",
    "result_of",
    "rows_of",
]

Schema = dict[str, Any]
NO_ARGUMENTS: Final[Schema] = {"type": "object", "properties": {}, "additionalProperties": False}
READ: Final = ToolAnnotations(read_only=True, destructive=False, idempotent=True, open_world=False)
CALM: Final = ToolAnnotations(read_only=False, destructive=False, idempotent=True, open_world=False)
MEASURE: Final = ToolAnnotations(
    read_only=False, destructive=False, idempotent=False, open_world=True
)
WORK: Final = ToolAnnotations(read_only=False, destructive=True, idempotent=False, open_world=True)

STRING: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "number"}
INTEGER: Final[Schema] = {"type": "integer"}
BOOLEAN: Final[Schema] = {"type": "boolean"}
OBJECT: Final[Schema] = {"type": "object"}
LIST: Final[Schema] = {"type": "array"}
ANYTHING: Final[Schema] = {}


def parameters_of(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    """An input schema: these arguments and no others."""
    schema: Schema = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    if required:
        schema["required"] = list(required)
    return schema


def result_of(**properties: Schema) -> Schema:
    """An output schema: these are there, more may be; ``error`` comes with a failure."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def rows_of(wrap_key: str, /, **properties: Schema) -> Schema:
    """The output schema of a list result, which structuredContent wraps."""
    row = {"type": "object", "properties": properties, "required": list(properties)}
    return result_of(**{wrap_key: {"type": "array", "items": row}})


def entry(
    name: str,
    title: str,
    description: str,
    *,
    schema: Schema,
    output: Schema,
    annotations: ToolAnnotations,
    make: MakeAction,
    wrap_key: str = "",
    cancels_on_disconnect: bool = False,
    answers_at_once: bool = False,
    may_ask: bool = False,
) -> Tool:
    """One static tool, its schema compiled."""
    return Tool(
        name=name,
        title=title,
        description=description,
        input_schema=schema,
        output_schema=output,
        annotations=annotations,
        check=compile_schema(name, schema),
        make=_make_of_given(make, compile_given(schema)),
        wrap_key=wrap_key,
        is_essential=True,
        cancels_on_disconnect=cancels_on_disconnect,
        answers_at_once=answers_at_once,
        may_ask=may_ask,
    )


def _make_of_given(make: MakeAction, given: Given) -> MakeAction:
    """An action is made of the arguments that were given: what is null and optional was not."""

    def made(call: ToolCall, check: Check) -> Action:
        arguments = given(call.arguments)
        if arguments is not call.arguments:
            call = dataclasses.replace(call, arguments=arguments)
        return make(call, check)

    return made
