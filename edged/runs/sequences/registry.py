"""Runs a profile's sequences: steps in order, answers saved, ``finally`` whatever happens.

Each step goes through the command path as the caller who started the sequence; this module sends
nothing by itself and judges nothing but the order. The states are ``states.py``'s.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

from edged.actions.action import RunSequence
from edged.actions.cause import CALLER_GONE, Cause, cause_of
from edged.errors import Conflict, EdgedError, ErrorCode, Failed, Invalid, NotFound
from edged.experiments.model import Experiment
from edged.profiles.arguments import WITHIN
from edged.profiles.model import SELF, Sequence
from edged.profiles.step_values import fill
from edged.record import record
from edged.runs.experiments.steps import Steps
from edged.runs.ports import NewPlan, Precheck, RowSink
from edged.runs.registry import Registry, RunsOfKind
from edged.runs.run import Ending
from edged.runs.run_head import RunHead, RunKind
from edged.runs.sequences.run import SequenceRun
from edged.runs.sequences.steps import SequenceCheck, columns_of
from edged.runs.states import RunEvent, RunState
from edged.runs.wording import ALL_STEPS_DONE, ASK_FIRST, held_by, stopped_by
from edged.yaml.tree import Scalar


@record
class SequenceResult:
    """What a completed sequence returns: named values (and ``rows``), and how many steps ran.

    ``recording`` is where its table was recorded, ``None`` without one; ``notes`` what is true of
    it and misleads who does not know it.
    """

    run_id: str
    result: Mapping[str, Any]
    steps_executed: int
    sent: tuple[str, ...]
    recording: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()


class Sequences(RunsOfKind[SequenceRun]):
    """What runs sequences, tells of them and stops them.

    Args:
        new_plan: judges all steps of a run before its first.
    """

    kind = RunKind.SEQUENCE

    def __init__(self, runs: Registry, *, new_plan: NewPlan) -> None:
        super().__init__(runs)
        self._new_plan = new_plan

    async def run(
        self,
        action: RunSequence,
        sequence: Sequence,
        values: Mapping[str, Scalar],
        *,
        alone_on: str = "",
    ) -> SequenceResult:
        """Run to the end, ``finally`` included.

        Args:
            alone_on: the instrument that it changes; empty where it only asks, or makes safe. Two
                that mixed their steps would both tell what neither has measured.

        Raises:
            Conflict: BUSY, another sequence changes that instrument.
            Failed: a step failed (STEP_FAILED; what had been sent is in ``sent``), the sequence was
                stopped (CANCELLED), or ``finally`` failed.
            EdgedError: a step was refused before the first was sent.
            asyncio.CancelledError: the caller went away; ``finally`` has run.
        """
        run = await self._begin(action, sequence, values, alone_on)
        self._runs.live(run, self._live(run))
        try:
            await self._runs.attend(run)
            if run.failure is not None:
                raise run.failure
            return SequenceResult(
                run_id=run.run_id,
                result={**run.result, "rows": run.rows} if run.rows else {**run.result},
                steps_executed=run.steps_executed,
                sent=tuple(run.sent),
                recording=run.sink.told() if run.sink else None,
                notes=tuple(run.notes()),
            )
        finally:
            run.shed()

    async def detach(
        self,
        action: RunSequence,
        sequence: Sequence,
        values: Mapping[str, Scalar],
        *,
        alone_on: str = "",
    ) -> str:
        """``run`` without whoever asked for it; returns the run's id once it is under way.

        Raises:
            Conflict, EdgedError: as ``run``, before the first step.
        """
        run = await self._begin(replace(action, progress=None), sequence, values, alone_on)
        self._runs.live(run, self._alone(run))
        return run.run_id

    async def _alone(self, run: SequenceRun) -> None:
        await self._live(run)
        run.shed()

    async def _begin(
        self,
        action: RunSequence,
        sequence: Sequence,
        values: Mapping[str, Scalar],
        alone_on: str,
    ) -> SequenceRun:
        """A run whose steps were judged; it is under way from now on."""
        held = self.held_by(sequence, alone_on)
        if held is not None:
            raise held
        run = self._new_run(action, sequence, values, alone_on)
        # Before the check, which takes turns: a stop that comes meanwhile must find it.
        self._runs.add(run)
        if alone_on:
            self._runs.notes.run_began(run.run_id, alone_on, action.caller)
        try:
            await self._check(run, self._bench.precheck).check()
        except BaseException:
            self._runs.drop(run)
            raise
        run.opening = asyncio.create_task(
            self._runs.recorder.open(run.head), name=f"{run.run_id}-record"
        )
        return run

    async def _live(self, run: SequenceRun) -> None:
        """The whole life of a run; what its caller gets besides is ``run.failure``."""
        result: dict[str, Any] = {}
        try:
            run.tell(f"{run.sequence.name} runs as {run.run_id}.")
            async with self._journalled(run):
                await self._run_to_end(run)
            if run.failure is None and not run.is_left_alone:
                run.reason, result = ALL_STEPS_DONE, {**run.result}
        except EdgedError as failed:
            run.failure = failed
        except asyncio.CancelledError as cancelled:
            run.reason = run.reason or f"{_why_gone(cause_of(cancelled))} before its first step"
            raise
        finally:
            if run.failure is not None and run.state is not RunState.STOPPED:
                run.error = str(run.failure)
            run.ended.set()
            # Nothing more is sent: its last words keep nobody else from the unit.
            self._runs.let_go(run)
            await self._settle(run, result)

    async def _settle(self, run: SequenceRun, result: Mapping[str, Any]) -> None:
        """Its last words: memory and recording."""
        if run.state is RunState.RUNNING:
            # It did not come to its first step.
            run.state = RunState.FAILED
        summary = {
            "steps_executed": run.steps_executed,
            "result": dict(result),
            "reason": run.reason,
            "error": run.what_went_wrong(),
            "notes": run.notes(),
            "left": run.what_is_left(),
        }
        if run.sink is not None:
            await run.sink.close(run.status, summary)
        elif run.opening is not None:
            # Nobody waits for the disk: what it says stands in the answer already.
            closing = _close(run.opening, run.status, summary)
            self._runs.keep(closing, f"{run.run_id}-recorded")

    async def stop(self, run_id: str, who: str) -> dict[str, Any]:
        """End one, and tell how it ended; one that is over stays as it is.

        Returns:
            {status, reason, error}.

        Raises:
            NotFound: UNKNOWN_RUN.
        """
        run, found = self._get(run_id), self._runs.left_of(self.kind, run_id)
        if run is not None:
            await self._runs.stop(run, Ending.wished(RunEvent.STOP, stopped_by(who)))
            ended = run.now(self._bench.clock.monotonic())
        elif found is not None:
            ended = found.as_run()
        else:
            raise NotFound(
                f"There is no sequence {run_id[:100]!r}.",
                code=ErrorCode.UNKNOWN_RUN,
                data={"run_id": run_id[:100]},
            )
        return {
            "status": ended.state,
            "reason": ended.reason or None,
            "error": ended.error or None,
        }

    async def rehearse(
        self,
        action: RunSequence,
        sequence: Sequence,
        values: Mapping[str, Scalar],
        precheck: Precheck,
    ) -> SequenceCheck:
        """Judge every step as before a run, and run none; returns what came of it.

        Args:
            precheck: judges each step, and takes note of what it would send.

        Raises:
            EdgedError: a step would be refused.
        """
        judged = self._check(self._new_run(action, sequence, values), precheck)
        await judged.check()
        return judged

    def _check(self, run: SequenceRun, precheck: Precheck) -> SequenceCheck:
        return SequenceCheck(run, precheck, self._new_plan, self._bench.new_id)

    def held_by(self, sequence: Sequence, alone_on: str) -> Conflict | None:
        """The sequence that runs there already and would mix its steps with this one's."""
        for run in self._going():
            if alone_on and run.alone_on == alone_on:
                held = held_by(
                    run.run_id, run.caller.who, self._bench.clock.monotonic() - run.began
                )
                return Conflict(
                    f"{alone_on} is {held}, which is {run.sequence.name}: {sequence.name} would "
                    "mix its steps with it.",
                    data={
                        "run_id": run.run_id,
                        "sequence": run.sequence.name,
                        "who": run.caller.who,
                    },
                    remedy="Wait for its end: get_status lists it. Call one after the other.",
                )
        return None

    def _new_run(
        self,
        action: RunSequence,
        sequence: Sequence,
        values: Mapping[str, Scalar],
        alone_on: str = "",
    ) -> SequenceRun:
        run_id = f"seq-{action.action_id}"
        caller = action.caller.nested(tool=action.tool, scope=sequence.name, on_behalf_of=run_id)
        started_ms = self._bench.clock.wall_ms()
        instrument = self._bench.pool.get(action.instrument_id)
        run = SequenceRun(
            alone_on=alone_on,
            began=self._bench.clock.monotonic(),
            started_ms=started_ms,
            action=action,
            sequence=sequence,
            plan=plan_of(sequence, instrument.id),
            caller=caller,
            head=RunHead(
                kind=RunKind.SEQUENCE,
                run_id=run_id,
                instrument_id=action.instrument_id,
                command_name=sequence.name,
                columns=columns_of(sequence),
                caller=caller,
                parameters=dict(values),
                sets_up=True,
                started_ms=started_ms,
            ),
            instruments={SELF: instrument},
            names={**values},
        )
        run.going.set()
        return run

    @contextlib.asynccontextmanager
    async def _journalled(self, run: SequenceRun) -> AsyncIterator[None]:
        """What must run at the end stands in the journal, as far as it is known beforehand."""
        if not run.sequence.finally_steps:
            yield
            return
        named = {"sequence": run.sequence.name, **run.to_clean_up()}
        await self._runs.journal.begin(run, run.instrument, named)
        async with self._runs.journal.beating(run, lambda: {run.run_id: run.to_clean_up()}):
            yield

    async def _run_to_end(self, run: SequenceRun) -> None:
        """Body, then ``finally``, then the state; what went wrong is ``run.failure``."""
        _refuse_stopped(run)
        steps = Steps(self._bench, run)
        event, failure = await steps.do_plan(contextlib.nullcontext())
        if event is RunEvent.SHUTDOWN:
            event = RunEvent.STOP
        done, what = run.steps_executed, ""
        plan = run.plan
        finally_error = await steps.clean_up(plan.finally_steps, plan.finally_timeout_ms)
        if run.skipped and event is RunEvent.DONE:
            event = RunEvent.STOP
        if event is RunEvent.DONE:
            try:
                run.result = {n: fill(text, run.names) for n, text in run.sequence.result.items()}
            except Invalid as unfit:
                event, failure = RunEvent.FAILURE, unfit
                what = "its result cannot be worked out"
        run.move(event, is_clean_up_failed=finally_error is not None)
        if run.is_left_alone:
            run.reason = f"{_why_gone(run.ended_by.cause)} after {done} steps"
            if finally_error is not None:
                run.error = f"Its finally steps failed: {finally_error}"
        elif finally_error is not None:
            run.failure = self._failed(run, "its finally steps failed", finally_error)
        elif event is RunEvent.STOP:
            run.failure = Failed(
                f"The sequence {run.sequence.name} was stopped after {run.steps_executed} steps "
                f"({run.reason}); "
                f"{run.what_was_skipped() if run.skipped else 'its finally steps have run'}.",
                code=ErrorCode.CANCELLED,
                sent=tuple(run.sent),
                data=_told(run),
            )
        elif failure is not None:
            what = what or f"step {run.steps_executed + 1} failed"
            run.failure = self._failed(run, what, failure)

    def _failed(self, run: SequenceRun, what: str, cause: EdgedError) -> Failed:
        return Failed(
            f"The sequence {run.sequence.name} did not complete, because {what}: {cause.message}",
            code=ErrorCode.STEP_FAILED,
            remedy="" if run.sent and cause.remedy == WITHIN else cause.remedy,
            sent=tuple(run.sent),
            data={**_told(run), "cause": cause.code.value},
        )


