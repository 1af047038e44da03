"""The page's HTTP: files, the socket, a person's answers, and the data of runs to take away.

Every request is judged as one to the MCP endpoint is (Host, Origin, Sec-Fetch-Site), and none of it
is on the relay route. Whatever shows the bench is allowed as the tool is that shows the same.

Source: docs/page.md; docs/promises.md section 17.
"""

from __future__ import annotations

import asyncio
import hashlib
import html
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

import structlog
from aiohttp import web
from aiohttp.http_parser import RawRequestMessage

from edged.actions.caller import Caller, Route, client_text
from edged.auth.permissions import Permissions
from edged.commands.record import MethodRecord
from edged.errors import EdgedError, ErrorCode, Invalid, NotFound, Refused
from edged.http.application import SERVER_OPTIONS, ApplicationHandler, note_end
from edged.http.connection import HttpConnection, whole_refusal
from edged.protocol.http_rules import (
    Guard,
    HttpHead,
    Rejected,
    cors_headers,
    is_json_type,
    judge_visit,
    preflight,
    rejection,
)
from edged.record import record
from edged.runs.bench import Bench
from edged.surfaces.events.hub import EventHub, EventSubscription
from edged.surfaces.events.socket import EventSockets, SocketPace
from edged.surfaces.page import PATH
from edged.surfaces.page.owner import KEY_HEADER, OwnerAnswers

EVENTS: Final = f"{PATH}/events"
PACE: Final = SocketPace(every_s=0.25, most={"audit": 40})
"""Nobody reads faster, and sixteen pages beside a client that calls on and on must cost little."""
STOPPING: Final = rejection(503, "The daemon is stopping.")
CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
MAX_ANSWER_BYTES: Final = 64 * 1024
MAX_AGENT_CHARS: Final = 256
BODY_WITHIN_S: Final = 10.0
TOKEN_BYTES: Final = 16
TRACE_LINES: Final = 60
TRACE_CHARS: Final = 300
"""What of a line's trace a page shows, since each that looks gets it again and again."""
SHOWS: Final = ("bench__check", "bench__history", "bench__runs")
"""What the page shows as a whole is what these tools tell; a caller that may use none sees none."""
CONTROL: Final = "bench__control_run"
"""Tells how an experiment stands; the page offers its buttons where it may be used."""
STATUS: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.NOT_AUTHENTICATED: 401,
    ErrorCode.NOT_ALLOWED: 403,
    ErrorCode.BUSY: 409,
    ErrorCode.STORE_FAILED: 503,
}
CONTENT_TYPES: Final[Mapping[str, str]] = {
    "csv": "text/csv; charset=utf-8",
    "npz": "application/zip",
    "html": "text/html; charset=utf-8",
}
INDEX: Final = "index.html"
FACTS: Final = "{{facts}}"
TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".svg": "image/svg+xml",
        ".LICENSE": "text/plain; charset=utf-8",
    }
)


Downloads = Callable[[str, str], AsyncIterator[bytes]]
"""A run's id and a form (csv, npz) → its file in pieces; raises ``NotFound`` at the first."""


@record
class PageWorld:
    """What the page works with.

    Attributes:
        facts: what the page must know before it can ask.
        guard: which Host and Origin may come in.
        peer: says which address to name in the record: of a request's headers and its peer.
        latest: the last values that are known.
        report: a run's id → its report, one HTML file.
        view: a run's id → what a view of an experiment shows beside its rows.
    """

    bench: Bench
    facts: Mapping[str, Any]
    guard: Guard
    peer: Callable[[Mapping[str, str], str], str]
    hub: EventHub
    latest: Callable[[], list[dict[str, Any]]]
    permissions: Permissions
    owner: OwnerAnswers
    downloads: Downloads
    report: Callable[[str], Awaitable[bytes]]
    view: Callable[[str], Awaitable[dict[str, Any]]]
    note: MethodRecord


