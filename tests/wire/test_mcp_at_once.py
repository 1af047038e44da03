"""Requests with a known head that wait for nothing: answered by a shorter way, and no otherwise."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from edged.actions.tool import ToolCall
from edged.errors import ErrorCode, Failed
from edged.supervisor.peer_header import PEER_HEADER, peer_reader, peer_value
from tests.bench.driven_clock import DrivenClock
from tests.bench.mcp_client import Answer, Connection
from tests.bench.mcp_endpoint import Endpoint, running_endpoint


async def _told(call: ToolCall) -> Any:
    return {"told": dict(call.arguments), "session": bool(call.caller.session_id)}


async def _broken(_: ToolCall) -> Any:
    raise ZeroDivisionError


async def _asked(call: ToolCall) -> Any:
    await asyncio.sleep(0.001)
    return await _told(call)


async def _lost(_: ToolCall) -> Any:
    raise Failed("gone", code=ErrorCode.DISCONNECTED)


def add_tools(endpoint: Endpoint) -> None:
    tools = endpoint.tools
    tools.add("told", _told, at_once=True)
    tools.add("broken", _broken, at_once=True)
    tools.add("asked", _asked)
    tools.add("asked_slowly", tools.wait)
    tools.add("asked_and_watched", tools.wait, cancels_on_disconnect=True)
    for name, behaviour in (("lost", _lost), ("unlisted", _things)):
        tools.add(name, behaviour, output_schema={"required": ["x"]})
    tools.add("written", _told)
    tools.add("refused", _lost, at_once=True)


async def _things(_: ToolCall) -> Any:
    return {"y": 1}


@pytest.fixture
async def at_once() -> AsyncIterator[Endpoint]:
    async with running_endpoint() as endpoint:
        add_tools(endpoint)
        yield endpoint


def request(body: bytes, **headers: str) -> bytes:
    lines = {
        "Host": "127.0.0.1",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        **headers,
        "Content-Length": str(len(body)),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body


def call(name: str, request_id: object = 1, **params: Any) -> bytes:
    params = {"name": name, "arguments": {"a": 1}, **params}
    return message("tools/call", request_id, params)


def message(method: str, request_id: object = 1, params: Any = None) -> bytes:
    return json.dumps(
        {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}}
    ).encode()


BODIES = {
    "a call": call("told"),
    "a call under a text id": call("told", 'a"b'),
    "a call that breaks": call("broken"),
    "a call of a list": call("things"),
    "a call that waits": call("echo"),
    "a call of nothing": call("nothing"),
    "a call without a name": message("tools/call", params={"arguments": {}}),
    "bad arguments": call("told", arguments=[]),
    "a bad token": call("told", _meta={"progressToken": 1.5}),
    "a call that asks": call("asked"),
    "a call that asks, with progress": call("asked", _meta={"progressToken": 1}),
    "a call that asks in vain": call("lost"),
    "a call that asks and gets other things": call("unlisted"),
    "a call that may ask and does not": call("written"),
    "a call that is refused before it asks": call("refused"),
    "a call that asks with bad arguments": call("asked", arguments=[]),
    "ping": message("ping"),
    "a list": message("tools/list"),
    "a bad cursor": message("tools/list", params={"cursor": "x"}),
    "an unknown method": message("tools/frobnicate"),
    "a newer version": message("ping", params={"_meta": {"x": 1}}),
    "a notification": b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
    "a batch": b"[" + call("told") + b"," + message("ping", 2) + b"]",
    "no JSON": b"{",
    "no object": b"1",
    "a bad id": message("ping", [1]),
    "nothing": b"",
}


def plain(answer: Answer) -> tuple[int, dict[str, str], bytes]:
    headers = {name: value for name, value in answer.headers.items() if name != "date"}
    return answer.status, headers, re.sub(rb"[0-9a-f]{12}", b"(id)", answer.body)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("version", ["", "2025-06-18", "2026-07-28"])
async def test_a_known_head_changes_no_answer(at_once: Endpoint, version: str, body: bytes) -> None:
    headers = {"MCP-Protocol-Version": version} if version else {}
    first_of_all = request(message("ping"), **headers, X="y" * max(0, 60 - len(body)))
    async with await Connection.to(at_once.port) as long_way:
        long_way.send(request(body, **headers))
        expected = plain(await long_way.read_answer())
    async with await Connection.to(at_once.port) as short_way:
        # Two of the same: whatever the first teaches, the second meets.
        for data in (first_of_all, request(body, **headers), request(body, **headers)):
            short_way.send(data)
            answer = await short_way.read_answer()
            if answer.headers.get("connection") == "close":
                break
    assert plain(answer) == expected


async def test_a_session_is_known_the_short_way_too(at_once: Endpoint) -> None:
    client = await at_once.session("2025-06-18")
    headers = {"Mcp-Session-Id": client.session_id, "MCP-Protocol-Version": "2025-06-18"}
    async with await Connection.to(at_once.port) as connection:
        for _ in range(3):
            connection.send(request(call("told"), **headers))
            answer = (await connection.read_answer()).json()
            assert answer["result"]["structuredContent"] == {"told": {"a": 1}, "session": True}
        await client.send("DELETE")
        connection.send(request(call("told"), **headers))
        assert (await connection.read_answer()).status == 404


@pytest.mark.parametrize("name", ["told", "asked", "echo"])
async def test_the_peer_that_the_supervisor_names_is_named_with_every_request(name: str) -> None:
    async with running_endpoint(trusted_peer=peer_reader("s")) as mcp:
        add_tools(mcp)
        async with await Connection.to(mcp.port) as connection:
            for _ in range(4):
                connection.send(request(call(name), **{PEER_HEADER: peer_value("s", "10.0.0.7")}))
                assert (await connection.read_answer()).status == 200
        assert [call.caller.remote for call in mcp.tools.calls] == ["10.0.0.7"] * 4


async def test_an_id_that_is_in_flight_is_refused_the_short_way_too(at_once: Endpoint) -> None:
    client = await at_once.session("2025-06-18")
    headers = {"Mcp-Session-Id": client.session_id}
    async with (
        await Connection.to(at_once.port) as waiting,
        await Connection.to(at_once.port) as connection,
    ):
        connection.send(request(call("told"), **headers))
        await connection.read_answer()
        waiting.send(request(call("wait"), **headers))
        await at_once.tools.started.get()
        connection.send(request(call("told"), **headers))
        assert (await connection.read_answer()).json()["error"]["code"] == -32600
        at_once.tools.gate.set()


@pytest.mark.parametrize("size", [1, 7, 60])
async def test_a_request_in_pieces_is_answered_like_a_whole_one(
    at_once: Endpoint, size: int
) -> None:
    whole = request(call("told"))
    async with await Connection.to(at_once.port) as connection:
        connection.send(whole)
        expected = plain(await connection.read_answer())
        for _ in range(2):
            for start in range(0, len(whole), size):
                connection.send(whole[start : start + size])
                await asyncio.sleep(0)
            assert plain(await connection.read_answer()) == expected


async def test_a_body_behind_its_known_head_is_waited_for(at_once: Endpoint) -> None:
    whole = request(call("told"))
    head = whole[: whole.index(b"\r\n\r\n") + 4]
    async with await Connection.to(at_once.port) as connection:
        connection.send(whole)
        expected = plain(await connection.read_answer())
        for _ in range(2):
            connection.send(head)
            await asyncio.sleep(0.02)
            connection.send(whole[len(head) :])
            assert plain(await connection.read_answer()) == expected


async def test_pipelined_requests_are_answered_in_their_order(at_once: Endpoint) -> None:
    waits, told = request(call("echo", 1)), request(call("told", 2))
    async with await Connection.to(at_once.port) as connection:
        for data in (told, waits):
            connection.send(data)
            await connection.read_answer()
        for _ in range(3):
            connection.send(waits + told + told[:40])
            connection.send(told[40:] + waits)
            ids = [(await connection.read_answer()).json()["id"] for _ in range(4)]
            assert ids == [1, 2, 2, 1]


async def test_what_follows_a_waiting_call_waits_for_its_answer(at_once: Endpoint) -> None:
    async with await Connection.to(at_once.port) as connection:
        connection.send(request(call("told", 2)))
        await connection.read_answer()
        connection.send(request(call("wait", 1)))
        await at_once.tools.started.get()
        connection.send(request(call("told", 2)))
        await asyncio.sleep(0.02)
        at_once.tools.gate.set()
        assert [(await connection.read_answer()).json()["id"] for _ in range(2)] == [1, 2]


async def test_a_client_that_leaves_in_the_middle_of_a_known_request_is_let_go(
    at_once: Endpoint,
) -> None:
    whole = request(call("told"))
    async with await Connection.to(at_once.port) as connection:
        connection.send(whole)
        await connection.read_answer()
        connection.send(whole[:-5])
        await asyncio.sleep(0.02)
        connection.half_close()
        assert await connection.read_rest() == b""
    assert len(at_once.tools.calls) == 1


async def test_a_known_request_that_never_ends_is_cut_with_408() -> None:
    async with (
        running_endpoint(slow_sender_s=0.05) as mcp,
        await Connection.to(mcp.port) as connection,
    ):
        whole = request(message("ping"))
        connection.send(whole)
        await connection.read_answer()
        connection.send(whole[:-5])
        assert (await connection.read_answer()).status == 408


async def test_a_slow_sender_is_cut_at_its_bound_and_not_much_later() -> None:
    clock = DrivenClock()
    async with (
        running_endpoint(slow_sender_s=30.0, clock=clock) as mcp,
        await Connection.to(mcp.port) as connection,
    ):
        whole = request(message("ping"))
        # A head is known from its second time on.
        for _ in range(2):
            connection.send(whole)
            assert (await connection.read_answer()).status == 200
        # Between two looks of a quarter of the bound.
        await clock.advance(16.0)
        connection.send(whole[:-5])
        # What another client's answer proves to have been read.
        assert (await mcp.client().initialize()).status == 200
        await clock.advance(31.5)
        refused = await connection.read_answer()
    assert refused.status == 408
    assert b"head of" not in refused.body


async def test_a_connection_that_nobody_uses_is_closed_and_a_used_one_is_not() -> None:
    async with (
        running_endpoint(slow_sender_s=0.04, idle_connection_s=0.4) as mcp,
        await Connection.to(mcp.port) as unused,
        await Connection.to(mcp.port) as used,
    ):
        closed = asyncio.create_task(unused.read_rest())
        while not closed.done():
            used.send(request(message("ping")))
            assert (await used.read_answer()).status == 200
            await asyncio.sleep(0.01)
        assert await closed == b""
        used.send(request(message("ping")))
        assert (await used.read_answer()).status == 200


async def test_a_closing_endpoint_answers_known_requests_with_503(at_once: Endpoint) -> None:
    async with await Connection.to(at_once.port) as connection:
        for status in (200, 200, 503):
            connection.send(request(message("ping")))
            assert (await connection.read_answer()).status == status
            if status == 200 and len(at_once.tools.calls) == 0:
                at_once.tools.calls.append(None)  # type: ignore[arg-type]
            else:
                at_once.surface.close_door()


async def test_a_known_request_takes_few_steps(at_once: Endpoint) -> None:
    """Counts Python's own function calls, which no busy machine changes; there were 490 once."""
    data, steps = request(call("told")), 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal steps
        steps += event == "call"

    async with await Connection.to(at_once.port) as connection:
        for _ in range(3):
            connection.send(data)
            await connection.read_answer()
        connection.send(data)
        sys.setprofile(count)
        try:
            # The loop reads the request and writes the answer while this waits for nothing else.
            while not at_once.tools.calls[3:]:
                await asyncio.sleep(0)
        finally:
            sys.setprofile(None)
        assert (await connection.read_answer()).status == 200
    assert 20 < steps < 250
