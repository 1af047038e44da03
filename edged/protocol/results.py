"""The results of MCP's methods, made as each revision wants them, and already encoded.

A result is encoded once and spliced into as many answers as ask for it
(``jsonrpc.result_bytes_from``), so a cached tool list costs its bytes and nothing else.

Source: MCP ``schema/<version>/schema.ts``; docs/mcp-rules.md; docs/promises.md section 3.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from edged.protocol.jsonrpc import (
    BadMessage,
    JsonObject,
    Request,
    RequestId,
    RpcCode,
    VerbatimText,
    encode,
    encode_long,
    encode_text,
    quote,
)
from edged.protocol.revisions import (
    SERVER_INFO_KEY,
    SUBSCRIPTION_ID_KEY,
    SUPPORTED_VERSIONS,
    Revision,
)
from edged.record import record

MAX_PAGE_BYTES: Final = 1024 * 1024
"""Many clients read only the first page, so a page holds all that can be asked of one reader."""
TTL_MS: Final = 0
"""A cached tool list is wrong from the moment something is plugged in."""


@record
class Server:
    """What this server says of itself.

    Attributes:
        capabilities: as on the wire (``{"tools": {"listChanged": true}}``).
        instructions: for the model; empty for none.
    """

    name: str
    version: str
    title: str = ""
    description: str = ""
    website_url: str = ""
    instructions: str = ""
    capabilities: JsonObject
    _call_tails: dict[Revision, str] = field(default_factory=dict, init=False, compare=False)

    def call_tail(self, revision: Revision) -> str:
        """What follows the members of a tool's result: encoded, and the closing brace."""
        tail = self._call_tails.get(revision)
        if tail is None:
            decoration = encode_text(_decoration(revision, "tools/call", self))
            tail = self._call_tails[revision] = "}" if decoration == "{}" else f",{decoration[1:]}"
        return tail

    def capabilities_in(self, revision: Revision) -> JsonObject:
        """``capabilities`` with the members that the revision knows."""
        if revision.has_extensions:
            return self.capabilities
        return {key: told for key, told in self.capabilities.items() if key != "extensions"}

    def info(self, revision: Revision) -> JsonObject:
        """``serverInfo`` with the members that the revision knows."""
        members = {
            "name": self.name,
            "version": self.version,
            "title": self.title,
            "description": self.description,
            "websiteUrl": self.website_url,
        }
        return {
            key: value for key, value in members.items() if value and key in revision.server_fields
        }


class Told(dict[str, Any]):
    """A tool's result that is given more than once, so its answers are kept; nobody changes it.

    Attributes:
        answers: the encoded result by revision.
    """

    __slots__ = ("answers",)

    def __init__(self, members: Mapping[str, Any]) -> None:
        super().__init__(members)
        self.answers: dict[Revision, bytes] = {}


class ToldList:
    """The same of a list.

    Args:
        text: its JSON.
        quoted: that as a JSON string, where it is known already.
    """

    __slots__ = ("answers", "quoted", "text")

    def __init__(self, text: str, quoted: str = "") -> None:
        self.text = text
        self.quoted = quoted or quote(text)
        self.answers: dict[Revision, bytes] = {}

    def items(self) -> list[Any]:
        """The list; most answers do without it."""
        items: list[Any] = json.loads(self.text)
        return items


