"""Who may come in at the RPC port: one door for ``/rpc``, ``/events``, ``/healthz``, ``/metrics``.

Whoever has INBOUND_AUTH_TOKEN, when there is one; else loopback peers that name a loopback Host (a
page in a browser that was rebound to 127.0.0.1 names another). A browser tells the Origin of a page
that opens a WebSocket, which no CORS stops: only pages of loopback may. ``/alive`` stands before
the door: whoever can connect knows as much as it tells.
"""

from __future__ import annotations

import hmac
import ipaddress
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from edged.errors import ErrorCode, Refused

__all__ = ["Door", "is_loopback"]

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
                "The RPC interface wants its bearer token."
                if self._token is not None
                else "The RPC interface serves loopback only, under a loopback Host.",
                code=ErrorCode.NOT_AUTHENTICATED,
            )
        origin = request.headers.get("Origin")
        if origin is not None and not _is_loopback_origin(origin):
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


def _is_loopback_origin(origin: str) -> bool:
    try:
        return is_loopback(urlsplit(origin).hostname or "")
    except ValueError:
        return False
