import asyncio
import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.actions.caller import Caller, Claims, Route
from edged.errors import EdgedError, ErrorCode, Failed
from edged.instruments.pool import Left
from edged.operations.sweeps import DrawSweep
from edged.profiles.unit_rules import UnitRules
from edged.runs import left_work
from edged.runs.sweeps.ramp_plan import NETWORK_USUAL_S
from edged.runs.sweeps.registry import MOST_ENDED
from edged.store.journal import JournalEntry, JournalKind
from edged.transports.address import Transport
from tests.bench.driven_clock import DrivenClock, settle
from tests.bench.fake_artist import DRAWN
from tests.bench.fake_instruments import toy_profile
from tests.bench.sweep_bench import DIRECT, PROFILE, SweepHouse
from tests.promises import promise

TIMEOUT = Failed("It did not answer.", code=ErrorCode.TIMEOUT, sent=(":SOUR1:VOLT 0.5",))
PREEMPTED = Failed("It was pre-empted.", code=ErrorCode.PREEMPTED, sent=(":SOUR1:VOLT 0.5",))
NEVER_SENT = Failed("The line was taken.", code=ErrorCode.TIMEOUT)
GONE = Failed("It is gone.", code=ErrorCode.DISCONNECTED)


@pytest.fixture
async def house(driven_clock: DrivenClock) -> AsyncIterator[SweepHouse]:
    house = SweepHouse(driven_clock, supplies=2)
    yield house
    await house.sweeps.close(0.5)


def code_of(outcome: Any) -> ErrorCode:
    assert isinstance(outcome.error, EdgedError), outcome
    return outcome.error.code


def assert_within_the_rate(
    house: SweepHouse, rate: float, start: float = 0.0, slack_s: float = 0.0
) -> None:
    """No two writes further apart than the rate allows, in value or in time."""
    at, value = house.clock.monotonic() - 1e9, start
    for then, written in house.supply.writes():
        assert abs(written - value) <= max(rate * 0.1, 0.001) + 1e-9
        assert abs(written - value) <= rate * (then - at + slack_s) + 1e-6
        at, value = then, written


async def test_a_sweep_returns_at_once_and_arrives_on_time(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start(1.0, 1.0)
    assert house.supply.writes() == []
    await driven_clock.advance(0.95)
    assert (await house.status(sweep_id))["status"] == "running"
    await driven_clock.advance(0.1)
    told = await house.status(sweep_id)
    assert (told["status"], told["current_value"], told["steps"]) == ("completed", 1.0, 10)
    assert told["behind_s"] == 0
    assert_within_the_rate(house, 1.0)
    assert house.supply.aborts == []
    assert house.journal.open == {}


async def test_it_starts_from_what_the_instrument_reports_and_goes_down_too(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    house.supply.held[":SOUR1:VOLT"] = 5.0
    sweep_id = await house.start(4.5, 1.0)
    await driven_clock.advance(1)
    assert [value for _, value in house.supply.writes()] == [4.9, 4.8, 4.7, 4.6, 4.5]
    assert (await house.status(sweep_id))["start_value"] == 5.0


@pytest.mark.parametrize("answer", ["", "OVLD", "9.9E37"])
async def test_a_set_point_that_cannot_be_known_starts_nothing(
    house: SweepHouse, answer: str
) -> None:
    house.supply.answers["lie :SOUR1:VOLT?"] = answer
    outcome = await house.ask_start()
    assert code_of(outcome) is ErrorCode.BAD_ANSWER
    assert house.supply.writes() == []
    assert house.journal.open == {}


@promise("sweep.never-a-jump")
async def test_after_a_stall_it_goes_on_from_where_it_was_and_says_how_late_it_is(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start(1.0, 1.0)
    await driven_clock.advance(0.25)
    house.supply.latency_s = 7.0
    await driven_clock.advance(5.0)
    assert (await house.status(sweep_id))["behind_s"] == pytest.approx(4.95, abs=0.05)
    house.supply.latency_s = 0.0
    await driven_clock.advance(30.0)
    told = await house.status(sweep_id)
    assert told["status"] == "completed"
    assert told["behind_s"] == pytest.approx(7.0, abs=0.05)
    assert_within_the_rate(house, 1.0)


DELAYS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.0, 0.005, 0.05, 0.3]), st.sampled_from([0.0, 0.0, 0.005, 0.3])
    ),
    min_size=1,
    max_size=40,
)


@promise("sweep.never-a-jump")
@given(delays=DELAYS, rate=st.sampled_from([0.5, 1.0, 2.0]))
async def test_a_wire_that_holds_things_back_never_brings_two_steps_closer_together(
    delays: list[tuple[float, float]], rate: float
) -> None:
    clock = DrivenClock()
    house = SweepHouse(clock)
    asking = asyncio.create_task(house.start(1.0, rate))
    await clock.advance(0.01)
    sweep_id = await asking
    house.supply.wire_s = list(delays)
    await clock.advance(1.0 / rate + 2 * sum(map(sum, delays)) + 1.0)
    assert (await house.status(sweep_id))["status"] == "completed"
    assert_within_the_rate(house, rate, slack_s=NETWORK_USUAL_S)
    await house.sweeps.close(0.5)


@pytest.mark.parametrize(
    ("transport", "wire_s"),
    [(Transport.SOCKET, (0.01, 0.01)), (Transport.SERIAL, (0.0, 0.06))],
)
async def test_a_wire_that_is_always_equally_slow_costs_no_time(
    house: SweepHouse, driven_clock: DrivenClock, transport: Transport, wire_s: tuple[float, float]
) -> None:
    house.supply.transport = transport
    sweep_id = await house.start(1.0, 1.0)
    house.supply.wire_s = [wire_s] * 100
    await driven_clock.advance(1.2)
    told = await house.status(sweep_id)
    assert told["status"] == "completed"
    # The last confirmation alone, and not one for each of the ten steps.
    assert told["behind_s"] <= 0.07
    assert_within_the_rate(house, 1.0)


