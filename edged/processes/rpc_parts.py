"""The RPC port put together: its own methods, its events, its figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edged import __version__
from edged.clock import Clock
from edged.commands.counts import CountedRecord
from edged.commands.lockout import LockoutDesk
from edged.instruments.discovery import Discovery
from edged.instruments.pool import InstrumentPool
from edged.plot.artist import Artist
from edged.processes.idle_restart import IdleRestart
from edged.processes.loop_watch import LoopWatch
from edged.processes.stores import Stores
from edged.surfaces.mcp import McpSurface
from edged.surfaces.rpc.daemon_methods import daemon_methods
from edged.surfaces.rpc.discovery_methods import discovery_methods
from edged.surfaces.rpc.events import EventHub
from edged.surfaces.rpc.feeds import audit_feed, instrument_feed, stream_feed, sweep_feed
from edged.surfaces.rpc.figures import Figure
from edged.surfaces.rpc.listener import Sights
from edged.surfaces.rpc.methods import OwnMethod
from edged.surfaces.rpc.metrics_source import MetricsSource
from edged.surfaces.rpc.run_methods import run_methods
from edged.work.runs import RunBook
from edged.work.streams import StreamBook
from edged.work.sweeps import SweepBook
from edged.work.waveforms import WaveformBook

__all__ = ["RpcParts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcParts:
    """The rooms that the RPC port tells of.

    Attributes:
        mcp: gives the MCP surface, which is made after this.
    """

    stores: Stores
    counts: CountedRecord
    pool: InstrumentPool
    lockout: LockoutDesk
    runs: RunBook
    streams: StreamBook
    waveforms: WaveformBook
    artist: Artist
    watch: LoopWatch
    mcp: Callable[[], McpSurface]
    sweeps: SweepBook
    discovery: Discovery
    restart: IdleRestart
    clock: Clock

    def methods(self) -> dict[str, OwnMethod]:
        """The daemon's own methods."""
        return {
            **daemon_methods(
                audit=self.stores.audit,
                lockout=self.lockout,
                pool=self.pool,
                told_on=self.stores.told_on,
            ),
            **run_methods(self.runs, self.streams, self.waveforms, self.artist),
            **discovery_methods(self.discovery),
            **self.restart.methods(),
        }

    def sights(self) -> Sights:
        """What stands beside ``/rpc``."""
        hub = EventHub(
            sources={
                "instrument": instrument_feed(self.pool, self.stores.lockouts),
                "sweep": sweep_feed(self.sweeps),
                "stream": stream_feed(self.streams),
                "audit": audit_feed(self.stores.audit),
            },
            clock=self.clock,
        )
        began = self.clock.monotonic()

        def health() -> Mapping[str, Any]:
            is_healthy = self.stores.database.health.is_healthy
            return {
                "status": "ok" if is_healthy else "degraded",
                "version": __version__,
                "uptime_s": round(self.clock.monotonic() - began, 3),
                "store": self.stores.status(),
                "loop_lag_s": round(self.watch.last_lag_s, 6),
            }

        return Sights(
            hub=hub, health=health, metrics=MetricsSource(self.counts, self._figures(hub))
        )

    def _figures(self, hub: EventHub) -> tuple[Figure, ...]:
        stores, watch = self.stores, self.watch
        return (
            Figure(
                name="instruments",
                help="Listed instruments by the state of their lines.",
                label="state",
                read=lambda: Counter(i.line_state.value for i in self.pool.all()),
            ),
            Figure(
                name="lockouts",
                help="Instruments locked out.",
                read=lambda: len(stores.lockouts.all()),
            ),
            Figure(name="sessions", help="MCP sessions.", read=lambda: self.mcp().session_count),
            Figure(
                name="mcp_connections",
                help="Open connections of the MCP endpoint.",
                read=lambda: self.mcp().connection_count,
            ),
            Figure(name="event_readers", help="Readers of /events.", read=lambda: hub.reader_count),
            Figure(
                name="streams", help="Running streams.", read=lambda: len(self.streams.running())
            ),
            Figure(name="sweeps", help="Running sweeps.", read=lambda: len(self.sweeps.active())),
            Figure(
                name="event_loop_lag_seconds",
                help="How long the event loop took to answer, last.",
                read=lambda: watch.last_lag_s,
            ),
            Figure(
                name="event_loop_worst_lag_seconds",
                help="The longest it ever took.",
                read=lambda: watch.worst_lag_s,
            ),
            Figure(
                name="audit_rows_waiting",
                help="Rows of the record that are not on disk yet.",
                read=lambda: stores.audit.waiting,
            ),
            Figure(
                name="audit_lag_seconds",
                help="Age of the oldest row of the record that is not on disk yet.",
                read=lambda: stores.audit.lag_s,
            ),
            Figure(
                name="audit_rows_lost",
                help="Rows that were only counted.",
                read=lambda: stores.audit.lost,
                is_total=True,
            ),
            Figure(
                name="store_healthy",
                help="1 while the database can be written.",
                read=lambda: int(stores.database.health.is_healthy),
            ),
        )
