"""What else is served on the MCP port: the bench page, and ``/metrics`` for Prometheus."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from aiohttp.http import RawRequestMessage

from edged.actions.caller import Caller, Route
from edged.auth.permissions import Permissions
from edged.config.keys import MetricsAccess
from edged.errors import Refused
from edged.http.application import SERVER_OPTIONS, ApplicationHandler, note_end
from edged.http.connection import HttpConnection
from edged.protocol.http_rules import Guard, HttpHead, Rejected, judge_visit, rejection
from edged.protocol.jsonrpc import RpcCode
from edged.surfaces.mcp.seams import Neighbour

__all__ = ["METRICS_PATH", "MetricsDoor"]

METRICS_PATH: Final = "/metrics"
SHOWS: Final = "get_status"
"""Who may not call this tool sees no figures either."""


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
        self._handler: ApplicationHandler | None = None
        self.takes_upgrade = beside.takes_upgrade
        self.is_looking = beside.is_looking

    def takes(self, path: str) -> bool:
        """See ``Neighbour``."""
        return (self._is_open and _is_ours(path)) or self._beside.takes(path)

    def serve(
        self, connection: HttpConnection, message: RawRequestMessage, body: bytes | None
    ) -> bytes | None:
        """See ``RequestHandler``."""
        if not _is_ours(message.path):
            return self._beside.serve(connection, message, body)
        if self._handler is None:
            self._handler = ApplicationHandler(web.Server(self._handle, **SERVER_OPTIONS))
        self._handler.serve(connection, message, body)
        return None

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        response = await self._read(request)
        await note_end(request, response)
        return response

    async def _read(self, request: web.BaseRequest) -> web.Response:
        head = HttpHead(
            verb=request.method, path=METRICS_PATH, headers=tuple(request.headers.items())
        )
        judged = judge_visit(head, self._names)
        if isinstance(judged, Rejected):
            return _response(judged)
        if request.method not in ("GET", "HEAD"):
            return _response(rejection(405, "Use GET.", headers=(("Allow", "GET, HEAD"),)))
        caller = Caller(route=Route.DIRECT, remote=request.remote or "")
        try:
            self._permissions.authorize_tool(caller, SHOWS, None)
        except Refused as refused:
            return _response(rejection(403, refused.message, rpc_code=RpcCode.NOT_ALLOWED))
        page, content_type = await self._metrics()
        return web.Response(body=page, headers={"Content-Type": content_type})


def _is_ours(path: str) -> bool:
    return path.partition("?")[0] == METRICS_PATH


def _response(refused: Rejected) -> web.Response:
    return web.Response(status=refused.status, body=refused.body, headers=dict(refused.headers))
