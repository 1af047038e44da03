"""The edge's end of the relay: takes exchanges from NATS to the engine and its answers back.

It judges nothing: every request gets an Edge-Caller-JWT, even an empty one, and the engine decides.
A front that vanishes, or whose client reads slowly, costs bounded memory: an answer is only read
from the engine as far as the front has given credit for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import field
from typing import Final, Protocol

import aiohttp
import structlog
from yarl import URL

from edged.clock import Clock
from edged.http.pulse import Pulse
from edged.protocol.http_rules import CALLER_TOKEN_HEADER, Rejected, rejection
from edged.record import part, record
from edged.relay.envelope import (
    ANSWER_HEADERS,
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
    Open,
    decode,
    down_subject,
    encode,
    up_subject,
)
from edged.relay.link import RelayMessage

log = structlog.get_logger("edged.relay")

MAX_EXCHANGES: Final = 2_000
MAX_BODIES: Final = 64 * 1024 * 1024
BODY_WITHIN_S: Final = 30.0
ALIVE_EVERY_S: Final = 4.0
SILENT_S: Final = 15.0
CONNECT_WITHIN_S: Final = 2.0


@record(kw_only=False)
class EngineAddress:
    """Where the engine's MCP listener is on loopback."""

    port: int
    path: str


class RelayWire(Protocol):
    """What carries messages: see ``link.NatsLink``."""

    async def subscribe(
        self, subject: str, heard: Callable[[RelayMessage], Awaitable[None]]
    ) -> None:
        """Hear a subject."""
        ...

    async def publish(self, subject: str, data: bytes, *, reply: str = "") -> None:
        """Send.

        Raises:
            ConnectionError: it cannot be sent now.
        """
        ...


@part
class Carrier:
    """Serves the requests for one edge.

    Attributes:
        wire: the way to the fronts.
        edge_id: this edge.
        engine: where the engine is; ``None`` while it is away.
        pulse: when it was heard.
        peer_header: the header that names a client's address to the engine.
        clock: for silence.
    """

    wire: RelayWire
    edge_id: str
    engine: Callable[[], EngineAddress | None]
    pulse: Pulse
    peer_header: Callable[[str], tuple[str, str]]
    clock: Clock
    _exchanges: dict[tuple[str, str], _Exchange] = field(default_factory=dict)
    _http: aiohttp.ClientSession | None = None
    _sweeping: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.pulse.join(self)

    @property
    def exchange_count(self) -> int:
        """Requests under way."""
        return len(self._exchanges)

    async def start(self) -> None:
        """Begin to hear requests."""
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_WITHIN_S),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )
        self._sweeping = asyncio.create_task(self._sweep(), name="relay carrier sweep")
        await self.wire.subscribe(down_subject(self.edge_id), self._hear)

    async def stop(self) -> None:
        """End every exchange."""
        tasks = [exchange.task for exchange in self._exchanges.values() if exchange.task]
        tasks += [self._sweeping] if self._sweeping is not None else []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._http is not None:
            await self._http.close()

    # for the pulse: see ``pulse.Road``

    def waits_since(self, heard_s: float) -> bool:
        return any(True for _ in self._asked_since(heard_s))

    def refuse_since(self, heard_s: float) -> None:
        for exchange in tuple(self._asked_since(heard_s)):
            exchange.patience.reschedule(asyncio.get_running_loop().time())

    def _asked_since(self, heard_s: float) -> Iterator[_Exchange]:
        exchanges = self._exchanges.values()
        return (e for e in exchanges if e.asked_s is not None and e.asked_s > heard_s)

    async def _hear(self, message: RelayMessage) -> None:
        try:
            envelope = decode(message.data)
        except BadEnvelopeError as bad:
            log.debug("relay_message_refused", reason=str(bad))
            return
        if isinstance(envelope, Open):
            self._open(envelope)
            return
        if isinstance(envelope, Head | Data | AnswerEnd):
            return
        exchange = self._exchanges.get((envelope.front, envelope.exchange))
        if exchange is not None:
            exchange.heard_s = self.clock.monotonic()
            exchange.take(envelope)

    def _open(self, opened: Open) -> None:
        key = (opened.front, opened.exchange)
        if key in self._exchanges or len(opened.data) > opened.length:
            return
        waiting = sum(exchange.opened.length for exchange in self._exchanges.values())
        is_full = len(self._exchanges) >= MAX_EXCHANGES or waiting + opened.length > MAX_BODIES
        exchange = _Exchange(opened, self.clock.monotonic())
        self._exchanges[key] = exchange
        serving = self._refuse(exchange, FULL) if is_full else self._serve(exchange)
        exchange.task = asyncio.create_task(serving, name="relay exchange")
        exchange.task.add_done_callback(lambda _: self._exchanges.pop(key, None))

    async def _serve(self, exchange: _Exchange) -> None:
        try:
            await self._send(exchange, Alive(exchange=exchange.id, front=exchange.opened.front))
            async with asyncio.timeout(BODY_WITHIN_S):
                await exchange.is_complete.wait()
            engine = self.engine()
            if engine is None or self._http is None:
                await self._refuse(exchange, AWAY)
                return
            if self.pulse.is_silent:
                await self._refuse(exchange, SILENT)
                return
            await self._ask_engine(exchange, engine, self._http)
        except aiohttp.ClientConnectorError:
            await self._refuse(exchange, AWAY)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            log.debug("relay_exchange_broke", reason=str(error))
            await self._break_off(exchange)

    async def _ask_engine(
        self, exchange: _Exchange, engine: EngineAddress, http: aiohttp.ClientSession
    ) -> None:
        opened = exchange.opened
        query = f"?{opened.query}" if opened.query else ""
        # `encoded`: the query is passed on as it came.
        target = URL(f"http://127.0.0.1:{engine.port}{engine.path}{query}", encoded=True)
        async with contextlib.AsyncExitStack() as open_answer:
            exchange.asked_s = self.pulse.asked()
            try:
                async with exchange.patience:
                    answer = await open_answer.enter_async_context(
                        http.request(
                            opened.verb,
                            target,
                            data=bytes(exchange.body) if opened.length else None,
                            headers=self._headers(opened),
                            skip_auto_headers=SENT_AS_THEY_CAME,
                            allow_redirects=False,
                        )
                    )
            except TimeoutError:
                if not exchange.patience.expired():
                    raise
                await self._refuse(exchange, UNANSWERED)
                return
            finally:
                exchange.asked_s = None
            self.pulse.heard()
            exchange.body.clear()
            await self._pass_back(exchange, answer)

    async def _pass_back(self, exchange: _Exchange, answer: aiohttp.ClientResponse) -> None:
        headers = tuple(
            (name.lower(), value)
            for name, value in answer.headers.items()
            if name.lower() in ANSWER_HEADERS
        )
        await self._send(
            exchange, Head(exchange=exchange.id, status=answer.status, headers=headers)
        )
        async for data in answer.content.iter_any():
            self.pulse.heard()
            for start in range(0, len(data), CHUNK_BYTES):
                await self._send_data(exchange, data[start : start + CHUNK_BYTES])
        await self._send(
            exchange, AnswerEnd(exchange=exchange.id, number=exchange.number, is_whole=True)
        )

    def _headers(self, opened: Open) -> list[tuple[str, str]]:
        return [
            *opened.headers,
            (CALLER_TOKEN_HEADER, opened.token),
            self.peer_header(opened.peer),
        ]

    async def _send_data(self, exchange: _Exchange, data: bytes) -> None:
        """Send a piece as soon as the front has room for it."""
        while exchange.credit < len(data):
            exchange.has_credit.clear()
            await exchange.has_credit.wait()
        exchange.credit -= len(data)
        await self._send(exchange, Data(exchange=exchange.id, number=exchange.number, data=data))
        exchange.number += 1

    async def _refuse(self, exchange: _Exchange, refused: Rejected) -> None:
        headers = tuple((name.lower(), value) for name, value in refused.headers)
        with contextlib.suppress(OSError):
            await self._send(
                exchange, Head(exchange=exchange.id, status=refused.status, headers=headers)
            )
            await self._send(exchange, Data(exchange=exchange.id, number=0, data=refused.body))
            await self._send(exchange, AnswerEnd(exchange=exchange.id, number=1, is_whole=True))

    async def _break_off(self, exchange: _Exchange) -> None:
        with contextlib.suppress(OSError):
            await self._send(
                exchange, AnswerEnd(exchange=exchange.id, number=exchange.number, is_whole=False)
            )

    async def _send(self, exchange: _Exchange, envelope: Envelope) -> None:
        subject = up_subject(self.edge_id, exchange.opened.front, exchange.id)
        await self.wire.publish(subject, encode(envelope))

    async def _sweep(self) -> None:
        """Say that exchanges live, and end those whose front has fallen silent."""
        while True:
            await self.clock.sleep(ALIVE_EVERY_S)
            silent_since_s = self.clock.monotonic() - SILENT_S
            for exchange in tuple(self._exchanges.values()):
                if exchange.heard_s < silent_since_s and exchange.task is not None:
                    exchange.task.cancel()
                    continue
                alive = Alive(exchange=exchange.id, front=exchange.opened.front)
                with contextlib.suppress(OSError):
                    await self._send(exchange, alive)


