"""The body of a POST to the RPC port, read within its bounds; what goes wrong is an answer."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import ClientError, web
from aiohttp.http_exceptions import HttpProcessingError

from edged.protocol.jsonrpc import MAX_BODY_BYTES

__all__ = ["UnusableBodyError", "read_body"]

WITHIN_S: Final = 30.0
"""A slower sender is cut."""
TOO_LARGE: Final = "The body is over 4 MiB."


class UnusableBodyError(Exception):
    """The body cannot be had; ``status`` and ``args`` say how that is answered."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def read_body(request: web.Request, *, within_s: float = WITHIN_S) -> bytes:
    """The whole body.

    Raises:
        UnusableBodyError: too large, too slow, encoded, or not framed as HTTP wants it.
    """
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise UnusableBodyError(415, "A Content-Encoding is not served; send the body as it is.")
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise UnusableBodyError(413, TOO_LARGE)
    try:
        async with asyncio.timeout(within_s):
            return await request.read()
    except TimeoutError:
        raise UnusableBodyError(408, f"The body did not arrive within {within_s:g} s.") from None
    except web.HTTPRequestEntityTooLarge:
        raise UnusableBodyError(413, TOO_LARGE) from None
    except (
        web.RequestPayloadError,
        HttpProcessingError,
        ClientError,
        ConnectionError,
        RuntimeError,
    ):
        raise UnusableBodyError(400, "The body is not framed as HTTP wants it.") from None
