"""What is said to the timer of one unit, word by word; no wire."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from edged.errors import ErrorCode, Failed, Refused
from edged.guards.dead_man import Stage
from edged.instruments.conversation import Ask, Conversation, Send
from edged.instruments.dead_man import Timer, Words, words_of
from edged.profiles.model import (
    Command,
    Completion,
    CompletionKind,
    Connection,
    ErrorCheck,
    InstrumentWatchdog,
    Precondition,
    Tripped,
)
from edged.scpi.kinds import ErrorKind
from tests.bench.driven_clock import DrivenClock
from tests.promises import promise

WATCHDOG = InstrumentWatchdog(
    delay=("WDOG:DEL {s}", "WDOG:MS {ms}"),
    enable=("WDOG ON",),
    disable=("WDOG OFF",),
    clear=("WDOG:CLE",),
    range_s=(1, 60),
    tripped=Tripped(ask="COND?", bit=2048),
)
ANSWERS = {"COND?": "0", "SYST:ERR?": '0,"No error"', "STATE?": "OFF"}


class Unit:
    """A timer, what its unit answers, and what it has heard."""

    def __init__(
        self, clock: DrivenClock, watchdog: InstrumentWatchdog = WATCHDOG, **answers: Any
    ) -> None:
        self.answers: dict[str, Any] = {**ANSWERS, **answers}
        self.heard: list[str] = []
        self.is_on = False
        self.meeting = 1
        errors = ErrorCheck(kind=ErrorKind.QUEUE, query="SYST:ERR?")
        self.timer = Timer(
            Words(watchdog, 6.0),
            called="psu1",
            connection=lambda: Connection(errors=errors),
            meeting=lambda: self.meeting,
            may_be_on=lambda: self.is_on,
            clock=clock,
        )

    def hold(self, conversation: Conversation[Any]) -> Any:
        answer = None
        try:
            while True:
                step: Any = conversation.send(answer)
                if isinstance(step, Ask | Send):
                    self.heard.append(step.text)
                answer = self.answers[step.text] if isinstance(step, Ask) else None
                if isinstance(answer, list):
                    answer = answer.pop(0)
        except StopIteration as end:
            return end.value

    def failed(self, conversation: Conversation[Any]) -> Failed:
        with pytest.raises(Failed) as caught:
            self.hold(conversation)
        return caught.value


@pytest.fixture
def unit(driven_clock: DrivenClock) -> Unit:
    return Unit(driven_clock)


@promise("dead-man.armed-first")
def test_it_is_asked_set_going_and_asked_again_and_then_not_before_a_switch(unit: Unit) -> None:
    begun = ["COND?", "WDOG:DEL 6", "WDOG:MS 6000", "WDOG ON", "SYST:ERR?", "COND?"]
    assert list(unit.hold(unit.timer.before(("OUTP ON",), None))) == [
        line for line in begun if line != "SYST:ERR?"
    ]
    assert unit.heard == begun
    assert unit.hold(unit.timer.before(("VOLT 5",), None)) == ()
    assert unit.hold(unit.timer.before(("OUTP ON",), None)) != ()
    unit.meeting = 2
    assert unit.hold(unit.timer.before(("VOLT 5",), None)) != ()


@promise("dead-man.armed-first")
def test_a_unit_that_does_not_take_it_is_not_switched_on(driven_clock: DrivenClock) -> None:
    unit = Unit(driven_clock, **{"SYST:ERR?": ['-113,"Undefined header"', '0,"No error"']})
    failed = unit.failed(unit.timer.before(("OUTP ON",), None))
    assert failed.code is ErrorCode.INSTRUMENT_ERROR
    assert not unit.timer.state.is_armed_at(unit.meeting)


def test_what_must_hold_before_it_protects_is_asked_first(driven_clock: DrivenClock) -> None:
    needed = Precondition(query="STATE?", expect="^OFF$", hint="Set it so.")
    watchdog = InstrumentWatchdog(**{**_values(WATCHDOG), "precondition": needed})
    unit = Unit(driven_clock, watchdog)
    unit.hold(unit.timer.before(("OUTP ON",), None))
    assert unit.heard[0] == "STATE?"
    unit = Unit(driven_clock, watchdog, **{"STATE?": "AUTO"})
    unit.failed(unit.timer.before(("OUTP ON",), None))
    assert unit.heard == ["STATE?"]


@promise("dead-man.trip-is-a-persons")
@pytest.mark.parametrize("answer", ["2048", "+2.049E+03"])
def test_one_that_has_switched_off_is_neither_cleared_nor_stopped(
    driven_clock: DrivenClock, answer: str
) -> None:
    unit = Unit(driven_clock, **{"COND?": answer})
    failed = unit.failed(unit.timer.before(("OUTP ON",), None))
    assert failed.code is ErrorCode.DEAD_MAN
    assert "WDOG:CLE" in failed.remedy
    unit.hold(unit.timer.disarming())
    assert set(unit.heard) == {"COND?"}
    assert unit.timer.is_tripped


@promise("dead-man.trip-is-a-persons")
@pytest.mark.parametrize(("again", "tells_once"), [("2048", False), ("0", True)])
def test_a_trip_is_held_as_one_that_is_told_once_until_it_was_told_again(
    driven_clock: DrivenClock, again: str, tells_once: bool
) -> None:
    unit = Unit(driven_clock)
    conversation = unit.timer.asking()
    first, second = next(conversation), conversation.send("2048")
    assert (first, second) == (Ask("COND?"), Ask("COND?"))
    # It may be written to disk now, and the engine killed after that.
    assert (unit.timer.is_tripped, unit.timer.state.tells_once) == (True, True)
    with pytest.raises(StopIteration):
        conversation.send(again)
    assert (unit.timer.is_tripped, unit.timer.state.tells_once) == (True, tells_once)


def test_an_answer_that_tells_nothing_is_no_no(driven_clock: DrivenClock) -> None:
    unit = Unit(driven_clock, **{"COND?": "fine"})
    assert unit.failed(unit.timer.before(("OUTP ON",), None)).code is ErrorCode.BAD_ANSWER


@promise("dead-man.disarmed")
def test_it_is_not_stopped_while_something_may_be_on(unit: Unit) -> None:
    unit.hold(unit.timer.before(("OUTP ON",), None))
    unit.is_on = True
    unit.hold(unit.timer.disarming())
    assert "WDOG OFF" not in unit.heard
    unit.is_on = False
    unit.hold(unit.timer.disarming())
    assert "WDOG OFF" in unit.heard
    assert unit.timer.state.stage is Stage.OFF


@promise("dead-man.no-long-silence")
@pytest.mark.parametrize(
    ("more", "is_let_pass"),
    [
        ({}, True),
        ({"timeout_ms": 4_000}, True),
        ({"timeout_ms": 4_001}, False),
        ({"complete": Completion(kind=CompletionKind.OPC, timeout_ms=5_000)}, False),
        ({"complete": Completion(kind=CompletionKind.POLL, timeout_ms=60_000)}, True),
    ],
)
def test_what_keeps_the_line_too_long_is_refused_while_it_runs(
    unit: Unit, more: Mapping[str, Any], is_let_pass: bool
) -> None:
    command = Command(name="calibrate", description="", scpi=("CAL",), **more)
    unit.timer.check_pace(command)
    unit.hold(unit.timer.before(("OUTP ON",), None))
    if is_let_pass:
        unit.timer.check_pace(command)
        return
    with pytest.raises(Refused) as refused:
        unit.timer.check_pace(command)
    assert refused.value.code is ErrorCode.DEAD_MAN


@promise("dead-man.restart")
def test_a_next_life_knows_the_same_words(unit: Unit) -> None:
    facts = json.loads(json.dumps(unit.timer.words.facts()))
    again = words_of(facts)
    assert again is not None
    assert (again.watchdog, again.limit_s) == (WATCHDOG, 6.0)
    assert words_of({}) is None
    assert words_of({**facts, "watchdog": {"enable": 1}}) is None


def _values(watchdog: InstrumentWatchdog) -> dict[str, Any]:
    return {name: getattr(watchdog, name) for name in InstrumentWatchdog.__slots__}
