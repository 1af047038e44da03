"""get_capabilities: what each instrument can do, as an agent reads it. Touches no hardware."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edged.commands.target import Catalog, ProfileChecks
from edged.instruments.instrument import Instrument
from edged.profiles import model
from edged.store.experience import CommandKnowledge

Entry = dict[str, Any]


def capabilities_of(
    instrument: Instrument, catalog: Catalog, experience: Mapping[str, CommandKnowledge]
) -> Entry:
    """One instrument's entry: {instrument_id, instrument_class, profile_name, commands, …}.

    Commands that the owner denies are left out; those marked requires_sweep say what to call.
    A command that has been tried on this unit has ``experience``: calls, failures, latency…
    """
    profile = instrument.profile
    entry: Entry = {
        "instrument_id": instrument.id,
        "alias": instrument.alias,
        "instrument_class": instrument.instrument_class,
        "profile_name": profile.key if profile else "",
        "profile_status": profile.status.value if profile else "",
        "is_connected": instrument.is_connected,
        "commands": [],
        "sequences": [],
        "settings": [],
    }
    if profile is None:
        return entry
    checks = catalog.of(instrument)
    entry["commands"] = [
        {**_command(checks, name), **_experience(experience.get(name))}
        for name in profile.commands
        if name not in instrument.rules.deny
    ]
    entry["sequences"] = [_sequence(checks, name) for name in profile.sequences]
    entry["settings"] = [_setting(setting) for setting in profile.settings.values()]
    return entry


def _command(checks: ProfileChecks, name: str) -> Entry:
    command, check = checks.command(name)
    entry: Entry = {
        "name": name,
        "description": command.description,
        "parameters": check.schema,
        "is_query": command.is_query,
        "is_dangerous": command.is_dangerous,
        "is_safe": command.is_safe,
        "requires_sweep": command.requires_sweep,
        "unit": _unit(command),
    }
    if command.changes is not None:
        entry["changes"] = command.changes.value
    if command.returns is not None:
        entry["returns"] = _returns(command.returns)
    if command.sweep is not None:
        entry["sweep"] = {
            "parameter": command.sweep.parameter,
            "interval_ms": command.sweep.interval_ms,
            "readback": command.sweep.readback,
        }
    return entry


def _experience(known: CommandKnowledge | None) -> Entry:
    return {} if known is None else {"experience": known.to_json()}


def _sequence(checks: ProfileChecks, name: str) -> Entry:
    sequence, check = checks.sequence(name)
    return {
        "name": name,
        "description": sequence.description,
        "parameters": check.schema,
        "is_dangerous": sequence.is_dangerous,
        "returns": sorted(sequence.result) + (["rows"] if _has_rows(sequence) else []),
    }


def _setting(setting: model.Setting) -> Entry:
    return {
        "name": setting.name,
        "unit": setting.unit,
        "get": setting.get,
        "set": setting.set_command,
    }


def _unit(command: model.Command) -> str:
    """The unit of the answer, or of what a setter's only number is given in."""
    if isinstance(command.returns, model.ScalarAnswer | model.ListAnswer):
        return command.returns.unit
    if isinstance(command.returns, model.WaveformAnswer):
        return command.returns.y_unit
    units = {parameter.unit for parameter in command.parameters.values() if parameter.unit}
    return units.pop() if len(units) == 1 else ""


def _returns(returns: model.Returns) -> Entry:
    match returns:
        case model.ScalarAnswer():
            return {"type": returns.type.value, "unit": returns.unit}
        case model.ListAnswer():
            items = {"type": returns.type.value}
            return {"type": "list", "items": items, "unit": returns.unit}
        case model.FieldsAnswer():
            fields = [
                {"name": f.name, "type": f.type.value, "unit": f.unit} for f in returns.fields
            ]
            return {"type": "fields", "fields": fields}
        case model.BitsAnswer():
            return {"type": "bits", "fields": [{"name": f.name} for f in returns.fields]}
        case model.WaveformAnswer():
            return {"type": "waveform", "x_unit": returns.x_unit, "y_unit": returns.y_unit}
        case model.ImageAnswer():
            return {"type": "image", "mime": returns.mime}


def _has_rows(sequence: model.Sequence) -> bool:
    return any(isinstance(step, model.RowStep) for step in model.walk(sequence.steps))
