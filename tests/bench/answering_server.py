"""An HTTP server on loopback that answers as a test laid out, and keeps what it was asked."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import RawTestServer

from edged.surfaces.rpc.proof import proof_of
from tests.bench.hosted import hosted


@dataclass
class Asked:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class AnsweringServer:
    """What a test sees: the port, the requests so far, and the next answer.

    Attributes:
        key: with which it proves to be an engine, for the port ``proves_for`` if not for its own.
        proved: the questions for that.
    """

    port: int = 0
    key: bytes | None = None
    proves_for: int = 0
    proved: list[Asked] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    status: int = 200
    body: bytes = b"{}"
    hold: threading.Event = field(default_factory=threading.Event)

    def answer(self, body: object, *, status: int = 200) -> None:
        self.status = status
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()

    def result(self, result: object) -> None:
        self.answer({"jsonrpc": "2.0", "id": 1, "result": result})


def answering_server(port: int = 0) -> AbstractContextManager[AnsweringServer]:
    return hosted(lambda: _answering(port))


@asynccontextmanager
async def _answering(port: int) -> AsyncIterator[AnsweringServer]:
    board = AnsweringServer()
    board.hold.set()

    async def answer(request: web.BaseRequest) -> web.Response:
        asked = Asked(request.path_qs, dict(request.headers), None)
        if request.method == "GET":
            board.proved.append(asked)
            nonce = request.query.get("nonce", "")
            proof = proof_of(board.key, board.proves_for or board.port, nonce) if board.key else ""
            return web.Response(status=404 if board.key is None else 200, text=proof)
        asked.body = await request.json()
        board.asked.append(asked)
        await asyncio.to_thread(board.hold.wait, 5)
        return web.Response(status=board.status, body=board.body)

    async with RawTestServer(answer, port=port) as server:
        board.port = server.port
        try:
            yield board
        finally:
            board.hold.set()
