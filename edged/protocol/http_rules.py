"""The verdict on one HTTP request, before its body is read: a ladder whose first failure wins.

Not here: which revision the request speaks (``recognition``), which needs the body; the token of
the relay route, which needs keys. Every refusal is a ready answer with a JSON-RPC error body.

Source: docs/promises.md section 3; docs/mcp-rules.md, "HTTP and JSON-RPC".

``Content-Type`` and ``Accept``: what a body is, and what an answer may be.

Source: RFC 9110 sections 8.3 and 12.5.1, as far as two media types need it: quoted parameters may
not hold commas or semicolons.

The DNS-rebinding guard: which ``Host`` and ``Origin`` may speak to the endpoint.

A web page can make a browser send requests to this machine under the page's own name, once that
name resolves to this address; it cannot make the browser say another name. So a Host that is an
address, or a name nobody else can own, is proof enough. An Origin must be that of the request
itself (its scheme, its Host and port), or of a program on loopback that is no browser: a browser
tells by Sec-Fetch-Site whose page it was, and pages of another port are another's.

Source: docs/promises.md section 3.
"""

from __future__ import annotations

import enum
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Final

from edged.protocol import jsonrpc
from edged.record import record

JSON_TYPE: Final = "application/json"
SSE_TYPE: Final = "text/event-stream"

_WORD: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_RANGE: Final = re.compile(rf"{_WORD.pattern}/{_WORD.pattern}")
_ZERO: Final = re.compile(r"0(\.0{0,3})?")
_UTF_8: Final = frozenset({"utf-8", "utf8"})


@record
class _MediaType:
    """A media type or range in lower case, with its parameters in order."""

    name: str
    parameters: tuple[tuple[str, str], ...]


def is_json_type(value: str) -> bool:
    """Whether a ``Content-Type`` is JSON in UTF-8.

    Types that a web form may send without asking first (text/plain, forms) must not pass: that
    they do not is part of what keeps other people's pages out.
    """
    found = _parse(value)
    if found is None or found.name != JSON_TYPE:
        return False
    return all(text.lower() in _UTF_8 for name, text in found.parameters if name == "charset")


def accepts(accept: str | None, wanted: str) -> bool:
    """Whether an ``Accept`` header takes a media type; the most specific range decides.

    No header at all takes everything, and so does an empty one.
    """
    if not accept:
        return True
    is_taken: dict[str, bool] = {}
    for part in accept.split(","):
        found = _parse(part)
        if found is not None:
            quality = dict(found.parameters).get("q", "1")
            is_wanted = _ZERO.fullmatch(quality) is None
            is_taken[found.name] = is_taken.get(found.name, False) or is_wanted
    kind = wanted.partition("/")[0]
    for media_range in (wanted, f"{kind}/*", "*/*"):
        if media_range in is_taken:
            return is_taken[media_range]
    return False


def _parse(value: str) -> _MediaType | None:
    name, *pieces = (piece.strip(" \t") for piece in value.split(";"))
    if _RANGE.fullmatch(name) is None:
        return None
    parameters = []
    for piece in pieces:
        key, has_value, text = piece.partition("=")
        if not piece:
            continue
        if not has_value or _WORD.fullmatch(key) is None:
            return None
        parameters.append((key.lower(), text.strip('"')))
    return _MediaType(name=name.lower(), parameters=tuple(parameters))


_LOOPBACK_NAMES: Final = frozenset(
    {"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"}
)
_AUTHORITY: Final = r"(?:\[(?P<six>[0-9a-f:.]+(?:%[0-9a-z._~%-]+)?)\]|(?P<name>[0-9a-z._-]+))"
_HOST: Final = re.compile(_AUTHORITY + r"(?::(?P<port>[0-9]{1,5}))?", re.IGNORECASE)
_ORIGIN: Final = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://" + _AUTHORITY + r"(?::(?P<port>[0-9]{1,5}))?",
    re.IGNORECASE,
)
SAME_ORIGIN: Final = "same-origin"
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}


