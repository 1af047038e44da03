"""From a static tool's raw arguments to the action that they mean; nothing is judged here.

An argument of another type than its schema says becomes an empty value: the path applies the schema
after it has authorized, and nobody reads the fields before that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edged.actions.action import (
    Action,
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
    State,
    StopAll,
    StopStream,
    StopSweep,
)
from edged.tools.tool import MakeAction, ToolCall

__all__ = [
    "execute_command",
    "execute_sequence",
    "fetch_waveform",
    "get_sweep_status",
    "read",
    "scan",
    "send_scpi",
    "start_stream",
    "start_sweep",
    "stop_all",
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


def read(state: State) -> MakeAction:
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


def stop_all(call: ToolCall, check: Check) -> Action:
    """Everything, at once."""
    return StopAll(
        tool=call.name,
        caller=call.caller,
        action_id=call.action_id,
        arguments=call.arguments,
        check=check,
    )
