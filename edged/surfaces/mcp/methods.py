"""What a method of the MCP surface works with: its parts, and the one request being served.

``METHODS`` and ``NOTIFICATIONS``: method name → what is done about it, one short function each.
The row of a method also says which permission the method needs; without that there is no row.

A request's handler gives the encoded result, or raises: ``BadMessage`` for what is wrong with the
request, ``AnsweredError`` for an error that is made already, an ``EdgedError`` for anything else.
Whether a method exists in a revision is decided before (``protocol.session.admit``).

The methods that list and read resources, and complete the names in their URIs.

The methods by which a client hears of changes: of a session, or on a stream of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from edged.actions.action import Progress, ProgressSink
from edged.actions.caller import Caller, Route, client_text
from edged.actions.outcome import Underway
from edged.actions.tool import Tool, ToolCall
from edged.errors import EdgedError, ErrorCode, Failed, Invalid, NotFound, Refused
from edged.protocol import messages, results
from edged.protocol import messages as resources
from edged.protocol.elicitation import (
    can_elicit,
    check_round,
)
from edged.protocol.http_rules import SESSION_HEADER
from edged.protocol.jsonrpc import (
    BadMessage,
    ErrorReply,
    Notification,
    Request,
    RpcCode,
)
from edged.protocol.messages import RESOURCE_UPDATED, RESOURCES_CHANGED, TOOLS_CHANGED, resource_uri
from edged.protocol.results import Server
from edged.protocol.revisions import Elicitation, Revision
from edged.protocol.session import SessionEvent
from edged.record import record
from edged.surfaces.mcp.error_codes import call_answer, error_reply
from edged.surfaces.mcp.post import PendingCall, Served
from edged.surfaces.mcp.prompts import PROMPTS
from edged.surfaces.mcp.seams import Choice, Dispatcher, ResourceSource, ToolSource
from edged.surfaces.mcp.sessions import (
    Announcement,
    CallEnd,
    Leave,
    Over,
    Session,
    SessionRegistry,
)
from edged.surfaces.mcp.tool_list import ToolList

if TYPE_CHECKING:
    from edged.telemetry.spans import Telemetry


class AnsweredError(Exception):
    """The answer to a request is this error."""

    def __init__(self, reply: ErrorReply) -> None:
        super().__init__(reply.message)
        self.reply = reply


@record
class Parts:
    """What every method works with.

    Attributes:
        new_action_id: makes the id under which a call is recorded.
        stopping: set once the surface closes.
        first_look: set once the instruments that are there at start are known, or slow to answer.
        path: of the endpoint's URL.
        offers: the methods that are served, of those that a revision has.
        keeps_sessions: false: ``initialize`` opens none.
        authorize: judges the callers of methods that need the permission of a tool.
        telemetry: told of every request, where the owner exports that.
        extension: methods beside MCP's own.
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
    path: str
    offers: Collection[str]
    keeps_sessions: bool
    authorize: Authorize
    telemetry: Telemetry | None = None
    extension: MethodExtension | None = None


Handler = Callable[[Parts, PendingCall], Served]
"""Gives the encoded result of a request, the error instead of one, or what will come to one."""

NoteHandler = Callable[[Session | None, Notification], None]

Authorize = Callable[[Caller, str], None]
"""Raises ``Refused`` where a caller may not use the tool of that name; the refusal is audited."""


def allow_no_tool(_caller: Caller, tool: str) -> None:
    """Refuse everybody, as an endpoint does that was given no permissions.

    Raises:
        Refused: NOT_ALLOWED.
    """
    raise Refused(
        f"This method needs the permission of {tool}, which nobody has at this endpoint.",
        code=ErrorCode.NOT_ALLOWED,
        remedy="Use the endpoint of the bench itself.",
    )


class Judged(enum.Enum):
    """Where the permission for a method is judged that does not need that of one tool."""

    NOT_NEEDED = "not needed"
    """The method shows nothing of the bench that tools/list, equal for all callers, does not."""
    BY_WHAT_IT_NAMES = "by what it names"
    """The tool by the command path, the resource by the row of its kind."""


@record(kw_only=False)
class Method:
    """One method.

    Attributes:
        handler: serves the method.
        needs: the tool whose permission, without a scope, the caller must have.
    """

    handler: Handler
    needs: str | Judged


@record
class MethodExtension:
    """Methods of ours beside MCP's own, listed nowhere.

    Attributes:
        leave: told what a session that has ended had opened by them.
    """

    methods: Mapping[str, Method]
    notifications: Mapping[str, NoteHandler]
    leave: Leave


