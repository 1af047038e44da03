"""The one ramp: what moves a set-point for a sweep and for a plan, at the rate that was asked for.

Never a step larger than the rate allows, however late it is. A set-point whose value is not known
is asked for first. Where the line was opened anew it is asked again: a unit that lost power has
lost its set-point too, and the next step would be a jump.

Sends nothing by itself: every step and every question is an action on the command path.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from edged.actions.action import Purpose, RunCommand, SendLines
from edged.actions.outcome import Outcome
from edged.clock import Clock
from edged.record import record
from edged.runs.bench import Bench
from edged.runs.sweeps.ramp_plan import (
    MOST_STALLS,
    STALL_S,
    Axis,
    RampPlan,
    SweptThing,
    gap_s,
    is_stall,
    next_step,
)
from edged.yaml.tree import Scalar


@record
class Mover:
    """What moving needs.

    Attributes:
        step: makes the action that sets a value: unit, command, parameters.
        ask: makes the one that asks a unit a line.
        rest: waits until a monotonic time, and longer while the run is paused, before a value is
            written.
        stands: is told where a set-point stands before it is moved.
    """

    bench: Bench
    step: Callable[[str, str, Mapping[str, Scalar]], RunCommand]
    ask: Callable[[str, tuple[str, ...]], SendLines]
    rest: Callable[[float, float], Awaitable[None]]
    stands: Callable[[SweptThing, float], None]

    async def move(self, axis: Axis, target: float, rate: float) -> None:
        """Bring it to ``target``.

        Raises:
            EdgedError: the unit did not take a step, or its set-point cannot be known.
        """
        axis.rate = rate
        if axis.aim != axis.confirmed or axis.is_lost:
            taken(await patiently(self.bench.clock, lambda: self.look(axis)))
        plan = axis.thing.ramp(axis.confirmed, target, rate)
        while await self.go_on(axis, plan):
            pass

    async def go_on(self, axis: Axis, plan: RampPlan) -> bool:
        """The next step of a ramp; whether there was one.

        Raises:
            EdgedError: the unit did not take it, or no longer stands where it was left.
        """
        axis.grid = plan.resolution
        while True:
            now, written_at = axis.thing.now(plan), axis.written_at
            value = next_step(now, axis.confirmed)
            if value is None:
                return False
            await self.rest(written_at + gap_s(now, axis.confirmed, value), value)
            # In a pause it may have been put back, which counts as a step.
            if axis.written_at == written_at:
                await self._write(axis, value, now.rate_per_s)
                return True

    async def put_back(self, axis: Axis, value: float) -> None:
        """After a pause: where somebody has moved it, bring it back at its own rate.

        Raises:
            EdgedError: as ``move``.
        """
        if math.isnan(value):
            return
        axis.confirmed = axis.aim = math.nan
        await self.move(axis, value, axis.rate)
        # A ramp that is under way reads the set-point again before its next step.
        axis.meeting = None

    async def look(self, axis: Axis) -> Outcome:
        """Ask the unit what it holds as set; the outcome may be an error.

        Raises:
            Failed: INSTRUMENT_ERROR, it holds another value than it was set to; BAD_ANSWER.
        """
        thing = axis.thing
        meeting = thing.instrument.meeting
        asked = await self.bench.perform(self.ask(thing.instrument.id, (thing.setpoint_query,)))
        if asked.error is not None:
            return asked
        held = thing.held_in(str(asked.data["answer"] or ""))
        if math.isnan(axis.confirmed):
            self.stands(thing, held)
            near = [held]
        else:
            known = (axis.confirmed, axis.aim)
            near = [value for value in known if abs(held - value) <= 1.01 * axis.tolerance]
        if not near:
            raise thing.is_moved(held, axis.confirmed)
        if near[0] != axis.confirmed:
            # When it was taken is not known; that it was by now is.
            axis.written_at = max(axis.written_at, self.bench.clock.monotonic())
        axis.confirmed = axis.aim = near[0]
        axis.meeting = meeting
        return asked

    def action(self, axis: Axis, value: float, rate: float) -> RunCommand:
        """What brings one value to the unit."""
        thing = axis.thing
        made = self.step(thing.instrument.id, thing.command.name, thing.at(value))
        # A ramp of ``finally`` is held back by nothing, as its other steps are not.
        is_last = made.purpose is Purpose.FINALLY_STEP
        purpose = made.purpose if is_last else Purpose.SWEEP_STEP
        return replace(made, purpose=purpose, meeting=axis.meeting, rate=rate)

    async def _write(self, axis: Axis, value: float, rate: float) -> None:
        """Bring one step to the unit, however often others push it off the line.

        The same value is written again, never a further one: to have it twice is no step at all.
        """
        clock = self.bench.clock
        began = clock.monotonic()

        async def once() -> Outcome:
            if axis.is_lost and (asked := await self.look(axis)).error is not None:
                return asked
            axis.aim, axis.is_writing = value, True
            try:
                return await self.bench.perform(self.action(axis, value, rate))
            finally:
                axis.is_writing = False

        outcome = taken(await patiently(clock, once))
        now = clock.monotonic()
        axis.confirmed = value
        axis.quickest_s, axis.written_at = axis.thing.arrival(
            outcome.written_at or now, now, axis.quickest_s
        )
        axis.steps += 1
        axis.write_s += now - began


def taken(outcome: Outcome) -> Outcome:
    """The same; raises the error with which it ended."""
    if outcome.error is not None:
        raise outcome.error
    return outcome


async def patiently(
    clock: Clock, perform: Callable[[], Awaitable[Outcome]], tries: int = MOST_STALLS
) -> Outcome:
    """Perform it; again while others have the line, which to have twice is no step at all."""
    for _ in range(tries - 1):
        outcome = await perform()
        if outcome.error is None or not is_stall(outcome.error):
            return outcome
        await clock.sleep(STALL_S)
    return await perform()
