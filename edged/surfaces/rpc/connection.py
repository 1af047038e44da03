"""One client connection of the RPC port, and what aiohttp leaves to its user about it."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import HttpVersion11, web

from edged.http.connection import GO_ON, HttpConnection
from edged.protocol import jsonrpc
from edged.protocol.jsonrpc import RpcCode

__all__ = ["RpcConnection", "meet_expectation", "unwatch", "watch"]

LINGER_S: Final = 1.0
"""How long the rest of a refused body is read; aiohttp 3.8 goes on so when its client has gone."""


class RpcConnection(HttpConnection):
    """One client connection."""

    log_name = "edged.rpc"

    def __init__(self, server: web.Server) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            lingering_time=LINGER_S,
            # A Content-Encoding is refused; decoding it first would let it fail in the reader.
            auto_decompress=False,
        )


async def meet_expectation(request: web.Request) -> None:
    """Called by aiohttp where a request has ``Expect``; its own words are plain text."""
    if request.headers.get("Expect", "").lower() != "100-continue":
        words = "Only 100-continue can be expected here."
        refused = web.HTTPExpectationFailed()
        refused.body = jsonrpc.error_bytes(None, RpcCode.INVALID_REQUEST, words)
        refused.headers["Content-Type"] = "application/json"
        raise refused
    if request.version >= HttpVersion11 and request.transport is not None:
        request.transport.write(GO_ON)


def watch(http: web.Request) -> None:
    """Notice soon where a client that has closed its sending side is gone altogether."""
    connection, transport = http.protocol, http.transport

    def probe() -> bool:
        if http.version < HttpVersion11 or transport is None:
            return False
        transport.write(GO_ON)
        return True

    if isinstance(connection, HttpConnection):
        connection.probe_by(probe)


def unwatch(http: web.Request) -> None:
    """It does not matter any more."""
    if isinstance(http.protocol, HttpConnection):
        http.protocol.end_probing()
