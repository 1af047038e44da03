"""A real engine whose database cannot be written: section 8's sentence, word for word.

"Writes are refused with that reason, safe commands and reads go on, a running sweep whose journal
cannot be written holds and says why, doctor says FAIL, and it heals without a restart."
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.bench.engine_process import REPOSITORY, EngineProcess, engine_process
from tests.bench.waiting import wait_for
from tests.promises import promise

SIZE_BYTES = 2 * 1024 * 1024
WITHIN_S = 20.0
STREAM = {
    "instrument_id": "psu1",
    "command_name": "measure_voltage",
    "parameters": {"channel": 1},
    "interval_ms": 20,
    "duration_ms": 2_500,
}
DATABASE = ("edged.db", "edged.db-wal", "edged.db-shm")
# What the refusal says of each fault; and what the record says of it afterwards.
REASONS = {
    "full": "the disk is full",
    # Whichever is seen first: other files lie there, and they may not be written.
    "read_only_disk": "its file cannot be written|another program has changed its files",
    "read_only_files": "its file cannot be written",
}


DISK = Path("/var/tmp")
"""In memory, where the other tests write, a frozen file is written all the same if it is open."""


@pytest.fixture
def on_disk() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=DISK) as place:
        yield Path(place)


def faults() -> list[str]:
    """Those that this machine can make: a mount needs root, a frozen file a disk that knows it."""
    can_mount = sys.platform == "linux" and os.geteuid() == 0
    found = ["full", "read_only_disk"] if can_mount else []
    with tempfile.NamedTemporaryFile(dir=DISK) as file:
        if can_mount and freeze(True, Path(file.name)):
            freeze(False, Path(file.name))
            found.append("read_only_files")
    return found


def freeze(is_frozen: bool, *files: Path) -> bool:
    """Have the kernel refuse writes to files, also through descriptors that are open."""
    words = ["chattr", "+i" if is_frozen else "-i", *map(str, files)]
    try:
        return subprocess.run(words, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[None]:
    place.mkdir(parents=True)
    options = ["-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "tmpfs"]
    subprocess.run(["mount", *options, str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@contextlib.contextmanager
def full(state_dir: Path) -> Iterator[None]:
    ballast = state_dir / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 1024)
    try:
        yield
    finally:
        ballast.unlink()


@contextlib.contextmanager
def read_only_disk(state_dir: Path) -> Iterator[None]:
    """Another disk comes to lie over the state directory, with the same files, read-only."""
    copy = state_dir.with_name("copy")
    shutil.copytree(state_dir, copy)
    place = str(state_dir)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES * 4}", "t", place], check=True)
    try:
        shutil.copytree(copy, state_dir, dirs_exist_ok=True)
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@contextlib.contextmanager
def read_only_files(state_dir: Path) -> Iterator[None]:
    files = [state_dir / name for name in DATABASE if (state_dir / name).exists()]
    try:
        assert freeze(True, *files)
        yield
    finally:
        assert freeze(False, *files)


FAULTS = {
    "full": full,
    "read_only_disk": read_only_disk,
    "read_only_files": read_only_files,
}


def run(engine: EngineProcess, command: str, **parameters: Any) -> Any:
    return engine.tool(
        "execute_command", instrument_id="psu1", command_name=command, parameters=parameters
    )


def recordings(engine: EngineProcess) -> dict[str, Any]:
    return dict(engine.tool("get_status")["result"]["recordings"])


def doctor(engine: EngineProcess, check: str = "database") -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "edged", "doctor", "--json", "--state-dir", str(engine.state_dir)],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        timeout=30,
    )
    lines = {line["check"]: line for line in json.loads(done.stdout)["checks"]}
    return done.returncode, lines[check]


class Sweep:
    """A slow ramp of the second supply, which still runs when the database cannot be written."""

    def __init__(self, engine: EngineProcess) -> None:
        self.engine = engine
        told = engine.tool(
            "start_sweep",
            instrument_id="psu2",
            command_name="set_voltage",
            target_value=30,
            sweep_rate=0.2,
            parameters={"channel": 1},
        )
        self.sweep_id = told["result"]["sweep_id"]
        wait_for(lambda: self.told()["steps"] >= 2)

    def told(self) -> dict[str, Any]:
        return dict(self.engine.tool("get_sweep_status", sweep_id=self.sweep_id)["result"])


@promise("store.broken-refuses-writes-only")
@promise("store.heals")
@promise("sweep.journal-broken-holds")
@pytest.mark.parametrize("fault", faults())
def test_writes_are_refused_safe_and_reads_go_on_sweeps_hold_doctor_fails_and_it_heals(
    on_disk: Path, fault: str
) -> None:
    reason = REASONS[fault]
    with contextlib.ExitStack() as parts:
        if fault == "full":
            parts.enter_context(small_disk(on_disk / "state"))
        engine = parts.enter_context(
            engine_process(on_disk, "--instruments", "psu1,psu2=rigol_dp832")
        )
        pid = engine.process.pid
        wait_for(lambda: not run(engine, "set_voltage", channel=1, voltage=1)["is_error"])
        sweep = Sweep(engine)
        with FAULTS[fault](engine.state_dir):
            # What is in the file has room for some rows more.
            wait_for(lambda: run(engine, "set_voltage", channel=1, voltage=2)["is_error"])
            refused = run(engine, "set_voltage", channel=1, voltage=3)
            assert refused["error"]["code"] == "store_failed"
            assert re.search(reason, refused["error"]["message"])
            assert not run(engine, "measure_voltage", channel=1)["is_error"]
            assert not run(engine, "output_off", channel=1)["is_error"]
            assert engine.tool("list_instruments")["result"]
            wait_for(lambda: sweep.told()["status"] == "holding")
            assert "its journal cannot be written" in sweep.told()["error"]
            assert re.search(reason, sweep.told()["error"])
            held_at = sweep.told()["set_value"]
            status, line = doctor(engine)
            assert (status, line["verdict"]) == (1, "FAIL")
            assert re.search(reason, line["found"])
            assert sweep.told()["set_value"] == held_at < 30
        wait_for(lambda: not run(engine, "set_voltage", channel=1, voltage=4)["is_error"])
        assert doctor(engine)[1]["verdict"] == "PASS"
        assert sweep.told()["status"] == "holding"
        stopped = engine.tool("stop_sweep", sweep_id=sweep.sweep_id)
        assert stopped["result"]["status"] == "stopped"
        assert engine.rpc("audit.verify")["is_intact"]
        rows = engine.rpc("audit.list", tool="execute_command", limit=1000)["rows"]
        assert {"measure_voltage", "output_off"} <= {row["command"] for row in rows}
        assert (engine.process.pid, engine.process.poll()) == (pid, None)


@promise("store.heals")
def test_a_database_that_another_program_holds_at_the_start_is_waited_for(tmp_path: Path) -> None:
    with engine_process(tmp_path) as engine:
        wait_for(lambda: not run(engine, "set_voltage", channel=1, voltage=1)["is_error"])
    database = engine.state_dir / "edged.db"
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with engine_process(tmp_path) as engine:
            wait_for(lambda: not run(engine, "measure_voltage", channel=1)["is_error"])
            refused = run(engine, "set_voltage", channel=1, voltage=3)
            assert "another program holds it locked" in refused["error"]["message"]
            assert not run(engine, "measure_voltage", channel=1)["is_error"]
            assert not run(engine, "output_off", channel=1)["is_error"]
            assert doctor(engine)[1]["verdict"] == "FAIL"
            other.close()
            wait_for(lambda: not run(engine, "set_voltage", channel=1, voltage=4)["is_error"])
            assert doctor(engine)[1]["verdict"] == "PASS"
            assert engine.rpc("audit.verify")["is_intact"]


@promise("runs.ended-is-on-disk")
def test_a_stream_that_ends_on_a_full_disk_is_ended_when_all_its_rows_are_there(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path / "data"), engine_process(tmp_path, "--instruments", "psu1") as engine:
        wait_for(lambda: engine.tool("list_instruments", filter="psu1")["result"])
        with full(tmp_path / "data"):
            begun = engine.tool("start_stream", **{**STREAM, "duration_ms": 100})
            assert begun["is_error"] is False
            assert "No space left" in str(begun["result"]["recording"])
            assert not [path for path in (tmp_path / "data").glob("runs/*/*") if path.is_dir()]
        with ThreadPoolExecutor(1) as pool:
            streaming = pool.submit(engine.tool, "start_stream", **STREAM)
            wait_for(lambda: recordings(engine)["open"] == 1)
            wait_for(lambda: any((tmp_path / "data").glob("runs/*/*/data.csv")))
            with full(tmp_path / "data"):
                ended = streaming.result()["result"]
                wait_for(lambda: recordings(engine)["waiting"] == 1)
                assert "No space left" in recordings(engine)["error"]
                run_id = ended["stream_id"]
                assert engine.rpc("runs.show", run_id=run_id)["meta"]["status"] == "running"
                status, line = doctor(engine, "recorded data")
                assert (status, line["verdict"]) == (1, "FAIL"), line
            wait_for(lambda: recordings(engine)["waiting"] == 0)
        shown = engine.rpc("runs.show", run_id=run_id)
        assert shown["meta"]["status"] == "ended"
        assert shown["meta"]["rows"] == ended["count"] > 10
        assert recordings(engine)["error"] == ""
