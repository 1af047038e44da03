"""Our own listeners as servers of aiohttp's test client, for requests of ordinary HTTP.

``client = await aiohttp_client(ListenerServer(running_endpoint()))`` starts the listener, and stops
it at the end of the test; ``already_at(port)`` stands for one that something else starts and stops.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from types import SimpleNamespace
from typing import Any, NoReturn, Protocol

from aiohttp.test_utils import BaseTestServer
from yarl import URL


class Listener(Protocol):
    """A listener on 127.0.0.1 that is running."""

    @property
    def port(self) -> int: ...


class ListenerServer(BaseTestServer):
    """Runs a listener, which opens its socket itself, while the test's client needs it."""

    def __init__(self, running: AbstractAsyncContextManager[Listener]) -> None:
        super().__init__()
        self._running = running

    async def start_server(self, *_: Any, **__: Any) -> None:
        self.port = (await self._running.__aenter__()).port

    def make_url(self, path: str) -> URL:
        """The address of a path, which is sent as it is: with its dots and percent signs."""
        return URL(f"http://{self.host}:{self.port}{path}", encoded=True)

    async def close(self) -> None:
        await self._running.__aexit__(None, None, None)

    async def _make_runner(self, **_: Any) -> NoReturn:
        raise AssertionError("start_server starts the listener, which needs no runner")


def already_at(port: int) -> ListenerServer:
    return ListenerServer(nullcontext(SimpleNamespace(port=port)))
