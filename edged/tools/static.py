"""The tools that are always there. They reach everything, because many clients ignore list_changed.

Each entry reads as one block: what it takes, what it answers, what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from edged.actions.action import (
    Action,
    Check,
    FetchWaveform,
    ReadState,
    RunCommand,
    RunSequence,
    Scan,
    SendScpi,
    StartStream,
    State,
    StopStream,
)
from edged.profiles.schema import compile_schema
from edged.tools.tool import MakeAction, Tool, ToolAnnotations, ToolCall

__all__ = ["STATIC_TOOLS", "static_tools"]

Schema = dict[str, Any]

NO_ARGUMENTS: Final[Schema] = {"type": "object", "properties": {}, "additionalProperties": False}

INSTRUMENT_ID: Final[Schema] = {
    "type": "string",
    "description": "The instrument's id or alias, as list_instruments shows it.",
}
PARAMETERS: Final[Schema] = {
    "type": "object",
    "description": "The command's own arguments by name; get_capabilities has their schema.",
}

STREAM_ID: Final[Schema] = {
    "type": "string",
    "description": "The stream's id, as start_stream, execute_command or get_status told it.",
}

READ: Final = ToolAnnotations(read_only=True, destructive=False, idempotent=True, open_world=False)
CALM: Final = ToolAnnotations(read_only=False, destructive=False, idempotent=True, open_world=False)
WORK: Final = ToolAnnotations(read_only=False, destructive=True, idempotent=False, open_world=True)


def _schema(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    schema: Schema = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    if required:
        schema["required"] = list(required)
    return schema


def _result(**properties: Schema) -> Schema:
    """An output schema: these are there, more may be; ``error`` comes with a failure."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def _rows(wrap_key: str, /, **properties: Schema) -> Schema:
    """The output schema of a list result, which structuredContent wraps."""
    row = {"type": "object", "properties": properties, "required": list(properties)}
    return _result(**{wrap_key: {"type": "array", "items": row}})


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    return value if isinstance(value, str) else ""


def _integer(arguments: Mapping[str, Any], name: str) -> int:
    """3.0 is an integer in JSON; what is none gives -1, and has not passed the check."""
    value = arguments.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        return -1
    return int(value)


def _mapping(arguments: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = arguments.get(name)
    return value if isinstance(value, Mapping) else {}


def _read(state: State) -> MakeAction:
    def make(call: ToolCall, check: Check) -> Action:
        return ReadState(
            tool=call.name,
            caller=call.caller,
            action_id=call.action_id,
            arguments=call.arguments,
            check=check,
            state=state,
        )

    return make


def _scan(call: ToolCall, check: Check) -> Action:
    return Scan(
        tool=call.name,
        caller=call.caller,
        action_id=call.action_id,
        arguments=call.arguments,
        check=check,
    )


def _execute_command(call: ToolCall, check: Check) -> Action:
    expects = call.arguments.get("is_query")
    command_name = _text(call.arguments, "command_name")
    return RunCommand(
        tool=call.name,
        caller=call.caller,
        action_id=call.action_id,
        scope=command_name,
        arguments=call.arguments,
        check=check,
        instrument_id=_text(call.arguments, "instrument_id"),
        command_name=command_name,
        parameters=_mapping(call.arguments, "parameters"),
        expects_query=expects if isinstance(expects, bool) else None,
    )


def _execute_sequence(call: ToolCall, check: Check) -> Action:
    sequence_name = _text(call.arguments, "sequence_name")
    return RunSequence(
        tool=call.name,
        caller=call.caller,
        action_id=call.action_id,
        scope=sequence_name,
        arguments=call.arguments,
        check=check,
        progress=call.progress,
        instrument_id=_text(call.arguments, "instrument_id"),
        sequence_name=sequence_name,
        parameters=_mapping(call.arguments, "parameters"),
    )


def _send_scpi(call: ToolCall, check: Check) -> Action:
    return SendScpi(
        tool=call.name,
        caller=call.caller,
        action_id=call.action_id,
        arguments=call.arguments,
        check=check,
        instrument_id=_text(call.arguments, "instrument_id"),
        scpi=_text(call.arguments, "scpi_command"),
    )


def _start_stream(call: ToolCall, check: Check) -> Action:
    command_name = _text(call.arguments, "command_name")
    return StartStream(
        tool=call.name,
        caller=call.caller,
        action_id=call.action_id,
        scope=command_name,
        arguments=call.arguments,
        check=check,
        progress=call.progress,
        instrument_id=_text(call.arguments, "instrument_id"),
        command_name=command_name,
        parameters=_mapping(call.arguments, "parameters"),
    )


def _stop_stream(call: ToolCall, check: Check) -> Action:
    return StopStream(
        tool=call.name,
        caller=call.caller,
        action_id=call.action_id,
        arguments=call.arguments,
        check=check,
        stream_id=_text(call.arguments, "stream_id"),
    )


def _fetch_waveform(call: ToolCall, check: Check) -> Action:
    return FetchWaveform(
        tool=call.name,
        caller=call.caller,
        action_id=call.action_id,
        arguments=call.arguments,
        check=check,
        stream_id=_text(call.arguments, "stream_id"),
        point_index=_integer(call.arguments, "point_index"),
    )


def _tool(
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
) -> Tool:
    return Tool(
        name=name,
        title=title,
        description=description,
        input_schema=schema,
        output_schema=output,
        annotations=annotations,
        check=compile_schema(name, schema),
        make=make,
        wrap_key=wrap_key,
        is_essential=True,
        cancels_on_disconnect=cancels_on_disconnect,
    )


STRING: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "number"}
INTEGER: Final[Schema] = {"type": "integer"}
BOOLEAN: Final[Schema] = {"type": "boolean"}
OBJECT: Final[Schema] = {"type": "object"}
LIST: Final[Schema] = {"type": "array"}
ANYTHING: Final[Schema] = {}


