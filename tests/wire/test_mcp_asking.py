"""Calls that wait for one answer of an instrument without a task: ended, watched and in order."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from edged.http.connection import MAX_HELD_BYTES
from tests.bench.mcp_client import Connection, parse_events
from tests.bench.mcp_endpoint import Endpoint, running_endpoint
from tests.bench.waiting import HANGS_S
from tests.wire.test_mcp_at_once import add_tools, call, message, request

REVISION = "2025-06-18"


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with running_endpoint() as endpoint:
        add_tools(endpoint)
        yield endpoint


async def begin(
    endpoint: Endpoint, connection: Connection, name: str = "asked_slowly", **headers: str
) -> None:
    """Have a call under way that came with a known head."""
    for _ in range(2):
        # The same head, since the names are made as long as each other.
        connection.send(request(call("asked".ljust(len(name), "!"), 1), **headers))
        await connection.read_answer()
    connection.send(request(call(name, 1), **headers))
    assert await endpoint.tools.started.get() == name


async def settled(endpoint: Endpoint, name: str) -> None:
    async with asyncio.timeout(HANGS_S):
        assert await endpoint.tools.ended.get() == name


async def test_an_id_in_flight_is_refused_and_free_again_with_the_answer(
    endpoint: Endpoint,
) -> None:
    client = await endpoint.session(REVISION)
    headers = {"Mcp-Session-Id": client.session_id}
    async with (
        await Connection.to(endpoint.port) as waiting,
        await Connection.to(endpoint.port) as other,
    ):
        await begin(endpoint, waiting, **headers)
        other.send(request(call("asked", 1), **headers))
        assert (await other.read_answer()).json()["error"]["code"] == -32600
        endpoint.tools.gate.set()
        answer = (await waiting.read_answer()).json()
        assert answer["result"]["structuredContent"] == {"waited": True}
        other.send(request(call("asked", 1), **headers))
        assert "result" in (await other.read_answer()).json()


async def test_a_session_cancels_it(endpoint: Endpoint) -> None:
    client = await endpoint.session(REVISION)
    headers = {"Mcp-Session-Id": client.session_id}
    note = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'
    async with (
        await Connection.to(endpoint.port) as waiting,
        await Connection.to(endpoint.port) as other,
    ):
        await begin(endpoint, waiting, **headers)
        other.send(request(note, **headers))
        assert (await other.read_answer()).status == 202
        answer = await waiting.read_answer()
        assert (answer.status, answer.body) == (202, b"")
        await settled(endpoint, "asked_slowly")
        waiting.send(request(call("asked", 1), **headers))
        assert (await waiting.read_answer()).status == 200
    assert endpoint.tools.cancelled == ["asked_slowly"]


async def test_the_end_of_its_session_ends_it(endpoint: Endpoint) -> None:
    client = await endpoint.session(REVISION)
    async with await Connection.to(endpoint.port) as waiting:
        await begin(endpoint, waiting, **{"Mcp-Session-Id": client.session_id})
        # What came meanwhile belongs to a session that is gone.
        waiting.send(request(call("asked", 2), **{"Mcp-Session-Id": client.session_id}))
        await client.send("DELETE")
        assert [(await waiting.read_answer()).status for _ in range(2)] == [202, 404]


@pytest.mark.parametrize(
    ("name", "version", "cancelled"),
    [
        ("asked_slowly", REVISION, []),
        ("asked_and_watched", REVISION, ["asked_and_watched"]),
    ],
)
async def test_a_client_that_goes_ends_only_what_is_tied_to_it(
    name: str, version: str, cancelled: list[str]
) -> None:
    # One that is not tied to its client is seen to be alone only where something is written.
    async with running_endpoint(keep_alive_s=0.05) as endpoint:
        add_tools(endpoint)
        async with await Connection.to(endpoint.port) as connection:
            await begin(endpoint, connection, name, **{"MCP-Protocol-Version": version})
            connection.abort()
            if not cancelled:
                while endpoint.surface.connection_count:
                    await asyncio.sleep(0.005)
                endpoint.tools.gate.set()
            await settled(endpoint, name)
        assert endpoint.tools.cancelled == cancelled


async def test_a_half_closed_client_gets_its_answer_and_then_the_end(endpoint: Endpoint) -> None:
    async with await Connection.to(endpoint.port) as connection:
        await begin(endpoint, connection)
        connection.half_close()
        await asyncio.sleep(0.02)
        endpoint.tools.gate.set()
        assert "result" in (await connection.read_answer()).json()
        assert await connection.read_rest() == b""


async def test_what_comes_meanwhile_is_served_after_it_and_in_its_order(
    endpoint: Endpoint,
) -> None:
    told, asked = request(call("told", 2)), request(call("asked", 3))
    async with await Connection.to(endpoint.port) as connection:
        await begin(endpoint, connection)
        connection.send(told + asked[:50])
        await asyncio.sleep(0.02)
        connection.send(asked[50:] + told)
        endpoint.tools.gate.set()
        ids = [(await connection.read_answer()).json()["id"] for _ in range(4)]
        assert ids == [1, 2, 3, 2]


async def test_no_more_is_read_meanwhile_than_has_room(endpoint: Endpoint) -> None:
    ping = request(message("ping"))
    count = 400_000 // len(ping)
    async with await Connection.to(endpoint.port) as connection:
        await begin(endpoint, connection)
        (served,) = endpoint.surface._listener._server.connections
        connection.send(ping * count)
        while served.transport.is_reading():
            await asyncio.sleep(0.005)
        assert len(served._unparsed) <= MAX_HELD_BYTES + 256 * 1024
        endpoint.tools.gate.set()
        for _ in range(1 + count):
            assert (await connection.read_answer()).status == 200


async def test_a_long_silence_is_broken_by_signs_of_life_and_the_answer_is_an_event() -> None:
    async with running_endpoint(keep_alive_s=0.05) as endpoint:
        add_tools(endpoint)
        client = await endpoint.session("2025-11-25")
        headers = {"Mcp-Session-Id": client.session_id, "MCP-Protocol-Version": "2025-11-25"}
        async with await Connection.to(endpoint.port) as connection:
            await begin(endpoint, connection, **headers)
            status, head = await connection.read_head()
            assert (status, head["content-type"]) == (200, "text/event-stream")
            body = await connection.read_chunk()
            assert parse_events(body)[0].id
            while not body.rstrip().endswith(b":"):
                body += await connection.read_chunk()
            endpoint.tools.gate.set()
            while chunk := await connection.read_chunk():
                body += chunk
            answers = [event.json() for event in parse_events(body) if event.data]
            assert [answer["id"] for answer in answers] == [1]
            connection.send(request(call("asked", 2), **headers))
            assert (await connection.read_answer()).json()["id"] == 2


async def test_the_end_of_the_daemon_ends_it_with_a_word(endpoint: Endpoint) -> None:
    async with await Connection.to(endpoint.port) as connection:
        await begin(endpoint, connection)
        stopping = asyncio.create_task(endpoint.surface.stop(0.01))
        answer = (await connection.read_answer()).json()
        assert "stopping" in answer["error"]["message"]
        await stopping
    assert endpoint.tools.cancelled == ["asked_slowly"]


async def test_the_end_of_the_daemon_waits_for_it_a_moment(endpoint: Endpoint) -> None:
    async with await Connection.to(endpoint.port) as connection:
        await begin(endpoint, connection)
        stopping = asyncio.create_task(endpoint.surface.stop(20))
        await asyncio.sleep(0.02)
        endpoint.tools.gate.set()
        assert "result" in (await connection.read_answer()).json()
        await stopping


async def test_a_known_request_that_asks_takes_few_steps(endpoint: Endpoint) -> None:
    """Counts Python's own function calls, as its neighbour does; the long way takes 480."""
    data, steps = request(call("asked")), 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal steps
        steps += event == "call"

    async with await Connection.to(endpoint.port) as connection:
        for _ in range(3):
            connection.send(data)
            await connection.read_answer()
        connection.send(data)
        sys.setprofile(count)
        try:
            answer = await connection.read_answer()
        finally:
            sys.setprofile(None)
        assert answer.status == 200
    assert 20 < steps < 330