@pytest.mark.parametrize("trouble", [PREEMPTED, NEVER_SENT])
async def test_a_step_that_was_pushed_off_the_line_is_written_again_and_never_skipped(
    house: SweepHouse, driven_clock: DrivenClock, trouble: Failed
) -> None:
    sweep_id = await house.start(0.5, 1.0)
    await driven_clock.advance(0.15)
    house.supply.troubles = [trouble, trouble, trouble]
    await driven_clock.advance(3)
    assert (await house.status(sweep_id))["status"] == "completed"
    assert [value for _, value in house.supply.writes()] == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert_within_the_rate(house, 1.0)


@pytest.mark.parametrize("trouble", [TIMEOUT, GONE])
async def test_an_instrument_that_fails_fails_the_sweep_and_gets_its_abort(
    house: SweepHouse, driven_clock: DrivenClock, trouble: Failed
) -> None:
    sweep_id = await house.start(parameters={"channel": 2})
    await driven_clock.advance(0.15)
    house.supply.troubles = [trouble]
    await driven_clock.advance(0.2)
    told = await house.status(sweep_id)
    assert told["status"] == "failed"
    assert trouble.message in told["error"]
    assert house.supply.aborts == [":OUTP CH2,OFF"]
    assert told["abort"]["state"] == "done"
    assert house.journal.open == {}


