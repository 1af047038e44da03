"""A head that was read before is known by its bytes: answers are those of a parser that is new."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp.http import HttpRequestParser, RawRequestMessage
from hypothesis import given
from hypothesis import strategies as st

from edged.clock import SystemClock
from edged.http.connection import HttpConnection, HttpServer, no_upgrade
from edged.http.read_heads import ReadHeads
from tests.bench.recording_transport import RecordingTransport

FIELDS = st.sampled_from(
    [
        b"Host: a\r\n",
        b"Accept: application/json, text/event-stream\r\n",
        b"Mcp-Session-Id: 0123\r\n",
        b"Connection: close\r\n",
        b"Connection: keep-alive\r\n",
        b"Expect: 100-continue\r\n",
        b"Upgrade: h2c\r\n",
        b"Authorization: Bearer x\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Content-Length: 2\r\n",
        b"Content-Length: +2\r\n",
        b" folded: 2\r\n",
        b"Bad Name: 2\r\n",
        b"X: \xff\r\n",
    ]
)
BODIES = st.sampled_from([b"", b"{}", b"{}\r\n", b"\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n"])


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """One request, most of them good, with a Content-Length that may not be true."""
    body = draw(BODIES)
    told = len(body) + draw(st.sampled_from([0, 0, 0, 0, 1, -1]))
    fields = b"".join(draw(st.lists(FIELDS, max_size=2)))
    line = draw(st.sampled_from([b"POST /mcp HTTP/1.1", b"GET /mcp HTTP/1.1", b"POST / HTTP/1.0"]))
    return b"%b\r\n%bContent-Length: %d\r\n\r\n%b" % (line, fields, max(told, 0), body)


class Served:
    """A handler that notes what it is given, and answers at once or at the next turn."""

    def __init__(self, waits: list[bool]) -> None:
        self.requests: list[tuple[str, str, Any, bytes | None]] = []
        self._waits = waits

    def serve(
        self, connection: HttpConnection, message: RawRequestMessage, body: bytes | None
    ) -> bytes | None:
        self.requests.append((message.method, message.path, message.raw_headers, body))
        if body is None or not self._waits or not self._waits.pop():
            return b"answer"
        connection.await_answer(lambda: None)
        asyncio.get_running_loop().call_soon(connection.answer, b"answer")
        return None


async def carried(pieces: list[bytes], waits: list[bool], heads: ReadHeads | None) -> object:
    """What a connection serves and writes of these bytes; ``heads``: those that it knows."""
    handler = Served(list(waits))
    server = HttpServer(
        handler, clock=SystemClock(), slow_sender_s=60, idle_s=60, takes_upgrade=no_upgrade
    )
    if heads is not None:
        server.heads = heads
    connection = server()
    transport = RecordingTransport()
    connection.connection_made(transport)
    for piece in pieces:
        if transport.is_closing():
            break
        connection.data_received(piece)
        for _ in range(4):
            await asyncio.sleep(0)
    connection.connection_lost(None)
    return handler.requests, transport.written, transport.is_closing()


class NothingKnown(ReadHeads):
    def find(self, data: bytes) -> None:
        return None


@given(st.lists(requests(), min_size=1, max_size=3), st.data())
def test_what_is_served_and_answered_is_that_of_a_new_parser(
    kinds: list[bytes], data: st.DataObject
) -> None:
    """The same few requests again and again, alone, in pieces, pipelined, while one waits."""
    stream = [data.draw(st.sampled_from(kinds)) for _ in range(data.draw(st.integers(1, 10)))]
    pieces: list[bytes] = []
    for request in stream:
        how = data.draw(st.sampled_from(["alone", "alone", "alone", "cut", "joined"]))
        cut = data.draw(st.integers(0, len(request))) if how == "cut" else 0
        if how == "joined" and pieces:
            pieces[-1] += request
        else:
            pieces += [part for part in (request[:cut], request[cut:]) if part]
    waits = data.draw(st.lists(st.booleans(), max_size=10))

    async def both() -> None:
        known = ReadHeads()
        first = await carried(pieces, waits, known)
        assert first == await carried(pieces, waits, NothingKnown())
        # Heads that another connection has read before.
        assert first == await carried(pieces, waits, known)

    asyncio.run(both())


async def test_the_third_time_a_head_comes_the_parser_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fed: list[bytes] = []

    class Watched:
        def __init__(self, *given: Any, **named: Any) -> None:
            self._parser = HttpRequestParser(*given, **named)

        def feed_data(self, data: bytes) -> Any:
            fed.append(data)
            return self._parser.feed_data(data)

    monkeypatch.setattr("edged.http.connection.HttpRequestParser", Watched)
    heads = ReadHeads()
    one = b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n"
    for number in range(5):
        await carried([one + b"%02d" % number, one + b"{}"], [], heads)
    assert len(fed) == 4, "twice, each in two pieces"
    for number in range(1_000):
        head = b"POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}" % number
        await carried([head, head], [], heads)
    fed.clear()
    await carried([one + b"{}"], [], heads)
    assert len(fed) == 2, "of many heads the oldest are forgotten"


async def test_a_token_is_not_kept_in_memory() -> None:
    heads = ReadHeads()
    head = b"POST /mcp HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\nContent-Length: 2\r\n\r\n"
    await carried([head + b"{}"] * 3, [], heads)
    assert heads.find(head + b"{}") is None
