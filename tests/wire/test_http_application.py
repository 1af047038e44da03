"""One connection, framed once: what we answer ourselves, and what aiohttp's application does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from aiohttp import WSMsgType, web
from aiohttp.http import RawRequestMessage

from edged.clock import SystemClock
from edged.http.application import SERVER_OPTIONS, ApplicationHandler, note_end
from edged.http.connection import HttpConnection, HttpServer
from tests.bench.mcp_client import Connection
from tests.bench.waiting import HANGS_S
from tests.wire.test_http_connection import statuses

OWN = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nown"


@dataclass
class Port:
    """A server that answers ``POST /own`` itself; what its application saw, in order."""

    number: int
    server: HttpServer
    seen: list[tuple[str, bytes]] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)


class Both:
    """``RequestHandler``."""

    def __init__(self, others: ApplicationHandler) -> None:
        self._others = others

    def serve(
        self, connection: HttpConnection, message: RawRequestMessage, body: bytes | None
    ) -> bytes | None:
        if message.path == "/own" and body is not None:
            return OWN
        return self._others.serve(connection, message, body)


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    app = web.Application(client_max_size=1 << 26)
    app.on_response_prepare.append(note_end)
    runner = web.AppRunner(app, handle_signals=False, **SERVER_OPTIONS)

    async def echo(request: web.Request) -> web.Response:
        body = await request.read()
        made.seen.append((request.path, body))
        return web.Response(body=body)

    async def unread(_request: web.Request) -> web.Response:
        return web.Response(text="no")

    async def waits(_request: web.Request) -> web.Response:
        await made.gate.wait()
        return web.Response(text="waited")

    async def pieces(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        for number in range(3):
            await answer.write(b"%d" % number)
            await asyncio.sleep(0)
        await answer.write_eof()
        return answer

    async def broken(_request: web.Request) -> web.Response:
        raise ZeroDivisionError

    async def closes(_request: web.Request) -> web.Response:
        answer = web.Response(text="bye")
        answer.force_close()
        return answer

    async def socket(request: web.Request) -> web.WebSocketResponse:
        talk = web.WebSocketResponse()
        await talk.prepare(request)
        async for message in talk:
            assert message.type is WSMsgType.TEXT
            await talk.send_str(message.data * 2)
        return talk

    app.router.add_get("/socket", socket)
    for path, handler in (
        ("/echo", echo),
        ("/unread", unread),
        ("/waits", waits),
        ("/pieces", pieces),
        ("/broken", broken),
        ("/closes", closes),
    ):
        app.router.add_route("*", path, handler)
    await runner.setup()
    assert runner.server is not None
    server = HttpServer(
        Both(ApplicationHandler(runner.server)),
        clock=SystemClock(),
        slow_sender_s=30.0,
        idle_s=75.0,
        takes_upgrade=lambda _head: True,
    )
    listening = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    made = Port(listening.sockets[0].getsockname()[1], server)
    try:
        yield made
    finally:
        made.gate.set()
        listening.close()
        await server.stop(0.5)
        await runner.cleanup()


def request(path: str, body: bytes = b"", *more: str, verb: str = "POST") -> bytes:
    lines = [f"{verb} {path} HTTP/1.1", "Host: localhost"]
    lines += more or [f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(path: str, *chunks: bytes) -> bytes:
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))
    return request(path, body, "Transfer-Encoding: chunked")


async def test_both_kinds_follow_each_other_on_one_connection(port: Port) -> None:
    async with await Connection.to(port.number) as connection:
        for _ in range(3):
            for sent, wanted in (
                (request("/own", b"{}"), b"own"),
                (request("/echo", b"first"), b"first"),
                (request("/pieces", verb="GET"), b"012"),
                (chunked("/echo", b"se", b"cond"), b"second"),
            ):
                connection.send(sent)
                answer = await connection.read_answer()
                assert (answer.status, answer.body) == (200, wanted)
    assert port.seen == [("/echo", b"first"), ("/echo", b"second")] * 3


async def test_pipelined_requests_of_both_kinds_are_answered_in_their_order(port: Port) -> None:
    async with await Connection.to(port.number) as connection:
        whole = request("/waits") + request("/own") + chunked("/echo", b"a") + request("/own")
        connection.send(whole + request("/echo", b"b"))
        await asyncio.sleep(0.05)
        port.gate.set()
        bodies = [(await connection.read_answer()).body for _ in range(5)]
    assert bodies == [b"waited", b"own", b"a", b"own", b"b"]


async def test_a_body_in_pieces_is_handed_over_as_it_comes(port: Port) -> None:
    body = b"0123456789" * 200_000
    sent = request("/echo", body)
    async with await Connection.to(port.number) as connection:
        for start in range(0, len(sent), 65_536):
            connection.send(sent[start : start + 65_536])
            await asyncio.sleep(0)
        assert (await connection.read_answer()).body == body
        connection.send(request("/own"))
        assert (await connection.read_answer()).body == b"own"


async def test_a_request_inside_of_a_body_is_a_body_and_never_a_request(port: Port) -> None:
    smuggled = request("/echo", b"smuggled")
    async with await Connection.to(port.number) as connection:
        for sent in (request("/echo", smuggled), chunked("/echo", smuggled[:40], smuggled[40:])):
            connection.send(sent)
            assert (await connection.read_answer()).body == smuggled
        # The application does not want this one's body; what is in it is drained.
        more = b"x" * 100_000
        whole = request("/unread", smuggled + more)
        connection.send(whole.removesuffix(more))
        assert (await connection.read_answer()).body == b"no"
        connection.send(more + request("/own"))
        assert await statuses(connection) == []
    assert port.seen == [("/echo", smuggled)] * 2


@pytest.mark.parametrize(
    "head",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Content-Length: 5", "Content-Length: 6"),
        ("Content-Length: +5",),
        ("Content-Length : 5",),
        ("Transfer-Encoding: chunked, identity",),
        ("X: a\rContent-Length: 5",),
    ],
)
async def test_what_two_readers_could_frame_in_two_ways_reaches_nobody(
    port: Port, head: tuple[str, ...]
) -> None:
    async with await Connection.to(port.number) as connection:
        connection.send(request("/echo", b"0\r\n\r\n" + request("/echo", b"smuggled"), *head))
        assert await statuses(connection) == [400]
    assert port.seen == []


async def test_a_body_that_breaks_in_the_applications_hands_is_400(port: Port) -> None:
    async with await Connection.to(port.number) as connection:
        connection.send(request("/echo", b"2\r\nab\r\n", "Transfer-Encoding: chunked"))
        await asyncio.sleep(0.02)
        connection.send(b"zz\r\n" + request("/echo", b"behind"))
        assert await statuses(connection) == [400]
    assert port.seen == []


@pytest.mark.parametrize("path", ["/closes", "/broken"])
async def test_an_answer_that_ends_its_connection_does(port: Port, path: str) -> None:
    async with await Connection.to(port.number) as connection:
        connection.send(request(path) + request("/own"))
        assert len(await statuses(connection)) == 1


async def test_a_client_that_asks_for_the_end_gets_it(port: Port) -> None:
    async with await Connection.to(port.number) as connection:
        connection.send(request("/echo", b"", "Connection: close") + request("/own"))
        assert await statuses(connection) == [200]
    async with await Connection.to(port.number) as connection:
        connection.send(b"GET /echo HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert await statuses(connection) == [200]


def framed(text: bytes) -> bytes:
    """A client's text message, masked by nothing."""
    return bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text


