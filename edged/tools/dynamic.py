"""One tool for every command and sequence of every instrument that has a profile.

Tools are made once an instrument and naming, and kept until either changes: with hundreds of
instruments the list is put together from parts instead of being made anew.

Source: docs/promises.md section 5 (names, annotations, descriptions).

One tool for every specification of every SDK wrapper that could be loaded.

Source: docs/promises.md sections 5 and 10.

What the tools that have one device do one thing say of themselves, whatever carries it out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from edged.actions.action import Action, CallWrapper, Check, RunCommand, RunSequence
from edged.actions.tool import DRY_RUN, LEASE, MakeAction, Tool, ToolAnnotations, ToolCall
from edged.commands.target import Catalog
from edged.errors import Invalid
from edged.instruments.instrument import Instrument
from edged.profiles.arguments import ParameterCheck, compile_schema
from edged.profiles.model import Changes, Command, Profile, Sequence
from edged.profiles.naming import sequence_tool_name, strict_name, tool_name, wrapper_tool_name
from edged.sdk.executor import WrapperExecutor
from edged.sdk.specs import WrapperSpec

NOT_IN_SERIAL: Final = re.compile(r"[^A-Za-z0-9._-]")
MOST_SERIAL: Final = 32
UNREVIEWED: Final = (
    "Imported from another program's source code, and not yet compared with a manual; ask a "
    "person where it matters."
)
"""What every tool of an imported profile says."""
SIDE_EFFECTS: Final[Mapping[Changes, str]] = {
    Changes.OUTPUTS: "It may switch an output on.",
    Changes.SETTINGS: "It may change settings that it does not name.",
    Changes.ANY: "It can load values that it does not name.",
}


def annotations_of(*, is_write: bool, is_dangerous: bool) -> ToolAnnotations:
    """MCP's hints."""
    return ToolAnnotations(
        read_only=not is_write,
        destructive=is_dangerous,
        idempotent=not is_write,
        open_world=True,
    )


def cautions(*, is_dangerous: bool, is_safe: bool, unit: str) -> list[str]:
    """The sentences of a description that are the same for every such tool."""
    told = []
    if is_dangerous:
        told.append("Dangerous: it can energize or harm what is connected.")
    if is_safe:
        told.append("Safe: never refused.")
    if unit:
        told.append(f"Answers in {unit}.")
    return told


def fits_json(arguments: Mapping[str, Any]) -> None:
    """The check of the tool itself; its schema is the command's, which the path checks, once.

    Raises:
        Invalid: the arguments are no object.
    """
    if not isinstance(arguments, Mapping):
        raise Invalid("The arguments of a tool are an object.")


def _fits_names(key: str, name: str, check: ParameterCheck, arguments: Mapping[str, Any]) -> None:
    """``fits_json``, and their names are the command's own or what each such tool takes besides."""
    fits_json(arguments)
    known = check.schema["properties"]
    if not arguments.keys() <= known.keys():
        taken: dict[str, Any] = {one: {} for one in (*known, DRY_RUN, LEASE)}
        schema = {"properties": taken, "additionalProperties": False}
        compile_schema(f"{key}.{name}", schema)(arguments)


def _with_lease(check: ParameterCheck) -> dict[str, Any]:
    """The schema of what a lease can hold back; who has no session presents its lease there."""
    properties = {**check.schema["properties"], LEASE: {"type": "string"}}
    return {**check.schema, "properties": properties}


def instrument_tools(instrument: Instrument, suffix: str, catalog: Catalog) -> tuple[Tool, ...]:
    """The tools of one instrument under its present suffix (empty: the profile's first instance).

    The owner's ``expose`` decides which are listed; a denied command has no tool.
    """
    profile = instrument.profile
    if profile is None:
        return ()
    checks = catalog.of(instrument)
    tools = []
    for name in profile.commands:
        if name in instrument.rules.deny:
            continue
        command, check = checks.command(name)
        tools.append(_command_tool(instrument, suffix, command, check))
    for name in profile.sequences:
        sequence, check = checks.sequence(name)
        tools.append(_sequence_tool(instrument, suffix, sequence, check))
    return tuple(tool for tool in tools if _is_exposed(tool, instrument))


def withheld_name(name: str, profile: Profile, suffix: str) -> str | None:
    """The command or sequence that a tool of this name would run; None where there is none."""
    spelled = strict_name(name)
    for command in profile.commands:
        if strict_name(tool_name(profile.key, suffix, command)) == spelled:
            return command
    for sequence in profile.sequences:
        if strict_name(sequence_tool_name(profile.key, suffix, sequence)) == spelled:
            return sequence
    return None


def _is_exposed(tool: Tool, instrument: Instrument) -> bool:
    short = tool.plain_name.split("__", 1)[1]
    return instrument.rules.exposes(short, is_essential=tool.is_essential)


