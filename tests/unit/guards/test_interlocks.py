"""What readings come to, in any order of them: the pure part of interlocks."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from edged.errors import Invalid
from edged.guards.interlocks import MeterReading, ReadingWorth, Watching, WatchState, judged
from edged.profiles.bench_file import parse_bench
from edged.profiles.interlocks import Interlock, Trip
from tests.bench.fake_instruments import toy_profile
from tests.bench.shipped import shipped_library
from tests.promises import promise

ENTRY = """
format: 1
interlocks:
  - name: chamber
    when: {instrument: dmm1, command: measure_dc_voltage}
    must: "value < 60 and value > -1"
    max_age_s: 5
    poll_s: 1
    guards: [psu1, psu2.output_on]
"""


ON = ("psu1", "OUTP CH1", 1)


def parsed(text: str) -> tuple[Interlock, ...]:
    return parse_bench(text, "bench.yaml", shipped_library()).interlocks


def the_rule() -> Interlock:
    (found,) = parsed(ENTRY)
    return found


def test_a_rule_is_read_with_its_defaults() -> None:
    found = the_rule()
    assert [guarded.text for guarded in found.guards] == ["psu1", "psu2.output_on"]
    assert (found.trip, found.cool_down_s, found.poll_s, found.max_age_s) == (Trip.LOCKOUT, 0, 1, 5)
    assert found.asked == "dmm1.measure_dc_voltage"


@promise("interlock.bench-file")
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("max_age_s: 5", "max_age_s: 1.5", "less than twice poll_s"),
        ("poll_s: 1", "poll_s: 0.1", "poll_s"),
        ("poll_s: 1", "poll_s: 61", "0.2 to 60"),
        ("max_age_s: 5", "max_age: 5", 'unknown key "max_age"'),
        ("    max_age_s: 5\n", "", "max_age_s"),
        ('must: "value < 60 and value > -1"', 'must: "volts < 60"', "volts"),
        ('must: "value < 60 and value > -1"', 'must: "1 < 2"', "nothing that is read"),
        ('must: "value < 60 and value > -1"', 'must: "value + 1"', "not a condition"),
        ('must: "value < 60 and value > -1"', 'must: "value <"', "ends too early"),
        ("measure_dc_voltage", "measure_dc_volts", "Did you mean"),
        ("measure_dc_voltage", "output_on", "not a query"),
        ("measure_dc_voltage}", "measure_dc_voltage, column: volts}", "answers no volts"),
        ("measure_dc_voltage}", "measure_dc_voltage, parameters: {x: 1}}", "no parameter x"),
        ("measure_dc_voltage}", "measure_analog_output}", "needs output"),
        ("measure_dc_voltage}", "measure_vpp, parameters: {channel: 99}}", "channel"),
        ("psu2.output_on", "psu2.outputs_on", "to guard"),
        ("psu2.output_on", "psu2.output_off", "makes safe"),
        ("[psu1, psu2.output_on]", "[]", "guard nothing"),
        ("    guards:", "    trip: explode\n    guards:", "explode"),
        ("    guards:", "    cool_down_s: -1\n    guards:", "cool_down_s"),
        ("name: chamber", "name: ''", "name"),
    ],
)
def test_a_rule_that_could_mean_nothing_is_an_error_with_its_line(
    old: str, new: str, said: str
) -> None:
    assert old in ENTRY
    with pytest.raises(Invalid) as refused:
        parsed(ENTRY.replace(old, new))
    assert said in str(refused.value), refused.value
    assert "bench.yaml:" in str(refused.value)


@promise("interlock.bench-file")
def test_a_question_that_may_put_something_out_is_not_asked_over_and_over() -> None:
    meter = toy_profile("""
format: 1
profile_key: toy_meter
version: 1
manufacturer: Toy
model: M1
instrument_class: dmm
source: made for tests
match: {idn: 'toy,m1', examples: ["TOY,M1,0001,1.0"]}
abort: [":OUTP OFF"]
commands:
  source_and_read: {scpi: ":READ?", is_dangerous: true, returns: {type: float}}
  read_all: {scpi: "R?", returns: {type: list}}
