"""Stop all over every shipped profile: by the simulation's own state, everything is off.

Not by our questions: they are what is tried. All that a profile can switch on or set is done first,
for every channel, with every number at its largest.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from edged.actions.action import StopAll
from edged.profiles.abort import proofs_of, tellings
from edged.profiles.authoring.lint import is_energising
from edged.profiles.model import Command, Profile
from edged.profiles.template import render_lines
from edged.scpi.words import works_switch
from tests.bench.driven_clock import DrivenClock
from tests.bench.profile_matrix import SIMULATED, everywhere
from tests.bench.simulated_unit import SimulatedUnit
from tests.bench.sweep_bench import DIRECT, SweepHouse
from tests.promises import promise

TEKTRONIX = frozenset({"tektronix_tbs1000c", "tektronix_tbs2202b", "tektronix_tbs2204b"})
GIVES_NOTHING = frozenset(
    {
        "keithley_2000",
        "keithley_dmm6500",
        "keysight_34401a",
        "keysight_34410a",
        "keysight_34461a",
        "keysight_34465a",
        "keysight_34970a",
        "keysight_34972a",
        "rigol_ds1054z",
        "rigol_ds1104z",
        "siglent_sdm3055",
        "siglent_sdm3065x",
        "siglent_sds1104xe",
        "siglent_sds1202xe",
        *TEKTRONIX,
    }
)
"""What only measures. (The SDG's and the scopes' own signals stand in the others' outputs.)"""
WORDLESS = frozenset({"keysight_34401a"})
"""Meters with no word that ends a measurement, by the facts."""
SOURCES = sorted(set(SIMULATED) - GIVES_NOTHING)
BLIND = {"siglent_spd3303x": {"OUTP CH3"}}
"""Outputs of which nobody can ask, by the facts."""
ONLY_TAKEN = (GIVES_NOTHING | set(BLIND)) - TEKTRONIX
"""Those that cannot say all of it; a scope need not."""


@pytest.fixture
async def house(driven_clock: DrivenClock) -> AsyncIterator[SweepHouse]:
    house = SweepHouse(driven_clock)
    yield house
    await house.bench_stop.close()
    await house.sweeps.close(0.5)


async def stop_all(house: SweepHouse) -> Any:
    outcome = await house.perform(
        StopAll(tool="bench__stop_all", caller=DIRECT, action_id=house.new_id())
    )
    assert outcome.error is None, outcome.error
    return outcome.data


def put(house: SweepHouse, profile: Profile) -> SimulatedUnit:
    unit = SimulatedUnit(profile)
    house.pool.instruments[:] = [unit]
    return unit


def givers(profile: Profile) -> list[Command]:
    """All commands that write and are not safe; those that switch something on last."""

    def switches_on(command: Command) -> bool:
        # What clears a protection switches off before it.
        is_switch = any(is_energising(line, command.parameters) for line in command.scpi)
        return is_switch and not any("OFF" in line for line in command.scpi)

    found = [c for c in profile.commands.values() if not c.is_safe and not c.is_query]
    return sorted(found, key=lambda c: (c.is_dangerous, switches_on(c)))


async def give_everything(house: SweepHouse, unit: SimulatedUnit) -> set[str]:
    """Switch on and set whatever can be; what was on in the end, by the simulation."""
    profile = unit.profile
    assert profile is not None
    was_on: set[str] = set()
    for command in givers(profile):
        for case in everywhere(command):
            # Some contradict each other, and are refused by the instrument.
            await house.command(command.name, profile.key, **case.arguments)
        was_on |= unit.what_is_on()
    return was_on


def switches(profile: Profile) -> set[str]:
    """The outputs that a switch of the abort works, and of which a query tells."""
    worked = {
        told.output for line in profile.abort_lines if works_switch(line) for told in tellings(line)
    }
    proofs = proofs_of(profile, profile.abort)
    return worked & {output for proof in proofs for output in proof.outputs}


async def ask_all(house: SweepHouse, profile: Profile) -> int:
    """Send every command of the profile that is a query by which its abort is proved."""
    questions = {proof.question for proof in proofs_of(profile, profile.abort)}
    asked = 0
    for command in profile.commands.values():
        if not command.is_query or command.is_dangerous:
            continue
        for case in everywhere(command):
            if render_lines(command, case.arguments) in questions:
                outcome = await house.command(command.name, profile.key, **case.arguments)
                # Some need a mode that the unit is not in.
                asked += outcome.error is None
    return asked


@promise("stop-all.every-output")
@pytest.mark.parametrize("key", sorted(SIMULATED))
async def test_whatever_was_switched_on_or_set_is_off_after_a_stop(
    house: SweepHouse, key: str
) -> None:
    unit = put(house, SIMULATED[key])
    was_on = await give_everything(house, unit)
    assert bool(was_on) is (key in SOURCES)
    house.heard_on.clear()
    told = await stop_all(house)
    assert unit.what_is_on() == set()
    await ask_all(house, SIMULATED[key])
    assert house.heard_on == set(), "an answer of an output that is off was taken for on"
    [report] = told["instruments"]
    taken = "nothing_to_send" if key in WORDLESS else "taken"
    assert report["state"] == (taken if key in ONLY_TAKEN else "confirmed")
    assert {entry["output"] for entry in told["unproved"]} == BLIND.get(key, set())
    assert set(report["unconfirmed"]) == BLIND.get(key, set())
    assert told["is_confirmed"] is (key not in BLIND)


@promise("stop-all.truth")
@pytest.mark.parametrize("key", SOURCES)
async def test_an_instrument_that_ignores_its_abort_is_named_and_nothing_is_confirmed(
    house: SweepHouse, key: str
) -> None:
    profile = SIMULATED[key]
    unit = put(house, profile)
    await give_everything(house, unit)
    unit.ignores = profile.abort_lines
    house.heard_on.clear()
    told = await stop_all(house)
    assert unit.what_is_on() != set()
    on = switches(profile) & set(told["instruments"][0]["unconfirmed"])
    assert on <= house.heard_on <= switches(profile)
    heard, house.heard_on = house.heard_on, set()
    if await ask_all(house, profile):
        assert bool(house.heard_on) is bool(on)
        assert house.heard_on <= heard
    assert not told["is_confirmed"]
    [report] = told["instruments"]
    assert report["state"] == "failed"
    assert report["unconfirmed"]


@promise("stop-all.truth")
async def test_a_third_channel_that_ignores_its_abort_is_not_believed_though_the_others_obey(
    house: SweepHouse,
) -> None:
    unit = put(house, SIMULATED["siglent_spd3303x"])
    await house.command("output_on", "siglent_spd3303x", channel=3)
    unit.ignores = {"OUTP CH3,OFF"}
    told = await stop_all(house)
    assert unit.what_is_on() == {"ch3.is_on"}
    assert not told["is_confirmed"]
    assert told["instruments"][0]["unconfirmed"] == ["OUTP CH3"]


@promise("stop-all.truth")
@pytest.mark.parametrize("channel", [1, 2, 3])
async def test_a_channel_of_a_2231a_that_stays_on_is_not_believed_whichever_is_selected(
    house: SweepHouse, channel: int
) -> None:
    key = "keithley_2231a_30_3"
    unit = put(house, SIMULATED[key])
    await house.command("remote", key)
    await house.command("channel_on", key, channel=channel)
    await house.command("get_voltage", key, channel=channel % 3 + 1)
    unit.ignores = SIMULATED[key].abort_lines
    told = await stop_all(house)
    assert unit.what_is_on() == {f"ch{channel}.is_on"}
    assert not told["is_confirmed"]
    assert told["instruments"][0]["unconfirmed"] == ["CHAN:OUTP"]


@pytest.mark.parametrize("key", sorted(SIMULATED))
async def test_a_bench_that_was_told_nothing_is_confirmed(house: SweepHouse, key: str) -> None:
    put(house, SIMULATED[key])
    assert (await stop_all(house))["is_confirmed"]


async def test_a_magnet_is_paused_by_a_stop_and_keeps_its_current(house: SweepHouse) -> None:
    """Switched off, or ramped down at once, it would quench."""
    unit = put(house, SIMULATED["ami_430"])
    assert (await house.command("set_target_current", "ami_430", current=10)).error is None
    assert (await house.command("ramp", "ami_430")).error is None
    unit.bench.wait(60)
    assert (await stop_all(house))["is_confirmed"]
    held = unit.asked.number("CURR:MAG?")
    assert held == pytest.approx(3, abs=0.1)
    unit.bench.wait(600)
    assert unit.asked.number("CURR:MAG?") == pytest.approx(held, abs=0.01)
    assert "ZERO" not in unit.sent
