"""Session states, cell by cell; and the version gate."""

from __future__ import annotations

import pytest

from edged.errors import Fault, Invalid
from edged.protocol.jsonrpc import Request, RpcCode
from edged.protocol.revisions import REVISIONS
from edged.protocol.session import (
    MIN_ID_BYTES,
    TRANSITIONS,
    SessionEvent,
    SessionState,
    admit,
    make_session_id,
    next_state,
)

STATES = list(SessionState)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("event", list(SessionEvent))
def test_every_cell_of_the_table_leads_somewhere_or_raises(
    state: SessionState, event: SessionEvent
) -> None:
    expected = TRANSITIONS[state].get(event)
    if expected is None:
        with pytest.raises(Fault):
            next_state(state, event)
    else:
        assert next_state(state, event) is expected


def test_nothing_leaves_an_ended_session() -> None:
    assert TRANSITIONS[SessionState.ENDED] == {}


def test_a_session_lives_from_initialize_to_delete() -> None:
    ready = next_state(SessionState.OPENED, SessionEvent.INITIALIZED)
    assert ready is SessionState.READY
    assert next_state(ready, SessionEvent.INITIALIZED) is SessionState.READY
    assert next_state(ready, SessionEvent.DELETED) is SessionState.ENDED


# Absence is -32601: what is not declared, what was removed, what another revision has.
METHODS = {
    "initialize": {"2025-03-26", "2025-06-18", "2025-11-25"},
    "ping": {"2025-03-26", "2025-06-18", "2025-11-25"},
    "tools/list": set(REVISIONS),
    "tools/call": set(REVISIONS),
    "server/discover": {"2026-07-28"},
    "subscriptions/listen": {"2026-07-28"},
    "logging/setLevel": set(),
    "prompts/list": set(REVISIONS),
    "prompts/get": set(REVISIONS),
    "sampling/createMessage": set(),
    "notifications/initialized": set(),
    "Tools/List": set(),
    "": set(),
}


@pytest.mark.parametrize("version", REVISIONS)
@pytest.mark.parametrize("method", METHODS)
def test_a_method_exists_in_its_revisions_only(method: str, version: str) -> None:
    revision = REVISIONS[version]
    state = SessionState.OPENED if revision.has_handshake else SessionState.STATELESS
    refusal = admit(Request(id="a", method=method), revision=revision, state=state)
    if version in METHODS[method]:
        assert refusal is None
    else:
        assert refusal is not None
        assert (refusal.rpc_code, refusal.request_id) == (RpcCode.METHOD_NOT_FOUND, "a")
        assert revision.status_of(refusal.rpc_code) == (200 if revision.has_handshake else 404)


@pytest.mark.parametrize("state", [s for s in STATES if s is not SessionState.ENDED])
def test_tools_are_served_in_every_state_but_ended(state: SessionState) -> None:
    for revision in REVISIONS.values():
        for method in ("tools/list", "tools/call"):
            assert admit(Request(id=1, method=method), revision=revision, state=state) is None


def test_an_ended_session_serves_nothing() -> None:
    refusal = admit(
        Request(id=1, method="ping"),
        revision=REVISIONS["2025-03-26"],
        state=SessionState.ENDED,
    )
    assert refusal is not None
    assert refusal.rpc_code == RpcCode.INVALID_REQUEST


def test_a_session_id_is_visible_ascii_and_keeps_all_its_randomness() -> None:
    made = {make_session_id(bytes([n]) * 32) for n in range(256)}
    assert len(made) == 256
    assert all(0x21 <= ord(char) <= 0x7E for text in made for char in text)


def test_a_session_id_of_too_little_randomness_is_refused() -> None:
    with pytest.raises(Invalid):
        make_session_id(b"x" * (MIN_ID_BYTES - 1))
