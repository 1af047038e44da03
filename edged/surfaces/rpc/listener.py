"""The RPC port: bound at the start; what it serves is made with the first request to it.

An engine that only clients of MCP use never needs the application (``server.py``), nor aiohttp's.
``/alive`` is answered here, because the supervisor looks there each second.
"""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Final

from aiohttp.http_parser import RawRequestMessage

from edged.errors import ErrorCode, Failed
from edged.host import port_holder
from edged.http.connection import HttpConnection, HttpServer
from edged.http.late import LateHandler
from edged.surfaces.rpc.settings import ALIVE_PATH, SLOW_SENDER_S, RpcSettings

if TYPE_CHECKING:
    from edged.surfaces.rpc.server import RpcApplication

IDLE_S: Final = 75.0
MAX_FIELD_BYTES: Final = 8_190
"""The longest header that aiohttp takes, too."""
STOP_WITHIN_S: Final = 60.0
"""How long requests under way may still take; whoever stops the engine is not as patient."""
ALIVE: Final = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"


class RpcListener:
    """The RPC interface's listener.

    Args:
        settings: of the application behind it.
        port: RPC_PORT; 0 takes any free one.
    """

    def __init__(self, settings: RpcSettings, *, port: int) -> None:
        self._settings = settings
        self._wanted_port = port
        self._server: HttpServer | None = None
        self._looking: asyncio.Task[None] | None = None
        self._listening: asyncio.Server | None = None
        self._application = LateHandler(
            self._make_application, module="edged.surfaces.rpc.server", name="RPC application"
        )
        self.port = 0

    async def start(self) -> None:
        """Bind and serve.

        Raises:
            Failed: BIND_FAILED, with the port in ``data``.
        """
        server = HttpServer(
            self,
            clock=self._settings.clock,
            slow_sender_s=SLOW_SENDER_S,
            idle_s=IDLE_S,
            max_field_bytes=MAX_FIELD_BYTES,
            takes_upgrade=lambda _head: True,
        )
        try:
            self._listening = await asyncio.get_running_loop().create_server(
                server, "127.0.0.1", self._wanted_port, reuse_address=True
            )
        except OSError as taken:
            raise await self._unbound(taken) from taken
        self._server = server
        self._looking = asyncio.create_task(server.look_after(), name="rpc connections")
        self.port = self._listening.sockets[0].getsockname()[1]

    def serve(
        self, connection: HttpConnection, message: RawRequestMessage, body: bytes | None
    ) -> bytes | None:
        if body == b"" and (message.method, message.path) == ("GET", ALIVE_PATH):
            connection.keeps_alive = False
            connection.answer(ALIVE)
            return None
        return self._application.serve(connection, message, body)

    def close_door(self) -> None:
        """Accept no more; open connections stay."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    async def stop(self) -> None:
        """Stop accepting, end what is open."""
        self.close_door()
        await self._application.stop()
        application = self._application.handler
        if application is not None:
            await application.end_readers()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
            self._looking = None
        if self._server is not None:
            await self._server.stop(STOP_WITHIN_S)
            self._server = None
        if application is not None:
            await application.stop()

    async def _make_application(self) -> RpcApplication:
        from edged.surfaces.rpc.server import RpcApplication

        application = RpcApplication(self._settings, port=self.port)
        await application.start()
        return application

    async def _unbound(self, taken: OSError) -> Failed:
        why = str(taken.strerror)
        if taken.errno == errno.EADDRINUSE:
            holder = await asyncio.to_thread(port_holder, self._wanted_port)
            why = f"it is held by {holder or 'another program'}"
        return Failed(
            f"The RPC port {self._wanted_port} on 127.0.0.1 cannot be bound: {why}.",
            code=ErrorCode.BIND_FAILED,
            data={"port": self._wanted_port},
            remedy="Stop the program that holds it, or set RPC_PORT to another port.",
        )
