"""What version 0.1.0 wrote, under today's edged; and what a newer one wrote.

``data/v0.1.0`` was written by that version: a state directory (the database as SQL), a recorded
sweep, and some of the profiles it came with.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edged.profiles.loading import load_library
from edged.store.file import MIGRATIONS
from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import REPOSITORY

VERSION_0_1_0 = Path(__file__).parent / "data" / "v0.1.0"
SWEEP = "sweep-9c5dbe58"


def lay_out(directory: Path) -> None:
    shutil.copytree(VERSION_0_1_0 / "data", directory / "data")
    shutil.copytree(VERSION_0_1_0 / "state", directory / "state")
    script = directory / "state" / "edged.sql"
    with contextlib.closing(sqlite3.connect(directory / "state" / "edged.db")) as connection:
        connection.executescript(script.read_text(encoding="utf-8"))
    script.unlink()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    directory = tmp_path_factory.mktemp("upgrade")
    lay_out(directory)
    profiles = [str(REPOSITORY / "profiles"), str(VERSION_0_1_0 / "profiles")]
    with running_engine(directory, config={"PROFILE_DIRS": profiles}) as running:
        yield running


def edged(engine: Engine, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "edged", *words, "--state-dir", str(engine.state_dir)],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_lockout_and_the_identity_of_0_1_0_are_in_force(engine: Engine) -> None:
    status = engine.tool("get_status")["result"]
    assert [lock["reason"] for lock in status["lockouts"]] == ["hands in the fixture"]
    assert status["edge_id"] == (VERSION_0_1_0 / "state" / "edge_id").read_text().strip()


def test_the_record_of_0_1_0_goes_on_as_one_chain(engine: Engine) -> None:
    engine.tool("execute_command", instrument_id="psu1", command_name="output_off",
                parameters={"channel": 1})  # fmt: skip
    assert "intact" in edged(engine, "audit", "verify")


def test_what_0_1_0_recorded_is_listed_and_read(engine: Engine) -> None:
    assert SWEEP in edged(engine, "runs", "list")
    columns, *rows = edged(engine, "runs", "export", SWEEP).splitlines()
    recorded = next((VERSION_0_1_0 / "data").rglob("data.csv")).read_text().splitlines()
    assert (columns.count(","), len(rows)) == (recorded[0].count(","), len(recorded) - 1)


def test_profiles_of_0_1_0_are_read_and_work_an_instrument(engine: Engine) -> None:
    library = load_library([VERSION_0_1_0 / "profiles"])
    assert library.complaints == ()
    assert len(library.profiles) == len(list((VERSION_0_1_0 / "profiles").iterdir()))
    done = engine.tool("execute_command", instrument_id="psu1", command_name="set_voltage",
                       parameters={"channel": 1, "voltage": 3.3})  # fmt: skip
    assert done["result"]["data"]["readback"] == pytest.approx(3.3)


def test_a_database_of_a_newer_edged_is_refused_with_a_sentence(tmp_path: Path) -> None:
    lay_out(tmp_path)
    newer = max(MIGRATIONS) + 1
    with contextlib.closing(sqlite3.connect(tmp_path / "state" / "edged.db")) as connection:
        connection.execute(f"PRAGMA user_version = {newer}")
    before = (tmp_path / "state" / "edged.db").read_bytes()
    ended = subprocess.run(
        [sys.executable, "-m", "edged", "engine", "--set", "DISCOVERY=[]", "--mcp-port", "0",
         "--rpc-port", "0", "--state-dir", str(tmp_path / "state")],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert ended.returncode == 69
    assert f"schema version {newer}" in ended.stderr
    assert "it was written by a newer edged" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert (tmp_path / "state" / "edged.db").read_bytes()[100:] == before[100:]
