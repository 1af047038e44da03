"""A listening TCP port of the bench that can be switched off and on, and cut."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from typing import Final

__all__ = ["LOOPBACK", "TcpListener", "reset"]

LOOPBACK: Final = "127.0.0.1"
BACKLOG: Final = 64

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class TcpListener:
    """Takes connections on loopback and has each served by ``serve``, on the bench's loop.

    Args:
        at: the loopback address; another one is another host to whoever looks from outside.
    """

    def __init__(self, serve: Serve, at: str = LOOPBACK) -> None:
        self._serve = serve
        self._at = at
        self.port = 0  # known once open
        self._server: asyncio.Server | None = None
        self._reserved: socket.socket | None = None  # holds the port while switched off
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_listening(self) -> bool:
        """Whether new connections are taken."""
        return self._server is not None

    async def open(self, port: int = 0) -> None:
        """Listen; ``port`` 0 is any. Raises OSError where the port is taken."""
        self._reserved = _bind(self._at, port)
        self.port = self._reserved.getsockname()[1]
        await self.power_on()

    async def power_on(self) -> None:
        """Take connections (again) at the same port."""
        if self._server is None and self._reserved is not None:
            self._server = await asyncio.start_server(
                self._take, sock=self._reserved, backlog=BACKLOG
            )
            self._reserved = None

    def power_off(self) -> None:
        """Reset every connection and refuse new ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
            self._reserved = _bind(self._at, self.port)
        for writer in tuple(self._writers):
            reset(writer)

    async def close(self) -> None:
        """End everything; the port is free after it."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None
        for writer in tuple(self._writers):
            writer.close()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._writers.add(writer)
        # asyncio does it only for sockets that name their protocol.
        raw: socket.socket = writer.get_extra_info("socket")
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            # A reset by the peer is an end like any other; only the end of the bench cancels, and
            # the stream machinery would report that as an error.
            with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
                await self._serve(reader, writer)
        finally:
            self._writers.discard(writer)
            writer.close()


def _bind(at: str, port: int) -> socket.socket:
    """A bound socket that does not listen yet: it holds the port and connections are refused."""
    reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":  # there it would let another process take the port
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind((at, port))
    except OSError:
        reserved.close()
        raise
    return reserved


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST: lingering zero seconds tells the kernel to throw away what is left."""
    linger = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)
    raw = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()
