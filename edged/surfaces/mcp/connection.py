"""One client connection of the MCP port, with what is needed there beyond ``edged.http``.

- whoever serves a request can learn at once that the client is gone;
- a request head that never ends is noticed (``listener`` cuts it);
- a request whose head is known and that waits for nothing, or for one answer of an instrument, is
  answered without aiohttp; what comes while one waits is kept until it has its answer.

The last needs to know that aiohttp's parser stands between two messages: so every byte that goes to
it is counted, and a connection that once sent anything but plain whole requests, one after the
other, is left to aiohttp from then on.

A client sends the same head over and over. The first time aiohttp parses it and ``protocol`` judges
it; both are pure functions of the bytes, so after that the bytes alone say what came of it. Kept
are only heads that passed, of requests whose framing is plain: a Content-Length or nothing, no
``Expect``, no ``Transfer-Encoding``, no token; and only from the second time on, so that sessions
that come, ask a thing or two and are abandoned fill no memory.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from aiohttp import web

from edged.clock import Clock
from edged.http.connection import HEAD_END, HttpConnection
from edged.protocol.http_rules import MAX_HEADER_BYTES, Accepted, rejection
from edged.surfaces.mcp.seams import Choice

__all__ = [
    "WAITS",
    "ConnectionServer",
    "Front",
    "HeadBook",
    "KnownHead",
    "McpConnection",
    "body_size",
]

LINGERING_S: Final = 2.0
"""How long the rest of a body that was refused unread is drained, so that the refusal is read."""

NEVER_S: Final = 10 * 365 * 86_400.0
"""aiohttp does not see every request, so it must not judge who is idle; ``listener`` does."""
MAX_HELD_BYTES: Final = 16 * 1024
"""A known head waits for a body of this size at most; beyond, aiohttp collects it. While a call
waits for its answer nothing more is read beyond it."""
WAITS: Final = b""
UNREAD_BYTES: Final = 64 * 1024
"""Whoever leaves more than this unread is served by ``Endpoint.handle``, which waits for him."""


MAX_HEADS: Final = 2_048
"""A thousand sessions with two lengths of body each; 2 KB or so a head."""
MAX_HEAD_BYTES: Final = 2_048
_LENGTH_NAME: Final = re.compile(rb"\r\ncontent-length", re.IGNORECASE)
_LENGTH: Final = re.compile(
    rb"\r\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*(?=\r\n|\Z)", re.IGNORECASE
)
# Other framings, folded lines, and line ends that readers disagree about.
_ODD: Final = re.compile(
    rb"\r\n(?:transfer-encoding|expect|upgrade|trailer)|\r\n[ \t]|(?<!\r)\n|\r(?!\n)|\0",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownHead:
    """What came of a head.

    Attributes:
        accepted: the verdict.
        choice: what its query chooses of tools/list.
        body_bytes: how long the body after it is.
    """

    accepted: Accepted
    choice: Choice
    body_bytes: int


class HeadBook:
    """The heads that are known."""

    def __init__(self) -> None:
        self._heads: dict[bytes, KnownHead] = {}
        # Hashes of heads that came once; two heads with one hash do no harm.
        self._seen_once: dict[int, None] = {}
        self.find = self._heads.get

    def learn(self, head: bytes, accepted: Accepted, choice: Choice) -> None:
        """Remember a head (without the empty line) that passed; an unusual one is not kept."""
        if not self._is_back(head):
            return
        size = body_size(head)
        if size is None or len(head) > MAX_HEAD_BYTES:
            return
        if len(self._heads) >= MAX_HEADS:
            del self._heads[next(iter(self._heads))]
        self._heads[head] = KnownHead(accepted=accepted, choice=choice, body_bytes=size)

    def _is_back(self, head: bytes) -> bool:
        """Whether it came before; at its first time that is noted."""
        key = hash(head)
        if key in self._seen_once:
            del self._seen_once[key]
            return True
        if len(self._seen_once) >= MAX_HEADS:
            del self._seen_once[next(iter(self._seen_once))]
        self._seen_once[key] = None
        return False


def body_size(head: bytes) -> int | None:
    """How many bytes of body follow a head; ``None`` where only a real parser should say."""
    if _ODD.search(head) is not None:
        return None
    lengths = _LENGTH.findall(head)
    if len(lengths) != len(_LENGTH_NAME.findall(head)) or len(lengths) > 1:
        return None
    return int(lengths[0]) if lengths else 0


class Front(Protocol):
    """Who answers.

    Attributes:
        heads: the heads that are known.
    """

    heads: HeadBook

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Serve a request that aiohttp has read."""
        ...

    def answer_at_once(
        self, head: KnownHead, body: bytes, connection: McpConnection
    ) -> bytes | None:
        """The whole answer to one with a known head; ``None`` if ``handle`` must serve it.

        Nothing (``WAITS``) where the answer comes later: see ``Connection.await_answer``.
        """
        ...


