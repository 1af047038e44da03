"""One run of a sequence: what it knows and what it sent; and the actions of its steps.

Then the values that it computes with: parameters, saved answers, loop variables.

Pure. A value that is not known yet (it will come from an answer) is ``UNKNOWN`` during the check
before the first step; whatever depends on it raises ``NotKnownYet`` and is checked when it runs.

Source: docs/profiles.md, "Sequence steps".

Last what it leaves in the journal: the lines of its ``finally`` steps, rendered beforehand.

Nothing is journalled for a sequence without ``finally`` steps: it leaves nothing to clean up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import field, replace
from typing import Any, Final

from edged.actions.action import Progress, Purpose, RunCommand, RunSequence, SendScpi
from edged.actions.cause import Cause
from edged.errors import EdgedError
from edged.instruments.instrument import Instrument
from edged.profiles.model import AbortStep, CommandStep, Profile, Sequence
from edged.profiles.step_values import Values, fill, rendered
from edged.record import record
from edged.runs.journal import clean_up_of
from edged.runs.notes import is_limited, notes_of_limit
from edged.runs.ports import NewId, RowSink
from edged.runs.run import Ending, Run
from edged.runs.states import SEQUENCE, RunEvent, RunState

MOST_LEFT: Final = 50
"""Lines that are told of a sequence that did not come to its end."""


@record(frozen=False, eq=False)
class SequenceRun(Run):
    """One run of one sequence on one instrument, as far as it got."""

    words = SEQUENCE

    new_id: NewId
    action: RunSequence
    sequence: Sequence
    instrument: Instrument
    values: dict[str, Any]
    # What says of its lines whether they ask, and whether they set something.
    profile: Profile | None
    # The instrument on which no other such sequence may run meanwhile.
    alone_on: str = ""
    steps_executed: int = 0
    row_count: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    # How many of the rows say that a limit was reached.
    limited: int = 0
    result: Mapping[str, Any] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    # What it has set, by what that is: the line that was sent last for it.
    left: dict[str, str] = field(default_factory=dict)
    body: asyncio.Task[None] | None = None
    # The order by which it ends early, and why its client went.
    stopped: Ending | None = None
    # Only safe commands of ``finally`` are run; the others that there were; and one under way.
    is_safe_only: bool = False
    skipped: dict[str, None] = field(default_factory=dict)
    unsafe_step: asyncio.Future[None] | None = None
    gone_for: Cause | None = None
    # The error that its caller gets.
    failure: EdgedError | None = None
    # The lines of ``finally``, and whether they are being gathered now.
    clean_up: list[str] = field(default_factory=list)
    is_gathering: bool = False
    step_count: int = 0
    # What its waits take together, and what only the run can tell and why, as far as was checked.
    waits_s: float = 0.0
    later: dict[str, str] = field(default_factory=dict)
    # Its recording, which begins with it: the steps wait for the disk only to record a row.
    opening: asyncio.Task[RowSink] | None = None
    told: int = 0

    @property
    def units(self) -> Collection[str]:
        return (self.instrument.id,)

    def end(self, ending: Ending) -> None:
        """Have its body end; its ``finally`` steps run in any case."""
        if ending.event is RunEvent.CLIENT_GONE:
            self.gone_for = ending.cause
        else:
            self.stopped = ending
            self.reason = self.reason or ending.cause.reason
            self.is_safe_only = self.is_safe_only or ending.cause.is_safe_only
            if self.is_safe_only and self.unsafe_step is not None:
                self.unsafe_step.cancel(ending.cause)
        if self.body is not None:
            self.body.cancel(ending.cause)
        elif self.gone_for is not None and self.task is not None:
            self.task.cancel(ending.cause)

    def shed(self) -> None:
        """Give up what nobody asks for once its caller has its result."""
        self.rows, self.sent, self.values = [], [], {}
        self.action = replace(self.action, progress=None, client=None)

    def what_went_wrong(self) -> str:
        """Its error, and what one that did not complete has left set."""
        left = self.what_is_left()
        if self.state in {RunState.RUNNING, RunState.COMPLETED} or not left:
            return self.error
        return f"{self.error} It set the following, and did not undo it: {'; '.join(left)}.".strip()

    def tell(self, message: str) -> None:
        """Report progress, if somebody listens; each time with the run's id."""
        if self.action.progress is not None:
            self.told += 1
            meta = {"run_id": self.run_id}
            self.action.progress(Progress(progress=self.told, message=message, meta=meta))

    def notes(self, _now_s: float = 0.0, /) -> list[str]:
        return notes_of_limit(
            self.limited, self.row_count, is_result_limited=is_limited(self.result)
        ) + [f"{self.reason}: {self.what_was_skipped()}"] * bool(self.skipped)

    def what_was_skipped(self) -> str:
        """The steps of ``finally`` that were not run, as they are no safe commands."""
        return f"not sent of its finally steps: {', '.join(self.skipped)}"

    def what_is_left(self) -> list[str]:
        """The lines that it sent last for each thing it has set; the newest, oldest first."""
        return list(self.left.values())[-MOST_LEFT:]


def place_set(line: str) -> str:
    """What of an instrument a line sets: all of it but the value, which is its last argument.

    A channel list (``VOLT 5,(@1)``) is no value.
    """
    header, _, told = line.partition(" ")
    arguments = told.split(",")
    last = next((n for n, a in enumerate(arguments) if a.lstrip().startswith("(@")), None)
    del arguments[len(arguments) - 1 if last is None else max(0, last - 1)]
    return f"{header} {','.join(arguments)}"


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
        scpi=rendered(template, run.sequence.parameters, values),
        purpose=purpose,
        expects_answer=True,
    )


def clean_up(run: SequenceRun) -> dict[str, Any]:
    """What its row in the journal says of its end, as the unit's owner wants it now.

    Where what cleans up depends on answers, that is the profile's abort. Lines of ``finally`` are
    sent without proofs.
    """
    rules = run.instrument.rules
    if run.clean_up:
        steps = [AbortStep(send=line) for line in run.clean_up]
        return {**clean_up_of(run.profile, rules, steps), "proofs": []}
    abort = run.profile.abort if run.profile is not None else ()
    return clean_up_of(run.profile, rules, abort)
