"""One proxied connection: a client on one side, the engine's loopback port on the other.

Both sides are bare protocols, so that a call costs two copies of its bytes and little else. What
one side does not read, the other does not get to send; a half that closes closes the same half over
there. The engine's side is opened by the first request and lives as long as the client's.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, Protocol

from edged.http.accepting import keep_alive, limit_reads
from edged.http.pulse import Pulse
from edged.protocol.hislip import FatalCode, fatal, message
from edged.protocol.http_rules import Rejected, rejection
from edged.record import record
from edged.supervisor.http_framing import BadFramingError, Framer
from edged.supervisor.peer_header import PEER_HEADER, PEER_MESSAGE

LINGER_S: Final = 1.0
"""Closing at once with the request unread would reset the answer away."""
HIGH_WATER: Final = 256 * 1024
MAX_WAITING: Final = 1024 * 1024
NO_HTTP: Final = b"\0\r\n\r\n"
"""What the engine refuses wherever it stands outside of a body of known length."""
REASONS: Final = {400: "Bad Request", 403: "Forbidden", 408: "Request Timeout"}
HISLIP_AWAY: Final = fatal(
    FatalCode.UNIDENTIFIED, "The engine is not running; it is being started again."
)


@record(kw_only=False)
class Refusal:
    """Why a client must go: HTTP's number for it, and the sentence.

    Attributes:
        is_soon_over: it may come again in a second.
    """

    status: int
    text: str
    is_soon_over: bool = False


class Switchboard(Protocol):
    """What a connection needs of the proxy it belongs to."""

    def opened(self, client: CarriedConnection, host: str, port: int) -> Refusal | None:
        """A client has come; why it must go, or ``None``."""
        ...

    def closed(self, client: CarriedConnection) -> None:
        """It is gone."""
        ...

    def peer_value(self, host: str) -> str:
        """What tells the engine whose connection it is."""
        ...

    def connect(self, made: Callable[[], asyncio.Protocol]) -> asyncio.Task[bool] | None:
        """Begin to connect to the engine; ``None`` while there is none. False: it did not work."""
        ...

    def now(self) -> float:
        """Monotonic seconds."""
        ...

    @property
    def pulse(self) -> Pulse:
        """When the engine was heard."""
        ...


def peer_of(transport: asyncio.BaseTransport) -> tuple[str, int]:
    """Address and port of whoever connected; an IPv4 address as such, no zone."""
    name = transport.get_extra_info("peername") or ("", 0)
    host = str(name[0]).partition("%")[0]
    return host.removeprefix("::ffff:") if "." in host else host, int(name[1])


def refusal_bytes(refused: Rejected) -> bytes:
    """A whole answer that ends the connection."""
    reason = REASONS.get(refused.status, "Service Unavailable" if refused.status == 503 else "No")
    head = [f"HTTP/1.1 {refused.status} {reason}", *(f"{n}: {v}" for n, v in refused.headers)]
    head += ["Connection: close", f"Content-Length: {len(refused.body)}"]
    return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + refused.body


LOOK_AGAIN: Final = ("Refresh", "1")
"""For a browser that opened the page meanwhile: it gets it by itself, once there is an engine."""
SOON: Final = (("Retry-After", "1"), LOOK_AGAIN)
AWAY: Final = refusal_bytes(
    rejection(
        503,
        "The engine is not running; it is being started again.",
        headers=SOON,
    )
)
LOST: Final = refusal_bytes(
    rejection(
        503,
        "The engine ended with this request unanswered, and is being started again. What was asked "
        "may have been carried out: look at the state before you ask for it again.",
        headers=(LOOK_AGAIN,),
    )
)
SILENT: Final = refusal_bytes(
    rejection(
        503,
        "The engine does not answer at the moment. Nothing of this request was passed on to it; "
        "try again in a second.",
        headers=SOON,
    )
)
UNANSWERED: Final = refusal_bytes(
    rejection(
        503,
        "The engine does not answer. This request was passed on before that was seen, and may "
        "still be carried out: look at the state before you ask for it again.",
        headers=(LOOK_AGAIN,),
    )
)


class CarriedConnection(asyncio.Protocol):
    """The side that was connected to, whatever is spoken on it.

    Args:
        board: the proxy.

    Attributes:
        head_since_s: since when it has owed its first bytes, or the rest of a request's head.
        asked_s: when the latest request was passed on; ``None`` when nothing waits for an answer.
    """

    def __init__(self, board: Switchboard) -> None:
        self._board = board
        self._transport: asyncio.Transport | None = None
        self._engine: EngineSide | None = None
        self._connecting: asyncio.Task[bool] | None = None
        self._waiting = bytearray()
        self._is_refused = False
        self.head_since_s: float | None = None
        self.asked_s: float | None = None

    # from asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - narrows the stub's type
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER)
        limit_reads(transport)
        host, port = peer_of(transport)
        refused = self._board.opened(self, host, port)
        self.head_since_s = self._board.now()
        if refused is not None:
            self.turn_away(refused)
        self.welcome(self._board.peer_value(host))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Called by the loop."""
        self._transport = None
        self._board.closed(self)
        if self._engine is not None:
            self._engine.drop()

    def pause_writing(self) -> None:
        """Called by the loop: the client reads too slowly."""
        if self._engine is not None:
            self._engine.pause_reading()

    def resume_writing(self) -> None:
        """Called by the loop."""
        if self._engine is not None:
            self._engine.resume_reading()

    # what is spoken decides

    @abc.abstractmethod
    def welcome(self, whose: str) -> None:
        """It is connected; ``whose`` tells the engine."""

    @abc.abstractmethod
    def turn_away(self, refused: Refusal) -> None:
        """It must go."""

    @abc.abstractmethod
    def away(self) -> None:
        """The engine cannot be reached."""

    @abc.abstractmethod
    def answer(self, data: bytes) -> None:
        """Bytes from the engine."""

    @abc.abstractmethod
    def engine_ended(self) -> None:
        """The engine will send no more."""

    @abc.abstractmethod
    def cut_slow(self) -> None:
        """What it owes takes too long."""

    @abc.abstractmethod
    def refuse_unanswered(self) -> None:
        """The engine is silent, and was asked something since it was last heard."""

    # from the engine's side

    def engine_made(self, engine: EngineSide) -> None:
        """The engine's side is open."""
        self._engine, self._connecting = engine, None
        if self._transport is None:
            engine.drop()
            return
        engine.write(bytes(self._waiting))
        self._waiting.clear()
        self._transport.resume_reading()

    def pause_reading(self) -> None:
        """The engine reads too slowly."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """It has caught up."""
        if self._transport is not None:
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close now."""
        if self._transport is not None:
            self._transport.abort()

    # for those who know what is spoken

    def pass_on(self, data: bytes) -> None:
        """To the engine, which is connected to for the first bytes."""
        if self._engine is not None:
            self._engine.write(data)
            return
        self._waiting += data
        if self._connecting is None:
            self._connecting = self._board.connect(lambda: EngineSide(self))
            if self._connecting is None:
                self.away()
                return
            self._connecting.add_done_callback(self._connected)
        if len(self._waiting) >= MAX_WAITING:
            self.pause_reading()

    def refuse(self, answer: bytes) -> None:
        """Send a last answer, and close when the client has had time to read it."""
        self._is_refused = True
        self.head_since_s = self.asked_s = None
        self._waiting.clear()
        if self._engine is not None:
            self._engine.drop()
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(answer)
        with contextlib.suppress(OSError):  # who has reset it hears nothing of its end
            self._transport.write_eof()
        self._transport.resume_reading()
        asyncio.get_running_loop().call_later(LINGER_S, self.abort)

    def _connected(self, task: asyncio.Task[bool]) -> None:
        self._connecting = None
        if (task.cancelled() or not task.result()) and not self._is_refused:
            self.away()


