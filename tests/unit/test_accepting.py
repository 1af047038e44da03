"""What the test bench takes connections with: nothing it accepted is lost when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket

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
