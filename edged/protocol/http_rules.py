"""The verdict on one HTTP request, before its body is read: a ladder whose first failure wins.

Not here: which revision the request speaks (``recognition``), which needs the body; the token of
the relay route, which needs keys. Every refusal is a ready answer with a JSON-RPC error body.

Source: SPEC.md section 3; MCP-REVISIONS.md section 5.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from edged.protocol.jsonrpc import (
    MAX_BODY_BYTES,
    BadMessage,
    JsonObject,
    RequestId,
    RpcCode,
    error_bytes,
)
from edged.protocol.media_types import JSON_TYPE, SSE_TYPE, accepts, is_json_type
from edged.protocol.origins import Guard

__all__ = [
    "CALLER_TOKEN_HEADER",
    "FETCH_SITE_HEADER",
    "FULL_HEADER",
    "MAX_HEADER_BYTES",
    "SESSION_HEADER",
    "SSE_HEADERS",
    "VERSION_HEADER",
    "Accepted",
    "Door",
    "HttpHead",
    "Rejected",
    "Verb",
    "judge_head",
    "rejected_message",
    "rejection",
]

SESSION_HEADER: Final = "Mcp-Session-Id"
VERSION_HEADER: Final = "MCP-Protocol-Version"
METHOD_HEADER: Final = "Mcp-Method"
NAME_HEADER: Final = "Mcp-Name"
FETCH_SITE_HEADER: Final = "Sec-Fetch-Site"
LAST_EVENT_HEADER: Final = "Last-Event-ID"
CALLER_TOKEN_HEADER: Final = "Edge-Caller-JWT"  # noqa: S105 - the name of a header
FULL_HEADER: Final = "Edged-Full"
"""Comes with the 503 of an engine that has as many connections as it takes."""

HeaderList = tuple[tuple[str, str], ...]
JSON_HEADERS: Final[HeaderList] = (("Content-Type", JSON_TYPE),)
SSE_HEADERS: Final[HeaderList] = (
    ("Content-Type", SSE_TYPE),
    ("Cache-Control", "no-cache, no-transform"),
    # Else nginx and its like hold events back until a buffer is full.
    ("X-Accel-Buffering", "no"),
)

MAX_HEADER_BYTES: Final = 32 * 1024

_SINGLE: Final = frozenset(
    name.lower()
    for name in (
        "Authorization",
        "Content-Encoding",
        "Content-Length",
        "Content-Type",
        "Host",
        "Origin",
        CALLER_TOKEN_HEADER,
        FETCH_SITE_HEADER,
        LAST_EVENT_HEADER,
        METHOD_HEADER,
        NAME_HEADER,
        SESSION_HEADER,
        VERSION_HEADER,
    )
)
"""Headers that mean one thing: where two came, two readers could each believe another one."""


class Verb(enum.StrEnum):
    """The verbs of the endpoint."""

    GET = "GET"
    POST = "POST"
    DELETE = "DELETE"


ALLOW: Final[HeaderList] = (("Allow", "GET, POST, DELETE"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpHead:
    """A request without its body, as it came.

    Attributes:
        path: without the query.
        headers: in order, with repetitions; names in any case.
        peer: address of who sent it, as text.
    """

    verb: str
    path: str
    headers: HeaderList
    peer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """What the endpoint is configured to let in."""

    path: str
    guard: Guard


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A head that passed; the body may be read.

    Attributes:
        wants_json, wants_sse: what the answer may be; at least one holds.
        headers: the single-valued ones and the rest joined by commas; names in lower case,
            values without surrounding blanks.
        session_id: ``Mcp-Session-Id``.
        version: ``MCP-Protocol-Version``.
    """

    verb: Verb
    wants_json: bool
    wants_sse: bool
    headers: Mapping[str, str]
    peer: str
    session_id: str | None = field(init=False)
    version: str | None = field(init=False)

    def __post_init__(self) -> None:
        """Looks up once what every request of this head is asked for."""
        object.__setattr__(self, "session_id", self.header(SESSION_HEADER))
        object.__setattr__(self, "version", self.header(VERSION_HEADER))

    def header(self, name: str) -> str | None:
        """A header's value; ``None`` when it was not sent, which an empty one was."""
        return self.headers.get(name.lower())

    @property
    def last_event_id(self) -> str | None:
        """``Last-Event-ID``."""
        return self.header(LAST_EVENT_HEADER)

    @property
    def caller_token(self) -> str | None:
        """``Edge-Caller-JWT``; an empty one still means the relay route."""
        return self.header(CALLER_TOKEN_HEADER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A whole HTTP answer that says no."""

    status: int
    headers: HeaderList
    body: bytes


def rejection(
    status: int,
    message: str,
    *,
    rpc_code: int = RpcCode.INVALID_REQUEST,
    request_id: RequestId | None = None,
    data: JsonObject | None = None,
    headers: HeaderList = (),
) -> Rejected:
    """Any refusal as a ready answer; also for what the HTTP library refuses by itself."""
    return Rejected(
        status=status,
        headers=JSON_HEADERS + headers,
        body=error_bytes(request_id, rpc_code, message, data),
    )


def rejected_message(bad: BadMessage) -> Rejected:
    """The answer to a POST whose body is no message."""
    return Rejected(status=bad.http_status, headers=JSON_HEADERS, body=bad.reply().encode())


def judge_head(head: HttpHead, door: Door) -> Accepted | Rejected:
    """Climb the ladder: size, repetitions, Host and Origin, path, verb, body type, Accept."""
    joined = _join(head.headers)
    if isinstance(joined, Rejected):
        return joined
    for rung in _RUNGS:
        refusal = rung(head, joined, door)
        if refusal is not None:
            return refusal
    verb = Verb(head.verb)
    accept = joined.get("accept")
    wants_json, wants_sse = accepts(accept, JSON_TYPE), accepts(accept, SSE_TYPE)
    if verb is Verb.GET and not wants_sse:
        return rejection(
            406, f"GET opens a stream; send Accept: {SSE_TYPE}, or POST a JSON-RPC message."
        )
    if verb is Verb.POST and not (wants_json or wants_sse):
        return rejection(406, f"Answers are {JSON_TYPE} or {SSE_TYPE}; Accept names neither.")
    return Accepted(
        verb=verb, wants_json=wants_json, wants_sse=wants_sse, headers=joined, peer=head.peer
    )


def _join(headers: HeaderList) -> dict[str, str] | Rejected:
    """Headers by lower-case name, unless they are too many or one that must be single is not."""
    if sum(len(name) + len(value) + 4 for name, value in headers) > MAX_HEADER_BYTES:
        return rejection(431, f"The headers are over {MAX_HEADER_BYTES} bytes.")
    joined: dict[str, str] = {}
    for name, value in headers:
        key, trimmed = name.lower(), value.strip(" \t")
        if key in joined and key in _SINGLE:
            return rejection(400, f"The header {name[:80]!r} may be sent only once.")
        joined[key] = f"{joined[key]}, {trimmed}" if key in joined else trimmed
    return joined


# The rungs: each looks at one thing and gives a refusal or None ------------------------------

_Rung = Callable[[HttpHead, Mapping[str, str], Door], Rejected | None]


def _judge_host(_: HttpHead, headers: Mapping[str, str], door: Door) -> Rejected | None:
    host = headers.get("host")
    if not host:
        return rejection(400, "The request has no Host header.")
    if not door.guard.allows_host(host):
        return rejection(
            403,
            f"Host {host[:200]!r} is not a name of this machine; "
            "use its address, or let its owner add the name to ALLOWED_HOSTS.",
        )
    return None


def _judge_origin(_: HttpHead, headers: Mapping[str, str], door: Door) -> Rejected | None:
    origin = headers.get("origin")
    if origin is None:
        return None
    host, site = headers.get("host", ""), headers.get(FETCH_SITE_HEADER.lower())
    if door.guard.allows_origin(origin, host=host, fetch_site=site):
        return None
    told = f" (Sec-Fetch-Site: {site[:40]})" if site is not None else ""
    return rejection(
        403,
        f"Origin {origin[:200]!r}{told} is not allowed: it is not that of this endpoint. The "
        "machine's owner may add it to ALLOWED_ORIGINS.",
    )


def _judge_path(head: HttpHead, _: Mapping[str, str], door: Door) -> Rejected | None:
    # With or without a slash at its end, whichever of the two the owner wrote.
    if head.path.removesuffix("/") == door.path.removesuffix("/"):
        return None
    return rejection(404, f"Nothing is here; the MCP endpoint is {door.path}.")


def _judge_verb(head: HttpHead, _: Mapping[str, str], __: Door) -> Rejected | None:
    if head.verb in Verb.__members__:
        return None
    return rejection(405, f"{head.verb[:40]} is not served here; POST a message.", headers=ALLOW)


def _judge_body(head: HttpHead, headers: Mapping[str, str], _: Door) -> Rejected | None:
    if head.verb != Verb.POST:
        return None
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        return rejection(415, "A Content-Encoding is not served; send the body as it is.")
    if not is_json_type(headers.get("content-type", "")):
        return rejection(415, f"Content-Type must be {JSON_TYPE} in UTF-8.")
    length = headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:20]) > MAX_BODY_BYTES:
        return rejection(
            413, f"The body has {length[:20]} bytes; at most {MAX_BODY_BYTES} are read."
        )
    return None


_RUNGS: Final[tuple[_Rung, ...]] = (
    _judge_host,
    _judge_origin,
    _judge_path,
    _judge_verb,
    _judge_body,
)
