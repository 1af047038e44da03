"""The edge's end of the relay inside the supervisor: NATS connection and carrier, put together.

Every ten seconds the relay's fronts are told that this edge is here, and what is on its bench. That
is the engine's word, and while the engine does not answer nothing is said: an edge whose engine is
away for thirty seconds is away.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog

from edged.clock import Clock
from edged.config.keys import BenchPage, MetricsAccess
from edged.config.load import Config
from edged.errors import EdgedError, Invalid
from edged.host import LOOPBACK, keep_edge_id, netloc_of, reached_at
from edged.http.pulse import Pulse
from edged.log import surviving
from edged.relay.announcement import EVERY_S, fitted, here_subject
from edged.relay.carrier import Carrier, EngineAddress
from edged.relay.link import LinkStatus, NatsLink, link_settings
from edged.supervisor.watchdog import Health
from edged.surfaces.page import PATH
from edged.surfaces.rpc.client import ENGINE_FILE, EngineFile, RpcClient

FOREVER_S = 3_600.0
ANSWER_WITHIN_S: Final = 2.0
AGAIN_S: Final = 1.0
HERE_PATH: Final = "/here"
METRICS_PATH: Final = "metrics"


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
        self._config = config
        self._edge_id = keep_edge_id(config.state_dir, config.edge_id or "")
        self._health = health
        self._listening = listening
        self._clock = clock
        self._log = structlog.get_logger("edged.relay")
        settings = link_settings(config, f"edge {self._edge_id}")
        self._link = NatsLink(settings, clock=clock, changed=changed)
        self._carrier = Carrier(
            self._link,
            edge_id=self._edge_id,
            engine=self._engine,
            pulse=pulse,
            peer_header=peer_header,
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
                self._log.error("relay_off", reason=str(error))
                while True:
                    await self._clock.sleep(FOREVER_S)
            await self._announce_on()
        finally:
            await self._carrier.stop()
            await self._link.close()

    def _engine(self) -> EngineAddress | None:
        health = self._health()
        if health is None or not health.mcp_port:
            return None
        return EngineAddress(health.mcp_port, health.mcp_path)

    async def _announce_on(self) -> None:
        """Until cancelled."""
        while not await self._has_announced():
            await self._clock.sleep(AGAIN_S)
        # A thousand edges that come back to a broker together speak one after the other.
        await self._clock.sleep(zlib.crc32(self._edge_id.encode()) % 1000 / 1000 * EVERY_S)
        while True:
            await self._has_announced()
            await self._clock.sleep(EVERY_S)

    async def _has_announced(self) -> bool:
        """Say it; a bug in that must not take along what carries requests."""
        is_said = False
        with surviving(self._log, "relay_not_announced"):
            is_said = await self._announce()
        return is_said  # noqa: RET504 - a bug leaves it false

    async def _announce(self) -> bool:
        """Say it, if there is anything to say and anybody to hear it."""
        health = self._health()
        if health is None or not health.rpc_port:
            return False
        try:
            body = await asyncio.to_thread(self._client(health.rpc_port).get, HERE_PATH)
            told = {**json.loads(body), **self._addresses(health)}
        except (EdgedError, ValueError) as error:
            self._log.debug("relay_not_announced", reason=str(error))
            return False
        with contextlib.suppress(ConnectionError):
            await self._link.publish(
                here_subject(self._edge_id), await asyncio.to_thread(fitted, told)
            )
            return True
        return False

    def _client(self, rpc_port: int) -> RpcClient:
        """One that gives the token only to the engine of this state directory."""
        engine = EngineFile(
            path=self._config.state_dir / ENGINE_FILE,
            pid=0,
            rpc_port=rpc_port,
            mcp_port=None,
            facts={},
        )
        token = self._config.inbound_auth_token
        return RpcClient(engine, token=token, timeout_s=ANSWER_WITHIN_S, program="edged supervisor")

    def _addresses(self, health: Health) -> dict[str, Any]:
        """Where people and Prometheus find it, in its own network."""
        bound = self._listening()
        host = reached_at(bound)
        if host == LOOPBACK or not health.mcp_port:
            return {}
        place = netloc_of(host, health.mcp_port)
        has_page = self._config.bench_page is not BenchPage.OFF
        has_metrics = self._config.metrics is MetricsAccess.READ
        return {
            "page": f"http://{place}{PATH}" if has_page else "",
            "metrics": f"{place}/{METRICS_PATH}" if has_metrics else "",
        }
