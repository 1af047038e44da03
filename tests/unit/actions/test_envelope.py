"""The envelope of a run: what lies in it, what a person reads of it, and that it ends."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.actions.envelope import MOST_LINES, Allowed, Envelope, EnvelopeRow, OpenEnvelope
from tests.bench.driven_clock import DrivenClock
from tests.bench.waiting import OwnTime

VOLTS = Allowed(between=(0.0, 5.0), unit="V")
CHANNEL = Allowed(values=(1, 2))
SET = EnvelopeRow(
    unit="a",
    called="psu1",
    command="set_voltage",
    parameters={"channel": CHANNEL, "voltage": VOLTS},
)
RAMP = EnvelopeRow(
    unit="b", called="smu1", command="set_voltage", parameters={"voltage": VOLTS}, rate=2.0
)
ON = EnvelopeRow(unit="a", called="psu1", command="output_on", most=1)
ENVELOPE = Envelope(plan_id="plan-1", rows=(SET, RAMP, ON), most_s=3600)

scalars = st.one_of(
    st.booleans(),
    st.integers(-10, 10),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from(["1", "DC"]),
)


@pytest.mark.parametrize(
    ("unit", "command", "values", "rate", "why"),
    [
        ("a", "set_voltage", {"channel": 1, "voltage": 5}, 0.0, ""),
        ("a", "set_voltage", {"channel": 1, "voltage": 5.1}, 0.0, "voltage 5.1 is not in 0 … 5 V"),
        ("a", "set_voltage", {"channel": 3, "voltage": 5}, 0.0, "channel 3 is not in 1, 2"),
        ("a", "set_voltage", {"channel": True, "voltage": 5}, 0.0, "channel True is not in 1, 2"),
        ("a", "set_voltage", {"channel": 1, "voltage": math.nan}, 0.0, "is not in"),
        ("a", "set_voltage", {"current": 1}, 0.0, "current is not a parameter that it gives"),
        ("a", "set_voltage", {"channel": 1, "voltage": 1}, 9.0, ""),
        ("b", "set_voltage", {"voltage": 1}, 2.0, ""),
        ("b", "set_voltage", {"voltage": 1}, 2.1, "ramped at 2.1/s"),
        ("b", "set_voltage", {"voltage": 1}, 0.0, "set at once"),
        ("b", "output_on", {}, 0.0, "the plan does not send output_on there"),
        ("c", "", {}, 0.0, "no command"),
    ],
)
def test_a_step_lies_in_a_row_or_is_told_which_bound_it_is_over(unit, command, values, rate, why):
    found = ENVELOPE.why_outside(unit, command, values, rate)

    assert found == why if not why else why in found


@given(channel=scalars, voltage=scalars)
def test_whatever_is_let_through_lies_in_its_bounds(channel, voltage):
    if ENVELOPE.why_outside("a", "set_voltage", {"channel": channel, "voltage": voltage}):
        return
    assert channel in (1, 2)
    assert not isinstance(channel, bool)
    assert -1e-9 <= voltage <= 5 * (1 + 1e-9)


def test_a_command_is_sent_as_often_as_the_plan_says():
    opened = OpenEnvelope(ENVELOPE, DrivenClock().monotonic)
    assert opened.why_outside("a", "output_on", {}) == ""

    opened.take("a", "output_on", {})

    assert opened.why_outside("a", "output_on", {}) == "it was sent as often as the plan says"
    assert opened.why_outside("a", "output_on", {}, is_finally=True) == ""


def test_after_its_time_and_after_its_end_only_what_cleans_up_is_in_it():
    clock = DrivenClock()
    late, ended = OpenEnvelope(ENVELOPE, clock.monotonic), OpenEnvelope(ENVELOPE, clock.monotonic)
    ended.end()
    clock.move(3600)

    for one in (late, ended):
        assert "longer than 1 h" in one.why_outside("a", "output_on", {})
        assert one.why_outside("a", "output_on", {}, is_finally=True) == ""
        assert one.why_outside("b", "output_on", {}, is_finally=True) != ""


def test_what_was_sent_and_the_time_that_is_left_survive_a_restart():
    clock = DrivenClock()
    opened = OpenEnvelope(ENVELOPE, clock.monotonic)
    opened.take("a", "output_on", {})
    kept = json.loads(json.dumps(opened.to_json(clock.wall_ms())))
    clock.move(1800)

    again = OpenEnvelope.from_json(kept, clock.monotonic, clock.wall_ms())

    assert again is not None
    assert again.envelope == ENVELOPE
    assert again.why_outside("a", "output_on", {}) == "it was sent as often as the plan says"
    assert again.to_json(clock.wall_ms())["left_s"] == 1800


@pytest.mark.parametrize("kept", [None, [], {}, {"envelope": 1}, {"envelope": {"rows": [1]}}])
def test_what_cannot_be_read_allows_nothing(kept):
    assert OpenEnvelope.from_json(kept, DrivenClock().monotonic, 0) is None


def test_a_person_reads_each_row_with_its_units():
    assert ENVELOPE.text() == (
        "psu1: set_voltage (channel 1, 2, voltage 0 … 5 V)",
        "smu1: set_voltage (voltage 0 … 5 V), ramped at most at 2/s",
        "psu1: output_on, once",
        "for 1 h at most",
    )


def test_many_rows_are_drawn_together_and_a_person_reads_no_less_than_is_allowed():
    rows = tuple(
        EnvelopeRow(
            unit="a",
            called="psu1",
            command="set_voltage",
            parameters={"channel": Allowed(values=(n,)), "voltage": Allowed(between=(n, 2 * n))},
            most=2,
        )
        for n in range(40)
    )

    text = Envelope(plan_id="p", rows=rows, most_s=30).text()

    assert text == (
        "psu1: set_voltage (channel 0 … 39, voltage 0 … 78), 80 times",
        "for 30 s at most",
    )


def test_more_than_fits_is_not_shown_in_part():
    rows = tuple(EnvelopeRow(unit="a", called="psu1", command=f"c{n}") for n in range(MOST_LINES))
    texts = Allowed(values=tuple(f"text {n}" for n in range(200)))
    long = EnvelopeRow(unit="a", called="psu1", command="show", parameters={"text": texts})

    assert "lines" in Envelope(plan_id="p", rows=rows, most_s=1).why_unreadable()
    assert "line" in Envelope(plan_id="p", rows=(long,), most_s=1).why_unreadable()
    assert Envelope(plan_id="p", rows=rows[:-1], most_s=1).why_unreadable() == ""


@given(
    values=st.lists(st.one_of(st.floats(-5, 5), st.integers(-3, 3), st.booleans(), st.just("on"))),
    asked=st.one_of(st.floats(-5, 5), st.integers(-3, 3), st.booleans(), st.just("on"), st.none()),
)
def test_a_value_is_held_if_it_is_one_of_them(values: list[Any], asked: Any) -> None:
    def is_same(one: Any) -> bool:
        if isinstance(one, bool) or isinstance(asked, bool | str | None):
            return type(one) is type(asked) and bool(one == asked)
        return not isinstance(one, str) and math.isclose(one, asked, abs_tol=1e-12)

    assert Allowed(values=tuple(values)).holds(asked) is any(map(is_same, values))


def test_a_value_among_very_many_is_not_looked_for_one_by_one() -> None:
    many = Allowed(values=tuple(number / 7 for number in range(100_000)))
    with OwnTime() as own:
        assert all(many.holds(number / 7) for number in range(0, 100_000, 100))
        assert not any(many.holds(number / 7 + 0.01) for number in range(0, 100_000, 100))
        assert own.seconds() < 2