@record
class Guard:
    """What is allowed beyond addresses and loopback names; all in lower case.

    Attributes:
        hosts: names (``bench7``, ``bench7.lab.example``, with or without a port).
        origins: origins as browsers write them (``https://tools.example``, no path).
        scheme: what clients reach this endpoint by.
    """

    hosts: frozenset[str]
    origins: frozenset[str]
    scheme: str = "http"

    @classmethod
    def of(
        cls,
        *,
        host_name: str,
        qualified_name: str = "",
        allowed_hosts: Iterable[str] = (),
        allowed_origins: Iterable[str] = (),
        scheme: str = "http",
    ) -> Guard:
        """The guard of a machine: its names bare, fully qualified and ``.local``, and the owner's.

        Args:
            host_name: as the system gives it, bare or qualified.
            qualified_name: fully qualified, empty when there is none.
            allowed_hosts: ``ALLOWED_HOSTS``.
            allowed_origins: ``ALLOWED_ORIGINS``.
            scheme: what clients reach this endpoint by.
        """
        names = {_plain_name(name) for name in (host_name, qualified_name) if name}
        bare = {name.split(".")[0] for name in names}
        mine = names | bare | {f"{name}.local" for name in bare}
        return cls(
            hosts=frozenset(mine | {_plain_name(host) for host in allowed_hosts}) - {""},
            origins=frozenset(_plain_origin(origin) for origin in allowed_origins) - {""},
            scheme=scheme,
        )

    def allows_host(self, value: str) -> bool:
        """Whether a ``Host`` header is of this machine."""
        host = _HOST.fullmatch(value)
        if host is None:
            return False
        if host["six"] is not None:
            return _is_address(host["six"], version=6)
        name, port = _plain_name(host["name"]), host["port"]
        return (
            _is_address(name, version=4)
            or name in _LOOPBACK_NAMES
            or name in self.hosts
            or (port is not None and f"{name}:{port}" in self.hosts)
        )

    def allows_origin(self, value: str, *, host: str, fetch_site: str | None) -> bool:
        """Whether an ``Origin`` header may come with a request; ``null`` may not.

        Args:
            value: the header.
            host: the request's ``Host``, which is allowed.
            fetch_site: its ``Sec-Fetch-Site``; ``None`` where none was sent, as by programs that
                are no browser, and by browsers to plain http on another machine.
        """
        if self.allows_page(value, host=host, fetch_site=fetch_site):
            return True
        origin = _matched(value)
        return fetch_site is None and origin is not None and _is_on_loopback(origin)

    def allows_page(self, value: str, *, host: str, fetch_site: str | None) -> bool:
        """The same for what only browsers ask for: its own origin, or one of the owner's.

        No browser sends ``Sec-Fetch-Site`` with the handshake of a WebSocket, so that by it the
        page of another loopback port cannot be told from a program.
        """
        if _plain_origin(value) in self.origins:
            return True
        origin = _matched(value)
        if origin is None or not self._is_own(origin, host):
            return False
        return fetch_site is None or fetch_site.lower() == SAME_ORIGIN

    def _is_own(self, origin: re.Match[str], host: str) -> bool:
        """Whether an origin is that of the request: scheme, name and port."""
        own = _HOST.fullmatch(host)
        if own is None or origin["scheme"].lower() != self.scheme:
            return False
        return _place(origin, self.scheme) == _place(own, self.scheme)


def _matched(origin: str) -> re.Match[str] | None:
    """As a whole: a prefix match lets http://localhost:8767@evil.example in."""
    found = _ORIGIN.fullmatch(origin)
    return found if found is not None and found["scheme"].lower() in _DEFAULT_PORTS else None


def _is_on_loopback(origin: re.Match[str]) -> bool:
    if origin["six"] is not None:
        return _is_loopback(origin["six"])
    return _plain_name(origin["name"]) in _LOOPBACK_NAMES or _is_loopback(origin["name"])


def _place(authority: re.Match[str], scheme: str) -> tuple[str, int]:
    """Name or address, and port, of a matched Host or Origin."""
    name = authority["six"] or _plain_name(authority["name"])
    return name.lower(), int(authority["port"] or _DEFAULT_PORTS[scheme])


def _plain_name(name: str) -> str:
    return name.strip().lower().removesuffix(".")


def _plain_origin(origin: str) -> str:
    """An origin in lower case, without a port that its scheme implies, without a last slash."""
    plain = origin.strip().lower().removesuffix("/")
    scheme, _, _ = plain.partition("://")
    return plain.removesuffix(f":{_DEFAULT_PORTS.get(scheme, '-')}")


