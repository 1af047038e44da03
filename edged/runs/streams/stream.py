"""One stream: what it is, how it stands, and how that is told. What it does is ``streams.py``'s."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from edged.actions.action import Purpose, RunCommand, StartStream
from edged.actions.caller import Caller
from edged.errors import EdgedError, Failed
from edged.profiles.model import Command
from edged.record import record
from edged.runs.notes import PointNotes, notes_of_fewer
from edged.runs.ports import RowSink
from edged.runs.run_head import RunHead, RunKind
from edged.runs.running_stats import RunningStats
from edged.runs.states import StreamEvent, StreamState
from edged.runs.streams.statistics import columns_of
from edged.yaml.tree import Scalar

RECENT_POINTS: Final = 256
"""Kept of a stream for those who look on."""


@record(frozen=False)
class Stream:
    """One stream.

    Attributes:
        values: the command's parameters, validated, defaults included.
        ending: what is to end it, once that is known.
        reason: why it ended, where nothing went wrong.
        busy_s: what its readings have taken together.
        noted: what was said of single points.
        dropped: points that the one who started it was too slow to be told.
        is_waiting: between two points, where it can be cut at once.
        cutter: cuts a measurement that outlasts its grace.
        recent: the last points with their numbers from 1.
    """

    stream_id: str
    action: StartStream
    values: Mapping[str, Scalar]
    instrument_id: str
    command: Command
    caller: Caller
    interval_ms: int
    duration_ms: int
    is_detached: bool
    started_ms: int
    state: StreamState = StreamState.RUNNING
    count: int = 0
    skipped: int = 0
    dropped: int = 0
    last: dict[str, Any] | None = None
    stats: RunningStats = field(default_factory=RunningStats)
    recent: deque[tuple[int, dict[str, Any]]] = field(
        default_factory=lambda: deque(maxlen=RECENT_POINTS)
    )
    recording: RowSink | None = None
    error: EdgedError | None = None
    # The message of the last point that failed.
    missed_by: str = ""
    ending: StreamEvent | None = None
    reason: str = ""
    busy_s: float = 0.0
    noted: PointNotes = field(default_factory=PointNotes)
    is_waiting: bool = False
    cutter: asyncio.TimerHandle | None = None
    task: asyncio.Task[None] | None = None

    def head(self) -> RunHead:
        """What its recording begins with."""
        return RunHead(
            kind=RunKind.STREAM,
            run_id=self.stream_id,
            instrument_id=self.instrument_id,
            command_name=self.command.name,
            columns=columns_of(self.command),
            caller=self.caller,
            parameters=dict(self.values),
            details={"interval_ms": self.interval_ms, "duration_ms": self.duration_ms},
        )

    def question(self, action_id: str) -> RunCommand:
        """One measurement, as an action of whoever started the stream."""
        return RunCommand(
            tool=self.action.tool,
            caller=self.caller,
            action_id=action_id,
            parent_id=self.action.action_id,
            instrument_id=self.instrument_id,
            command_name=self.command.name,
            parameters=self.action.parameters,
            purpose=Purpose.STREAM_POINT,
        )

    def statistics(self) -> dict[str, Any]:
        """{mean, std, min, max, skipped}."""
        return {**self.stats.told(), "skipped": self.skipped}

    def notes(self) -> list[str]:
        """What is true of its points and misleads who does not know it."""
        fewer = notes_of_fewer(
            self.count, self.skipped, self.interval_ms / 1000, self.busy_s, self.missed_by
        )
        return [*fewer, *self.noted.told(self.count)]

    def result(self) -> dict[str, Any]:
        """The result of start_stream, as of now."""
        return {
            "stream_id": self.stream_id,
            "count": self.count,
            "last": self.last,
            "status": self.state.value,
            "reason": self.reason or None,
            "notes": self.notes(),
            "stats": self.statistics(),
            "dropped": self.dropped,
            "recording": self.recording.told() if self.recording else None,
        }

    def told(self) -> dict[str, Any]:
        """Its entry in get_status."""
        return {
            "stream_id": self.stream_id,
            "instrument_id": self.instrument_id,
            "command_name": self.command.name,
            "interval_ms": self.interval_ms,
            "duration_ms": self.duration_ms,
            "status": self.state.value,
            "count": self.count,
            "skipped": self.skipped,
            "last": self.last,
            "started_ms": self.started_ms,
            "is_detached": self.is_detached,
            "who": self.caller.who,
        }

    def failure(self, cause: EdgedError) -> Failed:
        """The error that start_stream ends with; ``data`` is the result with what was measured."""
        return Failed(
            f"The stream {self.stream_id} failed after {self.count} points: {cause.message}",
            code=cause.code,
            data=self.result(),
            remedy=cause.remedy,
            sent=cause.sent if isinstance(cause, Failed) else (),
        )
