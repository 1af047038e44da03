"""One client connection: aiohttp's own protocol, with what it lacks for us.

- what its parser refuses gets a JSON-RPC error body that echoes nothing, and no trace in the log;
- whoever serves a request can learn at once that the client is gone;
- a client that closes only its sending side still gets its answer;
- a request head that never ends is noticed (``listener`` cuts it).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol

import structlog
from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.web_protocol import RequestHandler

from edged.clock import Clock
from edged.protocol.http_rules import MAX_HEADER_BYTES, rejection
from edged.protocol.jsonrpc import RpcCode

__all__ = ["Connection", "ConnectionServer", "Handler"]

IDLE_S: Final = 75.0
"""A connection without a request is closed after this; clients' own pools give up much sooner."""
LINGERING_S: Final = 2.0
"""How long the rest of a body that was refused unread is drained, so that the refusal is read."""

Handler = Callable[[web.BaseRequest], Any]


class ConnectionBook(Protocol):
    """Who wants to know of connections."""

    def opened(self, connection: Connection) -> None:
        """It is open."""
        ...

    def closed(self, connection: Connection) -> None:
        """It is gone."""
        ...


class Connection(RequestHandler):
    """See the module.

    Attributes:
        peer: address of the other end, as text.
        head_since_s: when the first byte of a request came whose head is not complete yet.
        is_half_closed: the client has closed its sending side and waits for the answer.
        ends_with_input: the end of input means here that the client is gone: its body was not
            complete, or what is served is only worth it while somebody listens.
        on_gone: called once when the connection is lost; set by who serves the present request.
    """

    __slots__ = (
        "_book",
        "_clock",
        "ends_with_input",
        "head_since_s",
        "is_half_closed",
        "on_gone",
        "peer",
    )

    def __init__(
        self,
        server: web.Server,
        *,
        book: ConnectionBook,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=IDLE_S,
            access_log=None,  # type: ignore[arg-type] # what aiohttp documents for "no log"
            max_field_size=MAX_HEADER_BYTES,
            lingering_time=LINGERING_S,
            # A Content-Encoding is refused; decoding it first would let it fail in the reader.
            auto_decompress=False,
        )
        self._book = book
        self._clock = clock
        self.peer = ""
        self.head_since_s: float | None = None
        self.is_half_closed = False
        self.ends_with_input = False
        self.on_gone: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        super().connection_made(transport)
        name = transport.get_extra_info("peername")
        self.peer = str(name[0]) if isinstance(name, tuple) and name else ""
        self._book.opened(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Called by the loop; tells who serves the present request."""
        super().connection_lost(exc)
        self._book.closed(self)
        on_gone, self.on_gone = self.on_gone, None
        if on_gone is not None:
            on_gone()

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        super().data_received(data)
        if self.head_since_s is None and self._is_idle():
            self.head_since_s = self._clock.monotonic()

    def eof_received(self) -> bool | None:  # type: ignore[override] # as asyncio.Protocol has it
        """Called by the loop; true keeps our sending side open for the answer under way."""
        if self.ends_with_input or self._is_idle():
            return None
        self.is_half_closed = True
        return True

    def begin(self) -> None:
        """A request of this connection is being served from now on."""
        self.head_since_s = None
        self.ends_with_input = False

    def cut_slow(self) -> None:
        """The head of a request takes too long: say so and close."""
        self.head_since_s = None
        if self.transport is not None:
            self.transport.write(TOO_SLOW)
        self.force_close()

    def _is_idle(self) -> bool:
        # aiohttp's own: the future on which it waits for the next request while it serves none.
        return self._waiter is not None and not self._waiter.done()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it quotes the request
    ) -> web.StreamResponse:
        """Answer what the parser refused; overrides aiohttp's text body and its log line."""
        if request.writer.output_size > 0:
            raise ConnectionError("The answer had begun.")
        if status >= 500:
            structlog.get_logger("edged.mcp").error("http_fault", exc_info=exc)
            refused = rejection(
                500, "edged made a mistake; see its log.", rpc_code=RpcCode.INTERNAL_ERROR
            )
        elif isinstance(exc, LineTooLong):
            refused = rejection(431, "The request line or a header is too long.")
        else:
            refused = rejection(status, "This is not an HTTP request that can be served.")
        response = web.Response(
            status=refused.status, body=refused.body, headers=dict(refused.headers)
        )
        response.force_close()
        return response


_SLOW: Final = rejection(408, "The head of the request did not arrive in time.")
TOO_SLOW: Final = (
    b"HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(_SLOW.body), _SLOW.body)
)


class ConnectionServer(web.Server):
    """aiohttp's low-level server, making ``Connection``s."""

    def __init__(self, handler: Handler, *, book: ConnectionBook, clock: Clock) -> None:
        super().__init__(handler)
        self._book = book
        self._clock = clock

    def __call__(self) -> Connection:
        """The protocol of one accepted socket."""
        return Connection(self, book=self._book, clock=self._clock, loop=asyncio.get_running_loop())
