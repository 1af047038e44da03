"""The MCP revisions served here: one entry each, whose fields are all that tells them apart.

Nothing in the product compares version strings. Code asks the ``Revision`` in hand
(``has_batches``, ``status_of``…), so a fifth revision is one more entry of ``REVISIONS``, and a
difference that no field can say yet is one more field.

Source: the MCP specification, ``docs/specification/<version>``; the fields name the sections.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Final

from edged.protocol.jsonrpc import RpcCode
from edged.record import record

_META_PREFIX: Final = "io.modelcontextprotocol/"
PROTOCOL_VERSION_KEY: Final = _META_PREFIX + "protocolVersion"
CLIENT_INFO_KEY: Final = _META_PREFIX + "clientInfo"
CLIENT_CAPABILITIES_KEY: Final = _META_PREFIX + "clientCapabilities"
SUBSCRIPTION_ID_KEY: Final = _META_PREFIX + "subscriptionId"
SERVER_INFO_KEY: Final = _META_PREFIX + "serverInfo"

_NOTHING: Final[frozenset[str]] = frozenset()

VISA_METHODS: Final = frozenset(
    f"edged/visa.{name}"
    for name in (
        *("list", "open", "write", "read", "stb", "clear", "trigger"),
        *("lock", "renew", "unlock", "close"),
    )
)
VISA_TAKEN: Final = "notifications/edged/visa.taken"
"""Ours, for programs that know VISA: where there are sessions, and in no list (docs/visa.md)."""


class Elicitation(enum.Enum):
    """How a client is asked something in the middle of a call.

    ``REQUEST``: by a request of ours on the call's stream; ``FORM``: that says its ``mode``;
    ``ROUNDS``: by an answer that asks, and a call that is repeated.
    """

    NONE = enum.auto()
    REQUEST = enum.auto()
    FORM = enum.auto()
    ROUNDS = enum.auto()


@record(eq=False)
class Revision:
    """One revision of MCP, as the set of its differences; each exists once and is a good key.

    Attributes:
        version: its name on the wire, a date.
        methods: the requests a client may make (``basic``, ``server``); absence is -32601.
        notifications: what a client may notify; others are taken and dropped.
        has_handshake: ``initialize`` opens it, and ``Mcp-Session-Id`` is meant; without it each
            request stands alone and carries ``required_meta`` (``basic/versioning``).
        has_batches: an array body is served (2025-03-26 ``basic/index``, gone since 2025-06-18).
        required_meta: key → type of what every request must carry in ``params._meta``.
        has_method_header: ``Mcp-Method`` must repeat the method (``basic/transports``).
        name_headers: method → the parameter that ``Mcp-Name`` must repeat.
        has_parameter_headers: ``Mcp-Param-…`` must repeat the arguments that a tool's schema marks.
        server_fields: the members of ``serverInfo`` that it knows.
        tool_fields: the members of a tool's listing entry that it knows (``server/tools``).
        resource_fields: those of a resource, a template and a content (``server/resources``).
        resource_not_found: the error code for a URI that leads to nothing.
        has_extensions: capabilities may name extensions (``extensions``; MCP Apps).
        has_resource_links: a tool result may hold ``resource_link`` items (``server/tools``).
        has_structured_content: a tool result carries ``structuredContent``.
        is_bad_argument_a_result: bad tool arguments are a result with ``isError``, so that a
            model can correct itself, and not -32602 (2025-11-25 ``changelog``, SEP-1303).
        has_event_ids: SSE events may carry ids, and ``Last-Event-ID`` resumes a stream.
        has_priming_event: a resumable stream begins with an id and empty data (SEP-1699).
        is_disconnect_a_cancel: closing the response stream cancels the request.
        elicitation: how a client can be asked something in the middle of a call.
        result_type: the ``resultType`` of every finished result, empty where there is none.
        has_server_meta: results carry ``serverInfo`` in ``_meta``.
        cached_methods: their results must carry ``ttlMs`` and ``cacheScope``.
        http_status: HTTP status by JSON-RPC error code of an answer that is plain JSON; 200 for
            a code that is not in it.
    """

    version: str
    methods: frozenset[str]
    notifications: frozenset[str]
    has_handshake: bool = True
    has_batches: bool = False
    required_meta: Mapping[str, type] = field(default_factory=dict)
    has_method_header: bool = False
    name_headers: Mapping[str, str] = field(default_factory=dict)
    has_parameter_headers: bool = False
    server_fields: frozenset[str]
    tool_fields: frozenset[str]
    resource_fields: frozenset[str]
    resource_not_found: RpcCode = RpcCode.RESOURCE_NOT_FOUND
    has_extensions: bool = False
    has_resource_links: bool = False
    has_structured_content: bool = False
    is_bad_argument_a_result: bool = False
    has_event_ids: bool = False
    has_priming_event: bool = False
    is_disconnect_a_cancel: bool = False
    elicitation: Elicitation = Elicitation.NONE
    result_type: str = ""
    has_server_meta: bool = False
    cached_methods: frozenset[str] = _NOTHING
    http_status: Mapping[int, int] = field(default_factory=dict)

    def status_of(self, rpc_code: int) -> int:
        """The HTTP status of a plain JSON answer with this error code."""
        return self.http_status.get(rpc_code, 200)


_V2025_03_26: Final = Revision(
    version="2025-03-26",
    methods=frozenset(
        {
            "initialize",
            "ping",
            "tools/list",
            "tools/call",
            "resources/list",
            "resources/templates/list",
            "resources/read",
            "resources/subscribe",
            "resources/unsubscribe",
            "prompts/list",
            "prompts/get",
            "completion/complete",
        }
    )
    | VISA_METHODS,
    notifications=frozenset({"notifications/initialized", "notifications/cancelled", VISA_TAKEN}),
    has_batches=True,
    server_fields=frozenset({"name", "version"}),
    tool_fields=frozenset({"name", "description", "inputSchema", "annotations"}),
    resource_fields=frozenset(
        {"uri", "uriTemplate", "name", "description", "mimeType", "size", "text", "blob"}
    ),
    has_event_ids=True,
    http_status=MappingProxyType({RpcCode.NOT_AUTHENTICATED: 401}),
)

FORERUNNER: Final = replace(
    _V2025_03_26,
    version="2024-11-05",
    tool_fields=_V2025_03_26.tool_fields - {"annotations"},
)
"""Clients of 2025-03-26's transport that came out before that date know no other name for what they
speak (Python SDK 1.8, TypeScript SDK 1.10). Only their ``initialize`` leads here; no list names it,
since that revision itself has no transport like this one."""

_V2025_06_18: Final = replace(
    _V2025_03_26,
    version="2025-06-18",
    has_batches=False,
    server_fields=_V2025_03_26.server_fields | {"title"},
    tool_fields=_V2025_03_26.tool_fields | {"title", "outputSchema", "_meta"},
    resource_fields=_V2025_03_26.resource_fields | {"title", "annotations", "_meta"},
    has_extensions=True,
    has_resource_links=True,
    has_structured_content=True,
    elicitation=Elicitation.REQUEST,
)

_V2025_11_25: Final = replace(
    _V2025_06_18,
    version="2025-11-25",
    server_fields=_V2025_06_18.server_fields | {"description", "icons", "websiteUrl"},
    tool_fields=_V2025_06_18.tool_fields | {"icons", "execution"},
    is_bad_argument_a_result=True,
    has_priming_event=True,
    elicitation=Elicitation.FORM,
)

_V2026_07_28: Final = replace(
    _V2025_11_25,
    version="2026-07-28",
    methods=frozenset(
        {
            "server/discover",
            "subscriptions/listen",
            "tools/list",
            "tools/call",
            "resources/list",
            "resources/templates/list",
            "resources/read",
            "prompts/list",
            "prompts/get",
            "completion/complete",
        }
    ),
    notifications=_NOTHING,
    has_handshake=False,
    required_meta=MappingProxyType({PROTOCOL_VERSION_KEY: str, CLIENT_CAPABILITIES_KEY: dict}),
    has_method_header=True,
    name_headers=MappingProxyType(
        {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
    ),
    has_parameter_headers=True,
    tool_fields=_V2025_11_25.tool_fields - {"execution"},
    resource_not_found=RpcCode.INVALID_PARAMS,
    has_event_ids=False,
    has_priming_event=False,
    is_disconnect_a_cancel=True,
    elicitation=Elicitation.ROUNDS,
    result_type="complete",
    has_server_meta=True,
    cached_methods=frozenset(
        {
            "server/discover",
            "tools/list",
            "resources/list",
            "resources/templates/list",
            "resources/read",
            "prompts/list",
        }
    ),
    http_status=MappingProxyType(
        {
            RpcCode.PARSE_ERROR: 400,
            RpcCode.INVALID_REQUEST: 400,
            RpcCode.INVALID_PARAMS: 400,
            RpcCode.HEADER_MISMATCH: 400,
            RpcCode.MISSING_CAPABILITY: 400,
            RpcCode.UNSUPPORTED_VERSION: 400,
            RpcCode.NOT_AUTHENTICATED: 401,
            RpcCode.METHOD_NOT_FOUND: 404,
        }
    ),
)

REVISIONS: Final[Mapping[str, Revision]] = MappingProxyType(
    {
        revision.version: revision
        for revision in (_V2025_03_26, _V2025_06_18, _V2025_11_25, _V2026_07_28)
    }
)

SUPPORTED_VERSIONS: Final[tuple[str, ...]] = tuple(REVISIONS)
BASE: Final = _V2025_03_26
"""What a request speaks that says nothing of itself (2025-06-18 ``basic/transports``)."""
NEWEST: Final = _V2026_07_28
"""Whose rules of transport an unknown later revision is judged by, before it is refused."""
_NEWEST_WITH_HANDSHAKE: Final = max(
    (revision for revision in REVISIONS.values() if revision.has_handshake),
    key=lambda revision: revision.version,
)


def legacy_revision(version: str) -> Revision | None:
    """The revision of this name, if it is one that ``initialize`` opens."""
    revision = REVISIONS.get(version)
    return revision if revision is not None and revision.has_handshake else None


def negotiate(requested: str) -> Revision:
    """What ``initialize`` settles on: the wish if it can be met, else the newest that can be.

    An unknown wish is no error (``basic/lifecycle``); the client decides whether to go on.
    """
    if requested == FORERUNNER.version:
        return FORERUNNER
    return legacy_revision(requested) or _NEWEST_WITH_HANDSHAKE
