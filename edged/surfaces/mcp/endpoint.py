"""The aiohttp handler: head and body in, ``protocol``'s verdicts and effects out. No rule is here.

Every verb on every path comes through ``Endpoint.handle``; what goes wrong here ends here, with an
answer and, if it is our fault, an id that is in the log.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final

import structlog
from aiohttp import HttpVersion11, web

from edged.actions.caller import Caller
from edged.auth.claims import RETRY_AFTER
from edged.clock import Clock
from edged.errors import EdgedError, ErrorCode, Invalid
from edged.protocol.http_rules import (
    CALLER_TOKEN_HEADER,
    SSE_HEADERS,
    Accepted,
    AccessPolicy,
    HttpHead,
    Rejected,
    Verb,
    judge_head,
    rejected_message,
    rejection,
)
from edged.protocol.jsonrpc import (
    BadMessage,
    Batch,
    Message,
    Request,
    RequestId,
    RpcCode,
    parse,
)
from edged.protocol.recognition import recognize, recognize_stream
from edged.protocol.revisions import Revision
from edged.protocol.session import SessionEvent
from edged.surfaces.mcp.body import BodyReader, ClientGoneError, Peek, id_of, parsed
from edged.surfaces.mcp.calling import Serving
from edged.surfaces.mcp.connection import WAITS, HeadBook, KnownHead, McpConnection
from edged.surfaces.mcp.error_codes import error_reply
from edged.surfaces.mcp.news import NewsFeed
from edged.surfaces.mcp.post import Post
from edged.surfaces.mcp.reply import CLOSED, DateLine, Wire, whole_answer
from edged.surfaces.mcp.seams import CallerGuard, CallerHead, Choice, TrustedPeer
from edged.surfaces.mcp.sessions import (
    Session,
    SessionRegistry,
)
from edged.surfaces.mcp.tool_list import read_choice

__all__ = ["Endpoint"]


TOO_SLOW: Final = 408
MAX_KEPT_VERDICTS: Final = 256
MAX_KEPT_HEAD_BYTES: Final = 4_096
GUARDED: Final[Mapping[ErrorCode, tuple[int, tuple[tuple[str, str], ...]]]] = MappingProxyType(
    {
        ErrorCode.NOT_AUTHENTICATED: (401, (("WWW-Authenticate", "Bearer"),)),
        ErrorCode.NO_KEYS: (503, (RETRY_AFTER,)),
    }
)
"""HTTP status and headers of a request that the guard refuses; any other is 403."""
AUTHORITY_END: Final = re.compile(r"[/?#]")
RawHead = tuple[str, str, tuple[tuple[bytes, bytes], ...]]


class Endpoint:
    """Serves HTTP requests.

    Args:
        door: what is let in at all.
        guard: says who a request is from.
        trusted_peer: says which address to name in the audit.
        board: the sessions.
        serving: serves the messages of a POST.
        news: serves GET streams.
        clock: for dates and times of streams.
        default_choice: what tools/list shows to a client that does not choose.
        bodies: reads bodies within their bounds.

    Attributes:
        heads: those that passed before; connections recognize them.
    """

    def __init__(
        self,
        *,
        door: AccessPolicy,
        guard: CallerGuard,
        trusted_peer: TrustedPeer,
        board: SessionRegistry,
        serving: Serving,
        news: NewsFeed,
        clock: Clock,
        default_choice: Choice,
        bodies: BodyReader,
    ) -> None:
        self._door = door
        self._guard = guard
        self._trusted_peer = trusted_peer
        self._board = board
        self._serving = serving
        self._news = news
        self._clock = clock
        self._default_choice = default_choice
        self._bodies = bodies
        self._date = DateLine(clock)
        self._log = structlog.get_logger("edged.mcp")
        # A client sends the same head over and over; the verdict on it is pure.
        self._verdicts: dict[RawHead, Accepted | Rejected] = {}
        self.heads = HeadBook()
        self.is_closing = False

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Serve one request; called by aiohttp in a task of its own."""
        wire = Wire(request, clock=self._clock, date=self._date)
        raw_head = wire.connection.begin()
        try:
            stream = await self._serve(request, wire, raw_head)
            if stream is not None:
                await stream
            return await wire.finish()
        except (ClientGoneError, ConnectionError):
            # Nothing more will come, so there is nothing to drain.
            wire.connection.force_close()
            return CLOSED
        except Exception as bug:  # noqa: BLE001 - the top of every request
            return self._fault(wire, bug)
        finally:
            wire.connection.rest()

    def answer_at_once(
        self, head: KnownHead, body: bytes, connection: McpConnection
    ) -> bytes | None:
        """The whole answer to a request with a known head, where it waits for nothing.

        ``WAITS`` where it waits for one answer of an instrument, and will be given later. ``None``
        for every other request, and for all that something is wrong with: ``handle``
        serves and words it.
        """
        if self.is_closing:
            return None
        try:
            return self._answer_at_once(head, body, connection)
        except BadMessage:
            return None

    def _answer_at_once(
        self, head: KnownHead, body: bytes, connection: McpConnection
    ) -> bytes | None:
        accepted = head.accepted
        message = parse(body)
        if not accepted.wants_json or not isinstance(message, Request):
            return None
        caller = self._guard.direct(self._trusted_peer(accepted.headers, connection.peer))
        session = self._board.find(accepted.session_id, caller)
        found = recognize(message, accepted, session.revision if session else None)
        if isinstance(found, Rejected):
            return None
        post = self._make_post(
            lambda: Wire(connection, clock=self._clock, date=self._date),
            message,
            accepted,
            found.revision,
            session if found.uses_session else None,
            caller,
            head.choice,
        )
        self._serving.serve(post)
        if not post.is_over:
            post.on_over = connection.has_answered
            connection.await_answer(post.client_gone)
        elif post.plain is not None:
            return whole_answer(*post.plain, self._date)
        return WAITS

    def _make_post(
        self,
        make_wire: Callable[[], Wire],
        message: Message | Batch,
        accepted: Accepted,
        revision: Revision,
        session: Session | None,
        caller: Caller,
        choice: Choice,
    ) -> Post:
        return Post(
            self._serving.surroundings,
            make_wire,
            message=message,
            accepted=accepted,
            revision=revision,
            session=session,
            caller=session.caller(caller) if session is not None else caller,
            choice=choice,
        )

    async def _serve(
        self, request: web.BaseRequest, wire: Wire, raw_head: bytes
    ) -> Awaitable[None] | None:
        """Serve it, but for a stream that was opened: that is fed by what is given back.

        A stream stays for hours, and so would all that this function and those below it hold.
        """
        path, query = _target(request)
        verdict = self._judge(request, path)
        tokens = tuple(request.headers.getall(CALLER_TOKEN_HEADER, ()))
        remote = self._trusted_peer(request.headers, wire.connection.peer)
        head = CallerHead(tokens=tokens, remote=remote)
        if self.is_closing:
            self._refuse(request, wire, rejection(503, "The daemon is stopping."))
        elif isinstance(verdict, Rejected):
            # A relayed request is authenticated before it is told what else is wrong with it.
            caller = await self._caller(head) if tokens else None
            self._refuse(request, wire, caller if isinstance(caller, Rejected) else verdict)
        elif verdict.verb is Verb.POST:
            choice = await self._post(request, wire, verdict, head, query)
            if choice is not None and raw_head and not tokens and _goes_on(request, wire):
                self.heads.learn(raw_head, verdict, choice)
        else:
            return await self._stream_or_end(request, wire, verdict, head)
        return None

    async def _post(
        self,
        request: web.BaseRequest,
        wire: Wire,
        accepted: Accepted,
        head: CallerHead,
        query: str,
    ) -> Choice | None:
        """Serve a POST; gives what its query chooses if it got as far as being served."""
        peek = None
        if head.tokens:
            peek = Peek(lambda: self._bodies.read_small(request, wire))
            head = replace(head, asked=peek.asked)
        # Before the body is read: whoever has no good token gets no memory for one.
        caller = await self._caller(head, peek)
        if isinstance(caller, Rejected):
            self._refuse(request, wire, caller)
            return None
        body = await self._bodies.read(request, accepted, wire)
        if isinstance(body, Rejected):
            self._refuse(request, wire, body)
            if body.status == TOO_SLOW:
                wire.connection.force_close()
            return None
        message, bad = parsed(body)
        if message is None:
            self._refuse(request, wire, rejected_message(bad) if bad else NO_MESSAGE)
            return None
        session = self._board.find(accepted.session_id, caller)
        found = recognize(message, accepted, session.revision if session else None)
        choice = _choice(query, self._default_choice, id_of(message))
        if isinstance(found, Rejected) or isinstance(choice, Rejected):
            refusal = found if isinstance(found, Rejected) else choice
            self._refuse(request, wire, refusal if isinstance(refusal, Rejected) else NO_MESSAGE)
            return None
        post = self._make_post(
            lambda: wire,
            message,
            accepted,
            found.revision,
            session if found.uses_session else None,
            caller,
            choice,
        )
        self._serving.serve(post)
        if not post.is_over:
            over = asyncio.get_running_loop().create_future()
            post.on_over = partial(over.set_result, None)
            wire.connection.on_gone = post.client_gone
            if wire.is_lost:
                post.client_gone()
            await over
            wire.connection.on_gone = None
            wire.connection.end_probing()
        elif post.plain is not None:
            wire.respond(*post.plain)
        return choice

    async def _stream_or_end(
        self, request: web.BaseRequest, wire: Wire, accepted: Accepted, head: CallerHead
    ) -> Awaitable[None] | None:
        """GET opens the session's stream and gives what feeds it, DELETE ends the session."""
        caller = await self._caller(head)
        if isinstance(caller, Rejected):
            self._refuse(request, wire, caller)
            return None
        session = self._board.find(accepted.session_id, caller)
        found = recognize_stream(accepted, session.revision if session else None)
        if isinstance(found, Rejected) or session is None:
            self._refuse(request, wire, found if isinstance(found, Rejected) else NO_MESSAGE)
        elif accepted.verb is Verb.DELETE:
            self._board.end(session, SessionEvent.DELETED)
            wire.respond(200, (), b"")
        else:
            stream = wire.open_stream(SSE_HEADERS)
            if stream is not None:
                return self._news.serve(wire, stream, session, accepted.last_event_id)
        return None

    async def _caller(self, head: CallerHead, peek: Peek | None = None) -> Caller | Rejected:
        try:
            return await self._guard.guard(head)
        except EdgedError as refused:
            request_id = peek.request_id if peek is not None else None
            reply = error_reply(refused, request_id)
            status, headers = GUARDED.get(refused.code, (403, ()))
            return rejection(
                status,
                reply.message,
                rpc_code=reply.rpc_code,
                request_id=request_id,
                headers=headers,
            )

    def _judge(self, request: web.BaseRequest, path: str) -> Accepted | Rejected:
        if not _is_one_host(request):
            return TWO_HOSTS
        key = (request.method, path, request.raw_headers)
        verdict = self._verdicts.get(key)
        if verdict is None:
            headers = tuple(request.headers.items())
            verdict = judge_head(
                HttpHead(verb=request.method, path=path, headers=headers), self._door
            )
            if _comes_again(request):
                if len(self._verdicts) >= MAX_KEPT_VERDICTS:
                    del self._verdicts[next(iter(self._verdicts))]
                self._verdicts[key] = verdict
        return verdict

    def _refuse(self, request: web.BaseRequest, wire: Wire, refusal: Rejected) -> None:
        is_unread = not request.content.is_eof()
        wire.respond(refusal.status, refusal.headers, refusal.body, closes=is_unread)

    def _fault(self, wire: Wire, bug: Exception) -> web.StreamResponse:
        fault_id = secrets.token_hex(6)
        self._log.error("internal_fault", fault_id=fault_id, exc_info=bug)
        if not wire.is_answered:
            refused = rejection(
                500,
                f"edged made a mistake; its log has the details under {fault_id}.",
                rpc_code=RpcCode.INTERNAL_ERROR,
                data={"fault_id": fault_id},
            )
            wire.respond(refused.status, refused.headers, refused.body, closes=True)
        return CLOSED


