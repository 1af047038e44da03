"""Stops, safe commands and lockouts get through, whatever stands in the way of all else."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.bench.engine import Engine, running_engine
from tests.bench.mcp_client import McpClient
from tests.bench.waiting import HANGS_S
from tests.promises import promise

BENCH = """\
format: 1
psu1:
  confirm: [output_on, "set_voltage.voltage > 24"]
  confirm_ttl_s: 30
  deny: [ovp_off]
  raw_scpi: queries
"""
OBSTACLES = ("lease", "question", "lockout", "sweep")
COMBINATIONS = [
    combination
    for count in range(len(OBSTACLES) + 1)
    for combination in itertools.combinations(OBSTACLES, count)
]
ON = {"instrument_id": "psu1", "command_name": "output_on", "parameters": {"channel": 1}}
OFF = {**ON, "command_name": "output_off"}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    place = tmp_path_factory.mktemp("stops")
    (place / "bench.yaml").write_text(BENCH)
    with running_engine(place) as running:
        yield running


async def client_of(engine: Engine) -> McpClient:
    client = McpClient(engine.ports["mcp_port"])
    await client.initialize("2025-11-25")
    return client


async def told(client: McpClient, tool: str, /, **arguments: Any) -> dict[str, Any]:
    result = await client.call(tool, arguments)
    assert not result.get("isError"), result
    data: dict[str, Any] = result["structuredContent"]
    return data


@contextlib.asynccontextmanager
async def standing(engine: Engine, obstacles: tuple[str, ...]) -> AsyncIterator[McpClient]:
    """These obstacles, put up by one client; another one is given."""
    holder, other = await client_of(engine), await client_of(engine)
    waiting: asyncio.Task[Any] | None = None
    if "sweep" in obstacles:
        await told(
            holder,
            "start_sweep",
            instrument_id="psu1",
            command_name="set_voltage",
            parameters={"channel": 1},
            target_value=20,
            sweep_rate=0.05,
        )
    if "lease" in obstacles:
        await told(holder, "bench__reserve", instruments=["psu1"], purpose="burn-in")
    if "question" in obstacles:
        waiting = asyncio.create_task(holder.call("execute_command", ON))
        async with asyncio.timeout(HANGS_S):
            while not (await told(other, "get_status"))["approvals"]:
                await asyncio.sleep(0.05)
    if "lockout" in obstacles:
        await lock(engine)
    try:
        yield other
    finally:
        await holder.call("bench__stop_all")
        if waiting is not None:
            assert (await waiting).get("isError")
        for lease in engine.rpc("leases.list")["leases"]:
            engine.rpc("leases.break", lease_id=lease["lease_id"], reason="over", by="test")
        if engine.rpc("lockout.list")["lockouts"]:
            engine.rpc("lockout.clear", instrument_id="psu1")


async def lock(engine: Engine) -> dict[str, Any]:
    locked: dict[str, Any] = await asyncio.to_thread(
        engine.rpc, "lockout.set", instrument_id="psu1", reason="hands inside", by="anna"
    )
    return locked


async def stopped_all(client: McpClient) -> None:
    """Stop until it is confirmed: within its second a busy machine may not hear every unit."""
    async with asyncio.timeout(HANGS_S):
        while not (await told(client, "bench__stop_all"))["is_confirmed"]:
            await asyncio.sleep(0.05)


@promise("lease.stops-pass")
@promise("approval.ends")
@pytest.mark.parametrize("obstacles", COMBINATIONS, ids="+".join)
async def test_whatever_stands_in_the_way_stops_pass(
    engine: Engine, obstacles: tuple[str, ...]
) -> None:
    async with standing(engine, obstacles) as other:
        assert (await told(other, "execute_command", **OFF))["success"] is True
    async with standing(engine, obstacles) as other:
        await stopped_all(other)
        status = await told(other, "get_status")
        assert not status["approvals"]
        assert not [one for one in status["sweeps"] if one["status"] == "running"]
    async with standing(engine, obstacles) as other:
        locked = await lock(engine)
        assert locked["reason"] == "hands inside"
        refused = await other.call("execute_command", ON)
        assert "hands inside" in json.dumps(refused)
        status = await told(other, "get_status")
        assert not status["approvals"]
        assert not [one for one in status["sweeps"] if one["status"] == "running"]
        assert (await told(other, "execute_command", **OFF))["success"] is True
