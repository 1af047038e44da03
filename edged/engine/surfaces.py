"""The MCP endpoint put together: its settings, the resources that it offers, and how it stands.

The RPC port put together: its own methods, its events, its figures.

What the engine needs for the relay route: issuer's keys, verifier and guard, put together.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from edged import __version__
from edged.actions.caller import Caller
from edged.auth.claims import EdgeDoor
from edged.auth.permissions import Permissions
from edged.commands.approvals import ApprovalControl
from edged.commands.interlocks import InterlockControl
from edged.commands.leases import LeaseControl
from edged.commands.lockout import LockoutControl
from edged.commands.path import CommandPath
from edged.config.load import Config
from edged.discovery.loop import Discovery
from edged.engine.bench_page import own_names
from edged.engine.binding import PortBinding
from edged.engine.housekeeping import LoopWatch
from edged.engine.idle_restart import IdleRestart
from edged.engine.long_work import LongWork
from edged.engine.neighbours import MetricsDoor
from edged.errors import Conflict, EdgedError, NotFound
from edged.host import read_supervisor_file
from edged.instruments.unit_state import counted
from edged.profiles.model import Profile
from edged.runs.bench import Bench
from edged.service import relay_link
from edged.supervisor.peer_header import keep_peer_secret, peer_reader, relayed_reader
from edged.surfaces.events.hub import EventHub
from edged.surfaces.mcp.caller import RelayGuard
from edged.surfaces.mcp.seams import (
    Arrivals,
    CallerGuard,
    Dispatcher,
    Neighbour,
    ToolListing,
    carried_head,
    socket_peer,
)
from edged.surfaces.mcp.surface import McpRoom, McpSettings, McpSurface, server_of
from edged.surfaces.mcp.tool_list import warning_of
from edged.surfaces.mcp.visa_methods import visa_extension
from edged.surfaces.rpc.figures import MetricFigure
from edged.surfaces.rpc.own_methods import OwnParts
from edged.surfaces.visa.desk import VisaDesk
from edged.tools.registry import ToolRegistry
from edged.tools.resources import ResourceNews, Resources, ResourceSources


def arrivals_of(supervised: Path | None) -> Arrivals:
    """Believe the supervisor that works with this state directory, if there is one."""
    if supervised is None:
        return Arrivals(peer=socket_peer, read_head=carried_head())
    secret = keep_peer_secret(supervised)
    return Arrivals(peer=peer_reader(secret), read_head=carried_head(relayed_reader(secret)))


class McpParts:
    """The endpoint of one engine; made on its loop.

    Args:
        dispatcher, registry: the tools, and who takes calls of them.
        path, permissions: judge what is read by URI.
        work: what there is to read.
        profiles: gives those in force.
        guard: says who a request is from.
        arrivals: how its requests are read.
        neighbour: what else is served on the port, beside the metrics.
        metrics: gives their page and its content type.
        desk: opens units for programs that know VISA.
        leases: keep the sessions of who holds some.
        is_supervised: the supervisor listens on the same port.
        telemetry: told of every request, where that is exported.

    Attributes:
        surface: the endpoint itself.
        first_look: to be set once the first look at the bench is over.
    """

    def __init__(
        self,
        bench: Bench,
        *,
        dispatcher: Dispatcher,
        registry: ToolRegistry,
        path: CommandPath,
        permissions: Permissions,
        work: LongWork,
        profiles: Callable[[], Mapping[str, Profile]],
        guard: CallerGuard,
        arrivals: Arrivals,
        neighbour: Neighbour,
        metrics: Callable[[], Awaitable[tuple[bytes, str]]],
        desk: VisaDesk,
        leases: LeaseControl,
        is_supervised: bool,
        telemetry: Telemetry | None,
    ) -> None:
        config, clock = bench.config, bench.clock
        self._bench = bench
        self._registry = registry
        self.first_look = asyncio.Event()
        sources = ResourceSources(
            pool=bench.pool,
            profiles=profiles,
            sweeps=work.sweeps,
            streams=work.streams,
            runs=work.runs,
            waveforms=work.waveforms,
            experiment_dirs=config.experiment_dirs,
        )
        self._news = ResourceNews(sources, clock)
        settings = _settings(config, is_port_shared=is_supervised)
        room = McpRoom(
            dispatcher=dispatcher,
            registry=registry,
            clock=clock,
            new_action_id=bench.new_id,
            settings=settings,
            server=server_of(registry),
            guard=guard,
            arrivals=arrivals,
            names=own_names(config),
            neighbour=MetricsDoor(
                neighbour,
                access=config.metrics,
                metrics=metrics,
                names=own_names(config),
                permissions=permissions,
            ),
            authorize=path.authorize,
            lease_keys=leases.holder_keys,
            telemetry=telemetry,
            extension=visa_extension(desk),
            instrument_id_of=self._instrument_id_of,
            first_look=self.first_look,
            resources=Resources(
                sources=sources,
                path=path,
                permissions=permissions,
                news=self._news,
                clock=clock,
            ),
        )
        self.surface = McpSurface(
            room, settings=settings, clock=clock, takes_upgrade=neighbour.takes_upgrade
        )
        self._binding = PortBinding(
            "mcp",
            bind=self.surface.start,
            port=lambda: self.surface.port,
            again_s=config.rescan_interval_sec,
            clock=clock,
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
        if not self._bench.config.mcp_enabled:
            return
        parts.push_async_callback(self._stop)
        await self._binding.start(bound)

    def close_door(self) -> None:
        """Take no more connections; new requests on open ones get 503; calls go on."""
        self._binding.give_up()
        self.surface.close_door()

    async def _stop(self) -> None:
        self.close_door()
        await self._binding.stop()
        await self.surface.stop()

    def status(self) -> dict[str, Any]:
        """For get_status."""
        listed, port = self.surface.list_size, self.surface.port
        url = f"http://127.0.0.1:{port}{self._bench.config.mcp_path}" if port else ""
        return {
            "enabled": self._bench.config.mcp_enabled,
            "port": port or None,
            "path": self._bench.config.mcp_path,
            "page": self._bench.config.bench_page.value,
            "error": self._binding.error,
            "sessions": self.surface.session_count,
            "tools": len(self._registry.tools()),
            "listed": {"tools": listed.tools, "kib": listed.size_bytes // 1024},
            "warning": warning_of(listed, url),
        }

    def _instrument_id_of(self, name: str) -> str | None:
        try:
            return self._bench.pool.get(name).id
        except NotFound:
            return None


def _settings(config: Config, *, is_port_shared: bool) -> McpSettings:
    return McpSettings(
        port=config.mcp_port,
        path=config.mcp_path,
        is_port_shared=is_port_shared,
        session_idle_s=config.session_idle_sec,
        max_sessions=config.max_sessions,
        listing=ToolListing(config.tools.value),
    )


def rpc_methods(
    bench: Bench,
    work: LongWork,
    lockout: LockoutControl,
    leases: LeaseControl,
    approvals: ApprovalControl,
    discovery: Discovery,
    restart: IdleRestart,
    relay: RelayRoute,
) -> dict[str, OwnMethod]:
    """The daemon's own methods."""
    return {
        **OwnParts(
            bench,
            lockout,
            leases,
            approvals,
            discovery,
            work.runs,
            work.artist,
            work.reports,
            work.streams,
            work.waveforms,
        ).methods(),
        **restart.methods(),
        "relay.refresh_keys": relay.refresh_keys,
    }


