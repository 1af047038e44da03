"""What the engine needs for the relay route: issuer's keys, verifier and guard, put together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from edged.actions.caller import Caller
from edged.clock import Clock
from edged.config import Config
from edged.errors import EdgedError
from edged.processes.supervisor_file import read_supervisor_file, relay_link
from edged.surfaces.mcp.relay_guard import RelayGuard

if TYPE_CHECKING:
    from edged.auth.keys import KeyBook

__all__ = ["RelayRoute"]


LOOK_EVERY_S: Final = 1.0


class RelayRoute:
    """The relay route as configured.

    Args:
        config: RELAY_ISSUER and RELAY_JWKS_URL; without both no token is accepted.
        edge_id: this edge.
        clock: for tokens and keys.
        refuse: writes a refused attempt into the audit.

    Attributes:
        guard: says who a request is from, on both routes.
    """

    def __init__(
        self,
        config: Config,
        *,
        edge_id: str,
        clock: Clock,
        refuse: Callable[[Caller, str, EdgedError], None],
    ) -> None:
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
        self.guard = RelayGuard(verifier=verifier, edge_id=edge_id, refuse=refuse, clock=clock)

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
