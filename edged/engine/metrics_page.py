"""``/metrics`` on the MCP port, served by aiohttp; imported with the first request to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from edged.actions.caller import Caller, Route
from edged.auth.permissions import Permissions
from edged.errors import Refused
from edged.http.application import SERVER_OPTIONS, ApplicationHandler, note_end
from edged.protocol.http_rules import Guard, HttpHead, Rejected, judge_visit, rejection
from edged.protocol.jsonrpc import RpcCode

SHOWS: Final = "get_status"
"""Who may not call this tool sees no figures either."""


class MetricsHandler(ApplicationHandler):
    """The page; see ``MetricsDoor`` for the arguments."""

    def __init__(
        self,
        metrics: Callable[[], Awaitable[tuple[bytes, str]]],
        *,
        names: Guard,
        permissions: Permissions,
    ) -> None:
        super().__init__(web.Server(self._handle, **SERVER_OPTIONS))
        self._metrics = metrics
        self._names = names
        self._permissions = permissions

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        response = await self._read(request)
        await note_end(request, response)
        return response

    async def _read(self, request: web.BaseRequest) -> web.Response:
        head = HttpHead(
            verb=request.method, path=request.path, headers=tuple(request.headers.items())
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


def _response(refused: Rejected) -> web.Response:
    return web.Response(status=refused.status, body=refused.body, headers=dict(refused.headers))