def health_of(bench: Bench, watch: LoopWatch) -> Callable[[], Mapping[str, Any]]:
    """What ``/health`` tells, with the uptime counted from now."""
    began = bench.clock.monotonic()

    def health() -> Mapping[str, Any]:
        is_healthy = bench.store.database.health.is_healthy
        return {
            "status": "ok" if is_healthy else "degraded",
            "version": __version__,
            "uptime_s": round(bench.clock.monotonic() - began, 3),
            "store": bench.store.status(),
            "loop_lag_s": round(watch.last_lag_s, 6),
        }

    return health


def metric_figures(
    bench: Bench,
    work: LongWork,
    interlocks: InterlockControl,
    watch: LoopWatch,
    hub: EventHub,
    mcp: Callable[[], McpSurface],
) -> tuple[MetricFigure, ...]:
    """The figures of the metrics page.

    Args:
        mcp: gives the MCP surface, which is made after this.
    """
    return (
        MetricFigure(
            name="instruments",
            help="Listed instruments by their state.",
            label="state",
            read=lambda: counted(bench.pool.all(), bench.state_of),
        ),
        MetricFigure(
            name="lockouts",
            help="Instruments locked out.",
            read=lambda: len(bench.store.lockouts.all()),
        ),
        MetricFigure(
            name="interlocks_tripped",
            help="Interlocks that have tripped and were not cleared.",
            read=lambda: sum(one["reason"] is not None for one in interlocks.listed()),
        ),
        MetricFigure(
            name="units_told_on",
            help="Units that were switched on and not confirmed off since.",
            read=lambda: len(bench.store.told_on.told()),
        ),
        MetricFigure(name="sessions", help="MCP sessions.", read=lambda: mcp().session_count),
        MetricFigure(
            name="mcp_connections",
            help="Open connections of the MCP endpoint.",
            read=lambda: mcp().connection_count,
        ),
        MetricFigure(
            name="event_readers", help="Readers of /events.", read=lambda: hub.reader_count
        ),
        MetricFigure(
            name="streams", help="Running streams.", read=lambda: len(work.streams.running())
        ),
        MetricFigure(name="sweeps", help="Running sweeps.", read=lambda: len(work.sweeps.active())),
        MetricFigure(
            name="event_loop_lag_seconds",
            help="How long the event loop took to answer, last.",
            read=lambda: watch.last_lag_s,
        ),
        MetricFigure(
            name="event_loop_worst_lag_seconds",
            help="The longest it ever took.",
            read=lambda: watch.worst_lag_s,
        ),
        MetricFigure(
            name="audit_rows_waiting",
            help="Rows of the audit log that are not on disk yet.",
            read=lambda: bench.store.audit.waiting,
        ),
        MetricFigure(
            name="audit_lag_seconds",
            help="Age of the oldest row of the audit log that is not on disk yet.",
            read=lambda: bench.store.audit.lag_s,
        ),
        MetricFigure(
            name="audit_rows_lost",
            help="Rows that were only counted.",
            read=lambda: bench.store.audit.lost,
            is_total=True,
        ),
        MetricFigure(
            name="store_healthy",
            help="1 while the database can be written.",
            read=lambda: int(bench.store.database.health.is_healthy),
        ),
    )


