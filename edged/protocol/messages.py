"""The parameters of MCP's methods, read into types; and the notifications the server sends.

Reading is strict where a wrong shape would be guessed at, and every complaint is a ``BadMessage``
with -32602 and the request's id. Results are in ``results``.

Source: MCP ``schema/<version>/schema.ts``; docs/mcp-rules.md.

Resources and completion on the wire: what clients ask, and entries and contents told.

What a resource is and who may read it is not decided here (``tools/resources.py``).

Source: MCP ``server/resources`` and ``server/utilities/completion`` of each revision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from edged.protocol import jsonrpc
from edged.protocol.results import Server, plain_result
from edged.protocol.revisions import CLIENT_INFO_KEY, SUBSCRIPTION_ID_KEY, Revision
from edged.record import record

MAX_CLIENT_CHARS: Final = 64
"""Of a client's name, and of its version."""
TOOLS_CHANGED: Final = "notifications/tools/list_changed"
RESOURCES_CHANGED: Final = "notifications/resources/list_changed"
PROMPTS_CHANGED: Final = "notifications/prompts/list_changed"
RESOURCE_UPDATED: Final = "notifications/resources/updated"

MAX_WATCHED: Final = 256
"""Resources that one session or one stream may watch."""

ProgressToken = str | int


@record
class ClientInfo:
    """What a client says it is; for the record, never for a decision."""

    name: str
    version: str
    title: str = ""

    @property
    def text(self) -> str:
        """Name and version as they came, but for their ends."""
        return f"{self.name[:MAX_CLIENT_CHARS]} {self.version[:MAX_CLIENT_CHARS]}"


@record
class InitializeParams:
    """``initialize``: the version wished for, what the client can do, what it is."""

    protocol_version: str
    capabilities: jsonrpc.JsonObject
    client: ClientInfo


@record(frozen=False)
class CallParams:
    """``tools/call``. ``progress_token`` 0 is a token; ``None`` is none. Not frozen: made often."""

    name: str
    arguments: jsonrpc.JsonObject
    progress_token: ProgressToken | None


@record
class Subscription:
    """What a ``subscriptions/listen`` stream carries: notification methods, and resource URIs."""

    methods: frozenset[str]
    resource_uris: tuple[str, ...] = field(default=())

    def honoured(self, supported: frozenset[str]) -> Subscription:
        """The part of the wish that the server can meet.

        Args:
            supported: notification methods that the server sends.
        """
        return Subscription(
            methods=self.methods & supported,
            resource_uris=self.resource_uris if RESOURCE_UPDATED in supported else (),
        )

    def as_filter(self) -> jsonrpc.JsonObject:
        """The wire form, with what is not carried left out."""
        wire: dict[str, object] = {
            key: True for key, method in _FILTER_KEYS.items() if method in self.methods
        }
        if self.resource_uris:
            wire["resourceSubscriptions"] = list(self.resource_uris)
        return wire


_FILTER_KEYS: Final[Mapping[str, str]] = {
    "toolsListChanged": TOOLS_CHANGED,
    "promptsListChanged": PROMPTS_CHANGED,
    "resourcesListChanged": RESOURCES_CHANGED,
}


# What clients send ---------------------------------------------------------------------------


def initialize_params(request: jsonrpc.Request) -> InitializeParams:
    """Read ``initialize``.

    Raises:
        BadMessage: -32602, a member is missing or of another type.
    """
    reader = _Reader(request)
    client = reader.object_at(request.params, "clientInfo")
    title = client.get("title")
    return InitializeParams(
        protocol_version=reader.text_at(request.params, "protocolVersion"),
        capabilities=reader.object_at(request.params, "capabilities"),
        client=ClientInfo(
            name=reader.text_at(client, "name", where="clientInfo."),
            version=reader.text_at(client, "version", where="clientInfo."),
            title=title if isinstance(title, str) else "",
        ),
    )


def client_in_meta(message: object) -> str:
    """What the client of a request without a session says it is, as it came; else empty."""
    meta = message.params.get("_meta") if isinstance(message, jsonrpc.Request) else None
    info = meta.get(CLIENT_INFO_KEY) if isinstance(meta, dict) else None
    if not isinstance(info, dict):
        return ""
    name, version = info.get("name"), info.get("version")
    if not isinstance(name, str):
        return ""
    return ClientInfo(name=name, version=version if isinstance(version, str) else "").text


