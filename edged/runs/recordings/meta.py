"""meta.json of a recording: everything that is needed to trust its numbers in a year.

The settings of the instruments are read once the recording runs, at the lowest priority: a question
more never delays a measurement by more than itself.
"""

from __future__ import annotations

import itertools
import platform
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from edged import __version__
from edged.actions.action import Purpose, SendLines
from edged.actions.caller import Caller
from edged.clock import Clock
from edged.errors import EdgedError, ErrorCode, NotFound
from edged.host import clock_state
from edged.instruments.instrument import Instrument
from edged.instruments.pool import InstrumentPool
from edged.profiles.answers import parse_answer
from edged.profiles.model import Command, Profile, ScalarAnswer, Setting
from edged.profiles.template import render
from edged.runs.ports import NewId, Perform
from edged.runs.run_head import Column, RunHead, RunKind
from edged.yaml.tree import Scalar

FORMAT: Final = 1
MAX_SETTINGS: Final = 500


def first_meta(head: RunHead, pool: InstrumentPool, clock: Clock) -> dict[str, Any]:
    """What is known when a recording begins; reads nothing from any instrument."""
    now_ms = clock.wall_ms() if head.started_ms is None else head.started_ms
    instruments = [found for name in _involved(head) if (found := _find(pool, name)) is not None]
    return {
        "format": FORMAT,
        "edged_version": __version__,
        "run_id": head.run_id,
        "kind": head.kind.value,
        "status": "running",
        "started_ms": now_ms,
        "started": iso(now_ms),
        "ended_ms": None,
        "ended": None,
        "instrument_id": instruments[0].id if instruments else head.instrument_id,
        "command_name": head.command_name,
        "parameters": dict(head.parameters),
        "details": dict(head.details),
        "columns": [_column(column) for column in head.recorded],
        "caller": caller_told(head.caller),
        "instruments": [_instrument(instrument) for instrument in instruments],
        "clock": clock_state(),
        "host": platform.node(),
        "rows": 0,
        "arrays": 0,
        "error": "",
        "summary": {},
        **(_of_experiment(head) if head.kind is RunKind.EXPERIMENT else {}),
    }


def _column(column: Column) -> dict[str, Any]:
    told: dict[str, Any] = {"name": column.name, "unit": column.unit}
    if column.dimensions:
        told["dimensions"] = list(column.dimensions)
    if column.is_text:
        told["is_text"] = True
    return told


def _of_experiment(head: RunHead) -> dict[str, Any]:
    """What only an experiment has; ``resumes`` are {attempt, at, checks, time_ms}."""
    return {
        "dimensions": [
            {
                "name": dimension.name,
                "unit": dimension.unit,
                "size": None if dimension.values is None else len(dimension.values),
            }
            for dimension in head.dimensions
        ],
        "tables": {name: list(map(_column, columns)) for name, columns in head.tables.items()},
        "checks": list(head.checks),
        "resumes": [],
    }


def iso(wall_ms: int) -> str:
    """A Unix time in milliseconds as people write it, in UTC."""
    return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="milliseconds")


Ask = Callable[[str, str], Awaitable[str]]
"""Instrument id and query → the answer; raises ``EdgedError``."""


def asker(head: RunHead, perform: Perform, new_id: NewId) -> Ask:
    """Asks by the command path, as the daemon itself, on behalf of a recording."""
    caller = Caller.part(f"recording {head.run_id}", on_behalf_of=head.run_id)

    async def ask(instrument_id: str, query: str) -> str:
        outcome = await perform(
            SendLines(
                tool="settings",
                caller=caller,
                action_id=new_id(),
                instrument_id=instrument_id,
                lines=(query,),
                purpose=Purpose.SETTINGS,
            )
        )
        if outcome.error is not None:
            raise outcome.error
        return str(outcome.data["answer"] or "")

    return ask


async def read_settings(
    pool: InstrumentPool, head: RunHead, ask: Ask
) -> dict[str, list[dict[str, Any]]]:
    """Ask the instruments of a recording for their settings.

    Args:
        ask: as ``asker`` makes it.

    Returns:
        By instrument id: {name, for, value, unit}, or ``error`` in place of a value. A unit that
        does not answer is asked no further.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for name in _involved(head):
        instrument = _find(pool, name)
        if instrument is not None and instrument.profile is not None:
            found[instrument.id] = await _settings_of(instrument, instrument.profile, ask)
    return found


async def _settings_of(instrument: Instrument, profile: Profile, ask: Ask) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for setting, values in itertools.islice(_questions(profile), MAX_SETTINGS):
        row: dict[str, Any] = {"name": setting.name, "for": values, "unit": setting.unit}
        try:
            row["value"] = await _ask(instrument, profile, setting, values, ask)
        except EdgedError as error:
            row["error"] = error.message
            rows.append(row)
            if error.code in (ErrorCode.TIMEOUT, ErrorCode.DISCONNECTED):
                break
            continue
        rows.append(row)
    return rows


def _questions(profile: Profile) -> Iterator[tuple[Setting, dict[str, Scalar]]]:
    """Every setting, once for each combination of its ``for``."""
    for setting in profile.settings.values():
        names = tuple(setting.for_values)
        for values in itertools.product(*setting.for_values.values()):
            yield setting, dict(zip(names, values, strict=True))


async def _ask(
    instrument: Instrument,
    profile: Profile,
    setting: Setting,
    values: Mapping[str, Scalar],
    ask: Ask,
) -> Any:
    command = profile.commands.get(setting.set_command or "")
    line = render(setting.get, command.parameters if command else {}, values)
    answer = await ask(instrument.id, line)
    returns = ScalarAnswer(type=setting.type, unit=setting.unit, decimal=setting.decimal)
    return parse_answer(returns, answer, values).value


def _involved(head: RunHead) -> tuple[str, ...]:
    return tuple(dict.fromkeys((head.instrument_id, *head.measures)))


def _find(pool: InstrumentPool, name: str) -> Instrument | None:
    try:
        return pool.get(name)
    except NotFound:
        return None


def _instrument(instrument: Instrument) -> dict[str, Any]:
    identity, profile = instrument.identity, instrument.profile
    due = instrument.rules.calibration_due
    return {
        "id": instrument.id,
        "alias": instrument.alias,
        "location": instrument.location,
        "idn": instrument.idn,
        "manufacturer": identity.manufacturer,
        "model": identity.model,
        "serial": identity.serial,
        "firmware": identity.firmware,
        "calibration_due": due.isoformat() if due is not None else None,
        "profile": {"key": profile.key, "version": profile.version} if profile else None,
        "limits": _limits(profile.commands) if profile else {},
        "settings": None,
    }


def _limits(commands: Mapping[str, Command]) -> dict[str, Any]:
    """The bounds in force, the owner's included: the profile in hand is already tightened."""
    limits: dict[str, Any] = {}
    for command in commands.values():
        bounds: dict[str, Any] = {}
        for parameter in command.parameters.values():
            sides = {"min": parameter.min, "max": parameter.max}
            given: dict[str, Any] = {k: v for k, v in sides.items() if v is not None}
            if parameter.options:
                given["options"] = list(parameter.options)
            if given:
                bounds[parameter.name] = given
        if bounds:
            limits[command.name] = bounds
    return limits


def caller_told(caller: Caller) -> dict[str, str]:
    """Who asked for it, as meta.json says."""
    return {
        **caller.to_json(),
        "session": caller.session_id,
        "who": caller.who,
        "tool": caller.outer_tool,
    }
