"""The MCP endpoint put together: its settings, the resources that it offers, and how it stands."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from edged.auth.permissions import Permissions
from edged.clock import Clock
from edged.commands.path import CommandPath
from edged.config import Config
from edged.errors import Failed, NotFound
from edged.host import host_name, qualified_host_name
from edged.instruments.pool import InstrumentPool
from edged.processes.long_work import LongWork
from edged.processes.peer_header import keep_peer_secret, peer_reader
from edged.profiles.model import Profile
from edged.surfaces.mcp import CallerGuard, Listing, McpSettings, McpSurface
from edged.surfaces.mcp.seams import socket_peer
from edged.surfaces.mcp.tool_list import warning_of
from edged.tools.call import ToolDesk
from edged.tools.registry import ToolRegistry
from edged.tools.resource_news import ResourceNews
from edged.tools.resource_shelves import Shelves
from edged.tools.resources import Resources

__all__ = ["McpParts"]


class McpParts:
    """The endpoint of one engine; made on its loop.

    Args:
        config: ports, names, bounds.
        desk, registry: the tools, and who takes calls of them.
        path, permissions: judge what is read by URI.
        pool, work: what there is to read.
        profiles: gives those in force.
        guard: says who a request is from.
        new_id: makes action ids.
        is_supervised: the supervisor listens on the same port, and says whose a connection is.

    Attributes:
        surface: the endpoint itself.
        first_look: to be set once the first look at the bench is over.
    """

    def __init__(
        self,
        config: Config,
        *,
        desk: ToolDesk,
        registry: ToolRegistry,
        path: CommandPath,
        permissions: Permissions,
        pool: InstrumentPool,
        work: LongWork,
        profiles: Callable[[], Mapping[str, Profile]],
        guard: CallerGuard,
        new_id: Callable[[], str],
        is_supervised: bool,
        clock: Clock,
    ) -> None:
        self._config = config
        self._registry = registry
        self._pool = pool
        self._clock = clock
        self._error = ""
        self._binding: asyncio.Task[None] | None = None
        self._log = structlog.get_logger("edged.engine")
        self.first_look = asyncio.Event()
        self._news = ResourceNews(
            pool=pool,
            sweeps=work.sweeps,
            streams=work.streams,
            runs=work.runs,
            waveforms=work.waveforms,
            clock=clock,
        )
        shelves = Shelves(
            pool=pool,
            profiles=profiles,
            sweeps=work.sweeps,
            streams=work.streams,
            runs=work.runs,
            waveforms=work.waveforms,
        )
        self.surface = McpSurface(
            desk=desk,
            registry=registry,
            clock=clock,
            new_action_id=new_id,
            settings=_settings(config, is_port_shared=is_supervised),
            guard=guard,
            trusted_peer=peer_reader(keep_peer_secret(config.state_dir))
            if is_supervised
            else socket_peer,
            instrument_id_of=self._instrument_id_of,
            first_look=self.first_look,
            resources=Resources(
                shelves=shelves,
                path=path,
                permissions=permissions,
                news=self._news,
                clock=clock,
            ),
        )

    def start_news(self, parts: contextlib.AsyncExitStack) -> None:
        """Gather from now on what changes among the resources."""
        self._news.start()
        parts.push_async_callback(self._news.stop)

    async def start(self, parts: contextlib.AsyncExitStack, *, bound: Callable[[], None]) -> None:
        """Bind the listener, or warn once, go on without it, and try again by and by.

        Args:
            bound: is called when it was bound later.
        """
        if not self._config.mcp_enabled:
            return
        parts.push_async_callback(self._stop)
        try:
            await self.surface.start()
        except Failed as unbound:
            self._error = unbound.message
            self._log.warning("mcp_not_listening", reason=unbound.message, remedy=unbound.remedy)
            self._binding = asyncio.create_task(self._bind_later(bound), name="mcp bind")

    def close_door(self) -> None:
        """Take no more connections; new requests on open ones get 503; calls go on."""
        if self._binding is not None:
            self._binding.cancel()
        self.surface.close_door()

    async def _bind_later(self, bound: Callable[[], None]) -> None:
        while self._error:
            await self._clock.sleep(self._config.rescan_interval_sec)
            try:
                await self.surface.start()
            except Failed as unbound:
                self._error = unbound.message
            else:
                self._error = ""
        self._log.info("mcp_listening", port=self.surface.port)
        bound()

    async def _stop(self) -> None:
        self.close_door()
        if self._binding is not None:
            await asyncio.gather(self._binding, return_exceptions=True)
        await self.surface.stop()

    def status(self) -> dict[str, Any]:
        """For get_status."""
        listed = self.surface.list_size
        return {
            "enabled": self._config.mcp_enabled,
            "port": self.surface.port or None,
            "path": self._config.mcp_path,
            "error": self._error,
            "sessions": self.surface.session_count,
            "tools": len(self._registry.tools()),
            "listed": {"tools": listed.tools, "kib": listed.size_bytes // 1024},
            "warning": warning_of(listed),
        }

    def _instrument_id_of(self, name: str) -> str | None:
        try:
            return self._pool.get(name).id
        except NotFound:
            return None


def _settings(config: Config, *, is_port_shared: bool) -> McpSettings:
    return McpSettings(
        port=config.mcp_port,
        path=config.mcp_path,
        is_port_shared=is_port_shared,
        host_name=host_name(),
        qualified_name=qualified_host_name(),
        allowed_hosts=config.allowed_hosts,
        allowed_origins=config.allowed_origins,
        session_idle_s=config.session_idle_sec,
        max_sessions=config.max_sessions,
        listing=Listing(config.tools.value),
    )
