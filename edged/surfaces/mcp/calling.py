"""The requests of a POST, served in their order, each one settled once.

A handler (``methods``) gives an answer, an action that is under way, or a coroutine, for which a
task is made. What waits for nothing is answered in the same breath, and nothing could have come
between. Calls of a batch run one after the other, as they stand: two writes to one instrument mean
their order; but all of them are in flight from its beginning, so that a later one can be cancelled.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

import structlog

from edged.actions.outcome import Outcome, Underway
from edged.clock import Clock
from edged.errors import Conflict, EdgedError
from edged.protocol.jsonrpc import (
    BadMessage,
    Batch,
    ErrorReply,
    Request,
    Response,
    RpcCode,
)
from edged.protocol.recognition import disagreement
from edged.protocol.revisions import Revision
from edged.protocol.session import SessionState, admit
from edged.protocol.sse import EventLog
from edged.surfaces.mcp.error_codes import error_reply
from edged.surfaces.mcp.methods import (
    AFTER_FIRST_LOOK,
    ENDABLE,
    METHODS,
    NOTIFICATIONS,
    OUTLIVES_TOKEN,
    AnsweredError,
    Parts,
    find_tool,
    is_cut_by_disconnect,
    report_early,
)
from edged.surfaces.mcp.post import Answer, PendingCall, Post, Served, Surroundings
from edged.surfaces.mcp.reply import KeepAlives
from edged.surfaces.mcp.sessions import CallEnd, CallEndedError, Repeat, Session
from edged.telemetry.conventions import OperationFacts

SERVED_AT_ONCE: Final = 32
"""Of a batch's requests, in one turn of the event loop: most calls take some 0.1 ms."""
TURN_S: Final = 0.005
"""What such a turn may take; a call that is refused with what was meant takes milliseconds."""


