from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from edged.actions.caller import Caller, Claims, Route
from edged.errors import Conflict
from edged.protocol.jsonrpc import Request, around_id, parse
from edged.protocol.messages import MAX_WATCHED, RESOURCE_UPDATED, TOOLS_CHANGED
from edged.protocol.revisions import REVISIONS
from edged.protocol.session import SessionEvent, SessionState
from edged.protocol.sse import ReplayBuffer
from edged.surfaces.mcp.reply import MAX_BUFFERED_BYTES, StreamReply
from edged.surfaces.mcp.sessions import (
    Announcement,
    CallEnd,
    Repeat,
    Session,
    SessionRegistry,
    no_leases,
)
from tests.bench.driven_clock import DrivenClock
from tests.bench.mcp_rules import holds
from tests.bench.recording_transport import RecordingTransport
from tests.promises import promise
from tests.unit.surfaces.mcp.test_calls import Call

LEGACY = REVISIONS["2025-06-18"]
DIRECT = Caller(route=Route.DIRECT, remote="127.0.0.1")
NEWS = Announcement(TOOLS_CHANGED)
SWEEP = Announcement(RESOURCE_UPDATED, "edged://sweeps/s1")


def board_of(
    clock: DrivenClock, *, idle_s: float = 100.0, max_sessions: int = 3, **more: Any
) -> SessionRegistry:
    usual: dict[str, Any] = {
        "leave": None,
        "lease_keys": no_leases,
        "may_hear": lambda _key, _caller: True,
    }
    return SessionRegistry(
        clock=clock,
        idle_s=idle_s,
        max_sessions=max_sessions,
        replay=ReplayBuffer(),
        **{**usual, **more},
    )


def stream_of(clock: DrivenClock) -> tuple[StreamReply, RecordingTransport]:
    transport = RecordingTransport()
    return StreamReply(transport, is_chunked=False, clock=clock), transport


def test_a_session_is_found_by_its_owner_alone(driven_clock: DrivenClock) -> None:
    board = board_of(driven_clock)
    relayed = Caller(route=Route.RELAY, remote="::1", subject="user:1")
    session = board.open(LEGACY, relayed)
    assert board.find(session.id, relayed) is session
    assert board.find(session.id, DIRECT) is None
    assert board.find(session.id, Caller(route=Route.RELAY, subject="user:2")) is None
    assert board.find("other", relayed) is None
    assert board.find(None, relayed) is None
    assert board.find("", relayed) is None


def test_use_keeps_a_session_alive_and_idleness_ends_it(driven_clock: DrivenClock) -> None:
    board = board_of(driven_clock)
    session = board.open(LEGACY, DIRECT)
    for _ in range(5):
        driven_clock.move(99)
        assert board.find(session.id, DIRECT) is session
    driven_clock.move(100)
    assert board.find(session.id, DIRECT) is None
    assert session.state is SessionState.ENDED
    assert len(board) == 0


def body_of(params: dict[str, object], request_id: int = 1) -> bytes:
    message = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
    return json.dumps(message).encode()


def remember(session: Session, params: dict[str, object], known: Repeat) -> None:
    body = body_of(params)
    request = parse(body)
    assert isinstance(request, Request)
    around = around_id(body, request)
    assert around is not None
    session.remember(around, known)


def repeat() -> Repeat:
    return Repeat(
        head=None,
        params={},
        caller=DIRECT,
        revision=LEGACY,
        again=lambda _id, _tell: None,
        make_answer=lambda _outcome, _id: b"",
        waits=False,
    )


def test_of_an_idle_session_no_calls_are_remembered(driven_clock: DrivenClock) -> None:
    board = board_of(driven_clock)
    sessions = [board.open(LEGACY, DIRECT) for _ in range(2)]
    for session in sessions:
        remember(session, {"name": "x"}, repeat())
    driven_clock.move(50)
    board.find(sessions[1].id, DIRECT)
    driven_clock.move(11)
    board.expire()
    assert [len(session.repeats) for session in sessions] == [0, 1]
    assert len(board) == 2


