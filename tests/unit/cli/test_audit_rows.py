from __future__ import annotations

import pytest

from edged.cli.audit import COLUMNS, _shown

ROW = {
    "seq": 7,
    "time_ms": 1_790_000_000_000,
    "phase": "end",
    "route": "direct",
    "remote": "192.168.1.7",
    "subject": "",
    "client": "curl/8.5.0",
    "tool": "get_status",
    "instrument": "",
    "command": "",
    "scpi": ":MEAS?\n:SYST:ERR?",
    "outcome": "failed",
    "error": "No answer.",
    "duration_ms": 1.5,
}


def test_a_row_becomes_cells() -> None:
    shown = _shown(ROW)
    assert shown["who"] == "direct curl/8.5.0 at 192.168.1.7"
    assert shown["scpi"] == ":MEAS? | :SYST:ERR?"
    assert shown["outcome"] == "failed: No answer."


@pytest.mark.parametrize("name", sorted(ROW))
@pytest.mark.parametrize("value", [None, "x", b"\xff".hex(), 10**18, -5, 1.5])
def test_a_row_that_somebody_has_been_at_is_shown_as_it_is(name: str, value: object) -> None:
    shown = _shown({**ROW, name: value})
    assert set(COLUMNS) <= set(shown)
