"""Runs that a former life of the daemon left interrupted: they go on, or are ended.

A run has a row of its own in the journal: which plan it runs on which units, and where it stood. It
goes on at the beginning of the pass that was interrupted, if its plan, its units, their limits and
its approval are as they were. What is repeated was never seen by anybody as done: the rows of that
pass do not count any more, ``first`` steps run again, and set-points are asked for and ramped from
where they stand.

Source: docs/experiments.md, "After a crash".
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final

import structlog

from edged.actions.action import Action, NamedAction, Purpose, SendLines
from edged.actions.caller import Caller
from edged.actions.cause import Cause
from edged.errors import Conflict, EdgedError, ErrorCode, Failed, Invalid, NotFound, Refused
from edged.experiments.model import Resume
from edged.experiments.problem import Problem
from edged.files import read_text
from edged.profiles.abort import Proof
from edged.record import record
from edged.runs.bench import Bench
from edged.runs.experiments.bounds import approval_left, approval_told, hours_of
from edged.runs.experiments.run import NOWHERE, ExperimentRun, Plan, Position, UnitNow
from edged.runs.left_work import Clean, LeftWork
from edged.runs.obey import obey
from edged.runs.ports import RowSink, RunLeases
from edged.runs.recordings.checks import Check, UnitVerdict, unit_results, worst
from edged.runs.recordings.reader import checks_of_run, find_run, read_meta, valid_checks_of
from edged.runs.recordings.registry import RunRegistry
from edged.runs.registry import Registry
from edged.runs.run import Ending
from edged.runs.states import RunEvent, RunState
from edged.runs.units import unit_of_instrument
from edged.store.journal import JournalEntry, JournalKind

LOOK_EVERY_S: Final = 1.0
RETRY_S: Final = 10.0
"""After a try to go on that was refused."""
MET_WITHIN_S: Final = 60.0
"""Units may be switched on behind this machine: so long an end that is due waits for them."""
WRITTEN_S: Final = 5.0
CONTROL: Final = "bench__control_run"
TOO_EARLY: Final = "it was killed before its first pass was written down"
TOO_LATE: Final = Cause(
    "by its own resume.within_h", "it was interrupted, and not resumed within its within_h"
)

log = structlog.get_logger("edged.experiments")


CheckPlan = Callable[
    [Action, str, Mapping[str, str], Mapping[str, Any]],
    Awaitable[tuple[Plan | None, tuple[Problem, ...]]],
]


def run_row(run: ExperimentRun, wall_ms: int) -> JournalEntry:
    """The row of a run that begins: all that is needed to know it again, and no place yet."""
    plan = run.checked.experiment
    resume = plan.resume
    return JournalEntry(
        id=run.run_id,
        kind=JournalKind.EXPERIMENT,
        instrument_id=run.head.instrument_id,
        payload={
            "run": run.run_id,
            "experiment": plan.name,
            "plan_id": run.plan_id,
            "caller": run.caller.to_json(),
            "started_ms": run.started_ms,
            "resume": {"at": resume.at, "within_h": resume.within_h, "ask": resume.is_asked}
            if resume is not None
            else None,
            "units": {
                role: [one.id, unit_of_instrument(one).key] for role, one in run.instruments.items()
            },
            **approval_told(run.caller.approval, wall_ms),
            "position": NOWHERE.to_json(),
            "why": TOO_EARLY,
        },
    )


async def keep_place(bench: Bench, run: ExperimentRun, sink: RowSink) -> None:
    """Before a pass: first all rows so far on the disk, then the place; else there is none.

    Raises:
        Failed: STORE_FAILED; the pass must not begin.
    """
    is_written = False
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(WRITTEN_S):
            is_written = await sink.written()
    why = "" if is_written else "its rows could not be written"
    changes = {"position": _place(bench, run, sink), "why": why}
    await bench.store.journal.update(run.run_id, changes, is_durable=True)


async def forget_place(bench: Bench, run: ExperimentRun, sink: RowSink) -> None:
    """Its steps are over: after a crash it is not gone on with; never raises."""
    changes = {"position": _place(bench, run, sink), "why": "its steps had ended"}
    with contextlib.suppress(Failed):
        await bench.store.journal.update(run.run_id, changes, is_forced=True)


def _place(bench: Bench, run: ExperimentRun, sink: RowSink) -> dict[str, Any]:
    now_s = bench.clock.monotonic()
    return Position.of(run, checks=sink.check_count, now_s=now_s).to_json()


@record(frozen=False, eq=False)
class LeftRun:
    """One run that was found interrupted.

    Attributes:
        entry: its own row of the journal.
        units: what was done about the units that it had written to.
        found_s: monotonic seconds; ``halts`` how often everything had been stopped by then.
        refused: why it did not go on when that was tried last.
        next_s: it does not try by itself before this.
        is_taken: it goes on, or is being ended.
        notes: what people have noted of it since.
        error: why its ``finally`` could not run; it is over then.
    """

    entry: JournalEntry
    units: tuple[LeftWork, ...]
    found_s: float
    halts: int
    refused: str = ""
    next_s: float = 0.0
    is_taken: bool = False
    notes: list[str] = field(default_factory=list)
    error: str = ""

    @property
    def run_id(self) -> str:
        """As its user knows it."""
        return self.entry.id

    @property
    def resume(self) -> Resume | None:
        """What its plan says of going on."""
        told = self.entry.payload.get("resume")
        if not isinstance(told, Mapping):
            return None
        return Resume(at=told["at"], within_h=told["within_h"], is_asked=told["ask"])

    @property
    def position(self) -> Position:
        """Where it stood; ``NOWHERE``: at its beginning, or that cannot be read."""
        return Position.from_json(self.entry.payload.get("position"))

    @property
    def caller(self) -> Caller:
        """Who began it."""
        return Caller.from_json(self.entry.payload.get("caller"))

    @property
    def due_ms(self) -> float:
        """When it is ended by itself, Unix epoch milliseconds."""
        within_h = (self.resume or Resume(at="")).within_h
        return self.entry.updated_ms + within_h * 3_600_000

    def why_not(self) -> str:
        """Why it can never go on; empty: it may."""
        if self.resume is None and "resume" in self.entry.payload:
            return "its plan has no `resume`"
        if why := self.entry.payload.get("why"):
            return str(why)
        return "" if self.position.loops else "where it stood cannot be read"

    def told(self) -> dict[str, Any]:
        """Its status, as that of a run (``ExperimentRun.told``)."""
        payload, place = self.entry.payload, self.position
        never = self.why_not()
        waits = f"there is nothing to resume: {never}" if never else "it can be resumed"
        done = dict.fromkeys(left.error for left in self.units)
        state = RunState.FAILED if self.error else RunState.INTERRUPTED
        return {
            "run_id": self.run_id,
            "experiment": payload.get("experiment"),
            "plan_id": payload.get("plan_id"),
            "state": state.value,
            "verdict": UnitVerdict.ABORTED.value if self.error else None,
            "step": None,
            "loops": {name: f"{number + 1}" for name, number in place.loops.items()},
            "done": place.rows,
            "total": None,
            "elapsed_s": round(place.elapsed_s, 1),
            "eta_s": None,
            "last_row": None,
            "question": None,
            "reason": f"{waits}; not yet: {self.refused}" if self.refused else waits,
            "error": " ".join((*done, self.error)).strip() or None,
            "notes": [*place.notes, *self.notes][-5:],
        }


class LeftRuns:
    """All that were found; on the loop.

    Args:
        check: judges a plan as its start does.
        new_run: makes a run of a plan, with the id of one that was interrupted.
        begin: lets it live from a place; its recording is open.
    """

    def __init__(
        self,
        registry: Registry,
        recorder: RunRegistry,
        leases: RunLeases,
        *,
        check: CheckPlan,
        new_run: Callable[[Action, Plan, str], ExperimentRun],
        begin: Callable[[ExperimentRun, Plan, Position], None],
    ) -> None:
        self._registry = registry
        self._bench = registry.bench
        self._recorder = recorder
        self._leases = leases
        self._check = check
        self._new_run = new_run
        self._begin = begin
        self._left: dict[str, LeftRun] = {}

    def adopt(self, found: Iterable[LeftWork]) -> None:
        """Take over what was found after a crash, once its units were seen to."""
        works = [left for left in found if left.entry.kind is JournalKind.EXPERIMENT]
        for work in works:
            if work.entry.is_of_run:
                of_it = (one for one in works if one.entry.payload.get("run") == work.entry.id)
                self._left[work.entry.id] = self._new(work, (o for o in of_it if o is not work))

    def start(self, parts: contextlib.AsyncExitStack) -> None:
        """What goes on or ends by itself does so from now on; ``parts`` gets what ends that."""
        if self._left:
            tending = asyncio.create_task(self._tend(), name="interrupted-runs")
            parts.push_async_callback(_ended, tending)

    def get(self, run_id: str) -> LeftRun | None:
        """One that is interrupted still."""
        return self._left.get(run_id)

    async def recall(self, run_id: str) -> LeftRun | None:
        """The same of one that was killed before it had a row; only its recording has it."""
        try:
            meta = await self._recorder.read(_meta_of, run_id)
        except NotFound:
            return None
        if meta.get("status") != RunState.INTERRUPTED.value:
            return None
        payload: dict[str, Any] = {
            "run": run_id,
            "experiment": meta.get("command_name"),
            "plan_id": (meta.get("details") or {}).get("plan_id"),
            "caller": meta.get("caller"),
            "started_ms": meta.get("started_ms"),
            "units": {},
            "why": TOO_EARLY,
        }
        entry = JournalEntry(
            id=run_id,
            kind=JournalKind.EXPERIMENT,
            instrument_id=str(meta.get("instrument_id", "")),
            payload=payload,
            updated_ms=self._bench.clock.wall_ms(),
        )
        return self._left.setdefault(run_id, self._new(LeftWork(entry=entry), ()))

    def _new(self, work: LeftWork, units: Iterable[LeftWork]) -> LeftRun:
        return LeftRun(
            entry=work.entry,
            units=tuple(units),
            found_s=self._bench.clock.monotonic(),
            halts=self._registry.halts,
        )

    # Going on

    async def resume(self, action: Action, left: LeftRun) -> ExperimentRun:
        """Have it go on; returns once its first step is under way.

        Raises:
            Conflict: it cannot go on at all; its plan or a unit is not as it was; LEASED.
            Invalid: what was checked no longer passes.
            Refused: NEEDS_APPROVAL.
            Failed: its units cannot be made safe first, or its recording cannot go on.
        """
        self._refuse_ended(left)
        place = left.position
        with self._taken(left):
            halts = self._registry.halts
            try:
                run, plan = await self._prepared(action, left, place, is_end=False)
                await self._open(run, place, _dropped(run, place), halts)
            except EdgedError as refused:
                left.refused = refused.message
                raise
            self._go(run, plan, left, place)
        return run

    async def to_approve(self, action: Action, left: LeftRun) -> Plan | None:
        """Its plan, where a person has to say yes before it goes on.

        Raises:
            Conflict, Invalid: as ``resume``.
        """
        self._refuse_ended(left)
        plan: Plan | None = None
        try:
            self._check_units(left)
            plan = await self._plan(action, left)
            self._approve(self._new_run(action, plan, left.run_id), plan, left)
        except EdgedError as refused:
            left.refused = refused.message
            if refused.code is ErrorCode.NEEDS_APPROVAL:
                return plan
            raise
        return None

    def _refuse_ended(self, left: LeftRun) -> None:
        if left.error:
            raise Conflict(f"{left.run_id} is over: it is failed.")
        if never := left.why_not():
            raise Conflict(
                f"{left.run_id} has nothing to resume: {never}.",
                remedy="Abort it: its finally steps run then. Start the plan again.",
            )

    async def abort(self, action: Action, left: LeftRun, cause: Cause) -> ExperimentRun | None:
        """End it: ``finally`` of each loop that was open runs, then that of the plan.

        Returns:
            The run, which is ending; ``None``: they could not run, and it has failed. Its units
            were made safe before.
        """
        place = left.position
        if left.error:
            return None
        with self._taken(left):
            halts = self._registry.halts
            try:
                run, plan = await self._prepared(action, left, place, is_end=True)
                run.ending = Ending.wished(RunEvent.STOP, cause)
                await self._open(run, place, {}, halts)
            except EdgedError as refused:
                await self._end(left, cause, refused)
                return None
            self._go(run, plan, left, place)
        return run

    async def stop(self, left: LeftRun, cause: Cause) -> ExperimentRun | None:
        """``abort``, as the caller who began it."""
        return await self.abort(self._own_action(left), left, cause)

    @contextlib.contextmanager
    def _taken(self, left: LeftRun) -> Iterator[None]:
        if left.is_taken or self._left.get(left.run_id) is not left:
            raise Conflict(f"{left.run_id} is being resumed or ended already.")
        left.is_taken = True
        try:
            yield
        finally:
            left.is_taken = False

    async def _prepared(
        self, action: Action, left: LeftRun, place: Position, *, is_end: bool
    ) -> tuple[ExperimentRun, Plan]:
        """The run, with its units its own and safe.

        Args:
            is_end: nothing but ``finally`` is done: what bounds its steps does not bind that.
        """
        self._check_units(left)
        plan = await self._plan(action, left)
        run = self._new_run(action, plan, left.run_id)
        run.state = RunState.INTERRUPTED
        run.started_ms = int(left.entry.payload.get("started_ms") or run.started_ms)
        place.take(run, self._bench.clock.monotonic())
        with contextlib.suppress(*([Refused] if is_end else [])):
            self._approve(run, plan, left)
        hours = hours_of(plan.checked) - (0.0 if is_end else place.elapsed_s / 3_600)
        if hours <= 0:
            raise Conflict(f"{left.run_id} has taken longer than its at_most_h.")
        with contextlib.ExitStack() as undo:
            if units := [one.id for one in run.written]:
                await self._leases.take(run.run_id, run.caller, units, hours)
                undo.callback(self._leases.end, run.run_id)
            await self._make_safe(run, left)
            if action.caller.approval is not None:
                told = approval_told(run.caller.approval, self._bench.clock.wall_ms())
                await self._bench.store.journal.update(run.run_id, told, is_durable=True)
            undo.pop_all()
        return run, plan

    def _check_units(self, left: LeftRun) -> None:
        """The same units say who they are.

        Raises:
            Conflict: one is not connected, or another one answers under its id.
        """
        for role, (unit_id, key) in left.entry.payload["units"].items():
            try:
                unit = self._bench.pool.get(unit_id)
            except NotFound:
                raise Conflict(
                    f"{role}: {unit_id} is not connected.", remedy="Switch it on, or scan."
                ) from None
            if unit_of_instrument(unit).key != key:
                raise Conflict(
                    f"{role}: at {unit.called} another unit answers than the one of the run.",
                    remedy="Connect the unit with which it began, or abort the run.",
                )

    async def _plan(self, action: Action, left: LeftRun) -> Plan:
        """The plan of its recording, checked again.

        Raises:
            Conflict: it is not there, or is another one than was started.
            Invalid: it no longer passes.
        """
        payload = left.entry.payload
        try:
            source, resolved = await self._recorder.read(_plan_files, left.run_id)
        except (NotFound, OSError, ValueError) as missing:
            raise Conflict(f"The recording of {left.run_id} has no plan: {missing}.") from missing
        plan, problems = await self._check(
            action, source, resolved["roles"], resolved["parameters"]
        )
        if plan is None:
            raise Invalid(
                f"The plan of {left.run_id} no longer passes the check: {problems[0].text}",
                data={"errors": [problem.to_json() for problem in problems]},
            )
        if plan.plan_id != payload.get("plan_id"):
            raise Conflict(
                f"plan.yaml or resolved.json of {left.run_id} was changed: its plan was "
                f"{payload.get('plan_id')}, and is {plan.plan_id} now.",
                remedy="Abort it, and start the new plan.",
            )
        return plan

    def _approve(self, run: ExperimentRun, plan: Plan, left: LeftRun) -> None:
        """Who has it go on may bring a person's yes.

        The one by which it began holds on if the owners of all units that ask for one allow that.

        Raises:
            Refused: NEEDS_APPROVAL.
        """
        if not plan.asks:
            return
        asking = [self._bench.pool.get(unit_id) for unit_id in plan.asks]
        planned = run.caller.approval.envelope if run.caller.approval is not None else None
        given = run.action.caller.approval
        if planned and given and given.envelope:
            if given.envelope.envelope.rows == planned.envelope.rows:
                return
            raise Conflict(f"What {left.run_id} may send has changed since it was approved.")
        approval = planned and approval_left(
            left.entry.payload, planned.envelope, asking, self._bench.clock
        )
        if not approval:
            ended = [one.called for one in asking if not one.rules.approval_survives_crash]
            why = f"the owner of {', '.join(ended)} does not let it survive one"
            raise Refused(
                f"The approval of {left.run_id} has ended with the crash: "
                f"{why if ended else 'its time is over, or it was of something else'}.",
                code=ErrorCode.NEEDS_APPROVAL,
                remedy="Resume it: then a person is asked. approval_survives_crash of the bench "
                "file changes that.",
            )
        run.caller = replace(run.caller, approval=approval)

    async def _make_safe(self, run: ExperimentRun, left: LeftRun) -> None:
        """What could not be made safe at the start, for its unit was away, is made so first.

        Raises:
            Failed: a unit does not obey.
        """
        for work in left.units:
            if not work.needs_attention:
                continue
            payload = work.entry.payload
            proofs = map(Proof.from_json, payload.get("proofs") or ())
            action = SendLines(
                tool=run.action.tool,
                caller=run.caller,
                action_id=self._bench.new_id(),
                parent_id=run.action.action_id,
                instrument_id=work.entry.instrument_id,
                lines=tuple(map(str, payload.get("abort") or ())),
                purpose=Purpose.ABORT,
            )
            if action.lines:
                obeyed = await obey(
                    self._bench.perform, action, [one for one in proofs if one is not None]
                )
                if obeyed.error:
                    raise Failed(obeyed.error, code=ErrorCode.INSTRUMENT_ERROR)
            work.done, work.at_ms, work.was_sent = Clean.ABORTED, self._bench.clock.wall_ms(), True
            await self._bench.store.journal.finish(work.entry.id)

    async def _open(
        self, run: ExperimentRun, place: Position, resumed_at: Mapping[str, int], halts: int
    ) -> None:
        """Go on in its recording, and take its verdicts from there: the last before it begins.

        Args:
            halts: how often everything had been stopped when this was asked for.

        Raises:
            Failed: RECORDING_FAILED, it cannot go on; CANCELLED, everything was stopped since.
        """
        run.head = replace(
            run.head,
            started_ms=run.started_ms,
            resumed_at=resumed_at,
            resumed_checks=place.checks,
        )
        sink = await self._recorder.open(run.head)
        refused: EdgedError | None = None
        since: Sequence[Check] = ()
        checks: Sequence[Check] = ()
        if error := sink.told()["error"]:
            refused = Failed(str(error), code=ErrorCode.RECORDING_FAILED)
        else:
            try:
                since, checks = await self._recorder.read(_checks, run.run_id, place.checks)
            except EdgedError as unreadable:
                refused = unreadable
        if refused is None and halts != self._registry.halts:
            refused = Failed(
                f"{run.run_id} was ended {self._registry.halted_by.clause} while it was about to "
                "go on; nothing was sent.",
                code=ErrorCode.CANCELLED,
            )
        if refused is not None:
            self._leases.end(run.run_id)
            await sink.close(RunState.INTERRUPTED.value)
            raise refused
        run.sink = sink
        for check in _interrupted_units(since, self._bench.clock.wall_ms()):
            sink.check(check)
            checks = (*checks, check)
        _take_verdicts(run, checks)
        sink.event(
            "resumed" if run.ending is None else "ended",
            {
                "attempt": sink.attempt,
                "at": dict(place.loops),
                "who": run.action.caller.who,
                "setpoints": [list(one) for one in place.setpoints],
            },
        )

    def _go(self, run: ExperimentRun, plan: Plan, left: LeftRun, place: Position) -> None:
        if run.ending is None:
            run.note(f"It was interrupted by a crash, and resumed (attempt {_attempt(run)})")
            run.move(RunEvent.RESUME)
        for text in left.notes:
            run.note(text)
        self._left.pop(left.run_id, None)
        self._registry.forget_left(left.run_id)
        self._begin(run, plan, place)

    async def _end(self, left: LeftRun, cause: Cause, refused: EdgedError) -> None:
        """It is over, though its ``finally`` could not run."""
        left.error = f"Its finally steps did not run: {refused.message}"
        summary = {
            "reason": cause.reason,
            "error": left.error,
            "notes": left.told()["notes"],
            "verdict": UnitVerdict.ABORTED.value,
        }
        self._registry.forget_left(left.run_id)
        await self._bench.store.journal.finish(left.run_id)
        await self._recorder.conclude(left.run_id, RunState.FAILED.value, summary)

    # By itself

    async def _tend(self) -> None:
        while going := [left for left in self._left.values() if not left.error]:
            for left in going:
                before = left.refused
                try:
                    await self._look_after(left)
                except EdgedError as refused:
                    left.next_s = self._bench.clock.monotonic() + RETRY_S
                    if before != refused.message:
                        why = refused.message
                        log.warning("experiment_not_resumed", run_id=left.run_id, why=why)
                except Exception:
                    # The others are looked after all the same.
                    left.next_s = self._bench.clock.monotonic() + RETRY_S
                    log.exception("experiment_fault", run_id=left.run_id)
            await self._bench.clock.sleep(LOOK_EVERY_S)

    async def _look_after(self, left: LeftRun) -> None:
        """End it when that is due; else let it go on, where nobody has to be asked."""
        clock = self._bench.clock
        now_s, resume = clock.monotonic(), left.resume
        if left.is_taken or now_s < left.next_s:
            return
        is_due = clock.wall_ms() > left.due_ms
        # Once everything was stopped, a person has to say that it may go on.
        is_asked = resume is None or resume.is_asked or left.halts != self._registry.halts
        if not is_due and (is_asked or left.why_not()):
            return
        try:
            self._check_units(left)
        except Conflict as away:
            left.refused = away.message
            if not is_due or now_s < left.found_s + MET_WITHIN_S:
                return
        if is_due:
            await self.stop(left, TOO_LATE)
        else:
            await self.resume(self._own_action(left), left)
        what = "ended, for nobody has resumed it" if is_due else "resumed"
        name = "experiment.ended" if is_due else "experiment.resumed"
        text = f"{left.run_id} was {what}"
        self._bench.tell(name, text, left.entry.instrument_id, "crash recovery")

    def _own_action(self, left: LeftRun) -> Action:
        return NamedAction(
            operation=CONTROL, tool=CONTROL, caller=left.caller, action_id=self._bench.new_id()
        )


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _attempt(run: ExperimentRun) -> int:
    return run.sink.attempt if run.sink is not None else 1


def _dropped(run: ExperimentRun, place: Position) -> Mapping[str, int]:
    """The place of the pass whose rows count no more, by the loops that rows have a place of.

    Empty where no row is of that pass alone.
    """
    columns = {dimension.name for dimension in run.head.dimensions}
    return place.loops if columns >= set(place.loops) else {}


def _plan_files(root: Path, run_id: str) -> tuple[str, dict[str, Any]]:
    """plan.yaml, and resolved.json: {roles, parameters, …}.

    Raises:
        NotFound, OSError, ValueError: they are not there, or cannot be read.
    """
    directory = find_run(root, run_id)
    resolved = json.loads(read_text(directory / "resolved.json"))
    if not isinstance(resolved, dict) or not {"roles", "parameters"} <= set(resolved):
        raise ValueError("resolved.json has no roles")
    return read_text(directory / "plan.yaml"), resolved


def _meta_of(root: Path, run_id: str) -> dict[str, Any]:
    return read_meta(find_run(root, run_id))


def _checks(root: Path, run_id: str, since: int) -> tuple[tuple[Check, ...], tuple[Check, ...]]:
    """The checks of a run from a row of checks.csv on, and all of it that count."""
    directory = find_run(root, run_id)
    checks = checks_of_run(directory)
    return checks[since:], valid_checks_of(checks, read_meta(directory))


def _interrupted_units(checks: Sequence[Check], now_ms: int) -> list[Check]:
    """A last row for each unit under test that has begun in these, and not ended."""
    ends = [(check.unit, check.try_number) for check in checks if not check.name]
    begun = dict.fromkeys(ends)
    return [
        Check(
            verdict=UnitVerdict.ABORTED,
            time_ms=now_ms,
            unit=unit,
            try_number=try_number,
            message="The daemon was killed during this unit.",
        )
        for unit, try_number in begun
        if ends.count((unit, try_number)) == 1
    ]


def _take_verdicts(run: ExperimentRun, checks: Sequence[Check]) -> None:
    """What the run has judged so far, from its recording."""
    run.own_verdict = worst(check.verdict for check in checks if check.name and not check.unit)
    for result in unit_results(checks, run.head.checks):
        if not result.unit:
            continue
        run.seen[result.unit] = max(result.try_number, run.seen.get(result.unit, 0))
        run.unit_verdicts[result.unit] = result.verdict
        run.tested.append(
            UnitNow(
                name=result.unit,
                number=len(run.tested),
                tries=result.try_number,
                verdict=result.verdict,
                failed=[
                    check.name
                    for check in result.checks
                    if check.verdict in {UnitVerdict.FAIL, UnitVerdict.ERROR}
                ],
            )
        )
