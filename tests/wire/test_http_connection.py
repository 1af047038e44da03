"""What is no HTTP, and half-closed clients, on bare sockets: each answer at once, in its place."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
from collections import Counter
from typing import Any

import pytest
from aiohttp.http import HttpRequestParser

from edged.http.connection import MAX_HELD_BYTES, HttpConnection
from edged.turns import TURNS
from tests.bench.mcp_client import Connection, McpClient, modern
from tests.bench.mcp_endpoint import Endpoint
from tests.bench.mcp_rules import holds
from tests.bench.waiting import HANGS_S
from tests.promises import promise
from tests.wire.test_mcp_asking import begin, endpoint  # noqa: F401 - a fixture
from tests.wire.test_mcp_http import is_quiet

PING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
CHUNKED = {"Transfer-Encoding": "chunked", "Content-Length": "\0omit"}
GARBAGE = b"GARBAGE \0\r\n\r\n"


def ping(client: McpClient) -> bytes:
    return client.bytes_of("POST", PING)


def chunked(client: McpClient, body: bytes) -> bytes:
    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    return client.bytes_of("POST", headers=CHUNKED) + chunk


async def statuses(connection: Connection) -> list[int]:
    """Of all answers until the server closes."""
    found = []
    with contextlib.suppress(asyncio.IncompleteReadError):
        while True:
            found.append((await connection.read_answer()).status)
    return found


@pytest.mark.parametrize(
    "pieces", [[b"zz\r\n"], [b"2\r\n{}\r\n", b"zz\r\n"], [b"0\r\nzz\0\r\n\r\n"]]
)
async def test_a_body_whose_framing_breaks_is_400_at_once(
    mcp: Endpoint, pieces: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    async with await Connection.to(mcp.port) as connection:
        connection.send(mcp.client().bytes_of("POST", headers=CHUNKED))
        for piece in pieces:
            await asyncio.sleep(0.02)
            connection.send(piece)
        # Long before the 30 s that a body may take.
        async with asyncio.timeout(HANGS_S):
            answer = await connection.read_answer()
            assert await connection.read_rest() == b""
    assert (answer.status, answer.error_code) == (400, -32600)
    assert is_quiet(caplog)


async def test_half_a_body_is_never_taken_for_a_whole_one(mcp: Endpoint) -> None:
    call = json.dumps(mcp.client().tool_call("echo")).encode()
    async with await Connection.to(mcp.port) as connection:
        connection.send(mcp.client().bytes_of("POST", headers=CHUNKED))
        connection.send(b"%x\r\n%b" % (len(call), call))
        await asyncio.sleep(0.05)
        # The end of the chunk wakes the reader, who finds the body broken.
        connection.send(b"\r\nzz\r\n")
        async with asyncio.timeout(HANGS_S):
            assert await statuses(connection) == [400]
    assert mcp.tools.calls == []


async def test_a_refused_body_that_breaks_leaves_no_trace(
    mcp: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    async with await Connection.to(mcp.port) as connection:
        connection.send(mcp.client().bytes_of("POST", headers=CHUNKED | {"Content-Type": "a/b"}))
        assert (await connection.read_answer()).status == 415
        connection.send(b"zz\r\n")
        assert await connection.read_rest() == b""
    assert is_quiet(caplog)


@promise("mcp.bounded-bodies")
async def test_others_have_their_turn_while_a_long_body_is_parsed(
    mcp: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In chunks of one byte it takes a millisecond for each KiB."""
    turns, fed = itertools.count(), Counter[int]()
    turn = 0

    def tick() -> None:
        nonlocal turn
        turn = next(turns)
        if not is_over.is_set():
            loop.call_soon(tick)

    class Watched:
        def __init__(self, *given: Any, **named: Any) -> None:
            self._parser = HttpRequestParser(*given, **named)
            self.feed_eof = self._parser.feed_eof

        def feed_data(self, data: bytes) -> Any:
            fed[turn] += len(data)
            return self._parser.feed_data(data)

    monkeypatch.setattr("edged.http.connection.HttpRequestParser", Watched)
    loop, is_over = asyncio.get_running_loop(), asyncio.Event()
    body = b"".join(b"1\r\n%c\r\n" % byte for byte in PING.ljust(60_000)) + b"0\r\n\r\n"
    async with await Connection.to(mcp.port) as connection:
        tick()
        # Also a request behind it is answered, and where its client has closed its sending side.
        client = mcp.client()
        connection.send(client.bytes_of("POST", headers=CHUNKED) + body + ping(client))
        connection.half_close()
        assert await statuses(connection) == [200, 200]
    is_over.set()
    assert sum(fed.values()) > len(body)
    assert max(fed.values()) <= 3 * MAX_HELD_BYTES


