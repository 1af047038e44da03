"""A real engine, a unit at two addresses, and a first line on which nothing moves any more."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.engine_process import REPOSITORY, EngineProcess, engine_process
from tests.bench.sim_bench import SimBench, running_bench
from tests.bench.waiting import wait_for
from tests.promises import promise

OFF = [":OUTP CH1,OFF", ":OUTP CH2,OFF", ":OUTP CH3,OFF"]


@pytest.fixture
def bench() -> Iterator[SimBench]:
    """``again`` is the same unit, reached by another transport."""
    with running_bench("--instruments", "psu1") as running:
        running.add("again", "rigol_dp832", serial=running.serial("psu1"), transport="hislip")
        yield running


@pytest.fixture
def engine(bench: SimBench, tmp_path: Path) -> Iterator[EngineProcess]:
    config = {
        "INSTRUMENTS": [
            {"address": bench.address("psu1"), "name": "psu1", "timeout_ms": 3000},
            {"address": bench.address("again"), "name": "psu1"},
        ],
        "GONE_AFTER_SEC": 60,
    }
    with engine_process(tmp_path, sim=False, config=config) as running:
        wait_for(lambda: instrument(running).get("alternatives"))
        yield running


def instrument(engine: EngineProcess) -> dict[str, Any]:
    (entry,) = engine.tool("list_instruments")["result"]
    return dict(entry)


def other(bench: SimBench, engine: EngineProcess) -> str:
    """The name of the station that is not the engine's first line now."""
    return "again" if instrument(engine)["address"] == bench.address("psu1") else "psu1"


@promise("line.second-for-aborts")
def test_stop_all_goes_by_the_second_line_while_the_first_is_frozen(
    bench: SimBench, engine: EngineProcess
) -> None:
    second = other(bench, engine)
    first = {"psu1": "again", "again": "psu1"}[second]
    bench.fault(first, "freeze")
    mark = bench.mark()
    told = engine.tool("bench__stop_all")["result"]
    heard = bench.received(second, mark)
    assert heard[: heard.index(OFF[0])] == ["*IDN?"]
    assert [line for line in heard if line in OFF] == OFF
    if told["instruments"][0]["state"] == "trying":
        told = engine.stop_all()
    (stopped,) = told["instruments"]
    assert stopped["state"] == "confirmed", stopped
    assert told["is_confirmed"]
    bench.clear()


def test_a_safe_command_goes_by_the_second_line_and_another_one_does_not(
    bench: SimBench, engine: EngineProcess
) -> None:
    second = other(bench, engine)
    first = {"psu1": "again", "again": "psu1"}[second]
    bench.fault(first, "freeze")
    mark = bench.mark()

    def run(command: str, **parameters: Any) -> Any:
        return engine.tool(
            "execute_command", instrument_id="psu1", command_name=command, parameters=parameters
        )

    told = run("output_off", channel=1)
    assert not told["is_error"], told
    assert OFF[0] in bench.received(second, mark)
    bench.clear()
    # By itself: the unit is back at the first, or has failed over to the second.
    wait_for(lambda: not run("measure_voltage", channel=1)["is_error"])


@promise("instruments.silent-error-query")
def test_status_and_doctor_warn_of_an_instrument_whose_errors_cannot_be_asked(
    tmp_path: Path,
) -> None:
    with running_bench("--instruments", "psu1") as bench:
        entry = {
            "address": bench.address("psu1"),
            "name": "psu1",
            "timeout_ms": 300,
            "errors": {"query": "NEVER?", "kind": "queue"},
        }
        config = {"INSTRUMENTS": [entry]}
        with engine_process(tmp_path, sim=False, config=config) as engine:
            wait_for(lambda: engine.tool("list_instruments")["result"])
            assert "NEVER?" in instrument(engine)["warning"]
            status = engine.tool("get_status")["result"]
            assert [w["instrument_id"] for w in status["discovery"]["warnings"]]
            assert status["set_aside"] == []
            place = ["--state-dir", str(engine.state_dir)]
            done = subprocess.run(
                [sys.executable, "-m", "edged", "doctor", "--json", *place],
                capture_output=True,
                text=True,
                check=False,
                cwd=REPOSITORY,
                timeout=60,
            )
            lines = {line["check"]: line for line in json.loads(done.stdout)["checks"]}
            assert lines["discovery"]["verdict"] == "WARN"
            assert "NEVER?" in lines["discovery"]["found"]
