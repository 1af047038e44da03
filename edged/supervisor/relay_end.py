"""The edge's end of the relay inside the supervisor: NATS connection and carrier, put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from edged.clock import Clock
from edged.config.load import Config
from edged.errors import Invalid
from edged.host import keep_edge_id
from edged.http.pulse import Pulse
from edged.relay.carrier import Carrier, EngineAddress
from edged.relay.link import LinkStatus, NatsLink, link_settings
from edged.supervisor.announcer import Announcer
from edged.supervisor.watchdog import Health

FOREVER_S = 3_600.0


class RelayEnd:
    """Carries relayed requests to the engine.

    Args:
        config: RELAY_NATS_URL and what belongs to it.
        health: where the engine listens; ``None`` while it is away.
        pulse: when it was heard.
        peer_header: the header that names a client's address.
        listening: the addresses by which others reach this edge.
        clock: for pauses.
        changed: is called when ``status`` has.
    """

    def __init__(
        self,
        config: Config,
        *,
        health: Callable[[], Health | None],
        pulse: Pulse,
        peer_header: Callable[[str], tuple[str, str]],
        listening: Callable[[], Sequence[str]],
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        edge_id = keep_edge_id(config.state_dir, config.edge_id or "")
        self._health = health
        self._clock = clock
        settings = link_settings(config, f"edge {edge_id}")
        self._link = NatsLink(settings, clock=clock, changed=changed)
        self._carrier = Carrier(
            self._link,
            edge_id=edge_id,
            engine=self._engine,
            pulse=pulse,
            peer_header=peer_header,
            clock=clock,
        )

        self._announcer = Announcer(
            self._link,
            config,
            edge_id=edge_id,
            health=health,
            listening=listening,
            clock=clock,
        )

    def status(self) -> LinkStatus:
        """How the connection to the relay is."""
        return self._link.status

    async def run(self) -> None:
        """Carry until cancelled. What is wrong with it is logged; the direct route goes on."""
        try:
            await self._carrier.start()
            try:
                await self._link.open()
            except Invalid as error:
                structlog.get_logger("edged.relay").error("relay_off", reason=str(error))
                while True:
                    await self._clock.sleep(FOREVER_S)
            await self._announcer.run()
        finally:
            await self._carrier.stop()
            await self._link.close()

    def _engine(self) -> EngineAddress | None:
        health = self._health()
        if health is None or not health.mcp_port:
            return None
        return EngineAddress(health.mcp_port, health.mcp_path)