@record
class ToolEntry:
    """A tool as ``tools/list`` shows it, before a revision has had its say.

    Attributes:
        is_destructive: always sent, since clients take an absent hint for true.
        output_schema: of the structured content (so for a list: of the object it is wrapped in).
    """

    name: str
    description: str
    input_schema: JsonObject
    title: str = ""
    output_schema: JsonObject | None = None
    is_read_only: bool
    is_destructive: bool
    is_idempotent: bool
    is_open_world: bool
    meta: JsonObject | None = None

    def as_listed(self, revision: Revision) -> JsonObject:
        """The wire form, with the members that the revision knows."""
        hints: dict[str, object] = {
            "readOnlyHint": self.is_read_only,
            "destructiveHint": self.is_destructive,
            "idempotentHint": self.is_idempotent,
            "openWorldHint": self.is_open_world,
        }
        if self.title and "title" not in revision.tool_fields:
            hints["title"] = self.title
        members: dict[str, object] = {
            "name": self.name,
            "title": self.title or None,
            "description": self.description,
            "inputSchema": self.input_schema,
            "outputSchema": self.output_schema,
            "annotations": hints,
            "_meta": self.meta,
        }
        return {
            key: value
            for key, value in members.items()
            if value is not None and key in revision.tool_fields
        }


def initialize_result(revision: Revision, server: Server, advice: str = "") -> bytes:
    """The answer to ``initialize``; ``revision`` is what was settled on.

    Args:
        advice: said behind the instructions.
    """
    members: dict[str, object] = {
        "protocolVersion": revision.version,
        "capabilities": server.capabilities_in(revision),
        "serverInfo": server.info(revision),
    }
    return encode(members | _instructions(server, advice))


def discover_result(revision: Revision, server: Server, advice: str = "") -> bytes:
    """The answer to ``server/discover``; see ``initialize_result``."""
    members: dict[str, object] = {
        "supportedVersions": list(SUPPORTED_VERSIONS),
        "capabilities": server.capabilities_in(revision),
    }
    decoration = _decoration(revision, "server/discover", server)
    return encode(members | _instructions(server, advice) | decoration)


def _instructions(server: Server, advice: str) -> dict[str, object]:
    told = " ".join(filter(None, (server.instructions, advice)))
    return {"instructions": told} if told else {}


def ping_result() -> bytes:
    """The answer to ``ping``."""
    return b"{}"


def listen_result(revision: Revision, server: Server, subscription_id: RequestId) -> bytes:
    """The last word on a ``subscriptions/listen`` stream that the server closes."""
    return encode(
        _decoration(
            revision,
            "subscriptions/listen",
            server,
            meta={SUBSCRIPTION_ID_KEY: subscription_id},
        )
    )


def list_result(
    revision: Revision, server: Server, *, method: str, key: str, entries: Iterable[JsonObject]
) -> bytes:
    """The answer to a list request of one page (``resources/list`` and its like)."""
    return plain_result(revision, server, method=method, members={key: list(entries)})


def plain_result(
    revision: Revision,
    server: Server,
    *,
    method: str,
    members: JsonObject | None = None,
    result_type: str = "",
) -> bytes:
    """The answer to a request whose result has these members and nothing else of its own.

    Args:
        result_type: where it is not that of a finished result.
    """
    told = {**(members or {}), **_decoration(revision, method, server)}
    return encode_long({**told, "resultType": result_type} if result_type else told)


def tool_pages(
    revision: Revision,
    server: Server,
    tools: Iterable[ToolEntry],
    *,
    generation: int,
    max_page_bytes: int = MAX_PAGE_BYTES,
) -> tuple[bytes, ...]:
    """Every page of ``tools/list``, encoded, in the order of ``tools``; at least one.

    Args:
        generation: names this state of the list in the cursors.
        max_page_bytes: of the entries in a page; an entry larger than that has one to itself.
    """
    pages: list[list[bytes]] = [[]]
    room = max_page_bytes
    for tool in tools:
        entry = encode(tool.as_listed(revision))
        if pages[-1] and len(entry) + 1 > room:
            pages.append([])
            room = max_page_bytes
        pages[-1].append(entry)
        room -= len(entry) + 1
    decoration = _decoration(revision, "tools/list", server)
    encoded = []
    for number, entries in enumerate(pages, start=1):
        members = {"tools": b"[%b]" % b",".join(entries)}
        if number < len(pages):
            members["nextCursor"] = encode(f"{generation}.{number}")
        encoded.append(_splice(members, decoration))
    return tuple(encoded)