async def list_resources(parts: Parts, call: PendingCall) -> bytes:
    """What there is to read now, on one page."""
    _only_page(call.request)
    await parts.first_look.wait()
    entries = await parts.resources.entries(call.post.caller)
    return results.list_result(
        call.post.revision,
        parts.server,
        method="resources/list",
        key="resources",
        entries=(entry.as_listed(call.post.revision) for entry in entries),
    )


def list_templates(parts: Parts, call: PendingCall) -> bytes:
    """The families of URIs, on one page."""
    _only_page(call.request)
    return results.list_result(
        call.post.revision,
        parts.server,
        method="resources/templates/list",
        key="resourceTemplates",
        entries=(entry.as_listed(call.post.revision) for entry in parts.resources.templates()),
    )


async def read_resource(parts: Parts, call: PendingCall) -> bytes:
    """Read one."""
    uri = resources.resource_uri(call.request)
    if call.post.revision.is_disconnect_a_cancel:
        call.tie()
    await parts.first_look.wait()
    try:
        contents = await parts.resources.read(uri, call.post.caller, parts.new_action_id())
    except EdgedError as error:
        raise not_read(call, uri, error) from error
    return resources.read_result(call.post.revision, parts.server, contents)


def list_prompts(parts: Parts, call: PendingCall) -> bytes:
    """The prompts, on one page."""
    _only_page(call.request)
    revision = call.post.revision
    has_title = "title" in revision.tool_fields
    return results.list_result(
        revision,
        parts.server,
        method="prompts/list",
        key="prompts",
        entries=(prompt.listed(has_title=has_title) for prompt in PROMPTS.values()),
    )


def get_prompt(parts: Parts, call: PendingCall) -> bytes:
    """One prompt, filled in."""
    name, given = messages.prompt_params(call.request)
    prompt = PROMPTS.get(name)
    if prompt is None:
        said = f"There is no prompt {name[:64]!r}; prompts/list has them all."
        raise messages.wrong_params(call.request, said)
    try:
        text = prompt.filled_in(given)
    except Invalid as wrong:
        raise messages.wrong_params(call.request, wrong.message) from None
    members = {
        "description": prompt.description,
        "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
    }
    return results.plain_result(
        call.post.revision, parts.server, method="prompts/get", members=members
    )


async def complete(parts: Parts, call: PendingCall) -> bytes:
    """Values for a variable of a template; none are known for a prompt's arguments."""
    asked = resources.completion_params(call.request)
    if asked.kind == "ref/prompt" and asked.ref in PROMPTS:
        return resources.completion_result(call.post.revision, parts.server, ())
    await parts.first_look.wait()
    values = await parts.resources.complete(asked, call.post.caller)
    return resources.completion_result(call.post.revision, parts.server, values)


def not_read(call: PendingCall, uri: str, error: EdgedError) -> AnsweredError:
    """Why a resource was not read, as the revision words it."""
    if isinstance(error, NotFound):
        code = call.post.revision.resource_not_found
        reply = ErrorReply(
            request_id=call.request.id, rpc_code=code, message=str(error), data={"uri": uri}
        )
    elif isinstance(error, Failed):
        reply = ErrorReply(
            request_id=call.request.id, rpc_code=RpcCode.INTERNAL_ERROR, message=str(error)
        )
    else:
        reply = error_reply(error, call.request.id)
    return AnsweredError(reply)


def _only_page(request: Request) -> None:
    results.page_number(request, messages.list_cursor(request), generation=0, count=1)


STILL: Final = "Still under way."
SENT: Final = frozenset({TOOLS_CHANGED, RESOURCES_CHANGED, RESOURCE_UPDATED})


async def watch_resource(parts: Parts, call: PendingCall) -> bytes:
    """Tell this session of each change of a resource."""
    uri = resource_uri(call.request)
    await parts.first_look.wait()
    key = await _key(parts, call, uri)
    if call.post.session is not None:
        parts.board.watch(call.post.session, key, uri)
    return results.plain_result(call.post.revision, parts.server, method=call.request.method)


async def unwatch_resource(parts: Parts, call: PendingCall) -> bytes:
    """Tell it no more."""
    uri = resource_uri(call.request)
    if call.post.session is not None:
        watched = dict(call.post.session.watched)
        for key in (key for key, spelled in watched.items() if uri in (key, spelled)):
            parts.board.unwatch(call.post.session, key)
    return results.plain_result(call.post.revision, parts.server, method=call.request.method)