def test_a_session_remembers_so_many_calls(driven_clock: DrivenClock) -> None:
    session = board_of(driven_clock).open(LEGACY, DIRECT)
    for number in range(100):
        remember(session, {"name": number}, repeat())
    kept = [session.repeated(body_of({"name": number}), None, DIRECT) for number in range(100)]
    assert [number for number, known in enumerate(kept) if known] == list(range(76, 100))


@pytest.mark.parametrize("other", [1, True, 1.0, "1", None])
def test_a_call_is_known_again_by_its_arguments_as_they_are_written(
    driven_clock: DrivenClock, other: object
) -> None:
    session = board_of(driven_clock).open(LEGACY, DIRECT)
    known = repeat()
    remember(session, {"arguments": {"channel": 1}}, known)
    body = body_of({"arguments": {"channel": other}}, request_id=7)
    is_same = type(other) is int
    assert session.repeated(body, None, DIRECT) == ((known, 7) if is_same else None)
    assert session.repeated(body, "another head", DIRECT) is None
    assert session.repeated(body, None, Caller(route=Route.DIRECT)) is None
    session.calls.add(7, Call())
    assert session.repeated(body, None, DIRECT) is None


async def test_a_session_never_expires_under_a_call(driven_clock: DrivenClock) -> None:
    board = board_of(driven_clock)
    session = board.open(LEGACY, DIRECT)
    call = Call()
    session.calls.add(1, call)
    driven_clock.move(1_000)
    board.expire()
    session.calls.discard(1, call)
    board.touch(session)
    driven_clock.move(99)
    board.expire()
    assert len(board) == 1
    driven_clock.move(1)
    board.expire()
    assert len(board) == 0


async def test_the_board_looks_for_expired_sessions_by_itself(driven_clock: DrivenClock) -> None:
    board = board_of(driven_clock)
    for _ in range(3):
        board.open(LEGACY, DIRECT)
    watch = asyncio.create_task(board.run())
    await driven_clock.advance(130)
    assert len(board) == 0
    watch.cancel()


async def test_a_busy_session_in_front_does_not_shield_idle_ones(driven_clock: DrivenClock) -> None:
    board = board_of(driven_clock)
    busy, idle = board.open(LEGACY, DIRECT), board.open(LEGACY, DIRECT)
    busy.calls.add(1, Call())
    driven_clock.move(100)
    board.expire()
    assert busy.state is SessionState.OPENED
    assert idle.state is SessionState.ENDED


def at(address: str) -> Caller:
    return Caller(route=Route.DIRECT, remote=address)


def of(subject: str) -> Caller:
    claims = Claims(
        iss="i",
        aud="edge:e",
        sub=subject,
        exp=2,
        iat=1,
        edge_id="e",
        tools_allow=frozenset(),
        danger_allow=False,
    )
    return Caller(route=Route.RELAY, remote="10.0.0.1", subject=subject, claims=claims)


@promise("mcp.eviction")
async def test_no_session_that_somebody_may_miss_makes_room(driven_clock: DrivenClock) -> None:
    leased: set[str] = set()
    board = board_of(driven_clock, max_sessions=5, lease_keys=lambda: leased)
    at_work, listening, programs, holding, idle = (board.open(LEGACY, DIRECT) for _ in range(5))
    at_work.calls.add(1, Call())
    board.attach(listening, stream_of(driven_clock)[0], DIRECT)
    programs.visa[1] = object()
    leased.add(f"session:{holding.label}")
    newer = board.open(LEGACY, DIRECT)
    assert idle.state is SessionState.ENDED
    newer.calls.add(1, Call())
    for caller in (DIRECT, at("10.0.0.7"), of("user:ada")):
        with pytest.raises(Conflict, match="a call, a stream, a lease or an open unit"):
            board.open(LEGACY, caller)
    leased.clear()
    assert board.open(LEGACY, at("10.0.0.7")).state is SessionState.OPENED
    assert holding.state is SessionState.ENDED
    kept = (at_work, listening, programs, newer)
    assert SessionState.ENDED not in {session.state for session in kept}


