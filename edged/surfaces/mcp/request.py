"""One request as it is read: the verdict on its head, and its body within its bounds.

Whatever can go wrong on the way is an answer here.

A look into the body of a request that is being refused: its id, and what it asked for.

Whoever has no good token gets no memory for a body. The refusal wants the request's id all the
same, and the audit the tool; so a small body is read for them, and a large one is not.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import field, replace
from functools import partial
from typing import Any, Final

from aiohttp.http_parser import RawRequestMessage

from edged.actions.caller import Caller, client_text
from edged.auth.claims import RETRY_AFTER
from edged.errors import EdgedError, ErrorCode, Invalid
from edged.http.connection import BodyEnd, HttpConnection
from edged.protocol.http_rules import (
    Accepted,
    AccessPolicy,
    HeaderList,
    HttpHead,
    Rejected,
    judge_head,
    rejection,
)
from edged.protocol.jsonrpc import (
    MAX_BODY_BYTES,
    BadMessage,
    Batch,
    Message,
    Request,
    RequestId,
    parse,
)
from edged.record import record
from edged.surfaces.mcp.error_codes import error_reply
from edged.surfaces.mcp.seams import Choice
from edged.surfaces.mcp.tool_list import read_choice

TWO_HOSTS: Final = rejection(
    400, "The request's target names another host than its Host header; send one of them."
)
MAX_KNOWN_HEADS: Final = 2_048
"""A thousand sessions with two lengths of body each; 2 KB or so a head."""
MAX_KNOWN_HEAD_BYTES: Final = 2_048
MAX_AGENT_CHARS: Final = 256
"""Of a User-Agent, before it is cleaned."""

AUTHORITY_END: Final = re.compile(r"[/?#]")
RawHead = tuple[str, str, tuple[tuple[bytes, bytes], ...]]


@record(frozen=False, kw_only=False)
class PostHead:
    """What came of the head of a POST that passed.

    Attributes:
        accepted: the verdict.
        choice: what its query chooses of tools/list, or why that means nothing.
        query: of its URL.
    """

    accepted: Accepted
    choice: Choice | Invalid
    query: str = ""
    _from: Caller | None = field(default=None, init=False)
    _named: Caller | None = field(default=None, init=False)
    _client: str = field(default="", init=False)
    _earlier: Choice | None = field(default=None, init=False)
    _chosen: Choice | None = field(default=None, init=False)

    def choice_in(self, earlier: Choice) -> Choice:
        """What its query chooses, made once for each session.

        Args:
            earlier: what the URL of initialize chose; it holds where this query does not choose.
        """
        if not self.query:
            return earlier
        if self._earlier is not earlier or self._chosen is None:
            self._earlier, self._chosen = earlier, read_choice(self.query, earlier)
        return self._chosen

    def caller(self, caller: Caller, client: str) -> Caller:
        """The same caller by its name, made once for each that the guard gives.

        Args:
            client: what its request calls it; else its User-Agent names it, else its address.
        """
        if self._from is not caller or self._named is None or self._client != client:
            agent = (self.accepted.header("User-Agent") or "")[:MAX_AGENT_CHARS]
            self._from, self._client = caller, client
            self._named = replace(caller, client=client or client_text(agent) or caller.remote)
        return self._named


class KnownHeads:
    """Heads that passed, by what the parser made of them: a client sends the same over and over.

    Kept only from the second time on, so that sessions that come, ask a thing or two and are
    abandoned fill no memory.
    """

    def __init__(self) -> None:
        self._heads: dict[RawHead, PostHead] = {}
        # Hashes of heads that came once; two heads with one hash do no harm.
        self._seen_once: dict[int, None] = {}
        self.find = self._heads.get

    def learn(self, raw: RawHead, head: PostHead) -> None:
        """Remember a head that passed; a long one is not kept."""
        key = hash(raw)
        if key not in self._seen_once:
            _make_room(self._seen_once)
            self._seen_once[key] = None
            return
        if sum(len(name) + len(value) for name, value in raw[2]) <= MAX_KNOWN_HEAD_BYTES:
            del self._seen_once[key]
            _make_room(self._heads)
            self._heads[raw] = head


def _make_room(kept: dict[Any, Any]) -> None:
    """The oldest goes where there are too many."""
    if len(kept) >= MAX_KNOWN_HEADS:
        del kept[next(iter(kept))]


def judge(message: RawRequestMessage, door: AccessPolicy) -> tuple[Accepted | Rejected, str]:
    """The verdict on a head, and its query."""
    path, query = _target(message)
    if not _is_one_host(message):
        return TWO_HOSTS, query
    headers = tuple(message.headers.items())
    return judge_head(HttpHead(verb=message.method, path=path, headers=headers), door), query


def judge_expectation(accepted: Accepted) -> Rejected | None:
    """What is said of an ``Expect`` that is none of ours; ``None`` where nothing is."""
    expected = accepted.header("Expect")
    if expected is None or expected.lower() == "100-continue":
        return None
    return rejection(417, "Only 100-continue can be expected here.")


def unguarded(
    refused: EdgedError, request_id: RequestId | None, challenge: str = "Bearer"
) -> Rejected:
    """What is said of a request that the guard refuses.

    Args:
        challenge: ``WWW-Authenticate`` of one that is not authenticated.
    """
    reply = error_reply(refused, request_id)
    status: int = 403
    headers: HeaderList = ()
    if refused.code is ErrorCode.NOT_AUTHENTICATED:
        status, headers = 401, (("WWW-Authenticate", challenge),)
    elif refused.code is ErrorCode.NO_KEYS:
        status, headers = 503, (RETRY_AFTER,)
    return rejection(
        status, reply.message, rpc_code=reply.rpc_code, request_id=request_id, headers=headers
    )


def choice_of(query: str, default: Choice) -> Choice | Invalid:
    """What a query chooses of tools/list, or why it means nothing."""
    try:
        return read_choice(query, default)
    except Invalid as bad:
        return bad


def _target(message: RawRequestMessage) -> tuple[str, str]:
    """Path and query, still encoded; of a proxy's absolute form too."""
    target = message.path
    if not target.startswith("/"):
        return message.url.raw_path, message.url.raw_query_string
    path, _, query = target.partition("?")
    return path, query


