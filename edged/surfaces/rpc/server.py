"""What is served at the RPC port: ``POST /rpc`` for the CLI and scripts, and what stands beside it.

Who may come in at the RPC port: one door for ``/rpc``, ``/events``, ``/healthz``, ``/metrics``.

Whoever has INBOUND_AUTH_TOKEN, when there is one; else loopback peers that name a loopback Host (a
page in a browser that was rebound to 127.0.0.1 names another). A browser tells the Origin of a page
that opens a WebSocket, which no CORS stops: only pages of loopback may. ``/alive`` stands before
the door: whoever can connect knows as much as it tells.

What aiohttp leaves to its user about a request: its expectation, and a client that goes.

The body of a POST to the RPC port, read within its bounds; what goes wrong is an answer.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog
from aiohttp import web
from aiohttp.client_exceptions import ClientError
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawRequestMessage
from aiohttp.http_writer import HttpVersion11

from edged.actions.caller import Caller, Route, client_text
from edged.actions.cause import CALLER_GONE, cause_of
from edged.errors import EdgedError, ErrorCode, Fault, NotFound, Refused
from edged.http.application import SERVER_OPTIONS, ApplicationHandler, connection_of, note_end
from edged.http.connection import GO_ON, HttpConnection
from edged.protocol import jsonrpc
from edged.protocol.http_rules import LEASE_HEADER
from edged.protocol.jsonrpc import MAX_BODY_BYTES, BadMessage, Request, RpcCode
from edged.surfaces.events.hub import show_all
from edged.surfaces.events.socket import EventSockets
from edged.surfaces.rpc.methods import RpcContext, dispatch
from edged.surfaces.rpc.proof import PROOF_PATH, is_nonce, proof_of
from edged.surfaces.rpc.settings import ALIVE_PATH, SLOW_SENDER_S, RpcSettings

MAX_AGENT_CHARS: Final = 256
"""Of a User-Agent, before it is cleaned."""
LOOPBACK_NAMES: Final = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})


class Door:
    """The door.

    Args:
        token: INBOUND_AUTH_TOKEN, or none.
    """

    def __init__(self, token: str | None) -> None:
        self._token = token.encode() if token is not None else None

    def admit(self, request: web.Request) -> None:
        """Let pass, or not.

        Raises:
            Refused: NOT_AUTHENTICATED without the token; NOT_ALLOWED for a foreign page.
        """
        if not self._is_authentic(request):
            raise Refused(
                "The RPC interface requires its bearer token."
                if self._token is not None
                else "The RPC interface serves loopback only, under a loopback Host.",
                code=ErrorCode.NOT_AUTHENTICATED,
            )
        origin = request.headers.get("Origin")
        if origin is not None and not _is_own_origin(origin, request):
            raise Refused(
                "Pages from elsewhere may not use the RPC interface.", code=ErrorCode.NOT_ALLOWED
            )

    def _is_authentic(self, request: web.Request) -> bool:
        if self._token is None:
            return is_loopback(request.remote or "") and is_loopback(_host_of(request))
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        return kind.lower() == "bearer" and hmac.compare_digest(
            given.strip().encode("utf-8", "surrogateescape"), self._token
        )


def is_loopback(name: str) -> bool:
    """Whether a host name or address means this machine."""
    if name.lower().rstrip(".") in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _host_of(request: web.Request) -> str:
    """The Host header's name or address, without its port."""
    host = request.headers.get("Host", "")
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_own_origin(origin: str, request: web.Request) -> bool:
    """Whether it is that of this very port.

    The page of another port of this machine is a stranger: with the handshake of a WebSocket no
    browser says more of it than its Origin.
    """
    own = request.headers.get("Host", "")
    return bool(own) and origin.lower() == f"{request.scheme}://{own}".lower()


