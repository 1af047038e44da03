"""What an engine tells a collector of OpenTelemetry data, and that it never waits for one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.bench.command_line import NO_PROFILES, edged
from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import REPOSITORY, engine_process
from tests.bench.mcp_client import McpClient
from tests.bench.otlp_collector import CollectedSpan, Collector, collecting
from tests.bench.waiting import HANGS_S
from tests.promises import promise

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SERVER_KIND = 2
ERROR_STATUS = 2
DURATION = "mcp.server.operation.duration"
BOUNDS_S = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]
SETTER = "rigol_dp832__set_voltage"
VOLTS = {"channel": 1, "voltage": 2}


@contextlib.contextmanager
def exporting_engine(directory: Path, variables: Mapping[str, str]) -> Iterator[Engine]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        with running_engine(directory) as engine:
            yield engine


async def opened(engine: Engine) -> McpClient:
    client = McpClient(engine.ports["mcp_port"])
    await client.initialize("2025-11-25")
    return client


def traced(tool: str, arguments: dict[str, Any], parent: str = PARENT) -> dict[str, Any]:
    meta = {"traceparent": f"00-{TRACE}-{parent}-01", "tracestate": "bench=1"}
    return {"name": tool, "arguments": arguments, "_meta": meta}


@promise("telemetry.spans")
async def test_a_call_is_told_as_a_part_of_its_clients_trace_down_to_each_exchange(
    tmp_path: Path,
) -> None:
    with collecting() as collector:
        with exporting_engine(tmp_path, collector.environment()) as engine:
            client = await opened(engine)
            await client.request("tools/call", traced(SETTER, VOLTS))
            call = collector.until(1, f"tools/call {SETTER}")[0]
            path = collector.until(1, "path")[0]
            version = engine.rpc("tools/call", name="get_status", arguments={})["result"]["version"]
        assert (call.trace_id, call.parent_id) == (TRACE, PARENT)
        assert (call.kind, call.status) == (SERVER_KIND, 0)
        told = call.attributes
        assert told.pop("mcp.session.id")
        assert told.pop("jsonrpc.request.id")
        assert told == {
            "mcp.method.name": "tools/call",
            "gen_ai.tool.name": SETTER,
            "gen_ai.operation.name": "execute_tool",
            "mcp.protocol.version": client.version,
            "network.transport": "tcp",
            "network.protocol.name": "http",
            "client.address": "127.0.0.1",
        }
        assert path.parent_id == call.span_id
        below = collector.below(path)
        assert below[0].name == "wait for the line"
        # It sets, reads back, and asks for errors.
        exchanges = [span for span in below if span.name == "exchange"]
        assert len(exchanges) >= 3
        assert exchanges[0].attributes["edged.sent_bytes"] == len(":SOUR1:VOLT 2.000\n")
        assert all("edged.received_bytes" in span.attributes for span in exchanges[1:])
        assert all(path.begin_ns <= span.begin_ns for span in below)
        assert collector.resource["service.name"] == "edged"
        assert collector.resource["service.version"] == version


@promise("telemetry.spans")
def test_the_call_that_the_guide_shows_becomes_a_trace(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "telemetry.md").read_text(encoding="utf-8")
    [call] = re.findall(r"^curl -s http://127.0.0.1:8767/mcp .*?'$", page, re.DOTALL | re.MULTILINE)
    with (
        collecting() as collector,
        exporting_engine(tmp_path, collector.environment()) as engine,
    ):
        here = call.replace(":8767/", f":{engine.ports['mcp_port']}/")
        done = subprocess.run(here, shell=True, capture_output=True, check=True, timeout=30)
        assert json.loads(done.stdout)["result"]["isError"] is False
        assert collector.until(1, f"tools/call {SETTER}")[0].status == 0


@promise("telemetry.spans")
async def test_steps_of_a_sequence_stand_below_the_call_and_a_sweep_not_beyond_it(
    tmp_path: Path,
) -> None:
    with collecting() as collector:
        with exporting_engine(tmp_path, collector.environment()) as engine:
            client = await opened(engine)
            point = {"channel": 1, "voltage": 1}
            await client.call("rigol_dp832__sequence__voltage_point", point)
            sweep = {
                "instrument_id": "psu1",
                "command_name": "set_voltage",
                "parameters": {"channel": 2},
                "target_value": 1,
                "sweep_rate": 2,
            }
            begun = (await client.call("start_sweep", sweep))["structuredContent"]
            await until_over(client, begun["sweep_id"])
        [sequence] = collector.until(1, "tools/call rigol_dp832__sequence__voltage_point")
        [swept] = collector.until(1, "tools/call start_sweep")
        assert len(exchanges_below(collector, sequence)) >= 5
        late = [span for span in exchanges_below(collector, swept) if span.begin_ns > swept.end_ns]
        assert late == []


def exchanges_below(collector: Collector, call: CollectedSpan) -> list[CollectedSpan]:
    [path] = collector.below(call)
    return [span for span in collector.below(path) if span.name == "exchange"]


async def until_over(client: McpClient, sweep_id: str) -> None:
    while True:
        told = await client.call("get_sweep_status", {"sweep_id": sweep_id})
        if told["structuredContent"]["status"] != "running":
            return


@promise("telemetry.errors")
async def test_what_went_wrong_has_its_error_type_and_no_strangers_name_becomes_a_series(
    tmp_path: Path,
) -> None:
    with collecting() as collector:
        with exporting_engine(tmp_path, collector.environment()) as engine:
            client = await opened(engine)
            await client.request(
                "tools/call", traced(SETTER, {"channel": 1, "voltage": 61}, parent="not hex")
            )
            await client.request("tools/call", {"name": "x" * 5_000, "arguments": {}})
            refused = collector.until(1, f"tools/call {SETTER}")[0]
            unknown = collector.until(1, "tools/call")[0]
            collector.wait_for(lambda: len(collector.histograms.get(DURATION, ())) >= 3)
        assert (refused.attributes["error.type"], refused.status) == ("tool_error", ERROR_STATUS)
        assert refused.parent_id == ""
        assert refused.trace_id != TRACE
        assert unknown.attributes["error.type"] == "-32602"
        assert "x" * 10 not in str(collector.spans)
        points = collector.histograms[DURATION]
        assert all(list(point.explicit_bounds) == BOUNDS_S for point in points)
        named = [{one.key: one.value.string_value for one in point.attributes} for point in points]
        kinds = {(one["mcp.method.name"], one.get("error.type", "")) for one in named}
        assert kinds >= {
            ("initialize", ""),
            ("tools/call", "tool_error"),
            ("tools/call", "-32602"),
        }
        assert all("mcp.session.id" not in one for one in named)


@promise("telemetry.off")
def test_an_engine_that_is_not_asked_to_export_imports_nothing_of_it() -> None:
    program = (
        "import sys, edged.engine.engine, edged.tools.dispatcher;"
        "from edged.engine.telemetry import EngineTelemetry;"
        "from edged.clock import SystemClock;"
        "one = EngineTelemetry({}, edge_id='e', clock=SystemClock());"
        "assert one.telemetry is None and one.watch_of is None;"
        "assert one.around(dispatcher := object()) is dispatcher;"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', "
        "'edged.telemetry.spans'))])"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "[]"


@promise("telemetry.collector-away")
async def test_a_collector_that_hangs_slows_nothing_and_keeps_no_engine_from_its_end(
    tmp_path: Path,
) -> None:
    with collecting() as collector:
        collector.hangs.set()
        # It would wait for the collector for longer than this test does for its end.
        waiting = {**collector.environment(), "OTEL_EXPORTER_OTLP_TIMEOUT": "3000"}
        with engine_process(tmp_path, environment=waiting) as engine:
            client = await opened(engine)
            for _ in range(300):
                await client.call("list_instruments")
            assert collector.asked.wait(HANGS_S)
            assert engine.stop() == 0
    assert "Traceback" not in engine.log.read_text()


@promise("telemetry.collector-away")
async def test_a_collector_that_is_not_there_is_told_of_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
        "OTEL_BSP_SCHEDULE_DELAY": "20",
        "OTEL_METRIC_EXPORT_INTERVAL": "100",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
    }
    with exporting_engine(tmp_path, environment) as engine:
        client = await opened(engine)
        async with asyncio.timeout(HANGS_S):
            while "telemetry_not_sent" not in engine.log.read_text():
                await client.call("list_instruments")
    log = engine.log.read_text()
    assert log.count("telemetry_not_sent") == 1
    assert "Traceback" not in log


@promise("telemetry.missing")
@pytest.mark.parametrize(
    ("is_hidden", "extra", "problem"),
    [
        (True, {}, "The OpenTelemetry SDK is not installed."),
        (False, {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "only http/protobuf is understood"),
        (False, {"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_METRICS_EXPORTER": "none"}, "'zipkin'"),
    ],
    ids=["no package", "grpc", "zipkin"],
)
def test_what_cannot_be_exported_is_one_warning_and_a_line_of_doctor(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_hidden: bool,
    extra: dict[str, str],
    problem: str,
) -> None:
    for name in [name for name in sys.modules if name.startswith("opentelemetry.exporter")]:
        monkeypatch.delitem(sys.modules, name)
    if is_hidden:
        monkeypatch.setitem(sys.modules, "opentelemetry.exporter", None)
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://name:password@127.0.0.1:9", **extra}
    with exporting_engine(tmp_path, environment) as engine:
        status = engine.rpc("tools/call", name="get_status", arguments={})["result"]["telemetry"]
        config = str(tmp_path / "edged.yaml")
        doctor = edged("doctor", "--json", "--config", config, environ=NO_PROFILES)
    assert status["is_on"] is False
    assert problem in status["problem"]
    [line] = [one for one in json.loads(doctor.stdout)["checks"] if one["check"] == "telemetry"]
    assert line["verdict"] == "WARN"
    assert problem in json.dumps(line)
    log = engine.log.read_text()
    assert log.count("telemetry_missing") + log.count("telemetry_not_understood") == 1
    assert "password" not in log + json.dumps(status)