def _is_one_host(message: RawRequestMessage) -> bool:
    """Whether a proxy's absolute form names the Host that is judged (RFC 9112, 3.2.2)."""
    target = message.path
    if target.startswith("/") or "://" not in target:
        return True
    authority = AUTHORITY_END.split(target.partition("://")[2], maxsplit=1)[0]
    return authority.lower() == message.headers.get("Host", "").lower()


MAX_HELD_BYTES: Final = 128 * 1024 * 1024
"""Of all bodies that are arriving; thousands of slow senders cannot hold 4 MiB each."""

SMALL_BODY_BYTES: Final = 64 * 1024
SMALL_WITHIN_S: Final = 2.0
"""What is read of a request that is refused anyway, for its id and the audit."""


class ClientGoneError(Exception):
    """The connection ended before the request did; there is nobody to answer."""


Then = Callable[[bytes | Rejected | None], None]
"""Takes a body, or why it could not be had; ``None`` where the client is gone."""


class BodyReader:
    """Reads bodies that are not here with their heads.

    Args:
        within_s: a slower sender is cut.
        max_held_bytes: of all bodies together that have not arrived completely.
    """

    def __init__(self, *, within_s: float, max_held_bytes: int = MAX_HELD_BYTES) -> None:
        self._within_s = within_s
        self._max_held_bytes = max_held_bytes
        self._held_bytes = 0

    def read(self, connection: HttpConnection, then: Then) -> None:
        """Have the whole body, at most ``MAX_BODY_BYTES``.

        Where it could not be had the connection cannot go on.
        """
        connection.take_body(_Arriving(self, then, MAX_BODY_BYTES), in_time=True)

    async def whole(self, connection: HttpConnection) -> bytes | Rejected:
        """As ``read``, for who waits in a task.

        Raises:
            ClientGoneError: the client went away in the middle.
        """
        arrived = asyncio.get_running_loop().create_future()
        self.read(connection, partial(_settle, arrived))
        return _had(await arrived)

    async def read_small(self, connection: HttpConnection, here: bytes | None) -> bytes:
        """The body of a request that is refused, if it is small and here soon; else empty.

        Args:
            connection: by which it comes.
            here: it, where it came with its head.

        Raises:
            ClientGoneError: the client went away in the middle.
        """
        if here is not None:
            return here if len(here) <= SMALL_BODY_BYTES else b""
        arrived = asyncio.get_running_loop().create_future()
        message = connection.message
        length = message.headers.get("Content-Length", "0") if message is not None else "0"
        if int(length) > SMALL_BODY_BYTES:
            return b""
        connection.take_body(_Arriving(self, partial(_settle, arrived), SMALL_BODY_BYTES))
        try:
            async with asyncio.timeout(min(SMALL_WITHIN_S, self._within_s)):
                body = _had(await arrived)
        except TimeoutError:
            return b""
        return body if isinstance(body, bytes) else b""

    def hold(self, size: int) -> bool:
        """Count bytes that are held, or were; false where there are too many."""
        self._held_bytes += size
        return self._held_bytes <= self._max_held_bytes

    def refusal_of(self, end: BodyEnd) -> Rejected | None:
        """What is said of a body that ended so."""
        match end:
            case BodyEnd.LATE:
                return rejection(408, f"The body did not arrive within {self._within_s:g} s.")
            case BodyEnd.BROKEN:
                return rejection(400, "The length of the body is not given as HTTP requires.")
        return None


