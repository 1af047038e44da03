"""Ramp arithmetic: from the last confirmed value to the next, and when that may go out.

Pure; times come in as arguments. The one rule that all here serves: a step is never larger
than rate times interval from what the instrument last accepted, and two writes are never closer
in time than their distance divided by the rate. A stall makes a ramp late and never makes it jump.

Source: docs/promises.md section 7.

What a sweep's command can be told: its grid over a range, and where the instrument stands.

Pure, but for the question that is asked through the command path.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Final

from edged.errors import EdgedError, ErrorCode, Failed, Invalid
from edged.profiles.answers import picked
from edged.profiles.model import DEFAULT_SENTINELS, Command
from edged.profiles.template import placeholders, resolution
from edged.record import record
from edged.scpi.numbers import number_with_suffix

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