TWO_HOSTS: Final = rejection(
    400, "The request's target names another host than its Host header; send one of them."
)
NO_MESSAGE: Final = rejection(400, "This request cannot be served.")


def _choice(query: str, default: Choice, request_id: RequestId | None) -> Choice | Rejected:
    try:
        return read_choice(query, default)
    except Invalid as bad:
        return rejection(400, bad.message, request_id=request_id)


def _target(request: web.BaseRequest) -> tuple[str, str]:
    """Path and query, still encoded; of a proxy's absolute form too."""
    target = request.raw_path
    if not target.startswith("/"):
        return request.rel_url.raw_path, request.rel_url.raw_query_string
    path, _, query = target.partition("?")
    return path, query


def _is_one_host(request: web.BaseRequest) -> bool:
    """Whether a proxy's absolute form names the Host that is judged (RFC 9112, 3.2.2)."""
    target = request.raw_path
    if target.startswith("/") or "://" not in target:
        return True
    authority = AUTHORITY_END.split(target.partition("://")[2], maxsplit=1)[0]
    return authority.lower() == request.headers.get("Host", "").lower()


def _goes_on(request: web.BaseRequest, wire: Wire) -> bool:
    """Whether the connection takes more requests like this one."""
    return wire.keeps_connection and request.version == HttpVersion11


def _comes_again(request: web.BaseRequest) -> bool:
    """Whether the same head may come again: a session ends once, and tokens change."""
    if request.method != Verb.POST or CALLER_TOKEN_HEADER in request.headers:
        return False
    return sum(len(name) + len(value) for name, value in request.raw_headers) <= MAX_KEPT_HEAD_BYTES