async def listen(parts: Parts, call: PendingCall) -> bytes:
    """Keep a stream of the changes a client asked for, until it closes it or the daemon stops.

    It ends with the token of its caller, too.
    """
    wish = messages.subscription_params(call.request).honoured(SENT)
    post = call.post
    request_id = call.request.id
    if not post.can_stream:
        raise BadMessage(
            "subscriptions/listen answers with an event stream; accept text/event-stream.",
            rpc_code=RpcCode.INVALID_REQUEST,
            request_id=request_id,
        )
    call.tie()
    if wish.resource_uris:
        await parts.first_look.wait()
    watched = await _watched(parts, call, wish.resource_uris)
    wish = replace(wish, resource_uris=tuple(watched.values()))

    def tell(news: Announcement) -> None:
        if news.key:
            uri = watched.get(news.key)
            if uri is None:
                return
            payload = messages.updated_bytes(uri, subscription_id=request_id)
        elif news.method in wish.methods:
            payload = messages.change_bytes(news.method, subscription_id=request_id)
        else:
            return
        if post.is_lagging:
            # It would miss the change without knowing; after a break it lists anew.
            post.cut()
        else:
            post.notify(call, payload)

    post.notify(call, messages.acknowledged_bytes(request_id, wish))
    unsubscribe, expired = parts.board.listen(tell), Over()
    call.on_expiry = expired.set
    ends = {asyncio.ensure_future(end.wait()) for end in (parts.stopping, expired)}
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        unsubscribe()
        for end in ends:
            end.cancel()
    return results.listen_result(call.post.revision, parts.server, request_id)


async def _key(parts: Parts, call: PendingCall, uri: str) -> str:
    try:
        return await parts.resources.watch_key(uri, call.post.caller)
    except EdgedError as error:
        raise not_read(call, uri, error) from error


async def _watched(parts: Parts, call: PendingCall, uris: tuple[str, ...]) -> dict[str, str]:
    """Key → URI as the client spelled it, of those that exist and it may read."""
    found = {}
    for uri in uris:
        try:
            found[await parts.resources.watch_key(uri, call.post.caller)] = uri
        except EdgedError:
            continue
    return found


def initialize(parts: Parts, call: PendingCall) -> bytes:
    """Open a session; its id goes out in a header."""
    told = messages.initialize_params(call.request)
    result = results.initialize_result(call.post.revision, parts.server, _advice(parts, call))
    if not parts.keeps_sessions:
        return result
    session = parts.board.open(call.post.revision, call.post.caller)
    session.choice = call.post.choice
    session.client = client_text(told.client.text) or call.post.caller.client
    session.can_elicit = can_elicit(told.capabilities)
    call.headers = ((SESSION_HEADER, session.id),)
    return result


def ping(_parts: Parts, _call: PendingCall) -> bytes:
    """Say that somebody is here."""
    return results.ping_result()


def discover(parts: Parts, call: PendingCall) -> bytes:
    """Say what this server is and can do."""
    return results.discover_result(call.post.revision, parts.server, _advice(parts, call))


def _advice(parts: Parts, call: PendingCall) -> str:
    """What to say of a long list, with the URL of a short one as far as that is known here."""
    post = call.post
    host = post.accepted.header("Host")
    is_direct = post.caller.route is Route.DIRECT and host
    url = f"http://{host}{parts.path}" if is_direct else "this URL with "
    return parts.tool_list.advice(post.choice, url)


def list_tools(parts: Parts, call: PendingCall) -> bytes:
    """One page of the present tools."""
    post = call.post
    return tools_page(parts, post.revision, post.choice, call.request)


def tools_page(parts: Parts, revision: Revision, choice: Choice, request: Request) -> bytes:
    """The page of the present tools that a request's cursor means."""
    cursor = messages.list_cursor(request)
    pages = parts.tool_list.pages(revision, choice)
    if cursor is None:
        return pages[0]
    generation = parts.tool_list.generation
    return pages[results.page_number(request, cursor, generation=generation, count=len(pages))]


def call_tool(parts: Parts, call: PendingCall) -> bytes | ErrorReply | Underway:
    """Have a tool do its work."""
    post = call.post
    params = messages.call_params(call.request)
    tool = find_tool(parts.registry, params.name)
    make_answer = partial(call_answer, tool=tool, revision=post.revision, server=parts.server)
    if post.revision.elicitation is Elicitation.ROUNDS:
        check_round(call.request)
    token = params.progress_token
    begun = parts.dispatcher.begin(
        ToolCall(
            name=params.name,
            arguments=params.arguments,
            caller=post.caller,
            action_id=parts.new_action_id(),
            progress=reporting(call, token) if token is not None else None,
            client=call,
        ),
        partial(post.surroundings.settled, call),
    )
    if not isinstance(begun, Underway):
        call.remember(begun, make_answer)
        return make_answer(begun, call.request.id)
    # Nothing of it can have come yet: what is under way is told at another turn of the loop.
    call.make_answer = make_answer
    is_cancel = post.revision.is_disconnect_a_cancel
    call.is_cut_by_disconnect = is_cancel or (tool is not None and tool.cancels_on_disconnect)
    return begun