async def test_an_abort_that_a_lost_line_does_not_take_is_tried_as_soon_as_it_does(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start()
    await driven_clock.advance(0.15)
    house.supply.troubles, house.supply.abort_troubles = [GONE], [GONE, GONE, GONE]
    await driven_clock.advance(0.2)
    assert (await house.status(sweep_id))["abort"]["state"] == "pending"
    assert sweep_id in house.journal.open
    refused = await house.command("set_voltage", voltage=5)
    assert code_of(refused) is ErrorCode.SWEEP_CONFLICT
    await driven_clock.advance(5)
    assert house.supply.aborts == [":OUTP CH1,OFF"]
    assert house.journal.open == {}
    assert (await house.command("set_voltage", voltage=5)).error is None


async def test_an_abort_that_nobody_takes_is_given_up_in_the_end_and_wants_attention(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start()
    await driven_clock.advance(0.15)
    house.supply.troubles, house.supply.abort_troubles = [GONE], [GONE] * 200
    await driven_clock.advance(130)
    told = await house.status(sweep_id)
    assert told["needs_attention"]
    assert told["abort"]["state"] == "given_up"
    assert sweep_id in house.journal.open
    assert [entry["sweep_id"] for entry in house.sweeps.active()] == [sweep_id]


@promise("sweep.hold-parks")
async def test_hold_parks_at_the_present_value_and_keeps_the_parameter(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start()
    await driven_clock.advance(0.35)
    told = await house.stop(sweep_id, hold=True)
    assert (told["status"], told["current_value"]) == ("holding", 0.3)
    await driven_clock.advance(100)
    assert [value for _, value in house.supply.writes()] == [0.1, 0.2, 0.3]
    assert house.supply.aborts == []
    refused = await house.ask_start()
    assert code_of(refused) is ErrorCode.SWEEP_CONFLICT
    assert "It does not end by itself" in str(refused.error)
    assert (await house.stop(sweep_id, hold=True))["status"] == "holding"
    assert (await house.stop(sweep_id))["status"] == "stopped"
    assert house.supply.aborts == [":OUTP CH1,OFF"]


async def test_hold_during_a_step_parks_at_that_step(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start()
    house.supply.latency_s = 1.0
    await driven_clock.advance(0.5)
    stopping = asyncio.create_task(house.stop(sweep_id, hold=True))
    await driven_clock.advance(3)
    assert (await stopping)["current_value"] == 0.1
    assert [value for _, value in house.supply.writes()] == [0.1]


@promise("sweep.abort-first")
async def test_stop_runs_the_sweeps_own_abort_and_writes_nothing_after_it(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start(parameters={"channel": 2})
    await driven_clock.advance(0.25)
    assert (await house.stop(sweep_id))["status"] == "stopped"
    await driven_clock.advance(5)
    said = [t for _, t in house.supply.log if t.startswith(":")]
    assert said[-2:] == [":OUTP CH2,OFF", ":OUTP? CH2"]
    assert (await house.stop(sweep_id))["status"] == "stopped"
    assert house.supply.aborts == [":OUTP CH2,OFF"]


BOB = replace(DIRECT, client="bob")


def written_since(house: SweepHouse, *who: Caller) -> None:
    """These have written to the unit since its sweep was over, and nobody else."""
    house.supply.written_by[:] = [one.who for one in who]


@promise("sweep.abort-completed")
async def test_a_stop_of_a_completed_sweep_runs_its_abort(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start(0.2, 1.0, parameters={"channel": 2})
    await driven_clock.advance(1)
    assert "was" not in await house.stop(sweep_id, hold=True)
    assert (await house.status(sweep_id))["status"] == "completed"
    written_since(house, DIRECT)
    told = await house.stop(sweep_id)
    assert (told["status"], told["was"], told["aborted"]) == ("stopped", "completed", True)
    assert "who" not in told
    assert house.supply.aborts == [":OUTP CH2,OFF"]
    assert (await house.status(sweep_id))["abort"]["state"] == "done"
    # Once is enough.
    told = await house.stop(sweep_id)
    assert (told["status"], told["aborted"], told["still_on"]) == ("stopped", False, [])
    assert house.supply.aborts == [":OUTP CH2,OFF"]


@promise("sweep.abort-completed")
async def test_a_stop_waits_for_its_abort_also_while_the_end_of_the_sweep_is_written(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start(0.2, 1.0)
    house.journal.may_finish.clear()
    await driven_clock.advance(1)
    assert (await house.status(sweep_id))["status"] == "completed"
    written_since(house)
    house.supply.latency_s = 0.5
    stopping = asyncio.create_task(house.stop(sweep_id))
    await settle()
    house.journal.may_finish.set()
    await settle()
    # Nobody takes it for over: its output is still on.
    assert not stopping.done()
    assert [run.run_id for run in house.runs.under_way()] == [sweep_id]
    await driven_clock.advance(1)
    told = await stopping
    assert (told["status"], told["was"], told["aborted"]) == ("stopped", "completed", True)
    assert house.runs.under_way() == []


@promise("sweep.abort-completed")
async def test_a_completed_sweep_whose_abort_fails_is_failed_and_tried_again(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start(0.2, 1.0)
    await driven_clock.advance(1)
    written_since(house)
    house.supply.abort_troubles = [GONE]
    told = await house.stop(sweep_id)
    assert (told["status"], told["was"], told["aborted"]) == ("failed", "completed", False)
    await driven_clock.advance(5)
    assert (await house.status(sweep_id))["abort"]["state"] == "done"


@promise("sweep.abort-completed")
async def test_a_completed_sweep_is_not_aborted_while_another_one_runs_on_its_unit(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    first = await house.start(0.2, 1.0)
    await driven_clock.advance(1)
    written_since(house)
    await house.start(5, 1.0, parameters={"channel": 2})
    told = await house.stop(first)
    assert (told["status"], told["aborted"], told["who"]) == ("completed", False, DIRECT.who)
    assert house.supply.aborts == []


@promise("sweep.stop-tells-what-is-on")
async def test_a_stop_of_a_sweep_whose_unit_another_has_written_to_says_who_and_what_is_on(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start(0.2, 1.0)
    await driven_clock.advance(1)
    written_since(house, DIRECT, BOB)
    told = await house.stop(sweep_id)
    assert (told["status"], told["aborted"]) == ("completed", False)
    assert told["who"] == BOB.who
    assert told["still_on"] == [{"name": "OUTP CH1", "query": ":OUTP? CH1", "answer": "ON"}]
    assert house.supply.aborts == []
    await house.command("output_off", channel=1)
    written_since(house, BOB)
    assert (await house.stop(sweep_id))["still_on"] == []
    house.supply.troubles = [GONE]
    assert (await house.stop(sweep_id))["still_on"] == []


@promise("sweep.stop-tells-what-is-on")
@pytest.mark.parametrize(
    ("abort", "asked", "name"),
    [
        # The question is about the selected channel, which another may have changed since.
        ('["INST:NSEL {channel}", ":OUTP OFF"]', ["INST:NSEL 1", ":OUTP?"], "OUTP (INST:NSEL 1)"),
        # A level that was left set is no output that is on.
        ('[":SOUR{channel}:VOLT 0", ":OUTP OFF"]', [":OUTP?"], "OUTP"),
    ],
)
async def test_what_is_on_is_asked_of_the_swept_channel_and_of_its_switch(
    house: SweepHouse, driven_clock: DrivenClock, abort: str, asked: list[str], name: str
) -> None:
    own = 'abort: [":OUTP CH{channel},OFF"]'
    text = PROFILE.replace(own, f"abort: {abort}")
    text += '  is_on: {scpi: ":OUTP?", is_query: true, returns: {type: bool}}\n'
    text += '  get_voltage: {scpi: ":SOUR1:VOLT?", is_query: true, returns: {type: float}}\n'
    house.supply.profile = toy_profile(text)
    sweep_id = await house.start(0.2, 1.0)
    await driven_clock.advance(1)
    written_since(house, BOB)
    for answer, names in (("1", [name]), ("0", [])):
        house.supply.outputs[""] = answer
        mark = len(house.supply.log)
        told = await house.stop(sweep_id)
        assert [one["name"] for one in told["still_on"]] == names
        assert [text for _, text in house.supply.log[mark:]][: len(asked)] == asked


@promise("sweep.stop-tells-what-is-on")
async def test_a_stop_says_whether_it_aborted(house: SweepHouse) -> None:
    sweep_id = await house.start(20, 1.0)
    assert "aborted" not in await house.stop(sweep_id, hold=True)
    told = await house.stop(sweep_id)
    assert (told["status"], told["was"], told["aborted"]) == ("stopped", "holding", True)
    assert "still_on" not in told
    # It is over by now, and this call aborted nothing.
    told = await house.stop(sweep_id)
    assert (told["status"], told["aborted"], told["still_on"]) == ("stopped", False, [])


async def test_asking_what_is_still_on_keeps_no_stop_waiting_for_long(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start(0.2, 1.0)
    await driven_clock.advance(1)
    written_since(house, BOB)
    house.supply.latency_s = 1e6
    assert (await house.stop(sweep_id))["still_on"] == []


READ_BACK = (
    'setpoint: ":SOUR{channel}:VOLT?", abort',
    'setpoint: ":SOUR{channel}:VOLT?", readback: measure_voltage, abort',
)


def reads_of(house: SweepHouse) -> list[float]:
    return [at for at, text in house.supply.log if text == ":MEAS:VOLT? CH1"]


@promise("sweep.readback-is-fresh")
@pytest.mark.parametrize("settle_ms", [0, 40, 700])
@pytest.mark.parametrize("is_parked", [False, True])
async def test_where_a_sweep_rests_it_is_read_once_more_after_it_has_settled(
    house: SweepHouse, driven_clock: DrivenClock, settle_ms: int, is_parked: bool
) -> None:
    house.supply.profile = toy_profile(PROFILE.replace(*READ_BACK))
    sweep_id = await house.start(20 if is_parked else 0.3, 1.0, settle_ms=settle_ms)
    if is_parked:
        await driven_clock.advance(0.95)
        stopping = asyncio.ensure_future(house.stop(sweep_id, hold=True))
        await settle()
    await driven_clock.advance(4)
    last_write, value = house.supply.writes()[-1]
    assert reads_of(house)[-1] - last_write >= max(settle_ms / 1000, 0.1) - 1e-6
    told = await stopping if is_parked else await house.status(sweep_id)
    assert told["status"] == ("holding" if is_parked else "completed")
    assert told["current_value"] == value / 2


async def test_a_sweep_without_an_abort_of_its_own_takes_the_profiles(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start(100, 100, command="set_hv")
    await driven_clock.advance(0.25)
    await house.stop(sweep_id)
    assert house.supply.aborts == [":OUTP CH1,OFF", ":OUTP CH2,OFF"]


async def test_an_abort_that_fails_is_loud(house: SweepHouse, driven_clock: DrivenClock) -> None:
    sweep_id = await house.start()
    house.supply.abort_troubles = [TIMEOUT]
    told = await house.stop(sweep_id)
    assert told["status"] == "failed"
    assert "abort failed" in told["error"]
    await driven_clock.advance(1)
    assert house.supply.aborts == [":OUTP CH1,OFF"]


async def test_an_instrument_that_leaves_fails_what_is_swept_or_held_on_it(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start()
    await driven_clock.advance(0.15)
    await house.stop(sweep_id, hold=True)
    house.sweeps.hear(Left(instrument=house.supply))  # type: ignore[arg-type]
    await settle()
    told = await house.status(sweep_id)
    assert (told["status"], "is gone" in told["error"]) == ("failed", True)


@promise("sweep.safe-passes")
@pytest.mark.parametrize(("name", "given"), [("output_off", {"channel": 1}), ("all_off", {})])
async def test_a_safe_command_on_what_is_swept_passes_and_stops_the_sweep(
    house: SweepHouse, driven_clock: DrivenClock, name: str, given: dict[str, Any]
) -> None:
    sweep_id = await house.start()
    await driven_clock.advance(0.15)
    assert (await house.command(name, **given)).error is None
    await driven_clock.advance(3)
    assert (await house.status(sweep_id))["status"] == "stopped"
    assert [value for _, value in house.supply.writes()] == [0.1]


async def test_a_safe_command_on_another_channel_leaves_the_sweep_alone(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start()
    assert (await house.command("output_off", channel=2)).error is None
    await driven_clock.advance(2)
    assert (await house.status(sweep_id))["status"] == "completed"


@promise("sweep.one-writer")
async def test_another_writer_is_refused_with_the_sweeps_id_whatever_road_it_takes(
    house: SweepHouse,
) -> None:
    sweep_id = await house.start()
    for outcome in (
        await house.ask_start(),
        await house.command("set_voltage", voltage=3),
        await house.command("set_both", voltage=3, current=1),
        await house.scpi("SOURce1:VOLTage 3"),
        await house.scpi(":SOUR1:VOLT 3;:SOUR2:VOLT 3"),
        await house.scpi("*RST"),
        await house.scpi("*CLS;*RST"),
        await house.command("reset"),
        # Under another header: what sets all at once, and what goes on from the swept header.
        await house.command("set_all", voltage=3),
        await house.scpi(":APPLy CH1,3,1"),
        await house.command("set_with_range", voltage=3),
        await house.scpi("VOLT:AUTO 3"),
        # What the profile does not know may be anything.
        await house.scpi(":SOUR1:APPL:SIN 1000,1"),
        await house.scpi(":VOLT:STEP:UP"),
        # A zero is a value, unless it is of a switch.
        await house.scpi(":SOUR1:VOLT:LEV:SPEC 0"),
    ):
        assert code_of(outcome) is ErrorCode.SWEEP_CONFLICT
        assert outcome.error is not None
        assert outcome.error.data["sweep_id"] == sweep_id
    assert house.supply.writes() == []


@promise("callers.conflict-names-who")
async def test_a_conflict_names_who_started_the_sweep_and_how_long_ago(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    caller = Caller(route=Route.DIRECT, remote="127.0.0.1", client="claude-code 2.1")
    sweep_id = await house.start(caller=caller)
    await driven_clock.advance(0.35)
    await house.stop(sweep_id, hold=True)
    await driven_clock.advance(200)
    outcome = await house.command("set_voltage", voltage=3)
    assert outcome.error is not None
    who = "claude-code 2.1 at 127.0.0.1"
    held = f"is held by {sweep_id}, started 3 min ago by {who}, which is holding."
    assert held in outcome.error.message
    assert outcome.error.data["who"] == who
    assert (await house.status(sweep_id))["who"] == who


async def test_what_is_over_holds_nothing_though_its_last_words_are_not_written(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    house.journal.may_finish.clear()
    first = await house.start()
    await driven_clock.advance(0.25)
    assert house.notes.running == {first}
    assert (await house.stop(first))["status"] == "stopped"
    assert (await house.command("set_voltage", voltage=3)).error is None
    # Nor is its unit one that nobody else may reserve.
    assert not house.notes.running
    second = await house.start()
    house.journal.may_finish.set()
    await driven_clock.advance(0.1)
    outcome = await house.command("set_voltage", voltage=4)
    assert code_of(outcome) is ErrorCode.SWEEP_CONFLICT
    assert outcome.error is not None
    assert outcome.error.data["sweep_id"] == second


async def test_reads_and_other_channels_pass_during_a_sweep(house: SweepHouse) -> None:
    await house.start()
    for outcome in (
        await house.command("measure_voltage"),
        await house.command("set_voltage", channel=2, voltage=3),
        await house.scpi(":SOUR1:VOLT?"),
        await house.scpi(":SOUR2:VOLT 3"),
        await house.command("set_voltage", instrument="psu2", voltage=3),
        await house.command("set_all", channel=2, voltage=3),
        await house.command("set_protection", level=5),
        await house.scpi(":SOUR1:VOLT:PROT 5"),
        await house.command("set_bias", voltage=3),
        # Of what the profile does not know, that which sets no value or switches off.
        await house.scpi("*CLS;:STAT:PRES;:DISP:TEXT 'hands off'"),
        await house.scpi(":OUTP:ALL OFF"),
        await house.scpi(":FOO?"),
        await house.ask_start(parameters={"channel": 2}),
    ):
        assert outcome.error is None, outcome.error


@promise("requires-sweep.every-road")
async def test_start_sweep_reaches_what_may_only_be_ramped_and_nothing_else_does(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    assert code_of(await house.command("set_hv", level=10)) is ErrorCode.REQUIRES_SWEEP
    assert code_of(await house.scpi(":HV 10")) is ErrorCode.REQUIRES_SWEEP
    sweep_id = await house.start(10, 10, command="set_hv")
    await driven_clock.advance(1.5)
    assert (await house.status(sweep_id))["status"] == "completed"
    assert house.supply.held[":HV"] == 10


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"target": 31.0}, "31"),
        ({"target": 6.0, "parameters": {"channel": 2}}, "channel is 2"),
        ({"parameters": {"channel": 3}}, "channel"),
        ({"parameters": {"voltage": 1}}, "target_value"),
        ({"rate": 0.0}, "sweep_rate"),
        ({"rate": float("nan")}, "sweep_rate"),
        ({"command": "output_on", "parameters": {"channel": 1}}, "swept"),
        ({"measure": [{"instrument_id": "psu1", "command_name": "output_on"}]}, "not a query"),
        ({"measure": [{"instrument_id": "psu1", "command_name": "set_hv"}]}, "ramped"),
        (
            {
                "measure": [
                    {
                        "instrument_id": "psu1",
                        "command_name": "measure_voltage",
                        "parameters": {"channel": 9},
                    }
                ]
            },
            "channel",
        ),
        ({"stop_when": {"column": "power", "op": ">", "value": 1, "then": "hold"}}, "power"),
    ],
)
async def test_what_cannot_be_swept_is_refused_before_anything_is_sent(
    house: SweepHouse, given: dict[str, Any], word: str
) -> None:
    outcome = await house.ask_start(**given)
    assert code_of(outcome) is ErrorCode.BAD_ARGUMENTS
    assert word in str(outcome.error)
    assert [text for _, text in house.supply.log if "?" not in text] == []
    assert not house.sweeps.claims.holds_on(house.supply.id)


async def test_the_owners_rate_holds(house: SweepHouse) -> None:
    house.supply.rules = UnitRules(key="x", max_rate={"set_voltage": 0.5})
    outcome = await house.ask_start(rate=0.6)
    assert code_of(outcome) is ErrorCode.BAD_ARGUMENTS
    assert outcome.error is not None
    assert outcome.error.data["bound"] == 0.5
    assert (await house.ask_start(rate=0.5)).error is None


async def test_the_owners_rate_holds_under_every_name_by_which_the_value_is_swept(
    house: SweepHouse,
) -> None:
    profile = house.supply.profile
    assert profile is not None
    again = replace(profile.commands["set_voltage"], name="set_high_voltage")
    commands = {**profile.commands, "set_high_voltage": again}
    house.supply.profile = replace(profile, commands=commands)
    for rates in ({"set_high_voltage": 0.5}, {"set_high_voltage": 0.5, "": 3, "set_voltage": 2}):
        house.supply.rules = UnitRules(key="x", max_rate=rates)
        outcome = await house.ask_start(rate=0.6)
        assert code_of(outcome) is ErrorCode.BAD_ARGUMENTS
        assert outcome.error is not None
        assert outcome.error.data["bound"] == 0.5
    assert (await house.ask_start(rate=0.5)).error is None


async def test_a_rate_that_the_owner_sets_meanwhile_slows_a_sweep_down(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start(2.0, 1.0)
    await driven_clock.advance(0.55)
    house.supply.rules = UnitRules(key="x", max_rate={"set_voltage": 0.1})
    await driven_clock.advance(5.5)
    told = await house.status(sweep_id)
    assert told["status"] == "running"
    # The step that was due went out; from then on a tenth of a volt takes a second.
    assert 1.1 <= told["set_value"] <= 1.2
    late = house.supply.writes()[-10:]
    assert all(b - a <= 0.01 + 1e-9 for (_, a), (_, b) in itertools.pairwise(late))
    assert_within_the_rate(house, 1.0)


async def test_a_start_outside_of_the_limits_is_refused_before_the_first_step(
    house: SweepHouse,
) -> None:
    house.supply.held[":SOUR2:VOLT"] = 8.0
    outcome = await house.ask_start(target=1.0, parameters={"channel": 2})
    assert code_of(outcome) is ErrorCode.BAD_ARGUMENTS
    assert house.supply.writes(":SOUR2:VOLT") == []


async def test_each_step_adds_a_row_after_it_has_settled(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    house.supply.answers[":MEAS:ALL? CH1"] = "1.5,0.25"
    sweep_id = await house.start(
        0.3,
        1.0,
        settle_ms=50,
        measure=[
            {"instrument_id": "psu1", "command_name": "measure_voltage"},
            {"instrument_id": "psu2", "command_name": "measure_voltage"},
            {"instrument_id": "psu1", "command_name": "measure_all"},
        ],
    )
    await driven_clock.advance(1)
    told = await house.status(sweep_id, points=10)
    assert [c["name"] for c in told["columns"]] == [
        "t",
        "set",
        "psu1.measure_voltage",
        "psu2.measure_voltage",
        "measure_all.v",
        "measure_all.i",
    ]
    assert [c["unit"] for c in told["columns"]] == ["s", "V", "V", "V", "V", "A"]
    assert [list(row.values()) for row in told["points"]] == [
        [0.15, 0.1, 0.05, 0.0, 1.5, 0.25],
        [0.25, 0.2, 0.1, 0.0, 1.5, 0.25],
        [0.35, 0.3, 0.15, 0.0, 1.5, 0.25],
    ]
    sheet = house.recorder.sheets[0]
    assert (len(sheet.rows), sheet.ended) == (3, "completed")
    assert [row["set"] for row in (await house.status(sweep_id, points=2))["points"]] == [0.1, 0.3]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "readings take 0.45 s a step, 0.1 s were asked for"),
        (
            {"points": {"count": 5}},
            "readings take 0.45 s a point, and the ramp waits for each",
        ),
    ],
)
async def test_a_sweep_that_its_readings_hold_up_says_so_while_it_runs_and_at_its_end(
    house: SweepHouse, driven_clock: DrivenClock, more: dict[str, Any], words: str
) -> None:
    house.supplies[1].latency_s = 0.45
    sweep_id = await house.start(
        1.0,
        1.0,
        measure=[{"instrument_id": "psu2", "command_name": "measure_voltage"}],
        settle_ms=50,
        **more,
    )
    await driven_clock.advance(2.8)
    told = await house.status(sweep_id)
    assert (told["status"], told["why_late"]) == ("running", words)
    await driven_clock.advance(20)
    told = await house.status(sweep_id)
    assert told["status"] == "completed"
    assert (told["why_late"], told["notes"]) == (words, [words])


@pytest.mark.parametrize(("then", "status"), [("hold", "completed"), ("abort", "stopped")])
async def test_a_stop_when_that_was_never_met_is_said(
    house: SweepHouse, driven_clock: DrivenClock, then: str, status: str
) -> None:
    sweep_id = await house.start(
        1.0,
        1.0,
        measure=[{"instrument_id": "psu1", "command_name": "measure_voltage"}],
        stop_when={"column": "measure_voltage", "op": ">", "value": 1e6, "then": "abort"},
        then=then,
    )
    await driven_clock.advance(3)
    told = await house.status(sweep_id)
    assert (told["status"], told["reason"]) == (status, "target reached")
    assert told["notes"] == ["stop_when measure_voltage was never met"]


@pytest.mark.parametrize(("then", "status"), [("hold", "holding"), ("abort", "stopped")])
async def test_stop_when_ends_it_without_a_model_in_the_loop(
    house: SweepHouse, driven_clock: DrivenClock, then: str, status: str
) -> None:
    sweep_id = await house.start(
        1.0,
        1.0,
        measure=[{"instrument_id": "psu1", "command_name": "measure_voltage"}],
        stop_when={"column": "measure_voltage", "op": ">=", "value": 0.15, "then": then},
    )
    await driven_clock.advance(3)
    told = await house.status(sweep_id)
    assert (told["status"], told["set_value"]) == (status, 0.3)
    assert (told["reason"], told["error"]) == ("stop_when: measure_voltage >= 0.15.", None)
    assert house.supply.aborts == ([":OUTP CH1,OFF"] if then == "abort" else [])


@pytest.mark.parametrize(
    ("answer", "word"), [("9.9E37", ">"), ("9.91E37", "no_value"), ("----", "no_value")]
)
async def test_a_reading_that_cannot_watch_any_more_ends_the_sweep(
    house: SweepHouse, driven_clock: DrivenClock, answer: str, word: str
) -> None:
    house.supply.answers[":MEAS:ALL? CH1"] = "0.1,0.2"
    sweep_id = await house.start(
        1.0,
        1.0,
        measure=[{"instrument_id": "psu1", "command_name": "measure_all"}],
        stop_when={"column": "measure_all.i", "op": ">", "value": 2.5, "then": "abort"},
    )
    await driven_clock.advance(0.35)
    assert (await house.status(sweep_id))["status"] == "running"
    house.supply.answers[":MEAS:ALL? CH1"] = f"0.1,{answer}"
    await driven_clock.advance(1)
    told = await house.status(sweep_id)
    assert told["status"] == "stopped"
    assert told["set_value"] < 0.6
    # Beyond the range it was met; without a number nobody can say so.
    assert word in (told["error"] or told["reason"])
    assert (told["error"] is None) is (word == ">")
    assert house.supply.aborts == [":OUTP CH1,OFF"]


@promise("sweep.points")
@pytest.mark.parametrize(
    ("spacing", "first", "expected"),
    [
        ("linear", 0.0, [0.0, 0.25, 0.5, 0.75, 1.0]),
        ("log", 0.01, [0.01, 0.031, 0.1, 0.316, 1.0]),
    ],
)
async def test_points_are_read_and_what_lies_between_is_ramped(
    house: SweepHouse, driven_clock: DrivenClock, spacing: str, first: float, expected: list[float]
) -> None:
    house.supply.held[":SOUR1:VOLT"] = first
    sweep_id = await house.start(
        1.0,
        1.0,
        measure=[{"instrument_id": "psu1", "command_name": "measure_voltage"}],
        points={"count": 5, "spacing": spacing},
    )
    await driven_clock.advance(3)
    told = await house.status(sweep_id, points=100)
    assert (told["status"], told["reason"], told["error"]) == ("completed", "target reached", None)
    assert [row["set"] for row in told["points"]] == pytest.approx(expected, abs=1e-9)
    assert [row["measure_voltage"] * 2 for row in told["points"]] == pytest.approx(expected)
    written = house.supply.writes()
    steps = itertools.pairwise([(0.0, first), *written])
    assert all(abs(after - before) <= 0.1 + 1e-9 for (_, before), (_, after) in steps)
    assert told["steps_left"] == 0
    assert len(written) >= 10


async def test_it_stays_at_each_point_before_it_reads_it(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start(1.0, 1.0, points={"count": 3}, dwell_ms=2_000)
    await driven_clock.advance(10)
    rows = (await house.status(sweep_id, points=10))["points"]
    assert [row["t"] for row in rows] == pytest.approx([2.0, 4.5, 7.0], abs=0.3)


@promise("sweep.then")
async def test_at_the_target_the_abort_is_run_where_that_was_asked(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start(0.3, 1.0, then="abort")
    await driven_clock.advance(3)
    told = await house.status(sweep_id)
    assert (told["status"], told["reason"], told["error"]) == ("stopped", "target reached", None)
    assert told["set_value"] == 0.3
    assert house.supply.aborts == [":OUTP CH1,OFF"]


async def test_a_logarithmic_way_from_zero_is_refused_before_anything_is_set(
    house: SweepHouse,
) -> None:
    outcome = await house.ask_start(1.0, 1.0, points={"count": 5, "spacing": "log"})
    assert outcome.error is not None
    assert outcome.error.data["parameter"] == "points.spacing"
    assert not house.supply.writes()


class Stubborn(dict[str, str]):
    """Outputs that do not heed the first words that switch them."""

    unheeded = 2

    def __setitem__(self, channel: str, state: str) -> None:
        self.unheeded -= 1
        if self.unheeded < 0:
            super().__setitem__(channel, state)


async def test_an_abort_that_is_not_obeyed_has_failed_and_is_said_again(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    house.supply.outputs = Stubborn({"CH1": "ON"})
    sweep_id = await house.start(3.0, 1.0)
    await driven_clock.advance(0.25)
    told = await house.stop(sweep_id)
    assert told["status"] == "failed"
    assert "answers 'ON', not 'OFF'" in told["error"]
    assert house.journal.open != {}
    await driven_clock.advance(3)
    assert house.supply.outputs["CH1"] == "OFF"
    assert (await house.status(sweep_id))["abort"]["state"] == "done"
    assert house.supply.aborts == [":OUTP CH1,OFF"] * 3
    assert house.journal.open == {}


@promise("sweep.never-a-jump")
async def test_a_unit_that_was_switched_off_and_on_is_not_stepped_from_where_it_no_longer_stands(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start(3.0, 1.0)
    await driven_clock.advance(1.05)
    house.supply.meeting, house.supply.held[":SOUR1:VOLT"] = 2, 0.0
    await driven_clock.advance(1)
    told = await house.status(sweep_id)
    assert told["status"] == "failed"
    assert "reconnected and holds 0 V, where 1 V was set" in told["error"]
    assert_within_the_rate(house, 1.0)
    assert house.supply.aborts == [":OUTP CH1,OFF"]


async def test_a_parked_sweep_notices_that_its_unit_was_switched_off_and_on(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start(3.0, 1.0)
    await driven_clock.advance(1.05)
    await house.stop(sweep_id, hold=True)
    house.supply.meeting = 2
    await driven_clock.advance(5)
    assert (await house.status(sweep_id))["status"] == "holding"
    house.supply.meeting, house.supply.held[":SOUR1:VOLT"] = 3, 0.0
    await driven_clock.advance(5)
    told = await house.status(sweep_id)
    assert told["status"] == "failed"
    assert "reconnected and holds 0 V" in told["error"]
    assert house.supply.aborts == [":OUTP CH1,OFF"]


async def test_a_unit_that_was_connected_anew_and_kept_its_value_is_swept_on(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start(3.0, 1.0)
    await driven_clock.advance(1.05)
    house.supply.meeting = 2
    await driven_clock.advance(2.5)
    assert (await house.status(sweep_id))["status"] == "completed"
    assert [text for _, text in house.supply.log].count(":SOUR1:VOLT?") == 2
    assert_within_the_rate(house, 1.0)


async def test_a_step_is_not_sent_to_a_unit_that_is_connected_anew_on_the_way(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start(3.0, 1.0)
    await driven_clock.advance(0.95)
    house.supply.latency_s = 0.1
    await driven_clock.advance(0.1)
    house.supply.meeting, house.supply.held[":SOUR1:VOLT"] = 2, 0.0
    await driven_clock.advance(2)
    assert (await house.status(sweep_id))["status"] == "failed"
    assert_within_the_rate(house, 1.0)


async def test_a_journal_that_cannot_be_written_starts_nothing(house: SweepHouse) -> None:
    house.journal.is_broken = True
    assert code_of(await house.ask_start()) is ErrorCode.STORE_FAILED
    assert house.supply.writes() == []
    assert not house.sweeps.claims.holds_on(house.supply.id)


@promise("sweep.journal-broken-holds")
async def test_a_running_sweep_whose_journal_breaks_holds_and_says_why(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start()
    await driven_clock.advance(0.25)
    house.journal.is_broken = True
    await driven_clock.advance(3)
    told = await house.status(sweep_id)
    assert (told["status"], told["set_value"]) == ("holding", 0.2)
    assert "The disk is full" in told["error"]
    assert (await house.stop(sweep_id))["status"] == "stopped"
    assert house.supply.aborts == [":OUTP CH1,OFF"]


async def test_the_journal_hears_of_a_sweep_that_holds_for_hours(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start()
    await driven_clock.advance(0.15)
    await house.stop(sweep_id, hold=True)
    before = house.journal.updates
    await driven_clock.advance(3600)
    assert house.journal.updates - before >= 3600 / 30
    assert house.journal.open[sweep_id]["last_step"] == 0.1


@promise("shutdown.sweeps-aborted")
async def test_closing_aborts_every_sweep_and_leaves_what_was_not_taken_in_the_journal(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    first = await house.start()
    second = await house.start(parameters={"channel": 2})
    await driven_clock.advance(0.15)
    house.supply.abort_troubles = [TIMEOUT]
    await house.sweeps.close(0.5)
    told = {s["sweep_id"]: s["status"] for s in house.sweeps.listed()}
    assert sorted(told.values()) == ["failed", "stopped"]
    assert [i for i, status in told.items() if status == "failed"] == list(house.journal.open)
    assert set(told) == {first, second}
    assert code_of(await house.ask_start()) is ErrorCode.CANCELLED


async def test_ended_sweeps_are_kept_in_bounds(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    house.supply.held[":SOUR1:VOLT"] = 1.0
    for _ in range(110):
        await house.start(1.0, 1.0)
        await settle()
    assert len(house.sweeps.listed()) <= 102


async def test_an_unknown_sweep_is_told_with_the_ones_there_are(house: SweepHouse) -> None:
    sweep_id = await house.start()
    with pytest.raises(AssertionError, match=sweep_id):
        await house.status("sweep-x")


# Who may measure what


def relay(*tools: str, danger: bool = True) -> Caller:
    claims = Claims(
        iss="i",
        aud="edge:e",
        sub="user:u",
        exp=1,
        iat=0,
        edge_id="e",
        tools_allow=frozenset(tools),
        danger_allow=danger,
    )
    return Caller(route=Route.RELAY, claims=claims)


MEASURE = [{"instrument_id": "psu1", "command_name": "measure_voltage"}]
ARM = [{"instrument_id": "psu1", "command_name": "arm_and_read"}]


@promise("sweep.measure-authorized")
@pytest.mark.parametrize(
    "tools",
    [
        ("start_sweep:set_voltage", "execute_command:measure_voltage"),
        ("start_sweep", "execute_command"),
        ("start_sweep", "toy_ramp__measure_voltage"),
    ],
)
async def test_a_measure_that_is_allowed_by_itself_passes(
    house: SweepHouse, driven_clock: DrivenClock, tools: tuple[str, ...]
) -> None:
    sweep_id = await house.start(0.2, 1.0, caller=relay(*tools, danger=False), measure=MEASURE)
    await driven_clock.advance(1)
    assert (await house.status(sweep_id))["rows"] == 2


@pytest.mark.parametrize("tools", [("start_sweep",), ("start_sweep", "execute_command:set_hv")])
async def test_being_allowed_to_sweep_is_not_being_allowed_to_measure(
    house: SweepHouse, tools: tuple[str, ...]
) -> None:
    outcome = await house.ask_start(caller=relay(*tools), measure=MEASURE)
    assert code_of(outcome) is ErrorCode.NOT_ALLOWED
    assert house.supply.log == []


async def test_danger_is_judged_over_everything_inside(house: SweepHouse) -> None:
    caller = relay("start_sweep", "execute_command", danger=False)
    assert code_of(await house.ask_start(caller=caller, measure=ARM)) is ErrorCode.DANGEROUS
    assert house.supply.log == []
    assert (await house.ask_start(caller=caller, measure=MEASURE)).error is None


async def test_the_scope_of_start_sweep_is_the_command(house: SweepHouse) -> None:
    caller = relay("start_sweep:set_hv")
    assert code_of(await house.ask_start(caller=caller)) is ErrorCode.NOT_ALLOWED


async def test_a_measure_that_may_not_be_used_does_not_tell_whether_it_exists(
    house: SweepHouse,
) -> None:
    nowhere = [{"instrument_id": "psu9", "command_name": "measure_voltage"}]
    refused = await house.ask_start(caller=relay("start_sweep"), measure=nowhere)
    assert code_of(refused) is ErrorCode.NOT_ALLOWED
    allowed = relay("start_sweep", "execute_command")
    told = await house.ask_start(caller=allowed, measure=nowhere)
    assert code_of(told) is ErrorCode.UNKNOWN_INSTRUMENT


async def test_a_sweep_found_after_a_crash_has_no_rows_and_says_so(house: SweepHouse) -> None:
    entry = JournalEntry(
        id="sweep-9",
        kind=JournalKind.SWEEP,
        instrument_id=house.supply.id,
        unit="TOY|R1|0001",
        payload={"command": "set_voltage"},
        begun_ms=1,
        updated_ms=1,
    )
    house.sweeps.adopt([left_work.LeftWork(entry=entry)])
    told = await house.status("sweep-9", points=3)
    assert (told["columns"], told["points"]) == ([], [])
    assert "points" not in await house.status("sweep-9")
    drawn = DrawSweep(
        tool="get_sweep_status",
        caller=DIRECT,
        action_id="a-png",
        arguments={"format": "png"},
        sweep_id="sweep-9",
    )
    assert code_of(await house.perform(drawn)) is ErrorCode.UNKNOWN_POINT


async def test_the_rows_of_a_sweep_are_drawn_beside_its_status(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    sweep_id = await house.start(1.0, 1.0)
    await driven_clock.advance(2.0)
    outcome = await house.perform(
        DrawSweep(
            tool="get_sweep_status",
            caller=DIRECT,
            action_id="a-png",
            arguments={"format": "png"},
            sweep_id=sweep_id,
        )
    )
    assert [picture.data for picture in outcome.pictures] == [DRAWN]
    assert outcome.data["status"] == "completed"
    assert "points" not in outcome.data
    (figure,) = house.artist.figures
    assert figure.title.startswith(f"{sweep_id}: set_voltage of S::psu1")
    assert len(figure.panels[0].lines[0].low) == (await house.status(sweep_id))["rows"]


async def test_the_stop_waits_for_the_last_words_of_a_sweep_however_many_came_after_it(
    house: SweepHouse,
) -> None:
    """Those that are over are forgotten, but not while something is still written of them."""
    house.journal.may_finish.clear()
    for _ in range(MOST_ENDED + 2):
        sweep_id = await house.start(0.0)
        await house.sweeps.stop(sweep_id, "alice", hold=False)
    closing = asyncio.create_task(house.sweeps.close(0.5))
    await settle()
    house.journal.may_finish.set()
    await closing
    assert house.journal.open == {}