async def meet_expectation(request: web.Request) -> None:
    """Called by aiohttp where a request has ``Expect``; its own words are plain text."""
    if request.headers.get("Expect", "").lower() != "100-continue":
        words = "Only 100-continue can be expected here."
        refused = web.HTTPExpectationFailed()
        refused.body = jsonrpc.error_bytes(None, RpcCode.INVALID_REQUEST, words)
        refused.headers["Content-Type"] = "application/json"
        raise refused
    if request.version >= HttpVersion11 and request.transport is not None:
        request.transport.write(GO_ON)


def watch(http: web.Request) -> None:
    """Notice soon where a client that has closed its sending side is gone altogether."""
    connection, transport = connection_of(http), http.transport

    def probe() -> bool:
        if http.version < HttpVersion11 or transport is None:
            return False
        transport.write(GO_ON)
        return True

    if connection is not None:
        connection.probe_by(probe)


def unwatch(http: web.Request) -> None:
    """It does not matter any more."""
    connection = connection_of(http)
    if connection is not None:
        connection.end_probing()


class _Client:
    """Who waits for an answer here; it shows nobody a question. ``actions.elicit.CallClient``."""

    def __init__(self, http: web.Request) -> None:
        self._http = http

    @property
    def is_here(self) -> bool:
        return self._http.transport is not None and not self._http.transport.is_closing()

    def watch(self) -> None:
        watch(self._http)

    def elicit(self) -> None:
        return None

    def round(self) -> None:
        return None


TOO_LARGE: Final = "The body is over 4 MiB."


