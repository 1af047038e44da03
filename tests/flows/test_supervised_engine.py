"""A supervisor and its engine, two processes: what the one does to the other by watching it."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from tests.bench.mcp_client import McpClient
from tests.bench.sim_bench import running_bench
from tests.bench.supervised import Supervised, supervised
from tests.bench.waiting import HANGS_S
from tests.promises import promise

IDLE_S = 4.0
"""Some looks of the supervisor, which takes one each second."""

STREAM = {
    "instrument_id": "dmm1",
    "command_name": "measure_dc_voltage",
    "interval_ms": 100,
    "duration_ms": 60_000,
}


@promise("record.not-by-time")
@pytest.mark.parametrize("config", [{}, {"INBOUND_AUTH_TOKEN": "s3cret"}], ids=["open", "token"])
async def test_an_engine_that_nobody_asks_anything_leaves_no_row_whoever_watches_it(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    with (
        running_bench("--instruments", "psu1") as bench,
        supervised(tmp_path, bench, config=config) as one,
    ):
        assert await rows_of(one) == ["/events", "list_profiles"]


async def rows_of(one: Supervised) -> list[str]:
    """What has rows while somebody follows the record, asks one thing, and is idle then."""
    engine, rows = one.engine(), list[str]()
    headers = {"Authorization": f"Bearer {one.token}"}
    url = engine.rpc_url.replace("/rpc", "/events?topics=audit")
    async with aiohttp.ClientSession() as session, session.ws_connect(url, headers=headers) as tail:
        while "/events" not in rows:
            rows = [(await tail.receive_json())["params"]["data"]["tool"]]
        await asyncio.to_thread(engine.tool, "list_profiles")
        try:
            async with asyncio.timeout(IDLE_S):
                while True:
                    rows.append((await tail.receive_json())["params"]["data"]["tool"])
        except TimeoutError:
            return rows


@promise("supervisor.silent-at-once")
@promise("proxy.long-calls-last")
async def test_a_stopped_engine_is_answered_for_before_it_is_given_up_and_goes_on_where_it_was(
    tmp_path: Path,
) -> None:
    with running_bench("--instruments", "dmm1") as bench, supervised(tmp_path, bench) as one:
        # The engine listens at 127.0.0.1 itself; elsewhere the supervisor does.
        client = McpClient(one.facts()["mcp_port"], host="127.0.0.2")
        await until_served(client)
        asked = time.monotonic()
        long = asyncio.create_task(client.call("start_stream", STREAM))
        # The supervisor has looked since, and the stream runs.
        while time.monotonic() - asked < 2 or not (running := await streams(one)):
            await asyncio.sleep(0.05)
        engine = psutil.Process(one.facts()["pid"])
        engine.suspend()
        first, second = await client.request("ping"), await client.request("ping")
        engine.resume()
        assert (first.status, second.status) == (503, 503)
        assert "may still be carried out" in first.body.decode()
        await until_served(client)
        assert one.facts()["pid"] == engine.pid
        await asyncio.to_thread(one.engine().tool, "stop_stream", stream_id=running[0])
        assert json.loads((await long)["content"][0]["text"])["count"] > 0


@promise("mcp.port-freed")
async def test_a_port_that_becomes_free_is_served_by_engine_and_supervisor(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, running_bench() as bench:
        port = taken.getsockname()[1]
        config = {"MCP_PORT": port, "RESCAN_INTERVAL_SEC": 1}
        with supervised(tmp_path, bench, config=config) as one:
            assert one.facts()["mcp_port"] is None
            taken.close()
            for host in ("127.0.0.1", "127.0.0.2"):
                await until_served(McpClient(port, host=host))
            assert one.facts()["mcp_port"] == port


async def streams(one: Supervised) -> list[str]:
    told = await asyncio.to_thread(one.engine().tool, "get_status")
    return [stream["stream_id"] for stream in told["result"]["streams"]]


async def until_served(client: McpClient) -> None:
    async with asyncio.timeout(HANGS_S):
        while not await is_served(client):
            await asyncio.sleep(0.05)


async def is_served(client: McpClient) -> bool:
    try:
        return (await client.request("ping")).status == 200
    except OSError:
        return False  # nobody listens yet