def _is_address(text: str, *, version: int) -> bool:
    try:
        return ipaddress.ip_address(text).version == version
    except ValueError:
        return False


def _is_loopback(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).is_loopback
    except ValueError:
        return False


SESSION_HEADER: Final = "Mcp-Session-Id"
VERSION_HEADER: Final = "MCP-Protocol-Version"
METHOD_HEADER: Final = "Mcp-Method"
NAME_HEADER: Final = "Mcp-Name"
FETCH_SITE_HEADER: Final = "Sec-Fetch-Site"
LAST_EVENT_HEADER: Final = "Last-Event-ID"
CALLER_TOKEN_HEADER: Final = "Edge-Caller-JWT"  # noqa: S105 - the name of a header
LEASE_HEADER: Final = "Edged-Lease"
LOOK_HEADER: Final = "Edged-Look"
"""What an open bench page looks at again and again; see ``Caller.is_look``."""
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
        LEASE_HEADER,
        LOOK_HEADER,
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


@record
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


@record
class AccessPolicy:
    """What the endpoint is configured to let in.

    Attributes:
        is_page: what is asked for is for browsers alone, which say where a page is from.
    """

    path: str
    guard: Guard
    is_page: bool = False


@record
class Accepted:
    """A head that passed; the body may be read.

    Attributes:
        wants_json, wants_sse: what the answer may be; at least one holds.
        headers: the single-valued ones and the rest joined by commas; names in lower case,
            values without surrounding blanks.
        session_id: ``Mcp-Session-Id``.
        version: ``MCP-Protocol-Version``.
        lease: ``Edged-Lease``.
        look: ``Edged-Look``.
    """

    verb: Verb
    wants_json: bool
    wants_sse: bool
    headers: Mapping[str, str]
    peer: str
    session_id: str | None = field(init=False)
    version: str | None = field(init=False)
    lease: str | None = field(init=False, repr=False)
    look: str | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Looks up once what every request of this head is asked for."""
        object.__setattr__(self, "session_id", self.header(SESSION_HEADER))
        object.__setattr__(self, "version", self.header(VERSION_HEADER))
        object.__setattr__(self, "lease", self.header(LEASE_HEADER))
        object.__setattr__(self, "look", self.header(LOOK_HEADER))

    def header(self, name: str) -> str | None:
        """A header's value; ``None`` when it was not sent, which an empty one was."""
        return self.headers.get(name.lower())

    @property
    def last_event_id(self) -> str | None:
        """``Last-Event-ID``."""
        return self.header(LAST_EVENT_HEADER)


@record
class Rejected:
    """A whole HTTP answer that says no."""

    status: int
    headers: HeaderList
    body: bytes


def rejection(
    status: int,
    message: str,
    *,
    rpc_code: int = jsonrpc.RpcCode.INVALID_REQUEST,
    request_id: jsonrpc.RequestId | None = None,
    data: jsonrpc.JsonObject | None = None,
    headers: HeaderList = (),
) -> Rejected:
    """Any refusal as a ready answer; also for what the HTTP library refuses by itself."""
    return Rejected(
        status=status,
        headers=JSON_HEADERS + headers,
        body=jsonrpc.error_bytes(request_id, rpc_code, message, data),
    )


def rejected_message(bad: jsonrpc.BadMessage) -> Rejected:
    """The answer to a POST whose body is no message."""
    return Rejected(status=bad.http_status, headers=JSON_HEADERS, body=bad.reply().encode())


def judge_head(head: HttpHead, door: AccessPolicy) -> Accepted | Rejected:
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


def judge_host(head: HttpHead, guard: Guard) -> Mapping[str, str] | Rejected:
    """Whether a request for what any page may read may come in: by its Host alone.

    Returns:
        Its headers, as those of ``Accepted``.
    """
    joined = _join(head.headers)
    if isinstance(joined, Rejected):
        return joined
    refusal = _judge_host(head, joined, AccessPolicy(path=head.path, guard=guard))
    if refusal is None and CALLER_TOKEN_HEADER.lower() in joined:
        return rejection(404, "Nothing is here on the relay route.")
    return refusal or joined


