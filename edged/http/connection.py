"""One HTTP connection: aiohttp's own protocol, with what it lacks for every port that we serve.

- What is not HTTP is answered with a JSON-RPC error body that echoes nothing, behind the answers to
  what came before it on the connection, and nothing is read after it.
- A body whose framing breaks fails in the hands of whoever reads it. aiohttp's parser tells nobody
  of it but the next request, so its reader would wait until it gave up.
- A client that has closed its sending side still gets the answers to what it sent.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import ClassVar, Final

import structlog
from aiohttp import StreamReader, web
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import LineTooLong
from aiohttp.web_protocol import RequestHandler

from edged.protocol.http_rules import rejection
from edged.protocol.jsonrpc import RpcCode

__all__ = ["GO_ON", "HEAD_END", "HttpConnection"]

HEAD_END: Final = b"\r\n\r\n"
GO_ON: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
"""Says that a body is wanted, or only that somebody is here: clients pass over what they did not
expect (RFC 9110 section 15.2)."""
MAX_PIECES: Final = 32
"""Heads that are given to the parser one by one, of what was read together."""
OFFER: Final = re.compile(rb"\r\nupgrade(?=:(?![ \t]*websocket[ \t]*\r\n))", re.IGNORECASE)
NO_OFFER: Final = b"\r\nUpgrad-"
"""In place of an offer of another protocol, which Java's client makes with every request: older
versions of aiohttp take it as accepted, and the body as the other protocol. As long as what it
replaces, so that no framing depends on it; JSON cannot hold it."""
MAX_QUEUED: Final = 64
"""Requests that wait on a connection for the one before them; with more nothing is read beyond what
was read together. Newer versions of aiohttp stop at 32 by themselves."""
PROBES_AFTER_S: Final = (0.1, 0.1, 0.1, 0.3, 2.0)
"""When a client that will send no more is written to: what it has closed answers the first with a
reset, which the second meets, and the fourth where a proxy stands between. Not more than five: some
clients take no more interim answers (Go's)."""


class HttpConnection(RequestHandler):
    """See the module.

    Attributes:
        log_name: the logger of faults.
        answers_half_closed: otherwise the end of what a client sends is the end of the connection.
        is_half_closed: the client has closed its sending side and waits for answers.
    """

    __slots__ = (
        "_is_broken",
        "_is_full",
        "_newest_body",
        "_probe",
        "_probing",
        "_seam",
        "is_half_closed",
    )

    log_name: ClassVar[str] = "edged.http"
    answers_half_closed: ClassVar[bool] = True

    def __init__(
        self, server: web.Server, *, loop: asyncio.AbstractEventLoop, **how: object
    ) -> None:
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type] # what aiohttp documents for "no log"
            **how,  # type: ignore[arg-type] # as ``RequestHandler`` has them
        )
        self._is_broken = False
        self._is_full = False
        # The body that the parser is in, or was in last; and the last bytes that it was given,
        # with which the end of a head may begin.
        self._newest_body: StreamReader | None = None
        self._seam = b""
        self._probe: Callable[[], bool] | None = None
        self._probing: asyncio.TimerHandle | None = None
        self.is_half_closed = False

    def data_received(self, data: bytes) -> None:
        """Called by the loop; without data by aiohttp, to let its parser go on."""
        if self._payload_parser is not None:
            super().data_received(data)
            return
        for piece in self._pieces(data):
            if self._is_broken:
                return
            if b"pgrade" in piece:
                piece = OFFER.sub(NO_OFFER, piece)
            super().data_received(piece)
            if self._messages:
                message, body = self._messages[-1]
                if isinstance(message, RawRequestMessage):
                    self._newest_body = body
                else:
                    self._break_off()
        if len(self._messages) >= MAX_QUEUED and not self._is_full and self.transport is not None:
            self._is_full = True
            self.transport.pause_reading()

    def eof_received(self) -> bool | None:  # type: ignore[override] # as asyncio.Protocol has it
        """Called by the loop; true keeps our sending side open for the answers under way."""
        if not self.answers_half_closed or self.is_idle or self._payload_parser is not None:
            return None
        body = self._newest_body
        if body is not None and not body.is_eof():
            # Without that future a request has been taken, and may not have been begun.
            if len(self._messages) + (self._waiter is None) <= 1:
                # Nobody waits for an answer to half a request.
                return None
            self._fail(body)
        self.is_half_closed = True
        self._begin_probing()
        return True

    def connection_lost(self, exc: BaseException | None) -> None:
        """Called by the loop."""
        self.end_probing()
        super().connection_lost(exc)
        body = self._newest_body
        if body is not None and not body.is_eof():
            # aiohttp would go on draining it for as long as it lingers.
            self._fail(body)

    @property
    def is_idle(self) -> bool:
        """Whether no request is being served, nor waits for that."""
        # aiohttp's own: the future on which it waits for the next request while it serves none.
        return self._waiter is not None and not self._waiter.done()

    @property
    def has_more(self) -> bool:
        """Whether another request has come behind the one that is being served."""
        return bool(self._messages)

    def probe_by(self, probe: Callable[[], bool]) -> None:
        """Find out soon whether a client that closes its sending side still reads.

        A client that is gone altogether looks the same until something is written to it; then the
        connection is lost.

        Args:
            probe: writes what means nothing to who reads it; false where nothing can be written,
                and the client is held to be gone.
        """
        self._probe = probe
        if self.is_half_closed:
            self._begin_probing()

    def end_probing(self) -> None:
        """It does not matter any more."""
        self._probe = None
        if self._probing is not None:
            self._probing.cancel()
            self._probing = None

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
            structlog.get_logger(self.log_name).error("http_fault", exc_info=exc)
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

    def log_exception(self, *args: object, **how: object) -> None:
        """Called by aiohttp, also where it drains a body that nobody wants and meets its end."""
        if not isinstance(how.get("exc_info"), web.RequestPayloadError):
            super().log_exception(*args, **how)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Called by aiohttp with each answer; the last one to a half-closed client ends it."""
        finished = await super().finish_response(request, resp, start_time)
        if self._is_full and len(self._messages) < MAX_QUEUED:
            self._is_full = False
            if self.transport is not None and not self.transport.is_closing():
                self.transport.resume_reading()
        if not self._messages:
            if self._newest_body is not None and self._newest_body.is_eof():
                # An idle connection needs no memory for it.
                self._newest_body = None
            if self.is_half_closed:
                self.close()
        return finished

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        """The data, cut behind each head.

        Where the parser meets what it refuses, it forgets the heads that came in the same bytes.
        """
        start = 0
        # The end of a head may have begun in the bytes before.
        seam = (self._seam + data[:3]).find(HEAD_END)
        if seam >= 0:
            start = seam + len(HEAD_END) - len(self._seam)
            yield data[:start]
        self._seam = (self._seam + data[-3:])[-3:]
        for _ in range(MAX_PIECES):
            end = data.find(HEAD_END, start)
            if end < 0:
                break
            yield data[start : end + len(HEAD_END)]
            start = end + len(HEAD_END)
        if start < len(data) or not data:
            yield data[start:]

    def _break_off(self) -> None:
        """The parser has refused something; what that was in is told of it, and no one else."""
        self._is_broken = True
        body = self._newest_body
        if body is None or body.is_eof():
            return
        # Not the head of another request: the rest of this body cannot be had.
        self._messages.pop()
        self._fail(body)

    def _fail(self, body: StreamReader) -> None:
        """Let whoever reads a body, or will, know that it cannot be complete.

        It never ends: a reader that is just being woken looks for an end, but for no exception, and
        would take what there is for the whole. Hence also the second time, when it sleeps again.
        """
        broken = web.RequestPayloadError("The body is not framed as HTTP wants it.")
        body.set_exception(broken)
        self._loop.call_soon(body.set_exception, broken)

    def _begin_probing(self) -> None:
        if self._probe is not None and self._probing is None:
            self._probe_next(0)

    def _probe_next(self, count: int) -> None:
        if count < len(PROBES_AFTER_S):
            self._probing = self._loop.call_later(PROBES_AFTER_S[count], self._probe_now, count)

    def _probe_now(self, count: int) -> None:
        if self._probe is None or self.transport is None or self.transport.is_closing():
            return
        if self._probe():
            self._probe_next(count + 1)
        else:
            self.transport.abort()
