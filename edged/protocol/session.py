"""What a session may do in each state, as two tables; and what its id looks like.

A session is opened by ``initialize``. Requests without one are served too: as one-shots, or because
their revision has no sessions. Who holds which session, and for how long, is not here
(``surfaces/mcp/sessions.py``).

Source: docs/promises.md section 3; MCP 2025-11-25 ``basic/lifecycle`` and ``basic/transports``.
"""

from __future__ import annotations

import base64
import enum
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, NewType

from edged.errors import ErrorCode, Fault, Invalid
from edged.protocol.jsonrpc import ErrorReply, Request, RpcCode
from edged.protocol.revisions import VISA_METHODS, Revision

SessionId = NewType("SessionId", str)
MIN_ID_BYTES: Final = 16
"""128 bits of randomness cannot be guessed."""


class SessionState(enum.StrEnum):
    """Where a request stands. The first two are not sessions: the request is alone."""

    ONE_SHOT = "one_shot"
    STATELESS = "stateless"
    OPENED = "opened"
    READY = "ready"
    ENDED = "ended"


class SessionEvent(enum.StrEnum):
    """What can happen to a session."""

    INITIALIZED = "initialized"
    DELETED = "deleted"
    EXPIRED = "expired"
    SHUT_DOWN = "shut_down"


_LIVE: Final = {
    # A client may say it twice; nothing changes.
    SessionEvent.INITIALIZED: SessionState.READY,
    SessionEvent.DELETED: SessionState.ENDED,
    SessionEvent.EXPIRED: SessionState.ENDED,
    SessionEvent.SHUT_DOWN: SessionState.ENDED,
}

TRANSITIONS: Final[Mapping[SessionState, Mapping[SessionEvent, SessionState]]] = MappingProxyType(
    {
        SessionState.ONE_SHOT: {},
        SessionState.STATELESS: {},
        SessionState.OPENED: _LIVE,
        SessionState.READY: _LIVE,
        SessionState.ENDED: {},
    }
)

_NEEDS_SESSION: Final = VISA_METHODS | {"resources/subscribe", "resources/unsubscribe"}
"""Requests whose effect is what comes later: messages that a lone request has no stream for, or
what is open."""

_REFUSED: Final[Mapping[SessionState, frozenset[str]]] = MappingProxyType(
    {
        SessionState.ONE_SHOT: _NEEDS_SESSION,
        SessionState.STATELESS: frozenset(),
        # Many small clients never send notifications/initialized; they are served all the same.
        SessionState.OPENED: frozenset(),
        SessionState.READY: frozenset(),
    }
)


def next_state(state: SessionState, event: SessionEvent) -> SessionState:
    """Where an event leads.

    Raises:
        Fault: the event cannot happen in this state; nothing has changed.
    """
    row = TRANSITIONS[state]
    if event not in row:
        raise Fault(f"A session that is {state} cannot be {event}.")
    return row[event]


def admit(
    request: Request,
    *,
    revision: Revision,
    state: SessionState,
    offers: Collection[str] | None = None,
) -> ErrorReply | None:
    """Whether a request may be served here; ``None`` if so.

    The revision's set of methods is the version gate: a method that is not in it does not exist.

    Args:
        offers: the methods of this server; ``None``: all.
    """
    if request.method not in revision.methods or (
        offers is not None and request.method not in offers
    ):
        return ErrorReply(
            request_id=request.id,
            rpc_code=RpcCode.METHOD_NOT_FOUND,
            message=f"{revision.version} has no method {request.method[:80]!r} here.",
        )
    if state is SessionState.ENDED or request.method in _REFUSED[state]:
        return ErrorReply(
            request_id=request.id,
            rpc_code=RpcCode.INVALID_REQUEST,
            message=f"{request.method} needs a session; initialize first.",
        )
    return None


def make_session_id(randomness: bytes) -> SessionId:
    """A session id of visible ASCII from the caller's randomness.

    Raises:
        Invalid: fewer than ``MIN_ID_BYTES``.
    """
    if len(randomness) < MIN_ID_BYTES:
        raise Invalid(
            f"A session id needs {MIN_ID_BYTES} random bytes, not {len(randomness)}.",
            code=ErrorCode.BAD_REQUEST,
        )
    return SessionId(base64.urlsafe_b64encode(randomness).decode("ascii").rstrip("="))
