"""Databases that an engine cannot use at its start: a newer one's, a damaged one."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from pathlib import Path

from tests.bench.engine_process import REPOSITORY, engine_process
from tests.promises import promise


def start(state_dir: Path) -> subprocess.CompletedProcess[str]:
    words = ["--state-dir", str(state_dir), "--set", "RPC_PORT=0", "--set", "MCP_PORT=0"]
    return subprocess.run(
        [sys.executable, "-m", "edged", "engine", *words, "--set", "DISCOVERY=[]"],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        timeout=60,
    )


@promise("store.newer-refused")
def test_an_engine_refuses_the_database_of_a_newer_one_with_a_sentence(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "edged.db")) as database:
        database.execute("PRAGMA user_version = 999")
    done = start(tmp_path)
    assert done.returncode == 69
    assert "newer" in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "edged.db").exists()


@promise("store.damaged-kept")
def test_an_engine_keeps_a_damaged_database_aside_and_begins_anew(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    damaged = b"this is no database" * 500
    (state / "edged.db").write_bytes(damaged)
    with engine_process(tmp_path) as engine:
        (kept,) = state.glob("edged.db.corrupt-*")
        assert kept.read_bytes() == damaged
        written = engine.tool(
            "execute_command",
            instrument_id="psu1",
            command_name="set_voltage",
            parameters={"channel": 1, "voltage": 1},
        )
        assert not written["is_error"]
        rows = engine.rpc("audit.list", tool="database", limit=10)["rows"]
        assert kept.name in str(rows)