def call_params(request: jsonrpc.Request) -> CallParams:
    """Read ``tools/call``; no ``arguments``, or null, are the same as none in it.

    Raises:
        BadMessage: -32602, a member is missing or of another type.
    """
    reader = _Reader(request)
    return CallParams(
        name=reader.text_at(request.params, "name"),
        arguments=reader.object_or_none_at(request.params, "arguments"),
        progress_token=progress_token(request),
    )


def progress_token(request: jsonrpc.Request) -> ProgressToken | None:
    """``_meta.progressToken`` of any request, ``None`` when it wants no progress.

    Raises:
        BadMessage: -32602, it is neither a string nor an integer.
    """
    if request.params.get("_meta") is None:
        return None
    reader = _Reader(request)
    token = reader.object_at(request.params, "_meta").get("progressToken")
    if token is None:
        return None
    if isinstance(token, bool) or not isinstance(token, str | int):
        raise reader.complaint("_meta.progressToken must be a string or an integer.")
    if isinstance(token, str) and len(token) > jsonrpc.MAX_NAME_CHARS:
        raise reader.complaint(f"_meta.progressToken has over {jsonrpc.MAX_NAME_CHARS} characters.")
    return token


def list_cursor(request: jsonrpc.Request) -> str | None:
    """The ``cursor`` of a list request, ``None`` for its first page.

    Raises:
        BadMessage: -32602, it is no string.
    """
    if request.params.get("cursor") is None:
        return None
    return _Reader(request).text_at(request.params, "cursor")


def subscription_params(request: jsonrpc.Request) -> Subscription:
    """Read ``subscriptions/listen``; wishes that are not known are passed over.

    Raises:
        BadMessage: -32602, a member is missing or of another type.
    """
    reader = _Reader(request)
    wishes = reader.object_at(request.params, "notifications")
    for key in _FILTER_KEYS:
        if not isinstance(wishes.get(key), bool | None):
            raise reader.complaint(f"notifications.{key} must be true or false.")
    uris = wishes.get("resourceSubscriptions")
    uris = [] if uris is None else uris
    if isinstance(uris, list) and len(uris) > MAX_WATCHED:
        raise reader.complaint(f"notifications.resourceSubscriptions has over {MAX_WATCHED} URIs.")
    if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
        raise reader.complaint("notifications.resourceSubscriptions must be a list of URIs.")
    return Subscription(
        methods=frozenset(method for key, method in _FILTER_KEYS.items() if wishes.get(key)),
        resource_uris=tuple(uris),
    )


def cancelled_id(notification: jsonrpc.Notification) -> jsonrpc.RequestId | None:
    """Which request ``notifications/cancelled`` means; ``None`` when it names none, and is void."""
    found = notification.params.get("requestId")
    if isinstance(found, bool) or not isinstance(found, str | int):
        return None
    return found


# What the server sends -----------------------------------------------------------------------


def progress_bytes(
    token: ProgressToken,
    progress: float,
    *,
    total: float | None = None,
    message: str = "",
    meta: jsonrpc.JsonObject | None = None,
) -> bytes:
    """``notifications/progress``; ``progress`` must be larger than the one before."""
    params: dict[str, object] = {"progressToken": token, "progress": progress}
    if total is not None:
        params["total"] = total
    if message:
        params["message"] = message
    if meta:
        params["_meta"] = dict(meta)
    return jsonrpc.notification_bytes("notifications/progress", params)


def change_bytes(method: str, *, subscription_id: jsonrpc.RequestId | None = None) -> bytes:
    """A ``list_changed`` notification.

    Args:
        method: ``TOOLS_CHANGED`` and its like.
        subscription_id: id of the ``subscriptions/listen`` request on whose stream it goes;
            ``None`` for the stream of a session.
    """
    if subscription_id is None:
        return jsonrpc.notification_bytes(method)
    return jsonrpc.notification_bytes(method, {"_meta": {SUBSCRIPTION_ID_KEY: subscription_id}})