def _command_tool(
    instrument: Instrument, suffix: str, command: Command, check: ParameterCheck
) -> Tool:
    key = _profile_key(instrument)
    return Tool(
        name=tool_name(key, suffix, command.name),
        plain_name=tool_name(key, "", command.name),
        description=_command_description(instrument, command),
        input_schema=_with_lease(check) if command.is_write else check.schema,
        annotations=annotations_of(is_write=command.is_write, is_dangerous=command.is_dangerous),
        check=partial(_fits_names, key, command.name, check),
        make=_make_command(instrument.id, command.name, tool_name(key, "", command.name)),
        instrument_id=instrument.id,
        is_essential=command.is_essential,
        takes_dry_run=True,
    )


def _sequence_tool(
    instrument: Instrument, suffix: str, sequence: Sequence, check: ParameterCheck
) -> Tool:
    key = _profile_key(instrument)
    danger = " It does something dangerous." if sequence.is_dangerous else ""
    text = sequence.description or f"Run the sequence {sequence.name}."
    return Tool(
        name=sequence_tool_name(key, suffix, sequence.name),
        plain_name=sequence_tool_name(key, "", sequence.name),
        description=" ".join([f"{text}{danger}", *_unreviewed(instrument), _whose(instrument)]),
        input_schema=_with_lease(check),
        annotations=annotations_of(is_write=True, is_dangerous=sequence.is_dangerous),
        check=partial(_fits_names, key, sequence.name, check),
        make=_make_sequence(
            instrument.id, sequence.name, sequence_tool_name(key, "", sequence.name)
        ),
        instrument_id=instrument.id,
        is_essential=sequence.is_essential,
        cancels_on_disconnect=True,
        takes_dry_run=True,
    )


def _command_description(instrument: Instrument, command: Command) -> str:
    parts = [command.description or f"Run {command.name}."]
    if command.requires_sweep:
        parts.append(
            f"This command is only allowed as a ramp: call start_sweep with command_name "
            f"{json.dumps(command.name)} instead of this tool."
        )
    unit = getattr(command.returns, "unit", "") if command.returns else ""
    parts += cautions(is_dangerous=command.is_dangerous, is_safe=command.is_safe, unit=unit)
    if command.changes is not None:
        parts.append(SIDE_EFFECTS[command.changes])
    parts += [*_unreviewed(instrument), _whose(instrument)]
    return " ".join(parts)


def _unreviewed(instrument: Instrument) -> list[str]:
    profile = instrument.profile
    return [UNREVIEWED] if profile is not None and profile.is_imported else []


def _whose(instrument: Instrument) -> str:
    """Which unit this tool drives, by the words of its owner and its profile.

    Of what the unit says of itself only the serial number, and of that only what a serial number
    holds: a model reads descriptions as instructions.
    """
    named = f"{instrument.alias}: " if instrument.alias else ""
    place = f", {instrument.location}" if instrument.location else ""
    profile = instrument.profile
    unit = f"{profile.manufacturer} {profile.model}" if profile is not None else ""
    number = NOT_IN_SERIAL.sub("", instrument.identity.serial)[:MOST_SERIAL]
    serial = f", S/N {number}" if number else ""
    return f"[{named}{unit}{serial}{place}]"


def _profile_key(instrument: Instrument) -> str:
    return instrument.profile.key if instrument.profile else ""


def _make_command(instrument_id: str, command_name: str, plain_tool: str) -> MakeAction:
    def make(call: ToolCall, check: Check) -> Action:
        return RunCommand(
            **call.asked(check),
            plain_tool=plain_tool,
            instrument_id=instrument_id,
            command_name=command_name,
            parameters=call.arguments,
        )

    return make


def _make_sequence(instrument_id: str, sequence_name: str, plain_tool: str) -> MakeAction:
    def make(call: ToolCall, check: Check) -> Action:
        return RunSequence(
            **call.asked(check),
            plain_tool=plain_tool,
            instrument_id=instrument_id,
            sequence_name=sequence_name,
            parameters=call.arguments,
        )

    return make


def wrapper_tools(executor: WrapperExecutor) -> tuple[Tool, ...]:
    """The tools of one wrapper, in its own order."""
    return tuple(_tool(spec) for spec in executor.specs)


def _tool(spec: WrapperSpec) -> Tool:
    name = wrapper_tool_name(spec.wrapper, spec.name)
    is_write = spec.is_dangerous or not spec.is_query
    return Tool(
        name=name,
        plain_name=name,
        description=_description(spec),
        input_schema=_with_lease(spec.check) if is_write else spec.check.schema,
        annotations=annotations_of(is_write=is_write, is_dangerous=spec.is_dangerous),
        check=fits_json,
        make=_make(spec.wrapper, spec.name, name),
        instrument_id=spec.wrapper_id,
        is_essential=spec.is_essential,
    )


def _description(spec: WrapperSpec) -> str:
    unit = spec.returns.unit if spec.returns is not None else ""
    told = cautions(is_dangerous=spec.is_dangerous, is_safe=spec.is_safe, unit=unit)
    return " ".join([spec.description, *told, f"[SDK wrapper {spec.wrapper}]"])


def _make(wrapper: str, spec_name: str, plain_tool: str) -> MakeAction:
    def make(call: ToolCall, check: Check) -> Action:
        return CallWrapper(
            **call.asked(check),
            plain_tool=plain_tool,
            wrapper=wrapper,
            spec_name=spec_name,
            parameters=call.arguments,
        )

    return make
