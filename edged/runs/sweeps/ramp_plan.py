"""Ramp arithmetic: from the last confirmed value to the next, and when that may go out.

Pure; times come in as arguments. The one rule that all here serves: a step is never larger
than rate times interval from what the instrument last accepted, and two writes are never closer
in time than their distance divided by the rate. A stall makes a ramp late and never makes it jump.

Source: docs/promises.md section 7.

What a sweep's command can be told: its grid over a range, and where the instrument stands.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from edged.errors import EdgedError, ErrorCode, Failed, Invalid
from edged.instruments.instrument import Instrument
from edged.profiles.abort import Proof, proofs_of
from edged.profiles.answers import picked
from edged.profiles.model import (
    DEFAULT_SENTINELS,
    AbortStep,
    Command,
    Parameter,
    ParameterType,
    Profile,
    SweepPlan,
)
from edged.profiles.template import placeholders, render, resolution
from edged.record import record
from edged.scpi.numbers import number_with_suffix
from edged.yaml.tree import Scalar

GRID_SLACK: Final = 1e-6
"""How far beside a grid point (in grid steps) a float may lie and still mean that point."""
GRID_DIGITS: Final = 9
"""Digits kept beyond the grid's own: enough to take the noise of binary fractions away."""
MOST_STEPS: Final = 1e15
"""More than this are told as this."""


NETWORK_USUAL_S: Final = 0.02
"""A network may hold back one write and not the next, so only so much is taken for the usual."""
STALL_S: Final = 0.1
MOST_STALLS: Final = 50
"""Steps in a row that the line did not take (it was pre-empted, or busy with others' work)."""


@record
class RampPlan:
    """One ramp, in the swept parameter's own unit.

    Attributes:
        start: the set-point that the instrument reported; anywhere beside the grid.
        target: where the caller wants it.
        rate_per_s: units per second, > 0.
        max_step: the largest step; rate times interval, in whole resolutions, one at least.
        resolution: the grid that the instrument can be told; 0 where nothing limits it.
    """

    start: float
    target: float
    rate_per_s: float
    max_step: float
    resolution: float

    @property
    def interval_s(self) -> float:
        """What one full step takes; the nominal interval or less, or one resolution's time."""
        return self.max_step / self.rate_per_s


def make_plan(
    *,
    start: float,
    target: float,
    rate_per_s: float,
    interval_s: float,
    resolution: float | None,
) -> RampPlan:
    """A plan whose steps keep exactly to the rate, so that it arrives on time.

    The step is rate times interval, rounded down to whole resolutions; the interval shrinks along.
    Below one resolution the step is one, and the interval grows to what that takes.

    Raises:
        Invalid: a number that is not finite or too large for the resolution, or a rate or interval
            that is not positive.
    """
    for name, value in (("start", start), ("target", target)):
        if not math.isfinite(value):
            raise Invalid(f"{name} {value!r} is not a finite number.", data={"parameter": name})
    for name, value in (("sweep_rate", rate_per_s), ("interval", interval_s)):
        if not math.isfinite(value) or value <= 0:
            raise Invalid(f"{name} {value!r} is not above 0.", data={"parameter": name})
    grid = resolution or 0.0
    # No step is longer than the whole way; so a rate without measure stays a number to reckon with.
    step = min(rate_per_s * interval_s, abs(target - start) + grid, sys.float_info.max)
    step = max(step, sys.float_info.min)
    if grid:
        _check_precision(max(start, target, key=abs), grid)
        step = grid * max(1, math.floor(step / grid + GRID_SLACK))
    return RampPlan(
        start=start, target=target, rate_per_s=rate_per_s, max_step=step, resolution=grid
    )


def slower(plan: RampPlan, rate_per_s: float, interval_s: float) -> RampPlan:
    """The same way at a lower rate; a plan that is as slow already stays as it is."""
    if rate_per_s >= plan.rate_per_s:
        return plan
    step = max(min(rate_per_s * interval_s, plan.max_step), sys.float_info.min)
    if plan.resolution:
        step = plan.resolution * max(1, math.floor(step / plan.resolution + GRID_SLACK))
    return replace(plan, rate_per_s=rate_per_s, max_step=step)


def next_step(plan: RampPlan, confirmed: float) -> float | None:
    """The value to write after ``confirmed``, however long ago that was written.

    Returns:
        A value between confirmed and target, at most ``max_step`` from confirmed, on the grid and
        rounded towards confirmed; ``None`` when the target is reached (as near as the grid allows).
    """
    distance = plan.target - confirmed
    if distance == 0:
        return None
    wanted = plan.target
    if abs(distance) > plan.max_step:
        wanted = confirmed + math.copysign(plan.max_step, distance)
    value = _on_grid(wanted, direction=-distance, grid=plan.resolution)
    is_ahead = value > confirmed if distance > 0 else value < confirmed
    if is_ahead:
        return value
    if abs(distance) > plan.max_step:
        # One whole step further, and the float still rounds back to where it is: the step is below
        # what a float can tell apart at this magnitude. Only the target is left to go to.
        return None if plan.resolution else plan.target
    return None


