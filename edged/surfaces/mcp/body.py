"""Reading one request's body within its bounds; whatever can go wrong on the way is an answer here.

aiohttp's ``read()`` and ``json()`` raise a dozen kinds of errors on hostile bodies, each of which
would be a 500 with a trace in the log.
"""

from __future__ import annotations

import asyncio

from aiohttp import ClientError, web
from aiohttp.http_exceptions import HttpProcessingError

from edged.protocol.http_rules import Accepted, Rejected, rejection
from edged.protocol.jsonrpc import MAX_BODY_BYTES
from edged.surfaces.mcp.wire import Wire

__all__ = ["ClientGoneError", "read_body"]


class ClientGoneError(Exception):
    """The connection ended before the request did; there is nobody to answer."""


async def read_body(
    request: web.BaseRequest, accepted: Accepted, wire: Wire, *, within_s: float
) -> bytes | Rejected:
    """The whole body, at most ``MAX_BODY_BYTES``.

    Args:
        within_s: a slower sender is cut.

    Returns:
        The body, or why it could not be had; the connection cannot go on then.

    Raises:
        ClientGoneError: the client went away in the middle.
    """
    refusal = _judge_expectation(request, accepted, wire)
    if refusal is not None:
        return refusal
    content, connection = request.content, wire.connection
    try:
        if content.is_eof():
            return _bounded(content.read_nowait())
        if connection.is_half_closed:
            raise ClientGoneError
        connection.ends_with_input = True
        async with asyncio.timeout(within_s):
            return await _read_on(request)
    except TimeoutError:
        return rejection(408, f"The body did not arrive within {within_s:g} s.")
    except ConnectionError:
        raise ClientGoneError from None
    except (web.RequestPayloadError, HttpProcessingError, ClientError, ValueError, RuntimeError):
        if wire.is_lost:
            raise ClientGoneError from None
        return rejection(400, "The body is not framed as HTTP wants it.")
    finally:
        connection.ends_with_input = False


async def _read_on(request: web.BaseRequest) -> bytes | Rejected:
    pieces: list[bytes] = []
    size = 0
    while True:
        piece = await request.content.readany()
        if not piece and request.content.at_eof():
            return b"".join(pieces)
        size += len(piece)
        if size > MAX_BODY_BYTES:
            return _bounded(piece, size)
        pieces.append(piece)


def _bounded(body: bytes, size: int | None = None) -> bytes | Rejected:
    if (size or len(body)) <= MAX_BODY_BYTES:
        return body
    return rejection(413, f"The body is over {MAX_BODY_BYTES} bytes.")


def _judge_expectation(request: web.BaseRequest, accepted: Accepted, wire: Wire) -> Rejected | None:
    """Answer ``Expect: 100-continue``, which aiohttp's low-level server leaves to its user."""
    expected = accepted.header("Expect")
    if expected is None:
        return None
    if expected.lower() != "100-continue":
        return rejection(417, "Only 100-continue can be expected here.")
    if not request.content.is_eof():
        wire.go_on()
    return None