class _Exchange:
    """One request under way.

    Attributes:
        credit: how many bytes of the answer the front takes now.
        number: of the next piece of the answer.
        heard_s: when the front was heard last.
        asked_s: when the engine was asked; ``None`` before, and when it has answered.
        patience: bounds the wait for that answer, once the engine is silent.
    """

    def __init__(self, opened: Open, now_s: float) -> None:
        self.opened = opened
        self.id = opened.exchange
        self.body = bytearray(opened.data)
        self.is_complete = asyncio.Event()
        self.credit = WINDOW_BYTES
        self.has_credit = asyncio.Event()
        self.number = 0
        self.heard_s = now_s
        self.asked_s: float | None = None
        self.patience = asyncio.timeout(None)
        self.task: asyncio.Task[None] | None = None
        self._note_body()

    def take(self, envelope: Body | Credit | Cancel | Alive) -> None:
        """A message of the front."""
        match envelope:
            case Body(offset=offset, data=data):
                if offset != len(self.body) or offset + len(data) > self.opened.length:
                    self._cancel()  # something was lost, or is not meant for us
                    return
                self.body += data
                self._note_body()
            case Credit(size=size):
                self.credit = min(self.credit + size, WINDOW_BYTES)
                self.has_credit.set()
            case Cancel():
                self._cancel()
            case Alive():
                pass

    def _note_body(self) -> None:
        if len(self.body) == self.opened.length:
            self.is_complete.set()

    def _cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


SENT_AS_THEY_CAME: Final = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")
AWAY: Final = rejection(
    503,
    "The engine of this edge is not running; it is being started again.",
    headers=(("Retry-After", "1"),),
)
SILENT: Final = rejection(
    503,
    "The engine of this edge does not answer at the moment. Nothing of this request was passed on "
    "to it; try again in a second.",
    headers=(("Retry-After", "1"),),
)
UNANSWERED: Final = rejection(
    503,
    "The engine of this edge does not answer. This request was passed on before that was seen, and "
    "may still be carried out: look at the state before you ask for it again.",
)
FULL: Final = rejection(503, "This edge has too many requests under way.")
