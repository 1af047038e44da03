import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import Invalid
from edged.runs.sweeps.ramp_plan import (
    RampPlan,
    arrived_by,
    behind_s,
    gap_s,
    make_plan,
    next_step,
    steps_left,
)
from tests.promises import promise

VALUES = st.floats(-50, 50).map(lambda v: round(v, 6))
GRID_SLACK = 1e-6
"""Of a step: how far beside a point of the grid still is that point."""
GRIDS = st.sampled_from([None, 0.001, 0.01, 0.1, 1.0, 0.025])


def ramp(plan: RampPlan) -> list[float]:
    """Every value that is written, from start to end."""
    written, at = [], plan.start
    while (value := next_step(plan, at)) is not None:
        written.append(value)
        at = value
        assert len(written) < 100_000, "it does not arrive"
    return written


def plan_of(
    start: float, target: float, rate: float, *, grid: float | None = None, interval: float = 0.1
) -> RampPlan:
    return make_plan(
        start=start, target=target, rate_per_s=rate, interval_s=interval, resolution=grid
    )


@promise("sweep.never-a-jump")
@given(VALUES, VALUES, st.floats(0.05, 1000), GRIDS)
def test_no_step_is_larger_than_the_rate_allows(
    start: float, target: float, rate: float, grid: float | None
) -> None:
    plan = plan_of(start, target, rate, grid=grid)
    allowed = max(rate * 0.1, grid or 0.0) * (1 + 1e-6) + 1e-9
    at = start
    for value in ramp(plan):
        assert abs(value - at) <= allowed
        assert (value - at) * (target - start) > 0, "it goes only one way"
        at = value
    assert abs(at - target) <= (grid or 1e-9) * (1 + 1e-6), "it arrives"
    beyond = 1e-9 + GRID_SLACK * (grid or 0.0) * abs(target - start)
    assert (at - target) * (target - start) <= beyond, "and not beyond"


@promise("sweep.arrives-on-time")
@given(VALUES, VALUES, st.floats(0.05, 1000), GRIDS)
def test_a_ramp_takes_what_distance_and_rate_say(
    start: float, target: float, rate: float, grid: float | None
) -> None:
    plan = plan_of(start, target, rate, grid=grid)
    written = [start, *ramp(plan)]
    took = sum(gap_s(plan, a, b) for a, b in itertools.pairwise(written))
    ideal = abs(target - start) / rate
    # A target that lies a millionth of a step before a step of the grid is that step.
    assert took <= ideal * (1 + 1e-9) + 1e-9 + GRID_SLACK * (grid or 0.0) / rate
    assert took >= ideal - (grid or 0.0) / rate * (1 + 1e-6) - 1e-9


@given(VALUES, VALUES, st.floats(0.05, 100), st.floats(0, 1e6))
def test_a_stall_makes_it_late_and_the_next_step_no_larger(
    start: float, target: float, rate: float, stall: float
) -> None:
    plan = plan_of(start, target, rate)
    first = next_step(plan, start)
    if first is None:
        return
    assert abs(first - start) <= plan.max_step * (1 + 1e-9)
    due = gap_s(plan, start, first)
    assert behind_s(plan, start, due + stall) == pytest.approx(stall, abs=1e-6)
    assert behind_s(plan, start, due / 2) == 0


def test_a_rate_below_one_display_step_an_interval_stretches_the_interval() -> None:
    plan = plan_of(0, 0.005, 0.002, grid=0.001)
    assert plan.interval_s == pytest.approx(0.5)
    assert ramp(plan) == [0.001, 0.002, 0.003, 0.004, 0.005]


def test_the_interval_shrinks_so_that_whole_resolutions_keep_the_rate() -> None:
    plan = plan_of(0, 1, 0.137, grid=0.01)
    assert plan.max_step == pytest.approx(0.01)
    assert plan.interval_s == pytest.approx(0.01 / 0.137)


@pytest.mark.parametrize(
    ("start", "target", "grid", "expected"),
    [
        (1.2345, 1.237, 0.001, [1.235, 1.236, 1.237]),
        (1.2345, 1.232, 0.001, [1.234, 1.233, 1.232]),
        (0.0, 0.3, 0.1, [0.1, 0.2, 0.3]),
        (0.3, 0.0, 0.1, [0.2, 0.1, 0.0]),
        (0.0, 0.25, 0.1, [0.1, 0.2]),
        (0.0, -0.25, 0.1, [-0.1, -0.2]),
    ],
)
def test_values_are_rounded_towards_the_last_confirmed_one(
    start: float, target: float, grid: float, expected: list[float]
) -> None:
    assert ramp(plan_of(start, target, grid * 10, grid=grid)) == expected


def test_a_target_that_is_reached_leaves_nothing_to_write() -> None:
    plan = plan_of(5, 5, 1)
    assert ramp(plan) == []
    assert steps_left(plan, 5) == 0


def test_a_step_too_small_for_a_float_still_arrives() -> None:
    assert ramp(plan_of(1e9, 1e9 + 1e-6, 1e-9))[-1] == pytest.approx(1e9)


@given(VALUES, VALUES, st.floats(0.05, 100), GRIDS)
def test_the_steps_left_are_as_many_as_follow(
    start: float, target: float, rate: float, grid: float | None
) -> None:
    plan = plan_of(start, target, rate, grid=grid)
    assert abs(steps_left(plan, start) - len(ramp(plan))) <= 2


@pytest.mark.parametrize("grid", [None, 0.001])
@pytest.mark.parametrize("rate", [5e-324, 1e-308, 1e308])
def test_a_rate_without_measure_is_one_to_reckon_with(rate: float, grid: float | None) -> None:
    plan = plan_of(0.0, 1.0, rate, grid=grid)
    following = next_step(plan, plan.start)
    assert following is not None
    assert 0 < following <= 1.0
    assert steps_left(plan, plan.start) >= 1
    assert behind_s(plan, plan.start, elapsed_s=1.0) >= 0
    if rate > 1:
        assert ramp(plan) == [1.0]
        assert steps_left(plan, plan.start) <= 2


def test_a_set_point_at_which_a_float_cannot_tell_a_step_is_refused() -> None:
    with pytest.raises(Invalid, match=r"From 1e\+20"):
        plan_of(1e20, 1.0, 1.0, grid=0.001)


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(Invalid):
        plan_of(0, 1, rate)


@pytest.mark.parametrize("target", [math.nan, math.inf])
def test_a_target_that_is_none_is_refused(target: float) -> None:
    with pytest.raises(Invalid):
        plan_of(0, target, 1)


def test_what_a_confirmation_took_beyond_the_usual_counts_as_the_way_there() -> None:
    assert arrived_by(10.0, 10.02, 0.02) == pytest.approx(10.0)
    assert arrived_by(10.0, 10.5, 0.02) == pytest.approx(10.48)
    assert arrived_by(10.0, 10.01, 0.02) == 10.0
    assert arrived_by(10.0, 10.5, float("inf")) == 10.0