async def test_the_lease_of_a_subject_keeps_its_sessions(driven_clock: DrivenClock) -> None:
    ada = of("user:ada")
    board = board_of(driven_clock, max_sessions=1, lease_keys=lambda: {ada.key})
    session = board.open(LEGACY, ada)
    with pytest.raises(Conflict):
        board.open(LEGACY, at("10.0.0.7"))
    assert board.find(session.id, ada) is session


@promise("mcp.eviction")
@pytest.mark.parametrize("flooder", [at("10.0.0.66"), of("user:mallory")])
async def test_a_caller_that_floods_ends_nobodys_session_but_its_own(
    flooder: Caller, driven_clock: DrivenClock
) -> None:
    board = board_of(driven_clock, max_sessions=1_000)
    others = [board.open(LEGACY, at(f"10.0.1.{n}")) for n in range(200)]
    first = board.open(LEGACY, flooder)
    flood = [board.open(LEGACY, flooder) for _ in range(10_050)]
    assert len(board) == 200 + 100
    assert {session.state for session in (*others, first)} == {SessionState.OPENED}
    # The newest ends, but those that were opened just now can still be used.
    assert {session.state for session in flood[-11:]} == {SessionState.OPENED}
    assert flood[-12].state is SessionState.ENDED


@holds("session.share")
@promise("mcp.eviction")
async def test_a_full_table_takes_from_the_caller_with_the_most(driven_clock: DrivenClock) -> None:
    board = board_of(driven_clock, max_sessions=100)
    for caller in range(9):
        for _ in range(10):
            board.open(LEGACY, at(f"10.0.0.{caller}"))
    modest = [board.open(LEGACY, at(f"10.0.1.{number}")) for number in range(10)]
    assert len(board) == 100
    latest = [board.open(LEGACY, at(f"10.0.2.{number}")) for number in range(45)]
    assert len(board) == 100
    assert {session.state for session in (*modest, *latest)} == {SessionState.OPENED}


async def test_sessions_that_ended_are_not_counted(driven_clock: DrivenClock) -> None:
    board = board_of(driven_clock, max_sessions=100)
    for _ in range(50):
        for session in [board.open(LEGACY, DIRECT) for _ in range(10)]:
            board.end(session, SessionEvent.DELETED)
    kept = [board.open(LEGACY, DIRECT) for _ in range(10)]
    assert {session.state for session in kept} == {SessionState.OPENED}
    assert board._held.keys() == {DIRECT.remote}


async def test_the_end_of_a_session_ends_its_calls_and_stream(driven_clock: DrivenClock) -> None:
    board = board_of(driven_clock)
    session = board.open(LEGACY, DIRECT)
    call = Call()
    session.calls.add(1, call)
    stream = board.attach(session, stream_of(driven_clock)[0], DIRECT)
    board.end(session, SessionEvent.DELETED)
    assert call.ended is CallEnd.SESSION_ENDED
    assert stream.over.is_set()
    board.end(session, SessionEvent.DELETED)


def test_news_waits_once_for_a_stream(driven_clock: DrivenClock) -> None:
    board = board_of(driven_clock)
    session = board.open(LEGACY, DIRECT)
    board.announce(NEWS)
    board.announce(NEWS)
    reply, transport = stream_of(driven_clock)
    board.attach(session, reply, DIRECT)
    board.deliver_pending(session)
    board.deliver_pending(session)
    assert transport.written.count(b"list_changed") == 1


def test_a_reader_that_is_too_far_behind_is_cut_and_told_next_time(
    driven_clock: DrivenClock,
) -> None:
    board = board_of(driven_clock)
    session = board.open(LEGACY, DIRECT)
    reply, transport = stream_of(driven_clock)
    stream = board.attach(session, reply, DIRECT)
    transport.unread_bytes = MAX_BUFFERED_BYTES + 1
    board.announce(NEWS)
    assert transport.is_aborted
    assert stream.over.is_set()
    board.detach(session, stream)
    again, transport = stream_of(driven_clock)
    board.attach(session, again, DIRECT)
    board.deliver_pending(session)
    assert b"list_changed" in transport.written