class ConnectionBook(Protocol):
    """Who wants to know of connections."""

    def opened(self, connection: McpConnection) -> None:
        """It is open."""
        ...

    def closed(self, connection: McpConnection) -> None:
        """It is gone."""
        ...


class McpConnection(HttpConnection):
    """See the module.

    Attributes:
        peer: address of the other end, as text.
        head_since_s: when the first byte of a request came that is not complete yet (of one that
            aiohttp reads: whose head is not).
        last_used_s: when it last had something to do.
        ends_with_input: the end of input means here that the client is gone: its body was not
            complete, or it has a session's stream open.
        on_gone: called once when the connection is lost; set by who serves the present request.
    """

    log_name = "edged.mcp"

    __slots__ = (
        "_book",
        "_clock",
        "_front",
        "_held",
        "_is_paused",
        "_is_plain",
        "_is_waiting",
        "_new_head",
        "_owed_bytes",
        "ends_with_input",
        "head_since_s",
        "last_used_s",
        "on_gone",
        "peer",
    )

    def __init__(
        self,
        server: web.Server,
        *,
        front: Front,
        book: ConnectionBook,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=NEVER_S,
            max_field_size=MAX_HEADER_BYTES,
            lingering_time=LINGERING_S,
            # A Content-Encoding is refused; decoding it first would let it fail in the reader.
            auto_decompress=False,
        )
        self._front = front
        self._book = book
        self._clock = clock
        # Whether aiohttp's parser has got only whole plain requests so far, but for the bytes of
        # the last one's body that are still owed; the head that it got last, if it is not known;
        # and a known head that waits for its body.
        self._is_plain = True
        self._owed_bytes = 0
        self._new_head = b""
        self._held = b""
        # A call that came with a known head waits for its answer; and nothing is read meanwhile.
        self._is_waiting = False
        self._is_paused = False
        self.last_used_s = clock.monotonic()
        self.peer = ""
        self.head_since_s: float | None = None
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
        """Called by the loop; without data by aiohttp, to let its parser go on."""
        if not data:
            super().data_received(data)
            return
        if self._held:
            data, self._held = self._held + data, b""
        if self._is_waiting:
            self._hold(data)
            return
        is_between = self._is_plain and self._owed_bytes == 0 and self.is_idle
        if not (is_between and self._take(data)):
            self._hand_on(data)

    def _take(self, data: bytes) -> bool:
        """Whether a request whose head is known was answered, or waits for the rest of its body."""
        head, end, body = data.partition(HEAD_END)
        known = self._front.heads.find(head) if end else None
        if known is None:
            self._new_head = head
            return False
        missing = known.body_bytes - len(body)
        if missing > 0 and known.body_bytes <= MAX_HELD_BYTES:
            self._held = data
            if self.head_since_s is None:
                self.head_since_s = self._clock.monotonic()
            return True
        if missing != 0 or self.transport is None:
            return False
        if self.transport.get_write_buffer_size() > UNREAD_BYTES:
            return False
        answer = self._front.answer_at_once(known, body, self)
        if answer is None:
            return False
        self.head_since_s = None
        self.last_used_s = self._clock.monotonic()
        if answer:
            self.transport.write(answer)
        return True

    def await_answer(self, on_gone: Callable[[], None]) -> None:
        """The answer to the present request comes later, and after it what came meanwhile.

        Args:
            on_gone: see there.
        """
        self._is_waiting = True
        self.on_gone = on_gone

    def has_answered(self) -> None:
        """The request that waited has its answer, or never will."""
        self._is_waiting = False
        self.on_gone = None
        self.end_probing()
        self.last_used_s = self._clock.monotonic()
        if self.transport is None:
            return
        if self._is_paused:
            self._is_paused = False
            self.transport.resume_reading()
        if self._held or self.is_half_closed:
            # Not here: whoever ends a call may be in the middle of something.
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Serve what came while a call waited, unless that has been done with what followed it."""
        held, self._held = self._held, b""
        if held:
            self.data_received(held)
        if self.is_half_closed and self.is_idle and self.transport is not None:
            self.transport.close()

    def _hold(self, data: bytes) -> None:
        """Keep what came while a call waits; too much of it stays in the kernel."""
        self._held = data
        if len(data) > MAX_HELD_BYTES and not self._is_paused and self.transport is not None:
            self._is_paused = True
            self.transport.pause_reading()

    def _hand_on(self, data: bytes) -> None:
        """Leave it to aiohttp, and count what its parser has got."""
        if self._is_plain:
            if self._owed_bytes > 0:
                self._owed_bytes -= len(data)
            else:
                head, end, body = data.partition(HEAD_END)
                size = body_size(head) if end else None
                self._owed_bytes = -1 if size is None else size - len(body)
            if self._owed_bytes < 0:
                self._is_plain, self._new_head = False, b""
        super().data_received(data)
        if self.head_since_s is None and self.is_idle:
            self.head_since_s = self._clock.monotonic()

    def eof_received(self) -> bool | None:  # type: ignore[override] # as there
        """Called by the loop; true keeps our sending side open for the answer under way."""
        if self._held and not self._is_waiting:
            held, self._held = self._held, b""
            self._hand_on(held)
        return None if self.ends_with_input else super().eof_received()

    def begin(self) -> bytes:
        """A request of this connection is being served from now on.

        Returns:
            The bytes of its head, if that is plain and not known yet; else nothing.
        """
        self.head_since_s = None
        self.ends_with_input = False
        head, self._new_head = self._new_head, b""
        return head

    def rest(self) -> None:
        """The request has been served."""
        self.last_used_s = self._clock.monotonic()

    def close_if_idle(self, since_s: float) -> None:
        """Close if nothing has come or gone since that monotonic time."""
        if self.last_used_s <= since_s and self.head_since_s is None and self.is_idle:
            self.force_close()

    def cut_slow(self) -> None:
        """The head of a request takes too long: say so and close."""
        self.head_since_s = None
        if self.transport is not None:
            self.transport.write(TOO_SLOW)
        self.force_close()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being served, nor waits for that."""
        # As there; asking it costs more, and this is asked for every request.
        waiter = self._waiter
        return not self._is_waiting and waiter is not None and not waiter.done()


_SLOW: Final = rejection(408, "The request did not arrive in time.")
TOO_SLOW: Final = (
    b"HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(_SLOW.body), _SLOW.body)
)


class ConnectionServer(web.Server):
    """aiohttp's low-level server, making ``McpConnection``s."""

    def __init__(self, front: Front, *, book: ConnectionBook, clock: Clock) -> None:
        super().__init__(front.handle)
        self._front = front
        self._book = book
        self._clock = clock

    def __call__(self) -> McpConnection:
        """The protocol of one accepted socket."""
        return McpConnection(
            self,
            front=self._front,
            book=self._book,
            clock=self._clock,
            loop=asyncio.get_running_loop(),
        )
