"""A front's end of exchanges: requests to edges, and what they answer.

Each exchange's answers come back to the very front that asked, by its id in their subject. Whoever
leaves one before its answer is whole tells the edge so, and while it lasts both sides say that they
are there.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Final

import structlog

from edged.clock import Clock
from edged.record import record
from edged.relay.carrier import RelayWire
from edged.relay.envelope import (
    CHUNK_BYTES,
    WINDOW_BYTES,
    Alive,
    AnswerEnd,
    BadEnvelopeError,
    Body,
    Cancel,
    Credit,
    Data,
    Envelope,
    Head,
    Headers,
    Open,
    decode,
    down_subject,
    encode,
    up_subject,
)
from edged.relay.link import RelayMessage

OFFLINE_S: Final = 1.5
"""How long an edge may take to say that it has a request."""
SILENT_S: Final = 15.0
ALIVE_EVERY_S: Final = 4.0
LOOK_FOR_CLIENT_S: Final = 0.25
MAX_EXCHANGES: Final = 10_000


class BrokenError(Exception):
    """The edge is not there, or its answer cannot be completed."""


class NoRoomError(Exception):
    """There are too many exchanges already."""


@record
class Asked:
    """A request to an edge; the members are those of ``Open``."""

    verb: str
    query: str = ""
    headers: Headers
    token: str
    peer: str
    body: bytes


def _is_here() -> bool:
    return True


class EdgeExchange:
    """One request under way.

    Attributes:
        inbox: what the edge sent; bounded by the credit it has. ``None``: nobody, or no sense.
        is_here: whether whoever waits for the answer still does.
        was_taken: the edge has said that it has the request, so that it may be carried out.
    """

    def __init__(self, edge_id: str, owner: Exchanges, is_here: Callable[[], bool]) -> None:
        self.id = secrets.token_hex(12)
        self.edge_id = edge_id
        self.inbox: asyncio.Queue[Envelope | None] = asyncio.Queue()
        self.is_here = is_here
        self.was_taken = False
        self._owner = owner

    async def head(self, taken_within_s: float = OFFLINE_S) -> Head:
        """The head of the answer.

        Args:
            taken_within_s: how long the edge may take to say that it has the request; then the
                request is taken back, and who asked may do something else.

        Raises:
            BrokenError: the edge has not got the request, or has fallen silent.
            ConnectionError: nobody waits for it any more.
        """
        envelope = await self._next(taken_within_s)
        while isinstance(envelope, Alive):
            self.was_taken = True
            envelope = await self._next(SILENT_S)
        if not isinstance(envelope, Head):
            raise BrokenError
        return envelope

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body of the answer, to its end.

        Raises:
            BrokenError: a piece was lost, or it broke off.
            ConnectionError: nobody waits for it any more.
        """
        number = owed = 0
        while True:
            match await self._next(SILENT_S):
                case Data(number=at, data=data) if at == number:
                    number += 1
                    yield data
                    owed += len(data)
                    if owed >= WINDOW_BYTES // 2:
                        await self._owner.tell(
                            self, Credit(exchange=self.id, front=self._owner.id, size=owed)
                        )
                        owed = 0
                case Alive():
                    continue
                case AnswerEnd(number=at, is_whole=True) if at == number:
                    return
                case _:
                    raise BrokenError

    async def _next(self, within_s: float) -> Envelope | None:
        """What the edge says next; looks whether somebody waits for it meanwhile."""
        clock = self._owner.clock
        deadline_s = clock.monotonic() + within_s
        while True:
            if not self.inbox.empty():
                return self.inbox.get_nowait()
            if not self.is_here():
                raise ConnectionResetError
            left_s = deadline_s - clock.monotonic()
            if left_s <= 0:
                raise BrokenError
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, LOOK_FOR_CLIENT_S)):
                    return await self.inbox.get()


class Exchanges:
    """All exchanges of one front.

    Args:
        wire: the way to the edges.
        is_connected: whether what is published goes out now.
        clock: for silence.

    Attributes:
        id: this front's, in the subjects that answers come by.
    """

    def __init__(self, wire: RelayWire, *, is_connected: Callable[[], bool], clock: Clock) -> None:
        self._wire = wire
        self._is_connected = is_connected
        self.clock = clock
        self.id = secrets.token_hex(8)
        self._log = structlog.get_logger("edged.relay")
        self._open: dict[str, EdgeExchange] = {}
        self._sweeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to hear answers; the wire may be opened before or after."""
        await self._wire.subscribe(up_subject("*", self.id, "*"), self._hear)
        self._sweeping = asyncio.create_task(self._sweep(), name="relay front sweep")

    async def stop(self) -> None:
        """Break off what is under way."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        for exchange in self._open.values():
            exchange.inbox.put_nowait(AnswerEnd(exchange=exchange.id, number=-1, is_whole=False))

    @contextlib.asynccontextmanager
    async def opened(
        self, edge_id: str, asked: Asked, *, is_here: Callable[[], bool] = _is_here
    ) -> AsyncIterator[EdgeExchange]:
        """Ask an edge; leaving it by an error tells the edge that nobody waits any more.

        Raises:
            NoRoomError: there are too many.
            BrokenError: the broker is away.
            ConnectionError: too much waits for the broker.
        """
        if len(self._open) >= MAX_EXCHANGES:
            raise NoRoomError
        exchange = EdgeExchange(edge_id, self, is_here)
        self._open[exchange.id] = exchange
        is_whole = False
        try:
            await self._send(exchange, asked)
            yield exchange
            is_whole = True
        finally:
            del self._open[exchange.id]
            if not is_whole:
                await self.tell(exchange, Cancel(exchange=exchange.id, front=self.id))

    async def tell(self, exchange: EdgeExchange, envelope: Envelope) -> None:
        """Say something to its edge; what cannot go out is lost."""
        with contextlib.suppress(ConnectionError):
            await self._wire.publish(down_subject(exchange.edge_id), encode(envelope))

    async def _send(self, exchange: EdgeExchange, asked: Asked) -> None:
        if not self._is_connected():
            raise BrokenError
        body = asked.body
        opened = Open(
            exchange=exchange.id,
            front=self.id,
            verb=asked.verb,
            query=asked.query,
            headers=asked.headers,
            token=asked.token,
            peer=asked.peer,
            length=len(body),
            data=body[:CHUNK_BYTES],
        )
        down, reply = (
            down_subject(exchange.edge_id),
            up_subject(exchange.edge_id, self.id, exchange.id),
        )
        await self._wire.publish(down, encode(opened), reply=reply)
        for start in range(CHUNK_BYTES, len(body), CHUNK_BYTES):
            part = body[start : start + CHUNK_BYTES]
            more = Body(exchange=exchange.id, front=self.id, offset=start, data=part)
            await self._wire.publish(down, encode(more))

    async def _hear(self, message: RelayMessage) -> None:
        _, edge_id, _, _, exchange_id = message.subject.split(".")
        exchange = self._open.get(exchange_id)
        # Which edge may publish under which id is the NATS server's to enforce.
        if exchange is None or exchange.edge_id != edge_id:
            return
        if message.is_nobody:
            exchange.inbox.put_nowait(None)
            return
        try:
            exchange.inbox.put_nowait(decode(message.data))
        except BadEnvelopeError as bad:
            self._log.warning("relay_message_refused", edge_id=edge_id, reason=str(bad))
            exchange.inbox.put_nowait(None)

    async def _sweep(self) -> None:
        while True:
            await self.clock.sleep(ALIVE_EVERY_S)
            for exchange in tuple(self._open.values()):
                await self.tell(exchange, Alive(exchange=exchange.id, front=self.id))
