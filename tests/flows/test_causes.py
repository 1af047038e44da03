"""What ended a write that was on the wire stands in its row of the audit log: real engines."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.sim_bench import SimBench, running_bench
from tests.bench.waiting import wait_for
from tests.flows.test_sweeps import engine_on
from tests.promises import promise

MODELS = "psu1=rigol_dp832,psu2=rigol_dp832"
RULES = {
    "format": 1,
    "psu1": {"on_expiry": "abort"},
    "interlocks": [
        {
            "name": "chamber",
            "when": {
                "instrument": "psu2",
                "command": "get_voltage",
                "parameters": {"channel": 1},
            },
            "must": "value < 3",
            # Longer than a busy machine keeps a reading from coming.
            "max_age_s": 20,
            "poll_s": 0.3,
            "guards": ["psu1"],
            "trip": "abort",
        }
    ],
}
POINT = {
    "instrument_id": "psu1",
    "sequence_name": "voltage_point",
    "parameters": {"channel": 1, "voltage": 1},
}
STEP = {
    "instrument_id": "psu1",
    "command_name": "set_voltage",
    "parameters": {"channel": 1, "voltage": 2},
}


def errors_of(engine: Engine) -> list[str]:
    """Those of all settings of the supply."""
    rows = engine.rpc("audit.list", limit=500)["rows"]
    return [row["error"] for row in rows if row["command"].startswith("set_") and row["error"]]


def stop_all(engine: Engine, _bench: SimBench, _lease: str) -> None:
    engine.tool("bench__stop_all")


def trip(engine: Engine, bench: SimBench, _lease: str) -> None:
    bench.tell("psu2", ":SOUR1:VOLT 5")
    wait_for(lambda: engine.tool("get_status")["result"]["interlocks"][0]["reason"])


def lock(engine: Engine, _bench: SimBench, _lease: str) -> None:
    engine.rpc("lockout.set", instrument_id="psu1", reason="hands inside", by="anna")


def end_lease(engine: Engine, _bench: SimBench, lease: str) -> None:
    engine.rpc("leases.break", lease_id=lease, reason="over", by="anna")


def end_engine(engine: EngineProcess, _bench: SimBench, _lease: str) -> None:
    assert engine.stop() == 0


End = Callable[[Engine, SimBench, str], None]


@promise("audit.causes")
@pytest.mark.parametrize(
    ("tool", "arguments", "end", "clause"),
    [
        ("execute_command", STEP, stop_all, "ended by stop all of "),
        ("execute_command", STEP, trip, "ended by interlock chamber"),
        ("execute_command", STEP, end_engine, "ended because the engine stopped"),
        ("execute_sequence", POINT, lock, "ended by lockout of psu1"),
        ("execute_sequence", POINT, end_lease, "ended by the end of its lease"),
        ("execute_sequence", POINT, trip, "ended by interlock chamber"),
    ],
)
def test_a_write_on_the_wire_names_what_ended_it(
    tmp_path: Path, tool: str, arguments: dict[str, Any], end: End, clause: str
) -> None:
    (tmp_path / "bench.yaml").write_text(json.dumps(RULES))
    with running_bench("--instruments", MODELS) as bench, ThreadPoolExecutor(1) as other:
        start = engine_process if end is end_engine else running_engine
        # The write is on the wire for longer than a busy machine takes to end it.
        patient = [
            {"address": bench.address(name), "name": name, "timeout_ms": 20_000}
            for name in bench.instruments
        ]
        with engine_on(bench, tmp_path, start, INSTRUMENTS=patient) as engine:
            on = {**STEP, "command_name": "output_on", "parameters": {"channel": 1}}
            assert "error" not in engine.tool("execute_command", **on)
            lease = engine.tool("bench__reserve", instruments=["psu1"])["result"]["lease_id"]
            bench.fault("psu1", "hang")
            mark = bench.mark()
            calling = other.submit(engine.tool, tool, **arguments, lease=lease)
            wait_for(
                lambda: (
                    calling.done() or any(":SOUR" in line for line in bench.received("psu1", mark))
                )
            )
            assert not calling.done(), calling.result()
            end(engine, bench, lease)
            calling.exception()
            bench.clear()
            if end is not end_engine:
                errors = errors_of(engine)
        if end is end_engine:
            with engine_on(bench, tmp_path) as engine:
                errors = errors_of(engine)
    assert any(clause in error for error in errors), errors
    assert not any("went away" in error for error in errors)
