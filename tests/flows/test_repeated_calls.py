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
VOLATILE = ("heard_ms", "execution_time_ms")
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
QUERIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("rigol_dp832__get_voltage", {"channel": 1}),
    ("rigol_dp832__get_voltage", {"channel": 1.0}),
    ("rigol_dp832__get_voltage", {"channel": True}),
    ("rigol_dp832__get_voltage", {"channel": 2}),
    ("execute_command", {"instrument_id": "psu1", "command_name": "get_applied",
                         "parameters": {"channel": 1}}),
    ("execute_command", {"instrument_id": "psu1", "command_name": "get_applied",
                         "parameters": {"channel": 1}, "dry_run": True}),
    ("execute_command", {"instrument_id": "nowhere", "command_name": "get_applied",
                         "parameters": {"channel": 1}}),
)  # fmt: skip
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
    values = {**SET, "voltage": random.randrange(100) / 10}
    engine.tool(
        "execute_command", instrument_id="psu1", command_name="set_voltage", parameters=values
    )


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


async def test_a_query_is_answered_as_a_new_client_s_is(engine: Engine) -> None:
    seed = random.randrange(1_000_000)
    chance = random.Random(seed)
    client = McpClient(engine.ports["mcp_port"])
    await client.initialize("2025-11-25")
    for number in range(ROUNDS // 2):
        change = chance.choice(CHANGES)
        change(engine)
        for tool, arguments in chance.sample(QUERIES, 3):
            again = [(await client.call(tool, arguments)) for _ in range(4)]
            new = McpClient(engine.ports["mcp_port"])
            await new.initialize("2025-11-25")
            told = told_of(await new.call(tool, arguments))
            await new.send("DELETE")
            assert [told_of(one) for one in again] == [told] * 4, (seed, number, tool, arguments)


def told_of(result: dict[str, Any]) -> Any:
    """What a call came to; its text says the same once more, with the time that it took."""
    return settled(result.get("structuredContent", result)), result.get("isError")


async def test_each_query_has_a_row_of_its_own_before_its_answer(engine: Engine) -> None:
    client = McpClient(engine.ports["mcp_port"])
    client.client_info = {"name": "asking", "version": "1"}
    await client.initialize("2025-11-25")
    seen: list[str] = []
    for number in range(1, 9):
        await client.call(*QUERIES[0])
        rows = engine.rpc("audit.list", caller="asking 1")["rows"]
        assert len(rows) == number
        seen = [row["action_id"] for row in rows]
    assert len(set(seen)) == 8
    first = {"tool": "rigol_dp832__get_voltage", "command": "get_voltage", "outcome": "ok"}
    assert all(row.items() >= first.items() for row in rows)
    assert {row["scpi"] for row in rows} == {":SOUR1:VOLT?"}


async def test_a_query_that_asks_for_progress_gets_a_stream_as_ever(engine: Engine) -> None:
    client = McpClient(engine.ports["mcp_port"])
    await client.initialize("2025-11-25")
    tool, arguments = QUERIES[0]
    for _ in range(3):
        await client.call(tool, arguments)
    params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": 7}}
    answer = await client.request("tools/call", params)
    assert answer.messages()[-1]["result"]["isError"] is False


async def test_a_query_of_a_session_that_has_ended_is_refused_and_sends_nothing(
    engine: Engine,
) -> None:
    client = McpClient(engine.ports["mcp_port"])
    await client.initialize("2025-11-25")
    for _ in range(4):
        await client.call(*QUERIES[0])
    await client.send("DELETE")
    since = engine.sim("log", instrument="psu1", limit=1)["last"]
    gone = await client.request("tools/call", {"name": QUERIES[0][0], "arguments": {"channel": 1}})
    assert gone.status == 404
    asked = engine.sim("log", instrument="psu1", since=since)["entries"]
    assert [entry for entry in asked if "SOUR1" in str(entry)] == []


async def test_a_body_that_is_no_strict_json_is_refused_as_ever(engine: Engine) -> None:
    client = McpClient(engine.ports["mcp_port"])
    await client.initialize("2025-11-25")
    for _ in range(4):
        await client.call(*QUERIES[0])
    twice = (
        b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":'
        b'"rigol_dp832__get_voltage","arguments":{"channel":1,"channel":1}}}'
    )
    assert (await client.post(twice)).status == 400