if TYPE_CHECKING:
    from edged.auth.keys import KeyBook
    from edged.surfaces.rpc.own_methods import OwnMethod
    from edged.telemetry.spans import Telemetry


LOOK_EVERY_S: Final = 1.0


class RelayRoute:
    """The relay route as configured.

    Args:
        bench: without RELAY_ISSUER and RELAY_JWKS_URL no token is accepted.
        edge_id: this edge.
        refuse: writes a refused attempt into the audit.

    Attributes:
        guard: says who a request is from, on both routes.
    """

    def __init__(
        self,
        bench: Bench,
        *,
        edge_id: str,
        refuse: Callable[[Caller, str, EdgedError], None],
    ) -> None:
        config, clock = bench.config, bench.clock
        self._config = config
        self._clock = clock
        self._link: dict[str, Any] = relay_link({})
        self._looking: asyncio.Task[None] | None = None
        self._keys: KeyBook | None = None
        verifier = None
        if config.relay_issuer and config.relay_jwks_url:
            # Loaded where there is a relay alone: cryptography takes a tenth of a start.
            from edged.auth.keys import HttpJwksSource, KeyBook
            from edged.auth.verifier import Verifier

            self._keys = KeyBook(
                HttpJwksSource(config.relay_jwks_url),
                url=config.relay_jwks_url,
                state_dir=config.state_dir,
                clock=clock,
            )
            verifier = Verifier(self._keys, issuer=config.relay_issuer, clock=clock)
        self.guard = RelayGuard(
            verifier=verifier,
            door=EdgeDoor(edge_id),
            relayed=EdgeDoor(edge_id, takes_fleet=config.relay_fleet),
            refuse=refuse,
            clock=clock,
        )

    async def refresh_keys(self, _params: Mapping[str, Any]) -> Any:
        """Fetch the issuer's keys now, at the owner's wish.

        Raises:
            Conflict: no relay is configured.
            Failed: NO_KEYS, they cannot be fetched.
        """
        if self._keys is None:
            raise Conflict(
                "No issuer is configured, so there are no keys.",
                remedy="Set RELAY_ISSUER and RELAY_JWKS_URL.",
            )
        return await self._keys.fetch_now()

    def start(self) -> None:
        """Look from now on at how the supervisor's connection to the relay is."""
        if self._config.relay_nats_url is not None:
            self._looking = asyncio.create_task(self._look(), name="relay link")

    def status(self) -> dict[str, Any]:
        """For get_status."""
        return {
            "configured": self._config.relay_nats_url is not None and self._keys is not None,
            "link": self._link,
            "accepts_tokens": self._keys is not None,
            "jwks": self._keys.status() if self._keys is not None else None,
        }

    async def stop(self) -> None:
        """End what is under way."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        if self._keys is not None:
            await self._keys.close()

    async def _look(self) -> None:
        while True:
            facts = await asyncio.to_thread(read_supervisor_file, self._config.state_dir)
            self._link = relay_link(facts)
            await self._clock.sleep(LOOK_EVERY_S)
