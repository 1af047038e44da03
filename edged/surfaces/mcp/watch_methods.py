"""The methods by which a client hears of changes: of a session, or on a stream of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from edged.errors import EdgedError
from edged.protocol import messages, results
from edged.protocol.jsonrpc import BadMessage, Request, RpcCode
from edged.protocol.messages import RESOURCE_UPDATED, RESOURCES_CHANGED, TOOLS_CHANGED
from edged.protocol.resources import resource_uri
from edged.surfaces.mcp.context import Context
from edged.surfaces.mcp.resource_methods import not_read
from edged.surfaces.mcp.session import Announcement

__all__ = ["listen", "unwatch_resource", "watch_resource"]

SENT: Final = frozenset({TOOLS_CHANGED, RESOURCES_CHANGED, RESOURCE_UPDATED})


async def watch_resource(context: Context, request: Request) -> bytes:
    """Tell this session of each change of a resource."""
    uri = resource_uri(request)
    await context.parts.first_look.wait()
    key = _key(context, request, uri)
    if context.session is not None:
        context.parts.board.watch(context.session, key, uri)
    return results.plain_result(context.revision, context.parts.server, method=request.method)


async def unwatch_resource(context: Context, request: Request) -> bytes:
    """Tell it no more."""
    uri = resource_uri(request)
    if context.session is not None:
        watched = dict(context.session.watched)
        for key in (key for key, spelled in watched.items() if uri in (key, spelled)):
            context.parts.board.unwatch(context.session, key)
    return results.plain_result(context.revision, context.parts.server, method=request.method)


async def listen(context: Context, request: Request) -> bytes:
    """Keep a stream of the changes a client asked for, until it closes it or the daemon stops."""
    wish = messages.subscription_params(request).honoured(SENT)
    post = context.post
    if not post.exchange.can_stream:
        raise BadMessage(
            "subscriptions/listen answers with an event stream; accept text/event-stream.",
            rpc_code=RpcCode.INVALID_REQUEST,
            request_id=request.id,
        )
    post.tie(context.call)
    if wish.resource_uris:
        await context.parts.first_look.wait()
    watched = _watched(context, wish.resource_uris)
    wish = replace(wish, resource_uris=tuple(watched.values()))

    def tell(news: Announcement) -> None:
        if news.key:
            uri = watched.get(news.key)
            if uri is None:
                return
            payload = messages.updated_bytes(uri, subscription_id=request.id)
        elif news.method in wish.methods:
            payload = messages.change_bytes(news.method, subscription_id=request.id)
        else:
            return
        if post.is_lagging:
            # It would miss the change without knowing; after a break it lists anew.
            post.cut()
        else:
            post.notify(context.slot, payload)

    post.notify(context.slot, messages.acknowledged_bytes(request.id, wish))
    unsubscribe = context.parts.board.listen(tell)
    try:
        await context.parts.stopping.wait()
    finally:
        unsubscribe()
    return results.listen_result(context.revision, context.parts.server, request.id)


def _key(context: Context, request: Request, uri: str) -> str:
    try:
        return context.parts.resources.watch_key(uri, context.caller)
    except EdgedError as error:
        raise not_read(context, request, uri, error) from error


def _watched(context: Context, uris: tuple[str, ...]) -> dict[str, str]:
    """Key → URI as the client spelled it, of those that exist and it may read."""
    found = {}
    for uri in uris:
        try:
            found[context.parts.resources.watch_key(uri, context.caller)] = uri
        except EdgedError:
            continue
    return found
