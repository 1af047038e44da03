"""Who asks: the route a request came by, and what its token (if any) allows."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

__all__ = ["Caller", "Claims", "Route"]


class Route(enum.StrEnum):
    """The way in. ``INTERNAL`` is the daemon itself (clean-up after a crash, shutdown)."""

    DIRECT = "direct"
    RELAY = "relay"
    RPC = "rpc"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a verified token says; docs/promises.md section 9 has the rule for each field.

    ``exp`` and ``iat`` are Unix epoch seconds; ``tools_allow`` entries are ``<tool>`` or
    ``<tool>:<scope>``.
    """

    iss: str
    aud: str
    sub: str
    exp: int
    iat: int
    edge_id: str
    tools_allow: frozenset[str]
    danger_allow: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who is behind an action; travels with it to the audit.

    Attributes:
        remote: peer address as text; the supervisor's proxy hands on the real one.
        subject: ``sub`` of the token on the relay route, else empty.
        outer_tool, outer_scope: for a nested action, the tool and scope it was allowed under.
        on_behalf_of: id of the sweep, stream or sequence run that asks, else empty.
    """

    route: Route
    session_id: str = ""
    remote: str = ""
    subject: str = ""
    claims: Claims | None = None
    outer_tool: str = ""
    outer_scope: str = ""
    on_behalf_of: str = ""

    def nested(self, *, tool: str, scope: str, on_behalf_of: str) -> Caller:
        """The same caller, acting from inside ``tool``; an outer tool already set stays."""
        return replace(
            self,
            outer_tool=self.outer_tool or tool,
            outer_scope=self.outer_scope or scope,
            on_behalf_of=on_behalf_of,
        )
