"""The relay's public front: HTTP in, exchanges over NATS out. It keeps nothing between requests.

Any number of copies work behind any load balancer: sessions live at the edge, and each exchange's
answers come back to the very front that asked. The bearer token is verified here, and again by the
edge, which does not trust this front.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

import structlog
from aiohttp import web

from edged.auth.claims import RETRY_AFTER, BadTokenError, EdgeDoor, NoKeysError, is_edge_id
from edged.auth.verifier import Verifier
from edged.clock import Clock
from edged.http.application import SERVER_OPTIONS, ApplicationHandler, note_end
from edged.http.connection import HttpServer, RequestHandler, no_upgrade
from edged.protocol.http_rules import (
    FETCH_SITE_HEADER,
    MAX_HEADER_BYTES,
    Guard,
    Rejected,
    rejection,
)
from edged.protocol.jsonrpc import BadMessage, Request, RequestId, RpcCode, parse
from edged.record import part
from edged.relay.envelope import MAX_BODY_BYTES, REQUEST_HEADERS, Head
from edged.relay.link import NatsLink
from edged_relay.exchanges import Asked, BrokenError, EdgeExchange, Exchanges, NoRoomError
from edged_relay.login import METADATA_HEADERS, WELL_KNOWN, LoginMetadata, challenge_of

log = structlog.get_logger("edged.relay")

SLOW_SENDER_S: Final = 30.0
IDLE_S: Final = 75.0
BACKLOG: Final = 1_024
CLOSE_WITHIN_S: Final = 2.0
SMALL_BODY_BYTES: Final = 64 * 1024
SMALL_BODY_S: Final = 2.0
MAX_BODIES: Final = 256 * 1024 * 1024
LENGTH: Final = re.compile(r"[0-9]{1,15}")
BODILESS: Final = frozenset({204, 304})
"""Statuses of which an answer has no body, whatever its headers say."""


class _RefusedError(Exception):
    def __init__(self, refused: Rejected) -> None:
        super().__init__(refused.status)
        self.refused = refused


@part
class RelayFront:
    """Serves ``/mcp/<edge_id>``.

    Attributes:
        link: the NATS connection.
        verifier: verifies bearer tokens.
        guard: which Host and Origin may speak to this front.
        login: how a client finds who gives tokens, if that can be told.
        clock: for silence.
        exchanges: the requests under way.
    """

    link: NatsLink
    verifier: Verifier
    guard: Guard
    clock: Clock
    login: LoginMetadata | None = None
    exchanges: Exchanges = field(init=False)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _listening: asyncio.Server | None = None
    _server: HttpServer | None = None
    _bodies: int = 0

    def __post_init__(self) -> None:
        self.exchanges = Exchanges(
            self.link, is_connected=lambda: self.link.is_connected, clock=self.clock
        )

    async def start(self) -> None:
        """Begin to hear answers; the link may be opened before or after."""
        await self.exchanges.start()

    async def listen(
        self,
        host: str,
        port: int,
        *,
        door: Callable[[RequestHandler], RequestHandler] = lambda front: front,
    ) -> int:
        """Take connections; gives the bound port.

        Args:
            door: takes what is not this front's, and gives it the rest.

        Raises:
            OSError: it cannot be bound.
        """
        served = ApplicationHandler(
            web.Server(self._handle, max_field_size=MAX_HEADER_BYTES, **SERVER_OPTIONS)
        )
        self._server = HttpServer(
            door(served),
            clock=self.clock,
            slow_sender_s=SLOW_SENDER_S,
            idle_s=IDLE_S,
            # Whoever stops to send is gone: an edge works for nobody who may not be there.
            answers_half_closed=False,
            takes_upgrade=no_upgrade,
        )
        self._listening = await asyncio.get_running_loop().create_server(
            self._server, host, port, backlog=BACKLOG
        )
        looking = asyncio.create_task(self._server.look_after(), name="relay front connections")
        self._tasks.append(looking)
        bound: int = self._listening.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Break off what is under way."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await self.exchanges.stop()
        if self._server is not None:
            # A client that does not read would hold it up for a minute.
            await self._server.stop(CLOSE_WITHIN_S)
            self._server = None

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        response = await self.handle(request)
        await note_end(request, response)
        return response

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Serve one request; called by aiohttp."""
        if request.raw_path == "/healthz":
            is_well = self.link.is_connected
            return web.Response(status=200 if is_well else 503, text="ok" if is_well else "no NATS")
        try:
            if request.raw_path.startswith(WELL_KNOWN):
                return self._metadata(request)
            edge_id = self._edge_id(request)
            # Before the body: whoever has no token gets no memory for one.
            token = await self._token(request, edge_id)
            with self._room_for(request) as size:
                body = await _read_body(request, size)
                return await self._carry(request, edge_id, body, token)
        except _RefusedError as error:
            return _as_response(error.refused)
        except Exception:
            fault_id = secrets.token_hex(6)
            log.exception("internal_fault", fault_id=fault_id)
            message = f"The relay made a mistake; its log has the details under {fault_id}."
            return _as_response(rejection(500, message, rpc_code=RpcCode.INTERNAL_ERROR))

    def _metadata(self, request: web.BaseRequest) -> web.Response:
        """Who gives tokens; any page may read it, by a name of this relay."""
        self._judge_host(request)
        path = request.raw_path.partition("?")[0]
        body = self.login.document(path) if self.login is not None else None
        if body is None:
            raise _RefusedError(rejection(404, "Nothing is here."))
        if request.method not in ("GET", "HEAD", "OPTIONS"):
            refusal = rejection(405, "Only GET is served here.", headers=(("Allow", "GET, HEAD"),))
            raise _RefusedError(refusal)
        is_asked = request.method != "OPTIONS"
        return web.Response(
            status=200 if is_asked else 204,
            body=body if is_asked else b"",
            headers=dict(METADATA_HEADERS),
        )

    def _challenge(self, edge_id: str, *, has_token: bool) -> str:
        return challenge_of(self.login, f"/mcp/{edge_id}", has_token=has_token)

    def _told(self, edge_id: str, head: Head) -> dict[str, str]:
        """The headers of an edge's answer; where tokens are given is this front's to say."""
        headers = dict(head.headers)
        headers.pop("www-authenticate", None)
        if head.status in BODILESS:
            headers.pop("content-length", None)
        if head.status == 401:
            headers["www-authenticate"] = self._challenge(edge_id, has_token=True)
        return headers

    def _edge_id(self, request: web.BaseRequest) -> str:
        self._judge_names(request)
        path = request.raw_path.partition("?")[0]
        edge_id = path.removeprefix("/mcp/")
        is_elsewhere = edge_id == path
        # The endpoint is served with a slash at its end as well.
        edge_id = edge_id.removesuffix("/")
        if is_elsewhere or not is_edge_id(edge_id):
            raise _RefusedError(rejection(404, "MCP is at /mcp/<edge_id> here."))
        return edge_id

    def _judge_names(self, request: web.BaseRequest) -> None:
        """Refuse a Host that is not this relay's, and pages of others."""
        headers = request.headers
        host, origins = self._judge_host(request), headers.getall("Origin", [])
        if not origins:
            return
        sites = headers.getall(FETCH_SITE_HEADER, [])
        if (
            len(origins) > 1
            or len(sites) > 1
            or not self.guard.allows_origin(
                origins[0], host=host, fetch_site=sites[0] if sites else None
            )
        ):
            raise _RefusedError(rejection(403, "This Origin may not call this relay."))

    def _judge_host(self, request: web.BaseRequest) -> str:
        hosts = request.headers.getall("Host", [])
        if len(hosts) != 1 or not self.guard.allows_host(hosts[0]):
            raise _RefusedError(rejection(403, "This Host is not a name of this relay."))
        return hosts[0]

    @contextlib.contextmanager
    def _room_for(self, request: web.BaseRequest) -> Iterator[int]:
        """Room for a body, as long as there is any; gives how long it may be."""
        size = min(request.content_length or 0, MAX_BODY_BYTES)
        if request.content_length is None and request.can_read_body:
            size = MAX_BODY_BYTES
        if (request.content_length or 0) > MAX_BODY_BYTES:
            raise _RefusedError(rejection(413, "The body is too large."))
        if self._bodies + size > MAX_BODIES:
            raise _RefusedError(FULL)
        self._bodies += size
        try:
            yield size
        finally:
            self._bodies -= size

    async def _token(self, request: web.BaseRequest, edge_id: str) -> str:
        """The bearer token, verified for that edge."""
        token = bearer_of(request.headers.getall("Authorization", []))
        try:
            await self.verifier.verify(token, EdgeDoor(edge_id))
        except NoKeysError as unjudged:
            log.warning("relay_no_keys", edge_id=edge_id, reason=str(unjudged))
            raise _RefusedError(
                rejection(
                    503,
                    "This call cannot be authenticated now: the keys of its issuer cannot be had. "
                    "Try again in some seconds.",
                    rpc_code=RpcCode.INTERNAL_ERROR,
                    request_id=await _id_of_small(request),
                    headers=(RETRY_AFTER,),
                )
            ) from unjudged
        except BadTokenError as bad:
            log.info("relay_token_refused", edge_id=edge_id, reason=str(bad))
            raise _RefusedError(
                rejection(
                    401,
                    "This call could not be authenticated. Sign in again, or ask whoever issued "
                    "the access for a new one.",
                    rpc_code=RpcCode.NOT_AUTHENTICATED,
                    request_id=await _id_of_small(request),
                    headers=(
                        ("WWW-Authenticate", self._challenge(edge_id, has_token=bool(token))),
                    ),
                )
            ) from bad
        return token

    async def _carry(
        self, request: web.BaseRequest, edge_id: str, body: bytes, token: str
    ) -> web.StreamResponse:
        asked = Asked(
            verb=request.method,
            query=request.raw_path.partition("?")[2],
            headers=_carried(request.headers),
            token=token,
            peer=request.remote or "",
            body=body,
        )

        def is_here() -> bool:
            return request.transport is not None and not request.transport.is_closing()

        response: web.StreamResponse | None = None
        try:
            async with self.exchanges.opened(edge_id, asked, is_here=is_here) as exchange:
                head = await exchange.head()
                length = _length_of(head, request.method)
                headers = self._told(edge_id, head)
                response = web.StreamResponse(status=head.status, headers=headers)
                await response.prepare(request)
                async for data in _pieces_of(exchange, length):
                    await response.write(data)
                await response.write_eof()
                return response
        except NoRoomError as full:
            raise _RefusedError(FULL) from full
        except (BrokenError, ConnectionError) as broken:
            if response is None:
                raise _RefusedError(_offline(edge_id, _id_of(body))) from broken
            # Half an answer must not look like a whole one.
            if request.transport is not None:
                request.transport.abort()
            return web.Response()


