"""The checks of an instrument: whose they are, and what names a command that is not there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edged.actions.action import MemoryAction, RunCommand
from edged.actions.caller import Caller, Route
from edged.commands.resolve import NOTHING, Resolver
from edged.commands.target import Catalog, ProfileChecks
from edged.errors import ErrorCode, NotFound
from edged.profiles.unit_rules import UnitRules
from tests.bench.command_path import bench_operations
from tests.bench.fake_instruments import FakeInstrument, FakePool, toy_profile
from tests.promises import promise

DIRECT = Caller(route=Route.DIRECT)


def test_an_unknown_command_is_answered_with_the_nearest() -> None:
    with pytest.raises(NotFound, match="has no command 'set_volt'") as unknown:
        ProfileChecks(toy_profile()).command("set_volt")
    assert unknown.value.code is ErrorCode.UNKNOWN_COMMAND
    assert unknown.value.data["near"][0] == "set_voltage"


def test_a_command_in_capitals_is_answered_with_the_one_that_was_meant() -> None:
    with pytest.raises(NotFound) as unknown:
        ProfileChecks(toy_profile()).command("SET_VOLTAGE")
    assert unknown.value.data["near"][0] == "set_voltage"


def test_a_sequence_that_is_called_as_a_command_is_told_to_be_one() -> None:
    with pytest.raises(NotFound) as unknown:
        ProfileChecks(toy_profile()).command("point")
    assert unknown.value.remedy == "point is a sequence: execute_sequence runs it."


def test_a_command_that_is_called_as_a_sequence_is_told_to_be_one() -> None:
    with pytest.raises(NotFound) as unknown:
        ProfileChecks(toy_profile()).sequence("set_voltage")
    assert unknown.value.remedy == "set_voltage is a command: execute_command runs it."


def test_an_unknown_sequence_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(NotFound) as unknown:
        ProfileChecks(toy_profile()).sequence("nothing")
    assert unknown.value.remedy == "Its sequences: point."


def test_a_command_that_others_have_is_answered_with_who_has_it() -> None:
    def others(name: str) -> tuple[str, ...]:
        return ("psu1", "smu1") if name == "set_volts" else ()

    with pytest.raises(NotFound) as unknown:
        ProfileChecks(toy_profile()).command("set_volts", others)
    assert unknown.value.remedy == "psu1 and smu1 have it."


def test_the_resolver_knows_who_has_a_command_and_may_offer_it() -> None:
    psu, smu, denied = (
        FakeInstrument(f"{name}-id", toy_profile(), alias=name) for name in ("psu", "smu", "no")
    )
    denied.rules = UnitRules(key="0001", deny=frozenset({"set_voltage"}))
    bare = replace(toy_profile(), key="bare", commands={}, sequences={})
    meter = FakeInstrument("dmm-id", bare, alias="dmm")
    pool: Any = FakePool(psu, smu, denied, meter)
    action = RunCommand(
        tool="execute_command",
        caller=DIRECT,
        action_id="a",
        instrument_id="dmm",
        command_name="set_voltage",
    )
    with pytest.raises(NotFound) as unknown:
        Resolver(pool=pool, catalog=Catalog()).command(action)
    assert unknown.value.remedy == "psu and smu have it."


@promise("capabilities.of-no-unit")
def test_capabilities_of_a_class_that_no_unit_has_are_an_empty_list() -> None:
    pool = FakePool(FakeInstrument("psu-id", toy_profile(), alias="psu"))
    bench = bench_operations(pool, Catalog())

    def asked(wanted: str) -> MemoryAction:
        given = {"instrument_class": wanted}
        return MemoryAction(
            operation="get_capabilities",
            tool="get_capabilities",
            caller=DIRECT,
            action_id="a",
            arguments=given,
        )

    assert bench.get_capabilities(asked("power_supply"), NOTHING, 0.0).data
    assert bench.get_capabilities(asked("voltmeter"), NOTHING, 0.0).data == []


@pytest.mark.parametrize("kind", ["command", "sequence"])
def test_an_endless_name_is_not_echoed_whole(kind: str) -> None:
    with pytest.raises(NotFound) as unknown:
        getattr(ProfileChecks(toy_profile()), kind)("x" * 1_000_000)
    assert len(str(unknown.value)) < 300
    assert len(str(unknown.value.data)) < 300


def test_instruments_of_one_model_share_what_is_compiled_however_they_are_connected() -> None:
    profile = toy_profile()
    elsewhere = replace(profile, connection=replace(profile.connection, timeout_ms=9_000))
    first = ProfileChecks(profile)
    second = ProfileChecks(elsewhere, [first])
    assert second.command("set_voltage")[1] is first.command("set_voltage")[1]
    assert second.profile.connection.timeout_ms == 9_000


def test_what_an_owner_narrowed_or_another_encoding_has_checks_of_its_own() -> None:
    profile = toy_profile()
    first = ProfileChecks(profile)
    for other in (
        replace(profile, commands=dict(profile.commands)),
        replace(profile, connection=replace(profile.connection, encoding="utf-8")),
        replace(profile, key="other"),
    ):
        check = ProfileChecks(other, [first]).command("set_voltage")[1]
        assert check is not first.command("set_voltage")[1]
