"""Streams: one command measured on a grid, each by a task of its own that lives in the daemon.

A stream sends nothing by itself: each point goes through the command path as the caller who started
the stream. Its length never shows in memory: statistics run along, points go to the listeners, to
the recording and into a short ring, and are gone. The states are ``states.py``'s.

An instrument's error or loss ends a stream as failed, with what was measured; being overtaken by
what makes the bench safe, or finding the line's mailbox full, only costs the grid point.

Source: docs/promises.md section 7.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final

from edged.actions.action import Progress, StartStream
from edged.actions.outcome import Outcome
from edged.errors import Conflict, ErrorCode, NotFound
from edged.profiles.model import Command
from edged.record import record
from edged.runs.registry import Registry, RunsOfKind
from edged.runs.run import Ending
from edged.runs.run_head import RunHead, RunKind
from edged.runs.states import RunEvent
from edged.runs.streams.grid import Grid
from edged.runs.streams.statistics import Point, array_name, columns_of, point_of
from edged.runs.streams.stream import Stream
from edged.runs.streams.waveforms import WaveformRegistry
from edged.runs.wording import DURATION_REACHED, stopped_by
from edged.yaml.tree import Scalar

DEFAULT_INTERVAL_MS: Final = 500
DEFAULT_DURATION_MS: Final = 10_000
MOST_ON_ONE: Final = 16
"""Streams of one instrument: they share its line with everybody else's calls."""
MOST: Final = 256
"""Streams at once; each keeps a file open."""
COSTS_A_POINT: Final = frozenset({ErrorCode.PREEMPTED, ErrorCode.BUSY})


@record
class StreamNews:
    """Something happened to a stream; ``what`` is started, point or ended."""

    what: str
    stream_id: str
    data: Mapping[str, Any]


