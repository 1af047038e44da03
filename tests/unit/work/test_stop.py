import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from edged.actions.action import StopAll
from edged.actions.caller import Caller, Claims, Route
from edged.errors import ErrorCode, Failed
from tests.bench.driven_clock import DrivenClock, settle
from tests.bench.sweep_bench import DIRECT, SweepHouse
from tests.promises import promise

TIMEOUT = Failed("It did not answer.", code=ErrorCode.TIMEOUT)


@pytest.fixture
async def house(driven_clock: DrivenClock) -> AsyncIterator[SweepHouse]:
    house = SweepHouse(driven_clock, supplies=3)
    yield house
    await house.sweeps.close(0.5)


async def stop_all(house: SweepHouse, caller: Caller = DIRECT) -> Any:
    outcome = await house.perform(
        StopAll(tool="bench__stop_all", caller=caller, action_id=house.new_id())
    )
    assert outcome.error is None, outcome.error
    return outcome.data


@promise("stop-all.everything")
async def test_stop_all_aborts_sweeps_and_instruments_and_says_what_each_confirmed(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start(10)
    await driven_clock.advance(0.25)
    told = await stop_all(house)
    assert told["is_confirmed"]
    assert [(s["sweep_id"], s["status"]) for s in told["sweeps"]] == [(sweep_id, "stopped")]
    for supply, report in zip(house.supplies, told["instruments"], strict=True):
        assert supply.outputs == {"CH1": "OFF", "CH2": "OFF"}
        assert report["state"] == "confirmed"
        assert [(c["query"], c["answer"]) for c in report["confirmed"]] == [
            (":OUTP? CH1", "OFF"),
            (":OUTP? CH2", "OFF"),
        ]
    written = len(house.supply.writes())
    await driven_clock.advance(5)
    assert len(house.supply.writes()) == written


@promise("stop-all.hung-one-delays-none")
async def test_an_instrument_that_hangs_delays_no_other_and_is_told_as_failed(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    house.supplies[1].latency_s = 10.0
    house.supplies[1].abort_troubles = [TIMEOUT]
    stopping = asyncio.create_task(stop_all(house))
    await settle()
    assert house.supplies[0].outputs["CH1"] == "OFF"
    assert house.supplies[2].outputs["CH1"] == "OFF"
    await driven_clock.advance(11)
    told = await stopping
    assert [i["state"] for i in told["instruments"]] == ["confirmed", "failed", "confirmed"]
    assert not told["is_confirmed"]


async def test_an_instrument_whose_profile_was_taken_away_is_made_safe_by_what_was_known(
    house: SweepHouse,
) -> None:
    lost = house.supplies[1]
    lost.outputs["CH1"] = "ON"
    lost.profile = None
    told = await stop_all(house)
    assert lost.outputs["CH1"] == "OFF"
    assert [i["state"] for i in told["instruments"]] == ["confirmed"] * 3


async def test_an_instrument_that_does_not_do_what_it_took_is_told_as_failed(
    house: SweepHouse,
) -> None:
    class Stuck(dict[str, str]):
        def __setitem__(self, key: str, value: str) -> None:
            return

    house.supply.outputs = Stuck(CH1="ON", CH2="OFF")
    report = (await stop_all(house))["instruments"][0]
    assert report["state"] == "failed"
    assert "'ON'" in report["error"]


async def test_a_client_that_goes_away_does_not_end_the_stop(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    for supply in house.supplies:
        supply.latency_s = 1.0
    stopping = asyncio.create_task(stop_all(house))
    await settle()
    stopping.cancel()
    await asyncio.wait({stopping})
    await driven_clock.advance(5)
    assert all(s.outputs == {"CH1": "OFF", "CH2": "OFF"} for s in house.supplies)


async def test_a_sweep_that_is_about_to_begin_does_not_begin_after_all(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    house.supply.latency_s = 1.0
    starting = asyncio.create_task(house.ask_start())
    await settle()
    stopping = asyncio.create_task(stop_all(house))
    await driven_clock.advance(10)
    await stopping
    outcome = await starting
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.CANCELLED
    assert house.supply.writes() == []
    assert house.journal.open == {}


async def test_whoever_may_do_nothing_dangerous_may_make_the_bench_safe(house: SweepHouse) -> None:
    claims = Claims(
        iss="i",
        aud="edge:e",
        sub="user:u",
        exp=1,
        iat=0,
        edge_id="e",
        tools_allow=frozenset({"bench__stop_all"}),
        danger_allow=False,
    )
    await stop_all(house, Caller(route=Route.RELAY, claims=claims))
    assert house.supply.outputs["CH1"] == "OFF"


async def test_a_sweep_that_was_about_to_begin_does_not_and_its_recording_ends(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    house.supply.latency_s = 1.0
    measure = [{"instrument_id": "psu1", "command_name": "measure_voltage"}]
    starting = asyncio.create_task(house.ask_start(10, measure=measure))
    await settle()
    house.supply.latency_s = 0.0
    await stop_all(house)
    await driven_clock.advance(1.5)
    outcome = await starting
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.CANCELLED
    assert [sheet.ended for sheet in house.recorder.sheets] == ["failed"]
    assert house.journal.open == {}
    assert house.supply.writes() == []
