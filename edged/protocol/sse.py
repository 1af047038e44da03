"""Server-sent events: framing, ids, and the bounded memory that lets a broken stream go on.

Source: the HTML standard, "Server-sent events"; MCP 2025-11-25 ``basic/transports``, resumability.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Final

from edged.record import record

KEEP_ALIVE: Final = b": keep-alive\n\n"
"""A comment: holds the connection open and is no event."""

_LINE_ENDS: Final = re.compile(rb"\r\n|\r|\n")
_EVENT_ID: Final = re.compile(r"([A-Za-z0-9_]{1,64})-([0-9]{1,15})")


def _has_line_end(data: bytes) -> bool:
    return b"\n" in data or b"\r" in data


def encode_event(
    data: bytes, *, name: str = "message", event_id: str = "", retry_ms: int | None = None
) -> bytes:
    """One event as bytes.

    Args:
        data: UTF-8; line ends in it are framed so that the reader gets them back as LF.
        name: the event's type; empty for an event that has none.
        event_id: empty for none; has no line ends and no NUL.
        retry_ms: how long the client should wait before it connects again.
    """
    if name == "message" and not event_id and retry_ms is None and not _has_line_end(data):
        # A point of a stream: nearly every event is one of these.
        return b"event: message\ndata: %b\n\n" % data
    lines = []
    if name:
        lines.append(b"event: " + name.encode("ascii"))
    if event_id:
        lines.append(b"id: " + event_id.encode("ascii"))
    if retry_ms is not None:
        lines.append(b"retry: %d" % retry_ms)
    lines.extend(b"data: " + line for line in _LINE_ENDS.split(data))
    return b"\n".join(lines) + b"\n\n"


@record
class EventId:
    """The id of one event: its stream, and its number there from 1 (0: before the first)."""

    stream: str
    number: int

    def __str__(self) -> str:
        return f"{self.stream}-{self.number}"

    @classmethod
    def parse(cls, text: str) -> EventId | None:
        """The id in a ``Last-Event-ID`` header; ``None`` when it is none of ours."""
        found = _EVENT_ID.fullmatch(text)
        return None if found is None else cls(stream=found[1], number=int(found[2]))


@record
class Replay:
    """What a client missed.

    Attributes:
        events: framed, in order, ids included.
        is_complete: nothing between the client's last event and the first of these was evicted.
        is_finished: the stream has ended; after these nothing comes.
    """

    stream: str
    events: tuple[bytes, ...]
    is_complete: bool
    is_finished: bool


@record(frozen=False)
class _Stream:
    """One stream's share of the buffer; ``last`` is the number given out last.

    ``events`` is a tuple until there is one: most streams wait for hours, and a deque is 700 bytes.
    """

    owner: str
    last: int = 0
    is_finished: bool = False
    events: deque[tuple[int, bytes]] | tuple[()] = ()

    def keep(self, framed: bytes) -> None:
        """One more event, of the number given out last."""
        if isinstance(self.events, tuple):
            self.events = deque()
        self.events.append((self.last, framed))

    def drop_oldest(self) -> int:
        """Forget one; gives what it weighed."""
        if isinstance(self.events, tuple):
            return 0
        _, framed = self.events.popleft()
        return len(framed)


class ReplayBuffer:
    """The latest events of all resumable streams, bounded as a whole; the oldest go first.

    Args:
        max_events: over all streams.
        max_bytes: over all streams; an event larger than this is not kept at all.
    """

    def __init__(self, *, max_events: int = 20_000, max_bytes: int = 32 * 1024 * 1024) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._streams: dict[str, _Stream] = {}
        # By owner, so that the end of one session does not look at the streams of all.
        self._names: dict[str, set[str]] = {}
        # Every kept event's stream, oldest first; may name streams that are forgotten by now.
        self._order: deque[str] = deque()
        self._bytes = 0

    @property
    def held_bytes(self) -> int:
        """What the kept events weigh."""
        return self._bytes

    def open(self, name: str, *, owner: str) -> EventLog:
        """Begin a stream.

        Args:
            name: unique for ever, of ``A-Z a-z 0-9 _``, at most 64 characters.
            owner: the session; nobody else can resume the stream.
        """
        self._streams[name] = _Stream(owner=owner)
        self._names.setdefault(owner, set()).add(name)
        return EventLog(buffer=self, stream=name)

    def add(self, name: str, payload: bytes) -> bytes:
        """Frame the next event of a stream and keep it; a forgotten stream's is only framed."""
        stream = self._streams.get(name)
        if stream is None:
            return encode_event(payload)
        stream.last += 1
        framed = encode_event(payload, event_id=str(EventId(stream=name, number=stream.last)))
        stream.keep(framed)
        self._order.append(name)
        self._bytes += len(framed)
        while self._order and (
            len(self._order) > self._max_events or self._bytes > self._max_bytes
        ):
            self._evict(self._order.popleft())
        return framed

    def finish(self, name: str) -> None:
        """Mark a stream as ended; what it kept stays until it is evicted or forgotten."""
        stream = self._streams.get(name)
        if stream is None:
            return
        stream.is_finished = True
        if not stream.events:
            self._drop(name, stream)

    def after(self, last: EventId, *, owner: str) -> Replay | None:
        """What followed an event; ``None`` for a stream that is unknown or another session's."""
        stream = self._streams.get(last.stream)
        if stream is None or stream.owner != owner or last.number > stream.last:
            return None
        first_kept = stream.events[0][0] if stream.events else stream.last + 1
        return Replay(
            stream=last.stream,
            events=tuple(framed for number, framed in stream.events if number > last.number),
            is_complete=first_kept <= last.number + 1,
            is_finished=stream.is_finished,
        )

    def forget(self, owner: str) -> None:
        """Drop all streams of a session that has ended."""
        for name in tuple(self._names.get(owner, ())):
            stream = self._streams[name]
            self._bytes -= sum(len(framed) for _, framed in stream.events)
            self._drop(name, stream)

    def _evict(self, name: str) -> None:
        stream = self._streams.get(name)
        if stream is None:
            return
        self._bytes -= stream.drop_oldest()
        if stream.is_finished and not stream.events:
            self._drop(name, stream)

    def _drop(self, name: str, stream: _Stream) -> None:
        del self._streams[name]
        names = self._names[stream.owner]
        names.discard(name)
        if not names:
            del self._names[stream.owner]


@record
class EventLog:
    """One resumable stream: frames its events with ids and has them kept."""

    buffer: ReplayBuffer
    stream: str

    def frame(self, payload: bytes) -> bytes:
        """The next event."""
        return self.buffer.add(self.stream, payload)

    def prime(self) -> bytes:
        """An event with an id and no data, so that a client can resume before the first one."""
        return encode_event(b"", name="", event_id=str(EventId(stream=self.stream, number=0)))

    def finish(self) -> None:
        """Nothing more will come."""
        self.buffer.finish(self.stream)
