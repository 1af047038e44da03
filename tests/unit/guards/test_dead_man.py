"""The timer inside an instrument: never an output on without it, never fed by a sick engine."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from edged.guards.dead_man import DeadMan, Duty, Stage
from tests.promises import promise

LIMIT_S = 9.0
FIRST, SECOND = "the first connection", "the second"


def running(meeting: object = FIRST, now_s: float = 0.0) -> DeadMan:
    timer = DeadMan(LIMIT_S, now_s)
    timer.must_run()
    timer.armed(meeting, now_s)
    return timer


def beating(timer: DeadMan, now_s: float) -> DeadMan:
    timer.beat(now_s, is_stoppable=True)
    return timer


def test_nothing_is_said_to_a_unit_whose_outputs_are_off() -> None:
    timer = DeadMan(LIMIT_S, 0.0)
    for now_s in range(0, 100, 3):
        assert beating(timer, now_s).due(now_s, FIRST, may_be_on=False) is Duty.NOTHING


def test_it_is_asked_every_third_of_its_time() -> None:
    timer = running()
    assert beating(timer, 2.9).due(2.9, FIRST, may_be_on=True) is Duty.NOTHING
    assert beating(timer, 3.0).due(3.0, FIRST, may_be_on=True) is Duty.ASK
    timer.heard(3.1, is_tripped=False)
    assert beating(timer, 6.0).due(6.0, FIRST, may_be_on=True) is Duty.NOTHING


def test_a_question_that_found_no_answer_is_asked_again_before_its_time_is_over() -> None:
    timer = running()
    timer.tried(3.0)
    assert beating(timer, 3.1).due(3.1, FIRST, may_be_on=True) is Duty.NOTHING
    assert beating(timer, 3.8).due(3.8, FIRST, may_be_on=True) is Duty.ASK


def test_an_output_that_is_on_has_it_set_going() -> None:
    timer = DeadMan(LIMIT_S, 0.0)
    assert timer.due(0.0, FIRST, may_be_on=True) is Duty.ARM


def test_on_another_connection_it_is_set_going_anew() -> None:
    timer = running()
    assert timer.is_armed_at(FIRST)
    assert not timer.is_armed_at(SECOND)
    assert timer.due(1.0, SECOND, may_be_on=True) is Duty.ARM


def test_it_is_stopped_when_every_output_is_known_to_be_off() -> None:
    timer = running()
    assert timer.due(1.0, FIRST, may_be_on=False) is Duty.DISARM
    timer.disarmed()
    assert timer.stage is Stage.OFF


@promise("dead-man.sick-engine")
@pytest.mark.parametrize("is_stoppable", [True, False])
def test_an_engine_that_is_not_healthy_says_nothing_at_all(is_stoppable: bool) -> None:
    timer = running()
    timer.beat(1.0, is_stoppable=is_stoppable)
    assert timer.may_talk(1.7) is is_stoppable
    assert not timer.may_talk(1.8)
    # Of the lines that the loop itself serves it knows.
    assert timer.may_talk(1.8, is_on_loop=True) is is_stoppable
    for stage_on in (True, False):
        assert timer.due(4.1, SECOND, may_be_on=stage_on) is Duty.NOTHING
    assert beating(timer, 5.0).may_talk(5.0)


def test_a_unit_that_has_no_timer_running_may_be_talked_to_by_anybody() -> None:
    assert DeadMan(LIMIT_S, 0.0).may_talk(1e6)


@promise("dead-man.trip-is-a-persons")
def test_one_that_has_switched_off_is_only_asked_until_a_person_has_cleared_it() -> None:
    timer = running()
    timer.heard(3.0, is_tripped=True)
    for may_be_on in (True, False):
        assert beating(timer, 4.0).due(4.0, SECOND, may_be_on=may_be_on) is Duty.NOTHING
        assert beating(timer, 6.0).due(6.0, SECOND, may_be_on=may_be_on) is Duty.ASK
    timer.disarmed()
    timer.armed(FIRST, 6.0)
    assert timer.stage is Stage.TRIPPED
    timer.heard(9.0, is_tripped=False)
    assert beating(timer, 9.0).due(9.0, FIRST, may_be_on=True) is Duty.ARM
    assert timer.due(9.0, FIRST, may_be_on=False) is Duty.DISARM


def test_one_that_says_so_once_is_held_until_all_of_it_was_confirmed_off() -> None:
    timer = running()
    timer.heard(3.0, is_tripped=True)
    timer.tells_once = True
    timer.heard(6.0, is_tripped=False, may_be_on=True)
    assert timer.stage is Stage.TRIPPED
    timer.heard(9.0, is_tripped=False, may_be_on=False)
    assert timer.stage is Stage.ARMED


class Bench(RuleBasedStateMachine):
    """One supply with its timer, this daemon, and whatever else may happen, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.timer = DeadMan(LIMIT_S, 0.0)
        self.marks = False
        self.meeting = 0
        self.is_sick = False
        # The instrument's own.
        self.is_on = self.is_running = self.has_tripped = False
        self.is_programmed_on = False
        self.heard_s = 0.0

    # The instrument

    def hears(self) -> None:
        assert self.timer.stage is Stage.OFF or not self.is_sick or self.is_urgent
        self.runs_out()
        self.heard_s = self.now_s

    is_urgent = False

    def runs_out(self) -> None:
        if self.is_running and self.now_s - self.heard_s > LIMIT_S:
            self.has_tripped = self.has_tripped or self.is_on
            self.is_on = False
            self.heard_s = self.now_s

    @rule(seconds=st.floats(0.05, 1.0))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds
        if not self.is_sick:
            self.timer.beat(self.now_s, is_stoppable=True)
        self.runs_out()

    @rule(seconds=st.floats(LIMIT_S / 3 + 0.1, 3 * LIMIT_S))
    def engine_hangs(self, seconds: float) -> None:
        self.is_sick = True
        self.now_s += seconds
        self.runs_out()

    @precondition(lambda self: self.is_sick)
    @rule()
    def engine_comes_back(self) -> None:
        self.is_sick = False
        self.timer.beat(self.now_s, is_stoppable=True)

    @rule()
    def line_is_opened_anew(self) -> None:
        self.meeting += 1

    @rule()
    def supply_is_switched_off_and_on(self) -> None:
        self.is_on = self.is_running = self.has_tripped = self.is_programmed_on = False
        self.meeting += 1

    @precondition(lambda self: self.has_tripped)
    @rule()
    def person_clears_it(self) -> None:
        """The programmed state was kept: what was on is on again."""
        self.has_tripped, self.is_on = False, self.is_programmed_on
        self.heard_s = self.now_s

    # The daemon

    def asks(self) -> None:
        self.hears()
        self.timer.heard(self.now_s, is_tripped=self.has_tripped)

    def arms(self) -> bool:
        self.asks()
        if self.timer.stage is Stage.TRIPPED:
            return False
        self.is_running = True
        self.hears()
        self.timer.armed(self.meeting, self.now_s)
        return True

    @rule()
    def somebody_switches_on(self) -> None:
        self.timer.must_run()
        self.marks = True
        if self.timer.may_talk(self.now_s) and self.arms():
            self.hears()
            self.is_on = self.is_programmed_on = True

    @rule()
    def somebody_stops_all(self) -> None:
        """It is never held back, and never stops the timer of one that has tripped."""
        self.is_urgent = True
        self.hears()
        self.is_urgent = False
        self.is_on = self.is_programmed_on = False
        self.marks = False

    @rule()
    def looks_what_is_due(self) -> None:
        self.runs_out()
        match self.timer.due(self.now_s, self.meeting, may_be_on=self.marks):
            case Duty.ASK:
                self.asks()
            case Duty.ARM:
                self.timer.must_run()
                self.arms()
            case Duty.DISARM:
                self.asks()
                if self.timer.stage is not Stage.TRIPPED:
                    assert not self.has_tripped
                    self.is_running = False
                    self.timer.disarmed()

    @invariant()
    def no_output_is_on_without_it(self) -> None:
        assert not self.is_on or self.is_running

    @invariant()
    def what_is_on_is_fed_or_goes_off(self) -> None:
        assert not self.is_on or self.now_s - self.heard_s <= LIMIT_S

    @invariant()
    def a_sick_engine_may_not_talk(self) -> None:
        if self.is_sick and self.timer.stage is not Stage.OFF:
            assert not self.timer.may_talk(self.now_s)


@promise("dead-man.any-order")
def test_in_any_order_of_events_no_output_is_on_unguarded_and_no_trip_is_undone() -> None:
    run_state_machine_as_test(Bench)  # type: ignore[no-untyped-call]