class Streams(RunsOfKind[Stream]):
    """What starts streams, tells of them and stops them.

    Args:
        waveforms: where captured traces are.
    """

    kind = RunKind.STREAM

    def __init__(self, runs: Registry, *, waveforms: WaveformRegistry) -> None:
        super().__init__(runs)
        self._waveforms = waveforms

    def running(self) -> list[dict[str, Any]]:
        """What get_status tells of each running stream."""
        going = self._going()
        return [stream.told() for stream in going] if going else []

    async def start(
        self,
        action: StartStream,
        instrument_id: str,
        command: Command,
        values: Mapping[str, Scalar],
    ) -> dict[str, Any]:
        """Measure; to the end, or in the background if the action says ``detach``.

        Returns:
            start_stream's result.

        Raises:
            Conflict: BUSY, so many streams run that another would be in the others' way.
            Failed: the instrument failed; ``data`` is the result with what was measured.
            asyncio.CancelledError: the caller went away; the stream is over by then.
        """
        self._refuse_too_many(instrument_id)
        stream = self._make(action, instrument_id, command, values)
        self._runs.live(stream, self._live(stream))
        self._publish("started", stream, stream.told())
        if stream.is_detached:
            # Not ``answer``: it has measured nothing yet, whatever the loop has done meanwhile.
            return {"stream_id": stream.run_id, "count": 0, "last": None, "status": "running"}
        await self._runs.attend(stream)
        if stream.failure is not None:
            raise stream.failed(stream.failure)
        return stream.answer()

    async def stop(self, stream_id: str, who: str) -> dict[str, Any]:
        """End one stream.

        Returns:
            {status, reason}: terminated; of a stream that was over already its own end.

        Raises:
            NotFound: UNKNOWN_STREAM.
        """
        stream = self.find(stream_id)
        await self._runs.stop(stream, Ending.wished(RunEvent.STOP, stopped_by(who)))
        return {"status": stream.status, "reason": stream.reason or None}

    def show(self, stream_id: str, after: int = 0) -> dict[str, Any]:
        """How a stream stands, with its points after number ``after``, as far as they are kept.

        Raises:
            NotFound: UNKNOWN_STREAM.
        """
        stream = self.find(stream_id)
        points = [{"number": n, **shown} for n, shown in stream.recent if n > after]
        return {**stream.told(), **stream.answer(), "points": points, "error": stream.error}

    def find(self, stream_id: str) -> Stream:
        """A stream that runs or is remembered.

        Raises:
            NotFound: UNKNOWN_STREAM.
        """
        stream = self._get(stream_id)
        if stream is not None:
            return stream
        running = ", ".join(one.run_id for one in self._going()) or "none"
        raise NotFound(
            f"There is no stream {stream_id[:100]!r}.",
            code=ErrorCode.UNKNOWN_STREAM,
            data={"stream_id": stream_id[:100]},
            remedy=f"Running now: {running}.",
        )

    def _refuse_too_many(self, instrument_id: str) -> None:
        going = self._going()
        on_it = sum(1 for one in going if one.head.instrument_id == instrument_id)
        if on_it < MOST_ON_ONE and len(going) < MOST:
            return
        raise Conflict(
            f"{on_it} streams measure {instrument_id} already, of {len(going)} in all; "
            f"{MOST_ON_ONE} may measure one instrument, and {MOST} run in all.",
            data={"running": len(going), "on_this": on_it},
            remedy="get_status lists them; end one by stop_stream.",
        )

    def _make(
        self,
        action: StartStream,
        instrument_id: str,
        command: Command,
        values: Mapping[str, Scalar],
    ) -> Stream:
        wishes = action.arguments
        stream_id = f"mcp-{secrets.token_hex(5)}"
        caller = action.caller.nested(tool=action.tool, scope=command.name, on_behalf_of=stream_id)
        interval_ms = int(wishes.get("interval_ms", DEFAULT_INTERVAL_MS))
        duration_ms = int(wishes.get("duration_ms", DEFAULT_DURATION_MS))
        return Stream(
            head=RunHead(
                kind=RunKind.STREAM,
                run_id=stream_id,
                instrument_id=instrument_id,
                command_name=command.name,
                columns=columns_of(command),
                caller=caller,
                parameters=dict(values),
                details={"interval_ms": interval_ms, "duration_ms": duration_ms},
            ),
            caller=caller,
            began=self._bench.clock.monotonic(),
            started_ms=self._bench.clock.wall_ms(),
            action=action,
            command=command,
            interval_ms=interval_ms,
            duration_ms=duration_ms,
            is_detached=bool(wishes.get("detach", False)),
        )

    async def _live(self, stream: Stream) -> None:
        """The whole life of a stream."""
        stream.sink = await self._runs.recorder.open(stream.head)
        ending = await stream.until_ended(self._measure(stream))
        if stream.ending is None:
            stream.failure = ending.failure
        event = ending.event
        if stream.failure is not None:
            event = RunEvent.FAILURE
            stream.reason, stream.error = "", stream.failure.message
        elif event is RunEvent.DONE:
            stream.reason = DURATION_REACHED
        stream.move(event)
        await stream.sink.close(stream.status, stream.summary())
        self._publish("ended", stream, stream.answer())

    async def _measure(self, stream: Stream) -> Ending:
        """Take the points of the grid; gives why that is over.

        Raises:
            asyncio.CancelledError: ``Stream.end`` has cut it.
        """
        grid = Grid(
            start_s=self._bench.clock.monotonic(),
            interval_ms=stream.interval_ms,
            duration_ms=stream.duration_ms,
        )
        number = -1
        try:
            while stream.ending is None and stream.failure is None:
                due = grid.after(number, self._bench.clock.monotonic())
                if due is None:
                    break
                wait_s = due.at_s - self._bench.clock.monotonic()
                if wait_s > 0:
                    stream.is_waiting = True
                    await self._bench.clock.sleep(wait_s)
                    stream.is_waiting = False
                stream.skipped += due.number - number - 1
                number = due.number
                await self._take_point(stream)
            return Ending(event=RunEvent.DONE, failure=stream.failure)
        finally:
            stream.is_waiting = False
            stream.skipped += grid.missed_after(number, self._bench.clock.monotonic())

    async def _take_point(self, stream: Stream) -> None:
        timestamp_ms, began = self._bench.clock.wall_ms(), self._bench.clock.monotonic()
        try:
            outcome = await self._bench.perform(stream.question(self._bench.new_id()))
        finally:
            if stream.cutter is not None:
                stream.cutter.cancel()
        if outcome.error is None:
            stream.busy_s += self._bench.clock.monotonic() - began
            self._take(stream, outcome, timestamp_ms)
        elif outcome.error.code in COSTS_A_POINT:
            stream.skipped += 1
            stream.missed_by = outcome.error.message
        else:
            stream.failure = outcome.error

    def _take(self, stream: Stream, outcome: Outcome, timestamp_ms: int) -> None:
        point = point_of(stream.command, outcome.data, timestamp_ms)
        stream.count += 1
        stream.noted.add(outcome.data.get("notes", ()))
        stream.last = point.shown
        stream.recent.append((stream.count, point.shown))
        if point.primary is not None:
            stream.stats.add(point.primary)
        self._record(stream, point, outcome.data["data"])
        progress = stream.action.progress
        is_heard = stream.ending is None or stream.ending.event is not RunEvent.CLIENT_GONE
        if progress is not None and is_heard:
            meta = {"stream_id": stream.run_id}
            if not progress(Progress(progress=stream.count, message=point.json(), meta=meta)):
                stream.dropped += 1
        self._publish("point", stream, {"number": stream.count, **point.shown})

    def _record(self, stream: Stream, point: Point, data: Any) -> None:
        if stream.sink is None:
            return
        stream.sink.append(point.row)
        if isinstance(data, Mapping) and "point_index" in data and "y_dtype" in data:
            index = data["point_index"]
            waveform = self._waveforms.get(stream.run_id, index)
            stream.sink.append_samples(array_name(index), waveform.type_code, waveform.samples)

    def _publish(self, what: str, stream: Stream, data: Mapping[str, Any]) -> None:
        news = StreamNews(what=what, stream_id=stream.run_id, data=data)
        self._runs.publish(self.kind, news)
