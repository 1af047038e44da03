"""The head of a recording as ``edged runs show`` tells it."""

from __future__ import annotations

from typing import Any

import pytest

from edged.cli import main as command_line
from edged.cli import runs
from edged.cli.runs import TIME_COLUMNS, _head, _meta, _statistics
from edged.host import ExitStatus
from edged.runs.recordings import figures

ENDED_MS = 1_795_548_536_097
META: dict[str, Any] = {
    "run_id": "sweep-1",
    "status": "completed",
    "started_ms": ENDED_MS - 2_000,
    "ended_ms": ENDED_MS,
    "instrument_id": "TCPIP::h::INSTR",
    "command_name": "set_voltage",
    "parameters": {"channel": 1},
    "caller": {"who": "Kim"},
    "rows": 3,
    "columns": [{"name": "t", "unit": "s"}, {"name": "set", "unit": "V"}],
    "error": "",
    "summary": {"reason": "target reached", "notes": ["slow", "late"]},
    "statistics": {
        "t": {"mean": 1.0, "std": 0.1, "min": 0.0, "max": 2.0, "n": 3},
        "set": {"mean": 1 / 3, "std": 0.0, "min": 0.0, "max": 1e-9, "n": 3},
    },
}
RUNNING = {
    key: value
    for key, value in META.items()
    if key not in {"ended_ms", "summary", "statistics", "error"}
}


def test_a_recording_is_told_by_alias_command_and_why_it_ended() -> None:
    told = _head(META, {"TCPIP::h::INSTR": "psu1"}.__getitem__)
    assert told["instrument"] == "psu1"
    assert told["command"] == "set_voltage channel=1"
    assert told["status"] == "completed (target reached)"
    assert told["notes"] == "slow; late"


def test_statistics_have_units_and_leave_the_columns_of_time_out() -> None:
    (row,) = _statistics(META)
    assert row == {
        "column": "set",
        "unit": "V",
        "mean": "0.333333",
        "std": "0",
        "min": "0",
        "max": "1e-09",
    }
    assert TIME_COLUMNS == figures.TIME_COLUMNS


def test_all_of_a_recording_has_statistics_with_as_many_digits_as_people_read() -> None:
    assert _meta(META, str)["statistics"]["set"]["mean"] == "0.333333"
    assert _meta(META, str)["statistics"]["set"]["n"] == 3


def test_one_that_runs_is_told_without_what_it_has_not_yet() -> None:
    told = _head({**RUNNING, "status": "running"}, str)
    assert told["status"] == "running"
    assert not {"ended", "notes"} & set(told)
    assert _statistics(RUNNING) == []


def test_a_fault_of_ours_is_one_line_with_its_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_arguments: object) -> int:
        raise KeyError("statistics")

    monkeypatch.setattr(runs, "run", broken)
    assert command_line.main(["runs", "list"]) == ExitStatus.FAILED
    said = capsys.readouterr().err
    assert said.startswith("edged: this is a fault of edged ")
    assert "KeyError: 'statistics' (test_shown_run.py, line " in said
    assert said.count("\n") == 1
