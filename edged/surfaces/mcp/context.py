"""What a method of the MCP surface works with: its parts, and the one request being served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from edged.actions.caller import Caller
from edged.protocol.http_rules import HeaderList
from edged.protocol.jsonrpc import ErrorReply, Request
from edged.protocol.results import Server
from edged.protocol.revisions import Revision
from edged.surfaces.mcp.calls import RunningCall
from edged.surfaces.mcp.post import Post
from edged.surfaces.mcp.seams import Desk, ResourceSource, ToolSource
from edged.surfaces.mcp.session import Session
from edged.surfaces.mcp.sessions import SessionBoard
from edged.surfaces.mcp.tool_list import Choice, ToolList

__all__ = ["AnsweredError", "Context", "Handler", "Parts"]


class AnsweredError(Exception):
    """The answer to a request is this error."""

    def __init__(self, reply: ErrorReply) -> None:
        super().__init__(reply.message)
        self.reply = reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What every method works with.

    Attributes:
        new_action_id: makes the id under which a call is recorded.
        stopping: set once the surface closes.
        first_look: set once the instruments that are there at start are known, or slow to answer.
    """

    desk: Desk
    registry: ToolSource
    tool_list: ToolList
    board: SessionBoard
    resources: ResourceSource
    server: Server
    new_action_id: Callable[[], str]
    stopping: asyncio.Event
    first_look: asyncio.Event


@dataclass(slots=True, kw_only=True)
class Context:
    """One request being served.

    Attributes:
        session: ``None`` when the request stands alone.
        slot: names the request in its exchange.
        call: how the request can be ended; only of those in ``ENDABLE``.
        headers: more headers of the HTTP answer; set by the handler.
    """

    parts: Parts
    revision: Revision
    session: Session | None
    caller: Caller
    choice: Choice
    post: Post
    slot: int
    call: RunningCall
    headers: HeaderList = ()


Handler = Callable[[Context, Request], Coroutine[Any, Any, bytes]]
"""Gives the encoded result of a request."""
