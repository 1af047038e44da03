"""What the MCP surface needs of the rest, as small seams; and who calls where there is no relay.

The composition root gives the real ones; tests give small fakes, so that they need no instruments.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol

from aiohttp.http_parser import RawRequestMessage
from multidict import CIMultiDictProxy

from edged.actions.caller import Caller, Route
from edged.actions.outcome import Outcome, Tell, Underway
from edged.actions.tool import Tool, ToolCall
from edged.errors import ErrorCode, NotFound, Refused
from edged.http.connection import HttpConnection
from edged.protocol.http_rules import CALLER_TOKEN_HEADER
from edged.protocol.messages import CompletionParams, Content, News, ResourceEntry, TemplateEntry
from edged.record import record

MAX_REMEMBERED_PEERS: Final = 1_024

TrustedPeer = Callable[[Mapping[str, str], str], str]
"""Header names (any case) and the socket's peer → the address that the audit shall name."""

InstrumentIdOf = Callable[[str], str | None]
"""An instrument's id or alias → its id; ``None`` for one that is not known."""


class ToolListing(enum.StrEnum):
    """Which tools are listed: all; the always-there and the essential; only the always-there."""

    ALL = "all"
    ESSENTIAL = "essential"
    STATIC = "static"


@record(kw_only=False)
class Choice:
    """What one client wants listed.

    Attributes:
        instruments: ids, aliases or serial numbers of the only instruments whose tools are wanted;
            empty for any.
    """

    listing: ToolListing
    instruments: tuple[str, ...] = ()


class Neighbour(Protocol):
    """What else is served on the port of the endpoint: the bench page."""

    def takes(self, path: str) -> bool:
        """Whether a path, still encoded, is its own."""
        ...

    def takes_upgrade(self, head: bytes) -> bool:
        """Whether a head that begins so may offer a WebSocket."""
        ...

    def serve(
        self, connection: HttpConnection, message: RawRequestMessage, body: bytes | None
    ) -> bytes | None:
        """See ``RequestHandler``; the guard has been asked by nobody."""
        ...

    def is_looking(self, token: str) -> bool:
        """Whether an open page was given this token."""
        ...


class Dispatcher(Protocol):
    """Takes calls by tool name."""

    def begin(self, call: ToolCall, tell: Tell) -> Outcome | Underway:
        """Begin one call; what went wrong is in the outcome. See ``CommandPath.begin``."""
        ...


