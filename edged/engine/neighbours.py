"""What else is served on the MCP port: the bench page, and ``/metrics`` for Prometheus."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from aiohttp.http_parser import RawRequestMessage

from edged.auth.permissions import Permissions
from edged.config.keys import MetricsAccess
from edged.http.connection import HttpConnection
from edged.http.late import LateHandler
from edged.protocol.http_rules import Guard
from edged.surfaces.mcp.seams import Neighbour

if TYPE_CHECKING:
    from edged.engine.metrics_page import MetricsHandler

METRICS_PATH: Final = "/metrics"


class MetricsDoor:
    """``/metrics`` beside another neighbour; ``Neighbour`` of the endpoint.

    It is judged as a request to the endpoint is (Host, Origin), and not on the relay route.

    Args:
        beside: has all the rest.
        access: METRICS.
        metrics: gives the page and its content type.
        names: which Host and Origin may come in.
        permissions: judge who may read it.
    """

    def __init__(
        self,
        beside: Neighbour,
        *,
        access: MetricsAccess,
        metrics: Callable[[], Awaitable[tuple[bytes, str]]],
        names: Guard,
        permissions: Permissions,
    ) -> None:
        self._beside = beside
        self._is_open = access is MetricsAccess.READ
        self._metrics = metrics
        self._names = names
        self._permissions = permissions
        self._page = LateHandler(
            self._make_page, module="edged.engine.metrics_page", name="metrics page"
        )
        self.takes_upgrade = beside.takes_upgrade
        self.is_looking = beside.is_looking

    def takes(self, path: str) -> bool:
        return (self._is_open and _is_ours(path)) or self._beside.takes(path)

    def serve(
        self, connection: HttpConnection, message: RawRequestMessage, body: bytes | None
    ) -> bytes | None:
        if not _is_ours(message.path):
            return self._beside.serve(connection, message, body)
        return self._page.serve(connection, message, body)

    async def _make_page(self) -> MetricsHandler:
        from edged.engine.metrics_page import MetricsHandler

        return MetricsHandler(self._metrics, names=self._names, permissions=self._permissions)


def _is_ours(path: str) -> bool:
    return path.partition("?")[0] == METRICS_PATH
