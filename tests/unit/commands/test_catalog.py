"""What a caller is told who names a command that is not there."""

from __future__ import annotations

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
