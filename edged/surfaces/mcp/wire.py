"""One HTTP request's way back: a whole answer, or the head of an event stream.

Both are written straight to the transport in one piece, because aiohttp's response objects cost
more than the rest of a cached call; aiohttp gets a ``Sent`` that says that nothing is left to do.
"""

from __future__ import annotations

import asyncio
import functools
from email.utils import formatdate
from http import HTTPStatus
from typing import Final, cast

from aiohttp import HttpVersion10, HttpVersion11, web
from aiohttp.abc import AbstractStreamWriter

from edged.clock import Clock
from edged.http.connection import GO_ON
from edged.protocol.http_rules import HeaderList
from edged.surfaces.mcp.connection import Connection
from edged.surfaces.mcp.stream_reply import StreamReply

__all__ = ["CLOSED", "DateLine", "Wire", "whole_answer"]

UNREAD_ANSWER_BYTES: Final = 64 * 1024
"""Above this the answer to a slow reader is waited for, so that pipelining cannot pile them up."""
READ_ANSWER_WITHIN_S: Final = 60.0
CLOSE_LINE: Final = b"Connection: close\r\n"
KEEP_LINE: Final = b"Connection: keep-alive\r\n"


class Sent(web.StreamResponse):
    """What aiohttp is given as a response that has gone out already."""

    def __init__(self, *, keeps_connection: bool) -> None:
        super().__init__()
        self._keeps_connection = keeps_connection

    @property
    def keep_alive(self) -> bool | None:
        """Whether the connection takes another request."""
        return self._keeps_connection

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Nothing is left to prepare."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to write."""


class DateLine:
    """The ``Date`` header, made once a second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._second = -1
        self._line = b""

    def now(self) -> bytes:
        """The whole line."""
        second = self._clock.wall_ms() // 1000
        if second != self._second:
            self._second = second
            self._line = b"Date: %b\r\n" % formatdate(second, usegmt=True).encode("ascii")
        return self._line


class Wire:
    """The way back of one request.

    Args:
        request: as aiohttp has read it; or the connection by which one with a known head came.

    Attributes:
        connection: what it came by.
        is_answered: bytes of an answer have gone out.
    """

    __slots__ = (
        "_clock",
        "_date",
        "_is_1_1",
        "_request",
        "_transport",
        "connection",
        "is_answered",
        "keeps_connection",
    )

    def __init__(
        self, request: web.BaseRequest | Connection, *, clock: Clock, date: DateLine
    ) -> None:
        self._clock = clock
        self._date = date
        self._transport = request.transport
        self.is_answered = False
        if isinstance(request, Connection):
            # Only plain POSTs of HTTP/1.1 on connections that go on are known by their heads.
            self._request: web.BaseRequest | None = None
            self.connection = request
            self.keeps_connection = True
            self._is_1_1 = True
        else:
            self._request = request
            self.connection = cast("Connection", request.protocol)
            self.keeps_connection = request.keep_alive and request.version >= HttpVersion10
            self._is_1_1 = request.version >= HttpVersion11

    @property
    def is_lost(self) -> bool:
        """Whether the client is gone."""
        return self._transport is None or self._transport.is_closing()

    def respond(
        self, status: int, headers: HeaderList, body: bytes, *, closes: bool = False
    ) -> None:
        """Send a whole answer.

        Args:
            closes: the rest of the request was not read, so the connection cannot go on.
        """
        if closes:
            self.keeps_connection = False
        if self._request is not None and self._request.method == "HEAD":
            body = b""
        framing = b"Content-Length: %d\r\n" % len(body)
        self._send(self._head(status, headers, framing) + body)

    def open_stream(self, headers: HeaderList, status: int = 200) -> StreamReply | None:
        """Send the head of an event stream; ``None`` when nobody is there to read it."""
        if self.is_lost or self._transport is None:
            return None
        if not self._is_1_1:
            self.keeps_connection = False
        framing = b"Transfer-Encoding: chunked\r\n" if self._is_1_1 else b""
        self._send(self._head(status, headers, framing))
        return StreamReply(self._transport, is_chunked=self._is_1_1, clock=self._clock)

    def go_on(self) -> bool:
        """Send ``100 Continue``: the head is fine, and the body wanted, or the answer on its way.

        Returns:
            Whether that can be said: not to HTTP/1.0, nor in the middle of an answer.
        """
        if not self._is_1_1 or self.is_answered or self._transport is None:
            return False
        self._transport.write(GO_ON)
        return True

    async def finish(self) -> web.StreamResponse:
        """What the handler gives back to aiohttp; waits while the reader is far behind.

        A reader that does not read within a minute is cut.
        """
        transport, request = self._transport, self._request
        if transport is None or request is None:
            return CLOSED
        if transport.get_write_buffer_size() > UNREAD_ANSWER_BYTES:
            try:
                async with asyncio.timeout(READ_ANSWER_WITHIN_S):
                    await request.writer.drain()
            except TimeoutError:
                transport.abort()
        return KEPT if self.keeps_connection and self.is_answered else CLOSED

    def _head(self, status: int, headers: HeaderList, framing: bytes) -> bytes:
        if not self.keeps_connection:
            connection = CLOSE_LINE
        elif not self._is_1_1:
            connection = KEEP_LINE
        else:
            connection = b""
        return b"".join(
            (_first_lines(status, headers), self._date.now(), framing, connection, b"\r\n")
        )

    def _send(self, data: bytes) -> None:
        self.is_answered = True
        if not self.is_lost and self._transport is not None:
            self._transport.write(data)


def whole_answer(status: int, headers: HeaderList, body: bytes, date: DateLine) -> bytes:
    """A whole answer on a connection that goes on."""
    return b"%b%bContent-Length: %d\r\n\r\n%b" % (
        _first_lines(status, headers),
        date.now(),
        len(body),
        body,
    )


@functools.lru_cache(maxsize=64)
def _first_lines(status: int, headers: HeaderList) -> bytes:
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    lines.extend(f"{name}: {value}" for name, value in headers)
    return "\r\n".join(lines).encode("latin-1") + b"\r\n"


KEPT: Final = Sent(keeps_connection=True)
CLOSED: Final = Sent(keeps_connection=False)
