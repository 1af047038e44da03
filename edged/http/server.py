"""The HTTP server of a port: binds, accepts, counts connections, looks after them and closes them.

Accepts by itself (``accepting``) instead of leaving it to asyncio, because who comes over the cap
must hear why it is turned away.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import field
from typing import Final

from edged.clock import Clock
from edged.http.accepting import accept_all, connection_limit, listening_socket, raise_limit
from edged.http.connection import HttpServer, RequestHandler
from edged.protocol.http_rules import FULL_HEADER, rejection
from edged.record import part

MAX_TURNED_AWAY: Final = 64
"""Connections that are being told 503 at one time; beyond that they are closed without a word."""
TURNED_AWAY_S: Final = 1.0
CLOSE_WITHIN_S: Final = 0.5


@part
class Listener:
    """One listening address.

    Attributes:
        handler: serves each request.
        name: what the port is called: ``mcp``.
        host, wanted_port: where to listen; port 0 takes any free one.
        is_port_shared: another process of the same user listens on the same port on other
            addresses (SO_REUSEPORT); docs/promises.md section 2.
        max_connections: beyond it, 503.
        slow_sender_s: how long the head of a request may take.
        idle_s: how long a connection may be without a request.
        clock: for that.
        takes_upgrade: see ``HttpServer``.
        port: the bound port; 0 before.
    """

    handler: RequestHandler
    name: str
    host: str
    wanted_port: int
    is_port_shared: bool
    max_connections: int
    slow_sender_s: float
    idle_s: float
    clock: Clock
    takes_upgrade: Callable[[bytes], bool]
    _socket: socket.socket | None = None
    _server: HttpServer | None = None
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _turned_away: set[_TurnedAway] = field(default_factory=set)
    port: int = 0

    @property
    def connection_count(self) -> int:
        """Connections that are open now."""
        return len(self._server.connections) if self._server is not None else 0

    async def start(self) -> None:
        """Bind and accept.

        Raises:
            Failed: BIND_FAILED, with the reason.
        """
        raise_limit()
        self.max_connections = connection_limit(self.max_connections)
        self._socket = listening_socket(
            self.host,
            self.wanted_port,
            name=self.name,
            is_port_shared=self.is_port_shared,
        )
        self.port = self._socket.getsockname()[1]
        self._server = server = HttpServer(
            self.handler,
            clock=self.clock,
            slow_sender_s=self.slow_sender_s,
            idle_s=self.idle_s,
            takes_upgrade=self.takes_upgrade,
        )
        self._tasks = [
            asyncio.create_task(
                accept_all(
                    self._socket,
                    lambda accepted: self._welcome(accepted, server),
                    name=self.name,
                    clock=self.clock,
                ),
                name=f"{self.name} accept",
            ),
            asyncio.create_task(server.look_after(), name=f"{self.name} connections"),
        ]

    def close_door(self) -> None:
        """Accept no more; open connections stay."""
        for task in self._tasks:
            task.cancel()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def stop(self) -> None:
        """Close the door and every connection."""
        self.close_door()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        for turned_away in tuple(self._turned_away):
            turned_away.abort()
        if self._server is not None:
            await self._server.stop(CLOSE_WITHIN_S)
            self._server = None

    async def _welcome(self, accepted: socket.socket, server: HttpServer) -> None:
        factory: Callable[[], asyncio.Protocol] = server
        if len(server.connections) >= self.max_connections:
            if len(self._turned_away) >= MAX_TURNED_AWAY:
                accepted.close()
                return
            factory = self._turn_away
        try:
            await asyncio.get_running_loop().connect_accepted_socket(factory, accepted)
        except OSError:
            accepted.close()

    def _turn_away(self) -> _TurnedAway:
        turned_away = _TurnedAway(self._turned_away)
        self._turned_away.add(turned_away)
        return turned_away


class _TurnedAway(asyncio.Protocol):
    """A connection over the cap: is told so, and closed."""

    def __init__(self, book: set[_TurnedAway]) -> None:
        self._book = book
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - narrows the stub's type
        self._transport = transport
        transport.write(TURNED_AWAY)
        transport.write_eof()
        # Closing at once with its request unread would reset the answer away.
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(TURNED_AWAY_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Called by the loop."""
        self._book.discard(self)
        if self._timer is not None:
            self._timer.cancel()

    def abort(self) -> None:
        """Close now."""
        if self._transport is not None:
            self._transport.abort()


_FULL: Final = rejection(503, "Too many connections are open; close some and try again.")
TURNED_AWAY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
    b"Retry-After: 1\r\n%b: yes\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b"
    % (FULL_HEADER.encode("ascii"), len(_FULL.body), _FULL.body)
)
