"""The ring of the last exchanges of a line: what went out, what came back, and when.

Written by the actor's thread, read from anywhere: a ``deque`` with a bound takes both.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from edged.clock import Clock
from edged.record import record
from edged.scpi.answer_text import clean_text

RING_LENGTH: Final = 1_000
KEPT_BYTES: Final = 4 * 1024
"""What is kept of one exchange: a screenful of SCPI, and the head of a waveform."""

TAIL_LENGTH: Final = 6
TAIL_BYTES: Final = 120
"""What a failure carries along: the last exchanges, a line of each."""


class Direction(enum.StrEnum):
    """Which way the bytes went; ``NOTE`` is something that happened to the line itself."""

    SENT = "sent"
    RECEIVED = "received"
    DISCARDED = "discarded"
    NOTE = "note"


@record
class TraceEntry:
    """One entry.

    Attributes:
        at_ms: Unix epoch milliseconds.
        data: at most ``KEPT_BYTES`` of what moved; ``size`` is how many there were.
    """

    at_ms: int
    direction: Direction
    data: bytes | bytearray
    size: int

    def as_json(self) -> dict[str, object]:
        """The form that RPC and the CLI show."""
        return {
            "timestamp_ms": self.at_ms,
            "direction": self.direction.value,
            "text": self.data.decode("ascii", errors="backslashreplace"),
            "bytes": self.size,
        }


Entries = deque[tuple[int, Direction, bytes | bytearray, int]]


class JobWatch(Protocol):
    """Who is told what becomes of one job."""

    def taken(self) -> None:
        """Its turn has come, perhaps again; or nobody waits for it any more."""
        ...

    def sent(self, size: int) -> None:
        """So many bytes go out."""
        ...

    def received(self, size: int) -> None:
        """So many bytes have come."""
        ...

    def over(self) -> None:
        """It was served."""
        ...


JobWatchOf = Callable[[str], JobWatch | None]
"""By the name of a job that is about to wait; ``None``: nobody wants to be told."""


class Trace:
    """The last ``RING_LENGTH`` exchanges of one line.

    Attributes:
        watch: told of what moves, while the job that it is for is served.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Plain tuples, because the hot path appends two an exchange; oldest fall out.
        self._ring: Entries = deque(maxlen=RING_LENGTH)
        # Where what moves now is noted.
        self._into = self._ring
        self.watch: JobWatch | None = None

    def add(self, direction: Direction, data: bytes | bytearray) -> None:
        """Note what moved."""
        self._into.append(
            (self._clock.wall_ns() // 1_000_000, direction, data[:KEPT_BYTES], len(data))
        )
        if self.watch is not None:
            if direction is Direction.SENT:
                self.watch.sent(len(data))
            elif direction is Direction.RECEIVED:
                self.watch.received(len(data))

    def note(self, text: str) -> None:
        """Note what happened to the line."""
        self.add(Direction.NOTE, text.encode("utf-8", errors="replace"))

    @contextmanager
    def aside(self) -> Iterator[Entries]:
        """What moves meanwhile comes in at the end, but for what is taken out of what this gives.

        By the line's work only.
        """
        held: Entries = deque(maxlen=RING_LENGTH)
        self._into = held
        try:
            yield held
        finally:
            self._into = self._ring
            self._ring.extend(held)

    def tail(self) -> list[dict[str, object]]:
        """The last few exchanges, shortened and cleaned: for the data of a failure."""
        last = list(self._ring)[-TAIL_LENGTH:]
        return [
            {
                "timestamp_ms": at_ms,
                "direction": direction.value,
                "text": clean_text(data[:TAIL_BYTES].decode("ascii", errors="replace")),
                "bytes": size,
            }
            for at_ms, direction, data, size in last
        ]

    def exchanges(self) -> list[TraceEntry]:
        """A copy, oldest first."""
        return [
            TraceEntry(at_ms=at_ms, direction=direction, data=data, size=size)
            for at_ms, direction, data, size in list(self._ring)
        ]