def updated_bytes(uri: str, *, subscription_id: jsonrpc.RequestId | None = None) -> bytes:
    """``notifications/resources/updated``; ``uri`` as the client spelled it."""
    params: dict[str, object] = {"uri": uri}
    if subscription_id is not None:
        params["_meta"] = {SUBSCRIPTION_ID_KEY: subscription_id}
    return jsonrpc.notification_bytes(RESOURCE_UPDATED, params)


def acknowledged_bytes(subscription_id: jsonrpc.RequestId, honoured: Subscription) -> bytes:
    """``notifications/subscriptions/acknowledged``: the first message of a listen stream."""
    return jsonrpc.notification_bytes(
        "notifications/subscriptions/acknowledged",
        {
            "_meta": {SUBSCRIPTION_ID_KEY: subscription_id},
            "notifications": honoured.as_filter(),
        },
    )


class _Reader:
    """Takes members out of one request's params, or complains under its id."""

    def __init__(self, request: jsonrpc.Request) -> None:
        self._request = request

    def complaint(self, message: str) -> jsonrpc.BadMessage:
        return jsonrpc.BadMessage(
            f"{self._request.method}: {message}",
            rpc_code=jsonrpc.RpcCode.INVALID_PARAMS,
            request_id=self._request.id,
        )

    def text_at(self, members: jsonrpc.JsonObject, key: str, *, where: str = "") -> str:
        found = members.get(key)
        if not isinstance(found, str):
            raise self.complaint(f"{where}{key} must be a string.")
        return found

    def object_or_none_at(self, members: jsonrpc.JsonObject, key: str) -> jsonrpc.JsonObject:
        """The object under a key that may be left out; null is the same as that."""
        return {} if members.get(key) is None else self.object_at(members, key)

    def object_at(self, members: jsonrpc.JsonObject, key: str) -> jsonrpc.JsonObject:
        found = members.get(key)
        if not isinstance(found, dict):
            raise self.complaint(f"{key} must be an object.")
        return found


MAX_URI_CHARS: Final = 2_048
MAX_VALUES: Final = 100
"""The most values of one completion (``server/utilities/completion``)."""


@record
class News:
    """What has changed since the last news: the list itself, and the contents at these URIs."""

    is_list_changed: bool
    uris: tuple[str, ...]


@record
class ResourceEntry:
    """A resource as ``resources/list`` shows it.

    Attributes:
        name: for programs and short lists; ``title`` for people.
        size: bytes of its content, where that is known without making it.
        modified: when it changed last, ISO 8601; empty where that says nothing.
    """

    uri: str
    name: str
    title: str = ""
    description: str = ""
    mime_type: str = ""
    size: int | None = None
    modified: str = ""

    def as_listed(self, revision: Revision) -> jsonrpc.JsonObject:
        """The wire form, with the members that the revision knows."""
        return _known(
            revision,
            {
                "uri": self.uri,
                "name": self.name,
                "title": self.title or None,
                "description": self.description or None,
                "mimeType": self.mime_type or None,
                "size": self.size,
                "annotations": {"lastModified": self.modified} if self.modified else None,
            },
        )


@record
class TemplateEntry:
    """A family of resources as ``resources/templates/list`` shows it (RFC 6570, level 1)."""

    uri_template: str
    name: str
    title: str = ""
    description: str = ""
    mime_type: str = ""

    def as_listed(self, revision: Revision) -> jsonrpc.JsonObject:
        """The wire form, with the members that the revision knows."""
        return _known(
            revision,
            {
                "uriTemplate": self.uri_template,
                "name": self.name,
                "title": self.title or None,
                "description": self.description or None,
                "mimeType": self.mime_type or None,
            },
        )


@record
class Content:
    """What reading a resource gave: ``text``, or ``blob`` in base64; never both."""

    uri: str
    mime_type: str
    text: str | None = None
    blob: str | None = None
    meta: jsonrpc.JsonObject | None = None

    def as_told(self, revision: Revision) -> jsonrpc.JsonObject:
        """The wire form, with the members that the revision knows."""
        return _known(
            revision,
            {
                "uri": self.uri,
                "mimeType": self.mime_type,
                "text": self.text,
                "blob": self.blob,
                "_meta": self.meta,
            },
        )


