"""What of the front's port is the fleet's, and who may come in there.

``/mcp`` is the endpoint of the fleet, ``/fleet`` and what is below it the page; anything else is
the relay front's, ``/mcp/<edge_id>`` among it, which a token for the fleet does not open.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from aiohttp.http_parser import RawRequestMessage
from multidict import CIMultiDictProxy

from edged.actions.caller import Caller
from edged.http.connection import HttpConnection, RequestHandler
from edged.surfaces.mcp.caller import RelayGuard
from edged.surfaces.mcp.seams import CallerHead
from edged_relay.front import bearer_of

MCP_PATH: Final = "/mcp"
PAGES_PATH: Final = "/fleet"


def bearer_head(headers: CIMultiDictProxy[str], remote: str) -> CallerHead:
    """What a request to the fleet is judged by: always a token, be it an empty one."""
    return CallerHead(tokens=(bearer_of(headers.getall("Authorization", [])),), remote=remote)


class FleetGuard:
    """Implements ``CallerGuard`` for fleet tokens.

    Args:
        guard: judges them; what it lets in keeps its token, which edges judge too.
    """

    def __init__(self, guard: RelayGuard) -> None:
        self._guard = guard

    async def guard(self, head: CallerHead) -> Caller:
        return replace(await self._guard.guard(head), bearer=head.tokens[0])

    def direct(self, remote: str) -> Caller:
        """See ``CallerGuard``; nobody is direct here, for every head has a token."""
        return self._guard.direct(remote)


class FleetEntrance:
    """Gives each request to whom its path belongs; ``RequestHandler``.

    Args:
        mcp, pages: take the fleet's.
        front: takes the rest.
    """

    def __init__(
        self, *, mcp: RequestHandler, pages: RequestHandler, front: RequestHandler
    ) -> None:
        self._mcp = mcp
        self._pages = pages
        self._front = front

    def serve(
        self, connection: HttpConnection, message: RawRequestMessage, body: bytes | None
    ) -> bytes | None:
        path = message.path.partition("?")[0]
        if path in (MCP_PATH, f"{MCP_PATH}/"):
            return self._mcp.serve(connection, message, body)
        if path == PAGES_PATH or path.startswith(f"{PAGES_PATH}/"):
            return self._pages.serve(connection, message, body)
        return self._front.serve(connection, message, body)
