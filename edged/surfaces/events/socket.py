"""The WebSocket of events: JSON-RPC both ways.

A client asks ``subscribe {topics}`` (or names them in the URL: ``/events?topics=audit,sweep``);
from then on it gets ``event`` notifications, and ``missed`` when it reads too slowly.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final

from aiohttp import web
from aiohttp.http import WSCloseCode, WSMsgType

from edged.errors import EdgedError, ErrorCode, Invalid, NotFound
from edged.http.application import written_together
from edged.protocol import jsonrpc
from edged.protocol.jsonrpc import BadMessage, Request, RpcCode
from edged.record import record
from edged.surfaces.events.hub import EventHub, EventSubscription, Shows

Greeting = Callable[[EventSubscription], Mapping[str, Any]]
"""What the answer to a reader's ``subscribe`` tells besides its topics."""

HEARTBEAT_S: Final = 30.0
"""A reader that answers no ping within half of this is gone."""
CLOSE_S: Final = 0.25
"""How long a reader may take to say goodbye."""
MAX_MESSAGE_BYTES: Final = 64 * 1024


@record
class SocketPace:
    """How often a reader is told.

    Attributes:
        every_s: from one time to the next, at least; what comes meanwhile is gathered.
        most: topic → how many of its events are told at a time; the rest is counted as missed.
    """

    every_s: float = 0.0
    most: Mapping[str, int] = field(default_factory=dict)


AT_ONCE: Final = SocketPace()


class EventSockets:
    """All open readers of one path.

    Args:
        hub: what they listen to.
        pace: how often each is told.
    """

    def __init__(self, hub: EventHub, pace: SocketPace = AT_ONCE) -> None:
        self._hub = hub
        self._pace = pace
        self._open: dict[web.WebSocketResponse, asyncio.Transport | None] = {}

    async def serve(
        self,
        request: web.Request,
        shows: Shows,
        greeting: Greeting | None = None,
    ) -> web.WebSocketResponse:
        """Serve one reader until it goes.

        Args:
            shows: which events it is shown.

        Raises:
            EdgedError: the topics in the URL do not exist, or too many listen already.
        """
        subscription = self._hub.subscribe(shows, self._pace.most)
        try:
            named = [name for name in request.query.get("topics", "").split(",") if name]
            self._hub.choose(subscription, named)
            # Deflated for each reader anew, an event would cost more than all else about it.
            socket = web.WebSocketResponse(
                heartbeat=HEARTBEAT_S,
                max_msg_size=MAX_MESSAGE_BYTES,
                timeout=CLOSE_S,
                compress=False,
            )
            await socket.prepare(request)
            self._open[socket] = request.transport
            writing = asyncio.create_task(_write(socket, request, subscription, self._pace.every_s))
            try:
                await _read(socket, self._hub, subscription, greeting)
            finally:
                self._open.pop(socket, None)
                writing.cancel()
                with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                    await writing
            return socket
        finally:
            self._hub.leave(subscription)

    async def stop(self) -> None:
        """Say goodbye to all at once; who does not take it is cut off."""
        await asyncio.gather(*(self._end(*reader) for reader in tuple(self._open.items())))

    @staticmethod
    async def _end(socket: web.WebSocketResponse, transport: asyncio.Transport | None) -> None:
        try:
            async with asyncio.timeout(2 * CLOSE_S):
                await socket.close(code=WSCloseCode.GOING_AWAY)
        except (TimeoutError, ConnectionError):
            if transport is not None:
                transport.abort()


async def _read(
    socket: web.WebSocketResponse,
    hub: EventHub,
    subscription: EventSubscription,
    greeting: Greeting | None,
) -> None:
    async for message in socket:
        if message.type not in {WSMsgType.TEXT, WSMsgType.BINARY}:
            return
        text = message.data.encode() if message.type is WSMsgType.TEXT else message.data
        with contextlib.suppress(ConnectionError):
            await socket.send_str(_answer(text, hub, subscription, greeting).decode())


def _answer(
    body: bytes, hub: EventHub, subscription: EventSubscription, greeting: Greeting | None
) -> bytes:
    try:
        message = jsonrpc.parse(body)
    except BadMessage as bad:
        return bad.reply().encode()
    if not isinstance(message, Request):
        return jsonrpc.error_bytes(
            None, RpcCode.INVALID_REQUEST, "This socket takes JSON-RPC requests, one at a time."
        )
    try:
        return jsonrpc.result_bytes(message.id, _perform(message, hub, subscription, greeting))
    except NotFound as unknown:
        return jsonrpc.error_bytes(
            message.id, RpcCode.METHOD_NOT_FOUND, unknown.message, unknown.to_json()
        )
    except EdgedError as error:
        return jsonrpc.error_bytes(
            message.id, RpcCode.INVALID_PARAMS, error.message, error.to_json()
        )


def _perform(
    request: Request, hub: EventHub, subscription: EventSubscription, greeting: Greeting | None
) -> dict[str, Any]:
    topics = request.params.get("topics")
    topics = [] if topics is None else topics
    if not isinstance(topics, list) or not all(isinstance(topic, str) for topic in topics):
        raise Invalid("topics must be a list of strings.", data={"parameter": "topics"})
    match request.method:
        case "subscribe":
            chosen = hub.choose(subscription, subscription.topics | set(topics))
            return {"topics": chosen, **(greeting(subscription) if greeting else {})}
        case "unsubscribe":
            left = subscription.topics - set(topics) if topics else set()
            return {"topics": hub.choose(subscription, left)}
        case _:
            raise NotFound(
                f"There is no method {request.method[:128]!r} here.",
                code=ErrorCode.UNKNOWN_METHOD,
                remedy="Here are subscribe and unsubscribe; calls are for POST.",
            )


async def _write(
    socket: web.WebSocketResponse,
    request: web.Request,
    subscription: EventSubscription,
    every_s: float,
) -> None:
    """Send what there is; waits for a reader that is slower than the events."""
    while True:
        events, missed = await subscription.take()
        with written_together(request):
            for event in events:
                await socket.send_str(_notification("event", event.text))
            if missed:
                lost = {"count": sum(missed.values()), "topics": missed}
                await socket.send_str(_notification("missed", json.dumps(lost)))
        if every_s:
            await asyncio.sleep(every_s)


def _notification(method: str, params: str) -> str:
    """Of parameters that are JSON already."""
    return f'{{"jsonrpc": "2.0", "method": "{method}", "params": {params}}}'
