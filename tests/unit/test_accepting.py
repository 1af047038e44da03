"""What the test bench takes connections with: nothing it accepted is lost when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket

from edged.http.accepting import READ_BYTES, limit_reads
from tests.bench.accepting import Accepting


async def test_a_connection_accepted_a_moment_before_the_end_is_closed() -> None:
    served: list[asyncio.StreamWriter] = []

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(writer)

    accepting = Accepting(serve, "127.0.0.1", 0)
    with socket.create_connection(("127.0.0.1", accepting.port)) as client:
        client.setblocking(False)
        accepting.accept()
        accepting.close()
        async with asyncio.timeout(5):
            with contextlib.suppress(ConnectionError):
                assert await asyncio.get_running_loop().sock_recv(client, 1) == b""
    assert served == []
    gc.collect()


async def test_what_goes_wrong_in_a_connection_is_told_at_once_and_not_by_the_collector() -> None:
    told: list[BaseException] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        raise ValueError("of this connection")

    accepting = Accepting(serve, "127.0.0.1", 0)
    with socket.create_connection(("127.0.0.1", accepting.port)) as client:
        client.setblocking(False)
        async with asyncio.timeout(5):
            assert await loop.sock_recv(client, 1) == b""
            while not told:
                await asyncio.sleep(0)
    accepting.close()
    assert [str(error) for error in told] == ["of this connection"]


async def test_a_connection_reads_less_at_once_than_asyncio_would() -> None:
    pieces: list[int] = []
    done = asyncio.Event()

    class Reader(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            limit_reads(transport)

        def data_received(self, data: bytes) -> None:
            pieces.append(len(data))
            if sum(pieces) == 100_000:
                done.set()

    ours, theirs = socket.socketpair()
    with theirs:
        ours.sendall(bytes(100_000))
        with ours:
            theirs.setblocking(False)
            loop = asyncio.get_running_loop()
            transport, _ = await loop.connect_accepted_socket(Reader, theirs)
            async with asyncio.timeout(10):
                await done.wait()
            transport.close()
    assert max(pieces) == READ_BYTES
