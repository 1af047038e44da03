"""How a client that has no token finds who gives one: OAuth 2.0 Protected Resource Metadata. Pure.

A client that is refused with 401 is told where the metadata of that very resource is, reads there
who the issuer is, and logs its person in at the issuer; nothing of that passes through here. The
issuer gives tokens as docs/relay.md has them, for the resource that the client names (RFC 8707).

Source: RFC 9728; RFC 6750, section 3; MCP 2026-07-28, basic/authorization.
"""

from __future__ import annotations

import json
from typing import Final
from urllib.parse import urlsplit

from edged.auth.claims import is_edge_id
from edged.protocol.http_rules import HeaderList
from edged.record import record

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
MCP_PATH: Final = "/mcp"
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
METADATA_HEADERS: Final[HeaderList] = (
    ("Content-Type", "application/json"),
    # It is the same for everybody, and browsers' clients read it before they have a token.
    ("Access-Control-Allow-Origin", "*"),
    ("Access-Control-Allow-Headers", "MCP-Protocol-Version"),
    ("Cache-Control", "public, max-age=3600"),
    ("X-Content-Type-Options", "nosniff"),
)


@record(kw_only=False)
class LoginMetadata:
    """What this front tells of who gives tokens for what it serves.

    Attributes:
        base_url: RELAY_URL, without a slash at its end.
        issuer: RELAY_ISSUER.
    """

    base_url: str
    issuer: str

    @classmethod
    def of(cls, relay_url: str | None, issuer: str) -> LoginMetadata | None:
        """``None`` where there is nothing that a client could follow."""
        if not relay_url or not _can_be_followed(relay_url) or not _can_be_followed(issuer):
            return None
        return cls(relay_url.rstrip("/"), issuer)

    def challenge(self, resource_path: str, *, has_token: bool) -> str:
        """``WWW-Authenticate`` of a request for a resource that is refused with 401.

        Args:
            resource_path: ``/mcp/<edge_id>`` or ``/mcp``.
            has_token: one came, and was not good.
        """
        place = f'resource_metadata="{self.base_url}{WELL_KNOWN}{resource_path}"'
        return f'Bearer error="invalid_token", {place}' if has_token else f"Bearer {place}"

    def document(self, path: str) -> bytes | None:
        """The metadata of a resource; ``None`` where the path is none of it.

        Args:
            path: of the request, without its query.
        """
        resource = path.removeprefix(WELL_KNOWN)
        if resource == path or not _is_resource(resource):
            return None
        told = {
            "resource": f"{self.base_url}{resource}",
            "resource_name": "edged lab bench",
            "authorization_servers": [self.issuer],
            "bearer_methods_supported": ["header"],
        }
        return json.dumps(told, separators=(",", ":")).encode("ascii")


def challenge_of(login: LoginMetadata | None, resource_path: str, *, has_token: bool) -> str:
    """``WWW-Authenticate``, also where it is not known who gives tokens."""
    if login is not None:
        return login.challenge(resource_path, has_token=has_token)
    return 'Bearer error="invalid_token"' if has_token else "Bearer"


def _is_resource(path: str) -> bool:
    if path == MCP_PATH:
        return True
    edge_id = path.removeprefix(f"{MCP_PATH}/")
    # Whether there is such an edge is nobody's business.
    return edge_id != path and is_edge_id(edge_id)


def _can_be_followed(url: str) -> bool:
    """HTTPS, or this very machine for a trial."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