def test_news_for_many_sessions_reaches_each(driven_clock: DrivenClock) -> None:
    board = board_of(driven_clock, max_sessions=2_000)
    transports = []
    for _ in range(200):
        reply, transport = stream_of(driven_clock)
        board.attach(board.open(LEGACY, DIRECT), reply, DIRECT)
        transports.append(transport)
    heard: list[Announcement] = []
    unsubscribe = board.listen(heard.append)
    board.announce(NEWS)
    unsubscribe()
    board.announce(NEWS)
    assert all(transport.written.count(b"data: ") == 2 for transport in transports)
    assert heard == [NEWS]
    (data,) = {line for line in transports[0].written.split(b"\n") if line.startswith(b"data")}
    assert json.loads(data[6:])["method"] == "notifications/tools/list_changed"


def test_a_caller_of_a_session_carries_its_label_and_never_its_id(
    driven_clock: DrivenClock,
) -> None:
    session = board_of(driven_clock).open(LEGACY, DIRECT)
    caller = session.caller(DIRECT)
    assert caller.session_id == session.label
    assert session.id not in repr(caller)
    assert session.caller(DIRECT) is caller
    other = Caller(route=Route.DIRECT, remote="10.0.0.1")
    assert session.caller(other).remote == "10.0.0.1"


def test_only_who_watches_a_resource_hears_of_it(driven_clock: DrivenClock) -> None:
    board = board_of(driven_clock)
    watching, other = board.open(LEGACY, DIRECT), board.open(LEGACY, DIRECT)
    transports = []
    for session in (watching, other):
        reply, transport = stream_of(driven_clock)
        board.attach(session, reply, DIRECT)
        transports.append(transport)
    board.watch(watching, SWEEP.key, "edged://sweeps/as-it-spelled-it")
    board.announce(SWEEP)
    assert b"as-it-spelled-it" in transports[0].written
    assert transports[1].written == b""
    board.unwatch(watching, SWEEP.key)
    board.announce(SWEEP)
    assert transports[0].written.count(b"resources/updated") == 1


def test_what_a_session_watches_is_bounded_and_waits_once_each(driven_clock: DrivenClock) -> None:
    board = board_of(driven_clock)
    session = board.open(LEGACY, DIRECT)
    for number in range(MAX_WATCHED):
        board.watch(session, f"edged://sweeps/{number}", f"edged://sweeps/{number}")
    with pytest.raises(Conflict, match="at most"):
        board.watch(session, "edged://sweeps/more", "edged://sweeps/more")
    for _ in range(3):
        for number in range(MAX_WATCHED):
            board.announce(Announcement(RESOURCE_UPDATED, f"edged://sweeps/{number}"))
    assert len(session.pending) == MAX_WATCHED
    for number in range(MAX_WATCHED):
        board.unwatch(session, f"edged://sweeps/{number}")
    assert session.pending == {}


def test_after_a_gap_everything_is_told_anew(driven_clock: DrivenClock) -> None:
    board = board_of(driven_clock)
    session = board.open(LEGACY, DIRECT)
    board.watch(session, SWEEP.key, SWEEP.key)
    board.note_gap(session)
    reply, transport = stream_of(driven_clock)
    board.attach(session, reply, DIRECT)
    board.deliver_pending(session)
    for method in (b"tools/list_changed", b"resources/list_changed", b"resources/updated"):
        assert transport.written.count(method) == 1


def test_a_session_that_ends_watches_nothing_any_more(driven_clock: DrivenClock) -> None:
    board = board_of(driven_clock)
    session = board.open(LEGACY, DIRECT)
    board.watch(session, SWEEP.key, SWEEP.key)
    board.end(session, SessionEvent.DELETED)
    board.announce(SWEEP)
    assert session.pending == {}
    assert session.watched == {}