class UnusableBodyError(Exception):
    """The body cannot be had; ``status`` and ``args`` say how that is answered."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def read_body(request: web.Request, *, within_s: float = SLOW_SENDER_S) -> bytes:
    """The whole body.

    Raises:
        UnusableBodyError: too large, too slow, encoded, or not framed as HTTP wants it.
    """
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise UnusableBodyError(415, "A Content-Encoding is not served; send the body as it is.")
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise UnusableBodyError(413, TOO_LARGE)
    try:
        async with asyncio.timeout(within_s):
            return await request.read()
    except TimeoutError:
        raise UnusableBodyError(408, f"The body did not arrive within {within_s:g} s.") from None
    except web.HTTPRequestEntityTooLarge:
        raise UnusableBodyError(413, TOO_LARGE) from None
    except (
        web.RequestPayloadError,
        HttpProcessingError,
        ClientError,
        ConnectionError,
        RuntimeError,
    ):
        raise UnusableBodyError(
            400, "The length of the body is not given as HTTP requires."
        ) from None


PATH: Final = "/rpc"
HERE_PATH: Final = "/here"
"""What the supervisor reads every ten seconds for the fleet; it leaves no row either."""
JSON_TYPE: Final = "application/json"
LOOK_AT_CLIENT_S: Final = 0.1
REFUSALS: Final = {
    400: "GET /events opens a WebSocket (version 13), and this request does not ask for one.",
    404: f"Nothing is here: POST {PATH}, or GET /events, /healthz or /metrics.",
    405: "This path is read with GET.",
}
HTTP_STATUS: Final = {ErrorCode.NOT_AUTHENTICATED: 401, ErrorCode.NOT_ALLOWED: 403}


class RpcApplication:
    """Serves the requests.

    Args:
        settings: what it is made of.
        port: at which it is served.
    """

    def __init__(self, settings: RpcSettings, *, port: int) -> None:
        self._dispatcher = settings.dispatcher
        self._port = port
        self._door = Door(settings.token)
        self._key = settings.key
        self._new_action_id = settings.new_action_id
        self._record = settings.record
        self._sights = settings.sights
        self._clock = settings.clock
        self._own = settings.own
        self._runner: web.AppRunner | None = None
        self._handler: ApplicationHandler | None = None
        self._readers = EventSockets(settings.sights.hub)
        self._log = structlog.get_logger("edged.rpc")

    async def start(self) -> None:
        """Be ready to serve."""
        app = web.Application(
            client_max_size=jsonrpc.MAX_BODY_BYTES, middlewares=[_worded_for_programs]
        )
        router, meet = app.router, meet_expectation
        router.add_route("*", PATH, self._admitted(self._rpc), expect_handler=meet)
        router.add_get("/events", self._admitted(self._events), expect_handler=meet)
        router.add_get("/healthz", self._admitted(self._healthz), expect_handler=meet)
        router.add_get("/metrics", self._admitted(self._metrics), expect_handler=meet)
        router.add_get(HERE_PATH, self._admitted(self._here), expect_handler=meet)
        router.add_get(ALIVE_PATH, _alive, expect_handler=meet)
        router.add_get(PROOF_PATH, self._proof, expect_handler=meet)
        app.on_response_prepare.append(note_end)
        runner = web.AppRunner(app, handle_signals=False, **SERVER_OPTIONS)
        await runner.setup()
        assert runner.server is not None  # noqa: S101 - it is there after setup()
        self._runner, self._handler = runner, ApplicationHandler(runner.server)

    def serve(
        self, connection: HttpConnection, message: RawRequestMessage, body: bytes | None
    ) -> None:
        """See ``RequestHandler``; after ``start``."""
        assert self._handler is not None  # noqa: S101 - the listener starts it first
        self._handler.serve(connection, message, body)

    async def end_readers(self) -> None:
        """Say goodbye to the readers of events."""
        await self._readers.stop()

    async def stop(self) -> None:
        """End what is under way."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _admitted(
        self, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """The handler behind the door."""

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                self._door.admit(request)
            except Refused as refused:
                self._record.refuse(_caller(request), request.path[:128], refused)
                return _turned_away(refused)
            return await handler(request)

        return handle

    async def _rpc(self, request: web.Request) -> web.Response:
        refusal = _unusable(request)
        if refusal is not None:
            return refusal
        try:
            message = jsonrpc.parse(await read_body(request))
        except BadMessage as bad:
            return _reply(bad.http_status, bad.reply().encode())
        except UnusableBodyError as unusable:
            return _closing(_error(unusable.status, None, RpcCode.INVALID_REQUEST, str(unusable)))
        if not isinstance(message, Request):
            return _error(
                400, None, RpcCode.INVALID_REQUEST, "POST /rpc takes one JSON-RPC request."
            )
        return await self._answer(request, message)

    async def _answer(self, http: web.Request, request: Request) -> web.Response:
        context = RpcContext(
            dispatcher=self._dispatcher,
            caller=_caller(http),
            new_action_id=self._new_action_id,
            record=self._record.method,
            clock=self._clock,
            own=self._own,
            client=_Client(http),
        )
        try:
            result = await self._result(http, request, context)
            return _reply(200, jsonrpc.result_bytes(request.id, result))
        except EdgedError as error:
            is_method = error.code in (ErrorCode.UNKNOWN_METHOD, ErrorCode.RENAMED_TOOL)
            code = RpcCode.METHOD_NOT_FOUND if is_method else RpcCode.INVALID_PARAMS
            return _error(200, request.id, code, error.message, error)
        except Exception as bug:  # noqa: BLE001 - the top of every call: a caller gets a reply
            fault_id = self._new_action_id()
            self._log.error("internal_fault", fault_id=fault_id, exc_info=bug)
            fault = Fault("edged made a mistake.", data={"fault_id": fault_id})
            return _error(200, request.id, RpcCode.INTERNAL_ERROR, fault.message, fault)

    async def _result(self, http: web.Request, request: Request, context: RpcContext) -> Any:
        """What the method gives; its client's going ends what is only worth it for a listener."""
        work = dispatch(context, request.method, request.params)
        if not self._is_for_a_listener(request):
            return await work
        task = asyncio.ensure_future(work)
        watch(http)
        cause = CALLER_GONE
        try:
            while not (await asyncio.wait([task], timeout=LOOK_AT_CLIENT_S))[0]:
                if http.transport is None or http.transport.is_closing():
                    break
        except asyncio.CancelledError as cancelled:
            cause = cause_of(cancelled)
            raise
        finally:
            # Once: a second time would tear the steps that make an instrument safe.
            task.cancel(cause)
            unwatch(http)
        return await task

    def _is_for_a_listener(self, request: Request) -> bool:
        called = request.params.get("name") if request.method == "tools/call" else request.method
        try:
            tool = self._dispatcher.registry.find(called if isinstance(called, str) else "")
        except NotFound:
            return False
        return tool.cancels_on_disconnect

    async def _events(self, request: web.Request) -> web.StreamResponse:
        try:
            self._note_reader(request, None)
            return await self._readers.serve(request, show_all)
        except EdgedError as error:
            self._note_reader(request, error)
            return _error(400, None, RpcCode.INVALID_REQUEST, error.message, error)

    def _note_reader(self, request: web.Request, error: EdgedError | None) -> None:
        self._record.method(
            _caller(request),
            "/events",
            {"topics": request.query.get("topics", "")},
            action_id=self._new_action_id(),
            error=error,
            duration_ms=0.0,
        )

    async def _proof(self, request: web.Request) -> web.Response:
        """For whoever asks, and before the door: the token is sent after this only."""
        nonce = request.query.get("nonce", "")
        if self._key is None or not is_nonce(nonce):
            words = "The query must have a nonce: 64 hexadecimal digits."
            return _error(400, None, RpcCode.INVALID_REQUEST, words)
        return web.Response(text=proof_of(self._key, self._port, nonce))

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.json_response(dict(self._sights.health()))

    async def _here(self, _request: web.Request) -> web.Response:
        return web.json_response(dict(self._sights.here()))

    async def _metrics(self, _request: web.Request) -> web.Response:
        body, content_type = await self._sights.metrics()
        return web.Response(body=body, headers={"Content-Type": content_type})


