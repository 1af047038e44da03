"""``METHODS`` and ``NOTIFICATIONS``: method name → what is done about it, one short function each.

A request's handler gives the encoded result, or raises: ``BadMessage`` for what is wrong with the
request, ``AnsweredError`` for an error that is made already, an ``EdgedError`` for anything else.
Whether a method exists in a revision is decided before (``protocol.session.admit``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from edged.actions.action import Progress, ProgressSink
from edged.actions.caller import Caller
from edged.errors import NotFound
from edged.protocol import messages, results
from edged.protocol.http_rules import SESSION_HEADER, HeaderList
from edged.protocol.jsonrpc import BadMessage, ErrorReply, Notification, Request, RpcCode
from edged.protocol.messages import TOOLS_CHANGED
from edged.protocol.results import Server
from edged.protocol.revisions import Revision
from edged.protocol.session import SessionEvent
from edged.surfaces.mcp.calls import CallEnd, RunningCall
from edged.surfaces.mcp.error_codes import call_answer
from edged.surfaces.mcp.post import Post
from edged.surfaces.mcp.seams import Desk, ToolSource
from edged.surfaces.mcp.sessions import Session, SessionBoard
from edged.surfaces.mcp.tool_list import Choice, ToolList
from edged.tools.tool import Tool, ToolCall

__all__ = ["ENDABLE", "METHODS", "NOTIFICATIONS", "AnsweredError", "Context", "Parts"]


class AnsweredError(Exception):
    """The answer to a request is this error."""

    def __init__(self, reply: ErrorReply) -> None:
        super().__init__(reply.message)
        self.reply = reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What every method works with.

    Attributes:
        new_action_id: makes the id under which a call is recorded.
        stopping: set once the surface closes.
        first_look: set once the instruments that are there at start are known, or slow to answer.
    """

    desk: Desk
    registry: ToolSource
    tool_list: ToolList
    board: SessionBoard
    server: Server
    new_action_id: Callable[[], str]
    stopping: asyncio.Event
    first_look: asyncio.Event


@dataclass(slots=True, kw_only=True)
class Context:
    """One request being served.

    Attributes:
        session: ``None`` when the request stands alone.
        slot: names the request in its exchange.
        call: how the request can be ended; only of those in ``ENDABLE``.
        headers: more headers of the HTTP answer; set by the handler.
    """

    parts: Parts
    revision: Revision
    session: Session | None
    caller: Caller
    choice: Choice
    post: Post
    slot: int
    call: RunningCall
    headers: HeaderList = ()


Handler = Callable[[Context, Request], Coroutine[Any, Any, bytes]]


async def initialize(context: Context, request: Request) -> bytes:
    """Open a session; its id goes out in a header."""
    messages.initialize_params(request)
    session = context.parts.board.open(context.revision, context.caller)
    context.headers = ((SESSION_HEADER, session.id),)
    return results.initialize_result(context.revision, context.parts.server)


async def ping(_context: Context, _request: Request) -> bytes:
    """Say that somebody is here."""
    return results.ping_result()


async def discover(context: Context, _request: Request) -> bytes:
    """Say what this server is and can do."""
    return results.discover_result(context.revision, context.parts.server)


async def list_tools(context: Context, request: Request) -> bytes:
    """One page of the present tools."""
    cursor = messages.list_cursor(request)
    await context.parts.first_look.wait()
    tool_list = context.parts.tool_list
    pages = tool_list.pages(context.revision, context.choice)
    if cursor is None:
        return pages[0]
    generation = tool_list.generation
    return pages[results.page_number(request, cursor, generation=generation, count=len(pages))]


async def call_tool(context: Context, request: Request) -> bytes:
    """Have a tool do its work."""
    params = messages.call_params(request)
    parts = context.parts
    await parts.first_look.wait()
    tool = find_tool(parts.registry, params.name)
    if context.revision.is_disconnect_a_cancel or (tool and tool.cancels_on_disconnect):
        context.post.tie(context.call)
    outcome = await parts.desk.call(
        ToolCall(
            name=params.name,
            arguments=params.arguments,
            caller=context.caller,
            action_id=parts.new_action_id(),
            progress=_progress_sink(context, params.progress_token),
        )
    )
    answer = call_answer(
        outcome, request.id, tool=tool, revision=context.revision, server=parts.server
    )
    if isinstance(answer, ErrorReply):
        raise AnsweredError(answer)
    return answer


async def listen(context: Context, request: Request) -> bytes:
    """Keep a stream of the changes a client asked for, until it closes it or the daemon stops."""
    wish = messages.subscription_params(request).honoured(frozenset({TOOLS_CHANGED}))
    post = context.post
    if not post.exchange.can_stream:
        raise BadMessage(
            "subscriptions/listen answers with an event stream; accept text/event-stream.",
            rpc_code=RpcCode.INVALID_REQUEST,
            request_id=request.id,
        )
    post.tie(context.call)
    changed = messages.change_bytes(TOOLS_CHANGED, subscription_id=request.id)

    def tell() -> None:
        if post.is_lagging:
            # It would miss the change without knowing; after a break it lists anew.
            post.cut()
        else:
            post.notify(context.slot, changed)

    post.notify(context.slot, messages.acknowledged_bytes(request.id, wish))
    wants_tools = TOOLS_CHANGED in wish.methods
    unsubscribe = context.parts.board.listen(tell) if wants_tools else _nothing
    try:
        await context.parts.stopping.wait()
    finally:
        unsubscribe()
    return results.listen_result(context.revision, context.parts.server, request.id)


def note_initialized(session: Session | None, _: Notification) -> None:
    """The client has read what ``initialize`` answered."""
    if session is not None:
        session.note(SessionEvent.INITIALIZED)


def cancel_call(session: Session | None, notification: Notification) -> None:
    """End a call of the same session; one that is not in flight is ignored."""
    request_id = messages.cancelled_id(notification)
    if session is not None and request_id is not None:
        session.calls.end(request_id, CallEnd.CANCELLED)


def find_tool(registry: ToolSource, name: object) -> Tool | None:
    """The tool of that name, for how its answers are handled; the desk judges the name itself."""
    if not isinstance(name, str):
        return None
    try:
        return registry.find(name)
    except NotFound:
        return None


def _progress_sink(context: Context, token: messages.ProgressToken | None) -> ProgressSink | None:
    """Where a call's progress goes; ``None`` when nobody wants it or could read it."""
    post = context.post
    if token is None or not post.exchange.can_stream:
        return None

    def send(progress: Progress) -> None:
        # A reader that is minutes behind misses points; the numbers tell it, and the result counts.
        if not post.is_lagging:
            payload = messages.progress_bytes(
                token,
                progress.progress,
                total=progress.total,
                message=progress.message,
                meta=progress.meta,
            )
            post.notify(context.slot, payload)

    return send


def _nothing() -> None:
    """Ends no subscription."""


METHODS: Final[Mapping[str, Handler]] = MappingProxyType(
    {
        "initialize": initialize,
        "ping": ping,
        "server/discover": discover,
        "tools/list": list_tools,
        "tools/call": call_tool,
        "subscriptions/listen": listen,
    }
)

ENDABLE: Final = frozenset({"tools/call", "subscriptions/listen"})
"""Requests that may take long, and so can be cancelled; the others are answered at once."""

NoteHandler = Callable[[Session | None, Notification], None]

NOTIFICATIONS: Final[Mapping[str, NoteHandler]] = MappingProxyType(
    {
        "notifications/initialized": note_initialized,
        "notifications/cancelled": cancel_call,
    }
)
