"""A real engine whose disk neither takes nor refuses what is written: frozen, or its cable gone."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.bench.engine_process import REPOSITORY, EngineProcess, engine_process
from tests.bench.hanging_disk import HangingDisk
from tests.bench.sim_bench import SimBench, running_bench
from tests.promises import promise

WITHIN_S = 20.0
TOLD_WITHIN_S = 10.0
REFUSED_WITHIN_S = 3.0
STOPPED_WITHIN_S = 1.0
SAFE_WITHIN_S = 5.0
DISK_MB = 32
REASON = "the disk does not answer"

Hang = Callable[[], AbstractContextManager[None]]


def disks() -> list[str]:
    """Those that this machine can make; a frozen file system needs root and a loop device."""
    if sys.platform != "linux":
        return []
    can_mount = os.geteuid() == 0 and Path("/dev/loop-control").exists()
    return ["hanging", "frozen"] if can_mount else ["hanging"]


@contextlib.contextmanager
def hanging_disk(directory: Path) -> Iterator[tuple[dict[str, str], Hang]]:
    disk = HangingDisk(place=directory, under=directory / "state")
    yield disk.environment(), disk.hanging


@contextlib.contextmanager
def frozen_disk(directory: Path) -> Iterator[tuple[dict[str, str], Hang]]:
    image, place = directory / "disk.image", directory / "state"
    with image.open("wb") as file:
        file.truncate(DISK_MB * 1024 * 1024)
    place.mkdir()
    run("mkfs.ext4", "-q", "-F", str(image))
    run("mount", "-o", "loop", str(image), str(place))

    @contextlib.contextmanager
    def frozen() -> Iterator[None]:
        run("fsfreeze", "--freeze", str(place))
        try:
            yield
        finally:
            run("fsfreeze", "--unfreeze", str(place))

    try:
        yield {}, frozen
    finally:
        run("umount", "--lazy", str(place))


def run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


DISKS = {"hanging": hanging_disk, "frozen": frozen_disk}


def until(is_so: Callable[[], bool], within_s: float = WITHIN_S) -> None:
    deadline = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)  # noqa: TID251 - another process is waited for


def took(call: Callable[[], Any]) -> tuple[Any, float]:
    began = time.monotonic()
    return call(), time.monotonic() - began


def command(engine: EngineProcess, name: str, **parameters: Any) -> Any:
    return engine.tool(
        "execute_command", instrument_id="psu1", command_name=name, parameters=parameters
    )


def store(engine: EngineProcess) -> dict[str, Any]:
    return dict(engine.tool("get_status")["result"]["store"])


def database_line(engine: EngineProcess) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "edged", "doctor", "--json", "--state-dir", str(engine.state_dir)],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        timeout=40,
    )
    return next(c for c in json.loads(done.stdout)["checks"] if c["check"] == "database")


def begin_sweep(engine: EngineProcess) -> str:
    told = engine.tool(
        "start_sweep",
        instrument_id="psu1",
        command_name="set_voltage",
        target_value=30,
        sweep_rate=0.2,
        parameters={"channel": 1},
    )
    return str(told["result"]["sweep_id"])


def sweep_told(engine: EngineProcess, sweep_id: str) -> dict[str, Any]:
    return dict(engine.tool("get_sweep_status", sweep_id=sweep_id)["result"])


@contextlib.contextmanager
def engine_on(kind: str, directory: Path, bench: SimBench) -> Iterator[tuple[EngineProcess, Hang]]:
    with DISKS[kind](directory) as (environment, hang):
        config = {"INSTRUMENTS": [{"address": bench.address("psu1"), "name": "psu1"}]}
        with engine_process(directory, sim=False, config=config, environment=environment) as engine:
            until(lambda: not command(engine, "set_voltage", channel=1, voltage=1)["is_error"])
            assert not command(engine, "output_on", channel=1)["is_error"]
            yield engine, hang


@pytest.fixture
def bench() -> Iterator[SimBench]:
    with running_bench("--instruments", "psu1") as running:
        yield running


@promise("store.hung-is-told")
@pytest.mark.parametrize("kind", disks())
def test_every_wait_ends_the_state_is_stalled_and_what_stops_answers_as_ever(
    tmp_path: Path, bench: SimBench, kind: str
) -> None:
    with engine_on(kind, tmp_path, bench) as (engine, hang):
        sweep_id = begin_sweep(engine)
        until(lambda: sweep_told(engine, sweep_id)["steps"] >= 2)
        with hang():
            refused, spent_s = took(lambda: command(engine, "set_voltage", channel=2, voltage=2))
            assert refused["error"]["code"] == "store_failed"
            assert REASON in refused["error"]["message"]
            assert spent_s < REFUSED_WITHIN_S
            until(lambda: store(engine)["state"] == "stalled", TOLD_WITHIN_S)
            until(lambda: sweep_told(engine, sweep_id)["status"] == "holding")
            assert REASON in sweep_told(engine, sweep_id)["error"]
            line = database_line(engine)
            assert (line["verdict"], REASON in line["found"]) == ("FAIL", True)
            assert not command(engine, "measure_voltage", channel=1)["is_error"]
            safe, spent_s = took(lambda: command(engine, "output_off", channel=2))
            assert not safe["is_error"]
            assert spent_s < STOPPED_WITHIN_S
            again, spent_s = took(lambda: command(engine, "set_voltage", channel=2, voltage=2))
            assert REASON in again["error"]["message"]
            assert spent_s < STOPPED_WITHIN_S
            mark = bench.mark()
            stopped, spent_s = took(lambda: engine.tool("bench__stop_all"))
            assert not stopped["is_error"]
            assert spent_s < STOPPED_WITHIN_S
            assert any("OUTP" in line for line in bench.received("psu1", since=mark))
            locked = engine.rpc("lockout.set", instrument_id="psu1", reason="hands", by="Kim")
            assert (locked["is_persisted"], REASON in locked["remark"]) == (False, True)
        until(lambda: store(engine)["state"] == "healthy")
        engine.rpc("lockout.clear", instrument_id="psu1")
        until(lambda: not command(engine, "set_voltage", channel=2, voltage=3)["is_error"])
        assert database_line(engine)["verdict"] == "PASS"
        assert engine.rpc("audit.verify")["is_intact"]
        told = engine.rpc("audit.list", tool="database", limit=10)["rows"]
        assert any(REASON in str(row["parameters"]) for row in told)


@promise("store.hung-ends-in-time")
@pytest.mark.parametrize("kind", disks())
def test_the_end_of_the_daemon_does_not_wait_for_the_disk(
    tmp_path: Path, bench: SimBench, kind: str
) -> None:
    with engine_on(kind, tmp_path, bench) as (engine, hang):
        sweep_id = begin_sweep(engine)
        until(lambda: sweep_told(engine, sweep_id)["steps"] >= 2)
        assert bench.state("psu1")["ch1"]["is_on"]
        with hang():
            refused = command(engine, "set_voltage", channel=2, voltage=2)
            assert REASON in refused["error"]["message"]
            engine.process.terminate()
            until(lambda: not bench.state("psu1")["ch1"]["is_on"], SAFE_WITHIN_S)
            for port in (engine.ports["mcp_port"], engine.ports["rpc_port"]):
                until(lambda port=port: not is_listening(port), SAFE_WITHIN_S)
            if kind == "hanging":
                # Nothing holds it in the kernel there.
                engine.process.wait(WITHIN_S)
        engine.process.wait(WITHIN_S)


def is_listening(port: int) -> bool:
    with socket.socket() as line:
        line.settimeout(1)
        return line.connect_ex(("127.0.0.1", port)) == 0
