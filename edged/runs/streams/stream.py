"""One stream: what it is, how it stands, and how that is told. What it does is ``streams.py``'s."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import field
from typing import Any, Final

from edged.actions.action import Purpose, RunCommand, StartStream
from edged.actions.cause import CALLER_GONE
from edged.errors import EdgedError, Failed
from edged.profiles.model import Command
from edged.record import record
from edged.runs.notes import PointNotes, notes_of_fewer
from edged.runs.run import Ending, Run
from edged.runs.running_stats import RunningStats
from edged.runs.states import STREAM, RunState

RECENT_POINTS: Final = 256
"""Kept of a stream for those who look on."""
MOST_REMEMBERED: Final = 1_000
"""Streams that are over and whose end is still told."""
POINTS_REMEMBERED: Final = 20
"""Of these, the ones whose last points are."""
LONGEST_GRACE_S: Final = 1.0
"""A measurement on the wire may end by itself for one interval, and never longer than this."""


@record(frozen=False, eq=False)
class Stream(Run):
    """One stream.

    Attributes:
        failure: the error of the instrument that ended it.
        busy_s: what its readings have taken together.
        noted: what was said of single points.
        dropped: points that the one who started it was too slow to be told.
        is_waiting: between two points, where it can be cut at once.
        cutter: cuts a measurement that outlasts its grace.
        recent: the last points with their numbers from 1.
        missed_by: the message of the last point that failed.
    """

    words = STREAM
    most_ended = MOST_REMEMBERED

    action: StartStream
    command: Command
    interval_ms: int
    duration_ms: int
    is_detached: bool
    count: int = 0
    skipped: int = 0
    dropped: int = 0
    last: dict[str, Any] | None = None
    stats: RunningStats = field(default_factory=RunningStats)
    recent: deque[tuple[int, dict[str, Any]]] = field(
        default_factory=lambda: deque(maxlen=RECENT_POINTS)
    )
    failure: EdgedError | None = None
    missed_by: str = ""
    busy_s: float = 0.0
    noted: PointNotes = field(default_factory=PointNotes)
    is_waiting: bool = False
    cutter: asyncio.TimerHandle | None = None

    @property
    def row_count(self) -> int:
        return self.count

    def end(self, ending: Ending) -> None:
        """At once between points, else when its measurement is over.

        A question that has gone out is given time for its answer, so that the instrument is idle
        afterwards and not left with an answer that nobody reads.
        """
        if self.state is not RunState.RUNNING or self.ending is not None or self.task is None:
            return
        self.ending, self.reason = ending, ending.cause.reason or CALLER_GONE.reason
        if self.body is not None and self.is_waiting:
            self.body.cancel(ending.cause)
        elif self.body is not None:
            grace_s = min(self.interval_ms / 1000, LONGEST_GRACE_S)
            loop = asyncio.get_running_loop()
            self.cutter = loop.call_later(grace_s, self.body.cancel, ending.cause)

    def fade(self, newer: int) -> None:
        if newer >= POINTS_REMEMBERED:
            self.recent.clear()

    def question(self, action_id: str) -> RunCommand:
        """One measurement, as an action of whoever started the stream."""
        return self.act(
            RunCommand,
            action_id,
            self.head.instrument_id,
            Purpose.STREAM_POINT,
            command_name=self.command.name,
            parameters=self.action.parameters,
        )

    def statistics(self) -> dict[str, Any]:
        """{mean, std, min, max, skipped}."""
        return {**self.stats.told(), "skipped": self.skipped}

    def notes(self, _now_s: float = 0.0, /) -> list[str]:
        fewer = notes_of_fewer(
            self.count, self.skipped, self.interval_ms / 1000, self.busy_s, self.missed_by
        )
        return [*fewer, *self.noted.told(self.count)]

    def answer(self) -> dict[str, Any]:
        """The result of start_stream, as of now."""
        return {
            "stream_id": self.run_id,
            "count": self.count,
            "last": self.last,
            "status": self.status,
            "reason": self.reason or None,
            "notes": self.notes(),
            "stats": self.statistics(),
            "dropped": self.dropped,
            "recording": self.sink.told() if self.sink else None,
        }

    def told(self) -> dict[str, Any]:
        """Its entry in get_status."""
        return {
            "stream_id": self.run_id,
            "instrument_id": self.head.instrument_id,
            "command_name": self.command.name,
            "interval_ms": self.interval_ms,
            "duration_ms": self.duration_ms,
            "status": self.status,
            "count": self.count,
            "skipped": self.skipped,
            "last": self.last,
            "started_ms": self.started_ms,
            "is_detached": self.is_detached,
            "who": self.caller.who,
        }

    def summary(self) -> dict[str, Any]:
        """What its recording ends with."""
        error = {"error": self.error} if self.error else {}
        return {
            "count": self.count,
            "stats": self.statistics(),
            "reason": self.reason,
            "notes": self.notes(),
            **error,
        }

    def failed(self, cause: EdgedError) -> Failed:
        """The error that start_stream ends with; ``data`` is the result with what was measured."""
        return Failed(
            f"The stream {self.run_id} failed after {self.count} points: {cause.message}",
            code=cause.code,
            data=self.answer(),
            remedy=cause.remedy,
            sent=cause.sent if isinstance(cause, Failed) else (),
        )
