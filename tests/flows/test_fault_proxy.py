"""The tests' own proxy spoils exactly what it was told to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from tests.bench.fault_proxy import FaultProxy, How, Spoil
from tests.bench.waiting import HANGS_S

PATIENCE_S = HANGS_S


@pytest.fixture
async def proxy() -> AsyncIterator[FaultProxy]:
    """A proxy before a server that sends each line back."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                writer.write(line)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with FaultProxy(server.sockets[0].getsockname()[1]) as proxy:
        yield proxy
    server.close()


@contextlib.asynccontextmanager
async def line_to(
    proxy: FaultProxy,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def exchange(proxy: FaultProxy, size: int = 100) -> bytes:
    """What comes of one line until ``size`` bytes or the end of the connection."""
    async with line_to(proxy) as (reader, writer):
        writer.write(b"hello\n")
        async with asyncio.timeout(PATIENCE_S):
            received = b""
            while len(received) < size and (data := await reader.read(100)):
                received += data
            return received


@pytest.mark.parametrize(
    ("spoil", "received"),
    [
        (Spoil(How.PASS), b"hello\n"),
        (Spoil(How.DELAY, seconds=0.01), b"hello\n"),
        (Spoil(How.CUT), b"hel"),
        (Spoil(How.DROP), b""),
        (Spoil(How.DOUBLE), b"hello\nhello\n"),
        (Spoil(How.GARBLE), b"\xe8\xe5\xec\xec\xef\n"),
        (Spoil(How.SPLIT, seconds=0.0), b"hello\n"),
        (Spoil(How.STRAY), b"\nhello\n"),
    ],
)
async def test_a_chunk_is_spoiled_as_told_and_the_next_one_is_not(
    proxy: FaultProxy, spoil: Spoil, received: bytes
) -> None:
    proxy.next(spoil)
    assert await exchange(proxy, len(received) or 1) == received
    assert proxy.waiting == 0
    assert await exchange(proxy, 6) == b"hello\n"


async def test_a_reset_is_a_reset(proxy: FaultProxy) -> None:
    proxy.next(Spoil(How.RESET))
    with pytest.raises(ConnectionResetError):
        await exchange(proxy)


async def test_a_lost_chunk_and_a_hang_send_nothing_until_healed(proxy: FaultProxy) -> None:
    async with line_to(proxy) as (reader, writer), asyncio.timeout(PATIENCE_S):
        proxy.next(Spoil(How.LOSE), Spoil(How.HANG))
        writer.write(b"lost\n")
        while proxy.waiting > 1:
            await asyncio.sleep(0)
        writer.write(b"held\n")
        while proxy.waiting:
            await asyncio.sleep(0)
        await proxy.heal()
        assert await reader.readline() == b"held\n"


async def test_a_refusing_proxy_resets_and_comes_back_at_its_port(proxy: FaultProxy) -> None:
    port = proxy.port
    async with line_to(proxy) as (reader, writer), asyncio.timeout(PATIENCE_S):
        writer.write(b"hello\n")
        assert await reader.readline() == b"hello\n"
        proxy.refuse()
        with pytest.raises(ConnectionResetError):
            await reader.readline()
    with pytest.raises(ConnectionRefusedError):
        await exchange(proxy)
    await proxy.heal()
    assert proxy.port == port
    assert await exchange(proxy, 6) == b"hello\n"


async def test_a_black_hole_takes_connections_and_nothing_passes(proxy: FaultProxy) -> None:
    proxy.is_black_hole = True
    async with line_to(proxy) as (reader, writer):
        writer.write(b"hello\n")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await reader.read(1)
