"""A capture says whether its trace is fresh: of every shipped oscilloscope, by what it can tell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from edged.actions.action import StopAll
from edged.commands.freshness import Acquisitions
from edged.profiles.model import Acquisition, ImageAnswer, WaveformAnswer
from tests.bench.driven_clock import DrivenClock
from tests.bench.profile_matrix import SIMULATED
from tests.bench.simulated_unit import SimulatedUnit
from tests.bench.sweep_bench import DIRECT, SweepHouse
from tests.promises import promise

SCOPES = sorted(
    key for key, profile in SIMULATED.items() if profile.instrument_class == "oscilloscope"
)
OLD = ["acquisition is stopped: this trace is from before"]


@pytest.fixture
async def house(driven_clock: DrivenClock) -> AsyncIterator[SweepHouse]:
    house = SweepHouse(driven_clock)
    yield house
    await house.bench_stop.close()
    house.waveforms.stop()


async def captured(house: SweepHouse, key: str, **given: Any) -> tuple[object, list[str]]:
    outcome = await house.command("capture_waveform", key, channel=1, **given)
    assert outcome.error is None, outcome.error
    return outcome.data["data"]["is_fresh"], outcome.data.get("notes", [])


async def stop(house: SweepHouse, key: str, how: str) -> None:
    if how == "stop all":
        await house.perform(
            StopAll(tool="bench__stop_all", caller=DIRECT, action_id=house.new_id())
        )
    elif how == "command":
        assert (await house.command("stop", key)).error is None
    else:
        unit = house.pool.instruments[0]
        unit.asked.raw(unit.profile.abort_lines[0])


@promise("capture.fresh")
@pytest.mark.parametrize("how", ["stop all", "command", "front panel"])
@pytest.mark.parametrize("key", SCOPES)
async def test_a_trace_of_a_stopped_scope_is_said_to_be_old_until_it_runs_again(
    house: SweepHouse, key: str, how: str
) -> None:
    house.pool.instruments[:] = [SimulatedUnit(SIMULATED[key])]
    assert await captured(house, key) == (True, [])
    await stop(house, key, how)
    assert await captured(house, key) == (False, OLD)
    assert (await house.command("run", key)).error is None
    assert await captured(house, key) == (True, [])


@promise("capture.fresh")
@pytest.mark.parametrize("key", SCOPES)
async def test_a_single_capture_is_fresh_once_until_the_next_one(
    house: SweepHouse, key: str
) -> None:
    unit = SimulatedUnit(SIMULATED[key])
    house.pool.instruments[:] = [unit]
    await stop(house, key, "command")
    assert (await house.command("single", key)).error is None
    unit.bench.wait(5)
    assert await captured(house, key) == (True, [])
    assert await captured(house, key) == (False, OLD)
    assert (await house.command("single", key)).error is None
    await stop(house, key, "stop all")
    assert await captured(house, key) == (False, OLD)


@promise("capture.fresh")
async def test_each_channel_of_a_single_capture_is_fresh_once(house: SweepHouse) -> None:
    house.pool.instruments[:] = [SimulatedUnit(SIMULATED["rigol_ds1054z"])]
    shown = await house.command("set_channel_display", "rigol_ds1054z", channel=2, shown=True)
    assert shown.error is None
    assert (await house.command("single", "rigol_ds1054z")).error is None
    for channel in (1, 2):
        fetched = await house.command("capture_waveform", "rigol_ds1054z", channel=channel)
        assert (fetched.data["data"]["is_fresh"], channel) == (True, channel)


@promise("capture.fresh")
@pytest.mark.parametrize("key", SCOPES)
async def test_a_forced_trigger_makes_no_trace_of_a_stopped_scope_new(
    house: SweepHouse, key: str
) -> None:
    house.pool.instruments[:] = [SimulatedUnit(SIMULATED[key])]
    await stop(house, key, "command")
    assert (await house.command("force_trigger", key)).error is None
    assert await captured(house, key) == (False, OLD)


@promise("capture.fresh")
@pytest.mark.parametrize("key", SCOPES)
async def test_what_was_stopped_by_hand_after_it_ran_is_from_before(
    house: SweepHouse, key: str
) -> None:
    house.pool.instruments[:] = [SimulatedUnit(SIMULATED[key])]
    assert (await house.command("single", key)).error is None
    assert (await house.command("run", key)).error is None
    assert await captured(house, key) == (True, [])
    await stop(house, key, "front panel")
    assert await captured(house, key) == (False, OLD)


async def test_a_stopped_scope_keeps_its_trace_whatever_length_is_set_for_the_next(
    house: SweepHouse,
) -> None:
    key = "tektronix_tbs1000c"
    house.pool.instruments[:] = [SimulatedUnit(SIMULATED[key])]
    await stop(house, key, "command")
    assert (await house.command("set_record_length", key, points="20000")).error is None
    whole = {"channel": 1, "points": 20_000}
    fetched = await house.command("capture_waveform", key, **whole)
    assert fetched.data["data"]["y_length"] == 2_000
    assert (await house.command("run", key)).error is None
    fetched = await house.command("capture_waveform", key, **whole)
    assert fetched.data["data"]["y_length"] == 20_000


@promise("capture.fresh")
async def test_a_mode_that_is_single_starts_a_capture_and_another_one_ends_it(
    house: SweepHouse,
) -> None:
    key = "siglent_sds1104xe"
    house.pool.instruments[:] = [SimulatedUnit(SIMULATED[key])]
    await stop(house, key, "command")
    for mode, fresh in (("single", (True, [])), ("stopped", (False, OLD))):
        assert (await house.command("single", key)).error is None
        assert (await house.command("set_trigger_mode", key, mode=mode)).error is None
        assert await captured(house, key) == fresh


@pytest.mark.parametrize("key", SCOPES)
def test_every_shipped_scope_that_captures_can_tell(key: str) -> None:
    profile = SIMULATED[key]
    blocks = (WaveformAnswer, ImageAnswer)
    assert any(isinstance(c.returns, blocks) for c in profile.commands.values())
    assert profile.acquisition is not None


@pytest.mark.parametrize(
    ("answer", "is_fresh"), [("TD\n", True), ("STOP", False), ("WAIT", None), ("", None)]
)
def test_what_waits_for_a_trigger_is_neither(answer: str, is_fresh: bool | None) -> None:
    acquisition = Acquisition(ask=":TRIG:STAT?", running="^(TD|AUTO)", stopped="^STOP")
    command = SIMULATED["rigol_ds1054z"].commands["screenshot"]
    assert Acquisitions().is_fresh("S::1", acquisition, answer, command, {}) is is_fresh


def test_what_was_seen_to_run_while_it_was_measured_is_old_once_it_is_stopped() -> None:
    """It was told ``single`` before, but somebody let it run since: no capture ended by itself."""
    profile = SIMULATED["rigol_ds1054z"]
    acquisition = Acquisition(ask=":TRIG:STAT?", running="^(TD|AUTO)", stopped="^STOP")
    known = Acquisitions()
    known.note("S::1", profile, profile.commands["single"], profile.commands["single"].scpi)
    assert known.is_now("S::1", acquisition, "STOP") is True
    assert known.is_now("S::1", acquisition, "STOP") is True
    assert known.is_now("S::1", acquisition, "AUTO") is True
    assert known.is_now("S::1", acquisition, "STOP") is False


ANALYSERS = sorted(
    key
    for key, profile in SIMULATED.items()
    if profile.instrument_class in {"spectrum_analyzer", "network_analyzer"}
)


@promise("capture.fresh")
@pytest.mark.parametrize("key", ANALYSERS)
async def test_a_trace_of_an_analyser_is_new_once_after_each_sweep_and_always_while_it_runs(
    house: SweepHouse, key: str
) -> None:
    house.pool.instruments[:] = [SimulatedUnit(SIMULATED[key])]

    async def fetched() -> object:
        outcome = await house.command("capture_trace", key, trace=1)
        assert outcome.error is None, outcome.error
        return outcome.data["data"]["is_fresh"]

    assert (await house.command("run", key)).error is None
    assert [await fetched(), await fetched()] == [True, True]
    assert (await house.command("single_sweep", key)).error is None
    assert [await fetched(), await fetched()] == [True, False]
    assert (await house.command("single_sweep", key)).error is None
    assert await fetched() is True