class PageServer:
    """Serves what is under ``/bench``; made with the first request to it.

    Attributes:
        looks: tokens of the pages that are open.
    """

    def __init__(self, world: PageWorld) -> None:
        self._world = world
        self._sockets = EventSockets(world.hub, PACE)
        self._runner: web.AppRunner | None = None
        self._handler: ApplicationHandler | None = None
        self._files: Mapping[str, StaticFile] = {}
        self._log = structlog.get_logger("edged.page")
        self.looks: set[str] = set()

    async def start(self) -> None:
        """Be ready to serve."""
        found = dict(await asyncio.to_thread(read_static_files))
        self._files = {**found, INDEX: filled_index(found[INDEX], self._world.facts)}
        app = web.Application(client_max_size=MAX_ANSWER_BYTES, middlewares=[self._guarded])
        router = app.router
        router.add_get(PATH, self._index)
        router.add_get(f"{PATH}/", self._index)
        router.add_get(f"{PATH}/static/{{name}}", self._static)
        router.add_get(EVENTS, self._events)
        router.add_get(f"{PATH}/units/{{unit}}/trace", self._trace)
        router.add_post(f"{PATH}/owner/{{what}}", self._answer)
        router.add_get(f"{PATH}/runs/{{run_id}}/data.{{form}}", self._download)
        router.add_get(f"{PATH}/runs/{{run_id}}/report.html", self._report)
        router.add_get(f"{PATH}/runs/{{run_id}}/view.json", self._view)
        app.on_response_prepare.append(note_end)
        app.on_response_prepare.append(self._with_headers)
        runner = web.AppRunner(app, handle_signals=False, **SERVER_OPTIONS)
        await runner.setup()
        assert runner.server is not None  # noqa: S101 - it is there after setup()
        self._runner, self._handler = runner, ApplicationHandler(runner.server)

    async def stop(self) -> None:
        """Say goodbye to the open pages."""
        await self._sockets.stop()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = self._handler = None

    def serve(
        self, connection: HttpConnection, message: RawRequestMessage, body: bytes | None
    ) -> None:
        """See ``RequestHandler``; after ``start``."""
        path = message.path.partition("?")[0]
        headers = tuple(message.headers.items())
        judged = judge_visit(
            HttpHead(verb=message.method, path=path, headers=headers), self._world.guard
        )
        if isinstance(judged, Rejected) or self._handler is None:
            connection.keeps_alive = False
            refused = judged if isinstance(judged, Rejected) else STOPPING
            connection.answer(whole_refusal(refused))
            return
        self._handler.serve(connection, message, body)

    # What there is to see

    async def _index(self, request: web.Request) -> web.StreamResponse:
        return _file(request, self._files[INDEX])

    async def _static(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        found = self._files.get(name)
        if found is None or name == INDEX:
            raise NotFound(f"There is no file {name[:80]!r} here.", code=ErrorCode.UNKNOWN_RESOURCE)
        return _file(request, found)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        caller = self._caller(request)
        self._may(caller, *SHOWS)
        if request.headers.get("Upgrade", "").lower() != "websocket":
            raise web.HTTPUpgradeRequired()
        look = secrets.token_urlsafe(TOKEN_BYTES)
        is_told = False

        def greet(subscription: EventSubscription) -> Mapping[str, Any]:
            nonlocal is_told
            if not is_told:
                is_told = True
                self.looks.add(look)
                topics = {"topics": ",".join(sorted(subscription.topics))}
                self._note(caller, "page.open", topics)
            told: dict[str, Any] = {"look": look, "time_ms": self._world.bench.clock.wall_ms()}
            if "value" in subscription.topics:
                told["values"] = self._world.latest()
            return told

        try:
            return await self._sockets.serve(request, partial(self._is_shown, caller), greet)
        finally:
            self.looks.discard(look)

    def _is_shown(self, caller: Caller, topic: str, data: Any) -> bool:
        """Of the audit log what bench__history would show to this caller; all of the rest."""
        if topic != "audit":
            return True
        return self._world.permissions.allows_tool(caller, data["tool"], data["scope"] or None)

    async def _trace(self, request: web.Request) -> web.StreamResponse:
        self._may(self._caller(request), *SHOWS)
        exchanges = self._world.bench.pool.trace(request.match_info["unit"])
        told = [
            {**one, "text": str(one["text"])[:TRACE_CHARS]}
            for one in reversed(exchanges[-TRACE_LINES:])
        ]
        return _json(200, {"exchanges": told})

    # What a person may take away, and answer

    async def _download(self, request: web.Request) -> web.StreamResponse:
        run_id, form = request.match_info["run_id"], request.match_info["form"]
        if form not in {"csv", "npz"}:
            raise NotFound("There are data.csv and data.npz.", code=ErrorCode.UNKNOWN_RESOURCE)
        caller = self._caller(request)
        self._may(caller, "bench__runs")
        pieces = self._world.downloads(run_id, form)
        first = await anext(pieces, b"")
        self._note(caller, "page.download", {"run_id": run_id, "form": form})
        answer = web.StreamResponse(headers=_attachment(f"{run_id}.{form}", form))
        await answer.prepare(request)
        await answer.write(first)
        async for piece in pieces:
            await answer.write(piece)
        await answer.write_eof()
        return answer

    async def _report(self, request: web.Request) -> web.StreamResponse:
        run_id = request.match_info["run_id"]
        caller = self._caller(request)
        self._may(caller, "bench__runs")
        body = await self._world.report(run_id)
        self._note(caller, "page.report", {"run_id": run_id})
        return web.Response(body=body, headers=_attachment(f"{run_id}.html", "html"))

    async def _view(self, request: web.Request) -> web.StreamResponse:
        caller = self._caller(request)
        self._may(caller, *SHOWS)
        told = await self._world.view(request.match_info["run_id"])
        if not self._world.permissions.allows_tool(caller, CONTROL, None):
            told["status"] = None
        return _json(200, told)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        what = request.match_info["what"]
        caller = self._caller(request)
        try:
            self._world.owner.check(request.headers.get(KEY_HEADER))
        except Refused as refused:
            self._note(caller, f"page.{what[:40]}", {}, refused)
            raise
        if not is_json_type(request.headers.get("Content-Type", "")):
            raise Invalid("Content-Type must be application/json.", code=ErrorCode.BAD_REQUEST)
        async with asyncio.timeout(BODY_WITHIN_S):
            body = await request.read()
        told = await self._world.owner.answer(what, body, f"the page at {caller.remote}")
        return _json(200, {"ok": True, **told})

    def _preflight(self, request: web.Request) -> web.StreamResponse:
        """A browser asks first whether a page of ALLOWED_ORIGINS may."""
        told = {name.lower(): value for name, value in request.headers.items()}
        return web.Response(status=204, headers=dict(preflight(self._world.guard, told)))

    # The ways of all of them

    async def _with_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        shared = cors_headers(self._world.guard, request.headers.get("Origin"))
        for name, value in (*HEADERS.items(), *shared):
            response.headers.setdefault(name, value)

    def _caller(self, request: web.Request) -> Caller:
        headers = {name.lower(): value for name, value in request.headers.items()}
        remote = self._world.peer(headers, request.remote or "")
        agent = client_text(request.headers.get("User-Agent", "")[:MAX_AGENT_CHARS])
        return Caller(route=Route.DIRECT, remote=remote, client=agent or remote)

    def _may(self, caller: Caller, *tools: str) -> None:
        for tool in tools:
            self._world.permissions.authorize_tool(caller, tool, None)

    def _note(
        self,
        caller: Caller,
        name: str,
        params: Mapping[str, Any],
        error: EdgedError | None = None,
    ) -> None:
        self._world.note(
            replace(caller, client=caller.client or caller.remote),
            name,
            params,
            action_id=self._world.bench.new_id(),
            error=error,
            duration_ms=0.0,
        )

    @web.middleware
    async def _guarded(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        """What goes wrong is an answer of ours, in words."""
        try:
            if request.method == "OPTIONS":
                return self._preflight(request)
            return await handler(request)
        except EdgedError as error:
            status = STATUS.get(error.code, 404 if isinstance(error, NotFound) else 400)
            return _json(status, {"error": {"message": error.message, "remedy": error.remedy}})
        except web.HTTPException as refused:
            words = {
                404: f"Nothing is here; the page is at {PATH}.",
                426: f"{EVENTS} is a WebSocket.",
            }
            said = words.get(refused.status, f"{refused.reason}.")
            answer = _json(refused.status, {"error": {"message": said, "remedy": ""}})
            if "Allow" in refused.headers:
                answer.headers["Allow"] = refused.headers["Allow"]
            return answer
        except TimeoutError:
            said = f"The body did not arrive within {BODY_WITHIN_S:g} s."
            return _json(408, {"error": {"message": said, "remedy": ""}})
        except ConnectionError:
            raise
        except Exception as bug:  # noqa: BLE001 - the top of every request: a caller gets a reply
            fault_id = self._world.bench.new_id()
            self._log.error("internal_fault", fault_id=fault_id, exc_info=bug)
            said = f"edged made a mistake; its log has the details under {fault_id}."
            return _json(500, {"error": {"message": said, "remedy": ""}})


def _file(request: web.Request, found: StaticFile) -> web.StreamResponse:
    headers = {"ETag": found.etag, "Cache-Control": "no-cache"}
    if found.etag in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    return web.Response(body=found.body, headers={**headers, "Content-Type": found.content_type})


def _json(status: int, told: Mapping[str, Any]) -> web.Response:
    body = json.dumps(told, default=str).encode()
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
    if status == 401:
        headers["WWW-Authenticate"] = KEY_HEADER
    return web.Response(status=status, body=body, headers=headers)


def _attachment(name: str, form: str) -> dict[str, str]:
    plain = "".join(c if c.isalnum() or c in "-_." else "_" for c in name if c.isascii())
    return {
        "Content-Type": CONTENT_TYPES[form],
        "Content-Disposition": f'attachment; filename="{plain}"',
        "Cache-Control": "no-store",
    }


@record(kw_only=False)
class StaticFile:
    """One file: its bytes, what they are, and by what a browser knows that it has them already."""

    body: bytes
    content_type: str
    etag: str

    @classmethod
    def of(cls, body: bytes, content_type: str) -> StaticFile:
        """With its tag."""
        return cls(body, content_type, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def read_static_files() -> Mapping[str, StaticFile]:
    """All by their exact names, from the disk; nothing else of it can be reached."""
    found = {}
    for entry in files(__package__).joinpath("static").iterdir():
        suffix = entry.name[entry.name.rfind(".") :]
        if suffix in TYPES:
            found[entry.name] = StaticFile.of(entry.read_bytes(), TYPES[suffix])
    return found


def filled_index(index: StaticFile, facts: Mapping[str, Any]) -> StaticFile:
    """The page itself, with what it must know before it can ask."""
    told = html.escape(json.dumps(dict(facts), separators=(",", ":")))
    body = index.body.decode("utf-8").replace(FACTS, told).encode("utf-8")
    return StaticFile.of(body, index.content_type)
