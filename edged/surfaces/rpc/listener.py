"""``POST /rpc`` on loopback: JSON-RPC 2.0 for the CLI, scripts and the supervisor.

Who may call: whoever has INBOUND_AUTH_TOKEN, when there is one; else loopback peers that name a
loopback Host (a page in a browser that was rebound to 127.0.0.1 names another). There is no CORS.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import ipaddress
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog
from aiohttp import web

from edged.actions.caller import Caller, Route
from edged.errors import EdgedError, ErrorCode, Failed, NotFound
from edged.host import port_holder
from edged.protocol import jsonrpc
from edged.protocol.jsonrpc import BadMessage, Request, RpcCode
from edged.surfaces.rpc.methods import OwnMethod, RpcContext, dispatch, told
from edged.tools.call import ToolDesk

__all__ = ["RpcListener"]

PATH: Final = "/rpc"
LOOPBACK_NAMES: Final = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})
JSON_TYPE: Final = "application/json"
LOOK_AT_CLIENT_S: Final = 0.1


class RpcListener:
    """The RPC interface's listener.

    Args:
        desk: takes calls by tool name.
        port: RPC_PORT; 0 takes any free one.
        token: INBOUND_AUTH_TOKEN, or none.
        new_action_id: makes the id under which a call is recorded.
        own: further methods of the daemon's own.
    """

    def __init__(
        self,
        *,
        desk: ToolDesk,
        port: int,
        token: str | None,
        new_action_id: Callable[[], str],
        own: Mapping[str, OwnMethod] | None = None,
    ) -> None:
        self._desk = desk
        self._wanted_port = port
        self._token = token
        self._new_action_id = new_action_id
        self._own = dict(own or {})
        self._runner: web.AppRunner | None = None
        self._log = structlog.get_logger("edged.rpc")
        self.port = 0

    async def start(self) -> None:
        """Bind and serve.

        Raises:
            Failed: BIND_FAILED, with the port in ``data``.
        """
        app = web.Application(client_max_size=jsonrpc.MAX_BODY_BYTES)
        app.router.add_route("*", PATH, self._handle)
        runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self._wanted_port, reuse_address=True)
        try:
            await site.start()
        except OSError as taken:
            await runner.cleanup()
            why = str(taken.strerror)
            if taken.errno == errno.EADDRINUSE:
                holder = await asyncio.to_thread(port_holder, self._wanted_port)
                why = f"it is held by {holder or 'another program'}"
            raise Failed(
                f"The RPC port {self._wanted_port} on 127.0.0.1 cannot be bound: {why}.",
                code=ErrorCode.BIND_FAILED,
                data={"port": self._wanted_port},
                remedy="Stop the program that holds it, or set RPC_PORT to another port.",
            ) from taken
        self._runner = runner
        self.port = runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop accepting, end what is open."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request: web.Request) -> web.Response:
        refusal = self._door(request)
        if refusal is not None:
            return refusal
        try:
            message = jsonrpc.parse(await request.read())
        except BadMessage as bad:
            return _reply(bad.http_status, bad.reply().encode())
        except web.HTTPRequestEntityTooLarge:
            return _error(413, None, RpcCode.INVALID_REQUEST, "The body is over 4 MiB.")
        if not isinstance(message, Request):
            return _error(
                400, None, RpcCode.INVALID_REQUEST, "POST /rpc takes one JSON-RPC request."
            )
        return await self._answer(request, message)

    def _door(self, request: web.Request) -> web.Response | None:
        """Who may come in; ``None`` lets pass."""
        if not self._is_authentic(request):
            response = _error(
                401, None, RpcCode.NOT_AUTHENTICATED, "The RPC interface wants its bearer token."
            )
            response.headers["WWW-Authenticate"] = "Bearer"
            return response
        if request.method != "POST":
            response = _error(405, None, RpcCode.INVALID_REQUEST, "Use POST.")
            response.headers["Allow"] = "POST"
            return response
        if request.headers.get("Content-Type", "").split(";")[0].strip().lower() != JSON_TYPE:
            return _error(415, None, RpcCode.INVALID_REQUEST, "Send Content-Type application/json.")
        return None

    def _is_authentic(self, request: web.Request) -> bool:
        if self._token is None:
            return _is_loopback(request.remote or "") and _is_loopback(_host_of(request))
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        return kind.lower() == "bearer" and hmac.compare_digest(
            given.strip().encode("utf-8", "surrogateescape"), self._token.encode()
        )

    async def _answer(self, http: web.Request, request: Request) -> web.Response:
        caller = Caller(route=Route.RPC, remote=http.remote or "")
        context = RpcContext(
            desk=self._desk,
            caller=caller,
            new_action_id=self._new_action_id,
            own=self._own,
        )
        try:
            result = await self._result(http, request, context)
        except EdgedError as error:
            is_method = error.code in (ErrorCode.UNKNOWN_METHOD, ErrorCode.RENAMED_TOOL)
            code = RpcCode.METHOD_NOT_FOUND if is_method else RpcCode.INVALID_PARAMS
            return _error(200, request.id, code, error.message, error)
        return _reply(200, jsonrpc.result_bytes(request.id, result))

    async def _result(self, http: web.Request, request: Request, context: RpcContext) -> Any:
        """What the method gives; its client's going ends what is only worth it for a listener."""
        work = dispatch(context, request.method, request.params)
        if not self._is_for_a_listener(request):
            return await work
        task = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait([task], timeout=LOOK_AT_CLIENT_S))[0]:
                if http.transport is None or http.transport.is_closing():
                    break
        finally:
            # Once: a second time would tear the steps that make an instrument safe.
            task.cancel()
        return await task

    def _is_for_a_listener(self, request: Request) -> bool:
        called = request.params.get("name") if request.method == "tools/call" else request.method
        try:
            tool = self._desk.registry.find(called if isinstance(called, str) else "")
        except NotFound:
            return False
        return tool.cancels_on_disconnect


def _host_of(request: web.Request) -> str:
    """The Host header's name or address, without its port."""
    host = request.headers.get("Host", "")
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_loopback(name: str) -> bool:
    if name.lower().rstrip(".") in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _reply(status: int, body: bytes) -> web.Response:
    return web.Response(status=status, body=body, content_type=JSON_TYPE)


def _error(
    status: int,
    request_id: jsonrpc.RequestId | None,
    code: int,
    message: str,
    error: EdgedError | None = None,
) -> web.Response:
    data = told(error) if error else None
    return _reply(status, jsonrpc.error_bytes(request_id, code, message, data))