class _Arriving:
    """One body on its way; ``BodyTaker``."""

    __slots__ = ("_most", "_pieces", "_reader", "_size", "_then")

    def __init__(self, reader: BodyReader, then: Then, most: int) -> None:
        self._reader = reader
        self._then: Then | None = then
        self._most = most
        self._pieces: list[bytes] = []
        self._size = 0

    def body_received(self, data: bytes) -> None:
        if self._then is None:
            return
        self._size += len(data)
        self._pieces.append(data)
        has_room = self._reader.hold(len(data))
        if self._size > self._most:
            self._end(rejection(413, f"The body is over {self._most} bytes."))
        elif not has_room:
            self._end(rejection(503, "Too many large bodies arrive at once; try again."))

    def body_ended(self, end: BodyEnd) -> None:
        if end is BodyEnd.WHOLE:
            self._end(b"".join(self._pieces))
        else:
            self._end(self._reader.refusal_of(end))

    def _end(self, what: bytes | Rejected | None) -> None:
        then, self._then = self._then, None
        if then is not None:
            self._reader.hold(-self._size)
            self._pieces.clear()
            then(what)


def _settle(
    arrived: asyncio.Future[bytes | Rejected | None], what: bytes | Rejected | None
) -> None:
    if not arrived.done():
        arrived.set_result(what)


def _had(what: bytes | Rejected | None) -> bytes | Rejected:
    if what is None:
        raise ClientGoneError
    return what


class Peek:
    """Looks once, when it is asked.

    Args:
        read: gives the body, empty where it is not small or does not come soon.

    Attributes:
        request_id: of the request, once it was looked at and where it could be read.
    """

    def __init__(self, read: Callable[[], Awaitable[bytes]]) -> None:
        self._read = read
        self.request_id: RequestId | None = None

    async def asked(self) -> str:
        """The tool or method that is asked for; empty where that cannot be read."""
        message, bad = parsed(await self._read())
        self.request_id = bad.request_id if bad else id_of(message)
        if not isinstance(message, Request):
            return ""
        name = message.params.get("name") if message.method == "tools/call" else None
        return name if isinstance(name, str) else message.method


def parsed(body: bytes) -> tuple[Message | Batch | None, BadMessage | None]:
    """The message of a body, or what is wrong with it."""
    try:
        return parse(body), None
    except BadMessage as bad:
        return None, bad


def id_of(message: Message | Batch | None) -> RequestId | None:
    """The id of a request; ``None`` of anything else."""
    return message.id if isinstance(message, Request) else None
