"""One client's session: its GET stream, and whose it is. What becomes of it: ``sessions.py``.

The session board: who is here, whose each session is, and news for each of them.

A session belongs to the route and subject that opened it; to anybody else its id does not exist. It
expires when idle, which it is not while a call runs or its stream is open. News (list_changed) goes
to every session: at once where a stream is open, else once with the next stream.

A caller (an address, or over the relay a subject) holds a tenth of all sessions at most, so none
takes those of others. Where there is no room the newest of the caller with the most ends, and none
that somebody may miss: with a call, a stream, a lease, or a unit that a VISA program has open.

Source: docs/promises.md section 3; docs/mcp-rules.md, "Revisions with a handshake".

Calls in flight: each can be cancelled by its session, by its connection's end, or by shutdown.

Ending one cancels once what runs for it (``post.PendingCall``); that goes on and settles what it
owes.
"""

from __future__ import annotations

import asyncio
import enum
import itertools
import secrets
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any, Final, Protocol

from edged.actions.caller import Caller, Route
from edged.actions.cause import (
    CALLER_CANCELLED,
    CALLER_GONE,
    ENGINE_STOPPED,
    SESSION_ENDED,
    TOKEN_EXPIRED,
)
from edged.actions.outcome import Outcome, Tell, Underway
from edged.clock import Clock
from edged.errors import Conflict, ErrorCode
from edged.protocol.jsonrpc import AroundId, ErrorReply, RequestId, Response, cut_at_id
from edged.protocol.messages import (
    MAX_WATCHED,
    RESOURCES_CHANGED,
    TOOLS_CHANGED,
    change_bytes,
    updated_bytes,
)
from edged.protocol.revisions import Revision
from edged.protocol.session import (
    MIN_ID_BYTES,
    SessionEvent,
    SessionId,
    SessionState,
    make_session_id,
    next_state,
)
from edged.protocol.sse import EventLog, ReplayBuffer, encode_event
from edged.record import part, record
from edged.surfaces.mcp.reply import StreamReply
from edged.surfaces.mcp.seams import Choice


class CallEnd(enum.Enum):
    """Why a call ended before its result; the value is what its row in the audit log names."""

    CANCELLED = CALLER_CANCELLED
    CLIENT_GONE = CALLER_GONE
    SESSION_ENDED = SESSION_ENDED
    STOPPING = ENGINE_STOPPED
    EXPIRED = TOKEN_EXPIRED


class Endable(Protocol):
    """A call in flight."""

    def end(self, why: CallEnd) -> None:
        """End it; only the first time counts."""
        ...


class CallEndedError(Exception):
    """The call was ended from outside; its work has been cancelled and has finished."""

    def __init__(self, why: CallEnd) -> None:
        super().__init__(why.value.clause)
        self.why = why


class CallRegistry:
    """The calls of one session by request id; and in the surface's own book, all of them.

    Attributes:
        by_id: them, for who only looks.
    """

    def __init__(self) -> None:
        self.by_id: dict[RequestId, Endable] = {}

    def __len__(self) -> int:
        return len(self.by_id)

    def add(self, request_id: RequestId, call: Endable) -> None:
        """It is in flight.

        Raises:
            Conflict: BUSY, another call with this id is.
        """
        if request_id in self.by_id:
            self.check(request_id)
        self.by_id[request_id] = call

    def check(self, request_id: RequestId) -> None:
        """Raise ``Conflict``, BUSY, where a call with this id is in flight."""
        if request_id in self.by_id:
            raise Conflict(
                f"A request with the id {str(request_id)[:80]!r} is in flight in this session.",
                code=ErrorCode.BUSY,
                remedy="Give each request an id of its own.",
            )

    def discard(self, request_id: RequestId, call: Endable) -> None:
        """It is over; another call with its id (a ``ping`` is not in the book) is not."""
        if self.by_id.get(request_id) is call:
            del self.by_id[request_id]

    def end(self, request_id: RequestId, why: CallEnd) -> None:
        """End one call; an id that is not in flight is ignored, for it may just have ended."""
        call = self.by_id.get(request_id)
        if call is not None:
            call.end(why)

    def end_all(self, why: CallEnd) -> None:
        """End every call."""
        for call in tuple(self.by_id.values()):
            call.end(why)


