"""Each tool by each surface, each RPC method and each verb leaves its row, the same row."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from edged.cli.main import VERBS
from edged.operations.table import static_tools
from edged.surfaces.rpc.methods import METHOD_TABLE
from tests.bench import command_line
from tests.bench.engine import Engine, running_engine
from tests.bench.mcp_client import McpClient
from tests.promises import promise

EDGED = (sys.executable, "-m", "edged")
# What works without an engine, or is one.
BY_ITSELF = {"engine", "supervisor", "relay", "sim", "config", "version", "expose", "profile"} | {
    "dev-issuer",
    "connect",
    "probe",
}
OF_THE_CALL = {"seq", "time_ms", "action_id", "parent_id", "duration_ms", "prev", "hash"}
OF_THE_TRANSPORT = {"route", "session", "remote", "subject", "client"}
TOOL_OF = {
    "tools/call": "get_status",
    "status": "get_status",
    "instruments": "list_instruments",
    "scan": "scan_instruments",
    "stop": "bench__stop_all",
    "leases.reserve": "bench__reserve",
    "leases.renew": "bench__renew",
    "leases.release": "bench__release",
}
RUN_ID = re.compile(r"(sweep|mcp|seq)-[\w-]+")
CALLS: dict[str, dict[str, Any]] = {
    "get_capabilities": {"instrument_id": "psu1"},
    "execute_command": {
        "instrument_id": "psu1",
        "command_name": "set_voltage",
        "parameters": {"channel": 1, "voltage": 1},
    },
    "execute_sequence": {
        "instrument_id": "psu1",
        "sequence_name": "voltage_point",
        "parameters": {"channel": 1, "voltage": 1, "current": 0.1},
    },
    "send_scpi": {"instrument_id": "psu1", "scpi_command": "*IDN?"},
    "start_sweep": {
        "instrument_id": "psu1",
        "command_name": "set_voltage",
        "parameters": {"channel": 2},
        "target_value": 0.2,
        "sweep_rate": 10,
    },
    "get_sweep_status": {"sweep_id": "sweep-none"},
    "stop_sweep": {"sweep_id": "sweep-none"},
    "start_stream": {
        "instrument_id": "psu1",
        "command_name": "measure_voltage",
        "parameters": {"channel": 1},
        "interval_ms": 50,
        "duration_ms": 60,
    },
    "stop_stream": {"stream_id": "mcp-none"},
    "fetch_waveform": {"stream_id": "mcp-none", "point_index": 0},
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(tmp_path_factory.mktemp("rows")) as running:
        yield running


def newest(engine: Engine) -> int:
    rows = engine.rpc("audit.list", limit=1)["rows"]
    return int(rows[-1]["seq"]) if rows else 0


def rows_of(engine: Engine, after: int, tool: str) -> list[dict[str, Any]]:
    rows = engine.rpc("audit.list", after=after, tool=tool, limit=1000)["rows"]
    return [row for row in rows if not row["parent_id"] and row["on_behalf_of"] == ""]


def without_transport(rows: list[dict[str, Any]]) -> Any:
    kept = [
        {name: row[name] for name in row.keys() - OF_THE_CALL - OF_THE_TRANSPORT} for row in rows
    ]
    return json.loads(RUN_ID.sub("ID", json.dumps(kept)))


@promise("audit.same-row-by-every-surface")
@pytest.mark.parametrize("name", [tool.name for tool in static_tools()])
async def test_a_tool_leaves_the_same_rows_by_mcp_and_by_rpc(engine: Engine, name: str) -> None:
    arguments = CALLS.get(name, {})
    mcp = McpClient(engine.ports["mcp_port"])
    before = newest(engine)
    await mcp.call(name, arguments)
    while name == "start_sweep" and engine.tool("get_status")["result"]["sweeps"]:
        pass  # one sweep a parameter: the second would be refused
    by_mcp = rows_of(engine, before, name)
    before = newest(engine)
    engine.tool(name, **arguments)
    by_rpc = rows_of(engine, before, name)
    assert by_mcp, f"{name} left no row"
    assert {row["route"] for row in by_mcp} == {"direct"}
    assert {row["route"] for row in by_rpc} == {"rpc"}
    assert without_transport(by_mcp) == without_transport(by_rpc)


@promise("capability.shared")
async def test_experience_adds_up_over_surfaces(engine: Engine) -> None:
    def known() -> dict[str, Any]:
        (entry,) = engine.tool("get_capabilities", instrument_id="dmm1")["result"]
        commands = {command["name"]: command for command in entry["commands"]}
        told: dict[str, Any] = commands["get_dc_voltage_nplc"].get("experience", {"calls": 0})
        return told

    before = known()["calls"]
    asked = {"instrument_id": "dmm1", "command_name": "get_dc_voltage_nplc"}
    await McpClient(engine.ports["mcp_port"]).call("execute_command", asked)
    engine.tool("execute_command", **asked)
    after = known()
    assert after["calls"] == before + 2
    assert after["latency_ms"]["p95"] >= after["latency_ms"]["p50"] > 0
    assert (after["failures"], after["is_undefined"]) == (0, False)


@promise("audit.row-of-every-attempt")
@pytest.mark.parametrize("method", sorted(METHOD_TABLE))
def test_every_method_of_the_rpc_interface_leaves_a_row(engine: Engine, method: str) -> None:
    params: dict[str, Any] = {"name": "get_status"} if method == "tools/call" else {}
    tool = TOOL_OF.get(method, method)
    before = newest(engine)
    # What some of them need is not given: a refusal is a row all the same.
    with contextlib.suppress(AssertionError):
        engine.rpc(method, **params)
    assert len(rows_of(engine, before, tool)) >= 1


@promise("audit.row-of-every-attempt")
def test_every_verb_that_asks_an_engine_leaves_a_row(engine: Engine) -> None:
    words = {
        "bench": ["show"],
        "call": ["list_profiles"],
        "scpi": ["psu1", "*IDN?"],
        "stream": ["list"],
        "runs": ["list"],
        "audit": ["verify"],
        "lockout": [],
        "trace": ["psu1"],
        "completion": ["tools"],
        "restart": ["--when-idle"],
        "sweep": ["status", "sweep-none"],
        "sequence": ["list"],
        "experiment": ["list"],
        "lease": ["list"],
        "deny": ["ask-none"],
    }
    for verb in VERBS.keys() - BY_ITSELF:
        before = newest(engine)
        done = command_line.edged(verb, *words.get(verb, ()), "--state-dir", str(engine.state_dir))
        assert "Traceback" not in done.stderr, done.stderr
        rows = engine.rpc("audit.list", after=before, limit=100)["rows"]
        own = [row for row in rows if row["tool"] != "audit.list"]
        assert own, f"edged {verb} left no row: {done.stderr}"
