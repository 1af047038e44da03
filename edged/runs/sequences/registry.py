"""Runs a profile's sequences: steps in order, answers saved, ``finally`` whatever happens.

Each step goes through the command path as the caller who started the sequence; this module sends
nothing by itself and judges nothing but the order. The states are ``states.SEQUENCE``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, Final

from edged.actions.action import Purpose, RunSequence
from edged.actions.cause import CALLER_GONE, ENGINE_STOPPED, Cause, cause_of
from edged.errors import Conflict, EdgedError, ErrorCode, Failed, Invalid, NotFound
from edged.profiles.arguments import WITHIN
from edged.profiles.model import Sequence
from edged.profiles.step_values import fill
from edged.record import record
from edged.runs.bench import Bench
from edged.runs.left_work import LeftWork
from edged.runs.ports import (
    NewPlan,
    Precheck,
    Recorder,
    RowSink,
    RunNotes,
)
from edged.runs.run_head import RunNow
from edged.runs.sequences.run import SequenceJournal, SequenceRun
from edged.runs.sequences.steps import SequenceCheck, SequenceSteps, table_head
from edged.runs.states import SEQUENCE, RunEvent, RunState, next_state
from edged.runs.wording import ALL_STEPS_DONE, held_by, stopped_by
from edged.store.journal import JournalKind
from edged.yaml.tree import Scalar

MOST_ENDED: Final = 100
"""Runs that are over and still told of from memory; all are on the disk."""


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


@record
class SequenceForecast:
    """How many steps a sequence would do, how long it waits between them, what hangs on answers."""

    steps: int
    waits_s: float
    later: Mapping[str, str]


class SequenceRegistry:
    """The sequences that are running.

    Args:
        recorder: keeps who ran what, and the rows.
        notes: told of each that writes.
        new_plan: judges all steps of a run before its first.
    """

    def __init__(
        self, bench: Bench, *, recorder: Recorder, notes: RunNotes, new_plan: NewPlan
    ) -> None:
        self._bench = bench
        self._notes = notes
        self._new_plan = new_plan
        self._recorder = recorder
        self._steps = SequenceSteps(bench)
        self._journal = SequenceJournal(bench=bench)
        self._running: dict[str, SequenceRun] = {}
        # How the last ones ended, and what a former life of the daemon left; the oldest first.
        self._over: dict[str, RunNow] = {}
        # Runs without a client, and recordings that are being written.
        self._tasks: set[asyncio.Task[None]] = set()

    def running(self) -> tuple[dict[str, Any], ...]:
        """Each that runs: {run_id, instrument_id, sequence_name, steps_executed, …}."""
        return tuple(
            {
                "run_id": run.run_id,
                "instrument_id": run.action.instrument_id,
                "sequence_name": run.sequence.name,
                "steps_executed": run.steps_executed,
                "started_ms": run.started_ms,
                "who": run.caller.who,
            }
            for run in self._running.values()
        )

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
        return await self._to_end(run)

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
        self._keep(self._alone(run), run.run_id)
        return run.run_id

    async def _alone(self, run: SequenceRun) -> None:
        # What it raises stands in the run's state; nobody else waits for it.
        with contextlib.suppress(EdgedError):
            await self._to_end(run)

    def _keep(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

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
        self._running[run.run_id] = run
        if alone_on:
            self._notes.run_began(run.run_id, alone_on, action.caller)
        try:
            await SequenceCheck(self._bench.precheck, self._new_plan).check(run)
        except BaseException:
            run.over.set()
            self._forget(run)
            raise
        run.opening = asyncio.create_task(
            self._recorder.open(run.head), name=f"{run.run_id}-record"
        )
        return run

    async def _to_end(self, run: SequenceRun) -> SequenceResult:
        result: dict[str, Any] = {}
        try:
            run.tell(f"{run.sequence.name} runs as {run.run_id}.")
            async with self._journalled(run):
                await self._run_to_end(run)
            result = {**run.result}
            run.reason = ALL_STEPS_DONE
        except EdgedError as failed:
            if run.state is not RunState.STOPPED:
                run.error = str(failed)
            raise
        except asyncio.CancelledError as cancelled:
            run.reason = run.reason or f"{_why_gone(cause_of(cancelled))} before its first step"
            raise
        finally:
            run.over.set()
            # Nothing more is sent: its last words keep nobody else from the unit.
            self._let_go(run)
            try:
                await self._settle(run, result)
            finally:
                self._forget(run)
        return SequenceResult(
            run_id=run.run_id,
            result={**result, "rows": run.rows} if run.rows else result,
            steps_executed=run.steps_executed,
            sent=tuple(run.sent),
            recording=run.recording.told() if run.recording else None,
            notes=tuple(run.notes()),
        )

    def _forget(self, run: SequenceRun) -> None:
        del self._running[run.run_id]
        self._let_go(run)

    def _let_go(self, run: SequenceRun) -> None:
        self._notes.run_ended(run.run_id)

    async def _settle(self, run: SequenceRun, result: Mapping[str, Any]) -> None:
        """Its last words: memory and recording."""
        if run.state is RunState.RUNNING:
            # It did not come to its first step.
            run.state = RunState.FAILED
        summary = {
            "steps_executed": run.steps_executed,
            "result": dict(result),
            "reason": run.reason,
            "error": _error_of(run),
            "notes": run.notes(),
            "left": run.what_is_left(),
        }
        self._over[run.run_id] = _run_now(run)
        while len(self._over) > MOST_ENDED:
            del self._over[next(iter(self._over))]
        if run.recording is not None:
            # Whoever goes away meanwhile leaves no recording half ended.
            await asyncio.shield(run.recording.close(run.status, summary))
        elif run.opening is not None:
            # Nobody waits for the disk: what it says stands in the answer already.
            self._keep(_close(run.opening, run.state, summary), f"{run.run_id}-recorded")

    def runs(self) -> tuple[RunNow, ...]:
        """Those that run, and the last ones that are over."""
        return (*self._over.values(), *map(_run_now, self._running.values()))

    def adopt(self, left: Iterable[LeftWork]) -> None:
        """Tell of sequences that were found after a crash."""
        for found in left:
            if found.entry.kind is JournalKind.SEQUENCE:
                self._over[found.entry.id] = found.as_run()

    async def stop(self, run_id: str, who: str) -> RunNow:
        """End one, and tell how it ended; one that is over stays as it is.

        Raises:
            NotFound: UNKNOWN_RUN.
        """
        run = self._running.get(run_id)
        if run is not None:
            _end(run, stopped_by(who))
            await run.over.wait()
            return _run_now(run)
        over = self._over.get(run_id)
        if over is None:
            raise NotFound(
                f"There is no sequence {run_id[:100]!r}.",
                code=ErrorCode.UNKNOWN_RUN,
                data={"run_id": run_id[:100]},
            )
        return over

    async def close(self) -> None:
        """The daemon stops: end every one, and have them written down."""
        await self.stop_all(ENGINE_STOPPED)
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def stop_all(
        self, cause: Cause, is_meant: Callable[[str], bool] = lambda _: True
    ) -> list[str]:
        """End every running sequence; returns their ids when their ``finally`` steps have run.

        Args:
            is_meant: judges by the name of the instrument, as the caller spelled it.
        """
        ending = [run for run in self._running.values() if is_meant(run.action.instrument_id)]
        for run in ending:
            _end(run, cause)
        for run in ending:
            await run.over.wait()
        return [run.run_id for run in ending]

    async def fail_all(
        self, cause: Cause, error: EdgedError, is_meant: Callable[[str], bool]
    ) -> list[str]:
        """What they work is not what it was: the same, and they have failed by this."""
        for run in self._running.values():
            if is_meant(run.action.instrument_id):
                run.failed_by = error
        return await self.stop_all(cause, is_meant)

    async def rehearse(
        self,
        action: RunSequence,
        sequence: Sequence,
        values: Mapping[str, Scalar],
        precheck: Precheck,
    ) -> SequenceForecast:
        """Judge every step as before a run, and run none.

        Args:
            precheck: judges each step, and takes note of what it would send.

        Raises:
            EdgedError: a step would be refused.
        """
        run = self._new_run(action, sequence, values)
        await SequenceCheck(precheck, self._new_plan).check(run)
        return SequenceForecast(steps=run.step_count, waits_s=run.waits_s, later=run.later)

    def held_by(self, sequence: Sequence, alone_on: str) -> Conflict | None:
        """The sequence that runs there already and would mix its steps with this one's."""
        for run in self._running.values():
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
        return SequenceRun(
            alone_on=alone_on,
            began=self._bench.clock.monotonic(),
            started_ms=started_ms,
            run_id=run_id,
            new_id=self._bench.new_id,
            action=action,
            sequence=sequence,
            caller=caller,
            head=table_head(run_id, action, sequence, values, caller, started_ms),
            profile=self._bench.pool.get(action.instrument_id).profile,
            values={**values},
        )

    def _journalled(self, run: SequenceRun) -> AbstractAsyncContextManager[None]:
        """What must run at the end stands in the journal, as far as it is known beforehand."""
        if not run.sequence.finally_steps:
            return contextlib.nullcontext()
        return self._journal.kept(run)

    async def _run_to_end(self, run: SequenceRun) -> None:
        """Body, then ``finally``, then the state; raises what the body raised."""
        _refuse_stopped(run)
        run.body = asyncio.create_task(
            self._steps.do_all(run, run.sequence.steps, Purpose.SEQUENCE_STEP), name=run.run_id
        )
        failure: BaseException | None = None
        event = RunEvent.DONE
        try:
            await run.body
        except asyncio.CancelledError as gone:
            run.gone_for = None if run.is_stopped else cause_of(gone)
            event = RunEvent.STOP if run.is_stopped else RunEvent.CLIENT_GONE
            failure = gone
            if run.failed_by is not None:
                event, failure = RunEvent.FAILURE, run.failed_by
        except EdgedError as failed:
            event, failure = RunEvent.FAILURE, failed
        done, what = run.steps_executed, ""
        finally_error = await self._finally(run)
        if run.skipped and event is RunEvent.DONE:
            event = RunEvent.STOP
        if event is RunEvent.DONE:
            try:
                run.result = {n: fill(text, run.values) for n, text in run.sequence.result.items()}
            except Invalid as unfit:
                event, failure = RunEvent.FAILURE, unfit
                what = "its result cannot be worked out"
        run.state = next_state(
            SEQUENCE, run.state, event, is_clean_up_failed=finally_error is not None
        )
        if run.gone_for is not None:
            run.reason = f"{_why_gone(run.gone_for)} after {done} steps"
            if finally_error is not None:
                run.error = f"Its finally steps failed: {finally_error}"
            raise asyncio.CancelledError(run.gone_for) from failure
        if finally_error is not None:
            raise self._failed(run, "its finally steps failed", finally_error)
        if event is RunEvent.STOP:
            raise Failed(
                f"The sequence {run.sequence.name} was stopped after {run.steps_executed} steps "
                f"({run.reason}); "
                f"{run.what_was_skipped() if run.skipped else 'its finally steps have run'}.",
                code=ErrorCode.CANCELLED,
                sent=tuple(run.sent),
                data=_told(run),
            )
        if isinstance(failure, EdgedError):
            what = what or f"step {run.steps_executed + 1} failed"
            raise self._failed(run, what, failure)

    def _failed(self, run: SequenceRun, what: str, cause: EdgedError) -> Failed:
        return Failed(
            f"The sequence {run.sequence.name} did not complete, because {what}: {cause.message}",
            code=ErrorCode.STEP_FAILED,
            remedy="" if run.sent and cause.remedy == WITHIN else cause.remedy,
            sent=tuple(run.sent),
            data={**_told(run), "cause": cause.code.value},
        )

    async def _finally(self, run: SequenceRun) -> EdgedError | None:
        """Run the ``finally`` steps to their end or deadline, whoever cancels meanwhile."""
        if not run.sequence.finally_steps:
            return None
        ending = asyncio.create_task(self._finally_steps(run), name=f"{run.run_id}-finally")
        while not ending.done():
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError as gone:
                run.gone_for = cause_of(gone)
        return ending.result()

    async def _finally_steps(self, run: SequenceRun) -> EdgedError | None:
        """Every ``finally`` step is tried, also after one that failed; the first error is told."""
        first: EdgedError | None = None
        try:
            async with asyncio.timeout(run.sequence.finally_timeout_ms / 1000):
                for step in run.sequence.finally_steps:
                    try:
                        await self._steps.do(run, step, Purpose.FINALLY_STEP)
                    except EdgedError as error:
                        first = first or error
        except TimeoutError:
            return first or Failed(
                f"They took longer than {run.sequence.finally_timeout_ms} ms.",
                code=ErrorCode.TIMEOUT,
                remedy="Look at the instrument: its outputs may still be on.",
            )
        return first


