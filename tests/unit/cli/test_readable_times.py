"""Times as people read them, and the width of what they read."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from edged.cli.shared.output import aligned, local_time


def local(*numbers: int) -> datetime:
    """A time on the wall, wherever this test runs."""
    return datetime.fromtimestamp(time.mktime((*(*numbers, 0, 0, 0)[:6], 0, 0, -1)), UTC)


NOW = local(2026, 11, 24, 15, 30)


@pytest.mark.parametrize(
    ("moment", "shown"),
    [
        (local(2026, 11, 24, 15, 18, 44), "15:18:44"),
        (local(2026, 11, 24), "00:00:00"),
        (local(2026, 11, 23, 15, 18, 44), "yesterday 15:18"),
        (local(2026, 11, 22, 23, 59), "2026-11-22 23:59"),
        (local(2026, 11, 25, 0, 1), "2026-11-25 00:01"),
    ],
)
def test_a_time_is_told_by_how_long_ago_it_was(moment: datetime, shown: str) -> None:
    assert local_time(moment.timestamp() * 1_000, int(NOW.timestamp() * 1_000)) == shown


@pytest.mark.parametrize(("value", "shown"), [(None, ""), ("x", "x"), (10**18, str(10**18))])
def test_what_is_no_time_is_shown_as_it_is(value: object, shown: str) -> None:
    assert local_time(value) == shown


def test_what_is_wider_than_its_column_is_cut_and_a_space_stays_between() -> None:
    assert aligned(["abcdef", "x", "y"], [4, 2, 1]) == "abc…  x   y"
