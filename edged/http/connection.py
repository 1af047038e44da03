"""One HTTP connection: framed once, by aiohttp's parser; its requests served in order, one by one.

- What comes behind the request that is being served is not parsed before that has its answer, but
  for the head that ends in the same bytes; and beyond a bound it is not even read.
- What is not HTTP is answered with a JSON-RPC error body that echoes nothing, behind the answers to
  what came before it on the connection, and nothing is read after it.
- A body whose framing breaks fails in the hands of whoever takes it.
- A client that has closed its sending side still gets the answers to what it sent.
- A refusal of what was not read to its end is read before the connection goes: the rest is drained.

Who serves the requests is a ``RequestHandler``: called by a plain function, since most requests
need no task. Only public names of aiohttp are used: its parser, and the ``BaseProtocol`` on which
the parser's streams would do their flow control; ours is done here, by what a body's taker takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import re
from collections.abc import Callable
from dataclasses import field
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol

from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.http_parser import HttpRequestParser, RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD

from edged.actions.cause import ENGINE_STOPPED
from edged.clock import Clock
from edged.http.accepting import limit_reads
from edged.http.read_heads import HEAD_END, ReadHeads
from edged.protocol.http_rules import MAX_HEADER_BYTES, Rejected, rejection
from edged.record import part
from edged.turns import TURNS

if TYPE_CHECKING:
    from aiohttp import StreamReader

LINE_END: Final = b"\r\n"
GO_ON: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
"""Says that a body is wanted, or only that somebody is here: clients pass over what they did not
expect (RFC 9110 section 15.2)."""
ANY_OFFER: Final = re.compile(rb"\r\nupgrade(?=:)", re.IGNORECASE)
OTHER_OFFER: Final = re.compile(rb"\r\nupgrade(?=:(?![ \t]*websocket[ \t]*\r\n))", re.IGNORECASE)
NO_OFFER: Final = b"\r\nUpgrad-"
"""In place of an offer of another protocol, which Java's client makes with every request: older
versions of aiohttp take it as accepted, and the body as the other protocol. As long as what it
replaces, so that no framing depends on it; JSON cannot hold it."""
MAX_HELD_BYTES: Final = 16 * 1024
"""Beyond what is held behind the request that is being served, or of a body that nobody takes yet,
nothing more is read."""
STEPS_AT_ONCE: Final = 64
"""In one turn of the loop, for one connection: twenty or so requests that wait for nothing."""
PIECES_AT_ONCE: Final = 16
BEGUN_BYTES: Final = 64
"""Of a head, by which it is known for whom a WebSocket is offered."""
NEVER_PAUSED: Final = 1 << 30
"""The parser's streams are emptied as they are filled."""
LINGERING_S: Final = 2.0
"""How long the rest of a body that was refused unread is drained, so that the refusal is read."""
READ_ANSWER_WITHIN_S: Final = 60.0
"""A client that lets its answers pile up is served no further, and cut after this."""
PROBES_AFTER_S: Final = (0.1, 0.1, 0.1, 0.3, 2.0)
"""When a client that will send no more is written to: what it has closed answers the first with a
reset, which the second meets, and the fourth where a proxy stands between. Not more than five: some
clients take no more interim answers (Go's)."""


class BodyEnd(enum.Enum):
    """How a body ended."""

    WHOLE = enum.auto()
    BROKEN = enum.auto()
    """It is not framed as HTTP wants it."""
    LATE = enum.auto()
    """It took longer than it may."""
    GONE = enum.auto()
    """The connection was lost, and nobody waits for an answer."""


class BodyTaker(Protocol):
    """Takes a body as it comes."""

    def body_received(self, data: bytes) -> None:
        """A piece of it."""
        ...

    def body_ended(self, end: BodyEnd) -> None:
        """There will be no more; called once."""
        ...


class RequestHandler(Protocol):
    """Serves the requests of a connection."""

    def serve(
        self, connection: HttpConnection, message: RawRequestMessage, body: bytes | None
    ) -> bytes | None:
        """Serve one whose head is here.

        Args:
            connection: by which it came.
            message: its head.
            body: the whole of it; ``None`` where that is not here yet: see ``take_body``.

        Returns:
            The whole answer, on a connection that goes on; or ``None``: the answer has been or will
            be written, and ``connection.has_answered`` called once it is complete. Never raises.
        """
        ...


