"""``/fleet``: JSON for who shows a token, an empty page for a browser, addresses for Prometheus.

The page holds nothing of any bench: it asks for a token, keeps it in its memory and fetches the
JSON with it. Each request is judged as one to the endpoint is: Host, Origin, token.

Source: docs/promises.md section 20; Prometheus, HTTP service discovery.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any, Final

import structlog
from aiohttp import web

from edged.actions.caller import Caller
from edged.auth.claims import HTTP_SD
from edged.auth.permissions import Permissions
from edged.errors import EdgedError, ErrorCode, Failed, Refused
from edged.http.application import SERVER_OPTIONS, ApplicationHandler, note_end
from edged.protocol.http_rules import (
    MAX_HEADER_BYTES,
    Guard,
    HttpHead,
    Rejected,
    accepts,
    judge_visit,
    rejection,
)
from edged.protocol.jsonrpc import RpcCode
from edged.sharing.leases import Moment
from edged.surfaces.mcp.request import unguarded
from edged_relay.fleet.desk import allowed_edges
from edged_relay.fleet.door import PAGES_PATH, FleetGuard, bearer_head
from edged_relay.fleet.table import EdgeTable
from edged_relay.fleet.tools import LIST

HTTP_SD_PATH: Final = f"{PAGES_PATH}/http_sd"
FILES: Final[Mapping[str, tuple[str, str]]] = {
    f"{PAGES_PATH}/page.js": ("page.js", "text/javascript; charset=utf-8"),
    f"{PAGES_PATH}/page.css": ("page.css", "text/css; charset=utf-8"),
}
INDEX: Final = ("index.html", "text/html; charset=utf-8")
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class FleetPages:
    """Serves what is under ``/fleet``.

    Args:
        table: who is here.
        guard: whose a request is.
        names: which Host and Origin may come in.
        now: the time.

    Attributes:
        handler: takes the requests.
    """

    def __init__(
        self, table: EdgeTable, *, guard: FleetGuard, names: Guard, now: Callable[[], Moment]
    ) -> None:
        self._table = table
        self._guard = guard
        self._names = names
        self._now = now
        self._permissions = Permissions()
        self._log = structlog.get_logger("edged.fleet")
        static = files(__package__).joinpath("static")
        self._files = {name: static.joinpath(name).read_bytes() for name in STATIC}
        self.handler = ApplicationHandler(
            web.Server(self._handle, max_field_size=MAX_HEADER_BYTES, **SERVER_OPTIONS)
        )

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            response = await self._served(request)
        except EdgedError as error:
            response = _refused(error)
        except Exception as bug:  # noqa: BLE001 - the top of every request
            fault_id = secrets.token_hex(6)
            self._log.error("internal_fault", fault_id=fault_id, exc_info=bug)
            message = f"The relay made a mistake; its log has the details under {fault_id}."
            response = _response(rejection(500, message, rpc_code=RpcCode.INTERNAL_ERROR))
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        await note_end(request, response)
        return response

    async def _served(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.raw_path.partition("?")[0].removesuffix("/")
        head = HttpHead(verb=request.method, path=path, headers=tuple(request.headers.items()))
        judged = judge_visit(head, self._names)
        if isinstance(judged, Rejected):
            return _response(judged)
        if request.method not in ("GET", "HEAD"):
            return _response(rejection(405, "Use GET.", headers=(("Allow", "GET, HEAD"),)))
        if path in FILES:
            return self._file(*FILES[path])
        if path == HTTP_SD_PATH:
            return _json(self._places(await self._caller(request)))
        if path != PAGES_PATH:
            return _response(rejection(404, f"Nothing is here; the fleet is at {PAGES_PATH}."))
        if "Authorization" not in request.headers and _is_browser(request):
            return self._file(*INDEX)
        caller = await self._caller(request)
        self._permissions.authorize_tool(caller, LIST, None)
        now = self._now()
        edges = [edge.told(now) for edge in self._table.listed(allowed_edges(caller))]
        return _json({"edges": edges})

    async def _caller(self, request: web.BaseRequest) -> Caller:
        return await self._guard.guard(bearer_head(request.headers, request.remote or ""))

    def _places(self, caller: Caller) -> list[dict[str, Any]]:
        """Where Prometheus finds the metrics of each edge, those that are away among them."""
        self._permissions.authorize_tool(caller, HTTP_SD, None)
        found = []
        for edge in self._table.listed(allowed_edges(caller)):
            target, _, path = edge.said.metrics.partition("/")
            if target:
                labels = {"__metrics_path__": f"/{path}", "edge_id": edge.edge_id}
                found.append({"targets": [target], "labels": labels})
        return found

    def _file(self, name: str, content_type: str) -> web.Response:
        return web.Response(body=self._files[name], headers={"Content-Type": content_type})


STATIC: Final = (INDEX[0], *(name for name, _ in FILES.values()))


def _is_browser(request: web.BaseRequest) -> bool:
    """Whether it asks for a page, and not just for anything."""
    accept = request.headers.get("Accept", "")
    return "text/html" in accept.lower() and accepts(accept, "text/html")


def _refused(error: EdgedError) -> web.Response:
    if isinstance(error, Refused) and error.code is ErrorCode.NOT_AUTHENTICATED:
        return _response(unguarded(error, None))
    if isinstance(error, Failed):
        return _response(unguarded(error, None))
    return _response(rejection(403, error.message, rpc_code=RpcCode.NOT_ALLOWED))


def _response(refused: Rejected) -> web.Response:
    return web.Response(status=refused.status, body=refused.body, headers=dict(refused.headers))


def _json(told: Any) -> web.Response:
    body = json.dumps(told, separators=(",", ":")).encode("ascii")
    return web.Response(body=body, headers={"Content-Type": "application/json"})