def _end(run: SequenceRun, cause: Cause) -> None:
    run.is_stopped = True
    run.reason = run.reason or cause.reason
    run.is_safe_only = run.is_safe_only or cause.is_safe_only
    if run.is_safe_only and run.unsafe_step is not None:
        run.unsafe_step.cancel(cause)
    if run.body is not None:
        run.body.cancel(cause)


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


def _error_of(run: SequenceRun) -> str:
    """What went wrong, and what one that did not complete has left set."""
    left = run.what_is_left()
    if run.state in {RunState.RUNNING, RunState.COMPLETED} or not left:
        return run.error
    return f"{run.error} It set the following, and did not undo it: {'; '.join(left)}.".strip()


def _run_now(run: SequenceRun) -> RunNow:
    return RunNow(
        head=run.head,
        state=run.status,
        started_ms=run.started_ms,
        rows=len(run.rows),
        reason=run.reason,
        error=_error_of(run),
        notes=tuple(run.notes()),
        result=run.result,
    )


async def _close(
    opening: asyncio.Task[RowSink], state: RunState, summary: Mapping[str, Any]
) -> None:
    """End the recording of a run without rows."""
    recording = await opening
    await recording.close(SEQUENCE.states[state], summary)


def _refuse_stopped(run: SequenceRun) -> None:
    """Raises if the run was stopped while it was being prepared."""
    if run.is_stopped:
        raise Failed(
            f"{run.sequence.name} did not begin, because {run.reason}; nothing was sent.",
            code=ErrorCode.CANCELLED,
            remedy="Somebody stopped it to make it safe: ask before you start again.",
        )
