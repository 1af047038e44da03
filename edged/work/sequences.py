"""Runs a profile's sequences: steps in order, answers saved, ``finally`` whatever happens.

Each step goes through the command path as the caller who started the sequence; this module sends
nothing by itself and judges nothing but the order. The states are ``states.SEQUENCE``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, assert_never

from edged.actions.action import Purpose, RunCommand, RunSequence, SendScpi
from edged.actions.caller import Caller
from edged.actions.outcome import Outcome
from edged.clock import Clock
from edged.errors import EdgedError, ErrorCode, Failed, Invalid
from edged.profiles.answers import parse_answer
from edged.profiles.expr import compile_expression
from edged.profiles.model import (
    CommandStep,
    ForStep,
    PollStep,
    QueryStep,
    RowStep,
    Scalar,
    ScalarAnswer,
    Sequence,
    Step,
    WaitStep,
)
from edged.profiles.raw import is_query
from edged.profiles.render import placeholders, render
from edged.work.ports import NewId, Perform, Precheck, Recorder, RowSink
from edged.work.run_head import RunHead
from edged.work.sequence_journal import SequenceJournal
from edged.work.sequence_values import (
    UNKNOWN,
    NotKnownYet,
    Values,
    fill,
    loop_values,
    number,
    saved,
)
from edged.work.states import SequenceEvent, SequenceState, next_sequence_state
from edged.work.table_run import row_cells, table_head

__all__ = ["SequenceBook", "SequenceResult"]

MAX_ROWS: Final = 1_000_000
MAX_CLEAN_UP: Final = 200
"""Lines of ``finally`` that the journal keeps."""
CHECKS_A_TURN: Final = 200
"""Steps checked before the loop gets a turn: a table of 100,000 rows must not block it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceResult:
    """What a completed sequence returns: named values (and ``rows``), and how many steps ran.

    ``recording`` is where its table was recorded, ``None`` without one.
    """

    result: Mapping[str, Any]
    steps_executed: int
    sent: tuple[str, ...]
    recording: Mapping[str, Any] | None = None


@dataclass(slots=True, kw_only=True)
class _Run:
    """One run of one sequence on one instrument."""

    run_id: str
    action: RunSequence
    sequence: Sequence
    caller: Caller
    values: Values
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


