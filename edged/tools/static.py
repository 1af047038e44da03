"""The tools that are always there. They reach everything, because many clients ignore list_changed.

Each entry reads as one block: what it takes, what it answers, what it means.

Before the entries stand the functions from raw arguments to the action that they mean; nothing is
judged here.

An argument of another type than its schema says becomes an empty value: the path applies the schema
after it has authorized, and nobody reads the fields before that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from edged.actions.action import (
    Action,
    CachedState,
    Check,
    DrawSweep,
    FetchWaveform,
    ReadState,
    ReadSweep,
    RunCommand,
    RunSequence,
    Scan,
    SendScpi,
    StartStream,
    StartSweep,
    StopStream,
    StopSweep,
)
from edged.tools.tool import (
    ANYTHING,
    BOOLEAN,
    CALM,
    INTEGER,
    LIST,
    MEASURE,
    NO_ARGUMENTS,
    NUMBER,
    OBJECT,
    READ,
    STRING,
    WORK,
    MakeAction,
    Schema,
    Tool,
    ToolCall,
    entry,
    parameters_of,
    result_of,
    rows_of,
)

__all__ = [
    "STATIC_TOOLS",
    "execute_command",
    "execute_sequence",
    "fetch_waveform",
    "get_sweep_status",
    "read",
    "scan",
    "send_scpi",
    "start_stream",
    "start_sweep",
    "static_tools",
    "stop_stream",
    "stop_sweep",
]


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
    return value if isinstance(value, dict | Mapping) else {}


def read(state: CachedState) -> MakeAction:
    """Cached state."""

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


def scan(call: ToolCall, check: Check) -> Action:
    """A look at the buses."""
    return Scan(
        tool=call.name,
        caller=call.caller,
        action_id=call.action_id,
        arguments=call.arguments,
        check=check,
    )


def execute_command(call: ToolCall, check: Check) -> Action:
    """Scope is the command's name."""
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


def execute_sequence(call: ToolCall, check: Check) -> Action:
    """Scope is the sequence's name."""
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


def send_scpi(call: ToolCall, check: Check) -> Action:
    """One raw line."""
    return SendScpi(
        tool=call.name,
        caller=call.caller,
        action_id=call.action_id,
        arguments=call.arguments,
        check=check,
        instrument_id=_text(call.arguments, "instrument_id"),
        scpi=_text(call.arguments, "scpi_command"),
    )


def start_stream(call: ToolCall, check: Check) -> Action:
    """Scope is the command's name."""
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


def stop_stream(call: ToolCall, check: Check) -> Action:
    """The end of a stream."""
    return StopStream(
        tool=call.name,
        caller=call.caller,
        action_id=call.action_id,
        arguments=call.arguments,
        check=check,
        stream_id=_text(call.arguments, "stream_id"),
    )


def fetch_waveform(call: ToolCall, check: Check) -> Action:
    """One captured waveform."""
    return FetchWaveform(
        tool=call.name,
        caller=call.caller,
        action_id=call.action_id,
        arguments=call.arguments,
        check=check,
        stream_id=_text(call.arguments, "stream_id"),
        point_index=_integer(call.arguments, "point_index"),
    )


def start_sweep(call: ToolCall, check: Check) -> Action:
    """Scope is the command's name."""
    command_name = _text(call.arguments, "command_name")
    return StartSweep(
        tool=call.name,
        caller=call.caller,
        action_id=call.action_id,
        scope=command_name,
        arguments=call.arguments,
        check=check,
        instrument_id=_text(call.arguments, "instrument_id"),
        command_name=command_name,
        parameters=_mapping(call.arguments, "parameters"),
    )


def get_sweep_status(call: ToolCall, check: Check) -> Action:
    """How a sweep stands; as png with a picture, which takes its time."""
    make = DrawSweep if call.arguments.get("format") == "png" else ReadSweep
    return make(
        tool=call.name,
        caller=call.caller,
        action_id=call.action_id,
        arguments=call.arguments,
        check=check,
        sweep_id=_text(call.arguments, "sweep_id"),
        points=_integer(call.arguments, "points"),
    )


