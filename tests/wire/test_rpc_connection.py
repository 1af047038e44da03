"""The RPC port on bare sockets: what is no HTTP, broken bodies, half-closed clients."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp.test_utils import TestClient

from tests.bench.mcp_client import Connection
from tests.bench.waiting import HANGS_S
from tests.wire.test_http_connection import GARBAGE, statuses
from tests.wire.test_mcp_http import is_quiet
from tests.wire.test_rpc_listener import (  # noqa: F401 - fixtures
    Dispatcher,
    dispatcher,
    make_listener,
    request,
    rpc,
)

# ruff: noqa: F811 - the fixtures


def post(port: int, body: bytes = b"", *more: str) -> bytes:
    lines = [f"Host: 127.0.0.1:{port}", "Content-Type: application/json"]
    lines += more or [f"Content-Length: {len(body)}"]
    return "\r\n".join(["POST /rpc HTTP/1.1", *lines]).encode() + b"\r\n\r\n" + body


STATUS = json.dumps(request("status")).encode()


async def test_what_is_no_http_gets_an_error_body_behind_the_answers_before_it(
    rpc: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    for before in (0, 2):
        async with await Connection.to(rpc.port) as connection:
            connection.send(post(rpc.port, STATUS) * before + GARBAGE)
            for _ in range(before):
                assert "result" in json.loads((await connection.read_answer()).body)
            told = await connection.read_answer()
            assert (told.status, told.error_code) == (400, -32600)
            assert b"GARBAGE" not in told.body
            assert await connection.read_rest() == b""
    assert is_quiet(caplog)


async def test_a_body_whose_framing_breaks_is_400_at_once(rpc: TestClient) -> None:
    async with await Connection.to(rpc.port) as connection:
        connection.send(post(rpc.port, b"", "Transfer-Encoding: chunked"))
        await connection.writer.drain()
        connection.send(b"zz\r\n")
        assert await statuses(connection) == [400]


async def test_a_half_closed_client_gets_its_answers(rpc: TestClient) -> None:
    async with await Connection.to(rpc.port) as connection:
        connection.send(post(rpc.port, STATUS) * 2)
        connection.half_close()
        assert await statuses(connection) == [200, 200]


@pytest.mark.parametrize(
    ("line", "more", "status", "word"),
    [
        ("GET /nowhere", "", 404, "/rpc"),
        ("POST /healthz", "", 405, "GET"),
        ("GET /events", "", 400, "WebSocket"),
        ("POST /rpc", "Expect: wonders\r\n", 417, "100-continue"),
        ("GET /healthz", "Expect: wonders\r\n", 417, "100-continue"),
    ],
)
async def test_what_the_port_does_not_serve_is_said_in_a_sentence(
    rpc: TestClient, line: str, more: str, status: int, word: str
) -> None:
    async with await Connection.to(rpc.port) as connection:
        host = f"Host: 127.0.0.1:{rpc.port}\r\n"
        connection.send(f"{line} HTTP/1.1\r\n{host}{more}\r\n".encode())
        told = await connection.read_answer()
    assert (told.status, told.error_code) == (status, -32600)
    assert word in told.json()["error"]["message"]
    assert ("allow" in told.headers) is (status == 405)


async def test_the_body_is_asked_for_where_the_client_waits_to_be_asked(rpc: TestClient) -> None:
    length = f"Content-Length: {len(STATUS)}"
    async with await Connection.to(rpc.port) as connection:
        connection.send(post(rpc.port, b"", "Expect: 100-continue", length))
        assert (await connection.read_head())[0] == 100
        connection.send(STATUS)
        assert (await connection.read_answer()).status == 200


async def test_the_port_closes_at_once_whoever_is_connected(dispatcher: Dispatcher) -> None:
    listener = make_listener(dispatcher, 0, None)
    await listener.start()
    async with (
        await Connection.to(listener.port) as served,
        await Connection.to(listener.port) as silent,
    ):
        served.send(post(listener.port, STATUS))
        assert (await served.read_answer()).status == 200
        async with asyncio.timeout(HANGS_S):
            await listener.stop()
        assert await served.read_rest() == b""
        assert await silent.read_rest() == b""
