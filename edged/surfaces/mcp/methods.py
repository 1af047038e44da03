"""``METHODS`` and ``NOTIFICATIONS``: method name → what is done about it, one short function each.

A request's handler gives the encoded result, or raises: ``BadMessage`` for what is wrong with the
request, ``AnsweredError`` for an error that is made already, an ``EdgedError`` for anything else.
Whether a method exists in a revision is decided before (``protocol.session.admit``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from edged.actions.action import Progress, ProgressSink
from edged.errors import NotFound
from edged.protocol import messages, results
from edged.protocol.http_rules import SESSION_HEADER
from edged.protocol.jsonrpc import ErrorReply, Notification, Request
from edged.protocol.revisions import Revision
from edged.protocol.session import SessionEvent
from edged.surfaces.mcp.calls import CallEnd
from edged.surfaces.mcp.context import AnsweredError, Context, Handler, Parts
from edged.surfaces.mcp.error_codes import call_answer
from edged.surfaces.mcp.resource_methods import (
    complete,
    list_resources,
    list_templates,
    read_resource,
)
from edged.surfaces.mcp.seams import ToolSource
from edged.surfaces.mcp.session import Session
from edged.surfaces.mcp.tool_list import Choice
from edged.surfaces.mcp.watch_methods import listen, unwatch_resource, watch_resource
from edged.tools.tool import Tool, ToolCall

__all__ = ["ENDABLE", "METHODS", "NOTIFICATIONS", "find_tool", "tools_page"]


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
    await context.parts.first_look.wait()
    return tools_page(context.parts, context.revision, context.choice, request)


def tools_page(parts: Parts, revision: Revision, choice: Choice, request: Request) -> bytes:
    """The page of the present tools that a request's cursor means."""
    cursor = messages.list_cursor(request)
    pages = parts.tool_list.pages(revision, choice)
    if cursor is None:
        return pages[0]
    generation = parts.tool_list.generation
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

    def send(progress: Progress) -> bool:
        # A reader that is minutes behind misses points; the numbers tell it, and the result counts.
        if post.is_lagging:
            return False
        payload = messages.progress_bytes(
            token,
            progress.progress,
            total=progress.total,
            message=progress.message,
            meta=progress.meta,
        )
        post.notify(context.slot, payload)
        return True

    return send


METHODS: Final[Mapping[str, Handler]] = MappingProxyType(
    {
        "initialize": initialize,
        "ping": ping,
        "server/discover": discover,
        "tools/list": list_tools,
        "tools/call": call_tool,
        "resources/list": list_resources,
        "resources/templates/list": list_templates,
        "resources/read": read_resource,
        "resources/subscribe": watch_resource,
        "resources/unsubscribe": unwatch_resource,
        "completion/complete": complete,
        "subscriptions/listen": listen,
    }
)

ENDABLE: Final = frozenset({"tools/call", "resources/read", "subscriptions/listen"})
"""Requests that may take long, and so can be cancelled; the others are answered at once."""

NoteHandler = Callable[[Session | None, Notification], None]

NOTIFICATIONS: Final[Mapping[str, NoteHandler]] = MappingProxyType(
    {
        "notifications/initialized": note_initialized,
        "notifications/cancelled": cancel_call,
    }
)
