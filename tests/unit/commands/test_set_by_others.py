"""Dry runs say who else has set an output that is on."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from edged.actions.action import Action, RunCommand, SendScpi
from edged.actions.caller import Caller, Route
from edged.commands.pending import settled
from tests.bench.driven_clock import START_WALL_MS, DrivenClock
from tests.bench.fake_instruments import toy_profile
from tests.bench.sweep_bench import PROFILE, SweepHouse
from tests.promises import promise

ADA = Caller(route=Route.DIRECT, client="notebook 7", remote="10.0.0.2")
BOB = Caller(route=Route.DIRECT, client="claude-code 2.1", remote="127.0.0.1")


@pytest.fixture
def house(driven_clock: DrivenClock) -> SweepHouse:
    return SweepHouse(driven_clock)


def command(house: SweepHouse, name: str, caller: Caller, **given: Any) -> RunCommand:
    return RunCommand(
        tool="execute_command",
        scope=name,
        caller=caller,
        action_id=house.new_id(),
        instrument_id="psu1",
        command_name=name,
        parameters=given,
    )


async def done(house: SweepHouse, name: str, caller: Caller, **given: Any) -> None:
    outcome = await house.perform(command(house, name, caller, **given))
    assert outcome.error is None, outcome.error


async def information(house: SweepHouse, action: Action) -> list[dict[str, Any]]:
    outcome = await settled(partial(house.path.rehearse, action))
    assert outcome.error is None, outcome.error
    found: list[dict[str, Any]] = outcome.data["conflicts"]
    return found


@promise("dry-run.set-by-others")
async def test_who_set_an_output_that_is_on_is_told_to_others_for_an_hour(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    await done(house, "output_on", ADA, channel=1)
    await driven_clock.advance(720)
    wish = command(house, "set_voltage", BOB, channel=1, voltage=1)
    [told] = await information(house, wish)
    assert told == {
        "kind": "information",
        "message": "output 1 is on, and notebook 7 at 10.0.0.2 set it 12 min ago.",
        "data": {"output": "output 1", "who": ADA.who, "since_ms": START_WALL_MS},
    }
    raw = SendScpi(
        tool="send_scpi",
        caller=BOB,
        action_id=house.new_id(),
        instrument_id="psu1",
        scpi=":SOUR1:VOLT 1",
    )
    assert await information(house, raw) == [told]
    assert await information(house, replace(wish, caller=ADA)) == []
    assert await information(house, command(house, "set_voltage", BOB, channel=2, voltage=1)) == []
    await driven_clock.advance(2880)
    assert await information(house, wish) == []


@promise("dry-run.set-by-others")
async def test_it_refuses_nothing_and_who_sets_it_then_is_told(house: SweepHouse) -> None:
    await done(house, "output_on", ADA, channel=1)
    await done(house, "set_voltage", BOB, channel=1, voltage=1)
    assert await information(house, command(house, "set_voltage", BOB, channel=1, voltage=2)) == []
    [told] = await information(house, command(house, "set_voltage", ADA, channel=1, voltage=2))
    assert told["data"]["who"] == BOB.who


@promise("dry-run.set-by-others")
async def test_an_output_that_is_off_and_a_refused_call_are_nobodys(house: SweepHouse) -> None:
    wish = command(house, "set_voltage", BOB, channel=1, voltage=1)
    await done(house, "set_voltage", ADA, channel=1, voltage=1)
    assert await information(house, wish) == []
    await done(house, "output_on", BOB, channel=1)
    refused = await house.perform(command(house, "set_voltage", ADA, channel=1, voltage=99))
    assert refused.error is not None
    assert await information(house, wish) == []
    await done(house, "output_off", ADA, channel=1)
    assert await information(house, wish) == []


@promise("changes.query-is-write")
async def test_a_raw_query_that_acts_is_set_by_who_sent_it(house: SweepHouse) -> None:
    pulse = (
        '{scpi: ":OUTP:PULS? CH{channel}", is_query: true, changes: outputs, is_dangerous: true, '
        "parameters: {channel: {type: int, min: 1, max: 2}}}"
    )
    house.supply.profile = toy_profile(f"{PROFILE}  pulse: {pulse}\n")
    await done(house, "output_on", BOB, channel=1)
    wish = command(house, "set_voltage", BOB, channel=1, voltage=1)
    assert await information(house, wish) == []
    raw = SendScpi(
        tool="send_scpi",
        caller=ADA,
        action_id=house.new_id(),
        instrument_id="psu1",
        scpi=":OUTP:PULS? CH1",
    )
    assert (await house.perform(raw)).error is None
    # What it has left is known once the output is queried.
    await done(house, "get_output", BOB, channel=1)
    [told] = await information(house, wish)
    assert told["data"]["who"] == ADA.who
