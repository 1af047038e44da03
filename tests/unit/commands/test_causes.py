"""Why a call was ended stands in its error and in its row."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from edged.actions.action import Action, StopAll
from edged.actions.caller import Caller, Route
from edged.actions.cause import (
    CALLER_CANCELLED,
    CALLER_GONE,
    ENGINE_STOPPED,
    SESSION_ENDED,
    Cause,
    cause_of,
)
from edged.actions.outcome import Outcome
from edged.commands.record import LogRecord
from edged.commands.target import Target
from edged.errors import ErrorCode
from edged.runs.wording import (
    LEASE_END,
    all_stopped_by,
    dead_man_tripped,
    interlock_tripped,
    locked_out,
    stopped_by,
)
from tests.bench.driven_clock import DrivenClock, settle
from tests.bench.sweep_bench import DIRECT, SweepHouse
from tests.promises import promise

CAUSES = [
    (interlock_tripped("chamber"), "The call was ended by interlock chamber."),
    (all_stopped_by("ada at 10.0.0.7"), "The call was ended by stop all of ada at 10.0.0.7."),
    (locked_out("psu1"), "The call was ended by lockout of psu1."),
    (stopped_by(LEASE_END), "The call was ended by the end of its lease."),
    (dead_man_tripped("psu1"), "The call was ended by dead-man of psu1."),
    (ENGINE_STOPPED, "The call was ended because the engine stopped."),
    (SESSION_ENDED, "The call was ended by the end of its session."),
    (CALLER_CANCELLED, "The call was ended by its caller."),
    (CALLER_GONE, "The caller went away."),
]


class Rows(LogRecord):
    """Keeps the error of each action that has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[str] = []
        self.is_writable = asyncio.Event()
        self.is_writable.set()

    async def intend(self, _action: Action, _target: Target) -> None:
        await self.is_writable.wait()

    def conclude(self, _action: Action, _target: Target | None, outcome: Outcome) -> None:
        if outcome.error is not None:
            self.errors.append(outcome.error.message)


@pytest.fixture
async def rows() -> Rows:
    return Rows()


@pytest.fixture
async def house(driven_clock: DrivenClock, rows: Rows) -> SweepHouse:
    return SweepHouse(driven_clock, record=rows)


@promise("audit.causes")
@pytest.mark.parametrize(("cause", "sentence"), CAUSES)
async def test_the_row_of_a_write_names_what_cancelled_it(
    house: SweepHouse, rows: Rows, cause: Cause, sentence: str
) -> None:
    rows.is_writable.clear()
    writing = asyncio.create_task(house.command("output_on", channel=1))
    await settle()
    writing.cancel(cause)
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await writing
    assert cause_of(cancelled.value) is cause
    assert rows.errors == [sentence]
    assert house.supply.log == []


@promise("audit.causes")
async def test_a_time_limit_of_the_part_that_asked_is_not_the_caller_going_away(
    house: SweepHouse, rows: Rows
) -> None:
    rows.is_writable.clear()
    writing = asyncio.create_task(house.command("output_on", channel=1))
    await settle()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert rows.errors == ["The call was ended because nobody waited for it any more."]


@promise("audit.causes")
@pytest.mark.parametrize("waits_for", ["the line", "the disk"])
async def test_a_write_that_waits_is_ended_by_the_stop_of_a_named_person(
    house: SweepHouse, rows: Rows, driven_clock: DrivenClock, waits_for: str
) -> None:
    if waits_for == "the line":
        house.supply.latency_s = 1.0
    else:
        rows.is_writable.clear()
    writing = asyncio.create_task(house.command("output_on", channel=1))
    await settle()
    house.supply.latency_s = 0.0
    ada = Caller(route=Route.DIRECT, client="ada")
    await house.perform(StopAll(tool="bench__stop_all", caller=ada, action_id="s"))
    rows.is_writable.set()
    await driven_clock.advance(2.0)
    outcome = await writing
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.PREEMPTED
    assert outcome.error.message == "output_on was ended by stop all of ada before it was sent."
    assert outcome.error.message in rows.errors


@promise("audit.causes")
async def test_a_write_after_the_engine_began_to_stop_says_so(house: SweepHouse) -> None:
    house.send_guards.close()
    outcome = await house.command("output_on", channel=1)
    assert outcome.error is not None
    assert "was ended because the engine stopped" in outcome.error.message


@promise("audit.causes")
@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        (
            lambda house: house.sweeps.stop_all(interlock_tripped("chamber")),
            "The call was ended by interlock chamber.",
        ),
        (
            lambda house: house.sweeps.stop_all(locked_out("psu1"), house.supply.id),
            "The call was ended by lockout of psu1.",
        ),
        (
            lambda house: house.sweeps.fail_all(
                dead_man_tripped("psu1"), "Tripped.", house.supply.id
            ),
            "The call was ended by dead-man of psu1.",
        ),
        (
            lambda house: house.sweeps.close(2.5),
            "The call was ended because the engine stopped.",
        ),
    ],
)
async def test_a_step_of_a_sweep_names_what_ended_the_sweep(
    house: SweepHouse, rows: Rows, driven_clock: DrivenClock, end: Any, sentence: str
) -> None:
    await house.start(target=5.0, rate=1.0)
    house.supply.latency_s = 100.0
    await driven_clock.advance(0.6)
    house.supply.latency_s = 0.0
    await asyncio.gather(end(house), driven_clock.advance(3.0))
    assert rows.errors[0] == sentence


def test_a_part_of_the_engine_is_called_by_its_name() -> None:
    assert Caller.part("interlock chamber").who == "interlock chamber"
    assert Caller(route=Route.INTERNAL).who == "edged itself"
    assert Caller.part("shutdown").route is Route.INTERNAL
    assert DIRECT.who != "edged itself"
