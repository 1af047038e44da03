"""Traces and ``edged sim fault`` against a real engine on its simulated bench."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.engine import Engine, running_engine
from tests.flows.test_cli_with_engine import as_json, edged
from tests.promises import promise


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(tmp_path_factory.mktemp("trace")) as running:
        yield running


@promise("line.trace")
def test_a_trace_tells_what_was_said_and_when(engine: Engine) -> None:
    edged(engine.state_dir, "scpi", "psu1", 'DIAG:ECHO? "traced"')
    exchanges = engine.rpc("trace", instrument_id="psu1")["exchanges"][-2:]
    assert all(entry["timestamp_ms"] for entry in exchanges)
    assert [(e["direction"], e["text"]) for e in exchanges] == [
        ("sent", 'DIAG:ECHO? "traced"\n'),
        ("received", "traced"),
    ]


@promise("sim.fault-verb")
def test_a_fault_at_run_time_is_an_error_with_its_trace_and_then_it_is_over(
    engine: Engine,
) -> None:
    # Whatever is owed after the raw line of before must not meet the fault in its place.
    edged(engine.state_dir, "call", "rigol_dp832__measure_voltage", "channel=1")
    edged(engine.state_dir, "sim", "fault", "psu1", "drop", "--count", "1")
    answer = as_json(engine, "call", "rigol_dp832__measure_voltage", "channel=1", status=1)
    trace = answer["error"]["data"]["trace"]
    assert trace[-1]["direction"] == "note"
    assert any(entry["direction"] == "sent" for entry in trace)
    edged(engine.state_dir, "call", "rigol_dp832__measure_voltage", "channel=1")
    edged(engine.state_dir, "sim", "fault", "psu1", "hang")
    state = as_json(engine, "sim", "state")
    assert state["instruments"]["psu1"]["faults"][0]["kind"] == "hang"
    edged(engine.state_dir, "sim", "clear", "psu1")
    assert as_json(engine, "sim", "state")["instruments"]["psu1"]["faults"] == []
    wrong = edged(engine.state_dir, "sim", "fault", "psu1", "hiccup", status=1)
    assert "not a kind of fault" in wrong.stderr


def test_a_bench_is_reached_by_its_control_port_alone(engine: Engine, tmp_path: Path) -> None:
    port = str(engine.ports["sim_control_port"])
    edged(tmp_path, "sim", "state", "--control", port)
    edged(tmp_path, "sim", "state", status=69)
