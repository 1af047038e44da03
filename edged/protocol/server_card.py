"""The server card: what this endpoint is, for a client that has not connected yet. Pure.

It is the same for everybody and has nothing of the bench in it, so that any page may read it; the
Host is judged all the same.

Source: SEP-2127, and the extension's schema and ``docs/discovery.md`` (experimental, 2026-10).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from edged.protocol.http_rules import Guard, HeaderList, HttpHead, Rejected, judge_host, rejection
from edged.protocol.results import Server
from edged.protocol.revisions import SUPPORTED_VERSIONS

CARD_TYPE: Final = "application/mcp-server-card+json"
SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
DESCRIPTION: Final = "The instruments of a lab bench as typed, limit-checked tools."
SUFFIX: Final = "/server-card"
ALLOW: Final = "GET, HEAD, OPTIONS"
OPEN: Final[HeaderList] = (
    ("Access-Control-Allow-Origin", "*"),
    ("Access-Control-Allow-Methods", "GET"),
    ("Access-Control-Allow-Headers", "Content-Type, If-None-Match"),
    ("Access-Control-Expose-Headers", "ETag"),
    ("X-Content-Type-Options", "nosniff"),
)

Answered = tuple[int, HeaderList, bytes]
"""Status, headers, body."""


class ServerCard:
    """``GET {MCP_PATH}/server-card``.

    Args:
        path: MCP_PATH.
        guard: which Host may be meant.
        server: what an ``initialize`` tells of this server.
    """

    def __init__(self, path: str, guard: Guard, server: Server) -> None:
        self._endpoint = path
        self._path = path.rstrip("/") + SUFFIX
        self._guard = guard
        self._server = server

    def takes(self, path: str) -> bool:
        """Whether a path, still encoded and with its query, is the card's."""
        return path.startswith(self._path) and path.partition("?")[0] == self._path

    def answer(self, head: HttpHead) -> Answered:
        """What a request for the card is answered with."""
        headers = judge_host(head, self._guard)
        if isinstance(headers, Rejected):
            return headers.status, headers.headers, headers.body
        if head.verb == "OPTIONS":
            return 204, OPEN, b""
        if head.verb not in ("GET", "HEAD"):
            refusal = rejection(
                405, f"{head.verb[:40]} is not served here.", headers=(("Allow", ALLOW),)
            )
            return refusal.status, refusal.headers, refusal.body
        body = self._card(headers["host"])
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        # Another host's card names another URL: no cache may give it for this one.
        told = (*OPEN, ("ETag", tag), ("Cache-Control", "public, max-age=3600"), ("Vary", "Host"))
        if _is_known(headers, tag):
            return 304, told, b""
        return 200, (("Content-Type", CARD_TYPE), *told), body

    def _card(self, host: str) -> bytes:
        card = {
            "$schema": SCHEMA,
            "name": f"local.{self._server.name}/bench",
            "version": self._server.version,
            "title": self._server.title,
            "description": DESCRIPTION,
            "remotes": [
                {
                    "type": "streamable-http",
                    "url": f"http://{host}{self._endpoint}",
                    "supportedProtocolVersions": list(SUPPORTED_VERSIONS),
                }
            ],
        }
        return json.dumps(card, ensure_ascii=True, separators=(",", ":")).encode("ascii")


def _is_known(headers: Mapping[str, str], tag: str) -> bool:
    """RFC 9110, section 13.1.2: weak comparison."""
    known = headers.get("if-none-match", "")[:2_000]
    return any(one.strip().removeprefix("W/") in (tag, "*") for one in known.split(","))