class ClientSide(CarriedConnection):
    """A client that speaks HTTP."""

    def __init__(self, board: Switchboard) -> None:
        super().__init__(board)
        self._pulse = board.pulse
        self._framer: Framer | None = None
        self._is_spoilt = False
        self._is_half_closed = False
        self._answered_heads = 0

    def welcome(self, whose: str) -> None:
        self._framer = Framer(PEER_HEADER, whose)

    def turn_away(self, refused: Refusal) -> None:
        headers = SOON if refused.is_soon_over else ()
        self.refuse(refusal_bytes(rejection(refused.status, refused.text, headers=headers)))

    def away(self) -> None:
        self.refuse(AWAY)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if self._is_refused or self._is_spoilt or self._framer is None:
            return
        known = self._framer.heads
        try:
            passed = self._framer.feed(data)
        except BadFramingError as bad:
            self._take_no_more(self._framer, bad)
            return
        if not self._framer.is_in_head:
            self.head_since_s = None
        elif self.head_since_s is None:
            self.head_since_s = self._board.now()
        if self._framer.heads > known:
            if self._pulse.is_silent and self._answered_heads == known:
                self.refuse(SILENT)
                return
            self.asked_s = self._pulse.asked()
        if passed:
            self.pass_on(passed)

    def eof_received(self) -> bool:
        """Called by the loop; true keeps our half open for the answer."""
        self._is_half_closed = True
        if self._engine is not None:
            self._engine.half_close()
        return not self._is_refused and (self._engine is not None or self._connecting is not None)

    # from the engine's side

    def engine_made(self, engine: EngineSide) -> None:
        super().engine_made(engine)
        if self._transport is not None and self._is_half_closed:
            engine.half_close()

    def answer(self, data: bytes) -> None:
        """Bytes from the engine."""
        self._pulse.heard()
        self.asked_s = None
        framer = self._framer
        if framer is not None:
            self._answered_heads = framer.heads
        if self._transport is not None and not self._is_refused:
            self._transport.write(data)
        if framer is not None and framer.awaits_answer:
            self._go_on(framer, data)

    def _go_on(self, framer: Framer, answer: bytes) -> None:
        """Whether it is a WebSocket now was said; what had to wait for that is passed on."""
        try:
            held = framer.answered(answer)
        except BadFramingError as bad:
            self._take_no_more(framer, bad)
            return
        if held:
            self.pass_on(held)

    def engine_ended(self) -> None:
        """The engine will send no more."""
        if self._transport is None or self._is_refused:
            return
        if self._framer is not None and self._framer.heads > self._answered_heads:
            self.refuse(LOST)
        else:
            self._transport.close()

    # from the proxy

    def cut_slow(self) -> None:
        """The head of its request takes too long."""
        self.head_since_s = None
        if self._framer is not None and self._framer.is_between:
            self.abort()
        else:
            self.refuse(refusal_bytes(rejection(408, "The request did not arrive in time.")))

    def refuse_unanswered(self) -> None:
        """The engine is silent, and was asked something since it was last heard."""
        self.refuse(SILENT if self._engine is None else UNANSWERED)

    def _take_no_more(self, framer: Framer, bad: BadFramingError) -> None:
        """What comes from now on cannot be followed."""
        if framer.heads == 0:
            self.refuse(refusal_bytes(rejection(bad.status, str(bad))))
            return
        # Only the engine knows where its answers end, behind which the refusal belongs.
        self._is_spoilt = True
        self.head_since_s = None
        self.pass_on(bad.passed + NO_HTTP)


