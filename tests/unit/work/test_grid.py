import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.runs.running_stats import RunningStats
from edged.runs.streams.grid import Grid


def test_the_points_of_a_grid_are_multiples_of_the_interval() -> None:
    grid = Grid(start_s=100.0, interval_ms=500, duration_ms=10_000)
    assert grid.points == 20
    due = grid.after(-1, 100.0)
    assert due is not None
    assert (due.number, due.at_s, due.skipped) == (0, 100.0, 0)
    due = grid.after(0, 100.01)
    assert due is not None
    assert (due.number, due.at_s) == (1, 100.5)


def test_a_duration_below_the_interval_is_one_point() -> None:
    grid = Grid(start_s=0.0, interval_ms=500, duration_ms=1)
    assert grid.points == 1
    assert grid.after(0, 0.1) is None


def test_a_slow_measurement_skips_points_and_counts_them() -> None:
    grid = Grid(start_s=0.0, interval_ms=100, duration_ms=10_000)
    due = grid.after(0, 0.38)
    assert due is not None
    assert (due.number, due.skipped) == (4, 3)


def test_a_point_may_begin_half_an_interval_late_and_no_later() -> None:
    grid = Grid(start_s=0.0, interval_ms=100, duration_ms=10_000)
    in_time, too_late = grid.after(0, 0.149), grid.after(0, 0.151)
    assert in_time is not None
    assert in_time.number == 1
    assert too_late is not None
    assert too_late.number == 2


def test_nothing_adds_up_over_a_day() -> None:
    grid = Grid(start_s=12_345.678, interval_ms=10, duration_ms=86_400_000)
    assert grid.points == 8_640_000
    assert grid.at_s(8_639_999) == pytest.approx(12_345.678 + 86_399.99, abs=1e-6)


@given(
    interval_ms=st.integers(10, 1000),
    durations=st.lists(st.floats(0.0, 2.0), min_size=1, max_size=40),
)
def test_measured_and_skipped_points_are_the_whole_grid(
    interval_ms: int, durations: list[float]
) -> None:
    grid = Grid(start_s=5.0, interval_ms=interval_ms, duration_ms=20_000)
    now, number, measured, skipped = 5.0, -1, 0, 0
    for spent in [*durations, *([0.5] * 80)]:
        due = grid.after(number, now)
        if due is None:
            break
        assert due.number > number
        assert due.at_s + interval_ms / 2000 + 1e-9 >= max(now, due.at_s)
        skipped += due.skipped
        number, measured = due.number, measured + 1
        now = max(now, due.at_s) + spent
    skipped += grid.missed_after(number, max(now, 5.0 + 20.1 + interval_ms / 500))
    assert measured + skipped == grid.points


@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=50))
def test_running_statistics_agree_with_those_of_the_whole_list(values: list[float]) -> None:
    running = RunningStats()
    for value in values:
        running.add(value)
    told = running.told()
    scale = max(abs(value) for value in values) + 1.0
    assert told["mean"] == pytest.approx(statistics.fmean(values), abs=scale * 1e-9)
    assert told["std"] == pytest.approx(statistics.stdev(values), abs=scale * 1e-6)
    assert (told["min"], told["max"]) == (min(values), max(values))


def test_statistics_of_nothing_or_one_value_claim_nothing() -> None:
    running = RunningStats()
    assert running.told() == {"mean": None, "std": None, "min": None, "max": None}
    running.add(math.nan)
    running.add(math.inf)
    running.add(4.0)
    assert running.told() == {"mean": 4.0, "std": None, "min": 4.0, "max": 4.0}
