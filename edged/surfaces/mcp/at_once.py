"""``AT_ONCE``: requests that wait for nothing, answered in the same breath in which they came.

No task, no exchange, no entry among the calls in flight: there is no moment at which anything could
come between or cancel them. What a method means is in ``methods``, what a tool call has to pass is
the command path's, here as there; and whoever gets ``None`` serves the request the long way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from edged.actions.caller import Caller
from edged.protocol import messages, results
from edged.protocol.jsonrpc import ErrorReply, Request
from edged.protocol.revisions import Revision
from edged.surfaces.mcp.context import Parts
from edged.surfaces.mcp.error_codes import call_answer
from edged.surfaces.mcp.methods import find_tool, tools_page
from edged.surfaces.mcp.session import Session
from edged.surfaces.mcp.tool_list import Choice
from edged.tools.tool import ToolCall

__all__ = ["AT_ONCE", "Asked"]


@dataclass(slots=True)
class Asked:
    """Who asks, and how they speak; made for every request, so not frozen: that costs twice.

    Attributes:
        session: ``None`` when the request stands alone.
        caller: as of that session.
        choice: what tools/list shows to this client.
    """

    revision: Revision
    session: Session | None
    caller: Caller
    choice: Choice


Answer = bytes | ErrorReply | None
"""An encoded result, or the error instead of one; ``None`` when it cannot be had at once."""


def ping(_parts: Parts, _asked: Asked, _request: Request) -> Answer:
    """Say that somebody is here."""
    return results.ping_result()


def list_tools(parts: Parts, asked: Asked, request: Request) -> Answer:
    """One page of the present tools."""
    return tools_page(parts, asked.revision, asked.choice, request)


def call_tool(parts: Parts, asked: Asked, request: Request) -> Answer:
    """Have a tool tell what it knows already."""
    tool = find_tool(parts.registry, request.params.get("name"))
    if tool is None or not tool.answers_at_once:
        return None
    if asked.session is not None and request.id in asked.session.calls:
        return None
    params = messages.call_params(request)
    call = ToolCall(
        name=params.name,
        arguments=params.arguments,
        caller=asked.caller,
        action_id=parts.new_action_id(),
    )
    return call_answer(
        parts.desk.call_at_once(tool, call),
        request.id,
        tool=tool,
        revision=asked.revision,
        server=parts.server,
    )


AT_ONCE: Final[Mapping[str, Callable[[Parts, Asked, Request], Answer]]] = MappingProxyType(
    {"ping": ping, "tools/list": list_tools, "tools/call": call_tool}
)
