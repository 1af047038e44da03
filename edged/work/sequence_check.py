"""The judgement of a sequence before its first step is sent: each step that can be known now."""

from __future__ import annotations

import asyncio
from typing import Final, assert_never

from edged.actions.action import Purpose
from edged.profiles.model import CommandStep, ForStep, PollStep, QueryStep, RowStep, Step, WaitStep
from edged.profiles.raw import is_query
from edged.work.ports import Precheck
from edged.work.sequence_run import SequenceRun, command_of, query_of
from edged.work.sequence_values import UNKNOWN, NotKnownYet, Values, loop_values

__all__ = ["SequenceCheck"]

MAX_CLEAN_UP: Final = 200
"""Lines of ``finally`` that the journal keeps."""
CHECKS_A_TURN: Final = 200
"""Steps checked before the loop gets a turn: a table of 100,000 rows must not block it."""


class SequenceCheck:
    """Judges steps.

    Args:
        precheck: the command path's judgement without its effect.
    """

    def __init__(self, *, precheck: Precheck) -> None:
        self._precheck = precheck

    async def check(self, run: SequenceRun) -> None:
        """Judge every step that does not depend on an answer, and gather the lines of ``finally``.

        Raises:
            EdgedError: what the path would say of that step.
        """
        values = dict(run.values)
        await self._check_steps(run, run.sequence.steps, values)
        run.is_gathering = True
        await self._check_steps(run, run.sequence.finally_steps, values)

    async def _check_steps(self, run: SequenceRun, steps: tuple[Step, ...], values: Values) -> None:
        for step in steps:
            run.step_count += 1
            if run.step_count % CHECKS_A_TURN == 0:
                await asyncio.sleep(0)
            try:
                await self._check_step(run, step, values)
            except NotKnownYet:
                continue

    async def _check_step(self, run: SequenceRun, step: Step, values: Values) -> None:
        match step:
            case CommandStep():
                if step.save_as:
                    values[step.save_as] = UNKNOWN
                lines = self._precheck(command_of(run, step, values, Purpose.SEQUENCE_STEP))
                if run.is_gathering and len(run.clean_up) < MAX_CLEAN_UP:
                    run.clean_up += [line for line in lines if not is_query(line)]
            case QueryStep():
                values[step.save_as] = UNKNOWN
                self._precheck(query_of(run, step.query, values, Purpose.SEQUENCE_STEP))
            case ForStep():
                for value in loop_values(step, values):
                    values[step.name] = value
                    await self._check_steps(run, step.steps, values)
            case PollStep() if step.is_command:
                asked = CommandStep(command=step.poll, parameters=step.parameters)
                self._precheck(command_of(run, asked, values, Purpose.SEQUENCE_STEP))
            case PollStep() | WaitStep() | RowStep():
                return
            case _:
                assert_never(step)
