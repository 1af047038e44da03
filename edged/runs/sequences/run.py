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
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import field
from typing import Any, Final

from edged.actions.action import Progress, Purpose, RunCommand, RunSequence, SendScpi
from edged.actions.caller import Caller
from edged.actions.cause import Cause
from edged.errors import EdgedError, Failed, Invalid
from edged.instruments.instrument import Instrument
from edged.profiles.model import AbortStep, CommandStep, ForStep, Profile, Sequence
from edged.profiles.step_values import Values, fill, number
from edged.profiles.template import placeholders, render
from edged.record import record
from edged.runs.bench import Bench
from edged.runs.journal_port import HEARTBEAT_S, clean_up_of, work_of
from edged.runs.notes import is_limited, notes_of_limit
from edged.runs.ports import NewId, RowSink
from edged.runs.run_head import RunHead
from edged.runs.states import SEQUENCE, RunState
from edged.runs.units import unit_of_instrument
from edged.store.journal import JournalEntry, JournalKind
from edged.yaml.tree import Scalar

MAX_LOOP_VALUES: Final = 100_000
MOST_LEFT: Final = 50
"""Lines that are told of a sequence that did not come to its end."""


def loop_values(step: ForStep, values: Values) -> Iterator[Scalar | None]:
    """What a ``for`` step runs over.

    Raises:
        NotKnownYet, Invalid: as ``fill``; a count outside 1 to 100,000; a logarithmic range
            that touches zero.
    """
    if step.kind == "list":
        return (fill(value, values) for value in step.values)
    first, last = (number(v, values, f"a bound of {step.name}") for v in step.values[:2])
    count = int(number(step.values[2], values, f"the count of {step.name}"))
    if not 1 <= count <= MAX_LOOP_VALUES:
        raise Invalid(f"{step.name} would take {count} values; 1 to {MAX_LOOP_VALUES} are allowed.")
    if step.kind == "log" and first * last <= 0:
        raise Invalid(f"{step.name} cannot run logarithmically from {first:g} to {last:g}.")
    return _range(step.kind, first, last, count)


def saved(name: str, data: object, primary: float | None = None) -> Values:
    """What an answer saved ``as: name`` adds: the value, or one value a field as ``name_field``."""
    if isinstance(data, Mapping):
        flat: Values = {
            f"{name}_{key}": value
            for key, value in data.items()
            if value is None or isinstance(value, int | float | str | bool)
        }
        flat[name] = primary
        return flat
    if data is None or isinstance(data, int | float | str | bool):
        return {name: data}
    return {name: str(data)}


def _range(kind: str, first: float, last: float, count: int) -> Iterator[float]:
    for i in range(count):
        if count == 1:
            yield first
        elif i == count - 1:
            yield last
        elif kind == "lin":
            yield first + (last - first) * i / (count - 1)
        else:
            yield first * (last / first) ** (i / (count - 1))


@record(frozen=False)
class SequenceRun:
    """One run of one sequence on one instrument, as far as it got."""

    run_id: str
    new_id: NewId
    action: RunSequence
    sequence: Sequence
    caller: Caller
    values: Values
    # What of it is recorded.
    head: RunHead
    # What says of its lines whether they ask, and whether they set something.
    profile: Profile | None
    # Monotonic seconds when it was started; the same for people.
    began: float
    started_ms: int
    # The instrument on which no other such sequence may run meanwhile.
    alone_on: str = ""
    state: RunState = RunState.RUNNING
    # Why it ended, where somebody or the run itself wanted that; and what went wrong.
    reason: str = ""
    error: str = ""
    steps_executed: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    # How many of the rows say that a limit was reached.
    limited: int = 0
    result: Mapping[str, Any] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    # What it has set, by what that is: the line that was sent last for it.
    left: dict[str, str] = field(default_factory=dict)
    body: asyncio.Task[None] | None = None
    is_stopped: bool = False
    # Only safe commands of ``finally`` are run; the others that there were; and one under way.
    is_safe_only: bool = False
    skipped: dict[str, None] = field(default_factory=dict)
    unsafe_step: asyncio.Future[None] | None = None
    # What was found to be wrong with its instrument, beside what its steps come to.
    failed_by: EdgedError | None = None
    gone_for: Cause | None = None
    # The lines of ``finally``, and whether they are being gathered now.
    clean_up: list[str] = field(default_factory=list)
    is_gathering: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)
    step_count: int = 0
    # What its waits take together, and what only the run can tell and why, as far as was checked.
    waits_s: float = 0.0
    later: dict[str, str] = field(default_factory=dict)
    # Its recording, which begins with it: the steps wait for the disk only to record a row.
    opening: asyncio.Task[RowSink] | None = None
    # Where its rows go; ``None`` before the first.
    recording: RowSink | None = None
    told: int = 0

    @property
    def status(self) -> str:
        """Its state, as people know it."""
        return SEQUENCE.states[self.state]

    def tell(self, message: str) -> None:
        """Report progress, if somebody listens; each time with the run's id."""
        if self.action.progress is not None:
            self.told += 1
            meta = {"run_id": self.run_id}
            self.action.progress(Progress(progress=self.told, message=message, meta=meta))

    def notes(self) -> list[str]:
        """What is true of it so far and misleads who does not know it."""
        return notes_of_limit(
            self.limited, len(self.rows), is_result_limited=is_limited(self.result)
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
        scpi=_rendered(template, run.sequence, values),
        purpose=purpose,
        expects_answer=True,
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


@record
class SequenceJournal:
    """The journal as sequences use it."""

    bench: Bench

    @contextlib.asynccontextmanager
    async def kept(self, run: SequenceRun) -> AsyncIterator[None]:
        """A row while the sequence runs, its ``finally`` included; it hears that the run lives.

        Where what cleans up depends on answers, that is the profile's abort.

        Raises:
            Failed: STORE_FAILED; the sequence must not begin.
        """
        run_id = run.run_id
        instrument = self.bench.pool.get(run.action.instrument_id)
        await self.bench.store.journal.begin(
            JournalEntry(
                id=run_id,
                kind=JournalKind.SEQUENCE,
                instrument_id=instrument.id,
                unit=unit_of_instrument(instrument).key,
                payload={
                    **work_of(run.caller, instrument),
                    "sequence": run.sequence.name,
                    **_clean_up(run, instrument),
                },
            )
        )
        beat = asyncio.create_task(self._beat(run, instrument), name=f"{run_id}-beat")
        try:
            yield
        finally:
            beat.cancel()
            await asyncio.gather(beat, return_exceptions=True)
            await self.bench.store.journal.finish(run_id)

    async def _beat(self, run: SequenceRun, instrument: Instrument) -> None:
        while True:
            await self.bench.clock.sleep(HEARTBEAT_S)
            now = _clean_up(run, instrument)
            # Its writes are refused by then; what is on the disk says enough to clean up by.
            with contextlib.suppress(Failed):
                await self.bench.store.journal.update(run.run_id, now, is_forced=True)


def _clean_up(run: SequenceRun, instrument: Instrument) -> dict[str, Any]:
    """What the journal says of its end, as the unit's owner wants it now.

    Lines of ``finally`` are sent without proofs.
    """
    if run.clean_up:
        steps = [AbortStep(send=line) for line in run.clean_up]
        return {**clean_up_of(run.profile, instrument.rules, steps), "proofs": []}
    abort = run.profile.abort if run.profile is not None else ()
    return clean_up_of(run.profile, instrument.rules, abort)
