"""The session board: who is here, whose each session is, and news for each of them.

A session belongs to the route and subject that opened it; to anybody else its id does not exist. It
expires when idle, which it is not while a call runs or its stream is open. News (list_changed) goes
to every session: at once where a stream is open, else once with the next stream.

Source: SPEC.md section 3, "Sessions"; MCP-REVISIONS.md section 2.
"""

from __future__ import annotations

import itertools
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from edged.actions.caller import Caller
from edged.clock import Clock
from edged.errors import Conflict, ErrorCode
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
    make_session_id,
)
from edged.protocol.sse import EventLog, ReplayBuffer, encode_event
from edged.surfaces.mcp.calls import CallEnd
from edged.surfaces.mcp.session import Announcement, NewsStream, Owner, Session
from edged.surfaces.mcp.stream_reply import StreamReply

__all__ = ["SessionBoard"]

LONGEST_LOOK_S: Final = 30.0
"""Between two looks for expired sessions; short idle times are looked for more often."""
LOOKS_PER_IDLE: Final = 4


class SessionBoard:
    """All sessions, the longest unused first.

    Args:
        clock: for idleness.
        idle_s: SESSION_IDLE_SEC.
        max_sessions: MAX_SESSIONS; the oldest idle one makes room.
        replay: where resumable streams keep their events.
    """

    def __init__(
        self, *, clock: Clock, idle_s: float, max_sessions: int, replay: ReplayBuffer
    ) -> None:
        self._clock = clock
        self._idle_s = idle_s
        self._max_sessions = max_sessions
        self._replay = replay
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._labels = itertools.count(1)
        # Ids of streams must never come again, in another life of the daemon neither.
        self._life = secrets.token_hex(4)
        self._stream_names = itertools.count(1)
        self._listeners: set[Callable[[Announcement], None]] = set()
        self._watchers: dict[str, set[Session]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, revision: Revision, caller: Caller) -> Session:
        """A new session.

        Raises:
            Conflict: BUSY, there are MAX_SESSIONS and each has a call or a stream.
        """
        if len(self._sessions) >= self._max_sessions:
            self._evict_one()
        session = Session(
            session_id=make_session_id(secrets.token_bytes(2 * MIN_ID_BYTES)),
            label=f"mcp-{self._life}-{next(self._labels)}",
            revision=revision,
            owner=Owner.of(caller),
            now_s=self._clock.monotonic(),
        )
        self._sessions[session.id] = session
        return session

    def find(self, session_id: str | None, caller: Caller) -> Session | None:
        """A caller's own live session, which this counts as a use of."""
        session = self._sessions.get(session_id) if session_id else None
        if session is None or session.owner != Owner.of(caller):
            return None
        now_s = self._clock.monotonic()
        if self._is_expired(session, now_s):
            self.end(session, SessionEvent.EXPIRED)
            return None
        self._use(session, now_s)
        return session

    def touch(self, session: Session) -> None:
        """A call or stream of it has just ended; it is idle from now, not from its beginning."""
        if session.id in self._sessions:
            self._use(session, self._clock.monotonic())

    def end(self, session: Session, event: SessionEvent) -> None:
        """End a session, its stream and its calls."""
        if self._sessions.pop(session.id, None) is None:
            return
        session.note(event)
        for key in tuple(session.watched):
            self.unwatch(session, key)
        stopping = event is SessionEvent.SHUT_DOWN
        session.calls.end_all(CallEnd.STOPPING if stopping else CallEnd.CANCELLED)
        if session.stream is not None:
            session.stream.over.set()
        if session.revision.has_event_ids:
            self._replay.forget(session.id)

    def attach(self, session: Session, reply: StreamReply) -> NewsStream:
        """Make this the session's GET stream; one that is there already is ended."""
        stream = NewsStream(reply)
        if session.stream is not None:
            session.stream.over.set()
        session.stream = stream
        if session.revision.has_event_ids and session.news_log is None:
            session.news_log = self.new_log(session)
        return stream

    def detach(self, session: Session, stream: NewsStream) -> None:
        """A stream is over."""
        if session.stream is stream:
            session.stream = None
            self.touch(session)

    def new_log(self, session: Session) -> EventLog:
        """The memory of one more resumable stream of a session."""
        name = f"{self._life}{next(self._stream_names):x}"
        return self._replay.open(name, owner=session.id)

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
            for session in self._watchers.get(news.key, ()):
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
        pause_s = min(LONGEST_LOOK_S, self._idle_s / LOOKS_PER_IDLE)
        while True:
            await self._clock.sleep(pause_s)
            self.expire()

    def expire(self) -> None:
        """End every session that has been idle for too long."""
        now_s = self._clock.monotonic()
        for session in tuple(self._sessions.values()):
            if now_s - session.last_used_s < self._idle_s:
                return
            if self._is_expired(session, now_s):
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

    def _use(self, session: Session, now_s: float) -> None:
        session.last_used_s = now_s
        self._sessions.move_to_end(session.id)

    def _is_expired(self, session: Session, now_s: float) -> bool:
        return now_s - session.last_used_s >= self._idle_s and not session.is_busy

    def _evict_one(self) -> None:
        """The longest unused session without call or stream goes; else one without call."""
        for is_spared in (lambda s: s.is_busy, lambda s: len(s.calls) > 0):
            for session in self._sessions.values():
                if not is_spared(session):
                    self.end(session, SessionEvent.EXPIRED)
                    return
        raise Conflict(
            f"All {self._max_sessions} sessions have calls in flight.",
            code=ErrorCode.BUSY,
            remedy="Try again later, or let the owner raise MAX_SESSIONS.",
        )
