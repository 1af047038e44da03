"""The steps of a sequence, done: each action goes through the command path, answers are saved.

Beside it the recording of a table: its columns, and its rows as cells. Pure.

And the judgement of a sequence before its first step is sent: each step that can be known now.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any, Final

from edged.actions.action import Purpose, RunCommand, RunSequence, SendScpi
from edged.actions.caller import Caller
from edged.actions.outcome import Outcome
from edged.errors import ErrorCode, Failed, Invalid
from edged.profiles.answers import parse_answer
from edged.profiles.expr import Expression, compile_expression
from edged.profiles.model import (
    CommandStep,
    ForStep,
    PollStep,
    QueryStep,
    RowStep,
    ScalarAnswer,
    Sequence,
    Step,
    WaitStep,
    walk,
)
from edged.profiles.raw import asks, sets
from edged.profiles.step_values import UNKNOWN, NotKnownYet, fill, loop_values, number, saved
from edged.runs.bench import Bench
from edged.runs.notes import is_limited
from edged.runs.ports import NewPlan, Precheck
from edged.runs.run_head import Column, RunHead, RunKind
from edged.runs.sequences.run import (
    SequenceRun,
    command_of,
    place_set,
    query_of,
)
from edged.scpi.answer_text import bad_answer, plain_value
from edged.yaml.tree import Scalar


def _holds(step: PollStep, until: Expression, values: Mapping[str, Scalar]) -> bool:
    """Whether a poll is at its end.

    Raises:
        Failed: BAD_ANSWER, its condition cannot be judged by this answer.
    """
    try:
        return until.evaluate(values) is True
    except Invalid as unfit:
        why = f"`until` of its step cannot judge: {unfit.message.rstrip('.')}"
        raise bad_answer(f'"{step.poll}"', str(values["value"]), why, CORRECT_UNTIL) from unfit


def table_head(
    run_id: str,
    action: RunSequence,
    sequence: Sequence,
    values: Mapping[str, Scalar],
    caller: Caller,
    started_ms: int,
) -> RunHead:
    """What is recorded: one column for each that any ``row`` step of the sequence fills."""
    steps = (*sequence.steps, *sequence.finally_steps)
    rows = (step for step in walk(steps) if isinstance(step, RowStep))
    names = dict.fromkeys(name for row in rows for name in row.columns)
    return RunHead(
        kind=RunKind.SEQUENCE,
        run_id=run_id,
        instrument_id=action.instrument_id,
        command_name=sequence.name,
        columns=tuple(Column(name=name) for name in names),
        caller=caller,
        parameters=dict(values),
        sets_up=True,
        started_ms=started_ms,
    )


def row_cells(head: RunHead, row: Mapping[str, Any]) -> tuple[Scalar | None, ...]:
    """One row in the order of the columns; what is no scalar goes as JSON."""
    return tuple(_cell(row.get(column.name)) for column in head.columns)


def _cell(value: Any) -> Scalar | None:
    return value if isinstance(value, Scalar | None) else json.dumps(value, default=str)


MAX_ROWS: Final = 1_000_000
CORRECT_UNTIL: Final = "Correct `until` in its profile. What was sent before has taken effect."


class SequenceSteps:
    """Does steps."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    async def do_all(self, run: SequenceRun, steps: tuple[Step, ...], purpose: Purpose) -> None:
        """Do steps in order.

        Raises:
            EdgedError: what the first one that failed ended with.
        """
        for step in steps:
            await self.do(run, step, purpose)

    async def do(self, run: SequenceRun, step: Step, purpose: Purpose) -> None:
        """Do one step; of ``finally`` only a safe command, once ``run.is_safe_only``.

        Raises:
            EdgedError: what it ended with.
        """
        if purpose is not Purpose.FINALLY_STEP or _is_safe(run, step):
            await self._do(run, step, purpose)
            return
        if not run.is_safe_only:
            run.unsafe_step = asyncio.ensure_future(self._do(run, step, purpose))
            with contextlib.suppress(asyncio.CancelledError):
                await run.unsafe_step
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise asyncio.CancelledError
            if not run.unsafe_step.cancelled():
                return
        run.skipped[_named(step)] = None

    async def _do(self, run: SequenceRun, step: Step, purpose: Purpose) -> None:
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
                await self._bench.clock.sleep(number(step.wait_ms, run.values, "wait_ms") / 1000)
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
                run.row_count += 1
                run.limited += is_limited(row)
                await self._record(run, row)
            case _:
                raise TypeError(step)
        run.steps_executed += 1

    async def _record(self, run: SequenceRun, row: Mapping[str, Any]) -> None:
        """Record a row, once the recording is there to take it."""
        if run.opening is None:
            return
        run.sink = await asyncio.shield(run.opening)
        run.sink.append(row_cells(run.head, row))
        run.tell(json.dumps(row, default=str))

    async def _poll(self, run: SequenceRun, step: PollStep, purpose: Purpose) -> None:
        until = compile_expression(step.until)
        give_up = self._bench.clock.monotonic() + step.timeout_ms / 1000
        while True:
            value = await self._polled(run, step, purpose)
            known = {
                name: v for name, v in run.values.items() if isinstance(v, int | float | str | bool)
            }
            if value is not None and _holds(step, until, {**known, "value": value}):
                return
            if self._bench.clock.monotonic() >= give_up:
                raise Failed(
                    f"{step.poll} answered {value!r} at the last; {step.until!r} did not become "
                    f"true within {step.timeout_ms} ms.",
                    code=ErrorCode.TIMEOUT,
                )
            await self._bench.clock.sleep(step.every_ms / 1000)

    async def _polled(self, run: SequenceRun, step: PollStep, purpose: Purpose) -> Scalar | None:
        if step.is_command:
            asked = CommandStep(command=step.poll, parameters=step.parameters)
            outcome = await self._act(run, command_of(run, asked, run.values, purpose))
            data, primary = _data_and_primary(outcome)
            return primary if isinstance(data, Mapping | list) else data
        outcome = await self._act(run, query_of(run, step.poll, run.values, purpose))
        return plain_value(str(outcome.data["response"]))

    async def _act(self, run: SequenceRun, action: RunCommand | SendScpi) -> Outcome:
        outcome = await self._bench.perform(action)
        run.sent.extend(outcome.scpi)
        for line in outcome.scpi:
            if sets(run.profile, line):
                place = place_set(line)
                run.left.pop(place, None)
                run.left[place] = line
        if outcome.error is not None:
            raise outcome.error
        return outcome