def stop_sweep(call: ToolCall, check: Check) -> Action:
    """Hold or abort."""
    return StopSweep(
        tool=call.name,
        caller=call.caller,
        action_id=call.action_id,
        arguments=call.arguments,
        check=check,
        sweep_id=_text(call.arguments, "sweep_id"),
        hold=call.arguments.get("hold") is True,
    )


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
SWEEP_ID: Final[Schema] = {
    "type": "string",
    "description": "The sweep's id, as start_sweep or get_status told it.",
}


def static_tools() -> tuple[Tool, ...]:
    """The static tools with their schemas compiled; made once, by the composition root."""
    return tuple(make() for make in STATIC_TOOLS)


STATIC_TOOLS: Final[tuple[Callable[[], Tool], ...]] = (
    lambda: entry(
        "list_instruments",
        "List instruments",
        "List the instruments on this bench from cached state; touches no hardware. Start here: "
        "every other tool takes an `id` (or alias) from this list. An instrument with is_connected "
        "false cannot be worked now; an empty profile_name means that only send_scpi reaches it.",
        schema=parameters_of(
            filter={
                "type": "string",
                "default": "",
                "description": "Case-insensitive substring of any field; empty lists all.",
            }
        ),
        output=rows_of(
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
        make=read(CachedState.INSTRUMENTS),
        answers_at_once=True,
        wrap_key="instruments",
    ),
    lambda: entry(
        "get_capabilities",
        "What instruments can do",
        "What each instrument can do: its commands with JSON Schema, unit and danger, its "
        "sequences and settings. Touches no hardware. Read it before execute_command, "
        "execute_sequence or start_sweep; narrow it to one instrument: the full answer is long.",
        schema=parameters_of(
            instrument_id=INSTRUMENT_ID,
            instrument_class={
                "type": "string",
                "description": "Only instruments of this class, such as power_supply.",
            },
        ),
        output=rows_of(
            "capabilities",
            instrument_id=STRING,
            instrument_class=STRING,
            profile_name=STRING,
            commands=LIST,
            sequences=LIST,
            settings=LIST,
        ),
        annotations=READ,
        make=read(CachedState.CAPABILITIES),
        answers_at_once=True,
        wrap_key="capabilities",
    ),
    lambda: entry(
        "scan_instruments",
        "Scan for instruments",
        "Look for instruments now on every configured bus and address, and return those that are "
        "new. Only needed right after something was plugged in or switched on; the daemon also "
        "looks by itself. For what is known already use list_instruments.",
        schema=NO_ARGUMENTS,
        output=rows_of("instruments", id=STRING, manufacturer=STRING, model=STRING, address=STRING),
        annotations=CALM,
        make=scan,
        wrap_key="instruments",
    ),
    lambda: entry(
        "list_profiles",
        "List profiles",
        "List every instrument profile that this daemon knows, each with the number of matched "
        "instruments. Use it to learn whether a model is supported; list_instruments says what is "
        "really here.",
        schema=NO_ARGUMENTS,
        output=rows_of("profiles", key=STRING, count=INTEGER),
        annotations=READ,
        make=read(CachedState.PROFILES),
        answers_at_once=True,
        wrap_key="profiles",
    ),
    lambda: entry(
        "get_status",
        "Status of the daemon",
        "The state of the daemon itself: identity, version, uptime, number of instruments, running "
        "sweeps, streams and sequences, and whether anything needs attention. Touches no hardware.",
        schema=NO_ARGUMENTS,
        output=result_of(
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
        make=read(CachedState.STATUS),
        answers_at_once=True,
    ),
    lambda: entry(
        "execute_command",
        "Run one command",
        "Run one profile command on one instrument; arguments are checked against the profile's "
        "limits before anything is sent. Prefer this (or the command's own tool) over send_scpi. "
        "Commands marked requires_sweep are refused: use start_sweep for those.",
        schema=parameters_of(
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
        output=result_of(
            success=BOOLEAN, data=ANYTHING, scpi_command=STRING, execution_time_ms=NUMBER
        ),
        annotations=WORK,
        make=execute_command,
        may_ask=True,
    ),
    lambda: entry(
        "execute_sequence",
        "Run a sequence",
        "Run one of the profile's sequences: several commands in order that do a whole measurement "
        "and leave the instrument safe, also when a step fails. One call instead of many.",
        schema=parameters_of(
            ("instrument_id", "sequence_name"),
            instrument_id=INSTRUMENT_ID,
            sequence_name={
                "type": "string",
                "description": "The sequence's name, as get_capabilities lists it.",
            },
            parameters=PARAMETERS,
        ),
        output=result_of(result=ANYTHING, steps_executed=INTEGER, execution_time_ms=NUMBER),
        annotations=WORK,
        make=execute_sequence,
        cancels_on_disconnect=True,
    ),
    lambda: entry(
        "send_scpi",
        "Send raw SCPI",
        "Send one raw SCPI line and return the answer if it is a query. It bypasses the profile's "
        "checks (never the owner's limits), so it counts as dangerous: use execute_command "
        "whenever the profile has the command. A failure is told in `error`: a text, or an object "
        "with code and remedy where the line was refused and not sent.",
        schema=parameters_of(
            ("instrument_id", "scpi_command"),
            instrument_id=INSTRUMENT_ID,
            scpi_command={
                "type": "string",
                "minLength": 1,
                "maxLength": 4096,
                "description": "One line without a line end, such as *IDN?",
            },
        ),
        output=result_of(
            response={"type": ["string", "null"]},
            error={"type": ["string", "object", "null"]},
            execution_time_ms=NUMBER,
        ),
        annotations=WORK,
        make=send_scpi,
    ),
    lambda: entry(
        "start_sweep",
        "Ramp a set-point",
        "Ramp one set-point of one instrument from where it stands to target_value at sweep_rate, "
        "in small checked steps, and return at once: the sweep lives in the daemon and goes on "
        "without you. Follow it with get_sweep_status, end it with stop_sweep. With `measure` each "
        "step also reads other instruments (an IV curve is one call); `stop_when` ends it on a "
        "reading. The only way for commands marked requires_sweep; get_capabilities shows which "
        "commands can be swept. To set a value at once use execute_command.",
        schema=parameters_of(
            ("instrument_id", "command_name", "target_value", "sweep_rate"),
            instrument_id=INSTRUMENT_ID,
            command_name={
                "type": "string",
                "description": "The setter to sweep, as get_capabilities lists it.",
            },
            target_value={
                "type": "number",
                "description": "Where to go, in the swept parameter's own unit.",
            },
            sweep_rate={
                "type": "number",
                "exclusiveMinimum": 0,
                "description": "Units per second, always positive. A step is rate times the "
                "command's sweep.interval_ms: 1 V/s every 100 ms gives steps of 0.1 V.",
            },
            parameters={
                **PARAMETERS,
                "description": "The command's other arguments (such as the channel); never the "
                "swept one.",
            },
            measure={
                "type": "array",
                "maxItems": 32,
                "description": "Queries to run at each step; each adds a column.",
                "items": parameters_of(
                    ("instrument_id", "command_name"),
                    instrument_id=INSTRUMENT_ID,
                    command_name={"type": "string", "description": "A query command."},
                    parameters=PARAMETERS,
                ),
            },
            settle_ms={
                "type": "number",
                "minimum": 0,
                "maximum": 3_600_000,
                "default": 0,
                "description": "Wait after each step before measuring.",
            },
            stop_when=parameters_of(
                ("column", "op", "value", "then"),
                column={
                    "type": "string",
                    "description": "set, or a measure's column: its command_name (with the "
                    "instrument's alias and a dot before it where two measures share the name; "
                    "with .field behind it for structured answers).",
                },
                op={"type": "string", "enum": ["<", "<=", ">", ">=", "==", "!="]},
                value=NUMBER,
                then={
                    "type": "string",
                    "enum": ["hold", "abort"],
                    "description": "hold parks the output there; abort makes it safe.",
                },
            ),
        ),
        output=result_of(sweep_id=STRING, status=STRING),
        annotations=WORK,
        make=start_sweep,
    ),
    lambda: entry(
        "get_sweep_status",
        "How a sweep stands",
        "How a sweep stands: status (running, holding, completed, stopped, failed), current value, "
        "how far behind its rate it is (behind_s), what went wrong (error). With points: n also "
        "at most n rows of what it measured, evenly over the whole sweep, the newest included. "
        "Touches no hardware; ask every few seconds at most.",
        schema=parameters_of(
            ("sweep_id",),
            sweep_id=SWEEP_ID,
            points={
                "type": "integer",
                "minimum": 0,
                "maximum": 10_000,
                "default": 0,
                "description": "The most rows to return.",
            },
            format={
                "type": "string",
                "enum": ["json", "png"],
                "default": "json",
                "description": "png adds a picture of all rows.",
            },
        ),
        output=result_of(
            status=STRING,
            current_value={"type": ["number", "null"]},
            target_value={"type": ["number", "null"]},
            error={"type": ["string", "null"]},
        ),
        annotations=READ,
        make=get_sweep_status,
    ),
    lambda: entry(
        "stop_sweep",
        "Stop a sweep",
        "End a sweep now, from any session. hold: true parks the output at the present value and "
        "keeps it there; otherwise the sweep's abort makes it safe (usually output off), ahead of "
        "everything else on the line; aborted says whether it did. Of a sweep that is over its own "
        "status is returned and nothing is set: still_on lists what the instrument says is on. To "
        "make the whole bench safe use bench__stop_all.",
        schema=parameters_of(
            ("sweep_id",),
            sweep_id=SWEEP_ID,
            hold={
                "type": "boolean",
                "default": False,
                "description": "Park it instead of making it safe.",
            },
        ),
        output=result_of(status=STRING),
        annotations=CALM,
        make=stop_sweep,
    ),
    lambda: entry(
        "start_stream",
        "Measure on a grid",
        "Measure one query command every interval_ms for duration_ms; each point is recorded, and "
        "comes as a progress notification if you sent a progressToken. Returns when the time is "
        "over (or stop_stream is called), unless detach is true: then it goes on in the daemon "
        "and you get the stream_id at once; its data are the resource edged://runs/{stream_id}. "
        "For a single reading use execute_command.",
        schema=parameters_of(
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
        output=result_of(stream_id=STRING, count=INTEGER, last=ANYTHING, status=STRING),
        annotations=MEASURE,
        make=start_stream,
        cancels_on_disconnect=True,
    ),
    lambda: entry(
        "stop_stream",
        "Stop a stream",
        "End a stream now, from any session; what it measured stays recorded, and a waiting "
        "start_stream returns it. Of a stream that is over already its own end is told.",
        schema=parameters_of(("stream_id",), stream_id=STREAM_ID),
        output=result_of(status=STRING),
        annotations=CALM,
        make=stop_stream,
    ),
    lambda: entry(
        "fetch_waveform",
        "Fetch a waveform",
        "Fetch one captured waveform by the stream_id and point_index that execute_command or "
        "start_stream told. summary gives extremes, mean, RMS, peak to peak and a frequency "
        "estimate; decimated an outline of at most `points` numbers that keeps every spike; png a "
        "picture; base64 every sample (little-endian floats, y_dtype says which): it is large. "
        "Waveforms are kept in memory for a while: fetch soon.",
        schema=parameters_of(
            ("stream_id", "point_index"),
            stream_id=STREAM_ID,
            point_index={
                "type": "integer",
                "minimum": 0,
                "description": "Counts from 0: progress n of a stream is point n - 1.",
            },
            format={
                "type": "string",
                "enum": ["base64", "summary", "decimated", "png"],
                "default": "base64",
                "description": "How to hand out the samples.",
            },
            points={
                "type": "integer",
                "minimum": 2,
                "maximum": 10_000,
                "default": 1_000,
                "description": "With decimated: the most numbers.",
            },
            first={
                "type": "integer",
                "minimum": 0,
                "default": 0,
                "description": "With base64: the first sample, from 0.",
            },
            count={
                "type": "integer",
                "minimum": 1,
                "description": "With base64: how many samples; all from first, if left out. "
                "One answer holds 16 MiB of them.",
            },
        ),
        output=result_of(
            stream_id=STRING,
            point_index=INTEGER,
            y_dtype=STRING,
            y_length=INTEGER,
            x_unit=STRING,
            y_unit=STRING,
            x_increment=NUMBER,
        ),
        annotations=READ,
        make=fetch_waveform,
    ),
)
