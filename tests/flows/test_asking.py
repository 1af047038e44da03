"""Plain queries over MCP that need no task, on a real engine: cut short, cancelled, recorded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.bench.engine import Engine, running_engine
from tests.bench.mcp_client import Answer, Connection
from tests.bench.waiting import HANGS_S
from tests.wire.test_mcp_at_once import call, request


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(tmp_path_factory.mktemp("asking")) as process:
        yield process


@pytest.fixture(autouse=True)
def well_again(engine: Engine) -> Iterator[None]:
    yield
    engine.sim("clear")


def query(command: str = "measure_voltage", request_id: int = 1) -> bytes:
    arguments = {"instrument_id": "psu1", "command_name": command, "parameters": {"channel": 1}}
    return call("execute_command", request_id, arguments=arguments)


async def session(engine: Engine) -> dict[str, str]:
    opening = {"protocolVersion": "2025-06-18", "capabilities": {}}
    params = {**opening, "clientInfo": {"name": "test", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    async with await Connection.to(engine.ports["mcp_port"]) as connection:
        connection.send(request(body.encode()))
        answer = await connection.read_answer()
    return {"Mcp-Session-Id": answer.headers["mcp-session-id"]}


@asynccontextmanager
async def known(engine: Engine, headers: dict[str, str]) -> AsyncIterator[Connection]:
    """A connection whose head is known, so that the next query needs no task."""
    async with await Connection.to(engine.ports["mcp_port"]) as connection:
        well = 0
        async with asyncio.timeout(HANGS_S):
            # After a hang the line comes back by itself, at its own pace.
            while well < 3:
                connection.send(request(query(), **headers))
                is_error = (await connection.read_answer()).json()["result"]["isError"]
                well = 0 if is_error else well + 1
        yield connection


def last_row(engine: Engine) -> dict[str, Any]:
    rows = engine.rpc("audit.list", limit=1)["rows"]
    row: dict[str, Any] = rows[-1]
    return row


async def heard(engine: Engine, since: int) -> None:
    """Until the instrument has got something."""
    async with asyncio.timeout(HANGS_S):
        while not [
            entry
            for entry in engine.sim("log", instrument="psu1", since=since)["entries"]
            if entry["direction"] == "in"
        ]:
            await asyncio.sleep(0.05)


def error_of(answer: Answer) -> dict[str, Any]:
    result = answer.json()["result"]
    assert result["isError"] is True
    error: dict[str, Any] = result["structuredContent"]["error"]
    return error


async def test_a_query_is_answered_and_leaves_its_row(engine: Engine) -> None:
    headers = await session(engine)
    async with known(engine, headers) as connection:
        connection.send(request(query(), **headers))
        told = (await connection.read_answer()).json()["result"]["structuredContent"]
        assert (told["success"], told["unit"]) == (True, "V")
        row = last_row(engine)
        assert (row["tool"], row["command"], row["outcome"]) == (
            "execute_command",
            "measure_voltage",
            "ok",
        )
        assert row["scpi"] == told["scpi_command"]


async def test_a_stop_cuts_it_short_and_the_line_is_clean_after_it(engine: Engine) -> None:
    headers = await session(engine)
    async with known(engine, headers) as connection:
        since = engine.sim("log", limit=1)["last"]
        engine.sim("fault", instrument="psu1", kind="timeout", count=1)
        connection.send(request(query(), **headers))
        await heard(engine, since)
        done = await asyncio.to_thread(engine.tool, "rigol_dp832__output_off", channel=1)
        assert done["is_error"] is False, done
        told = error_of(await connection.read_answer())
        assert "measure_voltage was ended by output_off" in told["message"]
        assert told["sent"] == [":MEAS:VOLT? CH1"]
        connection.send(request(query(), **headers))
        assert (await connection.read_answer()).json()["result"]["isError"] is False


async def test_a_cancelled_one_frees_the_line_and_is_recorded(engine: Engine) -> None:
    headers = await session(engine)
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    async with (
        known(engine, headers) as connection,
        await Connection.to(engine.ports["mcp_port"]) as other,
    ):
        since = engine.sim("log", limit=1)["last"]
        engine.sim("fault", instrument="psu1", kind="timeout", count=1)
        connection.send(request(query(), **headers))
        await heard(engine, since)
        other.send(request(json.dumps(note).encode(), **headers))
        assert (await other.read_answer()).status == 202
        assert (await connection.read_answer()).status == 202
        row = last_row(engine)
        assert (row["command"], row["code"]) == ("measure_voltage", "cancelled")
        connection.send(request(query(), **headers))
        assert (await connection.read_answer()).json()["result"]["isError"] is False
