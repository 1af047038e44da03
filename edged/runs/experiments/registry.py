"""Experiments: plans that were checked, and their runs: started, paused, answered, ended.

What a run sends takes the command path as the caller who started it. Its ``finally`` steps run
however it ends; after that, what is still on at a unit that it wrote to is aborted.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from edged.actions.action import Action
from edged.actions.caller import Approval
from edged.actions.cause import NOT_NEEDED, Cause
from edged.actions.envelope import Envelope, OpenEnvelope
from edged.errors import Conflict, EdgedError, ErrorCode, Failed, Invalid, NotFound
from edged.instruments.instrument import Instrument
from edged.profiles.abort import proofs_of
from edged.profiles.owner_rules import clean_up_of
from edged.runs.experiments.answers import fitting
from edged.runs.experiments.bounds import hours_of
from edged.runs.experiments.heads import (
    columns_of,
    dimensions_of,
    reports_told,
    resolved,
    source_of,
    tables_of,
)
from edged.runs.experiments.plans import Plans
from edged.runs.experiments.resuming import LeftRun, LeftRuns, forget_place, keep_place, run_row
from edged.runs.experiments.run import NOWHERE, ExperimentRun, Plan, Position
from edged.runs.experiments.steps import TOO_SOON_S, Steps, checks_of
from edged.runs.experiments.watching import Beside
from edged.runs.ports import NewPlan, RowSink, RunLeases
from edged.runs.recordings.checks import UnitVerdict, worst
from edged.runs.recordings.registry import RunRegistry
from edged.runs.registry import Registry, RunsOfKind
from edged.runs.report.at_end import FOLDER, RunReports
from edged.runs.run import AbortReport, Ending
from edged.runs.run_head import RunHead, RunKind
from edged.runs.states import OVER, RunEvent, RunState
from edged.runs.wording import MADE_SAFE, stopped_by
from edged.schema.fields import nearest

WRITTEN_S: Final = 5.0
MOST_TAGS: Final = 100
MOST_NOTE: Final = 2_000


class Experiments(RunsOfKind[ExperimentRun]):
    """The runs of experiments, on top of the registry of all runs.

    Args:
        leases: gives a run the units that it writes to.
        make_html: makes the report of a run.
        new_plan: judges how often all steps of a run are sent.

    Attributes:
        plans: those that were checked.
        left: those that a former life of the daemon has left interrupted.
    """

    kind = RunKind.EXPERIMENT

    def __init__(
        self,
        registry: Registry,
        recorder: RunRegistry,
        leases: RunLeases,
        make_html: Callable[[str], Awaitable[bytes]],
        new_plan: NewPlan,
    ) -> None:
        super().__init__(registry)
        self._recorder = recorder
        self._leases = leases
        self._make_html = make_html
        self.plans = Plans(registry.bench, new_plan)
        self.left = LeftRuns(
            registry,
            recorder,
            leases,
            check=functools.partial(self.plans.check, is_begun=True),
            new_run=self._new_run,
            begin=self._begin,
        )

    # Runs

    @property
    def halts(self) -> int:
        """How often everything was stopped; see ``start``."""
        return self._runs.halts

    async def start(self, action: Action, plan: Plan, halts: int | None = None) -> ExperimentRun:
        """Begin a run of a plan, which is judged once more; returns once its units are its own.

        Args:
            action: its caller's approval is for all that the plan may send, and for this run.
            halts: ``halts`` of when it was asked for; ``None``: now.

        Raises:
            Invalid: what was checked no longer passes.
            Conflict: LEASED, somebody has reserved a unit, or a run writes there; NEEDS_APPROVAL,
                nobody has said yes to what it would send now.
            Failed: STORE_FAILED, or everything was stopped meanwhile.
        """
        halts = self.halts if halts is None else halts
        again, problems = await self.plans.check(
            action, plan.source, plan.roles, plan.parameters, plan.file
        )
        if again is None:
            raise Invalid(
                f"The plan no longer passes the check: {problems[0].text}",
                data={"errors": [problem.to_json() for problem in problems]},
                remedy="Check it again.",
            )
        envelope = self.plans.envelope(again)
        approval = action.caller.approval
        approved = approval.envelope.envelope if approval and approval.envelope else None
        if again.asks and (approved is None or approved.rows != envelope.rows):
            raise Conflict(
                f"{again.experiment.name} needs a person's approval of what it would send now. "
                "Nothing was sent.",
                code=ErrorCode.NEEDS_APPROVAL,
                data={"plan_id": again.plan_id},
                remedy="Start it again: a person is asked then.",
            )
        run = self._new_run(action, again, envelope=approved or envelope)
        written = [one.id for one in run.written]
        if written:
            hours = hours_of(again.checked)
            await self._leases.take(run.run_id, action.caller, written, hours)
        try:
            self._runs.refuse_halted(halts, "The experiment", "sent")
        except Failed:
            self._leases.end(run.run_id)
            raise
        self._begin(run, again)
        return run

    def _begin(self, run: ExperimentRun, plan: Plan, position: Position = NOWHERE) -> None:
        self._tell_of_approval(run, "approval.used", f"{run.run_id} of {plan.plan_id} runs by it")
        self._runs.add(run)
        self._runs.live(run, self._life(run, plan, position))

    def _tell_of_approval(self, run: ExperimentRun, name: str, what: str) -> None:
        approval = run.caller.approval
        if approval is not None and approval.approval_id:
            self._bench.tell(
                name, f"{approval.approval_id}: {what}", run.head.instrument_id, "approvals"
            )

    def _new_run(
        self, action: Action, plan: Plan, run_id: str = "", *, envelope: Envelope | None = None
    ) -> ExperimentRun:
        clock, checked = self._bench.clock, plan.checked
        run_id = run_id or f"exp-{secrets.token_hex(4)}"
        name = plan.experiment.name
        instruments = {role: self._bench.pool.get(unit.id) for role, unit in checked.units.items()}
        started_ms = clock.wall_ms()
        columns = columns_of(checked)
        approval = replace(
            action.caller.approval or Approval(approval_id=""),
            envelope=OpenEnvelope(envelope or self.plans.envelope(plan), clock.monotonic),
        )
        nested = action.caller.nested(tool=action.tool, scope=name, on_behalf_of=run_id)
        caller = replace(nested, approval=approval)
        ids = tuple(dict.fromkeys(one.id for one in instruments.values()))
        run = ExperimentRun(
            head=RunHead(
                kind=RunKind.EXPERIMENT,
                run_id=run_id,
                instrument_id=ids[0],
                command_name=name,
                columns=columns,
                caller=caller,
                parameters=dict(checked.values),
                measures=ids[1:],
                is_measured=bool(checked.columns),
                sets_up=True,
                started_ms=started_ms,
                dimensions=dimensions_of(checked),
                checks=checks_of(plan.experiment.steps),
                tables=tables_of(checked),
                files={"plan.yaml": source_of(plan), "resolved.json": resolved(plan)},
                details={
                    "plan_id": plan.plan_id,
                    "roles": {role: unit.id for role, unit in checked.units.items()},
                    "tags": list(plan.experiment.tags),
                    "part": dict(plan.experiment.part),
                    "approval": approval.approval_id or None,
                    **reports_told(plan.experiment),
                    "plots": [plot.told() for plot in plan.experiment.plots],
                },
            ),
            caller=caller,
            began=clock.monotonic(),
            started_ms=started_ms,
            action=action,
            plan=plan.experiment,
            checked=checked,
            plan_id=plan.plan_id,
            instruments=instruments,
            names=dict(checked.values),
            columns=tuple(column.name for column in columns),
            tags=list(plan.experiment.tags),
        )
        run.going.set()
        return run

    async def _life(self, run: ExperimentRun, plan: Plan, position: Position) -> None:
        """From the first step to the last word. The top of the run's task."""
        sink = run.sink = run.sink or await self._recorder.open(run.head)
        steps = Steps(
            self._bench,
            run,
            checkpoint=lambda: keep_place(self._bench, run, sink),
            position=position,
        )
        reports = RunReports(
            self._recorder,
            run.run_id,
            plan.experiment.report,
            make_html=self._make_html,
            note=run.note,
        )
        run.reports, run.unit_over = reports.files, reports.unit_over
        try:
            async with self._journalled(run):
                await self._through(run, plan, steps, sink)
        except Failed as error:
            # The journal cannot be written: nothing was sent.
            run.error = str(error)
            run.state = RunState.FAILED
        finally:
            if not run.owes_abort:
                self._leases.end(run.run_id)
            approval = run.caller.approval
            if approval is not None and approval.envelope is not None:
                approval.envelope.end()
            self._tell_of_approval(run, "approval.ended", f"{run.run_id} is over, and it with it")
            await self._settle(run)
        if run.owes_abort:
            try:
                await self._runs.abort_later(run)
                await self._runs.journal.finish(run)
            finally:
                self._leases.end(run.run_id)
        await reports.finish()
        if run.reports:
            with contextlib.suppress(EdgedError):
                files = {"folder": FOLDER, "files": list(run.reports)}
                await self._recorder.add_event(run.run_id, "reports", files)

    async def _through(self, run: ExperimentRun, plan: Plan, steps: Steps, sink: RowSink) -> None:
        """The steps, then ``finally``, then the state."""
        watching = Beside(
            self._bench,
            run,
            look=steps.look,
            logged=lambda name, value: sink.append_to(name, (value,)),
            pause=lambda reason: self.pause(run, reason),
            go_on=lambda: self.resume(run),
        )
        event, failure = await steps.do_plan(watching.while_running())
        said = f"{run.path}: {failure}" if failure is not None else ""
        if failure is not None and failure is run.ended_by.failure:
            said = failure.message
        run.going.set()
        self._runs.keep(forget_place(self._bench, run, sink), f"{run.run_id}-forget")
        ending = asyncio.create_task(
            self._clean_up(run, plan, steps, is_done=event is RunEvent.DONE)
        )
        while not ending.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({ending})
        wrong = ending.result()
        if wrong:
            run.error = f"{run.error} {wrong}".strip()
        if said and not run.error.startswith(said):
            run.error = f"{said} {run.error}".strip()
        if event is not RunEvent.DONE:
            own = UnitVerdict.ERROR if event is RunEvent.FAILURE else UnitVerdict.ABORTED
            run.own_verdict = worst((run.own_verdict, own))
        # Who reads that it is over finds its rows on the disk, unless that hangs.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WRITTEN_S):
                await sink.written()
        run.ended_s = self._bench.clock.monotonic()
        run.move(event, is_clean_up_failed=bool(wrong))

    async def _clean_up(
        self, run: ExperimentRun, plan: Plan, steps: Steps, *, is_done: bool
    ) -> str:
        """``finally``, then aborts for what may be on; why it may not be safe, or nothing."""
        wrong: list[str] = []
        experiment = plan.experiment
        before = None if run.body is not None else await steps.clean_up_loops()
        error = (
            await steps.clean_up(experiment.finally_steps, experiment.finally_timeout_ms) or before
        )
        if error is not None:
            wrong.append(f"Its finally steps failed: {error}")
        if not is_done or error is not None:
            wrong += await self._abort_units(run)
        return " ".join(wrong)

    async def _abort_units(self, run: ExperimentRun) -> list[str]:
        """Send the abort of each unit that the run writes to and that has one."""
        run.aborts = {
            unit.id: AbortReport(
                lines=tuple(step.send for step in profile.abort),
                proofs=proofs_of(profile, profile.abort),
                row=row,
                state="pending",
                cause=run.ending.cause if run.ending is not None else NOT_NEEDED,
            )
            for row, unit in run.rows_of.items()
            if (profile := unit.profile) is not None and profile.abort
        }
        errors = await self._runs.abort(run)
        on = (unit for unit in run.written if unit.id in errors)
        return [f"{unit.called} may still be on: {errors[unit.id]}" for unit in on]

    async def _settle(self, run: ExperimentRun) -> None:
        """Its last words: the recording."""
        run.ended.set()
        if run.sink is None:
            return
        now = self._bench.clock.monotonic()
        summary = {
            "reason": run.reason,
            "error": run.error,
            "notes": run.notes(now),
            "verdict": run.verdict.value,
            "result": {},
        }
        await asyncio.shield(run.sink.close(run.status, summary))

    @contextlib.asynccontextmanager
    async def _journalled(self, run: ExperimentRun) -> AsyncIterator[None]:
        """A row for each unit that it writes to, while it runs: after a crash each is made safe.

        Raises:
            Failed: STORE_FAILED; the run must not begin.
        """
        journal = self._runs.journal

        def rows() -> dict[str, dict[str, Any]]:
            # What the owners let stay on by now.
            return {
                run.run_id: {},
                **{row: _clean_up_of(unit) for row, unit in run.rows_of.items()},
            }

        async with journal.beating(run, rows):
            if run.head.resumed_at is None:
                await journal.journal.begin(run_row(run, self._bench.clock.wall_ms()))
            named = {
                "run": run.run_id,
                "experiment": run.checked.experiment.name,
                "plan_id": run.plan_id,
            }
            for row, unit in run.rows_of.items():
                await journal.begin(run, unit, {**named, **_clean_up_of(unit)}, row)
            yield

    # Control

    def find(self, run_id: str) -> ExperimentRun:
        """One run.

        Raises:
            NotFound: UNKNOWN_RUN.
        """
        run = self._get(run_id)
        if run is None:
            known = [one.run_id for one in self._all()]
            raise NotFound(
                f"There is no experiment run {run_id[:100]!r}.",
                code=ErrorCode.UNKNOWN_RUN,
                data={"run_id": run_id[:100]},
                remedy=nearest(run_id[:100], known) or "bench__runs lists runs.",
            )
        return run

    async def interrupted(self, run_id: str) -> LeftRun | None:
        """One that is interrupted, also where only its recording has it."""
        if self._get(run_id) is not None:
            return None
        return self.left.get(run_id) or await self.left.recall(run_id)

    def status(self, run_id: str) -> dict[str, Any]:
        """How one stands."""
        left = self.left.get(run_id)
        return left.told() if left else self.find(run_id).told(self._bench.clock.monotonic())

    def seen(self, run_id: str) -> dict[str, Any] | None:
        """How one stands, for a view; ``None``: it is not in memory."""
        run = self._get(run_id)
        if run is None and self.left.get(run_id) is None:
            return None
        return {**self.status(run_id), "can_skip": run is not None and run.waiting is not None}

    def pause(self, run: ExperimentRun, reason: str) -> None:
        """At the next step boundary; a step that waits or looks is frozen.

        Raises:
            Conflict: it is over.
        """
        self._refuse_over(run)
        run.pause(self._bench.clock.monotonic(), reason)
        self._leases.pause(run.run_id, is_paused=True)

    def resume(self, run: ExperimentRun) -> None:
        """Go on.

        Raises:
            Conflict: it is over.
        """
        self._refuse_over(run)
        self._leases.pause(run.run_id, is_paused=False)
        run.go_on(self._bench.clock.monotonic())

    def answer(self, run: ExperimentRun, value: Any, number: int | None = None) -> None:
        """A person's answer to the question that is open; the first counts.

        Raises:
            Conflict: no question is open, or it is another one; an answer that came too soon.
            Invalid: it is no answer to this question.
        """
        question = run.question
        if question is None or question.answer.done():
            raise Conflict(
                "No question is open; nothing was answered.",
                data={"step": run.path},
                remedy="The status says whether one is open.",
            )
        if number is not None and number != question.number:
            raise Conflict(
                f"Question {number} has ended; question {question.number} ({question.step.name}) "
                "is open now, and was not answered.",
                remedy="Read the question that is open, and answer that.",
            )
        if self._bench.clock.monotonic() - question.asked_at < TOO_SOON_S:
            raise Conflict(
                f"This came within {TOO_SOON_S:g} s of the question, as a second scan would.",
                remedy="Answer again.",
            )
        question.answer.set_result(fitting(question.step, value))
        # The status that follows shows no question that has its answer.
        run.question = None

    def note_safe(self, instrument_id: str, on_behalf_of: str) -> None:
        """Somebody makes a unit safe: what a run does next could switch it on again."""
        for run in self._going():
            is_written = instrument_id in {asked.unit for asked in run.checked.envelope}
            if is_written and run.run_id != on_behalf_of:
                run.end(Ending.wished(RunEvent.STOP, MADE_SAFE))

    def skip(self, run: ExperimentRun, who: str) -> None:
        """End the step that waits or looks.

        Raises:
            Conflict: it is over, or no such step is under way.
        """
        self._refuse_over(run)
        if run.waiting is None:
            raise Conflict(
                f"{run.path} is no step that waits; nothing was skipped.",
                remedy="wait, settle and poll can be skipped.",
            )
        run.note(f"{run.path} was skipped by {who}")
        run.waiting.set()
        run.wanted.set()

    async def note(self, run: ExperimentRun, kind: str, text: str, who: str) -> None:
        """A note or tag, also of a run that is over.

        Raises:
            Invalid: it is empty, or too long; or there are too many tags.
            Failed: RECORDING_FAILED, of a run that is over: the disk refuses.
        """
        if kind == "tag" and len(run.tags) >= MOST_TAGS:
            raise Invalid(f"A run has at most {MOST_TAGS} tags.")
        _check_note(kind, text)
        if kind == "tag":
            run.tags.append(text.strip())
        else:
            run.note(f"{who}: {text.strip()}")
        if run.state in OVER:
            await self._recorder.add_event(run.run_id, kind, {"text": text.strip(), "who": who})
        elif run.sink is not None:
            run.sink.event(kind, {"text": text.strip(), "who": who})

    async def note_left(self, left: LeftRun, kind: str, text: str, who: str) -> None:
        """The same of a run that is interrupted; raises as ``note``."""
        _check_note(kind, text)
        await self._recorder.add_event(left.run_id, kind, {"text": text.strip(), "who": who})
        if kind == "note":
            left.notes.append(f"{who}: {text.strip()}")

    async def abort(self, run: ExperimentRun, cause: Cause) -> None:
        """End it; returns when its ``finally`` has run."""
        await self._runs.stop(run, Ending.wished(RunEvent.STOP, cause))

    async def stop(self, run_id: str, who: str) -> Mapping[str, Any]:
        if (left := self.left.get(run_id)) is not None:
            ending = await self.left.stop(left, stopped_by(who))
            if ending is not None:
                await ending.ended.wait()
            told = self.status(run_id)
            return {"status": told["state"], "reason": told["reason"], "error": told["error"]}
        run = self.find(run_id)
        await self.abort(run, stopped_by(who))
        return {"status": run.status, "reason": run.reason or None, "error": run.error or None}

    def _refuse_over(self, run: ExperimentRun) -> None:
        if run.state in OVER:
            raise Conflict(f"{run.run_id} is over: it is {run.status}.")


def _clean_up_of(instrument: Instrument) -> dict[str, Any]:
    profile = instrument.profile
    abort = profile.abort if profile is not None else ()
    return clean_up_of(profile, instrument.rules, abort)


def _check_note(kind: str, text: str) -> None:
    """Raises Invalid: it is empty, or too long."""
    if not text.strip() or len(text) > MOST_NOTE:
        raise Invalid(f"A {kind} has 1 to {MOST_NOTE} characters.", data={"parameter": "value"})
