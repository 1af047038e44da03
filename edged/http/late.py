"""A handler that is made with the first request to it: a daemon nobody asks has none."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import structlog
from aiohttp.http_parser import RawRequestMessage

from edged.http.connection import HttpConnection, RequestHandler
from edged.log import surviving

H = TypeVar("H", bound=RequestHandler)
log = structlog.get_logger("edged.http")


class LateHandler(Generic[H]):
    """Implements ``RequestHandler``: requests wait until the real one is there.

    Args:
        make: makes it. Tried again with the next request where it fails; the connections that
            waited are closed.
        module: what only it needs; imported on a thread, because the watchdog of a busy machine
            would take an event loop that imports for one that hangs.
        name: what the log calls it.

    Attributes:
        handler: None until then.
    """

    def __init__(self, make: Callable[[], Awaitable[H]], *, module: str, name: str) -> None:
        self._make = make
        self._module = module
        self._name = name
        self._making: asyncio.Task[None] | None = None
        self._is_stopped = False
        self.handler: H | None = None

    def serve(
        self, connection: HttpConnection, message: RawRequestMessage, body: bytes | None
    ) -> bytes | None:
        if self.handler is not None:
            return self.handler.serve(connection, message, body)
        if self._is_stopped:
            connection.force_close()
            return None
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(self._have_made(), name=self._name)

        def go_on(_made: asyncio.Task[None]) -> None:
            if connection.transport is None:
                return
            answer = None
            if self.handler is None:
                connection.force_close()
            else:
                answer = self.handler.serve(connection, message, body)
            if answer is not None:
                connection.answer(answer)

        self._making.add_done_callback(go_on)
        return None

    async def stop(self) -> None:
        """Make none any more."""
        self._is_stopped = True
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)

    async def _have_made(self) -> None:
        with surviving(log, "handler_failed", handler=self._name):
            await asyncio.to_thread(importlib.import_module, self._module)
            self.handler = await self._make()
