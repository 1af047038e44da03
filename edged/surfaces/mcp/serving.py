"""The messages of one POST, served: notifications noted, calls run in order, each one settled once.

Calls of a batch run one after the other, as they stand: two writes to one instrument mean their
order. Every call runs in the task that serves the POST.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from edged.actions.caller import Caller
from edged.clock import Clock
from edged.errors import Conflict, EdgedError
from edged.protocol.exchange import Call, Exchange
from edged.protocol.http_rules import Accepted
from edged.protocol.jsonrpc import (
    BadMessage,
    Batch,
    ErrorReply,
    Message,
    Request,
    RpcCode,
    result_bytes_from,
)
from edged.protocol.parameter_headers import disagreement
from edged.protocol.revisions import Revision
from edged.protocol.session import SessionState, admit
from edged.protocol.sse import EventLog
from edged.surfaces.mcp.asking import AskedCall, begin_call
from edged.surfaces.mcp.at_once import AT_ONCE, Answer, Asked
from edged.surfaces.mcp.calls import CallEnd, CallEndedError, Endable, RunningCall
from edged.surfaces.mcp.context import AnsweredError, Context, Parts
from edged.surfaces.mcp.error_codes import error_reply
from edged.surfaces.mcp.methods import ENDABLE, METHODS, NOTIFICATIONS, find_tool
from edged.surfaces.mcp.post import Post
from edged.surfaces.mcp.session import Session
from edged.surfaces.mcp.stream_reply import KeepAlives
from edged.surfaces.mcp.tool_list import Choice
from edged.surfaces.mcp.wire import Wire
from edged.tools.tool import Tool

__all__ = ["Served", "Serving"]


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