""")
    library = shipped_library().with_more({meter.key: meter})
    text = ENTRY.replace("measure_dc_voltage", "source_and_read")
    with pytest.raises(Invalid, match=r"bench.yaml:4:.*source_and_read is dangerous"):
        parse_bench(text, "bench.yaml", library)
    with pytest.raises(Invalid, match=r"bench.yaml:4:.*read_all gives many values"):
        parse_bench(ENTRY.replace("measure_dc_voltage", "read_all"), "bench.yaml", library)


def test_two_of_one_name_are_an_error() -> None:
    again = ENTRY + ENTRY.partition("interlocks:\n")[2]
    with pytest.raises(Invalid, match='two called "chamber"'):
        parsed(again)


@pytest.mark.parametrize(
    ("data", "verdict"),
    [
        (59.9, ReadingWorth.GOOD),
        (60, ReadingWorth.BAD),
        (True, ReadingWorth.GOOD),
        (None, ReadingWorth.MISSING),
        ("59", ReadingWorth.MISSING),
        (math.nan, ReadingWorth.MISSING),
        (math.inf, ReadingWorth.MISSING),
        ([1.0], ReadingWorth.MISSING),
        ({"value": 1.0}, ReadingWorth.MISSING),
    ],
)
def test_what_is_no_number_is_no_reading(data: Any, verdict: ReadingWorth) -> None:
    assert judged(the_rule(), data, "degC", 0.0).verdict is verdict


@given(data=st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_whatever_a_meter_answers_it_is_judged(data: Any) -> None:
    reading = judged(the_rule(), data, "V", 1.0)
    if reading.verdict is not ReadingWorth.MISSING:
        assert reading.value is not None
        assert (-1 < reading.value < 60) is (reading.verdict is ReadingWorth.GOOD)


def reading(verdict: ReadingWorth, asked_s: float) -> MeterReading:
    return MeterReading(verdict=verdict, said="so", asked_s=asked_s)


def test_its_age_counts_from_the_first_try_and_not_from_the_start() -> None:
    watching = Watching(the_rule())
    watching.begin([ON])
    assert watching.overdue(1_000.0) == ""
    watching.note_try(1_000.0)
    assert watching.overdue(1_005.9) == ""
    assert "it was never read" in watching.overdue(1_006.0)


def test_it_trips_on_no_reading_of_before_it_watched() -> None:
    watching = Watching(the_rule())
    assert watching.take(reading(ReadingWorth.BAD, 0.0)) == ""
    watching.take(reading(ReadingWorth.GOOD, 1.0))
    watching.begin([ON])
    watching.note_try(500.0)
    assert watching.overdue(505.0) == ""
    assert watching.take(reading(ReadingWorth.BAD, 501.0)) != ""


def test_what_was_on_waits_for_its_abort_and_what_is_told_so_since_is_watched_anew() -> None:
    watching, again = Watching(the_rule()), ("psu1", "OUTP CH1", 2)
    watching.begin([ON])
    watching.trip("bad", 1.0, [ON])
    watching.begin([ON])
    assert watching.state is WatchState.TRIPPED
    watching.begin([ON, again])
    assert watching.state is WatchState.WATCHING
    assert watching.reason == "bad"
    watching.let_through()
    assert watching.reason == ""


class AnyOrder(RuleBasedStateMachine):
    """Beside a plain model: when the last good reading was, and whether it watches."""

    def __init__(self) -> None:
        super().__init__()
        self.watching = Watching(the_rule())
        self.now_s = 0.0
        self.since_s: float | None = None
        self.good_s = -math.inf

    @rule(passes_s=st.floats(0, 10))
    def time_passes(self, passes_s: float) -> None:
        self.now_s += passes_s

    @rule()
    def switched_on(self) -> None:
        if self.watching.state is WatchState.IDLE:
            self.since_s = None
        self.watching.begin([ON])

    @rule()
    def switched_off(self) -> None:
        self.watching.rest()
        assert self.watching.state is WatchState.IDLE
        self.since_s = None

    @rule()
    def tried(self) -> None:
        self.watching.note_try(self.now_s)
        if self.since_s is None:
            self.since_s = self.now_s

    @rule(verdict=st.sampled_from(ReadingWorth))
    def read(self, verdict: ReadingWorth) -> None:
        was = self.watching.state
        reason = self.watching.take(reading(verdict, self.now_s))
        assert bool(reason) is (verdict is ReadingWorth.BAD and was is WatchState.WATCHING)
        if verdict is ReadingWorth.GOOD:
            self.good_s = self.now_s
        if reason:
            self.watching.trip(reason, self.now_s, [ON])
            assert self.watching.state is WatchState.TRIPPED

    @precondition(lambda self: self.watching.state is WatchState.TRIPPED)
    @rule()
    def let_through(self) -> None:
        self.watching.let_through()
        self.since_s = None

    @invariant()
    def it_trips_exactly_where_it_watches_and_nothing_good_came_in_time(self) -> None:
        is_late = (
            self.watching.state is WatchState.WATCHING
            and self.since_s is not None
            and self.now_s >= max(self.since_s, self.good_s) + 1 + 5
        )
        assert bool(self.watching.overdue(self.now_s)) is is_late


@promise("interlock.decides")
class TestAnyOrder(AnyOrder.TestCase):  # type: ignore[misc]
    """Has pytest run it."""