def static_tools() -> tuple[Tool, ...]:
    """The static tools with their schemas compiled; made once, by the composition root."""
    return tuple(make() for make in STATIC_TOOLS)


STATIC_TOOLS: Final[tuple[Callable[[], Tool], ...]] = (
    lambda: _tool(
        "list_instruments",
        "List instruments",
        "List the instruments on this bench from cached state; touches no hardware. Start here: "
        "every other tool takes an `id` (or alias) from this list. An instrument with is_connected "
        "false cannot be worked now; an empty profile_name means that only send_scpi reaches it.",
        schema=_schema(
            filter={
                "type": "string",
                "default": "",
                "description": "Case-insensitive substring of any field; empty lists all.",
            }
        ),
        output=_rows(
            "instruments",
            id=STRING,
            manufacturer=STRING,
            model=STRING,
            address=STRING,
            profile_name=STRING,
            instrument_class=STRING,
            is_connected=BOOLEAN,
        ),
        annotations=READ,
        make=_read(State.INSTRUMENTS),
        wrap_key="instruments",
    ),
    lambda: _tool(
        "get_capabilities",
        "What instruments can do",
        "What each instrument can do: its commands with JSON Schema, unit and danger, its "
        "sequences and settings. Touches no hardware. Read it before execute_command, "
        "execute_sequence or start_sweep; narrow it to one instrument: the full answer is long.",
        schema=_schema(
            instrument_id=INSTRUMENT_ID,
            instrument_class={
                "type": "string",
                "description": "Only instruments of this class, such as power_supply.",
            },
        ),
        output=_rows(
            "capabilities",
            instrument_id=STRING,
            instrument_class=STRING,
            profile_name=STRING,
            commands=LIST,
            sequences=LIST,
            settings=LIST,
        ),
        annotations=READ,
        make=_read(State.CAPABILITIES),
        wrap_key="capabilities",
    ),
    lambda: _tool(
        "scan_instruments",
        "Scan for instruments",
        "Look for instruments now on every configured bus and address, and return those that are "
        "new. Only needed right after something was plugged in or switched on; the daemon also "
        "looks by itself. For what is known already use list_instruments.",
        schema=NO_ARGUMENTS,
        output=_rows("instruments", id=STRING, manufacturer=STRING, model=STRING, address=STRING),
        annotations=CALM,
        make=_scan,
        wrap_key="instruments",
    ),
    lambda: _tool(
        "list_profiles",
        "List profiles",
        "List every instrument profile that this daemon knows, each with the number of matched "
        "instruments. Use it to learn whether a model is supported; list_instruments says what is "
        "really here.",
        schema=NO_ARGUMENTS,
        output=_rows("profiles", key=STRING, count=INTEGER),
        annotations=READ,
        make=_read(State.PROFILES),
        wrap_key="profiles",
    ),
    lambda: _tool(
        "get_status",
        "Status of the daemon",
        "The state of the daemon itself: identity, version, uptime, number of instruments, running "
        "sweeps, streams and sequences, and whether anything needs attention. Touches no hardware.",
        schema=NO_ARGUMENTS,
        output=_result(
            edge_id=STRING,
            edge_name=STRING,
            version=STRING,
            instrument_count=INTEGER,
            uptime_s=NUMBER,
            platform=STRING,
            mcp=OBJECT,
            sweeps=LIST,
            streams=LIST,
            relay=OBJECT,
        ),
        annotations=READ,
        make=_read(State.STATUS),
    ),
    lambda: _tool(
        "execute_command",
        "Run one command",
        "Run one profile command on one instrument; arguments are checked against the profile's "
        "limits before anything is sent. Prefer this (or the command's own tool) over send_scpi. "
        "Commands marked requires_sweep are refused: use start_sweep for those.",
        schema=_schema(
            ("instrument_id", "command_name"),
            instrument_id=INSTRUMENT_ID,
            command_name={
                "type": "string",
                "description": "The command's name, as get_capabilities lists it.",
            },
            parameters=PARAMETERS,
            is_query={
                "type": "boolean",
                "description": "What you expect; an error if the profile says otherwise.",
            },
        ),
        output=_result(
            success=BOOLEAN, data=ANYTHING, scpi_command=STRING, execution_time_ms=NUMBER
        ),
        annotations=WORK,
        make=_execute_command,
    ),
    lambda: _tool(
        "execute_sequence",
        "Run a sequence",
        "Run one of the profile's sequences: several commands in order that do a whole measurement "
        "and leave the instrument safe, also when a step fails. One call instead of many.",
        schema=_schema(
            ("instrument_id", "sequence_name"),
            instrument_id=INSTRUMENT_ID,
            sequence_name={
                "type": "string",
                "description": "The sequence's name, as get_capabilities lists it.",
            },
            parameters=PARAMETERS,
        ),
        output=_result(result=ANYTHING, steps_executed=INTEGER, execution_time_ms=NUMBER),
        annotations=WORK,
        make=_execute_sequence,
        cancels_on_disconnect=True,
    ),
    lambda: _tool(
        "send_scpi",
        "Send raw SCPI",
        "Send one raw SCPI line and return the answer if it is a query. It bypasses the profile's "
        "checks (never the owner's limits), so it counts as dangerous: use execute_command "
        "whenever the profile has the command. A failure is told in `error`.",
        schema=_schema(
            ("instrument_id", "scpi_command"),
            instrument_id=INSTRUMENT_ID,
            scpi_command={
                "type": "string",
                "minLength": 1,
                "maxLength": 4096,
                "description": "One line without a line end, such as *IDN?",
            },
        ),
        output=_result(
            response={"type": ["string", "null"]},
            error={"type": ["string", "null"]},
            execution_time_ms=NUMBER,
        ),
        annotations=WORK,
        make=_send_scpi,
    ),
    lambda: _tool(
        "start_stream",
        "Measure on a grid",
        "Measure one query command every interval_ms for duration_ms; each point is recorded, and "
        "comes as a progress notification if you sent a progressToken. Returns when the time is "
        "over (or stop_stream is called), unless detach is true: then it goes on in the daemon "
        "and you get the stream_id at once. For a single reading use execute_command.",
        schema=_schema(
            ("instrument_id", "command_name"),
            instrument_id=INSTRUMENT_ID,
            command_name={
                "type": "string",
                "description": "A command with is_query, as get_capabilities lists it.",
            },
            interval_ms={
                "type": "integer",
                "minimum": 10,
                "maximum": 3_600_000,
                "default": 500,
                "description": "Distance of two points (unit: ms).",
            },
            duration_ms={
                "type": "integer",
                "minimum": 1,
                "maximum": 86_400_000,
                "default": 10_000,
                "description": "How long to measure, at most 24 hours (unit: ms).",
            },
            parameters=PARAMETERS,
            detach={
                "type": "boolean",
                "default": False,
                "description": "Return at once; the stream goes on without you.",
            },
        ),
        output=_result(stream_id=STRING, count=INTEGER, last=ANYTHING, status=STRING),
        annotations=WORK,
        make=_start_stream,
        cancels_on_disconnect=True,
    ),
    lambda: _tool(
        "stop_stream",
        "Stop a stream",
        "End a stream now, from any session; what it measured stays recorded, and a waiting "
        "start_stream returns it. Of a stream that is over already its own end is told.",
        schema=_schema(("stream_id",), stream_id=STREAM_ID),
        output=_result(status=STRING),
        annotations=CALM,
        make=_stop_stream,
    ),
    lambda: _tool(
        "fetch_waveform",
        "Fetch a waveform",
        "Fetch one captured waveform by the stream_id and point_index that execute_command or "
        "start_stream told. base64 gives every sample (little-endian floats, y_dtype says which); "
        "summary gives the extremes, mean and RMS; decimated an outline of at most 1000 numbers. "
        "Waveforms are kept in memory for a while: fetch soon.",
        schema=_schema(
            ("stream_id", "point_index"),
            stream_id=STREAM_ID,
            point_index={
                "type": "integer",
                "minimum": 0,
                "description": "Counts from 0: progress n of a stream is point n - 1.",
            },
            format={
                "type": "string",
                "enum": ["base64", "summary", "decimated"],
                "default": "base64",
                "description": "How to hand out the samples.",
            },
        ),
        output=_result(
            stream_id=STRING,
            point_index=INTEGER,
            y_dtype=STRING,
            y_length=INTEGER,
            x_unit=STRING,
            y_unit=STRING,
            x_increment=NUMBER,
        ),
        annotations=READ,
        make=_fetch_waveform,
    ),
)