def _is_safe(run: SequenceRun, step: Step) -> bool:
    """Whether a step is a safe command, or a loop, whose steps are judged one by one."""
    if not isinstance(step, CommandStep):
        return isinstance(step, ForStep)
    command = run.profile.commands.get(step.command) if run.profile is not None else None
    return command is not None and command.is_safe


def _data_and_primary(outcome: Outcome) -> tuple[Any, float | None]:
    """The answer inside execute_command's own shape, and its leading number."""
    data = outcome.data.get("data")
    primary = outcome.data.get("primary")
    return data, primary


MAX_CLEAN_UP: Final = 200
"""Lines of ``finally`` that the journal keeps."""
HANGS: Final = "depends on an earlier answer: checked when the step runs"
CHECKS_A_TURN: Final = 200
"""Steps checked before the loop gets a turn: a table of 100,000 rows must not block it."""


class SequenceCheck:
    """Judges steps.

    Args:
        precheck: the command path's judgement without its effect.
        new_plan: begins the plan that takes all steps of a run.
    """

    def __init__(self, precheck: Precheck, new_plan: NewPlan) -> None:
        self._precheck = precheck
        self._plan = new_plan()

    async def check(self, run: SequenceRun) -> None:
        """Judge every step that does not depend on an answer, and gather the lines of ``finally``.

        Raises:
            EdgedError: what the path would say of that step.
        """
        values = dict(run.values)
        await self._check_steps(run, run.sequence.steps, values)
        run.is_gathering = True
        await self._check_steps(run, run.sequence.finally_steps, values)

    def _judge(self, run: SequenceRun, action: RunCommand | SendScpi) -> tuple[str, ...]:
        lines = self._precheck(action)
        if not run.is_gathering:
            self._plan.add(action, lines, run.waits_s)
        return lines

    async def _check_steps(
        self, run: SequenceRun, steps: tuple[Step, ...], values: dict[str, Any]
    ) -> None:
        for step in steps:
            # A loop is no step of its own; those inside it are.
            run.step_count += not isinstance(step, ForStep)
            if run.step_count % CHECKS_A_TURN == 0:
                await asyncio.sleep(0)
            try:
                await self._check_step(run, step, values)
            except NotKnownYet:
                run.later[_named(step)] = HANGS

    async def _check_step(self, run: SequenceRun, step: Step, values: dict[str, Any]) -> None:
        match step:
            case CommandStep():
                if step.save_as:
                    values[step.save_as] = UNKNOWN
                lines = self._judge(run, command_of(run, step, values, Purpose.SEQUENCE_STEP))
                if run.is_gathering and len(run.clean_up) < MAX_CLEAN_UP:
                    run.clean_up += [line for line in lines if not asks(run.profile, line)]
            case QueryStep():
                values[step.save_as] = UNKNOWN
                self._judge(run, query_of(run, step.query, values, Purpose.SEQUENCE_STEP))
            case ForStep():
                for value in loop_values(step, values):
                    values[step.name] = value
                    await self._check_steps(run, step.steps, values)
            case PollStep():
                bound_s = step.timeout_ms / 1000
                run.later[f"{step.poll} until {step.until}"] = (
                    f"asked every {step.every_ms} ms, for {bound_s:g} s at most"
                )
                if step.is_command:
                    asked = CommandStep(command=step.poll, parameters=step.parameters)
                    self._judge(run, command_of(run, asked, values, Purpose.SEQUENCE_STEP))
                    return
                self._judge(run, query_of(run, step.poll, values, Purpose.SEQUENCE_STEP))
            case WaitStep():
                run.waits_s += number(step.wait_ms, values, "wait_ms") / 1000
            case RowStep():
                return


def _named(step: Step) -> str:
    """What a step is called where it can not be judged yet."""
    match step:
        case CommandStep(command=name) | QueryStep(query=name) | PollStep(poll=name):
            return name
        case ForStep(name=name, steps=steps):
            inner = (_named(each) for each in steps if not isinstance(each, WaitStep | RowStep))
            return f"for {name}: {', '.join(inner)}"
        case RowStep():
            return "row"
        case _:
            return "wait"
