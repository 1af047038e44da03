from __future__ import annotations

import pytest

from edged.cli.audit import COLUMNS, _moment_of, _shown

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
    shown = _shown(ROW, lambda name: name)
    assert shown["who"] == "direct curl/8.5.0 at 192.168.1.7"
    assert shown["scpi"] == ":MEAS? | :SYST:ERR?"
    assert shown["outcome"] == "failed: No answer."


@pytest.mark.parametrize("name", sorted(ROW))
@pytest.mark.parametrize("value", [None, "x", b"\xff".hex(), 10**18, -5, 1.5])
def test_a_row_that_somebody_has_been_at_is_shown_as_it_is(name: str, value: object) -> None:
    shown = _shown({**ROW, name: value}, lambda instrument: instrument)
    assert set(COLUMNS) <= set(shown)


def test_rows_are_read_in_the_order_in_which_things_happened() -> None:
    rows = [{"seq": seq, "time_ms": time} for seq, time in ((1, 111), (2, 59), (3, 111), (4, "x"))]
    assert [row["seq"] for row in sorted(rows, key=_moment_of)] == [4, 2, 1, 3]
