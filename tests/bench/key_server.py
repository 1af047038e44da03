"""An issuer's JWKS on a loopback port, for a real engine or front."""

from __future__ import annotations

from contextlib import AbstractContextManager

from aiohttp import web
from aiohttp.test_utils import RawTestServer

from tests.bench.hosted import hosted


class KeyServer(RawTestServer):
    """Answers with ``body``; counts who asks for its keys."""

    def __init__(self, body: bytes) -> None:
        super().__init__(self._answer)
        self.body = body
        self.asked = 0

    @property
    def url(self) -> str:
        return str(self.make_url("/jwks"))

    async def _answer(self, _request: web.BaseRequest) -> web.Response:
        self.asked += 1
        return web.Response(body=self.body)


def serving_keys(body: bytes) -> AbstractContextManager[KeyServer]:
    """Serve this key set."""
    return hosted(lambda: KeyServer(body))
