"""Reading one request's body within its bounds; whatever can go wrong on the way is an answer here.

aiohttp's ``read()`` and ``json()`` raise a dozen kinds of errors on hostile bodies, each of which
would be a 500 with a trace in the log.

A look into the body of a request that is being refused: its id, and what it asked for.

Whoever has no good token gets no memory for a body. The refusal wants the request's id all the
same, and the audit the tool; so a small body is read for them, and a large one is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import ClientError, web
from aiohttp.http_exceptions import HttpProcessingError

from edged.protocol.http_rules import Accepted, Rejected, rejection
from edged.protocol.jsonrpc import (
    MAX_BODY_BYTES,
    BadMessage,
    Batch,
    Message,
    Request,
    RequestId,
    parse,
)
from edged.surfaces.mcp.reply import Wire

__all__ = ["BodyReader", "ClientGoneError", "Peek", "id_of", "parsed"]

MAX_HELD_BYTES: Final = 128 * 1024 * 1024
"""Of all bodies that are arriving; thousands of slow senders cannot hold 4 MiB each."""

SMALL_BODY_BYTES: Final = 64 * 1024
SMALL_WITHIN_S: Final = 2.0
"""What is read of a request that is refused anyway, for its id and the audit."""


class ClientGoneError(Exception):
    """The connection ended before the request did; there is nobody to answer."""


class BodyReader:
    """Reads bodies.

    Args:
        within_s: a slower sender is cut.
        max_held_bytes: of all bodies together that have not arrived completely.
    """

    def __init__(self, *, within_s: float, max_held_bytes: int = MAX_HELD_BYTES) -> None:
        self._within_s = within_s
        self._max_held_bytes = max_held_bytes
        self._held_bytes = 0

    async def read(
        self, request: web.BaseRequest, accepted: Accepted, wire: Wire
    ) -> bytes | Rejected:
        """The whole body, at most ``MAX_BODY_BYTES``.

        Returns:
            The body, or why it could not be had; the connection cannot go on then.

        Raises:
            ClientGoneError: the client went away in the middle.
        """
        refusal = _judge_expectation(request, accepted, wire)
        if refusal is not None:
            return refusal
        connection = wire.connection
        try:
            if request.content.is_eof():
                return _bounded(request.content.read_nowait())
            if connection.is_half_closed:
                raise ClientGoneError
            connection.ends_with_input = True
            async with asyncio.timeout(self._within_s):
                return await self._read_on(request)
        except TimeoutError:
            return rejection(408, f"The body did not arrive within {self._within_s:g} s.")
        except ConnectionError:
            raise ClientGoneError from None
        except (web.RequestPayloadError, HttpProcessingError, ClientError, RuntimeError):
            if wire.is_lost:
                raise ClientGoneError from None
            return rejection(400, "The body is not framed as HTTP wants it.")
        finally:
            connection.ends_with_input = False

    async def read_small(self, request: web.BaseRequest, wire: Wire) -> bytes:
        """The body of a request that is refused, if it is small and here soon; else empty.

        Raises:
            ClientGoneError: the client went away in the middle.
        """
        if (request.content_length or 0) > SMALL_BODY_BYTES:
            return b""
        body = bytearray()
        content = request.content
        try:
            async with asyncio.timeout(min(SMALL_WITHIN_S, self._within_s)):
                while not content.at_eof():
                    body += await content.readany()
                    if len(body) > SMALL_BODY_BYTES:
                        return b""
        except ConnectionError:
            raise ClientGoneError from None
        except (
            TimeoutError,
            web.RequestPayloadError,
            HttpProcessingError,
            ClientError,
            RuntimeError,
        ):
            if wire.is_lost:
                raise ClientGoneError from None
            return b""
        return bytes(body)

    async def _read_on(self, request: web.BaseRequest) -> bytes | Rejected:
        pieces: list[bytes] = []
        size = 0
        try:
            while True:
                piece = await request.content.readany()
                if not piece and request.content.at_eof():
                    return b"".join(pieces)
                size += len(piece)
                self._held_bytes += len(piece)
                if size > MAX_BODY_BYTES:
                    return _too_large()
                if self._held_bytes > self._max_held_bytes:
                    return rejection(503, "Too many large bodies arrive at once; try again.")
                pieces.append(piece)
        finally:
            self._held_bytes -= size


def _bounded(body: bytes) -> bytes | Rejected:
    return body if len(body) <= MAX_BODY_BYTES else _too_large()


def _too_large() -> Rejected:
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


class Peek:
    """Looks once, when it is asked.

    Args:
        read: gives the body, empty where it is not small or does not come soon.

    Attributes:
        request_id: of the request, once it was looked at and where it could be read.
    """

    def __init__(self, read: Callable[[], Awaitable[bytes]]) -> None:
        self._read = read
        self.request_id: RequestId | None = None

    async def asked(self) -> str:
        """The tool or method that is asked for; empty where that cannot be read."""
        message, bad = parsed(await self._read())
        self.request_id = bad.request_id if bad else id_of(message)
        if not isinstance(message, Request):
            return ""
        name = message.params.get("name") if message.method == "tools/call" else None
        return name if isinstance(name, str) else message.method


def parsed(body: bytes) -> tuple[Message | Batch | None, BadMessage | None]:
    """The message of a body, or what is wrong with it."""
    try:
        return parse(body), None
    except BadMessage as bad:
        return None, bad


def id_of(message: Message | Batch | None) -> RequestId | None:
    """The id of a request; ``None`` of anything else."""
    return message.id if isinstance(message, Request) else None
