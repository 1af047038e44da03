"""The words in which static tools are written: schemas, hints, and ``StaticTool`` itself.

Not a place for rules: what a tool means is its operation, and what it may is the command path's.

An argument of another type than its schema says becomes an empty value: the path applies the schema
after it has authorized, and nobody reads the fields before that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from edged.actions.action import Action, Check
from edged.actions.tool import DRY_RUN, LEASE, MakeAction, Tool, ToolAnnotations, ToolCall
from edged.profiles.arguments import Given, compile_given, compile_schema
from edged.protocol.jsonrpc import encode_text

__all__ = [
    "ANSWER_BYTES", "ANYTHING", "BOOLEAN", "CALM", "INSTRUMENT_ID", "INTEGER", "LIST", "MEASURE",
    "NO_ARGUMENTS", "NUMBER", "OBJECT", "PARAMETERS", "READ", "STRING", "WORK", "Schema",
    "StaticTool",
    "command_of", "fitting", "integer_of", "limit_of", "mapping_of", "only_asking", "parameters_of",
    "result_of", "rows_of", "text_of",
]  # fmt: skip

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
    """An output schema: what is there is of these types, more may be."""
    return {"type": "object", "properties": properties}


def rows_of(wrap_key: str, /, **properties: Schema) -> Schema:
    """The output schema of a list result, which structuredContent wraps."""
    row = {"type": "object", "properties": properties}
    return result_of(**{wrap_key: {"type": "array", "items": row}})


INSTRUMENT_ID: Final[Schema] = {
    "type": "string",
    "description": "Id or alias.",
}
PARAMETERS: Final[Schema] = {
    "type": "object",
    "description": "By name.",
}

ANSWER_BYTES: Final = 8_000
"""Of a bench tool's answer unless more was asked for, its text and structured content together."""


def fitting(
    rows: Sequence[Any], around: Mapping[str, Any], most_bytes: int = ANSWER_BYTES
) -> list[Any]:
    """As many of the rows, from the first on, as one answer holds beside ``around``."""
    room = most_bytes - _size(around)
    found: list[Any] = []
    for row in rows:
        room -= _size(row) + 2
        if room < 0 and found:
            break
        found.append(row)
    return found


def _size(value: Any) -> int:
    """Bytes of a value in an answer: as structured content, and once more escaped in its text."""
    text = encode_text(value)
    return 2 * len(text) + text.count('"') + text.count("\\")


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticTool:
    """One static tool as it is written; the attributes are those of ``Tool``.

    Attributes:
        needs_instruments: it is listed only while any instrument is registered.
        answers_alone: it can be called all the same when none is.
        output: of the static tools; the bench tools leave it out, a list has room for so much.
        takes_dry_run: it has ``dry_run`` besides, and then the result of a rehearsal, in which
            nothing of the output schema stands.
    """

    name: str
    title: str
    description: str
    schema: Schema
    output: Schema | None = None
    annotations: ToolAnnotations
    make: MakeAction
    wrap_key: str = ""
    cancels_on_disconnect: bool = False
    needs_instruments: bool = False
    answers_alone: bool = False
    takes_dry_run: bool = False

    def compiled(self) -> Tool:
        """The tool, its schema compiled."""
        schema = _with_dry_run(self.schema) if self.takes_dry_run else self.schema
        taken = schema if self.annotations.read_only else _with_lease(schema)
        return Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=schema,
            output_schema=self.output,
            annotations=self.annotations,
            check=compile_schema(self.name, taken),
            make=_make_of_given(self.make, compile_given(schema)),
            wrap_key=self.wrap_key,
            is_essential=True,
            cancels_on_disconnect=self.cancels_on_disconnect,
            answers_alone=self.answers_alone,
            takes_dry_run=self.takes_dry_run,
        )


def _with_dry_run(schema: Schema) -> Schema:
    told = {**BOOLEAN, "description": "Send nothing, only tell."}
    return {**schema, "properties": {**schema["properties"], DRY_RUN: told}}


def _with_lease(schema: Schema) -> Schema:
    """What is taken, though not listed: each tool would say the same of it."""
    return {**schema, "properties": {**schema["properties"], LEASE: STRING}}


def _make_of_given(make: MakeAction, given: Given) -> MakeAction:
    """An action is made of the arguments that were given: what is null and optional was not."""

    def made(call: ToolCall, check: Check) -> Action:
        arguments = given(call.arguments)
        if arguments is not call.arguments:
            call = dataclasses.replace(call, arguments=arguments)
        return make(call, check)

    return made


def only_asking(kind: type[Action]) -> MakeAction:
    """Makes the action of a tool whose arguments, if it has any, are read when it is run."""

    def make(call: ToolCall, check: Check) -> Action:
        return kind(**call.asked(check))

    return make


def command_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What an action aimed at one command begins with; its scope is the command's name."""
    name = text_of(arguments, "command_name")
    return {
        "scope": name,
        "instrument_id": text_of(arguments, "instrument_id"),
        "command_name": name,
        "parameters": mapping_of(arguments, "parameters"),
    }


def text_of(arguments: Mapping[str, Any], name: str) -> str:
    """An argument that is a text; empty where it is none."""
    value = arguments.get(name)
    return value if isinstance(value, str) else ""


def integer_of(arguments: Mapping[str, Any], name: str) -> int:
    """3.0 is an integer in JSON; what is none gives -1, and has not passed the check."""
    value = arguments.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        return -1
    return int(value)


def limit_of(arguments: Mapping[str, Any], default: int, name: str = "limit") -> int:
    """An argument that says how many at most."""
    return integer_of(arguments, name) if arguments.get(name) is not None else default


def mapping_of(arguments: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An argument that is an object; empty where it is none."""
    value = arguments.get(name)
    return value if isinstance(value, dict | Mapping) else {}
