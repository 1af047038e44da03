"""A single measurement says that a limit was reached: every shipped profile that can tell."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from edged.actions.action import RunCommand
from edged.commands.pending import settled
from edged.profiles.model import Profile
from tests.bench.driven_clock import DrivenClock
from tests.bench.fake_instruments import FakeInstrument, toy_profile
from tests.bench.profile_matrix import SIMULATED
from tests.bench.simulated_unit import SimulatedUnit
from tests.bench.sweep_bench import DIRECT, SweepHouse
from tests.promises import promise

TELLING = sorted(key for key, profile in SIMULATED.items() if profile.limited is not None)
SWITCHES_ON = ("set_zero_check", "remote", "channel_on", "activate_channel", "output_on")
METER = """
format: 1
profile_key: toy_meter
manufacturer: Toy
model: M1
instrument_class: multimeter
source: made for tests
match: {idn: 'toy,m1'}
commands:
  measure: {scpi: "MEAS?", returns: {type: float, unit: V}}
"""


@pytest.fixture
def house(driven_clock: DrivenClock) -> SweepHouse:
    return SweepHouse(driven_clock)


async def run(house: SweepHouse, profile: Profile, name: str, **given: Any) -> Any:
    """A command with those of the values that it has; its result."""
    command = profile.commands[name]
    asked = {key: value for key, value in given.items() if key in command.parameters}
    outcome = await house.command(name, profile.key, **asked)
    assert outcome.error is None, outcome.error
    return outcome.data


async def drive(house: SweepHouse, profile: Profile, *, volts: float, amps: float) -> None:
    """Let the first channel give this into whatever the simulation has connected to it."""
    for name in ("set_current", "set_current_limit"):
        if name in profile.commands and "source_voltage" not in profile.commands:
            await run(house, profile, name, channel=1, current=amps, current_limit=amps)
    first = "source_voltage" if "source_voltage" in profile.commands else "set_voltage"
    await run(house, profile, first, channel=1, voltage=volts, current_limit=amps)
    for name in SWITCHES_ON:
        if name in profile.commands:
            await run(house, profile, name, channel=1, enabled=False)


def measuring(profile: Profile) -> str:
    return "measure_current" if "measure_current" in profile.commands else "measure"


@promise("notes.single")
@pytest.mark.parametrize("key", TELLING)
async def test_a_measurement_in_current_limit_says_so(house: SweepHouse, key: str) -> None:
    profile = SIMULATED[key]
    assert profile.limited is not None
    unit = SimulatedUnit(profile)
    house.pool.instruments[:] = [unit]
    is_meter = "source_voltage" in profile.commands
    await drive(house, profile, volts=4, amps=0.002 if is_meter else 0.15)
    unit.bench.wait(1)
    told = await run(house, profile, measuring(profile), channel=1)
    assert told["notes"] == [profile.limited.note]
    if "source_voltage" in profile.commands:
        await run(house, profile, "source_voltage", voltage=0.5, current_limit=0.1)
    else:
        await run(house, profile, "set_voltage", channel=1, voltage=0.05)
    unit.bench.wait(1)
    told = await run(house, profile, measuring(profile), channel=1)
    assert "notes" not in told


@promise("notes.single")
@pytest.mark.parametrize("key", ["keithley_2400", "keithley_2450", "keysight_b2901a"])
async def test_a_current_source_at_its_voltage_limit_says_so(house: SweepHouse, key: str) -> None:
    profile = SIMULATED[key]
    unit = SimulatedUnit(profile)
    house.pool.instruments[:] = [unit]
    await run(house, profile, "source_current", current=0.05, voltage_limit=0.2)
    await run(house, profile, "output_on")
    unit.bench.wait(1)
    told = await run(house, profile, measuring(profile))
    assert told["notes"] == ["the source is at its limit"]


@promise("notes.single")
@promise("dry-run.true")
async def test_one_more_query_is_sent_and_only_while_the_output_is_known_to_be_on(
    house: SweepHouse,
) -> None:
    profile = SIMULATED["rigol_dp832"]
    unit = SimulatedUnit(profile)
    house.pool.instruments[:] = [unit]
    await run(house, profile, "measure_voltage", channel=1)
    assert unit.sent == [":MEAS:VOLT? CH1"], "nobody knows whether it is on"
    await run(house, profile, "output_off", channel=1)
    unit.sent.clear()
    assert (await run(house, profile, "measure_voltage", channel=1))["notes"] == ["output 1 is off"]
    assert unit.sent == [":MEAS:VOLT? CH1"]
    await run(house, profile, "output_on", channel=1)
    unit.sent.clear()
    action = RunCommand(
        tool="execute_command",
        scope="measure_voltage",
        caller=DIRECT,
        action_id=house.new_id(),
        instrument_id=profile.key,
        command_name="measure_voltage",
        parameters={"channel": 1},
    )
    rehearsed = await settled(partial(house.path.rehearse, action))
    assert unit.sent == []
    await house.perform(action)
    assert unit.sent == rehearsed.data["would_send"] == [":MEAS:VOLT? CH1", ":OUTP:MODE? CH1"]


@promise("notes.single")
async def test_an_overload_that_the_value_marks_is_said_without_a_query(house: SweepHouse) -> None:
    unit = FakeInstrument(id="S::1", profile=toy_profile(METER), alias="dmm1")
    house.pool.instruments[:] = [unit]
    for answer, notes in (
        ("9.9E37", ["over range: what was measured is larger than the range"]),
        ("-9.9E37", ["under range: what was measured is below the range"]),
        ("1.5", None),
    ):
        unit.answers["MEAS?"] = answer
        outcome = await house.command("measure", "dmm1")
        assert outcome.data.get("notes") == notes
    assert unit.sent == ["MEAS?"] * 3


@promise("notes.single")
async def test_a_state_that_cannot_be_read_costs_no_measurement(house: SweepHouse) -> None:
    profile = SIMULATED["rigol_dp832"]
    unit = FakeInstrument(id="S::1", profile=profile, alias="psu")
    house.pool.instruments[:] = [unit]
    unit.answers |= {":MEAS:VOLT? CH1": "1.25", ":OUTP? CH1": "ON", ":OUTP:MODE? CH1": "\x00?"}
    assert (await house.command("output_on", "psu", channel=1)).error is None
    outcome = await house.command("measure_voltage", "psu", channel=1)
    assert outcome.data["data"] == 1.25
    assert "notes" not in outcome.data
