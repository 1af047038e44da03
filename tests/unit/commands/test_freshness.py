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
@pytest.mark.parametrize("key", ["rigol_ds1054z", "tektronix_tbs1000c"])
async def test_a_single_capture_is_fresh_until_the_scope_is_stopped_again(
    house: SweepHouse, key: str
) -> None:
    unit = SimulatedUnit(SIMULATED[key])
    house.pool.instruments[:] = [unit]
    await stop(house, key, "command")
    assert (await house.command("single", key)).error is None
    unit.bench.wait(5)
    assert await captured(house, key) == (True, [])
    assert await captured(house, key) == (True, [])
    await stop(house, key, "stop all")
    assert await captured(house, key) == (False, OLD)


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
    assert Acquisitions().is_fresh("S::1", acquisition, answer) is is_fresh