def _length_of(head: Head, verb: str) -> int | None:
    """How long the body of an edge's answer has to be; ``None`` where its end is marked otherwise.

    An answer of another length would make its end the beginning of the next one's, on a connection
    that a proxy shares among clients: an edge would answer for others.

    Raises:
        BrokenError: it says it in no way that everybody understands alike.
    """
    told = [value for name, value in head.headers if name == "content-length"]
    if len(told) > 1 or not all(LENGTH.fullmatch(value) for value in told):
        raise BrokenError
    if verb == "HEAD" or head.status in BODILESS:
        return 0
    return int(told[0]) if told else None


async def _pieces_of(exchange: EdgeExchange, length: int | None) -> AsyncIterator[bytes]:
    """The body of an answer, of exactly that length.

    Raises:
        BrokenError: it is longer, or ends before.
    """
    left = length
    async for data in exchange.pieces():
        if left is not None:
            left -= len(data)
            if left < 0:
                raise BrokenError
        yield data
    if left:
        raise BrokenError


FULL: Final = rejection(503, "This relay has too many requests under way.")


def bearer_of(values: Sequence[str]) -> str:
    """The token of a request's ``Authorization``; what is no bearer token is an empty one."""
    scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    return token.strip() if scheme.lower() == "bearer" else ""