class ToolSource(Protocol):
    """The present set of tools.

    Attributes:
        generation: another number after each change.
    """

    generation: int

    def find(self, name: str) -> Tool:
        """The tool of that name.

        Raises:
            NotFound: there is none.
        """
        ...

    def tools(self) -> tuple[Tool, ...]:
        """All of them in listing order."""
        ...

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back after each change; returns how to end that."""
        ...


class ResourceSource(Protocol):
    """What can be read by URI, and the names that complete one."""

    async def entries(self, caller: Caller) -> Sequence[ResourceEntry]:
        """What there is now and this caller may read."""
        ...

    def templates(self) -> Sequence[TemplateEntry]:
        """The families of URIs."""
        ...

    async def read(self, uri: str, caller: Caller, action_id: str) -> Sequence[Content]:
        """Read one.

        Raises:
            NotFound: there is none at this URI.
            EdgedError: it may not be read, or could not be.
        """
        ...

    async def watch_key(self, uri: str, caller: Caller) -> str:
        """What names it in the news.

        Raises:
            NotFound, Refused: as for ``read``.
        """
        ...

    def may_read(self, uri: str, caller: Caller) -> bool:
        """Whether this caller has the permission that a resource needs."""
        ...

    async def complete(self, asked: CompletionParams, caller: Caller) -> Sequence[str]:
        """All values that go on from what was typed, best first.

        Raises:
            EdgedError: what is asked for cannot be completed, or not by this caller.
        """
        ...

    def subscribe(self, callback: Callable[[News], None]) -> Callable[[], None]:
        """Call back with each news; returns how to end that."""
        ...


class NoResources:
    """Where nothing can be read by URI."""

    async def entries(self, _caller: Caller) -> Sequence[ResourceEntry]:
        """None."""
        return ()

    def templates(self) -> Sequence[TemplateEntry]:
        """None."""
        return ()

    async def read(self, uri: str, caller: Caller, _action_id: str) -> Sequence[Content]:
        await self.watch_key(uri, caller)
        return ()

    async def watch_key(self, uri: str, _caller: Caller) -> str:
        raise NotFound(
            f"There is no resource {uri[:200]!r}.",
            code=ErrorCode.UNKNOWN_RESOURCE,
            data={"uri": uri},
        )

    def may_read(self, _uri: str, _caller: Caller) -> bool:
        """There is nothing to read."""
        return False

    async def complete(self, _asked: CompletionParams, _caller: Caller) -> Sequence[str]:
        """Nothing."""
        return ()

    def subscribe(self, _callback: Callable[[News], None]) -> Callable[[], None]:
        """Nothing ever changes."""
        return lambda: None


async def asked_nothing() -> str:
    """Of a request without a body."""
    return ""


@record
class CallerHead:
    """What a guard judges by.

    Attributes:
        tokens: every value of ``Edge-Caller-JWT``, empty ones included; none is the direct route.
        remote: the peer's address.
        is_relayed: the supervisor says, with its secret, that it came over NATS.
        asked: looks what tool or method was asked for, for the audit; empty where that cannot be
            known. A guard asks when it refuses, and not before: it may have to wait for a body.
    """

    tokens: tuple[str, ...]
    remote: str
    is_relayed: bool = False
    asked: Callable[[], Awaitable[str]] = asked_nothing


ReadHead = Callable[[CIMultiDictProxy[str], str], CallerHead]
"""A request's headers and the peer's address → what its guard judges by."""


@record
class Arrivals:
    """How a request is read that came in at the MCP port.

    Attributes:
        peer: which address to name in the audit.
        read_head: reads what the guard judges by.
    """

    peer: TrustedPeer
    read_head: ReadHead


def carried_head(
    is_relayed: Callable[[Mapping[str, str]], bool] = lambda _headers: False,
) -> ReadHead:
    """The head of what the supervisor carries here, or anybody sends straight."""

    def read(headers: CIMultiDictProxy[str], remote: str) -> CallerHead:
        tokens = tuple(headers.getall(CALLER_TOKEN_HEADER, ()))
        return CallerHead(tokens=tokens, remote=remote, is_relayed=is_relayed(headers))

    return read


class CallerGuard(Protocol):
    """Says who a request is from, before its body is read and anything of it is served."""

    async def guard(self, head: CallerHead) -> Caller:
        """The caller.

        Raises:
            Refused: NOT_AUTHENTICATED, in words that tell nothing of key or token.
            Failed: NO_KEYS, that cannot be judged now.
        """
        ...

    def direct(self, remote: str) -> Caller:
        """The caller of a request without any token."""
        ...


class DirectGuard:
    """The guard where no relay is configured: everybody is direct, and a token is never ignored."""

    def __init__(self) -> None:
        # One value for each peer, so that it need not be made anew for each request.
        self._callers: dict[str, Caller] = {}

    async def guard(self, head: CallerHead) -> Caller:
        if head.tokens:
            await head.asked()  # the refusal is to have the request's id
            raise Refused(
                "This call came by the relay route and could not be authenticated.",
                code=ErrorCode.NOT_AUTHENTICATED,
            )
        return self.direct(head.remote)

    def direct(self, remote: str) -> Caller:
        caller = self._callers.get(remote)
        if caller is None:
            if len(self._callers) >= MAX_REMEMBERED_PEERS:
                self._callers.clear()
            caller = self._callers[remote] = Caller(route=Route.DIRECT, remote=remote)
        return caller


def socket_peer(_headers: Mapping[str, str], peername: str) -> str:
    """Trust no header: the peer is who holds the socket."""
    return peername


def no_instrument(_name: str) -> str | None:
    """Knows no instrument."""
    return None
