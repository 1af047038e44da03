"""The real MCP endpoint on a loopback port, over tools without instruments."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from edged.clock import Clock, SystemClock
from edged.http.connection import no_upgrade
from edged.protocol.http_rules import Guard
from edged.surfaces.mcp.methods import allow_no_tool
from edged.surfaces.mcp.seams import (
    Arrivals,
    CallerGuard,
    DirectGuard,
    ReadHead,
    ResourceSource,
    TrustedPeer,
    carried_head,
    socket_peer,
)
from edged.surfaces.mcp.sessions import no_leases
from edged.surfaces.mcp.surface import McpRoom, McpSettings, McpSurface, server_of
from tests.bench.fake_tools import FakeTools
from tests.bench.mcp_client import Connection, McpClient


@dataclass(frozen=True)
class Endpoint:
    """What a test works with."""

    surface: McpSurface
    tools: FakeTools

    @property
    def port(self) -> int:
        return self.surface.port

    def client(self) -> McpClient:
        """One that has no session."""
        return McpClient(self.port)

    async def session(self, version: str = "2025-03-26") -> McpClient:
        client = self.client()
        await client.initialize(version)
        return client

    async def exchange(self, data: bytes, *, half_close: bool = False) -> bytes:
        """Send bytes, read until the server closes."""
        async with await Connection.to(self.port) as connection:
            connection.send(data)
            if half_close:
                connection.half_close()
            return await connection.read_rest()


@asynccontextmanager
async def running_endpoint(
    *,
    guard: CallerGuard | None = None,
    first_look: asyncio.Event | None = None,
    resources: ResourceSource | None = None,
    grace_s: float = 0.0,
    tools: FakeTools | None = None,
    clock: Clock | None = None,
    trusted_peer: TrustedPeer = socket_peer,
    read_head: ReadHead | None = None,
    **settings: Any,
) -> AsyncIterator[Endpoint]:
    """An endpoint with these settings; any of ``McpSettings``."""
    tools, count = tools or FakeTools(), itertools.count()
    clock, made = clock or SystemClock(), McpSettings(**{"port": 0} | settings)
    room = McpRoom(
        dispatcher=tools,
        registry=tools,
        clock=clock,
        new_action_id=lambda: f"a-{next(count)}",
        settings=made,
        server=server_of(tools),
        guard=guard or DirectGuard(),
        arrivals=Arrivals(peer=trusted_peer, read_head=read_head or carried_head()),
        names=Guard.of(host_name="bench7"),
        instrument_id_of={"psu1": "USB0::1"}.get,
        first_look=first_look,
        resources=resources,
        authorize=allow_no_tool,
        lease_keys=no_leases,
    )
    surface = McpSurface(room, settings=made, clock=clock, takes_upgrade=no_upgrade)
    await surface.start()
    try:
        yield Endpoint(surface, tools)
    finally:
        await surface.stop(grace_s)
