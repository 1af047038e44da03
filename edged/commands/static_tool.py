"""The words in which static tools are written: schemas, hints, and ``StaticTool`` itself.

Not a place for rules: what a tool means is its operation, and what it may is the command path's.

An argument of another type than its schema says becomes an empty value: the path applies the schema
after it has authorized, and nobody reads the fields before that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from edged.actions.action import Action, Check
from edged.actions.tool import DRY_RUN, LEASE, MakeAction, Tool, ToolAnnotations, ToolCall
from edged.profiles.arguments import Given, compile_given, compile_schema
from edged.protocol.jsonrpc import encode_text
from edged.record import record

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
REHEARSED: Final = (
    "would_send", "checks", "conflicts", "needs", "steps", "duration_s", "more",
)  # fmt: skip
"""The members of ``Rehearsal.told``."""


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


def result_of(*members: str, **properties: Schema) -> Schema:
    """An output schema that names every member: some clients drop those that it does not name.

    Args:
        members: of any type.
        properties: of a known type, or with members of their own.
    """
    named = dict.fromkeys(members, ANYTHING)
    # An error stands beside the members of the tool, or alone.
    return {"type": "object", "properties": {**named, **properties, "error": ANYTHING}}


def rows_of(wrap_key: str, /, *members: str) -> Schema:
    """The output schema of a list result, which structuredContent wraps."""
    row = {"type": "object", "properties": dict.fromkeys(members, ANYTHING)}
    return result_of(**{wrap_key: {"type": "array", "items": row}})


INSTRUMENT_ID: Final = STRING
"""Or an alias; list_instruments says so for all tools."""
PARAMETERS: Final[Schema] = {"type": "object", "description": "By name."}

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


@record
class StaticTool:
    """One static tool as it is written; the attributes are those of ``Tool``.

    Attributes:
        make: makes the action of a call, where that is more than its row's with the arguments.
        needs_instruments: it is listed only while any instrument is registered.
        answers_alone: it can be called all the same when none is.
        accepts: arguments of which more is accepted than ``schema`` lists: many clients and model
            APIs know few keywords of JSON Schema, and refuse a list with another one as a whole.
        output: of the static tools; the bench tools leave it out, a list has room for so much.
        takes_dry_run: it has ``dry_run`` besides, and then the result of a rehearsal.
    """

    name: str
    title: str = ""
    description: str
    schema: Schema
    accepts: Mapping[str, Schema] = field(default_factory=dict)
    output: Schema | None = None
    annotations: ToolAnnotations
    make: MakeAction | None = None
    wrap_key: str = ""
    cancels_on_disconnect: bool = False
    needs_instruments: bool = False
    answers_alone: bool = False
    takes_dry_run: bool = False

    def compiled(self, ask: Callable[..., Action]) -> Tool:
        """The tool, its schema compiled; ``ask`` makes the action of its row."""
        schema = self._listed()
        taken = {**schema, "properties": {**schema["properties"], **self.accepts}}
        return Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=schema,
            output_schema=self._told(),
            annotations=self.annotations,
            check=compile_schema(self.name, taken),
            make=_make_of_given(self.make or _asking(ask), compile_given(schema)),
            wrap_key=self.wrap_key,
            is_essential=True,
            cancels_on_disconnect=self.cancels_on_disconnect,
            answers_alone=self.answers_alone,
            takes_dry_run=self.takes_dry_run,
        )

    def _listed(self) -> Schema:
        """The schema with what such a tool takes besides its own arguments."""
        more: dict[str, Schema] = {}
        if self.takes_dry_run:
            more[DRY_RUN] = {**BOOLEAN, "description": "Rehearse: send nothing."}
        if not self.annotations.read_only:
            more[LEASE] = STRING
        return {**self.schema, "properties": {**self.schema["properties"], **more}}

    def _told(self) -> Schema | None:
        """The output schema, with the members of a rehearsal where there may be one."""
        if self.output is None or not self.takes_dry_run:
            return self.output
        rehearsed = dict.fromkeys(REHEARSED, ANYTHING)
        return {**self.output, "properties": {**self.output["properties"], **rehearsed}}


def _make_of_given(make: MakeAction, given: Given) -> MakeAction:
    """An action is made of the arguments that were given: what is null and optional was not."""

    def made(call: ToolCall, check: Check) -> Action:
        arguments = given(call.arguments)
        if arguments is not call.arguments:
            call = dataclasses.replace(call, arguments=arguments)
        return make(call, check)

    return made


def _asking(ask: Callable[..., Action]) -> MakeAction:
    """Makes the action of a tool whose arguments, if it has any, are read when it is run."""

    def make(call: ToolCall, check: Check) -> Action:
        return ask(**call.asked(check))

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
