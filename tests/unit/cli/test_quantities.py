"""Numbers of a command line: what a person can mean, and nothing that Python happens to read."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest

from edged.cli.shared.options import finite, number, parse_arguments, positive, seconds
from edged.errors import Invalid

NO_NUMBERS = ["", "abc", "nan", "inf", "-inf", "1e400", "1_0", "٣", "0x5", "5V", "1e", ".", "1 0"]


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_what_nobody_would_call_a_number_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        number(text)
    for read in (finite, seconds, positive):
        with pytest.raises(argparse.ArgumentTypeError):
            read(text)
    with pytest.raises(Invalid, match="voltage must be a number"):
        parse_arguments([f"voltage={text}"], {"properties": {"voltage": {"type": "number"}}})


def test_a_number_is_whole_where_it_is_written_so() -> None:
    assert [number(text) for text in ("5", " -5 ", "+5", "5.", ".5", "5e1", "-1.5E-3")] == [
        5,
        -5,
        5,
        5.0,
        0.5,
        50.0,
        -0.0015,
    ]
    assert isinstance(number("5"), int)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (seconds, "0"),
        (seconds, "-1"),
        (seconds, "1e18"),
        (seconds, "9" * 390),
        (positive, "0"),
        (positive, "-1"),
        (positive, "1.5"),
    ],
)
def test_a_length_of_time_can_be_waited_for_and_a_count_is_one_at_least(
    read: Callable[[str], float], text: str
) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        read(text)
