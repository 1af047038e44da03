"""Moves one set-point at a rate: never a step larger than the rate allows, however late it is.

A set-point whose value is not known is asked for first. Where the line was opened anew it is asked
again: a unit that lost power has lost its set-point too, and the next step would be a jump.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from edged.actions.action import Action, Purpose, RunCommand, SendLines
from edged.actions.outcome import Outcome
from edged.record import record
from edged.runs.bench import Bench
from edged.runs.sweeps.ramp_plan import MOST_STALLS, STALL_S, gap_s, grid_of, is_stall, next_step
from edged.runs.sweeps.sweep import SweptThing
from edged.yaml.tree import Scalar


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
    step: Callable[[str, str, Mapping[str, Scalar]], RunCommand]
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
        plan = thing.ramp(axis.confirmed, target, rate)
        while True:
            now = thing.now(plan)
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
        # A ramp that is under way reads the set-point again before its next step.
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
        held = thing.held_in(str(outcome.data["answer"] or ""))
        if abs(held - axis.confirmed) > 1.01 * axis.tolerance:
            raise thing.is_moved(held, axis.confirmed)
        if math.isnan(axis.confirmed):
            axis.confirmed = held
            self.stands(thing, held)
        axis.meeting = meeting
        axis.written_at = max(axis.written_at, self.bench.clock.monotonic())

    async def _write(self, axis: Axis, value: float, rate: float) -> None:
        thing = axis.thing
        values = thing.at(value)

        def step() -> RunCommand:
            made = self.step(thing.instrument.id, thing.command.name, values)
            # A ramp of ``finally`` is held back by nothing, as its other steps are not.
            is_last = made.purpose is Purpose.FINALLY_STEP
            purpose = made.purpose if is_last else Purpose.SWEEP_STEP
            return replace(made, purpose=purpose, meeting=axis.meeting, rate=rate)

        outcome = await patiently(self.bench, step)
        now = self.bench.clock.monotonic()
        gone = outcome.written_at or now
        axis.confirmed = value
        axis.quickest_s, axis.written_at = thing.arrival(gone, now, axis.quickest_s)


async def patiently(
    bench: Bench,
    make: Callable[[], Action],
    stalls: int = MOST_STALLS,
    took: Callable[[Outcome], None] | None = None,
) -> Outcome:
    """Perform it; again while others have the line, which to have twice is no step at all.

    Args:
        stalls: so often at most.
        took: has each outcome.

    Raises:
        EdgedError: what it ended with.
    """
    for left in reversed(range(stalls)):
        outcome = await bench.perform(make())
        if took is not None:
            took(outcome)
        if outcome.error is None:
            return outcome
        if left == 0 or not is_stall(outcome.error):
            raise outcome.error
        await bench.clock.sleep(STALL_S)
    raise AssertionError  # the last turn has raised
