"""One run of a sequence: what it sent, what it has set, and what it returns.

It is a run of a plan with one role, the unit whose profile the sequence is of. What it leaves in
the journal are the lines of its ``finally`` steps, rendered beforehand; one without ``finally``
leaves nothing to clean up, and no row.

Source: docs/profiles.md, "Sequence steps".
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Final

from edged.actions.action import Progress, RunSequence
from edged.actions.outcome import Outcome
from edged.errors import EdgedError, Invalid
from edged.instruments.instrument import Instrument
from edged.profiles.model import (
    SELF,
    AbortStep,
    CommandStep,
    ForStep,
    PollStep,
    QueryStep,
    RowStep,
    Sequence,
    Step,
    WaitStep,
)
from edged.profiles.owner_rules import clean_up_of
from edged.profiles.raw import sets
from edged.record import record
from edged.runs.experiments.run import PlanRun
from edged.runs.notes import is_limited, notes_of_limit
from edged.runs.ports import RowSink
from edged.runs.run import Ending
from edged.runs.states import SEQUENCE, RunEvent, RunState
from edged.yaml.tree import Scalar

MAX_ROWS: Final = 1_000_000
MOST_LEFT: Final = 50
"""Lines that are told of a sequence that did not come to its end."""


@record(frozen=False, eq=False)
class SequenceRun(PlanRun):
    """One run of one sequence on one instrument, as far as it got."""

    words = SEQUENCE
    most_stalls = 1
    polls_as = None

    action: RunSequence
    sequence: Sequence
    # The instrument on which no other such sequence may run meanwhile.
    alone_on: str = ""
    row_count: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    # How many of the rows say that a limit was reached.
    limited: int = 0
    result: Mapping[str, Any] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    # What it has set, by what that is: the line that was sent last for it.
    left: dict[str, str] = field(default_factory=dict)
    # Steps of ``finally`` that were not run, as they are no safe commands.
    skipped: dict[str, None] = field(default_factory=dict)
    # The error that its caller gets.
    failure: EdgedError | None = None
    # Its recording, which begins with it: the steps wait for the disk only to record a row.
    opening: asyncio.Task[RowSink] | None = None
    # The lines of ``finally``, as far as they are known beforehand.
    clean_up: list[str] = field(default_factory=list)
    told: int = 0

    @property
    def instrument(self) -> Instrument:
        """The unit."""
        return self.instruments[SELF]

    @property
    def is_left_alone(self) -> bool:
        """Its client went away, and nobody stopped it before."""
        return self.ending is not None and self.ending.event is RunEvent.CLIENT_GONE

    def end(self, ending: Ending) -> None:
        PlanRun.end(self, ending)
        if ending.event is not RunEvent.CLIENT_GONE:
            self.reason = self.reason or ending.cause.reason
        elif self.body is None and self.task is not None:
            self.task.cancel(ending.cause)

    def took(self, outcome: Outcome) -> None:
        self.sent.extend(outcome.scpi)
        for line in outcome.scpi:
            if sets(self.instrument.profile, line):
                place = place_set(line)
                self.left.pop(place, None)
                self.left[place] = line

    async def take_row(self, row: Mapping[str, Any]) -> None:
        if len(self.rows) >= MAX_ROWS:
            raise Invalid(f"A sequence returns at most {MAX_ROWS} rows.")
        self.rows.append({**row})
        self.row_count += 1
        self.limited += is_limited(row)
        if self.opening is not None:
            self.sink = await asyncio.shield(self.opening)
            self.sink.append(tuple(_cell(row.get(column.name)) for column in self.head.columns))
            self.tell(json.dumps(row, default=str))

    def shed(self) -> None:
        """Give up what nobody asks for once its caller has its result."""
        self.rows, self.sent, self.names = [], [], {}
        self.action = replace(self.action, progress=None, client=None)

    def entry(self, _now_s: float) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "instrument_id": self.action.instrument_id,
            "sequence_name": self.sequence.name,
            "steps_executed": self.steps_executed,
            "started_ms": self.started_ms,
            "who": self.caller.who,
        }

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

    def leave_out(self, step: Step) -> None:
        self.skipped[name_of(step)] = None

    def what_was_skipped(self) -> str:
        """The steps of ``finally`` that were not run, as they are no safe commands."""
        return f"not sent of its finally steps: {', '.join(self.skipped)}"

    def what_is_left(self) -> list[str]:
        """The lines that it sent last for each thing it has set; the newest, oldest first."""
        return list(self.left.values())[-MOST_LEFT:]

    def to_clean_up(self) -> dict[str, Any]:
        """What its row in the journal says of its end, as the unit's owner wants it now.

        Where what cleans up depends on answers, that is the profile's abort. Lines of ``finally``
        are sent without proofs.
        """
        profile, rules = self.instrument.profile, self.instrument.rules
        if self.clean_up:
            steps = [AbortStep(send=line) for line in self.clean_up]
            return {**clean_up_of(profile, rules, steps), "proofs": []}
        return clean_up_of(profile, rules, profile.abort if profile is not None else ())


def _cell(value: Any) -> Scalar | None:
    return value if isinstance(value, Scalar | None) else json.dumps(value, default=str)


def place_set(line: str) -> str:
    """What of an instrument a line sets: all of it but the value, which is its last argument.

    A channel list (``VOLT 5,(@1)``) is no value.
    """
    header, _, told = line.partition(" ")
    arguments = told.split(",")
    last = next((n for n, a in enumerate(arguments) if a.lstrip().startswith("(@")), None)
    del arguments[len(arguments) - 1 if last is None else max(0, last - 1)]
    return f"{header} {','.join(arguments)}"


def name_of(step: Step) -> str:
    """What a step is called that is not done, or cannot be judged yet."""
    match step:
        case CommandStep(command=name) | QueryStep(query=name) | PollStep(poll=name):
            return name
        case ForStep(name=name, steps=steps):
            inner = (name_of(each) for each in steps if not isinstance(each, WaitStep | RowStep))
            return f"for {name}: {', '.join(inner)}"
        case RowStep():
            return "row"
        case _:
            return "wait"