def _as_response(refused: Rejected) -> web.Response:
    return web.Response(status=refused.status, body=refused.body, headers=dict(refused.headers))


async def _id_of_small(request: web.BaseRequest) -> RequestId | None:
    """The id of a request that is refused, if its body is small enough to be worth reading."""
    try:
        return _id_of(await _read_body(request, SMALL_BODY_BYTES, within_s=SMALL_BODY_S))
    except _RefusedError:
        return None


async def _read_body(
    request: web.BaseRequest, most: int, *, within_s: float = SLOW_SENDER_S
) -> bytes:
    if "Content-Encoding" in request.headers:
        raise _RefusedError(rejection(415, "A Content-Encoding is not understood here."))
    body = bytearray()
    try:
        async with asyncio.timeout(within_s):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > most:
                    raise _RefusedError(rejection(413, "The body is too large."))
    except TimeoutError as slow:
        raise _RefusedError(rejection(408, "The body did not arrive in time.")) from slow
    except web.RequestPayloadError as bad:
        raise _RefusedError(rejection(400, "The body could not be read.")) from bad
    return bytes(body)


def _carried(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The headers that are passed on; what came twice is refused, as it could mean two things."""
    carried = [
        (name.lower(), value.strip())
        for name, value in headers.items()
        if name.lower() in REQUEST_HEADERS
    ]
    if len({name for name, _ in carried} - {"accept"}) != sum(n != "accept" for n, _ in carried):
        raise _RefusedError(rejection(400, "A header came twice."))
    accepts = ", ".join(value for name, value in carried if name == "accept")
    others = [(name, value) for name, value in carried if name != "accept"]
    return tuple(others + ([("accept", accepts)] if accepts else []))


def _offline(edge_id: str, request_id: RequestId | None) -> Rejected:
    return rejection(
        503,
        f"The edge {edge_id} is not connected to the relay now.",
        request_id=request_id,
        headers=(("Retry-After", "2"),),
    )


def _id_of(body: bytes) -> RequestId | None:
    """The request's id, if the body is one."""
    try:
        message = parse(body)
    except BadMessage as bad:
        return bad.request_id
    return message.id if isinstance(message, Request) else None