class Resumable(Protocol):
    """A POST's event stream whose reader may come back by a GET."""

    def resume(self, stream: StreamReply) -> asyncio.Event:
        """Write on there from now on; the event is set when all is written."""
        ...

    def lost(self, stream: StreamReply) -> None:
        """That reader is gone."""
        ...


@record(kw_only=False)
class Announcement:
    """Something that clients are told: a list has changed, or the content of one resource.

    Attributes:
        method: of the notification.
        key: of the resource, as the news name it; empty for a list.
    """

    method: str
    key: str = ""


class Over:
    """An event for one who waits, in a tenth of the memory of asyncio's own."""

    __slots__ = ("_is_set", "_waiter")

    def __init__(self) -> None:
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def is_set(self) -> bool:
        """Whether it has happened."""
        return self._is_set

    def set(self) -> None:
        """It has happened."""
        self._is_set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """Until it happens."""
        if not self._is_set:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter


@part
class NewsStream:
    """The open GET stream of a session.

    Attributes:
        caller: who has opened it, by a token of its own over the relay.
        over: is set when it must end, whatever the reason.
    """

    reply: StreamReply
    caller: Caller
    over: Over = field(default_factory=Over)


Again = Callable[[str, Tell], Outcome | Underway | None]


@record(kw_only=False)
class Repeat:
    """A call that was answered: with the same head and body, but for its id, it means the same.

    Attributes:
        head: that it came with, as it was judged.
        params: its own; nobody changes them.
        caller: whose it was.
        revision: of MCP, that it was served in.
        again: see ``Outcome``.
        make_answer: makes the answer of what comes of it.
        waits: for an instrument.
    """

    head: object
    params: Mapping[str, Any]
    caller: Caller
    revision: Revision
    again: Again
    make_answer: MakeAnswer
    waits: bool


MakeAnswer = Callable[[Outcome, RequestId], bytes | ErrorReply]
MOST_REPEATS: Final = 24
"""Of one session; the oldest goes first."""
REMEMBERED_FOR_S: Final = 60.0
"""Since the last call of a session."""
LONGEST_REPEATED: Final = 1_000
"""Bytes of the body of a call that is known when it comes again."""


@part
class Session:
    """One client's session.

    Attributes:
        label: names it in the audit; the id itself is a secret.
        owner: route and subject.
        held_by: counts the sessions of one caller: a subject of the relay, or an address.
        lease_key: by what its leases are known (``Caller.key``).
        calls: its calls in flight.
        news_log: keeps the GET stream's events for whoever resumes it.
        pending: notifications that wait for the next stream, each once.
        watched: the resources it watches: their key → the URI as the client spelled it.
        streams: its open GET streams; news goes on the newest, the others are only kept alive.
        resumable: event streams of calls in flight, by the name of their log.
        repeats: calls that may come again, by what stands around the ids of their bodies.
        choice: what tools/list shows to it, by the URL of its initialize.
        client: what its client calls itself, by its initialize.
        can_elicit: its client shows a person forms.
        asked: our requests that its client has not answered yet, by their ids.
        visa: the units that it has open as a program that knows VISA, by number.
        visa_count: the last of those numbers.
    """

    id: SessionId
    label: str
    revision: Revision
    owner: Owner
    held_by: str
    lease_key: str
    last_used_s: float
    choice: Choice | None = None
    client: str = ""
    can_elicit: bool = False
    asked: dict[str, asyncio.Future[Response]] = field(default_factory=dict)
    state: SessionState = SessionState.OPENED
    calls: CallRegistry = field(default_factory=CallRegistry)
    streams: list[NewsStream] = field(default_factory=list)
    pending: dict[bytes, None] = field(default_factory=dict)
    watched: dict[str, str] = field(default_factory=dict)
    news_log: EventLog | None = None
    resumable: dict[str, Resumable] = field(default_factory=dict)
    repeats: dict[AroundId, Repeat] = field(default_factory=dict)
    visa: dict[int, object] = field(default_factory=dict)
    visa_count: int = 0
    _caller: Caller | None = None
    _caller_here: Caller | None = None

    @property
    def stream(self) -> NewsStream | None:
        """The stream on which news goes."""
        return self.streams[-1] if self.streams else None

    @property
    def is_busy(self) -> bool:
        """Whether it must not expire."""
        return bool(self.streams) or len(self.calls) > 0

    def caller(self, caller: Caller) -> Caller:
        """The same caller, as of this session; made once for each that the guard gives."""
        if self._caller is not caller or self._caller_here is None:
            self._caller = caller
            client = self.client or caller.remote
            self._caller_here = replace(caller, session_id=self.label, client=client)
        return self._caller_here

    def repeated(
        self, body: bytes, head: object, caller: Caller
    ) -> tuple[Repeat, RequestId] | None:
        """What a body with that head asks for again, and its id; ``None``: it has to be read."""
        if (cut := cut_at_id(body)) is None:
            return None
        key, request_id = cut
        repeat = self.repeats.get(key)
        if (
            repeat is None
            or repeat.head is not head
            or repeat.caller is not caller
            or request_id in self.calls.by_id
        ):
            return None
        # What is asked again and again is not pushed out by writes whose values never come twice.
        self.repeats[key] = self.repeats.pop(key)
        return repeat, request_id

    def remember(self, around: AroundId, repeat: Repeat) -> None:
        """Keep a call that may come again."""
        if len(self.repeats) >= MOST_REPEATS:
            del self.repeats[next(iter(self.repeats))]
        self.repeats[around] = repeat

    def answered(self, response: Response) -> None:
        """Its client has answered a request of ours; one that waits for nothing is ignored."""
        answer = self.asked.get(response.id) if isinstance(response.id, str) else None
        if answer is not None and not answer.done():
            answer.set_result(response)

    def note(self, event: SessionEvent) -> None:
        """Something happened to it."""
        self.state = next_state(self.state, event)


