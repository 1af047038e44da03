"""One client's session: its GET stream, and whose it is. What becomes of it: ``sessions.py``."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Protocol

from edged.actions.caller import Caller, Route
from edged.protocol.revisions import Revision
from edged.protocol.session import SessionEvent, SessionId, SessionState, next_state
from edged.protocol.sse import EventLog
from edged.surfaces.mcp.calls import CallBook
from edged.surfaces.mcp.stream_reply import StreamReply

__all__ = ["Announcement", "NewsStream", "Owner", "Resumable", "Session"]


class Resumable(Protocol):
    """A POST's event stream whose reader may come back by a GET."""

    def resume(self, stream: StreamReply) -> asyncio.Event:
        """Write on there from now on; the event is set when all is written."""
        ...

    def lost(self, stream: StreamReply) -> None:
        """That reader is gone."""
        ...


@dataclass(frozen=True, slots=True)
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


class NewsStream:
    """The open GET stream of a session; ``over`` is set when it must end, whatever the reason."""

    __slots__ = ("over", "reply")

    def __init__(self, reply: StreamReply) -> None:
        self.reply = reply
        self.over = Over()


class Session:
    """One client's session.

    Attributes:
        label: names it in the audit; the id itself is a secret.
        owner: route and subject.
        calls: its calls in flight.
        news_log: keeps the GET stream's events for whoever resumes it.
        pending: notifications that wait for the next stream, each once.
        watched: the resources it watches: their key → the URI as the client spelled it.
        resumable: event streams of calls in flight, by the name of their log.
    """

    __slots__ = (
        "_caller",
        "_caller_here",
        "calls",
        "id",
        "label",
        "last_used_s",
        "news_log",
        "owner",
        "pending",
        "resumable",
        "revision",
        "state",
        "stream",
        "watched",
    )

    def __init__(
        self, *, session_id: SessionId, label: str, revision: Revision, owner: Owner, now_s: float
    ) -> None:
        self.id = session_id
        self.label = label
        self.revision = revision
        self.owner = owner
        self.state = SessionState.OPENED
        self.last_used_s = now_s
        self.calls = CallBook()
        self.stream: NewsStream | None = None
        self.pending: dict[bytes, None] = {}
        self.watched: dict[str, str] = {}
        self.news_log: EventLog | None = None
        self.resumable: dict[str, Resumable] = {}
        self._caller: Caller | None = None
        self._caller_here: Caller | None = None

    @property
    def is_busy(self) -> bool:
        """Whether it must not expire."""
        return self.stream is not None or len(self.calls) > 0

    def caller(self, caller: Caller) -> Caller:
        """The same caller, as of this session; made once for each that the guard gives."""
        if self._caller is not caller or self._caller_here is None:
            self._caller = caller
            self._caller_here = replace(caller, session_id=self.label)
        return self._caller_here

    def note(self, event: SessionEvent) -> None:
        """Something happened to it."""
        self.state = next_state(self.state, event)


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a session is."""

    route: Route
    subject: str

    @classmethod
    def of(cls, caller: Caller) -> Owner:
        """The owner that a caller is."""
        return cls(caller.route, caller.subject)
