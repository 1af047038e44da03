"""One run of a plan: what it knows and where it stands; of an experiment how it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, field
from typing import Any, ClassVar, Final

from edged.actions.action import Purpose
from edged.actions.outcome import Outcome
from edged.errors import NeedsApproval
from edged.experiments.checked import Checked, Span
from edged.experiments.model import AskStep, Experiment
from edged.instruments.instrument import Instrument
from edged.profiles.model import Step
from edged.record import record
from edged.runs.experiments.bounds import why_no_target
from edged.runs.recordings.checks import UnitVerdict, worst
from edged.runs.run import Ending, Run
from edged.runs.states import EXPERIMENT, OVER, RunEvent
from edged.runs.sweeps.ramp_plan import MOST_STALLS, Axis
from edged.yaml.tree import Scalar

MOST_NOTES: Final = 200


@record
class Plan:
    """A plan that was checked, and may be started by its id.

    Attributes:
        file: the name of the saved one that it is; empty: its text was given.
        asks: by the ids of units: a step of theirs that a person must approve.
    """

    plan_id: str
    source: str | Mapping[str, Any]
    experiment: Experiment
    roles: Mapping[str, str]
    parameters: Mapping[str, Any]
    checked: Checked
    file: str = ""
    asks: Mapping[str, NeedsApproval] = field(default_factory=dict)

    @property
    def needs(self) -> tuple[str, ...]:
        """What a person has to do: approve it before it begins, answer its questions."""
        return tuple(
            name
            for name, is_needed in (("approval", self.asks), ("answers", self.checked.is_asking))
            if is_needed
        )


@record(frozen=False, eq=False)
class OpenQuestion:
    """A question to a person, while it is open.

    Attributes:
        asked_at: monotonic seconds; an answer within ``edged.runs.experiments.steps.TOO_SOON_S`` of
            it belongs to the question before.
        answer: set once.
    """

    step: AskStep
    text: str
    asked_at: float
    number: int
    answer: asyncio.Future[Scalar]

    def told(self) -> dict[str, Any]:
        """{name, number, text, type, …}."""
        step = self.step
        told: dict[str, Any] = {
            "name": step.name,
            "number": self.number,
            "text": self.text,
            "type": step.type.value,
        }
        for key in ("pattern", "min", "max"):
            if getattr(step, key) not in (None, ""):
                told[key] = getattr(step, key)
        if step.options:
            told["options"] = list(step.options)
        return told


@record(frozen=False, eq=False)
class UnitNow:
    """One unit under test: a pass of a loop with ``unit``."""

    name: str
    number: int
    tries: int = 1
    verdict: UnitVerdict = UnitVerdict.NONE
    failed: list[str] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)

    def told(self) -> dict[str, Any]:
        """{unit, try, verdict, failed}."""
        return {
            "unit": self.name,
            "try": self.tries,
            "verdict": self.verdict.value,
            "failed": self.failed[:10],
        }


@record(frozen=False, eq=False)
class LoopNow:
    """A loop that is under way: its pass from 0, of how many, and its value.

    Attributes:
        given: the names that its values are worked out from, as they were when it began.
    """

    name: str
    count: int
    number: int = 0
    value: Scalar | None = None
    given: Mapping[str, Scalar] = field(default_factory=dict)


@record(frozen=False, eq=False)
class PlanRun(Run):
    """A run that does the steps of a plan: an experiment, or a sequence of a profile.

    Attributes:
        instruments: role → the unit.
        names: what steps have given a value.
        loops: those under way, the outermost first.
        own_verdict: of the checks outside of units, and of how it ended; ``unit_verdicts`` of each
            unit at its last try.
        passes: how often each loop has begun, so that a snake turns.
        axes: the set-points that it moves, by (unit, set-point query).
        waiting: of a step that waits or looks; set when that is to be skipped.
        going: clear while it is paused.
        is_safe_only: of ``finally`` only safe commands are done.
        is_again: what ``first`` steps did before a crash they do again: its rows are there.
        unsafe_step: the step of ``finally`` that is under way and is no safe command.
        wanted: set once somebody wants something of it while it waits.
        reports: the files of its reports that are written.
        ended_s: monotonic seconds when it was over.
        frozen_s: seconds for which it was paused, so far.
    """

    most_stalls: ClassVar[int] = MOST_STALLS
    """A step is tried again, while others have the line."""
    polls_as: ClassVar[Purpose | None] = Purpose.MEASURE
    """The purpose of what a poll asks; ``None``: that of the other steps."""

    plan: Experiment
    instruments: Mapping[str, Instrument]
    names: dict[str, Scalar | None] = field(default_factory=dict)
    loops: list[LoopNow] = field(default_factory=list)
    passes: dict[str, int] = field(default_factory=dict)
    axes: dict[tuple[str, str], Axis] = field(default_factory=dict)
    path: str = ""
    steps_executed: int = 0
    question: OpenQuestion | None = None
    questions: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    under_test: UnitNow | None = None
    tested: list[UnitNow] = field(default_factory=list)
    own_verdict: UnitVerdict = UnitVerdict.NONE
    unit_verdicts: dict[str, UnitVerdict] = field(default_factory=dict)
    waiting: asyncio.Event | None = None
    going: asyncio.Event = field(default_factory=asyncio.Event)
    paused_at: float = 0.0
    pause_reason: str = ""
    wanted: asyncio.Event = field(default_factory=asyncio.Event)
    frozen_s: float = 0.0
    ended_s: float | None = None
    said: list[str] = field(default_factory=list)
    is_safe_only: bool = False
    is_again: bool = False
    unsafe_step: asyncio.Future[None] | None = None

    @property
    def units(self) -> Collection[str]:
        return {instrument.id for instrument in self.instruments.values()}

    def end(self, ending: Ending) -> None:
        """Somebody ends it; its ``finally`` steps follow.

        The first who ends it is the reason, but for a client that has gone away.
        """
        if ending.cause.is_safe_only:
            self.is_safe_only = True
            if self.unsafe_step is not None:
                self.unsafe_step.cancel(ending.cause)
        is_alone = self.ending is not None and self.ending.event is RunEvent.CLIENT_GONE
        if self.ending is None or (is_alone and self.body is not None and not self.body.done()):
            self.ending = ending
            if self.body is not None:
                self.body.cancel(ending.cause)

    @property
    def verdict(self) -> UnitVerdict:
        """The worst of its own checks and of its units, each at its last try."""
        now = (self.under_test.verdict,) if self.under_test is not None else ()
        return worst((self.own_verdict, *self.unit_verdicts.values(), *now))

    @property
    def ended_by(self) -> Ending:
        """What ended its steps before their end."""
        return self.ending or Ending(event=RunEvent.STOP, reason="it was cancelled")

    def notes(self, now_s: float) -> list[str]:
        del now_s
        return list(self.said)

    def note(self, text: str) -> None:
        """Something that a reader of the data must know."""
        if text not in self.said and len(self.said) < MOST_NOTES:
            self.said.append(text)

    async def take_row(self, row: Mapping[str, Any]) -> None:
        """A row of the data: column → value."""
        raise NotImplementedError

    def take_event(self, kind: str, data: Mapping[str, Any]) -> None:
        """Something that stands beside the data."""
        if self.sink is not None:
            self.sink.event(kind, data)

    def took(self, outcome: Outcome) -> None:
        """A step has sent something."""

    def why_no_target(self, _unit: str, _command: str, _parameter: str, _aim: float) -> str:
        """Why a ramp may not go there, as a clause; empty: it may."""
        return ""

    def leave_out(self, step: Step) -> None:
        """A step of ``finally`` is not done: it is no safe command, and everything was stopped."""
        self.note(f"{step.path} was left out: everything was stopped")

    def judged(self, verdict: UnitVerdict, name: str) -> None:
        """A check has come to a verdict."""
        unit = self.under_test
        if unit is None:
            self.own_verdict = worst((self.own_verdict, verdict))
        elif name:
            unit.verdict = worst((unit.verdict, verdict))
            unit.missing.discard(name)
            if verdict in {UnitVerdict.FAIL, UnitVerdict.ERROR}:
                unit.failed.append(name)

    @property
    def instrument_ids(self) -> tuple[str, ...]:
        """The units, without doubles, in the order of their roles."""
        return tuple(dict.fromkeys(one.id for one in self.instruments.values()))

    def pause(self, now_s: float, reason: str) -> None:
        """Stop at the next step boundary; what waits or looks is frozen at once."""
        if self.going.is_set():
            self.going.clear()
            self.wanted.set()
            self.paused_at = now_s
            self.pause_reason = reason
            self.move(RunEvent.PAUSE)

    def go_on(self, now_s: float) -> None:
        """After a pause; where a set-point stands is asked before it is moved again."""
        if not self.going.is_set():
            self.frozen_s += now_s - self.paused_at
            self.pause_reason = ""
            for axis in self.axes.values():
                axis.meeting = None
            self.move(RunEvent.RESUME)
            self.going.set()

    def elapsed_s(self, now_s: float) -> float:
        """Since it began, without its pauses."""
        until = now_s if self.ended_s is None else self.ended_s
        frozen = self.frozen_s + (0.0 if self.going.is_set() else until - self.paused_at)
        return until - self.began - frozen


@record(frozen=False, eq=False)
class ExperimentRun(PlanRun):
    """One run of an experiment.

    Attributes:
        reports: the files that were written of it.
        unit_over: takes a unit under test whose pass is over, and its try.
    """

    words = EXPERIMENT

    checked: Checked
    plan_id: str
    columns: tuple[str, ...] = ()
    rows: int = 0
    last_row: Mapping[str, Any] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)
    unit_over: Callable[[str, int], None] | None = None

    @property
    def row_count(self) -> int:
        return self.rows

    async def take_row(self, row: Mapping[str, Any]) -> None:
        if self.is_again:
            self.take_event("row_again", row)
            return
        now = {loop.name: loop for loop in self.loops}
        cells = {name: loop.value for name, loop in now.items() if name in self.columns} | {**row}
        self.rows += 1
        self.last_row = {name: value for name, value in cells.items() if value is not None}
        places = [now[at.name].number if at.name in now else None for at in self.head.dimensions]
        if self.sink is not None:
            self.sink.append(tuple(cells.get(name) for name in self.columns), places)

    @property
    def written(self) -> list[Instrument]:
        """The units that it writes to."""
        written = {asked.unit for asked in self.checked.envelope}
        return [one for one in dict.fromkeys(self.instruments.values()) if one.id in written]

    @property
    def rows_of(self) -> Mapping[str, Instrument]:
        """The same by the row of each in the journal."""
        return {f"{self.run_id}.{number}": one for number, one in enumerate(self.written, 1)}

    def take_event(self, kind: str, data: Mapping[str, Any]) -> None:
        PlanRun.take_event(self, kind, data)
        if kind == "unit" and self.unit_over is not None:
            self.unit_over(data["unit"], data["try"])

    def why_no_target(self, unit: str, command: str, parameter: str, aim: float) -> str:
        return why_no_target(self.checked, unit, command, parameter, aim)

    def progress(self) -> tuple[int, int | None]:
        """Rows so far, and how many there will be; ``None`` where that is not known."""
        least, most = self.checked.points
        return self.rows, most if least == most and most else None

    def told(self, now_s: float) -> dict[str, Any]:
        """Its status, about 1 kB."""
        done, total = self.progress()
        elapsed = self.elapsed_s(now_s)
        told: dict[str, Any] = {
            "run_id": self.run_id,
            "experiment": self.checked.experiment.name,
            "plan_id": self.plan_id,
            "state": self.status,
            "verdict": None if self.verdict is UnitVerdict.NONE else self.verdict.value,
            "step": self.path or None,
            "loops": {loop.name: f"{loop.number + 1} of {loop.count}" for loop in self.loops},
            "done": done,
            "total": total,
            "elapsed_s": round(elapsed, 1),
            "eta_s": self._eta_s(elapsed),
            "last_row": dict(self.last_row) or None,
            "question": self.question.told() if self.question is not None else None,
            "reason": self.reason or self.pause_reason or None,
            "error": self.error or None,
            "notes": self.said[-5:],
        }
        if self.reports:
            told["reports"] = {"folder": "reports", "count": len(self.reports),
                               "newest": self.reports[-1]}  # fmt: skip
        if self.tested or self.under_test:
            told["units"] = [unit.told() for unit in self.tested[-5:]]
            told["under_test"] = self.under_test.told() if self.under_test else None
        return told

    def entry(self, now_s: float) -> dict[str, Any]:
        """Its entry in get_status."""
        elapsed = self.elapsed_s(now_s)
        return {
            "run_id": self.run_id,
            "experiment": self.checked.experiment.name,
            "state": self.status,
            "instrument_ids": list(self.instrument_ids),
            "step": self.path or None,
            "rows": self.rows,
            "total": self.progress()[1],
            "question": self.question.told() if self.question is not None else None,
            "elapsed_s": round(elapsed, 1),
            "eta_s": self._eta_s(elapsed),
            "started_ms": self.started_ms,
            "who": self.caller.who,
        }

    def _eta_s(self, elapsed: float) -> float | None:
        if self.state in OVER:
            return None
        done, total = self.progress()
        if total and done:
            return round(elapsed * (total - done) / done, 1)
        likely: Span = self.checked.duration
        return round(max(0.0, likely.likely - elapsed), 1) or None


@record
class Position:
    """One place of a run, before anything of a pass is sent and after all before it is on the disk.

    Attributes:
        loops: those that are open, the outermost first: name → place of the pass in its values.
        given: loop → the names that its values are worked out from, as they were when it began.
        passes: how often each loop has begun, so that a snake turns.
        setpoints: (unit, query, value) of each that the run had moved.
        rows, checks, questions: so many there were.
        elapsed_s: without pauses.
    """

    loops: Mapping[str, int] = field(default_factory=dict)
    given: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)
    passes: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[str, Scalar | None] = field(default_factory=dict)
    setpoints: Sequence[Sequence[Any]] = ()
    rows: int = 0
    checks: int = 0
    questions: int = 0
    elapsed_s: float = 0.0
    notes: Sequence[str] = ()
    tags: Sequence[str] = ()

    @classmethod
    def of(cls, run: ExperimentRun, *, checks: int, now_s: float) -> Position:
        """Where a run stands now."""
        return cls(
            loops={loop.name: loop.number for loop in run.loops},
            given={loop.name: dict(loop.given) for loop in run.loops if loop.given},
            passes=dict(run.passes),
            names=dict(run.names),
            setpoints=[(*key, axis.confirmed) for key, axis in run.axes.items()],
            rows=run.rows,
            checks=checks,
            questions=run.questions,
            elapsed_s=run.elapsed_s(now_s),
            notes=list(run.said),
            tags=list(run.tags),
        )

    def to_json(self) -> dict[str, Any]:
        """For ``from_json``."""
        return asdict(self)

    @classmethod
    def from_json(cls, told: object) -> Position:
        """``NOWHERE``, where there is none or it cannot be read."""
        try:
            return cls(**told) if isinstance(told, Mapping) else NOWHERE
        except TypeError:
            return NOWHERE

    def take(self, run: ExperimentRun, now_s: float) -> None:
        """Have a run stand here that goes on, and is as its plan begins."""
        if self == NOWHERE:
            return
        run.passes = dict(self.passes)
        run.names = dict(self.names)
        run.rows = self.rows
        run.questions = self.questions
        run.said = list(self.notes)
        run.tags = list(self.tags)
        run.began = now_s - self.elapsed_s


NOWHERE: Final = Position()
"""Of a run that begins."""


def is_over(run: ExperimentRun) -> bool:
    """Whether nothing of it is sent any more."""
    return run.state in OVER and run.ended.is_set()
