"""What a method of the MCP surface works with: its parts, and the one request being served.

``METHODS`` and ``NOTIFICATIONS``: method name → what is done about it, one short function each.

A request's handler gives the encoded result, or raises: ``BadMessage`` for what is wrong with the
request, ``AnsweredError`` for an error that is made already, an ``EdgedError`` for anything else.
Whether a method exists in a revision is decided before (``protocol.session.admit``).

The methods that list and read resources, and complete the names in their URIs.

The methods by which a client hears of changes: of a session, or on a stream of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from edged.actions.action import Progress, ProgressSink
from edged.actions.caller import Caller
from edged.actions.tool import Tool, ToolCall
from edged.errors import EdgedError, Failed, NotFound
from edged.protocol import messages, results
from edged.protocol import messages as resources
from edged.protocol.http_rules import SESSION_HEADER, HeaderList
from edged.protocol.jsonrpc import BadMessage, ErrorReply, Notification, Request, RpcCode
from edged.protocol.messages import RESOURCE_UPDATED, RESOURCES_CHANGED, TOOLS_CHANGED, resource_uri
from edged.protocol.results import Server
from edged.protocol.revisions import Revision
from edged.protocol.session import SessionEvent
from edged.surfaces.mcp.error_codes import call_answer, error_reply
from edged.surfaces.mcp.post import Post
from edged.surfaces.mcp.seams import Choice, Dispatcher, ResourceSource, ToolSource
from edged.surfaces.mcp.sessions import Announcement, CallEnd, RunningCall, Session, SessionRegistry
from edged.surfaces.mcp.tool_list import ToolList

__all__ = [
    "ENDABLE",
    "METHODS",
    "NOTIFICATIONS",
    "AnsweredError",
    "Context",
    "Handler",
    "Parts",
    "complete",
    "find_tool",
    "list_resources",
    "list_templates",
    "listen",
    "not_read",
    "read_resource",
    "tools_page",
    "unwatch_resource",
    "watch_resource",
]


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

    dispatcher: Dispatcher
    registry: ToolSource
    tool_list: ToolList
    board: SessionRegistry
    resources: ResourceSource
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
"""Gives the encoded result of a request."""


async def list_resources(context: Context, request: Request) -> bytes:
    """What there is to read now, on one page."""
    _only_page(request)
    await context.parts.first_look.wait()
    entries = await context.parts.resources.entries(context.caller)
    return results.list_result(
        context.revision,
        context.parts.server,
        method="resources/list",
        key="resources",
        entries=(entry.as_listed(context.revision) for entry in entries),
    )


async def list_templates(context: Context, request: Request) -> bytes:
    """The families of URIs, on one page."""
    _only_page(request)
    return results.list_result(
        context.revision,
        context.parts.server,
        method="resources/templates/list",
        key="resourceTemplates",
        entries=(
            entry.as_listed(context.revision) for entry in context.parts.resources.templates()
        ),
    )


async def read_resource(context: Context, request: Request) -> bytes:
    """Read one."""
    uri = resources.resource_uri(request)
    parts = context.parts
    if context.revision.is_disconnect_a_cancel:
        context.post.tie(context.call)
    await parts.first_look.wait()
    try:
        contents = await parts.resources.read(uri, context.caller, parts.new_action_id())
    except EdgedError as error:
        raise not_read(context, request, uri, error) from error
    return resources.read_result(context.revision, parts.server, contents)


async def complete(context: Context, request: Request) -> bytes:
    """Values for a variable of a template."""
    asked = resources.completion_params(request)
    await context.parts.first_look.wait()
    values = await context.parts.resources.complete(asked, context.caller)
    return resources.completion_result(context.revision, context.parts.server, values)


def not_read(context: Context, request: Request, uri: str, error: EdgedError) -> AnsweredError:
    """Why a resource was not read, as the revision words it."""
    if isinstance(error, NotFound):
        code = context.revision.resource_not_found
        reply = ErrorReply(
            request_id=request.id, rpc_code=code, message=str(error), data={"uri": uri}
        )
    elif isinstance(error, Failed):
        reply = ErrorReply(
            request_id=request.id, rpc_code=RpcCode.INTERNAL_ERROR, message=str(error)
        )
    else:
        reply = error_reply(error, request.id)
    return AnsweredError(reply)


def _only_page(request: Request) -> None:
    results.page_number(request, messages.list_cursor(request), generation=0, count=1)


SENT: Final = frozenset({TOOLS_CHANGED, RESOURCES_CHANGED, RESOURCE_UPDATED})


async def watch_resource(context: Context, request: Request) -> bytes:
    """Tell this session of each change of a resource."""
    uri = resource_uri(request)
    await context.parts.first_look.wait()
    key = _key(context, request, uri)
    if context.session is not None:
        context.parts.board.watch(context.session, key, uri)
    return results.plain_result(context.revision, context.parts.server, method=request.method)


async def unwatch_resource(context: Context, request: Request) -> bytes:
    """Tell it no more."""
    uri = resource_uri(request)
    if context.session is not None:
        watched = dict(context.session.watched)
        for key in (key for key, spelled in watched.items() if uri in (key, spelled)):
            context.parts.board.unwatch(context.session, key)
    return results.plain_result(context.revision, context.parts.server, method=request.method)


async def listen(context: Context, request: Request) -> bytes:
    """Keep a stream of the changes a client asked for, until it closes it or the daemon stops."""
    wish = messages.subscription_params(request).honoured(SENT)
    post = context.post
    if not post.exchange.can_stream:
        raise BadMessage(
            "subscriptions/listen answers with an event stream; accept text/event-stream.",
            rpc_code=RpcCode.INVALID_REQUEST,
            request_id=request.id,
        )
    post.tie(context.call)
    if wish.resource_uris:
        await context.parts.first_look.wait()
    watched = _watched(context, wish.resource_uris)
    wish = replace(wish, resource_uris=tuple(watched.values()))

    def tell(news: Announcement) -> None:
        if news.key:
            uri = watched.get(news.key)
            if uri is None:
                return
            payload = messages.updated_bytes(uri, subscription_id=request.id)
        elif news.method in wish.methods:
            payload = messages.change_bytes(news.method, subscription_id=request.id)
        else:
            return
        if post.is_lagging:
            # It would miss the change without knowing; after a break it lists anew.
            post.cut()
        else:
            post.notify(context.slot, payload)

    post.notify(context.slot, messages.acknowledged_bytes(request.id, wish))
    unsubscribe = context.parts.board.listen(tell)
    try:
        await context.parts.stopping.wait()
    finally:
        unsubscribe()
    return results.listen_result(context.revision, context.parts.server, request.id)


def _key(context: Context, request: Request, uri: str) -> str:
    try:
        return context.parts.resources.watch_key(uri, context.caller)
    except EdgedError as error:
        raise not_read(context, request, uri, error) from error


def _watched(context: Context, uris: tuple[str, ...]) -> dict[str, str]:
    """Key → URI as the client spelled it, of those that exist and it may read."""
    found = {}
    for uri in uris:
        try:
            found[context.parts.resources.watch_key(uri, context.caller)] = uri
        except EdgedError:
            continue
    return found


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
    outcome = await parts.dispatcher.call(
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
    """The tool of that name, for how its answers are handled; the dispatcher judges the name."""
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
