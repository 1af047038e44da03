"""The judgement of a sequence before its first step is sent: each step that can be known now.

Beside it the columns of its table. Pure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from edged.actions.action import Purpose, RunCommand, SendScpi
from edged.profiles.model import (
    CommandStep,
    ForStep,
    PollStep,
    QueryStep,
    RowStep,
    Sequence,
    Step,
    Target,
    WaitStep,
    walk,
)
from edged.profiles.raw import asks
from edged.profiles.step_values import UNKNOWN, NotKnownYet, fill, loop_values, number, rendered
from edged.runs.ports import NewId, NewPlan, Precheck
from edged.runs.run_head import Column
from edged.runs.sequences.run import SequenceRun, name_of

MAX_CLEAN_UP: Final = 200
"""Lines of ``finally`` that the journal keeps."""
HANGS: Final = "depends on an earlier answer: checked when the step runs"
CHECKS_A_TURN: Final = 200
"""Steps checked before the loop gets a turn: a table of 100,000 rows must not block it."""


def columns_of(sequence: Sequence) -> tuple[Column, ...]:
    """One for each that any ``row`` step of the sequence fills."""
    steps = walk((*sequence.steps, *sequence.finally_steps))
    rows = (step for step in steps if isinstance(step, RowStep))
    names = dict.fromkeys(name for row in rows for name in row.columns)
    return tuple(Column(name=name) for name in names)


class SequenceCheck:
    """Judges the steps of one run.

    Args:
        precheck: the command path's judgement without its effect.
        new_plan: begins the plan that takes all steps of a run.

    Attributes:
        steps: how many were judged.
        waits_s: what its waits take together.
        later: what only the run can tell, and why.
    """

    def __init__(
        self, run: SequenceRun, precheck: Precheck, new_plan: NewPlan, new_id: NewId
    ) -> None:
        self._run = run
        self._precheck = precheck
        self._plan = new_plan()
        self._new_id = new_id
        self._values: dict[str, Any] = dict(run.names)
        # The lines of ``finally`` are gathered now.
        self._is_gathering = False
        self.steps = 0
        self.waits_s = 0.0
        self.later: dict[str, str] = {}

    async def check(self) -> None:
        """Judge every step that does not depend on an answer, and gather the lines of ``finally``.

        Raises:
            EdgedError: what the path would say of that step.
        """
        plan = self._run.plan
        await self._check_steps(plan.steps)
        self._is_gathering = True
        await self._check_steps(plan.finally_steps)

    def _judge(self, kind: Callable[..., RunCommand | SendScpi], **asked: Any) -> tuple[str, ...]:
        unit, purpose = self._run.instrument.id, Purpose.SEQUENCE_STEP
        action = self._run.act(kind, self._new_id(), unit, purpose, **asked)
        lines = self._precheck(action)
        if not self._is_gathering:
            self._plan.add(action, lines, self.waits_s)
        return lines

    def _command(self, target: Target) -> tuple[str, ...]:
        given = {name: fill(value, self._values) for name, value in target.parameters.items()}
        return self._judge(RunCommand, command_name=target.command, parameters=given)

    def _query(self, template: str) -> None:
        line = rendered(template, self._run.plan.parameters, self._values)
        self._judge(SendScpi, scpi=line, expects_answer=True)

    async def _check_steps(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            # A loop is no step of its own; those inside it are.
            self.steps += not step.inner
            if self.steps % CHECKS_A_TURN == 0:
                await asyncio.sleep(0)
            try:
                await self._check_step(step)
            except NotKnownYet:
                self.later[name_of(step)] = HANGS

    async def _check_step(self, step: Step) -> None:
        match step:
            case CommandStep(save_as=name):
                if name:
                    self._values[name] = UNKNOWN
                lines = self._command(step.target)
                clean_up, profile = self._run.clean_up, self._run.instrument.profile
                if self._is_gathering and len(clean_up) < MAX_CLEAN_UP:
                    clean_up += [line for line in lines if not asks(profile, line)]
            case QueryStep(query=query, save_as=name):
                self._values[name] = UNKNOWN
                self._query(query)
            case ForStep(name=name, steps=steps):
                for value in loop_values(step, self._values):
                    self._values[name] = value
                    await self._check_steps(steps)
            case PollStep(poll=asked, until=until):
                self.later[f"{asked} until {until}"] = (
                    f"asked every {step.every_ms} ms, for {step.timeout_ms / 1000:g} s at most"
                )
                if step.is_command:
                    self._command(step.target)
                else:
                    self._query(asked)
            case WaitStep(wait_ms=wait_ms):
                self.waits_s += number(wait_ms, self._values, "wait_ms") / 1000
            case _:
                return
