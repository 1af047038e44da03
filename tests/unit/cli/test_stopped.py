"""What a person reads after `edged stop`."""

from __future__ import annotations

from typing import Any

import pytest

from edged.cli import stop
from edged.runs.stop_all import RAW_LINES


def test_what_nobody_can_check_is_said_by_the_name_of_the_instrument(
    capsys: pytest.CaptureFixture[str],
) -> None:
    laser: dict[str, Any] = {
        "instrument_id": "TCPIP::1",
        "alias": "laser",
        "state": "nothing_to_send",
        "taken_after_ms": None,
        "confirmed": [],
        "confirmed_after_ms": None,
        "unconfirmed": [RAW_LINES],
        "error": None,
    }
    told = {
        "instruments": [laser],
        "wrappers": [],
        "unproved": [{"instrument_id": "TCPIP::1", "output": RAW_LINES}],
        "sweeps": [],
        "is_work_ended": True,
        "is_confirmed": False,
    }
    stop._draw(told, [])
    said = capsys.readouterr().out
    assert "(not confirmed: what raw lines switched on)" in said
    assert "laser: edged cannot check whether what raw lines switched on is off.\n" in said
