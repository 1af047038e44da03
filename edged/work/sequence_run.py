"""One run of a sequence: what it knows and what it sent; and the actions of its steps."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from edged.actions.action import Purpose, RunCommand, RunSequence, SendScpi
from edged.actions.caller import Caller
from edged.profiles.model import CommandStep, Sequence
from edged.profiles.render import placeholders, render
from edged.work.ports import NewId, RowSink
from edged.work.run_head import RunHead
from edged.work.sequence_values import Values, fill
from edged.work.states import SequenceState

__all__ = ["SequenceRun", "command_of", "query_of"]


@dataclass(slots=True, kw_only=True)
class SequenceRun:
    """One run of one sequence on one instrument, as far as it got."""

    run_id: str
    new_id: NewId
    action: RunSequence
    sequence: Sequence
    caller: Caller
    values: Values
    # The instrument on which no other such sequence may run meanwhile.
    alone_on: str = ""
    state: SequenceState = SequenceState.RUNNING
    steps_executed: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    body: asyncio.Task[None] | None = None
    is_stopped: bool = False
    is_client_gone: bool = False
    # The lines of ``finally``, and whether they are being gathered now.
    clean_up: list[str] = field(default_factory=list)
    is_gathering: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)
    step_count: int = 0
    table: RunHead | None = None
    recording: RowSink | None = None


def command_of(run: SequenceRun, step: CommandStep, values: Values, purpose: Purpose) -> RunCommand:
    """The action of a command step.

    Raises:
        NotKnownYet: a parameter needs an answer that has not come.
    """
    return RunCommand(
        tool=run.action.tool,
        caller=run.caller,
        action_id=run.new_id(),
        parent_id=run.action.action_id,
        instrument_id=run.action.instrument_id,
        command_name=step.command,
        parameters={name: fill(value, values) for name, value in step.parameters.items()},
        purpose=purpose,
    )


def query_of(run: SequenceRun, template: str, values: Values, purpose: Purpose) -> SendScpi:
    """The action of a raw query.

    Raises:
        NotKnownYet: it needs an answer that has not come.
        Invalid: a value that cannot stand in a line.
    """
    return SendScpi(
        tool=run.action.tool,
        caller=run.caller,
        action_id=run.new_id(),
        parent_id=run.action.action_id,
        instrument_id=run.action.instrument_id,
        scpi=_rendered(template, run.sequence, values),
        purpose=purpose,
    )


def _rendered(template: str, sequence: Sequence, values: Values) -> str:
    """A raw query's template with what is known filled in.

    Raises:
        NotKnownYet: it needs an answer that has not come.
        Invalid: a value that cannot stand in a line.
    """
    used = {hole.name: fill(f"{{{hole.name}}}", values) for hole in placeholders(template)}
    known = {name: value for name, value in used.items() if value is not None}
    return render(template, sequence.parameters, known)
