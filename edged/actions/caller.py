"""Who asks: the route a request came by, what its token (if any) allows, and what it calls itself.

What a client says of itself is a foreign text: it names a caller to people, and nothing is judged
by it.
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Final

from edged.actions.envelope import OpenEnvelope
from edged.record import record

CLIENT_CHARS: Final = 64
"""What a client may say of itself: its name and version, on one line of a table."""


class Route(enum.StrEnum):
    """The way in. ``INTERNAL`` is the daemon itself (clean-up after a crash, shutdown)."""

    DIRECT = "direct"
    RELAY = "relay"
    RPC = "rpc"
    INTERNAL = "internal"


@record
class Claims:
    """What a verified token says; docs/relay.md has the rule for each field.

    ``exp`` and ``iat`` are Unix epoch seconds; ``tools_allow`` entries are ``<tool>`` or
    ``<tool>:<scope>``. A token is for one edge, ``edge_id``, or for those of ``edges_allow``.
    """

    iss: str
    aud: str
    sub: str
    exp: int
    iat: int
    edge_id: str
    tools_allow: frozenset[str]
    danger_allow: bool
    edges_allow: frozenset[str] = frozenset()


@record
class Approval:
    """What a person said yes to; it goes with the one call that was asked about.

    Attributes:
        approval_id: empty where nobody was asked: an ``envelope`` then only holds a run's steps to
            what its plan says.
        lines: the lines that may go out for it.
        sequence: the sequence that may run.
        ramped: the command whose value may be ramped.
        within: the smallest and the largest value that this ramp may set.
        envelope: what each step of the run must lie in; ``None``: it is no run with a plan.
    """

    approval_id: str
    lines: frozenset[str] = frozenset()
    sequence: str = ""
    ramped: str = ""
    within: tuple[float, float] = (math.nan, math.nan)
    envelope: OpenEnvelope | None = None


@record
class Caller:
    """Who is behind an action; travels with it to the audit.

    Attributes:
        client: what it calls itself, as ``client_text`` gives it; else its address.
        remote: peer address as text; the supervisor's proxy hands on the real one.
        subject: ``sub`` of the token on the relay route, else empty.
        outer_tool, outer_scope: for a nested action, the tool and scope it was allowed under.
        on_behalf_of: id of the sweep, stream or sequence run that asks, else empty.
        lease: the id of the lease that it presents, else empty; a secret.
        bearer: at a relay front the token that it showed, to be shown to edges; a secret.
        approval: what a person said yes to, for what is done on this very call's behalf.
        is_look: an open page looks again: what it is told of the daemon leaves no row.
    """

    route: Route
    session_id: str = ""
    remote: str = ""
    subject: str = ""
    client: str = ""
    claims: Claims | None = None
    outer_tool: str = ""
    outer_scope: str = ""
    on_behalf_of: str = ""
    lease: str = field(default="", repr=False)
    bearer: str = field(default="", repr=False)
    approval: Approval | None = None
    is_look: bool = False

    @property
    def key(self) -> str:
        """What it is known by again: its subject, else its session; empty: by nothing."""
        if self.claims is not None:
            return f"sub:{self.claims.iss} {self.claims.sub}"
        return f"session:{self.session_id}" if self.session_id else ""

    @property
    def who(self) -> str:
        """Who it is, for people; see ``who_of``."""
        return who_of(self.client, self.remote, self.subject, route=self.route._value_)

    @property
    def only_subject(self) -> str | None:
        """The subject whose calls and runs alone this caller is shown; ``None``: those of all."""
        return self.subject if self.route is Route.RELAY else None

    def is_shown(self, route: str, subject: str) -> bool:
        """Whether this caller is shown what a caller of that route and subject has done.

        Source: docs/audit.md, "Query the log from an agent".
        """
        if self.only_subject is None:
            return True
        return bool(subject) and (route, subject) == (self.route.value, self.subject)

    def to_json(self) -> dict[str, str]:
        """Who it is, to be kept with what it began: nothing by which it could act again."""
        return {
            "route": self.route.value,
            "remote": self.remote,
            "subject": self.subject,
            "client": self.client,
        }

    @classmethod
    def part(cls, name: str, on_behalf_of: str = "") -> Caller:
        """A part of the engine that acts by itself: "interlock chamber", "crash recovery"."""
        return cls(route=Route.INTERNAL, client=name, on_behalf_of=on_behalf_of)

    @classmethod
    def from_json(cls, told: object) -> Caller:
        """Who it was; what was not kept, or is spoiled, is left empty: then it is "somebody"."""
        kept = told if isinstance(told, Mapping) else {}
        remote, subject, client, route = (
            text if isinstance(text := kept.get(name), str) else ""
            for name in ("remote", "subject", "client", "route")
        )
        known = Route(route) if route in set(Route) else Route.DIRECT
        return cls(route=known, remote=remote, subject=subject, client=client)

    def nested(self, *, tool: str, scope: str, on_behalf_of: str) -> Caller:
        """The same caller, acting from inside ``tool``; an outer tool already set stays."""
        return replace(
            self,
            outer_tool=self.outer_tool or tool,
            outer_scope=self.outer_scope or scope,
            on_behalf_of=on_behalf_of,
        )


@functools.lru_cache(maxsize=256)
def client_text(said: str) -> str:
    """What a client says of itself, on one line and bounded; empty where nothing is left of it.

    Args:
        said: bounded by who calls, for it is remembered.
    """
    # Neither control characters nor those that turn the direction of a line, or cannot be seen.
    shown = "".join(char if char.isprintable() else " " for char in said)
    return " ".join(shown.split())[:CLIENT_CHARS].rstrip()


def who_of(client: str, remote: str, subject: str = "", *, route: str = "") -> str:
    """Who a caller is, for people: "claude-code 2.1 at 127.0.0.1".

    By a relay its subject stands there too: "claude-code 2.1 for alice at 10.0.0.7". A part of the
    engine is called by its name: "interlock chamber".
    """
    if route == Route.INTERNAL._value_:
        return client or "edged itself"
    name = client if client != remote else ""
    if subject:
        name = f"{name} for {subject}" if name else subject
    return f"{name} at {remote}" if name and remote else name or remote or "somebody"
