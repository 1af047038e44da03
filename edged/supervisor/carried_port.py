"""One port of the engine that the supervisor carries to the network: MCP's, or HiSLIP's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from edged.record import record
from edged.supervisor.proxy import PortProxy
from edged.supervisor.watchdog import Health


@record(frozen=False)
class CarriedPort:
    """See above.

    Attributes:
        name: what the port is called: ``mcp``.
        key: the configuration key of its number.
        configured: the number there; 0: the engine's system chooses.
        port_of: where an engine listens for it; ``None`` while it does not.
        proxy: carries it.
        carrying: its task, once the port is known.
    """

    name: str
    key: str
    configured: int
    port_of: Callable[[Health], int | None]
    proxy: PortProxy
    carrying: asyncio.Task[None] | None = None

    def told(self) -> dict[str, object]:
        """Where it is open, for supervisor.json."""
        return {"port": self.proxy.port, "addresses": self.proxy.listening}
