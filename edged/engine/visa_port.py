"""The VISA server put together, where the owner wants one: its port, and how it stands."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from edged.commands.leases import LeaseControl
from edged.config.keys import VisaServer
from edged.engine.binding import PortBinding
from edged.protocol.hislip import HislipMessage
from edged.record import part
from edged.runs.bench import Bench
from edged.supervisor.peer_header import PEER_MESSAGE, peer_in
from edged.surfaces.visa.desk import VisaDesk

if TYPE_CHECKING:
    from edged.surfaces.hislip.server import HislipServer

TOLD_NAMES: Final = 40
"""More make a status long, and no reader wiser."""


@part
class VisaPort:
    """The HiSLIP server of one engine; made on its loop.

    Attributes:
        desk: opens sessions.
        leases: says who has a unit.
        peer_secret: shared with the supervisor; empty: there is none.
    """

    bench: Bench
    desk: VisaDesk
    leases: LeaseControl
    peer_secret: str
    _server: HislipServer | None = None
    _binding: PortBinding | None = None

    @property
    def port(self) -> int | None:
        """Where it listens; ``None`` while it does not."""
        return (self._server.port or None) if self._server is not None else None

    async def start(self, parts: contextlib.AsyncExitStack, *, bound: Callable[[], None]) -> None:
        """Listen, or warn once, go on without it, and try again by and by.

        Args:
            bound: is called when it was bound later.
        """
        if VisaServer.HISLIP not in self.bench.config.visa_server:
            return
        self._server = self._make_server()
        self._binding = PortBinding(
            "hislip",
            bind=self._server.start,
            port=lambda: self.port or 0,
            again_s=self.bench.config.rescan_interval_sec,
            clock=self.bench.clock,
        )
        parts.push_async_callback(self._server.stop)
        parts.push_async_callback(self._binding.stop)
        await self._binding.start(bound)

    def close_door(self) -> None:
        """Take no more programs; what they are at goes on."""
        if self._binding is not None:
            self._binding.give_up()
        if self._server is not None:
            self._server.close_door()

    def status(self) -> dict[str, Any]:
        """For get_status."""
        server = self._server
        return {
            "enabled": server is not None,
            "port": self.port,
            "error": self._binding.error if self._binding is not None else "",
            "programs": server.programs if server is not None else [],
            "names": server.names.all()[:TOLD_NAMES] if server is not None else [],
        }

    def _make_server(self) -> HislipServer:
        # Here: few want one, and the others' start does not pay for it.
        from edged.surfaces.hislip.names import HislipNames
        from edged.surfaces.hislip.server import HislipServer, HislipSettings

        secret = self.peer_secret

        def peer(received: HislipMessage) -> str:
            if not secret or received.kind != PEER_MESSAGE:
                return ""
            return peer_in(received.payload.decode("ascii", "replace"), secret)

        settings = HislipSettings(
            port=self.bench.config.hislip_port, is_port_shared=bool(secret), peer_in=peer
        )
        return HislipServer(
            settings,
            desk=self.desk,
            names=HislipNames(self.bench.pool, self.desk),
            leases=self.leases,
            clock=self.bench.clock,
        )