def gap_s(plan: RampPlan, written: float, following: float) -> float:
    """Seconds that must lie between writing ``written`` and writing ``following``."""
    return abs(following - written) / plan.rate_per_s


def arrived_by(gone_s: float, confirmed_s: float, usual_s: float) -> float:
    """By when a write has reached the instrument, for all that is known; the next counts from then.

    Between having left here and being confirmed it was somewhere on the wire. What a confirmation
    usually takes is no delay; what it took beyond may have been spent on the way there, and the
    next write may be quicker.

    Args:
        gone_s: when it had left here.
        confirmed_s: when the instrument's answer behind it was here.
        usual_s: what may pass between the two without anything having been held back.
    """
    return max(gone_s, confirmed_s - usual_s)


def behind_s(plan: RampPlan, confirmed: float, elapsed_s: float) -> float:
    """How much later than the rate alone would have it ``confirmed`` stands.

    Args:
        elapsed_s: since the ramp began, by the monotonic clock.

    Returns:
        0 while it is within the step that is under way.
    """
    travelled_s = abs(confirmed - plan.start) / plan.rate_per_s
    following = next_step(plan, confirmed)
    under_way_s = 0.0 if following is None else gap_s(plan, confirmed, following)
    return max(0.0, elapsed_s - travelled_s - under_way_s)


def steps_left(plan: RampPlan, confirmed: float) -> int:
    """How many writes are still to come, if nothing stalls."""
    distance = abs(plan.target - confirmed)
    return math.ceil(min(distance / plan.max_step, MOST_STEPS) - GRID_SLACK) if distance else 0


def _check_precision(largest: float, grid: float) -> None:
    """A value at which one step of the grid is lost in a float would look like the target."""
    if math.ulp(largest) > grid:
        raise Invalid(
            f"From {largest:g} nothing can be ramped in steps of {grid:g}.",
            data={"value": largest, "resolution": grid},
            remedy="Set it to a value within its limits first.",
        )


def _on_grid(value: float, *, direction: float, grid: float) -> float:
    """``value`` on the grid, rounded in the direction of the sign of ``direction``."""
    if not grid:
        return value
    ratio = value / grid
    slack = max(GRID_SLACK, abs(ratio) * 4e-16)
    whole = math.floor(ratio + slack) if direction < 0 else math.ceil(ratio - slack)
    digits = max(0, math.ceil(-math.log10(grid))) + GRID_DIGITS
    return round(whole * grid, digits)


def grid_of(command: Command, parameter: str, *, start: float, target: float) -> float | None:
    """The resolution that holds all the way from ``start`` to ``target``.

    Formats with so many significant digits (``e``, ``g``) are coarsest where the value is largest;
    their grid there is on the grid everywhere else.
    """
    fixed = resolution(command, parameter)
    largest = max(abs(start), abs(target))
    grids = [] if fixed is None else [fixed]
    for template in command.scpi:
        for hole in placeholders(template):
            digits = _digits(hole.format)
            if hole.name == parameter and digits is not None and largest > 0:
                grids.append(10.0 ** (math.floor(math.log10(largest)) - digits))
    return max(grids, default=None)


def setpoint_from(
    answer: str, unit: str, query: str, pattern: str = "", decimal: str = "."
) -> float:
    """The set-point that the instrument reports, where ``pattern`` finds it.

    Raises:
        Failed: BAD_ANSWER; a ramp from an unknown value would be a jump.
    """
    value = number_with_suffix(picked(answer, pattern, decimal), unit)
    if value is None or value in DEFAULT_SENTINELS:
        raise Failed(
            f"The present set-point cannot be known: {query} answered {answer.strip()[:80]!r}.",
            code=ErrorCode.BAD_ANSWER,
            data={"query": query, "answer": answer.strip()[:80]},
            remedy="A sweep starts from what the instrument holds; set it once, then try again.",
            sent=(query,),
        )
    return value


def _digits(form: str) -> int | None:
    """Digits behind the leading one that an ``e`` or ``g`` format writes."""
    if not form or form[-1] not in "eg":
        return None
    _, dot, digits = form[:-1].partition(".")
    precision = int(digits) if dot else 6
    return precision if form[-1] == "e" else max(1, precision) - 1


def is_stall(error: EdgedError) -> bool:
    """Whether nothing is wrong but that others had the line: pre-empted, full, or never sent."""
    if error.code in {ErrorCode.PREEMPTED, ErrorCode.BUSY}:
        return True
    return isinstance(error, Failed) and error.code is ErrorCode.TIMEOUT and not error.sent


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
