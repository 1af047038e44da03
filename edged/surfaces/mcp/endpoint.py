"""The messages of one POST, served: notifications noted, calls run in order, each one settled once.

Calls of a batch run one after the other, as they stand: two writes to one instrument mean their
order. Every call runs in the task that serves the POST.

The aiohttp handler: head and body in, ``protocol``'s verdicts and effects out. No rule is here.

Every verb on every path comes through ``Endpoint.handle``; what goes wrong here ends here, with an
answer and, if it is our fault, an id that is in the log.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import structlog
from aiohttp import HttpVersion11, web

from edged.actions.caller import Caller
from edged.actions.tool import Tool
from edged.auth.claims import RETRY_AFTER
from edged.clock import Clock
from edged.errors import Conflict, EdgedError, ErrorCode, Invalid
from edged.protocol.exchange import Call, Exchange
from edged.protocol.http_rules import (
    CALLER_TOKEN_HEADER,
    JSON_HEADERS,
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
    ErrorReply,
    Message,
    Request,
    RequestId,
    RpcCode,
    parse,
    result_bytes_from,
)
from edged.protocol.recognition import disagreement, recognize, recognize_stream
from edged.protocol.revisions import Revision
from edged.protocol.session import SessionEvent, SessionState, admit
from edged.protocol.sse import EventLog
from edged.surfaces.mcp.body import BodyReader, ClientGoneError, Peek, id_of, parsed
from edged.surfaces.mcp.calling import AT_ONCE, Answer, Asked, AskedCall, begin_call
from edged.surfaces.mcp.connection import WAITS, HeadBook, KnownHead, McpConnection
from edged.surfaces.mcp.error_codes import error_reply
from edged.surfaces.mcp.methods import (
    ENDABLE,
    METHODS,
    NOTIFICATIONS,
    AnsweredError,
    Context,
    Parts,
    find_tool,
)
from edged.surfaces.mcp.news import NewsFeed
from edged.surfaces.mcp.post import Post
from edged.surfaces.mcp.reply import CLOSED, DateLine, KeepAlives, Wire, whole_answer
from edged.surfaces.mcp.seams import CallerGuard, CallerHead, Choice, TrustedPeer
from edged.surfaces.mcp.sessions import (
    CallEnd,
    CallEndedError,
    Endable,
    RunningCall,
    Session,
    SessionRegistry,
)
from edged.surfaces.mcp.tool_list import read_choice

__all__ = ["Endpoint", "Served", "Serving"]


@dataclass(slots=True, kw_only=True)
class Served:
    """A POST that passed every door. Not frozen: made for every one.

    Attributes:
        session: ``None`` when it stands alone.
        choice: what tools/list shows to this client.
    """

    wire: Wire
    message: Message | Batch
    accepted: Accepted
    revision: Revision
    session: Session | None
    caller: Caller
    choice: Choice


class Serving:
    """Serves POSTs; made on the loop that it serves on.

    Args:
        parts: what methods work with.
        keep_alives: where silent calls are listed.
        clock: for the times of streams.
    """

    def __init__(self, *, parts: Parts, keep_alives: KeepAlives, clock: Clock) -> None:
        self._parts = parts
        self.keep_alives = keep_alives
        self.clock = clock
        self._log = structlog.get_logger("edged.mcp")
        self._loop = asyncio.get_running_loop()
        self._running: set[Endable] = set()
        self._settled = asyncio.Event()

    def answer_at_once(
        self,
        asked: Asked,
        accepted: Accepted,
        request: Request,
        make_wire: Callable[[], Wire],
    ) -> tuple[int, bytes] | AskedCall | None:
        """HTTP status and body for a request that waits for nothing; ``None`` for any other.

        One that waits for one answer of an instrument has begun, and answers by ``make_wire``.
        """
        answer_it = AT_ONCE.get(request.method)
        if answer_it is None or not self._parts.first_look.is_set():
            return None
        if self._inadmissible(accepted, asked.revision, asked.session, request) is not None:
            return None
        try:
            answer: AskedCall | Answer = answer_it(self._parts, asked, request)
            if answer is None and request.method == "tools/call":
                answer = begin_call(self._parts, self, asked, accepted, request, make_wire)
        except Exception as error:  # noqa: BLE001 - as in _serve_call
            answer = self.error_reply(error, request)
        match answer:
            case None | AskedCall():
                return answer
            case ErrorReply():
                return asked.revision.status_of(answer.rpc_code), answer.encode()
        return 200, result_bytes_from(request.id, answer)

    async def serve(self, served: Served) -> None:
        """Serve every message and give the answer."""
        session, revision = served.session, served.revision
        log = self._event_log(served)
        post = Post(
            wire=served.wire,
            exchange=Exchange(
                served.message,
                revision=revision,
                wants_json=served.accepted.wants_json,
                wants_sse=served.accepted.wants_sse,
                log=log,
            ),
            session=session,
            log=log,
            keep_alives=self.keep_alives,
            clock=self.clock,
        )
        for notification in post.exchange.notifications:
            if notification.method in revision.notifications:
                NOTIFICATIONS[notification.method](session, notification)
        post.carry_out(post.exchange.begin())
        if post.exchange.calls:
            await self._serve_calls(served, post)

    async def stop(self, grace_s: float) -> None:
        """Let calls in flight finish for a moment, then end them; returns when none is left."""
        try:
            async with asyncio.timeout(grace_s):
                await self._all_settled()
        except TimeoutError:
            for call in tuple(self._running):
                call.end(CallEnd.STOPPING)
            await self._all_settled()

    # What ``asking`` needs: see ``Around``.

    def began(self, call: AskedCall) -> None:
        """It is under way."""
        self._running.add(call)

    def ended(self, call: AskedCall) -> None:
        """It is not any more."""
        self._running.discard(call)
        self._settled.set()

    def stopping_reply(self, request: Request) -> ErrorReply:
        """See ``Around``."""
        return _stopping(request)

    def event_log(self, asked: Asked, accepted: Accepted, tool: Tool) -> EventLog | None:
        """See ``Around``."""
        session = asked.session
        if session is None or not asked.revision.has_event_ids or not accepted.wants_sse:
            return None
        return None if tool.cancels_on_disconnect else self._parts.board.new_log(session)

    async def _all_settled(self) -> None:
        while self._running:
            self._settled.clear()
            await self._settled.wait()

    async def _serve_calls(self, served: Served, post: Post) -> None:
        session = served.session
        # All are in flight from here on, so that a later one of a batch can be cancelled too.
        running = {call.slot: self._register(call, session) for call in post.exchange.calls}
        post.calls.extend(call for call in running.values() if isinstance(call, RunningCall))
        self._running.update(post.calls)
        post.begin()
        try:
            for call in post.exchange.calls:
                await self._serve_call(served, post, call, running[call.slot])
        finally:
            self._running.difference_update(post.calls)
            self._settled.set()
            if session is not None:
                for call in post.exchange.calls:
                    own = running[call.slot]
                    if isinstance(own, RunningCall):
                        session.calls.discard(call.request.id, own)
                self._parts.board.touch(session)
            post.finish()

    def _register(self, call: Call, session: Session | None) -> RunningCall | Conflict:
        running = RunningCall(self._loop)
        if session is not None and call.request.method in ENDABLE:
            try:
                session.calls.add(call.request.id, running)
            except Conflict as twice:
                return twice
        return running

    async def _serve_call(
        self, served: Served, post: Post, call: Call, running: RunningCall | Conflict
    ) -> None:
        exchange, request = post.exchange, call.request
        refusal = self._refusal(served, request, running)
        if refusal is not None or isinstance(running, Conflict):
            if refusal is not None:
                post.carry_out(exchange.fail(call.slot, refusal))
            return
        context = self._context(served, post, call, running)
        try:
            result = await running.run(METHODS[request.method](context, request))
        except CallEndedError as ended:
            effects = (
                exchange.fail(call.slot, _stopping(request))
                if ended.why is CallEnd.STOPPING
                else exchange.drop(call.slot)
            )
        except Exception as error:  # noqa: BLE001 - one call must not take others along
            effects = exchange.fail(call.slot, self.error_reply(error, request))
        else:
            effects = exchange.answer(call.slot, result, headers=context.headers)
        post.carry_out(effects)

    def _refusal(
        self, served: Served, request: Request, running: RunningCall | Conflict
    ) -> ErrorReply | None:
        if isinstance(running, Conflict):
            return ErrorReply(
                request_id=request.id,
                rpc_code=RpcCode.INVALID_REQUEST,
                message=str(running),
            )
        return self._inadmissible(served.accepted, served.revision, served.session, request)

    def _inadmissible(
        self, accepted: Accepted, revision: Revision, session: Session | None, request: Request
    ) -> ErrorReply | None:
        """Why a request may not be served here; ``None`` if it may."""
        refusal = admit(request, revision=revision, state=_state_of(session, revision))
        if refusal is not None or request.method != "tools/call":
            return refusal
        if not revision.has_parameter_headers:
            return None
        return self._judge_parameter_headers(accepted, request)

    def _judge_parameter_headers(self, accepted: Accepted, request: Request) -> ErrorReply | None:
        tool = find_tool(self._parts.registry, request.params.get("name"))
        arguments = request.params.get("arguments")
        if tool is None or not isinstance(arguments, dict):
            return None
        header = disagreement(tool.input_schema, arguments, accepted.headers)
        if not header:
            return None
        return ErrorReply(
            request_id=request.id,
            rpc_code=RpcCode.HEADER_MISMATCH,
            message=f"The header {header} is missing or does not repeat its argument.",
            data={"header": header},
        )

    def _context(self, served: Served, post: Post, call: Call, running: RunningCall) -> Context:
        session = served.session
        return Context(
            parts=self._parts,
            revision=served.revision,
            session=session,
            caller=session.caller(served.caller) if session else served.caller,
            choice=served.choice,
            post=post,
            slot=call.slot,
            call=running,
        )

    def error_reply(self, error: Exception, request: Request) -> ErrorReply:
        """See ``asking.Around``."""
        match error:
            case AnsweredError(reply=reply):
                return reply
            case BadMessage():
                return error.reply()
            case EdgedError():
                return error_reply(error, request.id)
        fault_id = secrets.token_hex(6)
        self._log.error("internal_fault", fault_id=fault_id, method=request.method, exc_info=error)
        return ErrorReply(
            request_id=request.id,
            rpc_code=RpcCode.INTERNAL_ERROR,
            message=f"edged made a mistake; its log has the details under {fault_id}.",
            data={"fault_id": fault_id},
        )

    def _event_log(self, served: Served) -> EventLog | None:
        """The memory of a resumable answer; none where the client's going ends the call anyway."""
        session = served.session
        if session is None or not served.revision.has_event_ids or not served.accepted.wants_sse:
            return None
        message = served.message
        items = message.items if isinstance(message, Batch) else (message,)
        calls = [m for m in items if isinstance(m, Request) and m.method == "tools/call"]
        for call in calls:
            tool = find_tool(self._parts.registry, call.params.get("name"))
            if tool is not None and tool.cancels_on_disconnect:
                return None
        return self._parts.board.new_log(session) if calls else None


def _state_of(session: Session | None, revision: Revision) -> SessionState:
    if session is not None:
        return session.state
    return SessionState.ONE_SHOT if revision.has_handshake else SessionState.STATELESS


def _stopping(request: Request) -> ErrorReply:
    return ErrorReply(
        request_id=request.id,
        rpc_code=RpcCode.INTERNAL_ERROR,
        message="The daemon is stopping; the call was ended.",
    )


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
        if session is None or not found.uses_session:
            asked = Asked(found.revision, None, caller, head.choice)
        else:
            asked = Asked(found.revision, session, session.caller(caller), head.choice)
        answer = self._serving.answer_at_once(
            asked,
            accepted,
            message,
            lambda: Wire(connection, clock=self._clock, date=self._date),
        )
        if answer is None:
            return None
        if isinstance(answer, AskedCall):
            return WAITS
        status, payload = answer
        return whole_answer(status, JSON_HEADERS, payload, self._date)

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
        served = Served(
            wire=wire,
            message=message,
            accepted=accepted,
            revision=found.revision,
            session=session if found.uses_session else None,
            caller=caller,
            choice=choice,
        )
        await self._serving.serve(served)
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
