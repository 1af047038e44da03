"""Requests for aiohttp's ordinary application, on a connection that is framed here.

Each request gets a protocol of aiohttp's own, made by its public server, behind a transport that
ends with the answer: the connection is taken back then, and a WebSocket keeps it for good. What the
protocol reads is one whole message as our parser delimited it, its head written anew with one
framing only; it never sees the bytes of another.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

from aiohttp import web
from aiohttp.http_parser import RawRequestMessage

from edged.http.connection import BodyEnd, HttpConnection, whole_refusal
from edged.protocol.http_rules import rejection

SERVER_OPTIONS: Final[dict[str, Any]] = {
    # The answer's end is the transport's; the connection lives on below it, and drains by itself.
    "keepalive_timeout": 0,
    "lingering_time": 0,
    "tcp_keepalive": False,
    "access_log": None,
    # A Content-Encoding is refused; decoding it first would let it fail in the reader.
    "auto_decompress": False,
}
"""For ``web.Server`` or ``web.AppRunner``."""
FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})
NOT_FRAMED: Final = rejection(400, "The length of the body is not given as HTTP requires.")
UNREADABLE: Final = rejection(400, "This is not an HTTP request that can be served.")


class BodyLostError(web.RequestPayloadError, ConnectionResetError):
    """What a handler meets that reads on, or writes: the rest of its request will never come."""


class ApplicationHandler:
    """Implements ``RequestHandler`` by an aiohttp server.

    Args:
        server: made with ``SERVER_OPTIONS``; its application calls ``note_end``.
    """

    def __init__(self, server: web.Server) -> None:
        self._server = server

    def serve(
        self, connection: HttpConnection, message: RawRequestMessage, body: bytes | None
    ) -> None:
        """Hand the request over; see ``RequestHandler``."""
        head = _head_of(message)
        if head is None:
            connection.keeps_alive = False
            connection.answer(whole_refusal(UNREADABLE))
            return
        RequestTransport(connection, message, self._server()).begin(head, body)


class RequestTransport(asyncio.Transport):
    """What one request's protocol takes for its socket; ``BodyTaker`` of the request.

    Args:
        connection: by which it came.
        message: its head.
        protocol: serves it.

    Attributes:
        connection: see there.
        keeps_alive: the answer leaves the connection as it should be; see ``note_end``.
    """

    def __init__(
        self, connection: HttpConnection, message: RawRequestMessage, protocol: asyncio.Protocol
    ) -> None:
        super().__init__()
        self._protocol = protocol
        self._is_chunked = message.chunked
        self._is_closed = False
        self._has_written = False
        # What is to be written in one piece, while that is wanted.
        self._gathered: list[bytes] | None = None
        self.connection = connection
        self.keeps_alive = False

    def begin(self, head: bytes, body: bytes | None) -> None:
        """Let the protocol have the request."""
        connection, protocol = self.connection, self._protocol
        connection.await_answer(self._lost)
        connection.on_writable = self._writable
        protocol.connection_made(self)
        protocol.data_received(head)
        if body is None:
            connection.take_body(self)
            return
        if body:
            self.body_received(body)
        self.body_ended(BodyEnd.WHOLE)
        if connection.is_upgraded:
            connection.take_upgraded(self)

    # Of the body ----------------------------------------------------------------------------

    def body_received(self, data: bytes) -> None:
        if self._is_closed:
            return
        if self._is_chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        self._protocol.data_received(data)

    def body_ended(self, end: BodyEnd) -> None:
        if self._is_closed or end is BodyEnd.GONE:
            return
        if end is BodyEnd.WHOLE:
            if self._is_chunked:
                self._protocol.data_received(b"0\r\n\r\n")
            return
        if not self._has_written:
            self.write(whole_refusal(NOT_FRAMED))
        self.keeps_alive = False
        self._end(BodyLostError("The length of the body is not given as HTTP requires."))

    # Of the connection ----------------------------------------------------------------------

    def _lost(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._protocol.connection_lost(BodyLostError("The client is gone."))

    def _writable(self, is_writable: bool) -> None:
        if self._is_closed:
            return
        if is_writable:
            self._protocol.resume_writing()
        else:
            self._protocol.pause_writing()

    def _end(self, why: Exception | None) -> None:
        """The answer is complete, or will never be."""
        if self._is_closed:
            return
        self._is_closed = True
        connection = self.connection
        # As sockets do it: later, and once.
        asyncio.get_running_loop().call_soon(self._protocol.connection_lost, why)
        connection.hold_back(False)
        connection.keeps_alive = connection.keeps_alive and self.keeps_alive
        connection.has_answered()

    # Of asyncio.Transport -------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send at once, unless more is to come with it."""
        if self._gathered is not None:
            self._gathered.append(bytes(data))
            return
        transport = self.connection.transport
        if not self._is_closed and transport is not None and not transport.is_closing():
            self._has_written = True
            transport.write(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send at once, in one piece."""
        self.write(b"".join(list_of_data))

    def gather(self) -> None:
        """Send nothing until ``send_gathered``."""
        if self._gathered is None:
            self._gathered = []

    def send_gathered(self) -> None:
        """Send what was written since ``gather``, in one piece."""
        pieces, self._gathered = self._gathered, None
        if pieces:
            self.write(b"".join(pieces))

    def close(self) -> None:
        """The answer is complete."""
        self.send_gathered()
        self._end(None)

    def abort(self) -> None:
        """Break the whole connection off."""
        if self.connection.transport is not None:
            self.connection.transport.abort()
        self._end(BodyLostError("The connection was broken off."))

    def is_closing(self) -> bool:
        """Whether nothing more can be written."""
        transport = self.connection.transport
        return self._is_closed or transport is None or transport.is_closing()

    def pause_reading(self) -> None:
        """There is no room for more of the body."""
        if not self._is_closed:
            self.connection.hold_back(True)

    def resume_reading(self) -> None:
        """There is room again."""
        if not self._is_closed:
            self.connection.hold_back(False)

    def can_write_eof(self) -> bool:
        """The connection outlives the answer."""
        return False

    def get_write_buffer_size(self) -> int:
        """What the client has not read yet."""
        transport = self.connection.transport
        return 0 if transport is None else transport.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Of the socket."""
        transport = self.connection.transport
        return default if transport is None else transport.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Who serves the request."""
        return self._protocol


async def note_end(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Take note whether an answer leaves its connection for the next request.

    To be told of each answer before it goes: an application's ``on_response_prepare``. Where it is
    not, the connection is closed behind the answer.
    """
    transport = request.transport
    if isinstance(transport, RequestTransport):
        is_socket = isinstance(response, web.WebSocketResponse)
        transport.keeps_alive = response.keep_alive is not False and not is_socket


@contextlib.contextmanager
def written_together(request: web.BaseRequest) -> Iterator[None]:
    """What is written meanwhile goes in one piece: each of its own wakes its reader."""
    transport = request.transport
    if not isinstance(transport, RequestTransport):
        yield
        return
    transport.gather()
    try:
        yield
    finally:
        transport.send_gathered()


def connection_of(request: web.BaseRequest) -> HttpConnection | None:
    """By which a request came; ``None`` where its client is gone."""
    transport = request.transport
    return transport.connection if isinstance(transport, RequestTransport) else None


def _head_of(message: RawRequestMessage) -> bytes | None:
    """The head with one framing: that of the body as it will be given.

    ``None`` where a name or value holds what would end its line, which no parser lets pass.
    """
    version = message.version
    first = f"{message.method} {message.path} HTTP/{version.major}.{version.minor}"
    lines = [first.encode("utf-8", "surrogateescape")]
    lines += [
        b"%b: %b" % (name, value)
        for name, value in message.raw_headers
        if name.lower() not in FRAMING
    ]
    if message.chunked:
        lines.append(b"Transfer-Encoding: chunked")
    elif "Content-Length" in message.headers:
        lines.append(b"Content-Length: %d" % int(message.headers["Content-Length"]))
    if any(b"\r" in line or b"\n" in line for line in lines):
        return None
    return b"\r\n".join(lines) + b"\r\n\r\n"
