"""Moves one set-point at a rate: never a step larger than the rate allows, however late it is.

A set-point whose value is not known is asked for first. Where the line was opened anew it is asked
again: a unit that lost power has lost its set-point too, and the next step would be a jump.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from edged.actions.action import Purpose, RunCommand, SendLines
from edged.actions.outcome import Outcome
from edged.errors import EdgedError, ErrorCode, Failed
from edged.profiles.model import ParameterType
from edged.record import record
from edged.runs.bench import Bench
from edged.runs.sweeps.ramp_plan import (
    arrived_by,
    gap_s,
    grid_of,
    make_plan,
    next_step,
    setpoint_from,
    slower,
)
from edged.runs.sweeps.sweep import SweptThing

NETWORK_USUAL_S: Final = 0.02
"""A network may hold back one write and not the next, so only so much is taken for the usual."""
STALL_S: Final = 0.1
MOST_STALLS: Final = 50
"""Times in a row that the line did not take a step (it was pre-empted, or busy with others)."""


@record(frozen=False, eq=False)
class Axis:
    """A set-point that a run moves, and where it stands.

    Attributes:
        confirmed: the value that the unit last accepted; NaN until that is known.
        written_at: monotonic seconds by which that had reached the unit.
        meeting: the unit's, when ``confirmed`` was known to be its set-point.
        rate: at which it was moved last, per second.
    """

    thing: SweptThing
    confirmed: float = math.nan
    written_at: float = -math.inf
    meeting: object = None
    quickest_s: float = math.inf
    rate: float = math.nan

    @property
    def tolerance(self) -> float:
        """How far beside a step the unit's own word for it may lie."""
        thing = self.thing
        verify = thing.command.verify
        grid = grid_of(thing.command, thing.plan.parameter, start=0.0, target=self.confirmed or 1.0)
        return max(grid or 0.0, verify.tolerance if verify is not None else 0.0)


@record
class Mover:
    """What moving needs.

    Attributes:
        action: makes the action of a step or question from a template of it.
        rest: waits until a monotonic time, and longer while the run is paused.
        stands: is told where a set-point stands before it is moved.
    """

    bench: Bench
    step: Callable[[str, str, object], RunCommand]
    ask: Callable[[str, tuple[str, ...]], SendLines]
    rest: Callable[[float], Awaitable[None]]
    stands: Callable[[SweptThing, float], None]

    async def move(self, axis: Axis, target: float, rate: float) -> None:
        """Bring it to ``target``.

        Raises:
            EdgedError: the unit did not take a step, or its set-point cannot be known.
        """
        thing = axis.thing
        axis.rate = rate
        if math.isnan(axis.confirmed) or thing.instrument.meeting != axis.meeting:
            await self._look(axis)
        interval_s = thing.plan.interval_ms / 1000
        plan = make_plan(
            start=axis.confirmed,
            target=target,
            rate_per_s=rate,
            interval_s=interval_s,
            resolution=grid_of(
                thing.command, thing.plan.parameter, start=axis.confirmed, target=target
            ),
        )
        while True:
            fastest = thing.fastest
            now = plan if fastest is None else slower(plan, fastest, interval_s)
            value = next_step(now, axis.confirmed)
            if value is None:
                return
            await self.rest(axis.written_at + gap_s(now, axis.confirmed, value))
            if thing.instrument.meeting != axis.meeting:
                await self._look(axis)
                continue
            await self._write(axis, value, now.rate_per_s)

    async def put_back(self, axis: Axis, value: float) -> None:
        """After a pause: where somebody has moved it, bring it back at its own rate.

        Raises:
            EdgedError: as ``move``.
        """
        if math.isnan(value):
            return
        axis.confirmed = math.nan
        await self.move(axis, value, axis.rate)
        # Whoever was in the middle of moving it looks again before the next step.
        axis.meeting = None

    async def _look(self, axis: Axis) -> None:
        """Ask the unit what it holds as set.

        Raises:
            Failed: INSTRUMENT_ERROR, it holds another value than it was set to; BAD_ANSWER.
        """
        thing = axis.thing
        meeting = thing.instrument.meeting
        query = thing.setpoint_query
        outcome = await patiently(self.bench, lambda: self.ask(thing.instrument.id, (query,)))
        answer = str(outcome.data["answer"] or "")
        unit = thing.parameter.unit
        held = setpoint_from(answer, unit, query, thing.plan.pattern, thing.plan.decimal)
        if abs(held - axis.confirmed) > 1.01 * axis.tolerance:
            raise Failed(
                f"{thing.instrument.called} was reconnected and holds {held:g} {unit}, where "
                f"{axis.confirmed:g} {unit} was set: it may have been switched off and on.",
                code=ErrorCode.INSTRUMENT_ERROR,
                sent=(query,),
            )
        if math.isnan(axis.confirmed):
            axis.confirmed = held
            self.stands(thing, held)
        axis.meeting = meeting
        axis.written_at = max(axis.written_at, self.bench.clock.monotonic())

    async def _write(self, axis: Axis, value: float, rate: float) -> None:
        thing = axis.thing
        whole = thing.parameter.type is ParameterType.INT
        values = thing.at(round(value) if whole else value)

        def step() -> RunCommand:
            made = self.step(thing.instrument.id, thing.command.name, values)
            return replace(made, purpose=Purpose.SWEEP_STEP, meeting=axis.meeting, rate=rate)

        outcome = await patiently(self.bench, step)
        axis.confirmed = value
        now = self.bench.clock.monotonic()
        gone = outcome.written_at or now
        axis.quickest_s = min(axis.quickest_s, now - gone)
        held_back = math.inf if thing.instrument.transport.is_cable else NETWORK_USUAL_S
        axis.written_at = arrived_by(gone, now, min(axis.quickest_s, held_back))


async def patiently(bench: Bench, make: Callable[[], RunCommand | SendLines]) -> Outcome:
    """Perform it; again while others have the line, which to have twice is no step at all.

    Raises:
        EdgedError: what it ended with.
    """
    for left in reversed(range(MOST_STALLS)):
        outcome = await bench.perform(make())
        if outcome.error is None:
            return outcome
        if left == 0 or not is_stall(outcome.error):
            raise outcome.error
        await bench.clock.sleep(STALL_S)
    raise AssertionError  # the last turn has raised


def is_stall(error: EdgedError) -> bool:
    """Whether nothing is wrong but that others had the line: pre-empted, full, or never sent."""
    if error.code in {ErrorCode.PREEMPTED, ErrorCode.BUSY}:
        return True
    return isinstance(error, Failed) and error.code is ErrorCode.TIMEOUT and not error.sent
