"""A bench file that is lost between two starts lifts no limit, and doctor says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edged.config.load import load_config, this_machine
from edged_author.cli.borrowing import errand_settings
from tests.bench import command_line
from tests.bench.engine import Engine, running_engine
from tests.bench.waiting import first, wait_for
from tests.promises import promise

LIMITED = """\
format: 1
DP8B26AM00234: {alias: psu1, limits: {set_voltage: {voltage: {max: 12}}}}
"""


def set_voltage(engine: Engine, voltage: float) -> bool:
    """Whether the supply, once it is here, lets itself be set."""
    wait_for(lambda: engine.tool("get_status")["result"]["instrument_count"])
    (supply,) = engine.tool("list_instruments")["result"]
    answer = engine.tool(
        "execute_command",
        instrument_id=supply["id"],
        command_name="set_voltage",
        parameters={"channel": 1, "voltage": voltage},
    )
    return not answer["is_error"]


@promise("owner.file-lost-lifts-nothing")
@pytest.mark.parametrize("left", [None, "format: 1\nDP8B26AM00234: {limitz: {}}\n"])
def test_a_bench_file_that_is_lost_between_two_starts_still_holds(
    tmp_path: Path, left: str | None
) -> None:
    file = tmp_path / "bench.yaml"
    file.write_text(LIMITED)
    supply = ("--instruments", "psu1=rigol_dp832")
    with running_engine(tmp_path, *supply) as engine:
        assert not set_voltage(engine, 13)
    file.unlink()
    if left is not None:
        file.write_text(left)
    with running_engine(tmp_path, *supply) as engine:
        assert not set_voltage(engine, 13)
        assert set_voltage(engine, 12)
        told = engine.tool("get_status")["result"]["profiles"]
        assert str(file) in told["bench_error"]
        assert told["bench_error_since_ms"] > 0
    file.write_text("format: 1\n")
    with running_engine(tmp_path, *supply) as engine:
        assert set_voltage(engine, 13)
        assert engine.tool("get_status")["result"]["profiles"]["bench_error"] == ""


@promise("bench.only-tightens")
def test_a_running_engine_judges_a_unit_by_its_own_profile_and_names_that_one(
    tmp_path: Path,
) -> None:
    """60 V is within what other supplies allow, and over what this one does."""
    file = tmp_path / "bench.yaml"
    file.write_text(LIMITED)
    with running_engine(tmp_path, "--instruments", "psu1=rigol_dp832") as engine:
        assert not set_voltage(engine, 13)
        file.write_text(LIMITED.replace("max: 12", "max: 60"))
        error = first(lambda: engine.tool("get_status")["result"]["profiles"]["bench_error"])
        assert "max 60 would widen what rigol_dp832 allows (0 to 32)" in error
        assert not set_voltage(engine, 13), "the limit of before holds"


def test_show_doctor_and_errands_go_by_the_file_of_the_running_engine(tmp_path: Path) -> None:
    file = tmp_path / "elsewhere.yaml"
    file.write_text(LIMITED)
    psu = ("--instruments", "psu1=rigol_dp832", "--set", f"BENCH_FILE={file}")
    with running_engine(tmp_path, *psu) as engine:
        assert set_voltage(engine, 12)
        shown = told_by(engine, "bench", "show")
        checks = {one["check"]: one for one in told_by(engine, "doctor")["checks"]}
        own = [("STATE_DIR", str(engine.state_dir), "--state-dir")]
        loaded = load_config(places=this_machine(), environ={}, flags=own)
        assert errand_settings(loaded)["BENCH_FILE"] == str(file)
    assert errand_settings(loaded)["BENCH_FILE"] != str(file)
    assert (shown["file"], len(shown["units"])) == (str(file), 1)
    assert str(file) in checks["bench file"]["found"]
    assert "entries for: 1" in checks["bench file"]["found"]


def told_by(engine: Engine, *words: str) -> Any:
    """What a verb prints for programs."""
    done = command_line.edged(*words, "--state-dir", str(engine.state_dir), "--json")
    return json.loads(done.stdout)
