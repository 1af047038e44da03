import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from edged.actions.action import Action, StopAll
from edged.actions.caller import Caller, Claims, Route
from edged.commands.record import LogRecord
from edged.commands.target import Target
from edged.errors import ErrorCode, Failed
from edged.profiles.model import AbortStep
from tests.bench.driven_clock import DrivenClock, settle
from tests.bench.sweep_bench import DIRECT, SweepHouse
from tests.promises import promise

TIMEOUT = Failed("It did not answer.", code=ErrorCode.TIMEOUT)


class Stuck(dict[str, str]):
    def __setitem__(self, key: str, value: str) -> None:
        return


@pytest.fixture
async def house(driven_clock: DrivenClock) -> AsyncIterator[SweepHouse]:
    house = SweepHouse(driven_clock, supplies=3)
    yield house
    await house.bench_stop.close()
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
async def test_an_instrument_that_hangs_delays_no_other_and_the_answer_comes_within_a_second(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    house.supplies[1].latency_s = 10.0
    house.supplies[1].abort_troubles = [TIMEOUT]
    stopping = asyncio.create_task(stop_all(house))
    await settle()
    assert house.supplies[0].outputs["CH1"] == "OFF"
    assert house.supplies[2].outputs["CH1"] == "OFF"
    await driven_clock.advance(0.99)
    assert stopping.done()
    told = stopping.result()
    assert [i["state"] for i in told["instruments"]] == ["confirmed", "trying", "confirmed"]
    assert not told["is_confirmed"]
    assert told["took_ms"] < 1000


@promise("stop-all.truth")
async def test_a_silent_meter_that_puts_nothing_out_leaves_the_bench_confirmed(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    meter = house.supplies[1]
    assert meter.profile is not None
    meter.profile = meter.safe_by = replace(meter.profile, abort=(AbortStep(send="ABOR"),))
    meter.latency_s = 10.0
    meter.abort_troubles = [TIMEOUT]
    stopping = asyncio.create_task(stop_all(house))
    await driven_clock.advance(0.99)
    told = stopping.result()
    assert told["instruments"][1]["state"] == "trying"
    assert "It supplies no energy." in told["instruments"][1]["error"]
    assert told["is_confirmed"]


@promise("stop-all.goes-on")
async def test_what_has_not_answered_goes_on_being_tried_until_it_does(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    hung = house.supplies[1]
    await house.command("output_on", "psu2", channel=1)
    hung.latency_s = 3.0
    hung.abort_troubles = [TIMEOUT, TIMEOUT]
    stopping = asyncio.create_task(stop_all(house))
    await driven_clock.advance(1)
    told = await stopping
    assert told["instruments"][1]["unconfirmed"] == ["OUTP CH1"]
    assert hung.outputs["CH1"] == "ON"
    await driven_clock.advance(12)
    assert hung.outputs["CH1"] == "OFF"
    assert house.told_on.turns() == {}
    asked = len(hung.log)
    await driven_clock.advance(60)
    assert len(hung.log) == asked


async def test_one_that_answers_and_does_not_obey_is_tried_until_somebody_orders_anew(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    house.supply.outputs = Stuck(CH1="ON", CH2="OFF")
    await stop_all(house)
    tried = len(house.supply.aborts)
    await driven_clock.advance(3)
    assert len(house.supply.aborts) > tried
    await house.command("output_on", channel=2)
    await driven_clock.advance(3)
    tried = len(house.supply.aborts)
    await driven_clock.advance(30)
    assert len(house.supply.aborts) == tried


@promise("stop-all.truth")
async def test_an_output_of_which_nobody_can_ask_is_unproved_and_once_told_never_confirmed(
    driven_clock: DrivenClock,
) -> None:
    house = SweepHouse(driven_clock)
    profile = house.supply.profile
    assert profile is not None
    blind = AbortStep(send=":OUTP CH2,OFF", is_unaskable=True)
    house.supply.profile = replace(profile, abort=(profile.abort[0], blind))
    house.supply.safe_by = house.supply.profile
    told = await stop_all(house)
    assert told["unproved"] == [{"instrument_id": house.supply.id, "output": "OUTP CH2"}]
    assert told["instruments"][0]["state"] == "taken"
    await house.command("output_on", channel=1)
    assert (await stop_all(house))["is_confirmed"]
    await house.command("output_on", channel=2)
    told = await stop_all(house)
    assert told["instruments"][0]["unconfirmed"] == ["OUTP CH2"]
    assert not told["is_confirmed"]
    assert not (await stop_all(house))["is_confirmed"]


@promise("stop-all.truth")
@pytest.mark.parametrize(
    ("line", "is_confirmed"), [("FOO 1", False), ("*IDN?", True), ("*CLS", True)]
)
async def test_one_of_which_nothing_is_known_is_confirmed_only_while_nothing_was_written_to_it(
    house: SweepHouse, line: str, *, is_confirmed: bool
) -> None:
    house.supply.profile = house.supply.safe_by = None
    await house.scpi(line)
    told = await stop_all(house)
    assert told["instruments"][0]["state"] == "nothing_to_send"
    assert told["is_confirmed"] is is_confirmed
    assert bool(told["unproved"]) is not is_confirmed


@promise("stop-all.truth")
async def test_one_that_was_told_to_put_something_out_and_is_not_here_is_not_confirmed(
    house: SweepHouse,
) -> None:
    house.told_on.note("Toy|S1|0099", "GONE::INSTR", {"OUTP CH1"})
    told = await stop_all(house)
    assert not told["is_confirmed"]
    absent = told["instruments"][-1]
    assert (absent["instrument_id"], absent["state"]) == ("GONE::INSTR", "absent")


async def test_a_complaint_counts_less_than_the_word_that_all_is_off(house: SweepHouse) -> None:
    house.supply.answers["SYST:ERR?"] = '-113,"Undefined header"'
    report = (await stop_all(house))["instruments"][0]
    assert report["state"] == "confirmed"
    assert "Undefined header" in report["error"]


async def test_what_is_switched_on_after_the_stop_is_not_forgotten_by_its_answers(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    house.supply.latency_s = 0.5
    stopping = asyncio.create_task(stop_all(house))
    await settle()
    switching = asyncio.create_task(house.command("output_on", channel=1))
    await settle()
    await driven_clock.advance(3)
    assert (await stopping)["is_confirmed"]
    await switching
    assert house.told_on.turns() != {}


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


@promise("stop-all.truth")
async def test_of_twins_that_tell_one_serial_number_both_must_be_off(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    one, other = house.supplies[:2]
    other.serial = one.serial
    await house.command("output_on", "psu2", channel=1)
    other.latency_s = 5.0
    other.abort_troubles = [TIMEOUT] * 3
    stopping = asyncio.create_task(stop_all(house))
    await driven_clock.advance(1)
    assert not (await stopping)["is_confirmed"]
    assert house.told_on.turns() != {}


async def test_one_that_was_taken_away_is_tried_when_it_is_back_and_not_before(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    gone = house.supply
    await house.command("output_on", channel=1)
    gone.is_reachable = False
    gone.abort_troubles = [Failed("Taken away.", code=ErrorCode.DISCONNECTED)]
    assert not (await stop_all(house))["is_confirmed"]
    tried = next(house.ids)
    await driven_clock.advance(30)
    assert next(house.ids) == tried + 1
    gone.is_reachable = True
    await driven_clock.advance(3)
    assert gone.outputs["CH1"] == "OFF"
    assert house.told_on.turns() == {}


@promise("stop-all.outlives")
async def test_an_off_that_is_heard_while_the_intent_is_written_is_no_word_about_what_comes(
    driven_clock: DrivenClock,
) -> None:
    """A check of the bench beside a write that waits for a slow disk."""

    class SlowDisk(LogRecord):
        async def intend(self, action: Action, target: Target) -> None:
            await super().intend(action, target)
            for unit, turns in house.told_on.turns().items():
                house.told_on.clear(unit, turns)

    house = SweepHouse(driven_clock, record=SlowDisk())
    await house.command("output_on", "psu1", channel=1)
    assert house.supply.outputs["CH1"] == "ON"
    assert [{*marks} for marks in house.told_on.turns().values()] == [{"OUTP CH1"}]
