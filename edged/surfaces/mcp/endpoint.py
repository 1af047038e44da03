"""The HTTP handler: head and body in, ``protocol``'s verdicts and effects out. No rule is here.

Every verb on every path comes through ``Endpoint.serve``; what goes wrong here ends here, with an
answer and, if it is our fault, an id that is in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import field, replace
from functools import partial
from typing import Any, Final

import structlog
from aiohttp.http_parser import RawRequestMessage
from aiohttp.http_writer import HttpVersion11

from edged.actions.caller import Caller, client_text
from edged.actions.outcome import Outcome
from edged.clock import Clock
from edged.errors import EdgedError, Fault, Invalid
from edged.http.connection import HttpConnection
from edged.log import surviving
from edged.protocol.http_rules import (
    JSON_HEADERS,
    SSE_HEADERS,
    Accepted,
    AccessPolicy,
    HeaderList,
    HttpHead,
    Rejected,
    Verb,
    cors_headers,
    judge_visit,
    preflight,
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
from edged.protocol.messages import client_in_meta
from edged.protocol.recognition import recognize, recognize_stream
from edged.protocol.server_card import ServerCard
from edged.protocol.session import SessionEvent
from edged.record import part
from edged.surfaces.mcp.calling import Serving
from edged.surfaces.mcp.news import NewsFeed
from edged.surfaces.mcp.post import Post
from edged.surfaces.mcp.reply import DateLine, Wire, whole_answer
from edged.surfaces.mcp.request import (
    BodyReader,
    ClientGoneError,
    KnownHeads,
    Peek,
    PostHead,
    RawHead,
    choice_of,
    id_of,
    judge,
    judge_expectation,
    unguarded,
)
from edged.surfaces.mcp.seams import (
    Arrivals,
    CallerGuard,
    CallerHead,
    Choice,
    Neighbour,
)
from edged.surfaces.mcp.sessions import LONGEST_REPEATED, Repeat, Session, SessionRegistry

log = structlog.get_logger("edged.mcp")


@part
class Endpoint:
    """Serves HTTP requests; ``RequestHandler`` of the MCP port.

    Attributes:
        door: what is let in at all.
        guard: says who a request is from.
        arrivals: how a request is read.
        board: the sessions.
        serving: serves the messages of a POST.
        news: serves GET streams.
        clock: for dates and times of streams.
        default_choice: what tools/list shows to a client that does not choose.
        bodies: reads bodies within their bounds.
        card: tells what this endpoint is to who has not connected yet.
        neighbour: what else is served on this port, if anything.
        keeps_sessions: false: there is nothing to GET or DELETE.
        challenge: tells who is not authenticated where tokens are given (WWW-Authenticate), by
            whether one came.
    """

    door: AccessPolicy
    guard: CallerGuard
    arrivals: Arrivals
    board: SessionRegistry
    serving: Serving
    news: NewsFeed
    clock: Clock
    default_choice: Choice
    bodies: BodyReader
    card: ServerCard
    neighbour: Neighbour | None = None
    keeps_sessions: bool = True
    challenge: Callable[[bool], str] = lambda _has_token: "Bearer"
    _date: DateLine = field(init=False)
    _known: KnownHeads = field(default_factory=KnownHeads)
    is_closing: bool = False

    def __post_init__(self) -> None:
        self._date = DateLine(self.clock)

    def serve(
        self, connection: HttpConnection, message: RawRequestMessage, body: bytes | None
    ) -> bytes | None:
        raw = (message.method, message.path, message.raw_headers)
        try:
            head = self._known.find(raw)
            if head is None or body is None or self.is_closing:
                return self._serve(connection, message, raw, body)
            return self._post(connection, head, body)
        except Exception as bug:  # noqa: BLE001 - the top of every request
            self._fault(connection, bug)
            return None

    def _serve(
        self,
        connection: HttpConnection,
        message: RawRequestMessage,
        raw: RawHead,
        body: bytes | None,
    ) -> bytes | None:
        """Serve one whose head is not known, or whose body is not here."""
        if self.is_closing:
            self._refuse(connection, STOPPING)
            return None
        head = self._known.find(raw)
        if head is None and self.neighbour is not None and self.neighbour.takes(message.path):
            return self.neighbour.serve(connection, message, body)
        head = head or self._judged(connection, message, raw, body)
        if head is None:
            return None
        if body is not None:
            return self._post(connection, head, body)
        if head.accepted.header("Expect") is not None:
            self._wire(connection).go_on()
        self.bodies.read(connection, partial(self._arrived, connection, head))
        return None

    def _judged(
        self,
        connection: HttpConnection,
        message: RawRequestMessage,
        raw: RawHead,
        body: bytes | None,
    ) -> PostHead | None:
        """The head of a POST of the direct route; ``None`` for all else, which is served here."""
        if self.card.takes(message.path):
            self._tell_card(connection, message)
            return None
        if message.method == "OPTIONS" and self.door.guard.origins:
            self._preflight(connection, message)
            return None
        verdict, query = judge(message, self.door)
        remote = self.arrivals.peer(message.headers, connection.peer)
        caller_head = self.arrivals.read_head(message.headers, remote)
        if caller_head.tokens:
            guarded = self._serve_guarded(connection, verdict, caller_head, query, body)
            self._start(connection, guarded)
            return None
        if isinstance(verdict, Rejected):
            self._refuse(connection, verdict)
            return None
        if verdict.verb is not Verb.POST:
            caller = self._direct(connection, verdict)
            feeding = self._opened_or_ended(connection, verdict, caller)
            if feeding is not None:
                self._start(connection, feeding)
            return None
        refusal = judge_expectation(verdict)
        if refusal is not None:
            self._refuse(connection, refusal)
            return None
        head = PostHead(verdict, choice_of(query, self.default_choice), query)
        if isinstance(head.choice, Choice) and verdict.header("Expect") is None:
            self._known.learn(raw, head)
        return head

    def _tell_card(self, connection: HttpConnection, message: RawRequestMessage) -> None:
        head = HttpHead(
            verb=message.method, path=message.path, headers=tuple(message.headers.items())
        )
        # What it answers already says that it is for any page.
        wire = Wire(connection, clock=self.clock, date=self._date)
        wire.respond(*self.card.answer(head), closes=not connection.is_body_here)
        connection.has_answered()

    def _preflight(self, connection: HttpConnection, message: RawRequestMessage) -> None:
        """A browser asks first whether a page of ALLOWED_ORIGINS may."""
        head = HttpHead(verb="OPTIONS", path=message.path, headers=tuple(message.headers.items()))
        judged = judge_visit(head, self.door.guard)
        if isinstance(judged, Rejected):
            self._refuse(connection, judged)
            return
        # What it answers already says whom it is for.
        wire = Wire(connection, clock=self.clock, date=self._date)
        headers = preflight(self.door.guard, judged)
        wire.respond(204, headers, b"", closes=not connection.is_body_here)
        connection.has_answered()

    def _arrived(
        self, connection: HttpConnection, head: PostHead, body: bytes | Rejected | None
    ) -> None:
        """A body that was waited for is here, or cannot be had."""
        if isinstance(body, Rejected):
            self._refuse(connection, body)
        elif body is not None:
            try:
                answer = self._post(connection, head, body)
            except Exception as bug:  # noqa: BLE001 - as in serve
                self._fault(connection, bug)
                return
            if answer is not None:
                connection.answer(answer)

    def _post(self, connection: HttpConnection, head: PostHead, body: bytes) -> bytes | None:
        """Serve a POST of the direct route; see ``RequestHandler.serve``."""
        accepted = head.accepted
        caller = self.guard.direct(self.arrivals.peer(accepted.headers, connection.peer))
        session = self.board.find(accepted.session_id, caller)
        post = None
        if session is not None and session.repeats and len(body) <= LONGEST_REPEATED:
            known = session.repeated(body, head, session.caller(caller))
            if known is not None:
                repeat, request_id = known
                if not repeat.waits:
                    return self._again(connection, repeat, request_id)
                post = self._begun_again(connection, head, session, repeat, request_id)
        if post is None:
            try:
                message = parse(body)
            except BadMessage as bad:
                self._refuse(connection, rejected_message(bad))
                return None
            post = self._recognized(connection, head, message, session, caller)
            if post is None:
                return None
            if len(body) <= LONGEST_REPEATED:
                post.head, post.body = head, body
            self.serving.serve(post)
        if not post.is_over:
            connection.await_answer(post.client_gone)
            post.on_over = partial(self._is_over, connection, post)
            return None
        if post.plain is None:
            connection.has_answered()
            return None
        return self._whole(connection, *post.plain)

    def _is_over(self, connection: HttpConnection, post: Post) -> None:
        """A POST whose requests had to wait has its answers."""
        answer = None if post.plain is None else self._whole(connection, *post.plain)
        if answer is None:
            connection.has_answered()
        else:
            connection.answer(answer)

    def _again(
        self,
        connection: HttpConnection,
        repeat: Repeat,
        request_id: RequestId,
    ) -> bytes | None:
        """Answer what was asked in the same words before."""
        found = repeat.again(self.serving.new_action_id(), _never_told)
        if not isinstance(found, Outcome):
            raise Fault("What is answered from memory was not.")
        answer = repeat.make_answer(found, request_id)
        if isinstance(answer, ErrorReply):
            status = repeat.revision.status_of(answer.rpc_code)
            return self._whole(connection, status, JSON_HEADERS, answer.encode())
        return self._whole(connection, 200, JSON_HEADERS, result_bytes_from(request_id, answer))

    def _begun_again(
        self,
        connection: HttpConnection,
        head: PostHead,
        session: Session,
        repeat: Repeat,
        request_id: RequestId,
    ) -> Post | None:
        """Begin what was asked in the same words before; ``None``: it has to be judged anew."""
        request = Request(id=request_id, method="tools/call", params=repeat.params)
        around, wire = self.serving.surroundings, partial(self._wire, connection)
        accepted, choice = head.accepted, session.choice or self.default_choice
        post = Post(
            around, wire, request, accepted, repeat.revision, session, repeat.caller, choice
        )
        return post if self.serving.repeat(post, request, repeat) else None

    def _recognized(
        self,
        connection: HttpConnection,
        head: PostHead,
        message: Message | Batch,
        session: Session | None,
        caller: Caller,
    ) -> Post | None:
        """The POST that came, and whose it is; ``None`` where it was refused."""
        accepted = head.accepted
        found = recognize(message, accepted, session.revision if session else None)
        if isinstance(found, Rejected):
            self._refuse(connection, found)
            return None
        if isinstance(head.choice, Invalid):
            refusal = rejection(400, head.choice.message, request_id=id_of(message))
            self._refuse(connection, refusal)
            return None
        choice = head.choice
        if session is None or not found.uses_session:
            session = None
            caller = head.caller(caller, client_text(client_in_meta(message)))
        else:
            caller = session.caller(caller)
            choice = head.choice_in(session.choice or choice)
        if accepted.lease:
            caller = replace(caller, lease=accepted.lease)
        if accepted.look and self.neighbour and self.neighbour.is_looking(accepted.look):
            caller = replace(caller, is_look=True)
        around, wire = self.serving.surroundings, partial(self._wire, connection)
        return Post(around, wire, message, accepted, found.revision, session, caller, choice)

    async def _serve_guarded(
        self,
        connection: HttpConnection,
        verdict: Accepted | Rejected,
        head: CallerHead,
        query: str,
        body: bytes | None,
    ) -> None:
        """Serve a request of the relay route, which is authenticated first of all."""
        if isinstance(verdict, Rejected):
            # Before it is told what else is wrong with it.
            caller = await self._caller(head)
            self._refuse(connection, caller if isinstance(caller, Rejected) else verdict)
        elif verdict.verb is Verb.POST:
            await self._post_guarded(connection, verdict, head, query, body)
        else:
            caller = await self._caller(head)
            if isinstance(caller, Rejected):
                self._refuse(connection, caller)
                return
            feeding = self._opened_or_ended(connection, verdict, caller)
            if feeding is not None:
                stream = asyncio.create_task(feeding)
                try:
                    with self._at_expiry(caller, stream.cancel):
                        await asyncio.wait({stream})
                finally:
                    stream.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await stream

    async def _post_guarded(
        self,
        connection: HttpConnection,
        accepted: Accepted,
        head: CallerHead,
        query: str,
        here: bytes | None,
    ) -> None:
        peek = Peek(lambda: self.bodies.read_small(connection, here))
        # Before the body is read: whoever has no good token gets no memory for one.
        caller = await self._caller(replace(head, asked=peek.asked), peek)
        if isinstance(caller, Rejected):
            self._refuse(connection, caller)
            return
        refusal = judge_expectation(accepted)
        if refusal is not None:
            self._refuse(connection, refusal)
            return
        wire = self._wire(connection)
        if accepted.header("Expect") is not None and not connection.is_body_here:
            wire.go_on()
        body = here if here is not None else await self.bodies.whole(connection)
        if isinstance(body, Rejected):
            self._refuse(connection, body)
            return
        post = PostHead(accepted, choice_of(query, self.default_choice), query)
        try:
            message = parse(body)
        except BadMessage as bad:
            self._refuse(connection, rejected_message(bad))
            return
        session = self.board.find(accepted.session_id, caller)
        found = self._recognized(connection, post, message, session, caller)
        if found is not None:
            await self._answered(found)

    async def _answered(self, post: Post) -> None:
        """Serve a POST to its end, in the task of its request."""
        self.serving.serve(post)
        wire = post.wire
        if not post.is_over:
            over = asyncio.get_running_loop().create_future()
            post.on_over = partial(over.set_result, None)
            wire.connection.await_answer(post.client_gone)
            if wire.is_lost:
                post.client_gone()
            with self._at_expiry(post.caller, partial(self.serving.expire, post)):
                await over
        if post.plain is not None:
            wire.respond(*post.plain)

    @contextlib.contextmanager
    def _at_expiry(self, caller: Caller, end: Callable[[], object]) -> Iterator[None]:
        """Call this when the caller's token expires before what is done here is over."""

        async def wait(expires_ms: int) -> None:
            while (left_ms := expires_ms - self.clock.wall_ms()) > 0:
                await self.clock.sleep(left_ms / 1000)
            with surviving(log, "token_expiry_failed"):
                end()

        claims = caller.claims
        waiting = asyncio.create_task(wait(claims.exp * 1000)) if claims is not None else None
        try:
            yield
        finally:
            if waiting is not None:
                waiting.cancel()

    def _opened_or_ended(
        self, connection: HttpConnection, accepted: Accepted, caller: Caller
    ) -> Coroutine[Any, Any, None] | None:
        """GET opens the session's stream and gives what feeds it, DELETE ends the session."""
        if not self.keeps_sessions:
            self._refuse(connection, POST_ALONE)
            return None
        session = self.board.find(accepted.session_id, caller)
        found = recognize_stream(accepted, session.revision if session else None)
        if isinstance(found, Rejected) or session is None:
            self._refuse(connection, found if isinstance(found, Rejected) else NO_MESSAGE)
            return None
        wire = self._wire(connection)
        if accepted.verb is Verb.DELETE:
            self.board.end(session, SessionEvent.DELETED)
            wire.respond(200, (), b"", closes=not connection.is_body_here)
        else:
            stream = wire.open_stream(SSE_HEADERS)
            if stream is not None:
                return self.news.serve(
                    wire, stream, session, caller=caller, last_event_id=accepted.last_event_id
                )
        connection.has_answered()
        return None

    def _start(self, connection: HttpConnection, serving: Coroutine[Any, Any, None]) -> None:
        """Serve a request in a task of its own."""
        connection.task = asyncio.create_task(serving)
        connection.task.add_done_callback(partial(self._served, connection))

    def _served(self, connection: HttpConnection, task: asyncio.Task[None]) -> None:
        """The task of a request is over."""
        bug = None if task.cancelled() else task.exception()
        if isinstance(bug, (ClientGoneError, ConnectionError)):
            # Nothing more will come, so there is nothing to drain.
            connection.force_close()
        elif isinstance(bug, Exception):
            self._fault(connection, bug)
        connection.has_answered()

    def _direct(self, connection: HttpConnection, accepted: Accepted) -> Caller:
        return self.guard.direct(self.arrivals.peer(accepted.headers, connection.peer))

    async def _caller(self, head: CallerHead, peek: Peek | None = None) -> Caller | Rejected:
        try:
            return await self.guard.guard(head)
        except EdgedError as refused:
            request_id = peek.request_id if peek is not None else None
            return unguarded(refused, request_id, self.challenge(any(head.tokens)))

    def _wire(self, connection: HttpConnection) -> Wire:
        more = self._cors(connection) if self.door.guard.origins else ()
        return Wire(connection, clock=self.clock, date=self._date, more=more)

    def _cors(self, connection: HttpConnection) -> HeaderList:
        """For pages of ALLOWED_ORIGINS."""
        message = connection.message
        return cors_headers(self.door.guard, message.headers.get("Origin")) if message else ()

    def _whole(
        self, connection: HttpConnection, status: int, headers: HeaderList, payload: bytes
    ) -> bytes | None:
        message = connection.message
        if connection.keeps_alive and message is not None and message.version == HttpVersion11:
            more = self._cors(connection) if self.door.guard.origins else ()
            return whole_answer(status, headers + more, payload, self._date)
        self._wire(connection).respond(status, headers, payload)
        connection.has_answered()
        return None

    def _refuse(self, connection: HttpConnection, refusal: Rejected) -> None:
        status, headers, body = refusal.status, refusal.headers, refusal.body
        self._wire(connection).respond(status, headers, body, closes=not connection.is_body_here)
        if status == TOO_SLOW:
            connection.force_close()
        connection.has_answered()

    def _fault(self, connection: HttpConnection, bug: Exception) -> None:
        fault_id = secrets.token_hex(6)
        log.error("internal_fault", fault_id=fault_id, exc_info=bug)
        message = f"edged made a mistake; its log has the details under {fault_id}."
        data = {"fault_id": fault_id}
        refused = rejection(500, message, rpc_code=RpcCode.INTERNAL_ERROR, data=data)
        connection.keeps_alive = False
        if not connection.has_begun_answer:
            self._wire(connection).respond(refused.status, refused.headers, refused.body)
        connection.has_answered()


def _never_told(_outcome: Outcome | None) -> None:
    """What has its outcome at once tells nobody later."""


STOPPING: Final = rejection(503, "The daemon is stopping.")
NO_MESSAGE: Final = rejection(400, "This request cannot be served.")
POST_ALONE: Final = rejection(
    405, "This endpoint has no sessions: use POST.", headers=(("Allow", "POST"),)
)
TOO_SLOW: Final = 408
