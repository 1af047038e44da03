"""Verdicts: the order, the judgement of values, units and runs."""

import csv
import io
import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.runs.recordings.checks import (
    COLUMNS,
    NEVER_RAN,
    ORDER,
    Check,
    Limits,
    UnitVerdict,
    cells_of,
    check_of,
    judge,
    unit_results,
    valid_checks,
    worst,
)
from edged.runs.recordings.lines import encoded
from edged.yaml.tree import Scalar

NONE, PASS, MARGINAL, INCOMPLETE, FAIL, ABORTED, ERROR = UnitVerdict


def test_the_order_is_that_of_the_design() -> None:
    assert " < ".join(ORDER) == "none < pass < marginal < incomplete < fail < aborted < error"


def test_the_worst_of_two_is_the_later_one_of_the_order_cell_by_cell() -> None:
    for (i, one), (j, other) in product(enumerate(ORDER), repeat=2):
        assert worst((one, other)) is ORDER[max(i, j)]
    assert worst(()) is NONE


BAND = Limits(least=1.5, most=2.5, near=0.01, unit="V")


@pytest.mark.parametrize(
    ("value", "limits", "verdict"),
    [
        (2.0, BAND, PASS),
        (1.5, BAND, MARGINAL),
        (1.509, BAND, MARGINAL),
        (1.51, BAND, PASS),
        (2.495, BAND, MARGINAL),
        (2.5, BAND, MARGINAL),
        (2.5000001, BAND, FAIL),
        (1.49, BAND, FAIL),
        (math.inf, BAND, FAIL),
        (-math.inf, BAND, FAIL),
        (math.nan, BAND, ERROR),
        (None, BAND, ERROR),
        ("", BAND, ERROR),
        ("2.0", BAND, ERROR),
        (2, Limits(most=2), PASS),
        (2, Limits(most=2, near=0.0), PASS),
        (-5, Limits(most=2), PASS),
        (-5, Limits(least=0), FAIL),
        (7, Limits(), PASS),
        (True, Limits(), PASS),
        (False, BAND, FAIL),
    ],
)
def test_a_value_is_judged_by_its_limits(
    value: Scalar | None, limits: Limits, verdict: UnitVerdict
) -> None:
    assert judge(value, limits) is verdict


def row(
    verdict: UnitVerdict, unit: str = "", name: str = "", try_number: int = 1, at: int = 0
) -> Check:
    return Check(verdict=verdict, unit=unit, name=name, try_number=try_number, time_ms=at)


def test_a_check_that_never_ran_makes_its_unit_incomplete() -> None:
    rows = [row(NONE, "B1", at=1), row(PASS, "B1", "idle", at=2), row(NONE, "B1", at=3)]
    (unit,) = unit_results(rows, ["idle", "output"])
    assert [(check.name, check.verdict) for check in unit.checks] == [
        ("idle", PASS),
        ("output", INCOMPLETE),
    ]
    assert unit.checks[1].message == NEVER_RAN
    assert (unit.verdict, unit.began_ms, unit.ended_ms) == (INCOMPLETE, 1, 3)


def test_a_run_that_was_killed_before_its_first_check_is_incomplete() -> None:
    (unit,) = unit_results([], ["idle"])
    assert (unit.unit, unit.verdict) == ("", INCOMPLETE)
    assert unit_results([], []) == ()


def test_each_try_is_told_and_the_last_one_counts() -> None:
    rows = [
        row(ABORTED, "B1"),
        row(PASS, "B2", "idle"),
        row(MARGINAL, "B1", "idle", 2),
        row(NONE, "B1", "", 2),
    ]
    units = unit_results(rows, ["idle"])
    assert [(unit.unit, unit.try_number, unit.verdict) for unit in units] == [
        ("B1", 1, ABORTED),
        ("B2", 1, PASS),
        ("B1", 2, MARGINAL),
    ]


def test_the_run_itself_is_told_beside_its_units_only_if_it_says_something() -> None:
    quiet = [row(NONE), row(PASS, "B1", "idle")]
    assert [unit.unit for unit in unit_results(quiet, ["idle"])] == ["B1"]
    units = unit_results([*quiet, row(ERROR)], ["idle"])
    assert [(unit.unit, unit.verdict) for unit in units] == [("", ERROR), ("B1", PASS)]
    assert units[0].checks == ()


numbers = st.none() | st.floats(allow_nan=False, allow_infinity=False)
words = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=8)


@given(
    st.builds(
        Check,
        verdict=st.sampled_from(UnitVerdict),
        time_ms=st.integers(0, 1 << 50),
        unit=words,
        try_number=st.integers(1, 9),
        name=words,
        value=numbers | st.booleans(),
        limits=st.builds(Limits, least=numbers, most=numbers, near=numbers, unit=words),
        message=words,
    )
)
def test_a_check_reads_back_equal(check: Check) -> None:
    text = encoded([COLUMNS, cells_of(check)]).decode()
    (cells,) = csv.DictReader(io.StringIO(text, newline=""))
    assert check_of(cells) == check


def test_a_serial_number_that_is_a_number_keeps_its_zeros() -> None:
    check = row(PASS, "0012", "1e3")
    (cells,) = csv.DictReader(io.StringIO(encoded([COLUMNS, cells_of(check)]).decode()))
    assert check_of(cells) == check


def test_the_checks_of_a_repeated_pass_do_not_count_but_for_those_of_a_unit_under_test() -> None:
    rows = [
        row(PASS, name="idle"),
        row(FAIL, name="idle"),
        row(NONE, "B1"),
        row(FAIL, "B1", "led"),
        row(PASS, name="idle"),
        row(ABORTED, "B1"),
    ]
    kept = valid_checks(rows, [(1, 4)])
    assert kept == (rows[0], *rows[2:])
    assert valid_checks(rows, []) == tuple(rows)
    assert valid_checks(rows, [(4, 5), (1, 1)]) == (*rows[:4], rows[5])
