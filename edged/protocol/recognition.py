"""Which revision does this request speak, and does it keep that revision's rules of transport?

One pure function for each kind of request, the first failure wins. Both eras of MCP share the one
endpoint, so everything that says a version counts: the method, ``params._meta``, the
``MCP-Protocol-Version`` header, the session.

Source: docs/mcp-rules.md, "Detecting the revision" and "2026-07-28";
2026-07-28 ``basic/transports/streamable-http`` and ``basic/versioning``.

Tool arguments that a client repeats in ``Mcp-Param-…`` headers: do the two agree?

A tool's schema may name a header for an argument (``x-mcp-header``), so that a proxy can route
without reading the body. A proxy that went by the one and a tool that works by the other could then
be told different things, so a call whose two disagree is refused.

Source: MCP 2026-07-28 ``basic/transports/streamable-http``, "Custom Headers from Tool Parameters".
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, Final

from edged.protocol.http_rules import (
    METHOD_HEADER,
    NAME_HEADER,
    VERSION_HEADER,
    Accepted,
    Rejected,
    rejection,
)
from edged.protocol.jsonrpc import (
    BadMessage,
    Batch,
    JsonObject,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
    RpcCode,
)
from edged.protocol.revisions import (
    BASE,
    FORERUNNER,
    NEWEST,
    PROTOCOL_VERSION_KEY,
    REVISIONS,
    SUPPORTED_VERSIONS,
    Revision,
    negotiate,
)
from edged.record import record

DISCOVER: Final = "server/discover"
HEADER_PREFIX: Final = "Mcp-Param-"
_KEYWORD: Final = "x-mcp-header"
_BASE64_PREFIX: Final = "=?base64?"
_BASE64_SUFFIX: Final = "?="
_MAX_DEPTH: Final = 8
"""Of nested objects in a schema; deeper annotations are not looked for."""


def disagreement(
    schema: Mapping[str, Any], arguments: Mapping[str, Any], headers: Mapping[str, str]
) -> str:
    """The name of the first header that is missing or does not repeat its argument; else empty.

    Args:
        schema: the tool's input schema.
        headers: by lower-case name.
    """
    for name, keys in _annotated(schema, ()):
        value = _value_at(arguments, keys)
        if value is None:
            # Absent or null: no header is expected, and one that came means nothing here.
            continue
        header = headers.get((HEADER_PREFIX + name).lower())
        text = None if header is None else decode_value(header)
        if text is None or not _is_same(text, value):
            return HEADER_PREFIX + name
    return ""


def decode_value(value: str) -> str | None:
    """A header's text, out of ``=?base64?…?=`` if it is in that; ``None`` for broken Base64.

    What has only one end of the wrapping is not wrapped, and means itself.
    """
    if (
        not value.startswith(_BASE64_PREFIX)
        or not value.endswith(_BASE64_SUFFIX)
        or len(value) < len(_BASE64_PREFIX + _BASE64_SUFFIX)
    ):
        return value
    packed = value[len(_BASE64_PREFIX) : -len(_BASE64_SUFFIX)]
    try:
        return base64.b64decode(packed, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return None


def _annotated(
    schema: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Header names and the keys that lead to their arguments, by ``properties`` alone."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or len(path) >= _MAX_DEPTH:
        return
    for key, member in properties.items():
        if not isinstance(member, Mapping):
            continue
        name = member.get(_KEYWORD)
        if isinstance(name, str) and member.get("type") in ("string", "integer", "boolean"):
            yield name, (*path, key)
        yield from _annotated(member, (*path, key))


def _value_at(arguments: object, keys: tuple[str, ...]) -> object:
    for key in keys:
        if not isinstance(arguments, Mapping):
            return None
        arguments = arguments.get(key)
    return arguments


def _is_same(text: str, value: object) -> bool:
    match value:
        case bool():
            return text == ("true" if value else "false")
        case str():
            return text == value
        case int() | float():
            try:
                # Numbers are compared as such: 42.0 is 42.
                return float(text) == float(value)
            except (ValueError, OverflowError):
                return False
        case _:
            return False


_KIND_NAMES: Final[dict[type, str]] = {str: "a string", dict: "an object"}


@record
class Recognized:
    """A POST whose revision is known and whose headers agree with its body.

    Attributes:
        uses_session: it belongs to the session its header names. Otherwise it stands alone: an
            ``initialize``, a one-shot, or a revision without sessions (where the header, if one
            was sent, means nothing).
    """

    revision: Revision
    uses_session: bool


_ALL: Final = (FORERUNNER, *REVISIONS.values())
IN_SESSION: Final = {r: Recognized(revision=r, uses_session=True) for r in _ALL}
ALONE: Final = {r: Recognized(revision=r, uses_session=False) for r in _ALL}
"""All there can be; made once, not for every request."""


def recognize(
    message: Message | Batch, accepted: Accepted, session: Revision | None
) -> Recognized | Rejected:
    """Judge a POST.

    Args:
        session: what the live session named by the header speaks; ``None`` when there is no
            header or no such session.
    """
    if isinstance(message, Batch):
        return _recognize_batch(message, accepted, session)
    if _is_modern(message, accepted):
        return _climb_modern(message, accepted)
    if isinstance(message, Request) and message.method == "initialize":
        requested = message.params.get("protocolVersion")
        wish = requested if isinstance(requested, str) else ""
        return ALONE[negotiate(wish)]
    request_id = _id_of(message)
    is_discovery = isinstance(message, Request) and message.method == DISCOVER
    unsupported = None if is_discovery else _judge_version_header(accepted, session, request_id)
    if unsupported is not None:
        return unsupported
    return _recognize_legacy(accepted, session, request_id)


def recognize_stream(accepted: Accepted, session: Revision | None) -> Revision | Rejected:
    """Judge a GET (the session's notification stream) or a DELETE (its end): both need one."""
    stated = REVISIONS.get(accepted.version or "")
    if stated is not None and not stated.has_handshake:
        return rejection(
            405,
            f"{stated.version} has no {accepted.verb} here; POST.",
            headers=(("Allow", "POST"),),
        )
    unsupported = _judge_version_header(accepted, session, None)
    if unsupported is not None:
        return unsupported
    if accepted.session_id is None:
        return rejection(
            400, f"{accepted.verb} needs the Mcp-Session-Id that initialize answered with."
        )
    return session if session is not None else _no_session(None)


# Revisions with a handshake ------------------------------------------------------------------


def _recognize_legacy(
    accepted: Accepted, session: Revision | None, request_id: RequestId | None
) -> Recognized | Rejected:
    if accepted.session_id is not None:
        if session is None:
            return _no_session(request_id)
        return IN_SESSION[session]
    # A one-shot: served without ceremony, as the header says or as the base revision.
    return ALONE[REVISIONS.get(accepted.version or "", BASE)]


def _recognize_batch(
    batch: Batch, accepted: Accepted, session: Revision | None
) -> Recognized | Rejected:
    messages = [item for item in batch.items if not isinstance(item, BadMessage)]
    stated = REVISIONS.get(accepted.version or "")
    if any(_version_in(item) is not None for item in messages) or (
        stated is not None and not stated.has_handshake
    ):
        return rejection(400, "This revision takes one message in a POST, not an array.")
    unsupported = _judge_version_header(accepted, session, None)
    if unsupported is not None:
        return unsupported
    found = _recognize_legacy(accepted, session, None)
    if isinstance(found, Rejected):
        return found
    if not found.revision.has_batches:
        version = found.revision.version
        return rejection(400, f"{version} takes one message in a POST, not an array.")
    for item in messages:
        if isinstance(item, Request) and item.method == "initialize":
            return rejection(400, "initialize must not be part of a batch.", request_id=item.id)
    return found


def _judge_version_header(
    accepted: Accepted, session: Revision | None, request_id: RequestId | None
) -> Rejected | None:
    """The header may be absent; a value that no revision has is refused in every era."""
    if accepted.version is None or accepted.version in REVISIONS:
        return None
    if session is not None and accepted.version == session.version:
        return None
    return _unsupported(accepted.version, request_id)


def _no_session(request_id: RequestId | None) -> Rejected:
    # Exactly 404: clients take it as the sign to initialize again.
    return rejection(
        404,
        "This session is unknown or has ended (it was idle for SESSION_IDLE_SEC, or the daemon "
        "was restarted); initialize again.",
        request_id=request_id,
    )


# Revisions without --------------------------------------------------------------------------


def _is_modern(message: Message, accepted: Accepted) -> bool:
    """Whether anything says a revision without handshake, or a version in ``_meta`` at all."""
    if _version_in(message) is not None:
        return True
    if isinstance(message, Request) and message.method == "initialize":
        return False
    stated = REVISIONS.get(accepted.version or "")
    return stated is not None and not stated.has_handshake


def _climb_modern(message: Message, accepted: Accepted) -> Recognized | Rejected:
    """docs/mcp-rules.md, "2026-07-28", rungs 1 to 4; ``session.admit`` has the fifth."""
    in_body = _version_in(message)
    version = in_body if isinstance(in_body, str) else accepted.version or ""
    match message:
        case Response():
            return rejection(400, "The server asked nothing, so this answers nothing.")
        case Notification():
            # None is defined over HTTP, nor any header rule for it; it is taken and dropped.
            return _stateless(version, None)
        case Request():
            rules = _rules_for(version)
            return (
                _judge_meta(message, rules)
                or _judge_headers(message, accepted, rules)
                or _stateless(version, message.id)
            )


def _rules_for(version: str) -> Revision:
    """Whose rungs to climb: of an unknown version nothing newer is known than our newest."""
    revision = REVISIONS.get(version)
    return revision if revision is not None and not revision.has_handshake else NEWEST


def _judge_meta(request: Request, rules: Revision) -> Rejected | None:
    """Rung 2: what every request must say of its client."""
    meta = _meta_of(request)
    for key, kind in rules.required_meta.items():
        if not isinstance(meta.get(key), kind):
            return rejection(
                400,
                f"params._meta must carry {key!r} ({_KIND_NAMES[kind]}).",
                rpc_code=RpcCode.INVALID_PARAMS,
                request_id=request.id,
                data={"missing": key},
            )
    return None


def _judge_headers(request: Request, accepted: Accepted, rules: Revision) -> Rejected | None:
    """Rung 3: the headers must repeat the body, because proxies route by them.

    A request that negotiates is judged by its body alone: its client cannot know yet what to write
    into the header. Only a body with a version that is not served is held against its header, as
    the official conformance suite wants it.
    """
    expected: list[tuple[str, object]] = []
    if request.method != DISCOVER or _version_in(request) != rules.version:
        expected.append((VERSION_HEADER, _version_in(request)))
    if rules.has_method_header:
        expected.append((METHOD_HEADER, request.method))
    for name, in_body in expected:
        if accepted.header(name) != in_body:
            return _mismatch(request, name)
    parameter = rules.name_headers.get(request.method)
    if parameter is None:
        return None
    header = accepted.header(NAME_HEADER)
    named = None if header is None else decode_value(header)
    in_body = request.params.get(parameter)
    # A body without the name is bad params, which is a later rung's word.
    if named is None or (isinstance(in_body, str) and named != in_body):
        return _mismatch(request, NAME_HEADER)
    return None


def _mismatch(request: Request, header: str) -> Rejected:
    return rejection(
        400,
        f"The header {header} is missing or does not repeat what the body says.",
        rpc_code=RpcCode.HEADER_MISMATCH,
        request_id=request.id,
        data={"header": header},
    )


def _stateless(version: str, request_id: RequestId | None) -> Recognized | Rejected:
    """Rung 4."""
    revision = REVISIONS.get(version)
    if revision is None or revision.has_handshake:
        return _unsupported(version, request_id)
    return ALONE[revision]


# What a message says of itself ------------------------------------------------------------------


def _meta_of(message: Message) -> JsonObject:
    if isinstance(message, Response):
        return {}
    meta = message.params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def _version_in(message: Message) -> object:
    """The version that ``_meta`` gives, of whatever type; ``None`` when it gives none."""
    meta = _meta_of(message)
    return meta.get(PROTOCOL_VERSION_KEY)


def _id_of(message: Message) -> RequestId | None:
    return message.id if isinstance(message, Request) else None


def _unsupported(version: str, request_id: RequestId | None) -> Rejected:
    if version in REVISIONS:
        message = f"MCP revision {version!r} begins with initialize; params._meta cannot choose it."
    else:
        message = f"MCP revision {version[:80]!r} is not served here."
    return rejection(
        400,
        message,
        rpc_code=RpcCode.UNSUPPORTED_VERSION,
        request_id=request_id,
        data={"supported": list(SUPPORTED_VERSIONS), "requested": version[:80]},
    )