async def test_what_is_sent_after_a_broken_body_is_never_served(mcp: Endpoint) -> None:
    call = json.dumps(mcp.client().tool_call("echo")).encode()
    async with await Connection.to(mcp.port) as connection:
        connection.send(mcp.client().bytes_of("POST", headers=CHUNKED) + b"zz\r\n")
        connection.send(mcp.client().bytes_of("POST", call))
        assert await statuses(connection) == [400]
    assert mcp.tools.calls == []


@holds("http.order")
@pytest.mark.parametrize("cut", [0, 1, 2, 3])
async def test_garbage_behind_a_request_is_answered_after_it(mcp: Endpoint, cut: int) -> None:
    client = mcp.client()
    for before in ([ping(client)], [ping(client)] * 3, [chunked(client, PING), ping(client)]):
        whole = b"".join(before) + GARBAGE
        # Also where the end of a head comes in two pieces.
        at = whole.index(b"\r\n\r\n") + cut
        async with await Connection.to(mcp.port) as connection:
            connection.send(whole[:at])
            await asyncio.sleep(0.02 if cut else 0)
            connection.send(whole[at:])
            assert await statuses(connection) == [200] * len(before) + [400]


async def test_garbage_behind_a_call_that_waits_is_kept_but_once(
    endpoint: Endpoint,  # noqa: F811 - the fixture
) -> None:
    async with await Connection.to(endpoint.port) as connection:
        await begin(endpoint, connection)
        connection.send(GARBAGE * 100)
        endpoint.tools.gate.set()
        assert await statuses(connection) == [200, 400]


async def test_a_flood_of_garbage_behind_a_call_is_not_gathered(mcp: Endpoint) -> None:
    client = mcp.client()
    async with await client.open_post(client.tool_call("wait")) as connection:
        await mcp.tools.started.get()
        for _ in range(50):
            connection.send(GARBAGE)
            await connection.writer.drain()
            await asyncio.sleep(0)
        mcp.tools.gate.set()
        assert await statuses(connection) == [200, 400]


async def test_a_flood_of_empty_lines_holds_nobody_up(mcp: Endpoint) -> None:
    async with (
        await Connection.to(mcp.port) as flooding,
        await Connection.to(mcp.port) as other,
    ):
        flooding.send(b"\r\n" * 500_000)
        for _ in range(20):
            other.send(ping(mcp.client()))
            async with asyncio.timeout(HANGS_S):
                assert (await other.read_answer()).status == 200
        flooding.send(ping(mcp.client()))
        async with asyncio.timeout(HANGS_S):
            assert (await flooding.read_answer()).status == 200


async def test_pipelined_requests_of_a_half_closed_client_are_all_answered(
    endpoint: Endpoint,  # noqa: F811 - the fixture
) -> None:
    client = endpoint.client()
    async with await Connection.to(endpoint.port) as connection:
        connection.send(ping(client) * 3)
        connection.half_close()
        assert await statuses(connection) == [200] * 3
    async with await Connection.to(endpoint.port) as connection:
        await begin(endpoint, connection)
        connection.send(ping(client) * 2)
        connection.half_close()
        endpoint.tools.gate.set()
        assert await statuses(connection) == [200] * 3


@holds("http.half-close")
@pytest.mark.parametrize("token", [None, "t"])
async def test_a_half_closed_client_gets_what_a_watched_call_says_to_its_end(
    mcp: Endpoint, token: str | None
) -> None:
    client = await mcp.session()
    async with await client.open_post(client.tool_call("watch", token=token)) as connection:
        connection.half_close()
        await mcp.tools.started.get()
        await asyncio.sleep(0.25)
        mcp.tools.gate.set()
        status, headers = await connection.read_head()
        body = await connection.read_rest()
    assert (status, headers["content-type"]) == (200, "text/event-stream")
    assert b'"isError":false' in body
    assert mcp.tools.cancelled == []