class HislipSide(CarriedConnection):
    """A client that speaks HiSLIP: before its bytes the engine hears whose they are.

    A session has two connections, and each comes through here by itself. The peer's address goes
    in a vendor's message of HiSLIP with the secret that both processes know (``peer_header.py``);
    the rest is passed on as it is.
    """

    def welcome(self, whose: str) -> None:
        if self._transport is not None:
            keep_alive(self._transport.get_extra_info("socket"))
        self._waiting += message(PEER_MESSAGE, payload=whose.encode("ascii", "replace"))

    def turn_away(self, refused: Refusal) -> None:
        is_full = refused.status == 503
        code = FatalCode.TOO_MANY_CLIENTS if is_full else FatalCode.UNIDENTIFIED
        self.refuse(fatal(code, refused.text))

    def away(self) -> None:
        self.refuse(HISLIP_AWAY)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if not self._is_refused:
            self.head_since_s = None
            self.pass_on(data)

    def answer(self, data: bytes) -> None:
        self._board.pulse.heard()
        if self._transport is not None and not self._is_refused:
            self._transport.write(data)

    def engine_ended(self) -> None:
        if self._transport is not None and not self._is_refused:
            self._transport.close()

    def cut_slow(self) -> None:
        """It has never said anything."""
        self.abort()

    def refuse_unanswered(self) -> None:
        """Not asked of it: what waits for an instrument is not told from what waits for us."""


class EngineSide(asyncio.Protocol):
    """The side that connects to the engine."""

    def __init__(self, client: CarriedConnection) -> None:
        self._client = client
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - narrows the stub's type
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER)
        limit_reads(transport)
        self._client.engine_made(self)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self._client.answer(data)

    def eof_received(self) -> None:
        """Called by the loop."""
        self._client.engine_ended()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Called by the loop."""
        self._transport = None
        self._client.engine_ended()

    def pause_writing(self) -> None:
        """Called by the loop: the engine reads too slowly."""
        self._client.pause_reading()

    def resume_writing(self) -> None:
        """Called by the loop."""
        self._client.resume_reading()

    def write(self, data: bytes) -> None:
        """Send to the engine."""
        if self._transport is not None:
            self._transport.write(data)

    def half_close(self) -> None:
        """The client will send no more."""
        if self._transport is not None and self._transport.can_write_eof():
            self._transport.write_eof()

    def pause_reading(self) -> None:
        """Take no more of the engine's bytes for now."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take them again."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def drop(self) -> None:
        """The client is gone: so the engine notices at once."""
        if self._transport is not None:
            self._transport.abort()