@part
class HttpConnection(asyncio.Protocol):
    """See the module.

    Attributes:
        server: whose connection it is.
        transport: the socket's; ``None`` once it is lost.
        peer: address of the other end, as text.
        message: the head of the request that is being served; ``None`` between requests.
        keeps_alive: it takes another request after this one's answer.
        has_begun_answer: bytes of that have gone out; set by who writes them.
        awaited_since_s: when the first byte came of a head that is not complete yet, or a body that
            is to be here in time was begun to be taken.
        is_half_closed: the client has closed its sending side and waits for answers.
        ends_with_input: the end of input means here that the client is gone: it has a session's
            stream open.
        on_gone: called once when the connection is lost; set by who serves the present request.
        on_closed: the same, whichever request it came by last.
        on_writable: told when the client does not read what it is sent, and when it does again.
        task: in which the present request is served, if in one.
    """

    server: HttpServer
    _loop: asyncio.AbstractEventLoop = field(init=False)
    _parser: HttpRequestParser = field(init=False)
    _last_used_s: float = field(init=False)
    # What has come and was not given to the parser, from the offset on; the last bytes that it
    # was given, with which the end of a head may begin; heads that it gave, with their bodies.
    _unparsed: bytes = b""
    _offset: int = 0
    _seam: bytes = b""
    # The beginning of a head whose end has not come.
    _begun: bytes = b""
    # What came between two requests and may be one by itself.
    _alone: bytes = b""
    _parsed: list[tuple[RawRequestMessage, StreamReader]] = field(default_factory=list)
    # The body of the present request, and who takes it.
    _content: StreamReader | None = None
    _taker: BodyTaker | None = None
    # Nothing is parsed any more: the bytes were no HTTP, or are of another protocol now.
    _is_broken: bool = False
    _is_upgraded: bool = False
    _refusal: Rejected | None = None
    _is_advancing: bool = False
    _is_lingering: bool = False
    # The client does not read; nothing is read of it, or what takes its body has no room.
    _is_unread: bool = False
    _is_reading_paused: bool = False
    _is_held_back: bool = False
    _timer: asyncio.TimerHandle | None = None
    _probe: Callable[[], bool] | None = None
    _probing: asyncio.TimerHandle | None = None
    transport: asyncio.Transport | None = None
    peer: str = ""
    message: RawRequestMessage | None = None
    keeps_alive: bool = True
    awaited_since_s: float | None = None
    # Whether it was, since somebody looked last; and when that was.
    _is_used: bool = False
    is_half_closed: bool = False
    ends_with_input: bool = False
    has_begun_answer: bool = False
    on_gone: Callable[[], None] | None = None
    on_closed: Callable[[], None] | None = None
    on_writable: Callable[[bool], None] | None = None
    task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        server = self.server
        self._loop = server.loop
        self._parser = HttpRequestParser(
            server.flow,
            server.loop,
            NEVER_PAUSED,
            max_field_size=server.max_field_bytes,
            # A Content-Encoding is refused; decoding it first would let it fail in the reader.
            auto_decompress=False,
        )
        self._last_used_s = server.clock.monotonic()

    # Called by the loop ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - narrows the stub's type
        self.transport = transport
        limit_reads(transport)
        name = transport.get_extra_info("peername")
        self.peer = str(name[0]) if isinstance(name, tuple) and name else ""
        self.server.opened(self)

    def connection_lost(self, exc: BaseException | None) -> None:  # noqa: ARG002 - asyncio's
        """It is gone; tells who serves the present request."""
        self.transport = None
        self.server.closed(self)
        self.end_probing()
        self._end_timer()
        self._parsed.clear()
        self._unparsed, self._offset = b"", 0
        self._end_body(BodyEnd.GONE)
        on_gone, self.on_gone = self.on_gone, None
        if on_gone is not None:
            on_gone()
        on_closed, self.on_closed = self.on_closed, None
        if on_closed is not None:
            on_closed()

    def data_received(self, data: bytes, *, has_waited: bool = False) -> None:
        """Bytes have come; they wait a turn of the loop where a line of an instrument waits."""
        if TURNS.waiting and not has_waited:
            self._loop.call_soon(partial(self.data_received, data, has_waited=True))
            return
        if self.transport is None:
            return
        if self._is_upgraded and self._taker is not None:
            self._taker.body_received(data)
            return
        if self._is_broken and not self._is_upgraded:
            return
        if self._unparsed:
            data = self._unparsed[self._offset :] + data
        # The parser has nothing of a request, and the next may be served at once.
        is_between = (
            self.message is None
            and not (self._parsed or self._begun or self._unparsed)
            and self.awaited_since_s is None
            and not (self._is_unread or self._is_broken or self._is_lingering)
            # The loop reads nothing more of a transport that closes.
            and not (has_waited and self.transport.is_closing())
        )
        if is_between and (known := self.server.heads.find(data)) is not None:
            message, body = known
            self._serve(message, EMPTY_PAYLOAD, body)
            return
        self._alone = data if is_between else b""
        self._unparsed, self._offset = data, 0
        self._advance()

    def eof_received(self) -> bool | None:
        """The client will send no more; true keeps our side open for the answers under way."""
        if self.ends_with_input or self._is_upgraded or not self.server.answers_half_closed:
            return None
        content = self._content
        if content is not None and not content.is_eof() and not self._is_broken:
            # Nobody waits for an answer to half a request.
            return None
        if self.is_idle:
            return None
        self.is_half_closed = True
        self._begin_probing()
        return True

    def pause_writing(self) -> None:
        """The client does not read what it is sent."""
        self._is_unread = True
        if self.on_writable is not None:
            self.on_writable(False)

    def resume_writing(self) -> None:
        """It reads on."""
        self._is_unread = False
        if self.on_writable is not None:
            self.on_writable(True)
        if self.message is None:
            self._end_timer()
            self._loop.call_soon(self._advance)

    # For who serves the present request -----------------------------------------------------

    @property
    def is_body_here(self) -> bool:
        """Whether the present request has been read to its end."""
        return self._content is None or self._content.is_eof()

    def take_body(self, taker: BodyTaker, *, in_time: bool = False) -> None:
        """Have the body as it comes; what there is of it, in this call.

        Args:
            taker: whose it is.
            in_time: it ends ``LATE`` where it takes longer than the server allows.
        """
        self._taker = taker
        if in_time:
            self.awaited_since_s = self.server.clock.monotonic()
        self._pass_body()
        self._regulate()

    def hold_back(self, is_held_back: bool) -> None:
        """Whoever takes the body has no room for more, or has it again."""
        self._is_held_back = is_held_back
        self._regulate()

    def await_answer(self, on_gone: Callable[[], None]) -> None:
        """The answer to the present request comes later.

        Args:
            on_gone: see there.
        """
        self.on_gone = on_gone

    def answer(self, data: bytes) -> None:
        """Send a whole answer."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)
        self.has_answered()

    def has_answered(self) -> None:
        """The present request has its answer, or never will; what came meanwhile is next."""
        if self.message is None:
            return
        if self._probe is not None:
            self.end_probing()
        self.task = self.on_writable = None
        content = self._content
        is_whole = content is None or content is EMPTY_PAYLOAD or content.is_eof()
        keeps_alive = self.keeps_alive
        if self._taker is not None:
            # Whoever was still taking the body of a request that is over.
            self._end_body(BodyEnd.GONE)
        if not keeps_alive or not is_whole or self._is_upgraded:
            self.message = self.on_gone = None
            self._close_behind_answer(is_whole=is_whole)
            return
        self._end_request()
        has_more = self._unparsed or self._parsed or self._refusal is not None
        is_held_up = self._is_unread or self._is_reading_paused or self.is_half_closed
        if not self._is_advancing and (has_more or is_held_up):
            # Not here: whoever ends a call may be in the middle of something.
            self._loop.call_soon(self._advance)

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

    # For who looks after it -----------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether no request is being served, nor waits for that."""
        return (
            self.message is None
            and not self._parsed
            and self._refusal is None
            and not self._unparsed
        )

    def force_close(self) -> None:
        """Close when what was written has gone; nothing is read any more."""
        if self.transport is not None:
            self.transport.close()

    def close_if_idle(self, now_s: float, idle_s: float) -> None:
        """Close if nothing has come or gone for so long; looked after every second or so."""
        if self._is_used or not self.is_idle:
            self._is_used, self._last_used_s = False, now_s
        elif now_s - self._last_used_s >= idle_s and self.awaited_since_s is None:
            self.force_close()

    def cut_slow(self) -> None:
        """What is awaited of the client takes too long: have it said, and close."""
        self.awaited_since_s = None
        if self._taker is not None:
            self._end_body(BodyEnd.LATE)
        elif self.transport is not None:
            self.transport.write(TOO_SLOW)
            self.force_close()

    # Parsing --------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Parse and serve what is here, until there is nothing more or something to wait for."""
        if self._is_advancing:
            return
        self._is_advancing = True
        try:
            for _ in range(1 if TURNS.waiting else STEPS_AT_ONCE):
                if not (self._step() if self._content is None else self._read_on()):
                    break
            else:
                self._loop.call_soon(self._advance)
        finally:
            self._is_advancing = False
        if self._unparsed or self._content is not None or self._is_reading_paused:
            self._regulate()

    def _step(self) -> bool:
        """Go towards the next request; whether there may be another step."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return False
        if self._is_unread:
            # A client that lets its answers pile up is served no further.
            self._start_timer(READ_ANSWER_WITHIN_S, transport.abort)
            return False
        for _ in range(PIECES_AT_ONCE):
            if not self._unparsed or self._is_broken:
                break
            if self._parse() or (self._parsed and self._parsed[0][1].is_eof()):
                break
        if self._parsed:
            self._begin()
            # Without more of the client only a refusal, or its end, can be next.
            return bool(self._unparsed) or self._is_broken or self.is_half_closed
        if self._unparsed and not self._is_broken:
            return True
        if self._refusal is not None:
            transport.write(whole_refusal(self._refusal))
            transport.close()
        elif self.is_half_closed:
            transport.close()
        return False

    def _read_on(self) -> bool:
        """Go on in the body of the present request; whether there may be another step."""
        content = self._content
        if content is None or content.is_eof() or not self._unparsed:
            return False
        if self._is_broken or self._is_held_back:
            return False
        is_cut = self._parse()
        self._pass_body()
        if is_cut:
            self._loop.call_soon(self._advance)
        return not is_cut

    def _parse(self) -> bool:
        """Give the parser the next piece, up to the end of a head if there is one.

        Where it meets what it refuses, it forgets the heads that came in the same bytes.

        Returns:
            Whether the piece was cut, so that others have their turn: a body in chunks of one byte
            takes a millisecond for each KiB. What is left is more than is held, so that the end of
            input is not read before it.
        """
        data, start = self._unparsed, self._offset
        found = data.find(HEAD_END, start)
        end = found + len(HEAD_END) if found >= 0 else len(data)
        if self._seam:
            end = self._end_of_seam(end)
        is_cut = self._is_in_chunks and end - start > 2 * MAX_HELD_BYTES
        if is_cut:
            end = start + MAX_HELD_BYTES
        if end < len(data):
            piece, self._offset = data[start:end], end
            self._seam = piece[-3:] if is_cut and piece[-1] in LINE_END else b""
        else:
            piece = data[start:] if start else data
            self._unparsed, self._offset = b"", 0
            if found < 0 and self._content is None and len(self._begun) < BEGUN_BYTES:
                self._begun += piece[:BEGUN_BYTES]
            if piece[-1] in LINE_END:
                self._seam = (self._seam + piece[-3:])[-3:]
        if b"pgrade" in piece:
            is_taken = self.server.takes_upgrade(self._begun + piece[:BEGUN_BYTES])
            offer = OTHER_OFFER if is_taken else ANY_OFFER
            piece = offer.sub(NO_OFFER, piece)
        try:
            parsed, is_upgraded, tail = self._parser.feed_data(piece)
        except (HttpProcessingError, ValueError) as bad:
            self._break_off(bad)
            return False
        if parsed:
            self._parsed += parsed
            self._begun = b""
            self.awaited_since_s = None
        elif self._content is None and not self._parsed and self.awaited_since_s is None:
            self.awaited_since_s = self.server.clock.monotonic()
        if is_upgraded:
            self._is_broken = self._is_upgraded = True
            self._unparsed, self._offset = tail + self._unparsed[self._offset :], 0
        return is_cut

    @property
    def _is_in_chunks(self) -> bool:
        """Whether what is parsed next may be of a body in chunks."""
        if self._content is None and not self._parsed:
            return False
        newest = self._parsed[-1][0] if self._parsed else self.message
        return newest is None or newest.chunked

    def _end_of_seam(self, end: int) -> int:
        """Where the next piece ends, if the end of a head has begun in the bytes before it."""
        seam, start = self._seam, self._offset
        found = (seam + self._unparsed[start : start + 3]).find(HEAD_END)
        if found >= 0:
            end = start + found + len(HEAD_END) - len(seam)
        if end < len(self._unparsed) or self._unparsed[-1] not in LINE_END:
            self._seam = b""
        return end

    def _break_off(self, bad: Exception) -> None:
        """The parser has refused something; what that was in is told of it, and no one else."""
        self._is_broken = True
        self._unparsed, self._offset = b"", 0
        self.awaited_since_s = None
        newest = self._parsed[-1][1] if self._parsed else self._content
        if newest is not None and not newest.is_eof():
            return
        if isinstance(bad, LineTooLong):
            self._refusal = rejection(431, "The request line or a header is too long.")
        else:
            self._refusal = rejection(400, "This is not an HTTP request that can be served.")

    def _begin(self) -> None:
        message, content = self._parsed.pop(0)
        if self.is_half_closed and not content.is_eof():
            # Nobody waits for an answer to half a request.
            self.force_close()
            return
        body = content.read_nowait() if content.is_eof() else None
        if self._alone and body is not None and self.server.heads.learn(self._alone, message, body):
            self._begun = b""
        self._alone = b""
        self._serve(message, content, body)

    def _serve(self, message: RawRequestMessage, content: StreamReader, body: bytes | None) -> None:
        """Have the next request served.

        Args:
            content: its body as the parser gives it.
            body: all of it, where it has been read to its end.
        """
        self.message = message
        self._content = content
        self.ends_with_input = self.has_begun_answer = False
        self.keeps_alive = not (message.should_close or self.server.is_stopping)
        answer = self.server.handler.serve(self, message, body)
        if answer is not None:
            if self.transport is not None:
                self.transport.write(answer)
            self._end_request()

    def _end_request(self) -> None:
        self.message = self._content = self._taker = self.on_gone = None
        self._is_held_back = False
        self._is_used = True

    # Bodies ---------------------------------------------------------------------------------

    def _pass_body(self) -> None:
        """Hand on what there is of the present body, and its end."""
        content = self._content
        if content is None or (self._taker is None and not self._is_lingering):
            return
        data = content.read_nowait()
        if self._is_lingering:
            if content.is_eof() or self._is_broken:
                self.force_close()
            return
        if data and self._taker is not None:
            self._taker.body_received(data)
        if content.is_eof():
            self._end_body(BodyEnd.WHOLE)
        elif self._is_broken:
            self._end_body(BodyEnd.BROKEN)

    def _end_body(self, end: BodyEnd) -> None:
        taker, self._taker = self._taker, None
        self.awaited_since_s = None
        if taker is not None:
            taker.body_ended(end)

    def take_upgraded(self, taker: BodyTaker) -> None:
        """Have all that comes from now on: the client and its taker speak another protocol."""
        self._taker = taker
        data, self._unparsed, self._offset = self._unparsed[self._offset :], b"", 0
        if data:
            taker.body_received(data)

    @property
    def is_upgraded(self) -> bool:
        """Whether the present request asks for another protocol, which is spoken behind it."""
        return self._is_upgraded

    def _close_behind_answer(self, *, is_whole: bool) -> None:
        """Close once the answer is read: what has not been read is drained for a while."""
        transport = self.transport
        self.awaited_since_s = None
        if transport is None or transport.is_closing():
            return
        if is_whole or self._is_broken or self.is_half_closed:
            transport.close()
            return
        self._is_lingering = True
        self._is_held_back = False
        self._start_timer(LINGERING_S, transport.close)
        self._pass_body()
        if not self._is_advancing:
            self._loop.call_soon(self._advance)

    def _regulate(self) -> None:
        """Read on, or leave in the kernel what has no room here."""
        transport = self.transport
        if transport is None:
            return
        content, held = self._content, len(self._unparsed) - self._offset
        if (
            content is not None
            and not content.is_eof()
            and self._taker is None
            and not self._is_lingering
        ):
            held += content.total_bytes
        is_full = self._is_held_back or held > MAX_HELD_BYTES
        if is_full == self._is_reading_paused or transport.is_closing():
            return
        self._is_reading_paused = is_full
        if is_full:
            transport.pause_reading()
        else:
            transport.resume_reading()
            if self._unparsed:
                self._loop.call_soon(self._advance)

    def _start_timer(self, after_s: float, then: Callable[[], None]) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(after_s, then)

    def _end_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Half-closed clients --------------------------------------------------------------------

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


def whole_refusal(refusal: Rejected) -> bytes:
    """The last answer on a connection, to what was no request."""
    phrase = HTTPStatus(refusal.status).phrase.encode("ascii")
    return (
        b"HTTP/1.1 %d %b\r\nContent-Type: application/json\r\n"
        b"Connection: close\r\nContent-Length: %d\r\n\r\n%b"
        % (refusal.status, phrase, len(refusal.body), refusal.body)
    )


TOO_SLOW: Final = whole_refusal(rejection(408, "The request did not arrive in time."))


LOOK_EVERY_S: Final = 1.0
"""How much later than its bound a slow sender may be cut."""
ABORTED_WITHIN_S: Final = 1.0


def no_upgrade(_head: bytes) -> bool:
    """Take no offer of a WebSocket."""
    return False


class _NoFlow(BaseProtocol):
    """What the parser's streams ask to pause: never, since they are emptied as they are filled."""

    def pause_reading(self) -> None:
        """Called by a stream that is full."""

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Called by a stream that was emptied, and by newer ones with their end."""


@part
class HttpServer:
    """Makes a connection for each accepted socket; made on the loop that it serves on.

    Attributes:
        handler: serves the requests.
        clock: for bounds.
        slow_sender_s: how long the head of a request may take, and a body that is to be in time.
        idle_s: how long a connection may be without a request.
        max_field_bytes: the longest header.
        answers_half_closed: otherwise the end of what a client sends is the end of the connection.
        takes_upgrade: whether an offer of a WebSocket is the handler's to take, by the beginning of
            its head; else it is passed over.
        connections: those that are open.
        loop: on which they live.
        is_stopping: no connection takes another request.
        flow, heads: see there.
    """

    handler: RequestHandler
    clock: Clock
    slow_sender_s: float
    idle_s: float
    takes_upgrade: Callable[[bytes], bool]
    max_field_bytes: int = MAX_HEADER_BYTES
    answers_half_closed: bool = True
    flow: BaseProtocol = field(init=False)
    connections: set[HttpConnection] = field(default_factory=set)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    heads: ReadHeads = field(default_factory=ReadHeads)
    is_stopping: bool = False
    _is_empty: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.flow = _NoFlow(self.loop)

    def __call__(self) -> HttpConnection:
        """The protocol of one accepted socket."""
        return HttpConnection(self)

    async def look_after(self) -> None:
        """Break connections off whose request never ends, and close those that nobody uses.

        Until cancelled; owned by the listener.
        """
        while True:
            await self.clock.sleep(min(self.slow_sender_s / 4, LOOK_EVERY_S))
            now_s = self.clock.monotonic()
            begun_before_s = now_s - self.slow_sender_s
            for connection in tuple(self.connections):
                since_s = connection.awaited_since_s
                if since_s is not None and since_s <= begun_before_s:
                    connection.cut_slow()
                else:
                    connection.close_if_idle(now_s, self.idle_s)

    async def stop(self, within_s: float) -> None:
        """Close every connection; who is being served then has this long to take its answer."""
        self.is_stopping = True
        for connection in tuple(self.connections):
            connection.keeps_alive = False
            if connection.is_idle:
                connection.force_close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._all_closed()
        tasks = []
        for connection in tuple(self.connections):
            if connection.task is not None:
                connection.task.cancel(ENGINE_STOPPED)
                tasks.append(connection.task)
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Lost connections are told by the loop, soon.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ABORTED_WITHIN_S):
                await self._all_closed()

    def opened(self, connection: HttpConnection) -> None:
        """One more; called by it."""
        self.connections.add(connection)

    def closed(self, connection: HttpConnection) -> None:
        """One is gone; called by it."""
        self.connections.discard(connection)
        if not self.connections:
            self._is_empty.set()

    async def _all_closed(self) -> None:
        while self.connections:
            self._is_empty.clear()
            await self._is_empty.wait()
