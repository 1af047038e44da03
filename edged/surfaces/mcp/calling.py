"""``AT_ONCE``: requests that wait for nothing, answered in the same breath in which they came.

No task, no exchange, no entry among the calls in flight: there is no moment at which anything could
come between or cancel them. What a method means is in ``methods``, what a tool call has to pass is
the command path's, here as there; and whoever gets ``None`` serves the request the long way.

A tool call that waits for one answer of an instrument, served without a task.

It begins in the breath in which its request came and ends in the one in which the answer comes;
between the two it can be ended like every call: by its session, by its client's going, by the end
of the daemon. Where it is silent for so long that the client wants a sign of life, the answer goes
on as that of any POST (``post``). What is unusual from the start is served the long way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

from edged.actions.caller import Caller
from edged.actions.outcome import Outcome
from edged.actions.tool import Tool, ToolCall
from edged.clock import Clock
from edged.commands.pending import Underway
from edged.protocol import messages, results
from edged.protocol.exchange import Exchange
from edged.protocol.http_rules import JSON_HEADERS, Accepted
from edged.protocol.jsonrpc import ErrorReply, Request, result_bytes_from
from edged.protocol.revisions import Revision
from edged.protocol.sse import EventLog
from edged.surfaces.mcp.error_codes import call_answer
from edged.surfaces.mcp.methods import Parts, find_tool, tools_page
from edged.surfaces.mcp.post import Post
from edged.surfaces.mcp.reply import KeepAlives, Wire
from edged.surfaces.mcp.seams import Choice
from edged.surfaces.mcp.sessions import CallEnd, Session

__all__ = ["AT_ONCE", "Around", "Asked", "AskedCall", "begin_call"]


@dataclass(slots=True)
class Asked:
    """Who asks, and how they speak; made for every request, so not frozen: that costs twice.

    Attributes:
        session: ``None`` when the request stands alone.
        caller: as of that session.
        choice: what tools/list shows to this client.
    """

    revision: Revision
    session: Session | None
    caller: Caller
    choice: Choice


Answer = bytes | ErrorReply | None
"""An encoded result, or the error instead of one; ``None`` when it cannot be had at once."""


def ping(_parts: Parts, _asked: Asked, _request: Request) -> Answer:
    """Say that somebody is here."""
    return results.ping_result()


def list_tools(parts: Parts, asked: Asked, request: Request) -> Answer:
    """One page of the present tools."""
    return tools_page(parts, asked.revision, asked.choice, request)


def call_tool(parts: Parts, asked: Asked, request: Request) -> Answer:
    """Have a tool tell what it knows already."""
    tool = find_tool(parts.registry, request.params.get("name"))
    if tool is None or not tool.answers_at_once:
        return None
    if asked.session is not None and request.id in asked.session.calls:
        return None
    params = messages.call_params(request)
    call = ToolCall(
        name=params.name,
        arguments=params.arguments,
        caller=asked.caller,
        action_id=parts.new_action_id(),
    )
    return call_answer(
        parts.dispatcher.call_at_once(tool, call),
        request.id,
        tool=tool,
        revision=asked.revision,
        server=parts.server,
    )


AT_ONCE: Final[Mapping[str, Callable[[Parts, Asked, Request], Answer]]] = MappingProxyType(
    {"ping": ping, "tools/list": list_tools, "tools/call": call_tool}
)


class Around(Protocol):
    """What a call needs of the room that serves it.

    Attributes:
        keep_alives: where silent calls are listed.
        clock: the time.
    """

    keep_alives: KeepAlives
    clock: Clock

    def began(self, call: AskedCall) -> None:
        """It is under way."""
        ...

    def ended(self, call: AskedCall) -> None:
        """It is not any more."""
        ...

    def error_reply(self, error: Exception, request: Request) -> ErrorReply:
        """What a caller is told of an error."""
        ...

    def stopping_reply(self, request: Request) -> ErrorReply:
        """What a caller is told whose call the end of the daemon has ended."""
        ...

    def event_log(self, asked: Asked, accepted: Accepted, tool: Tool) -> EventLog | None:
        """The memory of its answer, should that become a stream."""
        ...


def begin_call(
    parts: Parts,
    around: Around,
    asked: Asked,
    accepted: Accepted,
    request: Request,
    make_wire: Callable[[], Wire],
) -> AskedCall | Answer:
    """Begin a tools/call that may be one question.

    Returns:
        The call; or its answer, where it ended before anything was sent; or ``None``: nothing has
        been done, and it has to be served the long way.

    Raises:
        BadMessage: its parameters are none.
    """
    tool = find_tool(parts.registry, request.params.get("name"))
    if tool is None or not tool.may_ask:
        return None
    session = asked.session
    if session is not None and request.id in session.calls:
        return None
    params = messages.call_params(request)
    if params.progress_token is not None:
        return None
    call = AskedCall(parts, around, asked, accepted, request, tool)
    begun = parts.dispatcher.begin(
        tool,
        ToolCall(
            name=params.name,
            arguments=params.arguments,
            caller=asked.caller,
            action_id=parts.new_action_id(),
        ),
        call.tell,
    )
    if isinstance(begun, Underway):
        call.go_on(begun, make_wire())
        return call
    return None if begun is None else call.answer_of(begun)


class AskedCall:
    """One such call; ``calls.Endable``, ``stream_reply.Quiet``, and what its connection waits for.

    Attributes:
        last_write_s: see ``stream_reply.Quiet``.
    """

    __slots__ = (
        "_accepted",
        "_around",
        "_asked",
        "_ended",
        "_is_cut_by_disconnect",
        "_parts",
        "_post",
        "_request",
        "_tool",
        "_underway",
        "_wire",
        "last_write_s",
    )

    def __init__(
        self,
        parts: Parts,
        around: Around,
        asked: Asked,
        accepted: Accepted,
        request: Request,
        tool: Tool,
    ) -> None:
        self._parts = parts
        self._around = around
        self._asked = asked
        self._accepted = accepted
        self._request = request
        self._tool = tool
        self._underway: Underway | None = None
        self._wire: Wire | None = None
        # The answer's other form, once there was a sign of life.
        self._post: Post | None = None
        self._ended: CallEnd | None = None
        self._is_cut_by_disconnect = (
            asked.revision.is_disconnect_a_cancel or tool.cancels_on_disconnect
        )
        self.last_write_s = 0.0

    def go_on(self, underway: Underway, wire: Wire) -> None:
        """It is under way: from now on it can be ended."""
        self._underway = underway
        self._wire = wire
        self.last_write_s = self._around.clock.monotonic()
        session = self._asked.session
        if session is not None:
            session.calls.add(self._request.id, self)
        self._around.began(self)
        self._around.keep_alives.add(self)
        if self._is_cut_by_disconnect:
            wire.connection.probe_by(self.probe)
        wire.connection.await_answer(self.client_gone)

    def end(self, why: CallEnd) -> None:
        """See ``calls.Endable``."""
        if self._ended is None and self._underway is not None:
            self._ended = why
            self._underway.cancel()

    def keep_alive(self) -> None:
        """See ``stream_reply.Quiet``."""
        self._lengthen()
        if self._post is not None:
            self._post.keep_alive()
            self.last_write_s = self._post.last_write_s

    def probe(self) -> bool:
        """See ``HttpConnection.probe_by``."""
        self._lengthen()
        return self._post is not None and self._post.probe()

    def client_gone(self) -> None:
        """The connection is lost."""
        if self._post is not None:
            self._post.client_gone()
        if self._is_cut_by_disconnect:
            self.end(CallEnd.CLIENT_GONE)

    def tell(self, outcome: Outcome | None) -> None:
        """What came of it; ``None`` once it was ended."""
        wire = self._wire
        if wire is None:
            return
        try:
            answer = self._end_answer() if outcome is None else self.answer_of(outcome)
            if self._post is not None:
                self._finish(self._post, answer)
            else:
                self._respond(wire, answer)
        finally:
            self._around.ended(self)
            self._around.keep_alives.discard(self)
            session = self._asked.session
            if session is not None:
                session.calls.discard(self._request.id, self)
                self._parts.board.touch(session)
            wire.connection.has_answered()

    def answer_of(self, outcome: Outcome) -> Answer:
        """The encoded result, or the error instead of one."""
        try:
            return call_answer(
                outcome,
                self._request.id,
                tool=self._tool,
                revision=self._asked.revision,
                server=self._parts.server,
            )
        except Exception as error:  # noqa: BLE001 - one call must not take others along
            return self._around.error_reply(error, self._request)

    def _end_answer(self) -> Answer:
        if self._ended is CallEnd.STOPPING:
            return self._around.stopping_reply(self._request)
        return None

    def _respond(self, wire: Wire, answer: Answer) -> None:
        match answer:
            case None:
                wire.respond(202, (), b"")
            case ErrorReply():
                status = self._asked.revision.status_of(answer.rpc_code)
                wire.respond(status, JSON_HEADERS, answer.encode())
            case _:
                wire.respond(200, JSON_HEADERS, result_bytes_from(self._request.id, answer))

    def _lengthen(self) -> None:
        if self._post is None and self._wire is not None and not self._wire.is_lost:
            self._post = self._long_answer(self._wire)

    def _long_answer(self, wire: Wire) -> Post:
        log = self._around.event_log(self._asked, self._accepted, self._tool)
        return Post(
            wire=wire,
            exchange=Exchange(
                self._request,
                revision=self._asked.revision,
                wants_json=self._accepted.wants_json,
                wants_sse=self._accepted.wants_sse,
                log=log,
            ),
            session=self._asked.session,
            log=log,
            keep_alives=self._around.keep_alives,
            clock=self._around.clock,
        )

    def _finish(self, post: Post, answer: Answer) -> None:
        exchange = post.exchange
        slot = exchange.calls[0].slot
        match answer:
            case None:
                effects = exchange.drop(slot)
            case ErrorReply():
                effects = exchange.fail(slot, answer)
            case _:
                effects = exchange.answer(slot, answer)
        post.carry_out(effects)
        post.finish()
