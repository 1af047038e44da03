"""What has begun is told once, may be cancelled, and comes to what ``perform`` comes to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from edged.actions.action import RunCommand
from edged.actions.caller import Caller
from edged.actions.cause import CALLER_GONE
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.commands.pending import Pending
from edged.errors import Conflict, EdgedError, ErrorCode, Failed
from edged.profiles.unit_rules import UnitRules
from tests.bench.driven_clock import DrivenClock
from tests.promises import promise
from tests.unit.commands.test_path import DIRECT, House, relay

LOST = Failed("gone", code=ErrorCode.DISCONNECTED)


def asked(name: str, caller: Caller = DIRECT, **given: Any) -> RunCommand:
    return RunCommand(
        tool="execute_command",
        scope=name,
        caller=caller,
        action_id="a",
        instrument_id=given.pop("instrument_id", "psu1"),
        command_name=name,
        parameters=given,
    )


def plain(outcome: Outcome) -> Any:
    error = outcome.error
    told = (error.code, error.message, error.remedy, error.data) if error else None
    return outcome.status, outcome.data, outcome.scpi, told


CASES: dict[str, tuple[RunCommand, dict[str, str], EdgedError | None]] = {
    "an answer": (asked("measure"), {":MEAS?": "1.25"}, None),
    "an answer that is none": (asked("measure"), {":MEAS?": "psu"}, None),
    "a sentinel": (asked("measure"), {":MEAS?": "9.9E37"}, None),
    "a line that is lost": (asked("measure"), {}, LOST),
    "a full mailbox": (asked("measure"), {}, Conflict("full", code=ErrorCode.BUSY)),
    "a parameter too many": (asked("measure", volts=1), {}, None),
    "no such command": (asked("frobnicate"), {}, None),
    "no such instrument": (asked("measure", instrument_id="psu9"), {}, None),
    "a caller who may not": (asked("measure", relay("list_instruments", danger=False)), {}, None),
    "a write that is refused": (asked("ramp_voltage", voltage=1), {}, None),
    "a value outside of its limits": (asked("set_voltage", voltage=31), {}, None),
    "danger that is not allowed": (
        asked("output_on", relay("execute_command", danger=False)),
        {},
        None,
    ),
}


@pytest.mark.parametrize(("action", "answers", "failing"), CASES.values(), ids=CASES)
async def test_both_ways_give_one_outcome_and_one_record(
    driven_clock: DrivenClock,
    action: RunCommand,
    answers: dict[str, str],
    failing: EdgedError | None,
) -> None:
    long_way, short_way = House(driven_clock), House(driven_clock)
    short_way.supply.is_held = True
    for house in (long_way, short_way):
        house.supply.answers.update(answers)
        house.supply.failing = failing
    expected = await long_way.path.perform(action)
    told: list[Outcome | None] = []
    begun = short_way.path.begin(action, told.append)
    if isinstance(begun, Pending):
        assert told == []
        assert short_way.record.rows == []
        short_way.supply.answer_all()
        found = told.pop()
    else:
        found = begun
    assert isinstance(found, Outcome)
    assert plain(found) == plain(expected)
    assert short_way.record.rows == long_way.record.rows
    assert short_way.supply.sent == long_way.supply.sent
    assert told == []


@pytest.mark.parametrize("name", ["set_voltage", "output_off", "output_on", "arm_and_read"])
async def test_what_changes_something_is_told_with_what_perform_gives(
    driven_clock: DrivenClock, name: str
) -> None:
    long_way, short_way = House(driven_clock), House(driven_clock)
    given = {"voltage": 0} if name == "set_voltage" else {}
    expected = await long_way.path.perform(asked(name, **given))
    told: asyncio.Queue[Outcome | None] = asyncio.Queue()
    begun = short_way.path.begin(asked(name, **given), told.put_nowait)
    assert isinstance(begun, Pending)
    async with asyncio.timeout(5):
        outcome = await told.get()
    assert outcome is not None
    assert plain(outcome) == plain(expected)
    assert short_way.record.rows == long_way.record.rows
    assert short_way.supply.sent == long_way.supply.sent


async def test_a_write_that_is_cancelled_before_its_intent_stands_sends_nothing(
    driven_clock: DrivenClock,
) -> None:
    house = House(driven_clock)
    told: asyncio.Queue[Outcome | None] = asyncio.Queue()
    begun = house.path.begin(asked("set_voltage", voltage=1), told.put_nowait)
    assert isinstance(begun, Pending)
    begun.cancel(CALLER_GONE)
    begun.cancel(CALLER_GONE)
    async with asyncio.timeout(5):
        assert await told.get() is None
        await begun.is_over()
    assert told.empty()
    assert house.supply.sent == []
    assert house.record.rows == [("end", "execute_command", "failed")]


async def test_whoever_waits_and_is_cancelled_waits_for_what_it_owes(
    driven_clock: DrivenClock,
) -> None:
    house = House(driven_clock)
    house.supply.is_held = True
    waiting = asyncio.ensure_future(house.path.perform(asked("set_voltage", voltage=1)))
    async with asyncio.timeout(5):
        while not house.supply.submitted:
            await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    ((talk, _),) = house.supply.submitted
    assert talk.told[0] == "withdrawn"
    assert house.record.rows[-1] == ("end", "execute_command", "failed")


async def test_the_owners_denial_holds_without_a_task_too(driven_clock: DrivenClock) -> None:
    house = House(driven_clock)
    house.supply.rules = UnitRules(deny=frozenset({"measure"}))
    outcome = house.path.begin(asked("measure"), lambda _: None)
    assert isinstance(outcome, Outcome)
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.DENIED_BY_OWNER
    assert house.supply.submitted == []


async def test_a_cancelled_question_is_withdrawn_recorded_and_told_once(
    driven_clock: DrivenClock,
) -> None:
    house = House(driven_clock)
    house.supply.is_held = True
    told: list[Outcome | None] = []
    begun = house.path.begin(asked("measure"), told.append)
    assert isinstance(begun, Pending)
    (talk, _) = house.supply.submitted[0]
    begun.cancel(CALLER_GONE)
    begun.cancel(CALLER_GONE)
    house.supply.answer_all()
    assert told == [None]
    assert talk.told == ["withdrawn"]
    assert house.record.rows == [("end", "execute_command", "failed")]
    assert house.supply.sent == []


async def test_a_bug_in_the_answers_reading_is_a_fault_of_that_call_alone(
    driven_clock: DrivenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(driven_clock)
    house.supply.is_held = True

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr("edged.commands.run.read_reply", broken)
    told: list[Outcome | None] = []
    house.path.begin(asked("measure"), told.append)
    house.supply.answer_all()
    (outcome,) = told
    assert outcome is not None
    assert outcome.status is OutcomeStatus.FAILED
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.INTERNAL


async def test_what_is_told_anew_changes_with_every_question(driven_clock: DrivenClock) -> None:
    house = House(driven_clock)
    house.supply.is_held = True
    before = house.path.performed
    house.path.begin(asked("measure"), lambda _: None)
    between = house.path.performed
    house.supply.answer_all()
    assert before < between < house.path.performed
    await asyncio.sleep(0)


@promise("dry-run.one-judge")
@pytest.mark.parametrize(("action", "answers", "failing"), CASES.values(), ids=CASES)
async def test_a_rehearsal_is_refused_as_the_call_is_and_sends_nothing(
    driven_clock: DrivenClock,
    action: RunCommand,
    answers: dict[str, str],
    failing: EdgedError | None,
) -> None:
    called, rehearsed = House(driven_clock), House(driven_clock)
    called.supply.answers.update(answers)
    called.supply.failing = failing
    expected = await called.path.perform(action)
    found = rehearsed.path.rehearse(action, lambda _: None)
    assert isinstance(found, Outcome)
    assert rehearsed.supply.sent == []
    assert rehearsed.supply.submitted == []
    # A line that is full just now shows only on the line.
    if expected.status is OutcomeStatus.REFUSED and failing is None:
        assert plain(found) == plain(expected)
        assert rehearsed.record.rows == called.record.rows
    else:
        assert found.status is OutcomeStatus.DRY_RUN
        assert rehearsed.record.rows == [("end", "execute_command", "dry_run")]
