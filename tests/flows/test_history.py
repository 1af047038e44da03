"""bench__history as an agent meets it: a real engine on the simulated bench, over MCP."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import engine_process
from tests.bench.mcp_client import McpClient
from tests.bench.waiting import HANGS_S
from tests.promises import promise

SET = {"instrument_id": "psu1", "command_name": "set_voltage"}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(tmp_path_factory.mktemp("history")) as running:
        yield running


async def client_of(engine: Engine, name: str, version: str) -> McpClient:
    client = McpClient(engine.ports["mcp_port"])
    client.client_info = {"name": name, "version": version}
    await client.initialize("2025-06-18")
    return client


async def told(client: McpClient, tool: str, **arguments: Any) -> Any:
    result = await client.call(tool, arguments)
    assert not result.get("isError"), result
    return result["structuredContent"]


async def set_voltage(client: McpClient, voltage: float) -> Any:
    parameters = {"channel": 1, "voltage": voltage}
    return await client.call("execute_command", {**SET, "parameters": parameters})


@promise("bench.history")
@promise("callers.named")
async def test_who_changed_the_voltage_to_what_is_one_call(engine: Engine) -> None:
    one = await client_of(engine, "claude-code", "2.1")
    other = await client_of(engine, "notebook", "7\x1b[31m")
    assert not (await set_voltage(one, 2.5)).get("isError")
    assert not (await set_voltage(other, 3.5)).get("isError")
    assert "over the maximum" in (await set_voltage(other, 9_999))["message"]
    answer = await told(one, "bench__history", **SET)
    refused, second, first = answer["rows"][:3]
    assert first["who"] == "claude-code 2.1 at 127.0.0.1"
    assert second["who"] == "notebook 7 [31m at 127.0.0.1"
    assert first["parameters"] == {"channel": 1, "voltage": 2.5}
    assert second["parameters"]["voltage"] == 3.5
    assert [row["outcome"] for row in (refused, second, first)] == ["refused", "ok", "ok"]
    assert "9999" in refused["error"]
    assert first["error"] is None
    assert first["scpi"].startswith(":SOUR1:VOLT 2.5")
    assert first["command"] == "set_voltage"
    assert first["time_ms"] <= second["time_ms"] <= refused["time_ms"]
    only = await told(one, "bench__history", **SET, outcome="refused", limit=1)
    assert [row["outcome"] for row in only["rows"]] == ["refused"]


@promise("callers.named")
async def test_an_instrument_says_who_used_it_last(engine: Engine) -> None:
    client = await client_of(engine, "claude-code", "2.1")
    await set_voltage(client, 1.5)
    found = (await told(client, "list_instruments"))["instruments"]
    used = {row["alias"]: row["used_by"] for row in found}
    assert used["psu1"] == "claude-code 2.1 at 127.0.0.1"


@promise("callers.conflict-names-who")
async def test_a_sweep_in_the_way_is_told_with_who_started_it(engine: Engine) -> None:
    one = await client_of(engine, "claude-code", "2.1")
    other = await client_of(engine, "notebook", "7")
    asked = {
        **SET,
        "parameters": {"channel": 2},
        "target_value": 5,
        "sweep_rate": 0.1,
        "measure": [{"instrument_id": "dmm1", "command_name": "measure_dc_voltage"}],
    }
    sweep_id = (await told(one, "start_sweep", **asked))["sweep_id"]
    refused = await other.call(
        "execute_command", {**SET, "parameters": {"channel": 2, "voltage": 1}}
    )
    assert refused["isError"]
    said = json.dumps(refused)
    assert f"is held by {sweep_id}, started 0 s ago by claude-code 2.1 at 127.0.0.1" in said
    (running,) = (await told(other, "get_status"))["sweeps"]
    assert running["who"] == "claude-code 2.1 at 127.0.0.1"
    async with asyncio.timeout(HANGS_S):
        while not (await told(one, "get_sweep_status", sweep_id=sweep_id))["steps"] > 3:
            await asyncio.sleep(0.05)
    await told(one, "stop_sweep", sweep_id=sweep_id)
    stopped = await told(one, "get_sweep_status", sweep_id=sweep_id)
    runs = engine.rpc("runs.list")["runs"]
    (seen,) = [run for run in runs if run["run_id"] == sweep_id]
    assert seen["who"] == running["who"]
    rows = (await told(other, "bench__history", instrument_id="psu1"))["rows"]
    steps = [row for row in rows if row.get("run_id") == sweep_id]
    # Each thing that it does is told once, as it was done last.
    assert len(steps) == len({row["command"] for row in steps})
    (step,) = [row for row in steps if row["command"] == "set_voltage"]
    assert step["parameters"] == {"channel": 2, "voltage": stopped["set_value"]}
    assert step["who"] == running["who"]
    assert step["stands_for"] >= 4
    assert not any("stands_for" in row for row in rows if "run_id" not in row)


@promise("bench.history")
async def test_an_answer_is_short_unless_more_is_asked_for(engine: Engine) -> None:
    client = await client_of(engine, "x" * 500, "1")
    for _ in range(60):
        await set_voltage(client, 1.25)
    short = await told(client, "bench__history")
    assert len(json.dumps(short, ensure_ascii=False).encode()) <= 8 * 1024 * 1.1
    assert short["rows"]
    assert short["more"] is True
    longer = await told(client, "bench__history", limit=500)
    assert len(longer["rows"]) > len(short["rows"])
    older = await told(client, "bench__history", before=short["next_before"])
    place = longer["rows"].index(short["rows"][-1])
    assert older["rows"][0] == longer["rows"][place + 1]


@promise("callers.named")
def test_the_cli_says_which_of_its_verbs_it_was(engine: Engine) -> None:
    state = engine.state_dir
    subprocess.run(
        [sys.executable, "-m", "edged", "scpi", "psu1", "*IDN?", "--state-dir", str(state)],
        check=True,
        capture_output=True,
    )
    rows = engine.rpc("audit.list", tool="send_scpi", caller="edged scpi")["rows"]
    assert rows[-1]["client"] == "edged scpi"


@promise("bench.without-instruments")
async def test_last_nights_history_is_there_while_the_bench_is_off(tmp_path: Path) -> None:
    with engine_process(tmp_path) as engine:
        await set_voltage(await client_of(engine, "claude-code", "2.1"), 2.0)
        engine.stop(10)
    with engine_process(tmp_path, sim=False) as engine:
        client = await client_of(engine, "claude-code", "2.2")
        listed = (await client.request("tools/list")).messages()[-1]["result"]["tools"]
        assert not [tool for tool in listed if tool["name"].startswith("bench__")]
        status = await told(client, "get_status")
        assert status["instrument_count"] == 0
        assert "bench__history" in status["unlisted_tools"]
        rows = (await told(client, "bench__history", command_name="set_voltage"))["rows"]
        assert [row["who"] for row in rows] == ["claude-code 2.1 at 127.0.0.1"]
