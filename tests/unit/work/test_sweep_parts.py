import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import ErrorCode, Failed
from edged.profiles.model import Command, Parameter, ParameterType
from edged.runs.sweeps.ramp_plan import grid_of, setpoint_from
from edged.runs.sweeps.request import StopWhen
from edged.runs.sweeps.sweep import MAX_ROWS, SweepRows


def command(template: str, kind: ParameterType = ParameterType.FLOAT) -> Command:
    return Command(name="c", scpi=(template,), parameters={"v": Parameter(name="v", type=kind)})


@pytest.mark.parametrize(
    ("template", "grid"),
    [
        ("V {v:.3f}", 0.001),
        ("V {v}", None),
        ("V {v:.3e}", 0.01),
        ("V {v:.4g}", 0.01),
    ],
)
def test_the_grid_is_that_of_the_format_where_the_value_is_largest(
    template: str, grid: float | None
) -> None:
    found = grid_of(command(template), "v", start=0.5, target=-12.0)
    assert found == (None if grid is None else pytest.approx(grid))


def test_a_whole_number_has_a_grid_of_one() -> None:
    assert grid_of(command("V {v}", ParameterType.INT), "v", start=0, target=9) == 1


@pytest.mark.parametrize(
    ("answer", "value"), [("1.500", 1.5), ("+1.5E0", 1.5), ("1500 mV", 1.5), ("1.5V", 1.5)]
)
def test_a_set_point_is_read_as_instruments_write_it(answer: str, value: float) -> None:
    assert setpoint_from(answer, "V", ":V?") == value


@pytest.mark.parametrize("answer", ["", "---", "9.9E37", "1.5,2.5"])
def test_a_set_point_that_is_none_is_an_error(answer: str) -> None:
    with pytest.raises(Failed) as failed:
        setpoint_from(answer, "V", ":V?")
    assert failed.value.code is ErrorCode.BAD_ANSWER


@given(st.integers(1, 300), st.integers(1, 50))
def test_rows_are_handed_out_evenly_with_the_newest_among_them(count: int, most: int) -> None:
    rows = SweepRows([("t", "s")])
    for n in range(count):
        rows.append((n,))
    shown = [row["t"] for row in rows.evenly(most)]
    assert len(shown) == min(count, most)
    assert shown == sorted(set(shown))
    assert shown[-1] == count - 1
    assert most < 2 or shown[0] == 0


def test_rows_stay_in_bounds_and_keep_the_whole_sweep_in_view() -> None:
    rows = SweepRows([("t", "s")])
    for n in range(3 * MAX_ROWS):
        rows.append((n,))
    shown = [row["t"] for row in rows.evenly(MAX_ROWS)]
    assert rows.count == 3 * MAX_ROWS
    assert len(shown) <= MAX_ROWS
    assert (shown[0], shown[-1]) == (0, 3 * MAX_ROWS - 1)
    rows.thin(10)
    assert len(rows.evenly(MAX_ROWS)) <= 11


@pytest.mark.parametrize(
    ("op", "reading", "is_met"),
    [(">", 2.0, True), (">", 1.0, False), ("<=", 1.0, True), ("!=", 1.0, False), ("==", 1, True)],
)
def test_stop_when_compares_as_expressions_do(op: str, reading: float, *, is_met: bool) -> None:
    wish = StopWhen(column="i", op=op, value=1.0, then="hold")
    assert bool(wish.why_met({"i": reading}, {})) is is_met


@pytest.mark.parametrize(
    ("op", "flag", "is_met"),
    [
        (">", "over_range", True),
        ("<", "over_range", False),
        ("<", "under_range", True),
        (">", "under_range", False),
    ],
)
def test_a_reading_beyond_the_meters_range_is_beyond_every_bound(
    op: str, flag: str, *, is_met: bool
) -> None:
    wish = StopWhen(column="i", op=op, value=1e30, then="abort")
    assert bool(wish.why_met({"i": None}, {"i": flag})) is is_met


@pytest.mark.parametrize("row", [{}, {"i": None}, {"i": "1"}])
def test_a_reading_without_a_number_ends_the_sweep_that_it_was_to_watch(
    row: dict[str, object],
) -> None:
    wish = StopWhen(column="i", op=">", value=5.0, then="hold")
    assert "cannot be judged: i came without a number." in wish.why_met(row, {})
    assert "number (no_value)." in wish.why_met(row, {"i": "no_value"})


def test_a_truth_counts_as_one_or_nothing() -> None:
    wish = StopWhen(column="i", op="==", value=1.0, then="hold")
    assert wish.why_met({"i": True}, {})
    assert not wish.why_met({"i": False}, {})