async def _alive(_request: web.Request) -> web.Response:
    return web.Response(status=204)


@web.middleware
async def _worded_for_programs(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """What aiohttp itself refuses (another path, no WebSocket) gets an error body as all else."""
    try:
        return await handler(request)
    except web.HTTPException as refused:
        words = REFUSALS.get(refused.status, f"{refused.reason}.")
        response = _error(refused.status, None, RpcCode.INVALID_REQUEST, words)
        if "Allow" in refused.headers:
            response.headers["Allow"] = refused.headers["Allow"]
        return response


def _closing(response: web.Response) -> web.Response:
    """Its connection cannot go on: what is left of the request was not read."""
    response.force_close()
    return response


def _caller(request: web.Request) -> Caller:
    remote = request.remote or ""
    agent = client_text(request.headers.get("User-Agent", "")[:MAX_AGENT_CHARS])
    lease = request.headers.get(LEASE_HEADER, "")
    return Caller(route=Route.RPC, remote=remote, client=agent or remote, lease=lease)


def _unusable(request: web.Request) -> web.Response | None:
    if request.method != "POST":
        response = _error(405, None, RpcCode.INVALID_REQUEST, "Use POST.")
        response.headers["Allow"] = "POST"
        return response
    if request.headers.get("Content-Type", "").split(";")[0].strip().lower() != JSON_TYPE:
        return _error(415, None, RpcCode.INVALID_REQUEST, "Send Content-Type application/json.")
    return None


def _turned_away(refused: Refused) -> web.Response:
    status = HTTP_STATUS.get(refused.code, 403)
    code = RpcCode.NOT_AUTHENTICATED if status == 401 else RpcCode.INVALID_REQUEST
    response = _error(status, None, code, refused.message)
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _reply(status: int, body: bytes) -> web.Response:
    return web.Response(status=status, body=body, content_type=JSON_TYPE)


def _error(
    status: int,
    request_id: jsonrpc.RequestId | None,
    code: int,
    message: str,
    error: EdgedError | None = None,
) -> web.Response:
    data = error.to_json() if error else None
    return _reply(status, jsonrpc.error_bytes(request_id, code, message, data))