async def test_a_half_closed_client_that_takes_no_stream_gets_its_json(mcp: Endpoint) -> None:
    client = await mcp.session()
    client.headers["Accept"] = "application/json"
    async with await client.open_post(client.tool_call("watch")) as connection:
        connection.half_close()
        await mcp.tools.started.get()
        # What says that somebody is here, and would be reset by who is gone.
        assert (await connection.read_head())[0] == 100
        mcp.tools.gate.set()
        head = (100, {})
        while head[0] == 100:
            head = await connection.read_head()
        assert head[0] == 200
        assert json.loads(await connection.read_rest())["result"]["isError"] is False


async def test_a_half_closed_modern_client_gets_the_answer_of_a_query(
    endpoint: Endpoint,  # noqa: F811 - the fixture
) -> None:
    message, headers = modern(endpoint.client().tool_call("wait"))
    async with await endpoint.client().open_post(message, headers) as connection:
        connection.half_close()
        await endpoint.tools.started.get()
        endpoint.tools.gate.set()
        assert (await connection.read_answer()).json()["result"]["resultType"] == "complete"


async def test_a_half_closed_client_keeps_its_subscription(mcp: Endpoint) -> None:
    message = mcp.client().message(
        "subscriptions/listen", {"notifications": {"toolsListChanged": True}}
    )
    async with await mcp.client().open_post(*modern(message)) as connection:
        connection.half_close()
        assert (await connection.read_head())[0] == 200
        event = await connection.next_event()
        assert event is not None
        assert event.json()["method"] == "notifications/subscriptions/acknowledged"
        mcp.tools.change()
        event = await connection.next_event()
        assert event is not None
        assert event.json()["method"] == "notifications/tools/list_changed"


async def test_half_a_request_behind_a_whole_one_takes_no_answer_away(mcp: Endpoint) -> None:
    client = mcp.client()
    async with await Connection.to(mcp.port) as connection:
        connection.send(ping(client) + ping(client)[:-3])
        connection.half_close()
        assert (await statuses(connection))[0] == 200


async def test_requests_behind_a_call_that_waits_are_not_gathered_without_end(
    mcp: Endpoint,
) -> None:
    client = mcp.client()
    async with await client.open_post(client.tool_call("wait")) as connection:
        await mcp.tools.started.get()
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 200_000:
                connection.send(ping(client) * 1_000)
                async with asyncio.timeout(0.3):
                    await connection.writer.drain()
                sent += 1_000
        # What buffers of the two sides hold; the rest has to wait.
        assert sent < 100_000
        mcp.tools.gate.set()
        answered = 0
        async with asyncio.timeout(HANGS_S):
            while answered < 2_000:
                answered += (await connection.reader.read(65_536)).count(b"HTTP/1.1 200")
        connection.abort()


async def test_bytes_of_an_instrument_go_before_requests_that_came_with_them(
    mcp: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    serve = HttpConnection._serve

    def noted(self: HttpConnection, *request: Any) -> None:
        order.append("request")
        asyncio.get_running_loop().call_soon(order.append, "turn")
        serve(self, *request)

    monkeypatch.setattr(HttpConnection, "_serve", noted)
    ours, theirs = socket.socketpair()
    loop = asyncio.get_running_loop()
    loop.add_reader(ours, lambda: order.append(ours.recv(8).decode()))
    with ours, theirs:
        async with await Connection.to(mcp.port) as connection:
            connection.send(ping(mcp.client()))
            assert (await connection.read_answer()).status == 200
            order.clear()
            # As while a line waits.
            monkeypatch.setattr(TURNS, "waiting", 1)
            connection.send(ping(mcp.client()) * 2)
            theirs.send(b"line")
            for _ in range(2):
                assert (await connection.read_answer()).status == 200
        loop.remove_reader(ours)
    assert order[:4] == ["line", "request", "turn", "request"]