def is_cut_by_disconnect(parts: Parts, call: PendingCall) -> bool:
    """Whether the client's going ends this request, if it is a call of a tool."""
    if call.post.revision.is_disconnect_a_cancel:
        return call.request.method == "tools/call"
    tool = find_tool(parts.registry, call.request.params.get("name"))
    return tool is not None and tool.cancels_on_disconnect


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


def report_early(call: PendingCall) -> None:
    """Let a call that waits for its turn say so, if it is one of a tool and has a token."""
    if call.request.method == "tools/call":
        # A wrong token is its answer, in its turn.
        with contextlib.suppress(BadMessage):
            token = messages.progress_token(call.request)
            if token is not None:
                reporting(call, token)


def reporting(call: PendingCall, token: messages.ProgressToken) -> ProgressSink | None:
    """Where a call's progress goes; ``None`` when nobody could read it."""
    if call.progress is None and call.post.can_stream:
        reports = _Reports(call, token)
        call.progress, call.beat = reports.send, reports.beat
    return call.progress


class _Reports:
    """The progress notifications of one call, whose numbers always increase."""

    __slots__ = ("_call", "_number", "_since", "_token")

    def __init__(self, call: PendingCall, token: messages.ProgressToken) -> None:
        self._call = call
        self._token = token
        self._number = 0
        # Those that came behind that number without one of their own.
        self._since = 0

    def send(self, progress: Progress) -> bool:
        # A reader that is minutes behind misses points; the numbers tell it, and the result counts.
        if self._call.post.is_lagging:
            return False
        number: float = progress.progress
        if number > self._number:
            self._number, self._since = progress.progress, 0
        else:
            number = self._between()
        payload = messages.progress_bytes(
            self._token,
            number,
            total=progress.total,
            message=progress.message,
            meta=progress.meta,
        )
        self._call.post.notify(self._call, payload)
        return True

    def beat(self) -> None:
        """Say that it goes on: many clients give up after a minute without progress."""
        if not self._call.post.is_lagging:
            payload = messages.progress_bytes(self._token, self._between(), message=STILL)
            self._call.post.notify(self._call, payload)

    def _between(self) -> float:
        """A number above all before and below the next whole one."""
        self._since += 1
        return self._number + self._since / (self._since + 1)


METHODS: Final[Mapping[str, Method]] = MappingProxyType(
    {
        "initialize": Method(initialize, Judged.NOT_NEEDED),
        "ping": Method(ping, Judged.NOT_NEEDED),
        "server/discover": Method(discover, Judged.NOT_NEEDED),
        "tools/list": Method(list_tools, Judged.NOT_NEEDED),
        "tools/call": Method(call_tool, Judged.BY_WHAT_IT_NAMES),
        "resources/list": Method(list_resources, Judged.BY_WHAT_IT_NAMES),
        "resources/templates/list": Method(list_templates, Judged.NOT_NEEDED),
        "resources/read": Method(read_resource, Judged.BY_WHAT_IT_NAMES),
        "resources/subscribe": Method(watch_resource, Judged.BY_WHAT_IT_NAMES),
        "resources/unsubscribe": Method(unwatch_resource, Judged.NOT_NEEDED),
        # Texts that are part of edged, the same for every bench.
        "prompts/list": Method(list_prompts, Judged.NOT_NEEDED),
        "prompts/get": Method(get_prompt, Judged.NOT_NEEDED),
        "completion/complete": Method(complete, Judged.BY_WHAT_IT_NAMES),
        "subscriptions/listen": Method(listen, Judged.BY_WHAT_IT_NAMES),
    }
)

AFTER_FIRST_LOOK: Final = frozenset({"tools/list", "tools/call"})
"""Requests that are not served before the instruments that are there at start are known."""

ENDABLE: Final = frozenset({"tools/call", "resources/read", "subscriptions/listen"})
"""Requests that may take long, and so can be cancelled."""

OUTLIVES_TOKEN: Final = frozenset({"tools/call", "edged/visa.write"})
"""What these have begun goes on when the caller's token expires; other requests are cancelled."""

NOTIFICATIONS: Final[Mapping[str, NoteHandler]] = MappingProxyType(
    {
        "notifications/initialized": note_initialized,
        "notifications/cancelled": cancel_call,
    }
)
