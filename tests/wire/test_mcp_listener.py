"""The listening socket: ports, descriptors, the cap on connections."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from pathlib import Path

import pytest

from edged.errors import ErrorCode, Failed
from edged.supervisor.watchdog import ask, look_at_mcp
from tests.bench.mcp_client import Connection
from tests.bench.mcp_endpoint import Endpoint, running_endpoint
from tests.bench.waiting import HANGS_S
from tests.promises import promise


@promise("supervisor.full-is-alive")
async def test_a_listener_that_takes_no_more_connections_is_alive_for_whoever_looks() -> None:
    async with running_endpoint(max_connections=2) as mcp, contextlib.AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(await Connection.to(mcp.port))
        # Some are told, those beyond are closed without a word.
        looks = [ask(mcp.port, look_at_mcp(mcp.port, "/mcp")) for _ in range(100)]
        assert all(await asyncio.gather(*looks))


async def test_a_taken_port_is_told_with_its_number(mcp: Endpoint) -> None:
    with pytest.raises(Failed) as refused:
        async with running_endpoint(port=mcp.port):
            pass
    assert refused.value.code is ErrorCode.BIND_FAILED
    assert str(mcp.port) in refused.value.message
    assert (await mcp.client().initialize()).status == 200


async def test_a_port_can_be_bound_again_at_once() -> None:
    async with running_endpoint() as first:
        port = first.port
        await first.session()
    async with running_endpoint(port=port) as second:
        assert second.port == port
        await second.session()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SO_REUSEPORT")
async def test_a_port_is_shared_only_when_told_so() -> None:
    async with running_endpoint(is_port_shared=True) as mcp:
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            other.bind(("0.0.0.0", mcp.port))
            other.listen()
            assert (await mcp.client().initialize()).status == 200


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
async def test_clients_leave_the_low_descriptors_to_instruments(mcp: Endpoint) -> None:
    async with await Connection.to(mcp.port) as connection:
        connection.send(mcp.client().bytes_of("POST", b"{}"))
        await connection.read_answer()
        mine = connection.writer.get_extra_info("sockname")
        peers = []
        for fd in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
            try:
                with socket.socket(fileno=os.dup(fd)) as probe:
                    if probe.getpeername() == mine:
                        peers.append(fd)
            except OSError:
                continue
    assert peers
    assert min(peers) >= 1_024


async def test_over_the_cap_a_connection_hears_503_and_others_go_on() -> None:
    async with running_endpoint(max_connections=2) as mcp:
        client = mcp.client()
        kept = [await Connection.to(mcp.port) for _ in range(2)]
        for connection in kept:
            connection.send(client.bytes_of("POST", b"{}"))
            assert (await connection.read_answer()).status == 400
        async with await Connection.to(mcp.port) as third:
            third.send(client.bytes_of("POST", b"{}"))
            answer = await third.read_answer()
            assert (answer.status, answer.error_code) == (503, -32600)
        kept[0].send(client.bytes_of("POST", b"{}"))
        assert (await kept[0].read_answer()).status == 400
        for connection in kept:
            await connection.close()
        async with asyncio.timeout(HANGS_S):
            while mcp.surface.connection_count:
                await asyncio.sleep(0.01)
        assert (await client.initialize()).status == 200


async def test_after_the_door_is_closed_open_connections_hear_503() -> None:
    async with running_endpoint() as mcp:
        async with await Connection.to(mcp.port) as connection:
            request = mcp.client().bytes_of("POST", b"{}")
            connection.send(request)
            await connection.read_answer()
            mcp.surface.close_door()
            connection.send(request)
            assert (await connection.read_answer()).status == 503
        with pytest.raises(ConnectionRefusedError):
            await Connection.to(mcp.port)


async def test_two_hundred_abandoned_connections_do_not_hold_anybody_up(mcp: Endpoint) -> None:
    kept = [await Connection.to(mcp.port) for _ in range(200)]
    for number, connection in enumerate(kept):
        connection.send(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n"[: number % 40])
    client = await mcp.session()
    assert (await client.call("echo"))["isError"] is False
    for connection in kept:
        connection.abort()
        await connection.close()


async def test_stopping_twice_or_before_starting_is_harmless() -> None:
    async with running_endpoint() as mcp:
        await mcp.surface.stop(0.0)
        await mcp.surface.stop(0.0)
