"""What the RPC port and the application behind it are made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from edged.clock import Clock
from edged.commands.audit_record import AuditRecord
from edged.record import record
from edged.surfaces.events.hub import EventHub
from edged.tools.dispatcher import ToolDispatcher

if TYPE_CHECKING:
    from edged.surfaces.rpc.own_methods import OwnMethod

SLOW_SENDER_S: Final = 30.0
"""A slower sender is cut."""
ALIVE_PATH: Final = "/alive"
"""Where the supervisor looks each second: behind no door, tells nothing, leaves no row."""


@record
class Sights:
    """What can be seen at the RPC port besides its methods.

    Attributes:
        hub: the events of ``/events``.
        health: the body of ``/healthz``.
        metrics: the body of ``/metrics`` and its content type.
        here: the body of ``/here``: what the supervisor tells the fleet.
    """

    hub: EventHub
    health: Callable[[], Mapping[str, Any]]
    metrics: Callable[[], Awaitable[tuple[bytes, str]]]
    here: Callable[[], Mapping[str, Any]]


@record
class RpcSettings:
    """What the RPC interface is made of.

    Attributes:
        dispatcher: takes calls by tool name.
        token: INBOUND_AUTH_TOKEN, or none.
        key: with which it proves whose engine it is; none: it cannot.
        new_action_id: makes the id under which a call is recorded.
        record: where the daemon's own methods leave their rows.
        sights: what stands beside ``/rpc``.
        clock: for durations.
        own: further methods of the daemon's own.
    """

    dispatcher: ToolDispatcher
    token: str | None
    new_action_id: Callable[[], str]
    record: AuditRecord
    sights: Sights
    clock: Clock
    own: Mapping[str, OwnMethod] = field(default_factory=dict)
    key: bytes | None = None