class SequenceBook:
    """The sequences that are running.

    Args:
        perform: the command path.
        precheck: the command path's judgement without its effect.
        new_id: makes action ids.
        clock: for waits and polls.
        recorder: records tables; ``None`` records none.
        journal: keeps the lines of ``finally`` for a start after a crash; ``None`` keeps none.
    """

    def __init__(
        self,
        *,
        perform: Perform,
        precheck: Precheck,
        new_id: NewId,
        clock: Clock,
        recorder: Recorder | None = None,
        journal: SequenceJournal | None = None,
    ) -> None:
        self._perform = perform
        self._precheck = precheck
        self._new_id = new_id
        self._clock = clock
        self._recorder = recorder
        self._journal = journal
        self._running: dict[str, _Run] = {}

    def running(self) -> tuple[dict[str, Any], ...]:
        """One entry a running sequence: {run_id, instrument_id, sequence_name, steps_executed}."""
        return tuple(
            {
                "run_id": run.run_id,
                "instrument_id": run.action.instrument_id,
                "sequence_name": run.sequence.name,
                "steps_executed": run.steps_executed,
            }
            for run in self._running.values()
        )

    async def run(
        self, action: RunSequence, sequence: Sequence, values: Mapping[str, Scalar]
    ) -> SequenceResult:
        """Run to the end, ``finally`` included.

        Raises:
            Failed: a step failed (STEP_FAILED; what had been sent is in ``sent``), the sequence was
                stopped (CANCELLED), or ``finally`` failed.
            EdgedError: a step was refused before the first was sent.
            asyncio.CancelledError: the caller went away; ``finally`` has run.
        """
        run = _Run(
            run_id=f"seq-{action.action_id}",
            action=action,
            sequence=sequence,
            caller=action.caller.nested(
                tool=action.tool, scope=sequence.name, on_behalf_of=f"seq-{action.action_id}"
            ),
            values={**values},
        )
        await self._check(run)
        self._running[run.run_id] = run
        try:
            async with self._journalled(run):
                await self._run_to_end(run)
        finally:
            run.over.set()
            if run.recording is not None:
                await run.recording.close(run.state.value)
            del self._running[run.run_id]
        result = {name: fill(text, run.values) for name, text in sequence.result.items()}
        return SequenceResult(
            result={**result, "rows": run.rows} if run.rows else result,
            steps_executed=run.steps_executed,
            sent=tuple(run.sent),
            recording=run.recording.told() if run.recording else None,
        )

    async def stop_all(self, is_meant: Callable[[str], bool] = lambda _: True) -> list[str]:
        """End every running sequence; returns their ids when their ``finally`` steps have run.

        Args:
            is_meant: judges by the name of the instrument, as the caller spelled it.
        """
        ending = [run for run in self._running.values() if is_meant(run.action.instrument_id)]
        for run in ending:
            run.is_stopped = True
            if run.body is not None:
                run.body.cancel()
        for run in ending:
            await run.over.wait()
        return [run.run_id for run in ending]

    def _journalled(self, run: _Run) -> AbstractAsyncContextManager[None]:
        """What must run at the end stands in the journal, as far as it is known beforehand."""
        if self._journal is None or not run.sequence.finally_steps:
            return contextlib.nullcontext()
        return self._journal.kept(
            run.run_id, run.action.instrument_id, run.sequence.name, tuple(run.clean_up)
        )

    async def _run_to_end(self, run: _Run) -> None:
        """Body, then ``finally``, then the state; raises what the body raised."""
        _refuse_stopped(run)
        run.body = asyncio.create_task(
            self._steps(run, run.sequence.steps, Purpose.SEQUENCE_STEP), name=run.run_id
        )
        failure: BaseException | None = None
        event = SequenceEvent.DONE
        try:
            await run.body
        except asyncio.CancelledError as gone:
            run.is_client_gone = not run.is_stopped
            event = SequenceEvent.STOP if run.is_stopped else SequenceEvent.CLIENT_GONE
            failure = gone
        except EdgedError as failed:
            event, failure = SequenceEvent.STEP_FAILED, failed
        finally_error = await self._finally(run)
        run.state = next_sequence_state(run.state, event, finally_failed=finally_error is not None)
        if run.is_client_gone:
            raise asyncio.CancelledError from failure
        if finally_error is not None:
            raise self._failed(run, "its finally steps failed", finally_error)
        if event is SequenceEvent.STOP:
            raise Failed(
                f"The sequence {run.sequence.name} was stopped after {run.steps_executed} steps; "
                "its finally steps have run.",
                code=ErrorCode.CANCELLED,
                sent=tuple(run.sent),
                data={"steps_executed": run.steps_executed, "state": run.state.value},
            )
        if isinstance(failure, EdgedError):
            raise self._failed(run, f"step {run.steps_executed + 1} failed", failure)

    def _failed(self, run: _Run, what: str, cause: EdgedError) -> Failed:
        return Failed(
            f"The sequence {run.sequence.name} did not complete, because {what}: {cause.message}",
            code=ErrorCode.STEP_FAILED,
            remedy=cause.remedy,
            sent=tuple(run.sent),
            data={
                "steps_executed": run.steps_executed,
                "state": run.state.value,
                "cause": cause.code.value,
            },
        )

    async def _finally(self, run: _Run) -> EdgedError | None:
        """Run the ``finally`` steps to their end or deadline, whoever cancels meanwhile."""
        if not run.sequence.finally_steps:
            return None
        ending = asyncio.create_task(self._finally_steps(run), name=f"{run.run_id}-finally")
        while not ending.done():
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:
                run.is_client_gone = True
        return ending.result()

    async def _finally_steps(self, run: _Run) -> EdgedError | None:
        """Every ``finally`` step is tried, also after one that failed; the first error is told."""
        first: EdgedError | None = None
        try:
            async with asyncio.timeout(run.sequence.finally_timeout_ms / 1000):
                for step in run.sequence.finally_steps:
                    try:
                        await self._step(run, step, Purpose.FINALLY_STEP)
                    except EdgedError as error:
                        first = first or error
        except TimeoutError:
            return first or Failed(
                f"They took longer than {run.sequence.finally_timeout_ms} ms.",
                code=ErrorCode.TIMEOUT,
                remedy="Look at the instrument: its outputs may still be on.",
            )
        return first

    async def _steps(self, run: _Run, steps: tuple[Step, ...], purpose: Purpose) -> None:
        for step in steps:
            await self._step(run, step, purpose)

    async def _step(self, run: _Run, step: Step, purpose: Purpose) -> None:
        match step:
            case CommandStep():
                outcome = await self._act(run, self._command(run, step, run.values, purpose))
                if step.save_as:
                    run.values.update(saved(step.save_as, *_data_and_primary(outcome)))
            case QueryStep():
                outcome = await self._act(run, self._query(run, step.query, run.values, purpose))
                answer = parse_answer(ScalarAnswer(type=step.type), outcome.data["response"], {})
                run.values.update(saved(step.save_as, answer.value))
            case WaitStep():
                await self._clock.sleep(number(step.wait_ms, run.values, "wait_ms") / 1000)
            case PollStep():
                await self._poll(run, step, purpose)
            case ForStep():
                for value in loop_values(step, run.values):
                    run.values[step.name] = value
                    await self._steps(run, step.steps, purpose)
                return
            case RowStep():
                if len(run.rows) >= MAX_ROWS:
                    raise Invalid(f"A sequence returns at most {MAX_ROWS} rows.")
                row = {k: fill(v, run.values, is_bare=True) for k, v in step.columns.items()}
                run.rows.append(row)
                await self._record(run, row)
            case _:
                assert_never(step)
        run.steps_executed += 1

    async def _record(self, run: _Run, row: Mapping[str, Any]) -> None:
        """Record a row; the first one begins the recording."""
        if self._recorder is None:
            return
        if run.table is None:
            run.table = table_head(run.run_id, run.action, run.sequence, run.caller)
        if run.recording is None:
            run.recording = await self._recorder.open(run.table)
        run.recording.append(row_cells(run.table, row))

    async def _poll(self, run: _Run, step: PollStep, purpose: Purpose) -> None:
        until = compile_expression(step.until)
        give_up = self._clock.monotonic() + step.timeout_ms / 1000
        while True:
            value = await self._polled(run, step, purpose)
            known = {
                name: v for name, v in run.values.items() if isinstance(v, int | float | str | bool)
            }
            if value is not None and until.evaluate({**known, "value": value}) is True:
                return
            if self._clock.monotonic() >= give_up:
                raise Failed(
                    f"{step.poll} answered {value!r} at the last; {step.until!r} did not become "
                    f"true within {step.timeout_ms} ms.",
                    code=ErrorCode.TIMEOUT,
                )
            await self._clock.sleep(step.every_ms / 1000)

    async def _polled(self, run: _Run, step: PollStep, purpose: Purpose) -> Scalar | None:
        if step.is_command:
            asked = CommandStep(command=step.poll, parameters=step.parameters)
            outcome = await self._act(run, self._command(run, asked, run.values, purpose))
            data, primary = _data_and_primary(outcome)
            return primary if isinstance(data, Mapping) else data
        outcome = await self._act(run, self._query(run, step.poll, run.values, purpose))
        text = str(outcome.data["response"])
        try:
            return float(text)
        except ValueError:
            return text

    async def _act(self, run: _Run, action: RunCommand | SendScpi) -> Outcome:
        outcome = await self._perform(action)
        run.sent.extend(outcome.scpi)
        if outcome.error is not None:
            raise outcome.error
        return outcome

    def _command(
        self, run: _Run, step: CommandStep, values: Values, purpose: Purpose
    ) -> RunCommand:
        return RunCommand(
            tool=run.action.tool,
            caller=run.caller,
            action_id=self._new_id(),
            parent_id=run.action.action_id,
            instrument_id=run.action.instrument_id,
            command_name=step.command,
            parameters={name: fill(value, values) for name, value in step.parameters.items()},
            purpose=purpose,
        )

    def _query(self, run: _Run, template: str, values: Values, purpose: Purpose) -> SendScpi:
        return SendScpi(
            tool=run.action.tool,
            caller=run.caller,
            action_id=self._new_id(),
            parent_id=run.action.action_id,
            instrument_id=run.action.instrument_id,
            scpi=_rendered(template, run.sequence, values),
            purpose=purpose,
        )

    async def _check(self, run: _Run) -> None:
        """Judge every step that does not depend on an answer, before the first is sent.

        Raises:
            EdgedError: what the path would say of that step.
        """
        values = dict(run.values)
        await self._check_steps(run, run.sequence.steps, values)
        run.is_gathering = True
        await self._check_steps(run, run.sequence.finally_steps, values)

    async def _check_steps(self, run: _Run, steps: tuple[Step, ...], values: Values) -> None:
        for step in steps:
            run.step_count += 1
            if run.step_count % CHECKS_A_TURN == 0:
                await asyncio.sleep(0)
            try:
                await self._check_step(run, step, values)
            except NotKnownYet:
                continue

    async def _check_step(self, run: _Run, step: Step, values: Values) -> None:
        match step:
            case CommandStep():
                if step.save_as:
                    values[step.save_as] = UNKNOWN
                lines = self._precheck(self._command(run, step, values, Purpose.SEQUENCE_STEP))
                if run.is_gathering and len(run.clean_up) < MAX_CLEAN_UP:
                    run.clean_up += [line for line in lines if not is_query(line)]
            case QueryStep():
                values[step.save_as] = UNKNOWN
                self._precheck(self._query(run, step.query, values, Purpose.SEQUENCE_STEP))
            case ForStep():
                for value in loop_values(step, values):
                    values[step.name] = value
                    await self._check_steps(run, step.steps, values)
            case PollStep() if step.is_command:
                asked = CommandStep(command=step.poll, parameters=step.parameters)
                self._precheck(self._command(run, asked, values, Purpose.SEQUENCE_STEP))
            case PollStep() | WaitStep() | RowStep():
                return
            case _:
                assert_never(step)


def _refuse_stopped(run: _Run) -> None:
    """Raises if everything was stopped while the run was being prepared."""
    if run.is_stopped:
        raise Failed(
            f"Everything was stopped before {run.sequence.name} began; nothing was sent.",
            code=ErrorCode.CANCELLED,
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


def _data_and_primary(outcome: Outcome) -> tuple[Any, float | None]:
    """The answer inside execute_command's own shape, and its leading number."""
    data = outcome.data.get("data")
    primary = outcome.data.get("primary")
    return data, primary
