"""The steps of a sequence, done: each action goes through the command path, answers are saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, assert_never

from edged.actions.action import Purpose, RunCommand, SendScpi
from edged.actions.outcome import Outcome
from edged.clock import Clock
from edged.errors import ErrorCode, Failed, Invalid
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
    Step,
    WaitStep,
)
from edged.work.ports import Perform, Recorder
from edged.work.sequence_run import SequenceRun, command_of, query_of
from edged.work.sequence_values import fill, loop_values, number, saved
from edged.work.table_run import row_cells, table_head

__all__ = ["SequenceSteps"]

MAX_ROWS: Final = 1_000_000


class SequenceSteps:
    """Does steps.

    Args:
        perform: the command path.
        clock: for waits and polls.
        recorder: records tables; ``None`` records none.
    """

    def __init__(self, *, perform: Perform, clock: Clock, recorder: Recorder | None) -> None:
        self._perform = perform
        self._clock = clock
        self._recorder = recorder

    async def do_all(self, run: SequenceRun, steps: tuple[Step, ...], purpose: Purpose) -> None:
        """Do steps in order.

        Raises:
            EdgedError: what the first one that failed ended with.
        """
        for step in steps:
            await self.do(run, step, purpose)

    async def do(self, run: SequenceRun, step: Step, purpose: Purpose) -> None:
        """Do one step.

        Raises:
            EdgedError: what it ended with.
        """
        match step:
            case CommandStep():
                outcome = await self._act(run, command_of(run, step, run.values, purpose))
                if step.save_as:
                    run.values.update(saved(step.save_as, *_data_and_primary(outcome)))
            case QueryStep():
                outcome = await self._act(run, query_of(run, step.query, run.values, purpose))
                answer = parse_answer(ScalarAnswer(type=step.type), outcome.data["response"], {})
                run.values.update(saved(step.save_as, answer.value))
            case WaitStep():
                await self._clock.sleep(number(step.wait_ms, run.values, "wait_ms") / 1000)
            case PollStep():
                await self._poll(run, step, purpose)
            case ForStep():
                for value in loop_values(step, run.values):
                    run.values[step.name] = value
                    await self.do_all(run, step.steps, purpose)
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

    async def _record(self, run: SequenceRun, row: Mapping[str, Any]) -> None:
        """Record a row; the first one begins the recording."""
        if self._recorder is None:
            return
        if run.table is None:
            run.table = table_head(run.run_id, run.action, run.sequence, run.caller)
        if run.recording is None:
            run.recording = await self._recorder.open(run.table)
        run.recording.append(row_cells(run.table, row))

    async def _poll(self, run: SequenceRun, step: PollStep, purpose: Purpose) -> None:
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

    async def _polled(self, run: SequenceRun, step: PollStep, purpose: Purpose) -> Scalar | None:
        if step.is_command:
            asked = CommandStep(command=step.poll, parameters=step.parameters)
            outcome = await self._act(run, command_of(run, asked, run.values, purpose))
            data, primary = _data_and_primary(outcome)
            return primary if isinstance(data, Mapping) else data
        outcome = await self._act(run, query_of(run, step.poll, run.values, purpose))
        text = str(outcome.data["response"])
        try:
            return float(text)
        except ValueError:
            return text

    async def _act(self, run: SequenceRun, action: RunCommand | SendScpi) -> Outcome:
        outcome = await self._perform(action)
        run.sent.extend(outcome.scpi)
        if outcome.error is not None:
            raise outcome.error
        return outcome


def _data_and_primary(outcome: Outcome) -> tuple[Any, float | None]:
    """The answer inside execute_command's own shape, and its leading number."""
    data = outcome.data.get("data")
    primary = outcome.data.get("primary")
    return data, primary