def judge_visit(head: HttpHead, guard: Guard) -> Mapping[str, str] | Rejected:
    """Whether a request to something beside the endpoint may come in: the same first rungs.

    Returns:
        Its headers, as those of ``Accepted``.
    """
    joined = _join(head.headers)
    if isinstance(joined, Rejected):
        return joined
    door = AccessPolicy(path=head.path, guard=guard, is_page=True)
    refusal = _judge_host(head, joined, door) or _judge_origin(head, joined, door)
    if refusal is None and CALLER_TOKEN_HEADER.lower() in joined:
        return rejection(404, "Nothing is here on the relay route.")
    return refusal or joined


def cors_headers(guard: Guard, origin: str | None) -> HeaderList:
    """What lets pages of ALLOWED_ORIGINS read an answer; nothing for any other.

    Source: Fetch standard, section 3.2 (CORS protocol).
    """
    if origin is None or _plain_origin(origin) not in guard.origins:
        return ()
    return (
        ("Access-Control-Allow-Origin", origin),
        ("Access-Control-Expose-Headers", SESSION_HEADER),
        ("Vary", "Origin"),
    )


def preflight(guard: Guard, headers: Mapping[str, str]) -> HeaderList:
    """The answer's headers to a browser that asks first, by OPTIONS, for such a page."""
    found = cors_headers(guard, headers.get("origin"))
    if not found:
        return ALLOW
    wanted = headers.get("access-control-request-headers", "")
    names = [name.strip() for name in wanted[:2_000].split(",")]
    return (
        *found,
        ("Access-Control-Allow-Methods", ALLOW[0][1]),
        ("Access-Control-Allow-Headers", ", ".join(filter(_WORD.fullmatch, names))),
        ("Access-Control-Max-Age", "600"),
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

_Rung = Callable[[HttpHead, Mapping[str, str], AccessPolicy], Rejected | None]


def _judge_host(_: HttpHead, headers: Mapping[str, str], door: AccessPolicy) -> Rejected | None:
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


def _judge_origin(_: HttpHead, headers: Mapping[str, str], door: AccessPolicy) -> Rejected | None:
    origin = headers.get("origin")
    host, site = headers.get("host", ""), headers.get(FETCH_SITE_HEADER.lower())
    if origin is None:
        # A link elsewhere may lead to the page; a page elsewhere may not embed what is under it.
        is_link = headers.get("sec-fetch-mode", "").lower() == "navigate"
        if not door.is_page or is_link or (site or SAME_ORIGIN).lower() in {SAME_ORIGIN, "none"}:
            return None
        return rejection(
            403, f"This is for the bench page alone (Sec-Fetch-Site: {str(site)[:40]})."
        )
    allows = door.guard.allows_page if door.is_page else door.guard.allows_origin
    if allows(origin, host=host, fetch_site=site):
        return None
    told = f" (Sec-Fetch-Site: {site[:40]})" if site is not None else ""
    return rejection(
        403,
        f"Origin {origin[:200]!r}{told} is not allowed: it is not that of this endpoint. The "
        "machine's owner may add it to ALLOWED_ORIGINS.",
    )


def _judge_path(head: HttpHead, _: Mapping[str, str], door: AccessPolicy) -> Rejected | None:
    # With or without a slash at its end, whichever of the two the owner wrote.
    if head.path.removesuffix("/") == door.path.removesuffix("/"):
        return None
    return rejection(404, f"Nothing is here; the MCP endpoint is {door.path}.")


def _judge_verb(head: HttpHead, _: Mapping[str, str], __: AccessPolicy) -> Rejected | None:
    if head.verb in Verb.__members__:
        return None
    return rejection(405, f"{head.verb[:40]} is not served here; POST a message.", headers=ALLOW)


def _judge_body(head: HttpHead, headers: Mapping[str, str], _: AccessPolicy) -> Rejected | None:
    if head.verb != Verb.POST:
        return None
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        return rejection(415, "A Content-Encoding is not served; send the body as it is.")
    if not is_json_type(headers.get("content-type", "")):
        return rejection(415, f"Content-Type must be {JSON_TYPE} in UTF-8.")
    length = headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:20]) > jsonrpc.MAX_BODY_BYTES:
        return rejection(
            413, f"The body has {length[:20]} bytes; at most {jsonrpc.MAX_BODY_BYTES} are read."
        )
    return None


_RUNGS: Final[tuple[_Rung, ...]] = (
    _judge_host,
    _judge_origin,
    _judge_path,
    _judge_verb,
    _judge_body,
)