class Serving:
    """Serves POSTs; made on the loop that it serves on.

    Args:
        parts: what methods work with.
        keep_alives: where silent calls are listed.
        clock: for the times of streams.

    Attributes:
        new_action_id: makes the id of one more action.
        surroundings: what each ``Post`` is made with.
    """

    def __init__(self, *, parts: Parts, keep_alives: KeepAlives, clock: Clock) -> None:
        self._parts = parts
        more = parts.extension
        self._methods = METHODS if more is None else {**METHODS, **more.methods}
        self._notifications = (
            NOTIFICATIONS if more is None else {**NOTIFICATIONS, **more.notifications}
        )
        self._log = structlog.get_logger("edged.mcp")
        self._clock = clock
        self._running: set[PendingCall] = set()
        # Set when nothing runs any more, while somebody waits for that.
        self._settled: asyncio.Event | None = None
        self.new_action_id = parts.new_action_id
        self.surroundings = Surroundings(
            keep_alives=keep_alives,
            clock=clock,
            new_log=self._new_log,
            settled=self._outcome_told,
        )

    def serve(self, post: Post) -> None:
        """Serve every message; ``post.is_over`` says whether the answer has gone out already."""
        if isinstance(post.message, Request):
            post.calls = (PendingCall(post, 0, post.message),)
        else:
            exchange = post.exchange
            if isinstance(post.message, Response) and post.session is not None:
                post.session.answered(post.message)
            for notification in exchange.notifications:
                if notification.method in post.revision.notifications:
                    self._notifications[notification.method](post.session, notification)
            post.carry_out(exchange.begin())
            post.calls = tuple(
                PendingCall(post, call.slot, call.request) for call in exchange.calls
            )
            for call in post.calls:
                report_early(call)
                try:
                    self._enlist(call)
                except Conflict as twice:
                    call.refusal = _twice(call, twice)
        self._go_on(post)

    def repeat(self, post: Post, request: Request, repeat: Repeat) -> bool:
        """``serve`` what means the same as an earlier call; false: it has to be judged anew."""
        call = PendingCall(post, 0, request)
        call.make_answer = repeat.make_answer
        begun = repeat.again(self._parts.new_action_id(), partial(self._outcome_told, call))
        if begun is None:
            return False
        post.calls, post.served = (call,), 1
        if isinstance(begun, Underway):
            self._enlist(call)
            call.go_on(begun)
        else:
            self._outcome_told(call, begun)
        return True

    def expire(self, post: Post) -> None:
        """The token under which a POST came has expired: its requests end.

        What a call has begun at an instrument goes on, as a run that was started does: nothing is
        broken off in the middle of its lines. Nobody waits for its answer, and none is given.
        """
        begun, waiting = post.calls[: post.served], post.calls[post.served :]
        for call in waiting:
            call.end(CallEnd.EXPIRED)
        for call in begun:
            if call.is_answered:
                continue
            if call.on_expiry is not None:
                call.on_expiry()
            elif call.request.method in OUTLIVES_TOKEN:
                call.ended = call.ended or CallEnd.EXPIRED
                self._answer(call, _end_answer(call))
                self._go_on(post)
            else:
                call.end(CallEnd.EXPIRED)

    async def stop(self, grace_s: float) -> None:
        """Let calls in flight finish for a moment, then end them; returns when none is left."""
        try:
            async with asyncio.timeout(grace_s):
                await self._all_settled()
        except TimeoutError:
            for call in tuple(self._running):
                call.end(CallEnd.STOPPING)
            await self._all_settled()

    async def _all_settled(self) -> None:
        while self._running:
            self._settled = asyncio.Event()
            await self._settled.wait()

    def _go_on(self, post: Post) -> None:
        """Serve what is left of it, until a request has to wait; in turns where that is a lot."""
        if post.is_over:
            return
        last, until_s = post.served + SERVED_AT_ONCE, None
        while post.served < len(post.calls):
            call = post.calls[post.served]
            post.served += 1
            found = self._served(call)
            if found is None or isinstance(found, bytes | ErrorReply):
                self._settle(call, found)
            else:
                self._wait(call, found)
                return
            if post.served < len(post.calls):
                now_s = self._clock.monotonic()
                until_s = now_s + TURN_S if until_s is None else until_s
                if post.served >= last or now_s >= until_s:
                    asyncio.get_running_loop().call_soon(self._go_on, post)
                    return
        post.finish()

    def _served(self, call: PendingCall) -> Served | None:
        """The result of a request; ``None`` if it was ended and gets no answer."""
        if call.ended is not None:
            return _end_answer(call)
        if call.refusal is not None:
            return call.refusal
        try:
            refusal = self._inadmissible(call)
            if refusal is not None:
                return refusal
            if self._must_wait_for_look(call):
                return self._look(call)
            if self._parts.telemetry is None:
                return self._begun(call)
            call.span = self._parts.telemetry.begin(_facts_of(self._parts, call))
            with call.span.current():
                return self._begun(call)
        except Exception as error:  # noqa: BLE001 - one call must not take others along
            return self._error_reply(error, call)

    def _begun(self, call: PendingCall) -> Served:
        """What the method's handler gives, if the caller has the permission that it needs."""
        method = self._methods[call.request.method]
        if isinstance(method.needs, str):
            self._parts.authorize(call.post.caller, method.needs)
        return method.handler(self._parts, call)

    def _wait(self, call: PendingCall, found: Underway | Coroutine[Any, Any, bytes]) -> None:
        self._enlist(call)
        if isinstance(found, Underway):
            call.go_on(found)
        elif self._must_wait_for_look(call):
            call.run(found, self._looked)
        else:
            call.run(found, self._worked)

    def _must_wait_for_look(self, call: PendingCall) -> bool:
        return call.request.method in AFTER_FIRST_LOOK and not self._parts.first_look.is_set()

    async def _look(self, call: PendingCall) -> bytes:
        if is_cut_by_disconnect(self._parts, call):
            call.tie()
        await self._parts.first_look.wait()
        return b""

    def _looked(self, call: PendingCall, task: asyncio.Task[Any]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._worked(call, task)
        else:
            call.post.served -= 1
            self._go_on(call.post)

    def _worked(self, call: PendingCall, task: asyncio.Task[Any]) -> None:
        """The task of a request is done; one that was ended and came all the same was ended."""
        answer: Answer
        error = None if task.cancelled() else task.exception()
        if call.ended is not None or task.cancelled():
            answer = _end_answer(call)
        elif isinstance(error, Exception):
            answer = self._error_reply(error, call)
        else:
            answer = task.result()
        self._settle(call, answer)
        self._go_on(call.post)

    def _outcome_told(self, call: PendingCall, outcome: Outcome | None) -> None:
        answer: Answer
        if outcome is None or call.make_answer is None:
            answer = _end_answer(call)
        else:
            try:
                answer = call.make_answer(outcome, call.request.id)
                if outcome.again is not None:
                    call.remember(outcome, call.make_answer)
            except Exception as error:  # noqa: BLE001 - as in _served
                answer = self._error_reply(error, call)
        self._settle(call, answer)
        if call.post.served < len(call.post.calls):
            self._go_on(call.post)
        elif not call.post.is_over:
            call.post.finish()

    def _enlist(self, call: PendingCall) -> None:
        """It is in flight: from now on it can be ended. Raises ``Conflict``: its id is already."""
        if call in self._running:
            return
        session = call.post.session
        if session is not None and call.request.method in ENDABLE:
            session.calls.add(call.request.id, call)
        self._running.add(call)

    def _answer(self, call: PendingCall, answer: Answer) -> None:
        if call.is_answered:
            return
        call.is_answered = True
        # What sends them knows the call: together they would wait for the garbage collector.
        call.progress = call.beat = call.underway = None
        if call.span is not None:
            call.span.end(str(answer.rpc_code) if isinstance(answer, ErrorReply) else "")
        call.post.settle(call, answer)

    def _settle(self, call: PendingCall, answer: Answer) -> None:
        self._answer(call, answer)
        if call not in self._running:
            return
        self._running.discard(call)
        if self._settled is not None and not self._running:
            self._settled.set()
        session = call.post.session
        if session is not None:
            session.calls.discard(call.request.id, call)
            self._parts.board.touch(session)

    def _inadmissible(self, call: PendingCall) -> ErrorReply | None:
        """Why a request may not be served here; ``None`` if it may."""
        request, post = call.request, call.post
        session, revision = post.session, post.revision
        refusal = admit(
            request,
            revision=revision,
            state=_state_of(session, revision),
            offers=self._parts.offers,
        )
        if refusal is not None:
            return refusal
        if session is not None and request.method in ENDABLE and call not in self._running:
            try:
                session.calls.check(request.id)
            except Conflict as twice:
                return _twice(call, twice)
        if request.method == "tools/call" and revision.has_parameter_headers:
            return self._judge_parameter_headers(call)
        return None

    def _judge_parameter_headers(self, call: PendingCall) -> ErrorReply | None:
        request = call.request
        tool = find_tool(self._parts.registry, request.params.get("name"))
        arguments = request.params.get("arguments")
        if tool is None or not isinstance(arguments, dict):
            return None
        header = disagreement(tool.input_schema, arguments, call.post.accepted.headers)
        if not header:
            return None
        return ErrorReply(
            request_id=request.id,
            rpc_code=RpcCode.HEADER_MISMATCH,
            message=f"The header {header} is missing or does not repeat its argument.",
            data={"header": header},
        )

    def _error_reply(self, error: Exception, call: PendingCall) -> Answer:
        """What a caller is told of an error."""
        match error:
            case CallEndedError():
                return _end_answer(call)
            case AnsweredError(reply=reply):
                return reply
            case BadMessage():
                return error.reply()
            case EdgedError():
                return error_reply(error, call.request.id)
        fault_id = secrets.token_hex(6)
        method = call.request.method
        self._log.error("internal_fault", fault_id=fault_id, method=method, exc_info=error)
        return ErrorReply(
            request_id=call.request.id,
            rpc_code=RpcCode.INTERNAL_ERROR,
            message=f"edged made a mistake; its log has the details under {fault_id}.",
            data={"fault_id": fault_id},
        )

    def _new_log(self, post: Post) -> EventLog | None:
        """The memory of a resumable answer; none where the client's going ends the call anyway."""
        session = post.session
        if session is None or not post.revision.has_event_ids or not post.accepted.wants_sse:
            return None
        message = post.message
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


def _facts_of(parts: Parts, call: PendingCall) -> OperationFacts:
    request, post = call.request, call.post
    name, uri = request.params.get("name"), request.params.get("uri")
    tool = find_tool(parts.registry, name) if request.method == "tools/call" else None
    return OperationFacts(
        method=request.method,
        tool=tool.name if tool is not None else "",
        request_id=request.id,
        protocol_version=post.revision.version,
        # The id itself is its client's secret.
        session_id=post.session.label if post.session is not None else "",
        resource_uri=uri if isinstance(uri, str) else "",
        client=post.caller.remote,
        carrier=request.params.get("_meta"),
    )


def _end_answer(call: PendingCall) -> ErrorReply | None:
    """The answer to a call that was ended: none, unless the engine or its token ended."""
    if call.ended is CallEnd.EXPIRED:
        return ErrorReply(
            request_id=call.request.id,
            rpc_code=RpcCode.NOT_AUTHENTICATED,
            message="The token of this call has expired, and the call ended with it. What it had "
            "begun goes on: get_status shows that, and bench__runs has the data.",
        )
    if call.ended is not CallEnd.STOPPING:
        return None
    return ErrorReply(
        request_id=call.request.id,
        rpc_code=RpcCode.INTERNAL_ERROR,
        message="The daemon is stopping; the call was ended.",
    )


def _twice(call: PendingCall, twice: Conflict) -> ErrorReply:
    return ErrorReply(
        request_id=call.request.id, rpc_code=RpcCode.INVALID_REQUEST, message=str(twice)
    )