@record
class CompletionParams:
    """``completion/complete``.

    Attributes:
        kind: ``ref/resource`` or ``ref/prompt``.
        ref: the template's URI, or the prompt's name.
        argument: which variable of it; ``value`` what was typed so far.
        known: the variables that have a value already.
    """

    kind: str
    ref: str
    argument: str
    value: str
    known: Mapping[str, str] = field(default_factory=dict)


def resource_uri(request: jsonrpc.Request) -> str:
    """The ``uri`` of ``resources/read``, ``subscribe`` and ``unsubscribe``.

    Raises:
        BadMessage: -32602, it is no string, or too long for a URI.
    """
    uri = request.params.get("uri")
    if not isinstance(uri, str) or len(uri) > MAX_URI_CHARS:
        raise wrong_params(request, f"uri must be a string of at most {MAX_URI_CHARS} characters.")
    return uri


def completion_params(request: jsonrpc.Request) -> CompletionParams:
    """Read ``completion/complete``.

    Raises:
        BadMessage: -32602, a member is missing or of another type.
    """
    ref = request.params.get("ref")
    argument = request.params.get("argument")
    if not isinstance(ref, dict) or not isinstance(argument, dict):
        raise wrong_params(request, "ref and argument must be objects.")
    kind = ref.get("type")
    if not isinstance(kind, str) or kind not in _REF_KEYS:
        raise wrong_params(request, f"ref.type must be one of {', '.join(_REF_KEYS)}.")
    named, name, value = ref.get(_REF_KEYS[kind]), argument.get("name"), argument.get("value")
    if not isinstance(named, str) or len(named) > MAX_URI_CHARS:
        raise wrong_params(request, f"ref.{_REF_KEYS[kind]} must be a string.")
    if not (isinstance(name, str) and isinstance(value, str)) or (
        max(len(name), len(value)) > MAX_URI_CHARS
    ):
        raise wrong_params(request, "argument.name and argument.value must be strings.")
    context = request.params.get("context")
    known = context.get("arguments") if isinstance(context, dict) else None
    if known is not None and not (
        isinstance(known, dict) and all(isinstance(text, str) for text in known.values())
    ):
        raise wrong_params(request, "context.arguments must be an object of strings.")
    return CompletionParams(kind=kind, ref=named, argument=name, value=value, known=known or {})


def prompt_params(request: jsonrpc.Request) -> tuple[str, Mapping[str, object]]:
    """``prompts/get``: the prompt's name and its arguments.

    Raises:
        BadMessage: -32602, one of them is of another type.
    """
    name, arguments = request.params.get("name"), request.params.get("arguments")
    if not isinstance(name, str):
        raise wrong_params(request, "name must be a string.")
    if arguments is not None and not isinstance(arguments, dict):
        raise wrong_params(request, "arguments must be an object.")
    return name, arguments or {}


def read_result(revision: Revision, server: Server, contents: Sequence[Content]) -> bytes:
    """The answer to ``resources/read``; at least one content, for none would be ambiguous."""
    told = [content.as_told(revision) for content in contents]
    return plain_result(revision, server, method="resources/read", members={"contents": told})


def completion_result(revision: Revision, server: Server, values: Sequence[str]) -> bytes:
    """The answer to ``completion/complete``: as many of all values, best first, as it may hold."""
    members = {
        "completion": {
            "values": list(values[:MAX_VALUES]),
            "total": len(values),
            "hasMore": len(values) > MAX_VALUES,
        }
    }
    return plain_result(revision, server, method="completion/complete", members=members)


_REF_KEYS: Final[Mapping[str, str]] = {"ref/resource": "uri", "ref/prompt": "name"}


def _known(revision: Revision, members: Mapping[str, object]) -> jsonrpc.JsonObject:
    return {
        key: value
        for key, value in members.items()
        if value is not None and key in revision.resource_fields
    }


def wrong_params(request: jsonrpc.Request, message: str) -> jsonrpc.BadMessage:
    """What is wrong with a request's params: -32602."""
    return jsonrpc.BadMessage(
        f"{request.method}: {message}",
        rpc_code=jsonrpc.RpcCode.INVALID_PARAMS,
        request_id=request.id,
    )
