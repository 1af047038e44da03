"""A real engine whose write-ahead log is deleted or cut: told, and after kill -9 still safe."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edged.store.audit.verify import verify_file
from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.sim_bench import SimBench, running_bench
from tests.faults.test_engine_hung_disk import begin_sweep, command, database_line, store, until
from tests.promises import promise

TOLD_WITHIN_S = 10.0
HEALED_WITHIN_S = 45.0
WRITES = 33


@pytest.fixture
def bench() -> Iterator[SimBench]:
    with running_bench("--instruments", "psu1,psu2=rigol_dp832") as running:
        yield running


def config(bench: SimBench) -> dict[str, object]:
    return {
        "INSTRUMENTS": [{"address": bench.address(name), "name": name} for name in ("psu1", "psu2")]
    }


def write_33(engine: EngineProcess) -> None:
    for number in range(WRITES):
        done = command(engine, "set_voltage", channel=2, voltage=1 + number / 100)
        assert not done["is_error"]


def log_of(engine: EngineProcess) -> Path:
    return engine.state_dir / "edged.db-wal"


def cut(log: Path) -> None:
    os.truncate(log, 0)


@promise("store.lost-log-is-told")
@pytest.mark.parametrize("harm", [Path.unlink, cut])
def test_an_idle_engine_tells_of_the_loss_within_ten_seconds_and_goes_on(
    tmp_path: Path, bench: SimBench, harm: Callable[[Path], None]
) -> None:
    with engine_process(tmp_path, sim=False, config=config(bench), slowness=3) as engine:
        write_33(engine)
        harm(log_of(engine))
        # Nobody writes meanwhile: a call would have it found at once.
        time.sleep(TOLD_WITHIN_S)  # noqa: TID251 - the promise is about time
        assert store(engine)["state"] == "broken"
        line = database_line(engine)
        assert (line["verdict"], "write-ahead log" in line["found"]) == ("FAIL", True)
        until(lambda: store(engine)["state"] == "healthy", HEALED_WITHIN_S)
        assert not command(engine, "set_voltage", channel=2, voltage=2)["is_error"]
        is_lost = harm is cut
        assert engine.rpc("audit.verify")["is_intact"] is not is_lost
        assert bool(store(engine)["loss"]) is is_lost
        assert database_line(engine)["verdict"] == ("WARN" if is_lost else "PASS")


@promise("store.lost-log-is-told")
def test_the_first_write_after_the_loss_is_refused_and_safe_commands_are_not(
    tmp_path: Path, bench: SimBench
) -> None:
    with engine_process(tmp_path, sim=False, config=config(bench), slowness=3) as engine:
        write_33(engine)
        log_of(engine).unlink()
        refused = command(engine, "set_voltage", channel=2, voltage=2)
        assert refused["error"]["code"] == "store_failed"
        assert "write-ahead log was deleted" in refused["error"]["message"]
        assert not command(engine, "output_off", channel=2)["is_error"]
        engine.process.kill()
        engine.process.wait()
    with engine_process(tmp_path, sim=False, config=config(bench), slowness=3) as engine:
        rows = engine.rpc("audit.list", tool="execute_command", limit=1000)["rows"]
        assert len([row for row in rows if row["phase"] == "intent"]) == WRITES
        assert engine.rpc("audit.verify")["is_intact"]


@promise("store.safe-without-the-log")
def test_killed_at_once_without_its_log_the_next_life_makes_safe_and_tells_the_loss(
    tmp_path: Path, bench: SimBench
) -> None:
    with engine_process(tmp_path, sim=False, config=config(bench), slowness=3) as engine:
        assert not command(engine, "output_on", channel=1)["is_error"]
        begin_sweep(engine)
        engine.rpc("lockout.set", instrument_id="psu2", reason="hands", by="Kim")
        write_33(engine)
        assert bench.state("psu1")["ch1"]["is_on"]
        log_of(engine).unlink()
        engine.process.kill()
        engine.process.wait()
    assert not verify_file(tmp_path / "state" / "edged.db").is_intact
    with engine_process(tmp_path, sim=False, config=config(bench), slowness=3) as engine:
        assert not bench.state("psu1")["ch1"]["is_on"]
        (locked,) = engine.rpc("lockout.list")["lockouts"]
        assert (locked["instrument_id"], locked["reason"]) == (bench_id(engine, "psu2"), "hands")
        report = engine.rpc("audit.verify")
        assert not report["is_intact"]
        assert any(problem["kind"] == "removed" for problem in report["problems"])
        assert store(engine)["loss"]


def bench_id(engine: EngineProcess, alias: str) -> str:
    (found,) = (
        one["id"] for one in engine.tool("list_instruments")["result"] if one["alias"] == alias
    )
    return str(found)
