"""Connections taken so that ending it loses none.

``asyncio.Server.close`` between a connection's ``accept`` and its transport leaves the accepted
socket to the garbage collector (the server's own ``assert``, Python 3.11 to 3.13), which the
suite's leak checks tell as an unclosed socket of whatever test runs then.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Accepting:
    """Takes connections of one loopback port until ``close``; ``serve`` runs once for each."""

    def __init__(self, serve: Serve, host: str, port: int) -> None:
        self._serve = serve
        self._loop = asyncio.get_running_loop()
        self._listening = socket.create_server((host, port))
        self._listening.setblocking(False)
        self.port: int = self._listening.getsockname()[1]
        self._serving: set[asyncio.Task[None]] = set()
        self._loop.add_reader(self._listening, self.accept)

    def close(self) -> None:
        """Refuse from now on; what was taken and is not yet served is reset."""
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening)
            self._listening.close()

    def accept(self) -> None:
        """Take who is waiting; the loop calls it."""
        try:
            taken, _ = self._listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        serving = self._loop.create_task(self._begin(taken))
        self._serving.add(serving)
        serving.add_done_callback(self._served)

    def _served(self, serving: asyncio.Task[None]) -> None:
        """Tell what went wrong at once: the collector would in the midst of another test."""
        self._serving.discard(serving)
        error = None if serving.cancelled() else serving.exception()
        if error is not None:
            self._loop.call_exception_handler(
                {"message": "a connection of the bench failed", "exception": error, "task": serving}
            )

    async def _begin(self, taken: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=taken)
        if self._listening.fileno() < 0:
            writer.transport.abort()
        else:
            await self._serve(reader, writer)