def plan_of(sequence: Sequence, instrument_id: str) -> Experiment:
    """A sequence is a plan with one role, the unit whose profile it is of."""
    return Experiment(
        name=sequence.name,
        roles={SELF: instrument_id},
        steps=sequence.steps,
        parameters=sequence.parameters,
        finally_steps=sequence.finally_steps,
        finally_timeout_ms=sequence.finally_timeout_ms,
    )


def _why_gone(cause: Cause) -> str:
    return cause.reason or CALLER_GONE.reason


def _told(run: SequenceRun) -> dict[str, Any]:
    """What the error of one that did not complete says besides."""
    return {
        "run_id": run.run_id,
        "steps_executed": run.steps_executed,
        "state": run.status,
        "reason": run.reason or None,
        "left": run.what_is_left(),
    }


async def _close(opening: asyncio.Task[RowSink], status: str, summary: Mapping[str, Any]) -> None:
    """End the recording of a run without rows."""
    recording = await opening
    await recording.close(status, summary)


def _refuse_stopped(run: SequenceRun) -> None:
    """Raises if the run was stopped while it was being prepared."""
    if run.ending is not None and not run.is_left_alone:
        raise Failed(
            f"{run.sequence.name} did not begin, because {run.reason}; nothing was sent.",
            code=ErrorCode.CANCELLED,
            remedy=ASK_FIRST,
        )
