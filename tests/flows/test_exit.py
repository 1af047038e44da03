"""What happens to outputs when an engine is stopped: ON_EXIT, the log, and the next start."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.command_line import NO_PROFILES
from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import REPOSITORY, engine_process
from tests.bench.sim_bench import SimBench, running_bench
from tests.bench.waiting import wait_for
from tests.flows.test_cli_with_engine import edged
from tests.flows.test_sdk_wrappers import OWN_PATH, RELAYCARD, documented_example
from tests.flows.test_sweeps import engine_on
from tests.promises import promise

PSU1, PSU2 = "psu1", "psu2"


@pytest.fixture
def bench() -> Iterator[SimBench]:
    with running_bench("--instruments", "psu1=rigol_dp832,psu2=rigol_dp832") as running:
        yield running


def switch_on(engine: Engine, *names: str) -> None:
    for name in names:
        answer = engine.tool(
            "execute_command",
            instrument_id=name,
            command_name="output_on",
            parameters={"channel": 1},
        )
        assert not answer["is_error"], answer


def is_on(bench: SimBench, name: str) -> bool:
    return bool(bench.state(name)["ch1"]["is_on"])


def lines_of(engine: Engine) -> list[dict[str, Any]]:
    """The log of all engines of this directory."""
    lines = engine.log.read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def rows(engine: Engine, tool: str) -> list[dict[str, Any]]:
    return [row for row in engine.rpc("audit.list", limit=500)["rows"] if row["tool"] == tool]


def left_on(engine: Engine) -> dict[str, list[str]]:
    names = {i["id"]: i["alias"] for i in engine.tool("list_instruments")["result"]}
    told = engine.tool("get_status")["result"]["told_on"]
    return {names[one["instrument_id"]]: one["left"] for one in told if one["left"]}


@promise("exit.leave")
def test_what_is_left_on_is_named_by_the_last_log_line_and_after_the_next_start(
    bench: SimBench, tmp_path: Path
) -> None:
    with engine_on(bench, tmp_path, engine_process) as engine:
        switch_on(engine, PSU1, PSU2)
        assert left_on(engine) == {}
        assert engine.stop() == 0
    assert is_on(bench, PSU1)
    assert is_on(bench, PSU2)
    last = lines_of(engine)[-1]
    assert last["event"] == "engine_stopped"
    assert sorted(last["left_on"]) == ["psu1 (OUTP CH1)", "psu2 (OUTP CH1)"]
    with engine_on(bench, tmp_path, engine_process) as engine:
        assert left_on(engine) == {PSU1: ["OUTP CH1"], PSU2: ["OUTP CH1"]}
        (stopped,) = rows(engine, "engine.stopped")
        assert "left on: " in stopped["parameters"]["text"]
        assert stopped["client"] == "engine"
        told = edged(engine.state_dir, "status").stdout
        assert told.count("OUTP CH1 left on by the previous run of the engine") == 2
        report = edged(engine.state_dir, "doctor", environ=NO_PROFILES).stdout
        assert "The previous run of the engine left on: psu1 (" in report
        # One is set anew, the other is confirmed off.
        switch_on(engine, PSU1)
        assert left_on(engine) == {PSU2: ["OUTP CH1"]}
        assert engine.stop_all()["is_confirmed"]
        assert left_on(engine) == {}
        assert engine.stop() == 0
    assert lines_of(engine)[-1]["left_on"] == []


@promise("exit.safe")
def test_safe_switches_off_what_may_be_on_beside_a_unit_that_hangs(
    bench: SimBench, tmp_path: Path
) -> None:
    with engine_on(bench, tmp_path, engine_process, ON_EXIT="safe") as engine:
        switch_on(engine, PSU1, PSU2)
        bench.fault(PSU1, "hang")
        assert engine.stop() == 0
    assert not is_on(bench, PSU2)
    told = {one["id"]: one for one in lines_of(engine) if one["event"] == "exit_safe"}
    assert sorted(one["unconfirmed"] for one in told.values()) == [[], ["OUTP CH1"]]
    assert lines_of(engine)[-1]["left_on"] == ["psu1 (OUTP CH1)"]
    bench.clear()
    with engine_on(bench, tmp_path, engine_process) as engine:
        assert left_on(engine) == {PSU1: ["OUTP CH1"]}
        texts = sorted(row["parameters"]["text"] for row in rows(engine, "exit.safe"))
        assert texts[0].startswith("psu1: not confirmed off: OUTP CH1.")
        assert texts[1] == "psu2: confirmed off"
        aborts = rows(engine, "shutdown")
        assert {row["client"] for row in aborts} == {"shutdown"}
        assert [row["outcome"] for row in aborts if "psu2" in row["instrument"]] != ["failed"]


@promise("exit.safe")
def test_safe_aborts_a_unit_that_took_a_line_which_may_have_switched_anything_on(
    bench: SimBench, tmp_path: Path
) -> None:
    with engine_on(bench, tmp_path, engine_process, ON_EXIT="safe") as engine:
        engine.tool("send_scpi", instrument_id=PSU1, scpi_command="*TRG")
        bench.tell(PSU1, ":OUTP CH1,ON")
        told = engine.tool("get_status")["result"]["told_on"]
        assert [one["outputs"] for one in told] == [["*"]]
        assert engine.stop() == 0
    assert not is_on(bench, PSU1)
    assert bench.received(PSU2) == [] or ":OUTP CH1,OFF" not in bench.received(PSU2)
    assert lines_of(engine)[-1]["left_on"] == []


@promise("exit.safe")
def test_safe_obeys_ctrl_c_too(bench: SimBench, tmp_path: Path) -> None:
    with engine_on(bench, tmp_path, engine_process, ON_EXIT="safe") as engine:
        switch_on(engine, PSU1)
        engine.process.send_signal(signal.SIGINT)
        assert engine.process.wait(10) == 0
    wait_for(lambda: not is_on(bench, PSU1))


def with_relays(directory: Path) -> dict[str, Any]:
    """What ``running_engine`` needs for the documented wrapper, which says what its device says."""
    for name, file, text in (
        ("vendor", "relaycard.py", RELAYCARD),
        ("own", "relays.py", documented_example()),
    ):
        (directory / name).mkdir(exist_ok=True)
        (directory / name / file).write_text(text)
    return {
        "environment": {
            "PYTHONPATH": os.pathsep.join([str(directory / "vendor"), *OWN_PATH]),
        },
        "config": {
            "SDK_WRAPPER_DIRS": [str(directory / "own")],
            "SDK_SETTINGS": {"relays": {"port": "/dev/relays"}},
            "ON_EXIT": "safe",
        },
    }


@promise("exit.safe")
def test_safe_runs_the_abort_of_a_wrapper_whose_device_may_be_on(tmp_path: Path) -> None:
    how = with_relays(tmp_path)
    with engine_process(tmp_path, sim=False, **how) as engine:
        assert engine.tool("relays__switch", relay=3, to="closed")["result"]["data"] is True
        assert engine.stop() == 0
    assert lines_of(engine)[-1]["left_on"] == []
    with engine_process(tmp_path, sim=False, **how) as engine:
        (row,) = rows(engine, "exit.safe")
        assert row["parameters"]["text"] == "sdk:relays: confirmed off"


@promise("sdk.stop-all-quiet")
def test_a_stop_adds_no_row_of_a_wrapper_whose_device_was_never_there(tmp_path: Path) -> None:
    shipped = {"SDK_WRAPPER_DIRS": [str(REPOSITORY / "sdk_wrappers")]}
    with running_engine(tmp_path, "--instruments", "psu1=rigol_dp832", config=shipped) as engine:
        stopped = engine.tool("bench__stop_all")["result"]
        assert len(stopped["wrappers"]) == 2
        assert {one["state"] for one in stopped["wrappers"]} <= {"not_connected", "trying"}
        wait_for(lambda: rows(engine, "bench__stop_all"))
        found = engine.rpc("audit.list", limit=100)["rows"]
        assert [row for row in found if row["instrument"].startswith("sdk:")] == []