@record(kw_only=False)
class Owner:
    """Whose a session is."""

    route: Route
    subject: str

    @classmethod
    def of(cls, caller: Caller) -> Owner:
        """The owner that a caller is."""
        return cls(caller.route, caller.subject)


MOST_STREAMS: Final = 8
"""Open GET streams of one session; beyond, the oldest ends."""
LEAST_SHARE: Final = 10
"""Of one caller, also where a tenth of MAX_SESSIONS is less: those at one address share it."""
LONGEST_LOOK_S: Final = 30.0
"""Between two looks for expired sessions; short idle times are looked for more often."""
LOOKS_PER_IDLE: Final = 4


Leave = Callable[[Iterable[object]], None]
"""Told what a session that has ended had opened by an extension's methods."""


LeaseKeys = Callable[[], Collection[str]]
"""The ``Caller.key`` of everybody who holds a lease."""


def no_leases() -> Collection[str]:
    """Where units cannot be reserved."""
    return ()


@part
class SessionRegistry:
    """All sessions, the longest unused first.

    Attributes:
        clock: for idleness.
        idle_s: SESSION_IDLE_SEC.
        max_sessions: MAX_SESSIONS.
        replay: where resumable streams keep their events.
        leave: told what a session that ends had open.
        lease_keys: who holds leases; a session of theirs ends by idleness alone.
        may_hear: whether the caller who opened a stream may read the resource of that key.
    """

    clock: Clock
    idle_s: float
    max_sessions: int
    replay: ReplayBuffer
    leave: Leave | None
    lease_keys: LeaseKeys
    may_hear: Callable[[str, Caller], bool]
    _share: int = field(init=False)
    _labels: Iterator[int] = field(init=False)
    # Ids of streams must never come again, in another life of the daemon neither.
    _life: str = field(init=False)
    _stream_names: Iterator[int] = field(init=False)
    # By ``held_by``: the sessions of a caller, the oldest first.
    _held: dict[str, dict[Session, None]] = field(default_factory=dict)
    _sessions: OrderedDict[str, Session] = field(default_factory=OrderedDict)
    _listeners: set[Callable[[Announcement], None]] = field(default_factory=set)
    _watchers: dict[str, set[Session]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._share = min(self.max_sessions, max(LEAST_SHARE, self.max_sessions // 10))
        self._labels = itertools.count(1)
        self._life = secrets.token_hex(4)
        self._stream_names = itertools.count(1)

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, revision: Revision, caller: Caller) -> Session:
        """A new session.

        Raises:
            Conflict: BUSY, there is no room, and each session may be missed.
        """
        held_by = caller.subject or caller.remote
        self._make_room(held_by)
        label = f"mcp-{self._life}-{next(self._labels)}"
        session = Session(
            id=make_session_id(secrets.token_bytes(2 * MIN_ID_BYTES)),
            label=label,
            revision=revision,
            owner=Owner.of(caller),
            held_by=held_by,
            lease_key=replace(caller, session_id=label).key,
            last_used_s=self.clock.monotonic(),
        )
        self._sessions[session.id] = session
        self._held.setdefault(session.held_by, {})[session] = None
        return session

    def find(self, session_id: str | None, caller: Caller) -> Session | None:
        """A caller's own live session, which this counts as a use of."""
        session = self._sessions.get(session_id) if session_id else None
        if session is None:
            return None
        owner = session.owner
        if caller.route is not owner.route or caller.subject != owner.subject:
            return None
        now_s = self.clock.monotonic()
        if now_s - session.last_used_s >= self.idle_s and self._is_expired(session, now_s):
            self.end(session, SessionEvent.EXPIRED)
            return None
        session.last_used_s = now_s
        self._sessions.move_to_end(session.id)
        return session

    def touch(self, session: Session) -> None:
        """A call or stream of it has just ended; it is idle from now, not from its beginning."""
        if session.id in self._sessions:
            session.last_used_s = self.clock.monotonic()
            self._sessions.move_to_end(session.id)

    def end(self, session: Session, event: SessionEvent) -> None:
        """End a session, its stream and its calls."""
        if self._sessions.pop(session.id, None) is None:
            return
        held = self._held[session.held_by]
        del held[session]
        if not held:
            del self._held[session.held_by]
        session.note(event)
        for key in tuple(session.watched):
            self.unwatch(session, key)
        stopping = event is SessionEvent.SHUT_DOWN
        session.calls.end_all(CallEnd.STOPPING if stopping else CallEnd.SESSION_ENDED)
        for stream in session.streams:
            stream.over.set()
        if self.leave is not None:
            self.leave(session.visa.values())
        if session.revision.has_event_ids:
            self.replay.forget(session.id)

    def attach(self, session: Session, reply: StreamReply, caller: Caller) -> NewsStream:
        """Make this the session's GET stream for news; those that are there already stay open.

        Clients open another as soon as one ends, so two of one session must not end each other.
        The session watches no more what the caller, by its present token, may not read.
        """
        for key in tuple(session.watched):
            if not self.may_hear(key, caller):
                self.unwatch(session, key)
        stream = NewsStream(reply, caller)
        session.streams.append(stream)
        if len(session.streams) > MOST_STREAMS:
            session.streams[0].over.set()
        if session.revision.has_event_ids and session.news_log is None:
            session.news_log = self.new_log(session)
        return stream

    def detach(self, session: Session, stream: NewsStream) -> None:
        """A stream is over."""
        if stream in session.streams:
            session.streams.remove(stream)
            self.touch(session)

    def new_log(self, session: Session) -> EventLog:
        """The memory of one more resumable stream of a session."""
        name = f"{self._life}{next(self._stream_names):x}"
        return self.replay.open(name, owner=session.id)

    def watch(self, session: Session, key: str, uri: str) -> None:
        """Tell a session of each change of a resource.

        Raises:
            Conflict: BUSY, it watches as many as it may.
        """
        if key not in session.watched and len(session.watched) >= MAX_WATCHED:
            raise Conflict(
                f"A session watches {MAX_WATCHED} resources at most.",
                code=ErrorCode.BUSY,
                remedy="Unsubscribe from some.",
            )
        session.watched[key] = uri
        self._watchers.setdefault(key, set()).add(session)

    def unwatch(self, session: Session, key: str) -> None:
        """Tell it no more; one that it does not watch is ignored."""
        watchers = self._watchers.get(key)
        uri = session.watched.pop(key, None)
        if uri is None or watchers is None:
            return
        session.pending.pop(updated_bytes(uri), None)
        watchers.discard(session)
        if not watchers:
            del self._watchers[key]

    def listen(self, callback: Callable[[Announcement], None]) -> Callable[[], None]:
        """Call back at each news (a ``subscriptions/listen`` stream); returns how to end that."""
        self._listeners.add(callback)
        return lambda: self._listeners.discard(callback)

    def announce(self, news: Announcement) -> None:
        """Give news to every session that it concerns, and to every listener."""
        if news.key:
            for session in tuple(self._watchers.get(news.key, ())):
                if session.stream and not self.may_hear(news.key, session.stream.caller):
                    self.unwatch(session, news.key)
                    continue
                payload = updated_bytes(session.watched[news.key])
                self._tell(session, payload, encode_event(payload))
        else:
            payload = change_bytes(news.method)
            framed = encode_event(payload)
            for session in self._sessions.values():
                self._tell(session, payload, framed)
        for callback in tuple(self._listeners):
            callback(news)

    def note_gap(self, session: Session) -> None:
        """A session has missed what nobody remembers: have it look at everything anew."""
        for method in (TOOLS_CHANGED, RESOURCES_CHANGED):
            session.pending[change_bytes(method)] = None
        for uri in session.watched.values():
            session.pending[updated_bytes(uri)] = None

    def deliver_pending(self, session: Session) -> None:
        """Give a session that has just opened its stream the news that waited for it."""
        pending = tuple(session.pending)
        session.pending.clear()
        for payload in pending:
            self._tell(session, payload, encode_event(payload))

    async def run(self) -> None:
        """Expire idle sessions until cancelled; owned by the surface."""
        pause_s = min(LONGEST_LOOK_S, self.idle_s / LOOKS_PER_IDLE)
        while True:
            await self.clock.sleep(pause_s)
            self.expire()

    def expire(self) -> None:
        """End every session that has been idle for too long; of idle ones remember less."""
        now_s = self.clock.monotonic()
        for session in tuple(self._sessions.values()):
            idle_s = now_s - session.last_used_s
            if idle_s < min(self.idle_s, REMEMBERED_FOR_S):
                return
            # What few ask again takes memory: some kilobytes for each of them.
            session.repeats.clear()
            if idle_s >= self.idle_s and self._is_expired(session, now_s):
                self.end(session, SessionEvent.EXPIRED)

    def close(self) -> None:
        """End every session."""
        for session in tuple(self._sessions.values()):
            self.end(session, SessionEvent.SHUT_DOWN)

    def _tell(self, session: Session, payload: bytes, framed: bytes) -> None:
        stream = session.stream
        if stream is None or not stream.reply.is_open:
            session.pending[payload] = None
        elif stream.reply.is_full:
            # It has not read for long; a broken stream it will notice, silence it would not.
            session.pending[payload] = None
            stream.reply.cut()
            stream.over.set()
        elif session.news_log is None:
            stream.reply.write(framed)
        else:
            stream.reply.write(session.news_log.frame(payload))

    def _is_expired(self, session: Session, now_s: float) -> bool:
        return now_s - session.last_used_s >= self.idle_s and not session.is_busy

    def _make_room(self, held_by: str) -> None:
        """End a session where the caller has its share, or there are as many as there may be."""
        own = self._held.get(held_by, {})
        if len(own) >= self._share:
            if not self._end_newest(own):
                raise Conflict(
                    f"{held_by} has {len(own)} sessions, as many as one caller may have, and each "
                    "has a call, a stream, a lease or an open unit.",
                    code=ErrorCode.BUSY,
                    remedy="End some, or let the owner raise MAX_SESSIONS.",
                )
        elif len(self._sessions) >= self.max_sessions:
            by_number = sorted(self._held.values(), key=len, reverse=True)
            if not any(self._end_newest(held) for held in by_number):
                raise Conflict(
                    f"All {self.max_sessions} sessions have a call, a stream, a lease or an open "
                    "unit.",
                    code=ErrorCode.BUSY,
                    remedy="Try again later, or let the owner raise MAX_SESSIONS.",
                )

    def _end_newest(self, held: Iterable[Session]) -> bool:
        """End the newest of a caller's sessions that nobody misses; false where there is none.

        Of many the very newest stay: their clients have just opened them, and will use them now.
        """
        holders = self.lease_keys()
        spare = [
            session
            for session in held
            if not (session.is_busy or session.visa or session.lease_key in holders)
        ]
        if not spare:
            return False
        self.end(spare[-min(len(spare), 1 + self._share // 10)], SessionEvent.EXPIRED)
        return True
