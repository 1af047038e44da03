"""Tells the relay's fronts every ten seconds that this edge is here, and what is on its bench.

It is the engine's word, and while the engine does not answer nothing is said: an edge whose engine
is away for thirty seconds is away.
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
from edged.errors import EdgedError
from edged.host import LOOPBACK, netloc_of, reached_at
from edged.log import surviving
from edged.relay.announcement import EVERY_S, fitted, here_subject
from edged.relay.carrier import RelayWire
from edged.supervisor.watchdog import Health
from edged.surfaces.page import PATH
from edged.surfaces.rpc.client import ENGINE_FILE, EngineFile, RpcClient

ANSWER_WITHIN_S: Final = 2.0
AGAIN_S: Final = 1.0
HERE_PATH: Final = "/here"
METRICS_PATH: Final = "metrics"


class Announcer:
    """Announces one edge.

    Args:
        wire: the way to the fronts.
        config: the page, the metrics, the token of the engine's RPC port.
        edge_id: this edge.
        health: where the engine listens; ``None`` while it is away.
        listening: the addresses by which others reach it.
        clock: for the pauses.
    """

    def __init__(
        self,
        wire: RelayWire,
        config: Config,
        *,
        edge_id: str,
        health: Callable[[], Health | None],
        listening: Callable[[], Sequence[str]],
        clock: Clock,
    ) -> None:
        self._wire = wire
        self._config = config
        self._edge_id = edge_id
        self._health = health
        self._listening = listening
        self._clock = clock
        self._log = structlog.get_logger("edged.relay")

    async def run(self) -> None:
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
            await self._wire.publish(
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