def page_number(request: Request, cursor: str | None, *, generation: int, count: int) -> int:
    """Which of ``count`` pages a cursor means, from 0.

    Raises:
        BadMessage: -32602, the cursor is not one of ours, or of a list that has changed since.
    """
    if cursor is None:
        return 0
    for number in range(1, count):
        if cursor == f"{generation}.{number}":
            return number
    raise BadMessage(
        "This cursor is unknown, or the list has changed; begin again without one.",
        rpc_code=RpcCode.INVALID_PARAMS,
        request_id=request.id,
    )


def tool_result(
    revision: Revision,
    server: Server,
    *,
    data: Any,
    is_error: bool = False,
    wrap_key: str = "",
    text: str | None = None,
    more_content: Sequence[JsonObject] = (),
) -> bytes:
    """The answer to ``tools/call``.

    Args:
        data: the result as JSON-ready values; objects and lists become structured content too,
            where the revision has it.
        wrap_key: under which key a list is wrapped there, since that must be an object.
        text: what the text item says instead of the JSON of ``data``; structured content stays.
        more_content: further items (an image), as on the wire.

    Raises:
        ValueError: ``data`` holds NaN or an infinity.
        TypeError: ``data`` holds what is not JSON.
    """
    is_object = type(data) is dict or isinstance(data, Mapping)
    if is_object and data.get("encoding") == "base64":
        long = next((key for key, value in data.items() if type(value) is VerbatimText), None)
        if long is not None:
            # A text of 10**8 characters is put in whole instead of being escaped three times.
            mark = secrets.token_hex(16)
            short = {**data, long: mark}
            around = tool_result(
                revision,
                server,
                data=short,
                is_error=is_error,
                text=text,
                more_content=more_content,
            )
            return around.replace(mark.encode("ascii"), data[long].encode("ascii"))
    if type(data) is ToldList:
        encoded, quoted = data.text, data.quoted
    else:
        encoded = encode_text(data)
        quoted = quote(encoded if text is None else text)
    more = "".join(f",{encode_text(content)}" for content in more_content) if more_content else ""
    structured = ""
    if revision.has_structured_content:
        if is_object:
            structured = f',"structuredContent":{encoded}'
        elif isinstance(data, list | tuple | ToldList):
            structured = f',"structuredContent":{{{quote(wrap_key or "result")}:{encoded}}}'
    # Keys are words of the protocol; this is on the path of every call.
    return (
        f'{{"content":[{{"type":"text","text":{quoted}}}{more}],'
        f'"isError":{"true" if is_error else "false"}{structured}{server.call_tail(revision)}'
    ).encode("ascii")


def told_result(
    revision: Revision, server: Server, data: Told | ToldList, wrap_key: str = ""
) -> bytes:
    """``tool_result`` of a result that will be asked for again."""
    answer = data.answers[revision] = tool_result(revision, server, data=data, wrap_key=wrap_key)
    return answer


def _decoration(
    revision: Revision, method: str, server: Server, *, meta: JsonObject | None = None
) -> dict[str, object]:
    """What the revision puts on every result, and on those that clients may cache."""
    members: dict[str, object] = {}
    if revision.result_type:
        members["resultType"] = revision.result_type
    if method in revision.cached_methods:
        members["ttlMs"] = TTL_MS
        members["cacheScope"] = "private"
    all_meta = dict(meta or {})
    if revision.has_server_meta:
        all_meta[SERVER_INFO_KEY] = server.info(revision)
    if all_meta:
        members["_meta"] = all_meta
    return members


def _splice(members: Mapping[str, bytes], more: Mapping[str, object]) -> bytes:
    """One JSON object of members that are encoded already and members that are not.

    The keys are words of the protocol, which need no escaping; this is on the path of every call.
    """
    encoded = [*members.items(), *((key, encode(value)) for key, value in more.items())]
    return b"{%b}" % b",".join(b'"%b":%b' % (key.encode("ascii"), value) for key, value in encoded)
