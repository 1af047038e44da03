"""One tool: what it is called, what it takes, and the action that a call of it means.

A tool judges nothing: ``action`` puts the name, the scope and the raw arguments, together with the
tool's compiled schema, into an ``Action``; the command path does the rest.

The words in which static tools are written: schemas, hints, and one entry.

Not a place for rules: what a tool means is its action, and what it may is the command path's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from edged.actions.action import Action, Check, ProgressSink
from edged.actions.caller import Caller
from edged.profiles.arguments import Given, compile_given, compile_schema

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
    "MakeAction",
    "Schema",
    "Tool",
    "ToolAnnotations",
    "ToolCall",
    "entry",
    "parameters_of",
    "result_of",
    "rows_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnnotations:
    """MCP's four hints, always all given: absent ones default to the worst on the client's side."""

    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool


@dataclass(slots=True, kw_only=True)
class ToolCall:
    """One call of a tool, from whichever surface. Not frozen: made for every call."""

    name: str
    arguments: Mapping[str, Any]
    caller: Caller
    action_id: str
    progress: ProgressSink | None = None


MakeAction = Callable[[ToolCall, Check], Action]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """What tools/list shows of a tool, and what a call of it does.

    Attributes:
        check: the compiled ``input_schema``; the command path applies it after authorizing.
        wrap_key: the key under which a list result is wrapped in an object; else empty.
        instrument_id: the instrument a dynamic tool drives, else empty.
        is_essential: one of the few that a small list shows.
        cancels_on_disconnect: a client that goes away ends this call.
        may_ask: a call of it may be one question to an instrument, which needs no task.
        answers_at_once: its action is one of ``actions.AT_ONCE``: a call of it waits for nothing.
    """

    name: str
    title: str
    description: str
    input_schema: Mapping[str, Any]
    annotations: ToolAnnotations
    check: Check
    make: MakeAction
    output_schema: Mapping[str, Any] | None = None
    wrap_key: str = ""
    instrument_id: str = ""
    plain_name: str = ""
    is_essential: bool = False
    cancels_on_disconnect: bool = False
    answers_at_once: bool = False
    may_ask: bool = False

    def action(self, call: ToolCall) -> Action:
        """What this call of the tool asks for; nothing is judged yet."""
        return self.make(call, self.check)


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
