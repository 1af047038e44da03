"""The checks of an instrument: whose they are, and what names a command that is not there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edged.commands.target import ProfileChecks
from edged.errors import ErrorCode, NotFound
from tests.bench.fake_instruments import toy_profile


def test_an_unknown_command_is_answered_with_the_nearest() -> None:
    with pytest.raises(NotFound, match="has no command 'set_volt'") as unknown:
        ProfileChecks(toy_profile()).command("set_volt")
    assert unknown.value.code is ErrorCode.UNKNOWN_COMMAND
    assert unknown.value.data["near"][0] == "set_voltage"


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
