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
from edged.errors import ErrorCode, Failed
from edged.instruments.instrument import Instrument
from edged.profiles.abort import Proof, proofs_of
from edged.profiles.model import (
    AbortStep,
    Command,
    Parameter,
    ParameterType,
    Profile,
    SweepPlan,
)
from edged.profiles.template import placeholders, render
from edged.record import record
from edged.runs.bench import Bench
from edged.runs.sweeps.ramp_plan import (
    MOST_STALLS,
    NETWORK_USUAL_S,
    STALL_S,
    RampPlan,
    arrived_by,
    gap_s,
    grid_of,
    is_stall,
    make_plan,
    next_step,
    setpoint_from,
    slower,
)
from edged.yaml.tree import Scalar


@record
class SweptThing:
    """The one parameter of one instrument that a sweep holds.

    Attributes:
        values: the command's parameters, validated; the swept one stands at the target.
        profile: the instrument's when the sweep was started; it holds to its end.
    """

    instrument: Instrument
    command: Command
    plan: SweepPlan
    values: Mapping[str, Scalar]
    profile: Profile | None

    @property
    def parameter(self) -> Parameter:
        """The swept parameter."""
        return self.command.parameters[self.plan.parameter]

    @property
    def setpoint_query(self) -> str:
        """The question what the instrument holds as set, rendered."""
        return render(self.plan.setpoint, self.command.parameters, self.values)

    @property
    def key(self) -> tuple[str, str]:
        """What no two sweeps may share: the instrument, and the place of the value in it."""
        return (self.instrument.id, self.setpoint_query)

    @property
    def fastest(self) -> float | None:
        """The owner's highest rate for it, under whichever command's name; ``None``: none."""
        rules = self.instrument.rules
        known = self.profile.commands.values() if self.profile and rules.max_rate else ()
        same = {other.name for other in known if self._is_swept_by(other)}
        rates = map(rules.max_rate_for, same | {self.command.name})
        return min((rate for rate in rates if rate is not None), default=None)

    def _is_swept_by(self, other: Command) -> bool:
        sweep = other.sweep
        if sweep is None or sweep.setpoint != self.plan.setpoint:
            return False
        return other.parameters[sweep.parameter].unit == self.parameter.unit

    @property
    def selectors(self) -> Mapping[str, Scalar]:
        """The parameters that say *which* value is swept: the channel."""
        names = {hole.name for hole in placeholders(self.plan.setpoint)}
        return {name: self.values[name] for name in names if name in self.values}

    def is_elsewhere(self, values: Mapping[str, object]) -> bool:
        """Whether a command with these values works another channel than the one swept."""
        return any(
            name in values and values[name] != chosen for name, chosen in self.selectors.items()
        )

    def at(self, value: float) -> dict[str, Scalar]:
        """The command's parameters with the swept one at ``value``."""
        is_whole = self.parameter.type is ParameterType.INT
        return {**self.values, self.plan.parameter: round(value) if is_whole else value}

    def held_in(self, answer: str) -> float:
        """The value that an answer to ``setpoint_query`` tells; raises Failed: BAD_ANSWER."""
        plan = self.plan
        return setpoint_from(
            answer, self.parameter.unit, self.setpoint_query, plan.pattern, plan.decimal
        )

    def is_moved(self, held: float, known: float) -> Failed:
        """It was connected anew, and holds another value than the last that was confirmed."""
        unit = self.parameter.unit
        return Failed(
            f"{self.instrument.called} was reconnected and holds {held:g} {unit}, where "
            f"{known:g} {unit} was set: it may have been switched off and on.",
            code=ErrorCode.INSTRUMENT_ERROR,
            sent=(self.setpoint_query,),
        )

    def arrival(self, gone: float, now: float, quickest_s: float) -> tuple[float, float]:
        """The quickest confirmation so far, and by when a step had reached the instrument.

        Args:
            gone: monotonic, when it had gone out; where nobody knows, when it was confirmed.
            now: when it was confirmed.
        """
        quickest_s = min(quickest_s, now - gone)
        # So much of a confirmation's usual time may not have been spent on the way there.
        held_back = math.inf if self.instrument.transport.is_cable else NETWORK_USUAL_S
        return quickest_s, arrived_by(gone, now, min(quickest_s, held_back))

    def ramp(self, start: float, target: float, rate_per_s: float) -> RampPlan:
        """A way of it, on the finest grid that holds for all of that."""
        return make_plan(
            start=start,
            target=target,
            rate_per_s=rate_per_s,
            interval_s=self.plan.interval_ms / 1000,
            resolution=grid_of(self.command, self.plan.parameter, start=start, target=target),
        )

    def now(self, plan: RampPlan) -> RampPlan:
        """A ramp as it was begun, or slower where the owner has set a lower rate since."""
        fastest = self.fastest
        if fastest is None:
            return plan
        return slower(plan, fastest, self.plan.interval_ms / 1000)

    def abort_steps(self) -> tuple[AbortStep, ...]:
        """The sweep's own abort for what it swept, else the profile's."""
        if self.plan.abort:
            return tuple(map(self._rendered, self.plan.abort))
        return self.profile.abort if self.profile else ()

    def abort_proofs(self) -> tuple[Proof, ...]:
        """What shows that this abort was obeyed."""
        return proofs_of(self.profile, self.abort_steps()) if self.profile else ()

    def _rendered(self, step: AbortStep) -> AbortStep:
        send, ask = (
            render(template, self.command.parameters, self.values) if template else ""
            for template in (step.send, step.ask)
        )
        return replace(step, send=send, ask=ask)


@record(frozen=False, eq=False)
class Axis:
    """A set-point that a run moves, and where it stands.

    Attributes:
        confirmed: the value that the unit last accepted; NaN until that is known.
        aim: the value that was sent last: another one than ``confirmed`` where it was pushed off
            the line, and may have been taken.
        written_at: monotonic seconds by which ``confirmed`` had reached the unit.
        meeting: the unit's, when ``confirmed`` was known to be its set-point.
        quickest_s: the shortest that a confirmation took.
        rate: at which it was moved last, per second; ``grid`` that of its last ramp.
        is_writing: a step is on its way to the unit.
        steps: how many were taken; ``write_s`` what they took to be confirmed, together.
    """

    thing: SweptThing
    confirmed: float = math.nan
    aim: float = math.nan
    written_at: float = -math.inf
    meeting: object = None
    quickest_s: float = math.inf
    rate: float = math.nan
    grid: float = 0.0
    is_writing: bool = False
    steps: int = 0
    write_s: float = 0.0

    @property
    def is_lost(self) -> bool:
        """The line was opened anew since it was known where it stands."""
        return self.thing.instrument.meeting != self.meeting

    @property
    def tolerance(self) -> float:
        """How far beside a step the unit's own word for it may lie."""
        verify = self.thing.command.verify
        return max(self.grid, verify.tolerance if verify is not None else 0.0)


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
        while True:
            now = axis.thing.now(plan)
            value = next_step(now, axis.confirmed)
            if value is None:
                return False
            axis.grid = plan.resolution
            await self.rest(axis.written_at + gap_s(now, axis.confirmed, value), value)
            # In a pause it may have been put back, which counts as a step.
            due = axis.written_at + gap_s(now, axis.confirmed, value)
            if due <= self.bench.clock.monotonic():
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