async def test_a_websocket_keeps_the_connection_for_good(port: Port) -> None:
    upgrade = request(
        "/socket",
        b"",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        verb="GET",
    )
    async with await Connection.to(port.number) as connection:
        # It may speak at once, and what it speaks is no HTTP, whatever it looks like.
        connection.send(request("/own") + upgrade + framed(b"ab"))
        assert (await connection.read_answer()).body == b"own"
        assert (await connection.read_head())[0] == 101
        assert await connection.reader.readexactly(6) == b"\x81\x04abab"
        text = request("/own")[:60]
        connection.send(framed(text))
        assert await connection.reader.readexactly(2 + 2 * len(text)) == (
            bytes([0x81, 2 * len(text)]) + text * 2
        )
        connection.send(bytes([0x88, 0x80, 0, 0, 0, 0]))
        assert (await connection.read_rest())[:1] == b"\x88"


async def test_a_client_that_goes_leaves_nothing_behind(port: Port) -> None:
    for sent in (request("/waits"), request("/echo", b"half", "Content-Length: 1000")):
        async with await Connection.to(port.number) as connection:
            connection.send(sent)
            await asyncio.sleep(0.02)
            connection.abort()
    # Whoever only stops to send would still get the answer to what he has sent.
    port.gate.set()
    async with asyncio.timeout(HANGS_S):
        while port.server.connections:
            await asyncio.sleep(0.005)


async def test_a_server_that_stops_lets_the_answer_under_way_be_read(port: Port) -> None:
    async with (
        await Connection.to(port.number) as waiting,
        await Connection.to(port.number) as idle,
    ):
        waiting.send(request("/waits"))
        await asyncio.sleep(0.05)
        stopping = asyncio.create_task(port.server.stop(20))
        assert await idle.read_rest() == b""
        port.gate.set()
        assert (await waiting.read_answer()).body == b"waited"
        async with asyncio.timeout(HANGS_S):
            await stopping
