"""A call that is asked for again and again answers what one answers that was never asked before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.bench.engine import Engine, running_engine
from tests.bench.mcp_client import McpClient

TOOLS = ("list_instruments", "get_status", "list_profiles", "get_capabilities")
ROUNDS = 40
VOLATILE = ("heard_ms",)
"""A heartbeat may ask in between."""
LASTING = (
    "instruments_by_state",
    "troubled_lines",
    "waiting_calls",
    "sweeps",
    "lockouts",
    "leases",
)
"""Of get_status; the rest changes with each call."""
SET = {"channel": 1, "voltage": 1.0}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(tmp_path_factory.mktemp("repeated")) as running:
        yield running


def lock(engine: Engine) -> None:
    engine.rpc("lockout.set", instrument_id="psu1", reason="hands inside", by="anna")


def unlock(engine: Engine) -> None:
    if engine.rpc("lockout.list")["lockouts"]:
        engine.rpc("lockout.clear", instrument_id="psu1")


def reserve(engine: Engine) -> None:
    engine.tool("bench__reserve", instruments=["dmm1"], purpose="a test", minutes=1)


def give_back(engine: Engine) -> None:
    for lease in engine.rpc("leases.list")["leases"]:
        engine.rpc("leases.break", lease_id=lease["lease_id"], reason="it is over", by="test")


def write(engine: Engine) -> None:
    engine.tool("execute_command", instrument_id="psu1", command_name="set_voltage", parameters=SET)


def ask(engine: Engine) -> None:
    engine.tool("send_scpi", instrument_id="dmm1", scpi_command="*IDN?")


def stream(engine: Engine) -> None:
    engine.tool(
        "start_stream", instrument_id="dmm1", command_name="measure_dc_voltage", interval_ms=50,
        count=3,
    )  # fmt: skip
    while engine.tool("get_status")["result"]["streams"]:
        pass  # three points


def stop(engine: Engine) -> None:
    engine.tool("bench__stop_all")


def look(engine: Engine) -> None:
    engine.tool("scan_instruments")


CHANGES = (lock, unlock, reserve, give_back, write, ask, stream, stop, look)


def settled(result: Any) -> Any:
    """Without what changes from moment to moment."""
    if isinstance(result, dict):
        kept = LASTING if "uptime_s" in result else result.keys() - VOLATILE
        return {key: settled(value) for key, value in result.items() if key in kept}
    return [settled(item) for item in result] if isinstance(result, list) else result


async def test_it_is_what_a_new_client_is_told_whatever_changes_in_between(
    engine: Engine,
) -> None:
    seed = random.randrange(1_000_000)
    chance = random.Random(seed)
    client = McpClient(engine.ports["mcp_port"])
    await client.initialize("2025-11-25")
    for number in range(ROUNDS):
        change = chance.choice(CHANGES)
        change(engine)
        for tool in chance.sample(TOOLS, 2):
            again = [(await client.call(tool))["structuredContent"] for _ in range(4)]
            new = McpClient(engine.ports["mcp_port"])
            await new.initialize("2025-11-25")
            told = (await new.call(tool))["structuredContent"]
            await new.send("DELETE")
            same = settled(told)
            assert [settled(one) for one in again] == [same] * 4, (seed, number, change, tool)


async def test_each_of_them_has_a_row_of_its_own(engine: Engine) -> None:
    client = McpClient(engine.ports["mcp_port"])
    client.client_info = {"name": "counted", "version": "1"}
    await client.initialize("2025-11-25")
    for _ in range(9):
        await client.call("list_instruments")
    rows = engine.rpc("audit.list", caller="counted 1", tool="list_instruments")["rows"]
    assert len({row["action_id"] for row in rows}) == len(rows) == 9


async def test_in_a_session_that_has_ended_it_is_refused(
    engine: Engine,
) -> None:
    client = McpClient(engine.ports["mcp_port"])
    await client.initialize("2025-11-25")
    for _ in range(4):
        assert "structuredContent" in await client.call("list_instruments")
    await client.send("DELETE")
    gone = await client.request("tools/call", {"name": "list_instruments", "arguments": {}})
    assert gone.status == 404
