"""What the MCP surface needs of the rest, as small seams; and who calls where there is no relay.

The composition root gives the real ones; tests give small fakes, so that they need no instruments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from edged.actions.caller import Caller, Route
from edged.actions.outcome import Outcome
from edged.errors import ErrorCode, Refused
from edged.tools.tool import Tool, ToolCall

__all__ = [
    "CallerGuard",
    "CallerHead",
    "Desk",
    "DirectGuard",
    "InstrumentIdOf",
    "ToolSource",
    "TrustedPeer",
    "no_instrument",
    "socket_peer",
]

MAX_REMEMBERED_PEERS: Final = 1_024

TrustedPeer = Callable[[Mapping[str, str], str], str]
"""Header names (any case) and the socket's peer → the address that the audit shall name."""

InstrumentIdOf = Callable[[str], str | None]
"""An instrument's id or alias → its id; ``None`` for one that is not known."""


class Desk(Protocol):
    """Takes calls by tool name."""

    async def call(self, call: ToolCall) -> Outcome:
        """Perform one call; what went wrong is in the outcome."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerHead:
    """What a guard judges by.

    Attributes:
        tokens: every value of ``Edge-Caller-JWT``, empty ones included; none is the direct route.
        remote: the peer's address.
        asked: the tool or method that was asked for, where that is known; for the audit.
    """

    tokens: tuple[str, ...]
    remote: str
    asked: str = ""


class CallerGuard(Protocol):
    """Says who a request is from, before anything of it is served."""

    async def guard(self, head: CallerHead) -> Caller:
        """The caller.

        Raises:
            Refused: NOT_AUTHENTICATED, in words that tell nothing of key or token.
        """
        ...


class DirectGuard:
    """The guard where no relay is configured: everybody is direct, and a token is never ignored."""

    def __init__(self) -> None:
        # One value for each peer, so that it need not be made anew for each request.
        self._callers: dict[str, Caller] = {}

    async def guard(self, head: CallerHead) -> Caller:
        """See ``CallerGuard``."""
        if head.tokens:
            raise Refused(
                "This call came by the relay route and could not be authenticated.",
                code=ErrorCode.NOT_AUTHENTICATED,
            )
        caller = self._callers.get(head.remote)
        if caller is None:
            if len(self._callers) >= MAX_REMEMBERED_PEERS:
                self._callers.clear()
            caller = Caller(route=Route.DIRECT, remote=head.remote)
            self._callers[head.remote] = caller
        return caller


def socket_peer(_headers: Mapping[str, str], peername: str) -> str:
    """Trust no header: the peer is who holds the socket."""
    return peername


def no_instrument(_name: str) -> str | None:
    """Knows no instrument."""
    return None
