"""Streams: one command measured on a grid, each by a task of its own that lives in the daemon.

A stream sends nothing by itself: each point goes through the command path as the caller who started
the stream. Its length never shows in memory: statistics run along, points go to the listeners, to
the recording and into a short ring, and are gone. The states are ``states.STREAM``.

An instrument's error or loss ends a stream as failed, with what was measured; being overtaken by
what makes the bench safe, or finding the line's mailbox full, only costs the grid point.

Source: docs/promises.md section 7.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from edged.actions.action import Progress, StartStream
from edged.actions.cause import CALLER_GONE, ENGINE_STOPPED, Cause, cause_of
from edged.actions.outcome import Outcome
from edged.errors import Conflict, EdgedError, ErrorCode, Fault, NotFound
from edged.profiles.model import Command
from edged.record import record
from edged.runs.bench import Bench
from edged.runs.ports import Recorder
from edged.runs.run_head import RunNow
from edged.runs.states import StreamEvent, StreamState, next_stream_state
from edged.runs.streams.grid import Grid
from edged.runs.streams.statistics import Point, array_name, point_of
from edged.runs.streams.stream import Stream
from edged.runs.streams.waveforms import WaveformRegistry
from edged.runs.wording import DURATION_REACHED, stopped_by
from edged.yaml.tree import Scalar

DEFAULT_INTERVAL_MS: Final = 500
DEFAULT_DURATION_MS: Final = 10_000
MAX_REMEMBERED: Final = 1_000
"""Streams that are over and whose end is still told."""
MOST_ON_ONE: Final = 16
"""Streams of one instrument: they share its line with everybody else's calls."""
MOST: Final = 256
"""Streams at once; each keeps a file open."""
POINTS_REMEMBERED: Final = 20
"""Of these, the ones whose last points are."""
LONGEST_GRACE_S: Final = 1.0
"""A measurement on the wire may end by itself for one interval, and never longer than this."""
COSTS_A_POINT: Final = frozenset({ErrorCode.PREEMPTED, ErrorCode.BUSY})


@record
class StreamNews:
    """Something happened to a stream; ``what`` is started, point or ended."""

    what: str
    stream_id: str
    data: Mapping[str, Any]


class StreamRegistry:
    """The streams that are running, and how the last ones ended.

    Args:
        waveforms: where captured traces are.
        recorder: opens recordings.
    """

    def __init__(self, bench: Bench, *, waveforms: WaveformRegistry, recorder: Recorder) -> None:
        self._bench = bench
        self._waveforms = waveforms
        self._recorder = recorder
        self._running: dict[str, Stream] = {}
        self._over: OrderedDict[str, Stream] = OrderedDict()
        self._listeners: list[Callable[[StreamNews], None]] = []
        self._log = structlog.get_logger("edged.streams")

    def running(self) -> list[dict[str, Any]]:
        """What get_status tells of each running stream."""
        return [stream.told() for stream in self._running.values()]

    def runs(self) -> tuple[RunNow, ...]:
        """Those that run or are remembered, as runs."""
        return tuple(
            RunNow(
                head=stream.head(),
                state=stream.state.value,
                started_ms=stream.started_ms,
                rows=stream.count,
                reason=stream.reason,
                error=stream.error.message if stream.error else "",
                notes=tuple(stream.notes()),
            )
            for stream in (*self._over.values(), *self._running.values())
        )

    def subscribe(self, listener: Callable[[StreamNews], None]) -> Callable[[], None]:
        """Tell of everything that happens to streams; gives what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

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
        self._running[stream.stream_id] = stream
        stream.task = asyncio.create_task(self._live(stream), name=stream.stream_id)
        self._publish("started", stream, stream.told())
        if stream.is_detached:
            # Not ``result``: it has measured nothing yet, whatever the loop has done meanwhile.
            return {"stream_id": stream.stream_id, "count": 0, "last": None, "status": "running"}
        try:
            await asyncio.shield(stream.task)
        except asyncio.CancelledError as cancelled:
            self._end(stream, StreamEvent.CLIENT_GONE, cause_of(cancelled))
            await _over(stream.task)
            raise
        if stream.error is not None:
            raise stream.failure(stream.error)
        return stream.result()

    async def stop(self, stream_id: str, who: str) -> dict[str, Any]:
        """End one stream.

        Returns:
            {status, reason}: terminated; of a stream that was over already its own end.

        Raises:
            NotFound: UNKNOWN_STREAM.
        """
        stream = self.find(stream_id)
        self._end(stream, StreamEvent.STOP, stopped_by(who))
        if stream.task is not None:
            await asyncio.shield(stream.task)
        return {"status": stream.state.value, "reason": stream.reason or None}

    async def stop_all(
        self,
        cause: Cause,
        event: StreamEvent = StreamEvent.STOP,
        *,
        instrument_id: str | None = None,
    ) -> list[str]:
        """End every stream, or those on one instrument; returns their ids when they are over."""
        ending = [
            stream
            for stream in self._running.values()
            if instrument_id is None or stream.instrument_id == instrument_id
        ]
        for stream in ending:
            self._end(stream, event, cause)
        tasks = [stream.task for stream in ending if stream.task is not None]
        if tasks:
            await asyncio.wait(tasks)
        return [stream.stream_id for stream in ending]

    def show(self, stream_id: str, after: int = 0) -> dict[str, Any]:
        """How a stream stands, with its points after number ``after``, as far as they are kept.

        Raises:
            NotFound: UNKNOWN_STREAM.
        """
        stream = self.find(stream_id)
        points = [{"number": n, **shown} for n, shown in stream.recent if n > after]
        told = {**stream.told(), **stream.result(), "points": points}
        told["error"] = stream.error.message if stream.error else ""
        return told

    def find(self, stream_id: str) -> Stream:
        """A stream that runs or is remembered.

        Raises:
            NotFound: UNKNOWN_STREAM.
        """
        stream = self._running.get(stream_id) or self._over.get(stream_id)
        if stream is None:
            running = ", ".join(self._running) or "none"
            raise NotFound(
                f"There is no stream {stream_id[:100]!r}.",
                code=ErrorCode.UNKNOWN_STREAM,
                data={"stream_id": stream_id[:100]},
                remedy=f"Running now: {running}.",
            )
        return stream

    def _refuse_too_many(self, instrument_id: str) -> None:
        on_it = sum(1 for one in self._running.values() if one.instrument_id == instrument_id)
        if on_it < MOST_ON_ONE and len(self._running) < MOST:
            return
        raise Conflict(
            f"{on_it} streams measure {instrument_id} already, of {len(self._running)} in all; "
            f"{MOST_ON_ONE} may measure one instrument, and {MOST} run in all.",
            data={"running": len(self._running), "on_this": on_it},
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
        return Stream(
            stream_id=stream_id,
            action=action,
            values=values,
            instrument_id=instrument_id,
            command=command,
            caller=action.caller.nested(
                tool=action.tool, scope=command.name, on_behalf_of=stream_id
            ),
            interval_ms=int(wishes.get("interval_ms", DEFAULT_INTERVAL_MS)),
            duration_ms=int(wishes.get("duration_ms", DEFAULT_DURATION_MS)),
            is_detached=bool(wishes.get("detach", False)),
            started_ms=self._bench.clock.wall_ms(),
        )

    async def _live(self, stream: Stream) -> None:
        """The whole life of a stream; never raises."""
        event = StreamEvent.ELAPSED
        try:
            stream.recording = await self._recorder.open(stream.head())
            event = await self._measure(stream)
        except asyncio.CancelledError:
            event = stream.ending or StreamEvent.SHUTDOWN
            stream.reason = stream.reason or ENGINE_STOPPED.reason
        except EdgedError as error:
            event, stream.error = StreamEvent.FAILURE, error
        except Exception as bug:  # noqa: BLE001 - a bug in one stream must not take others along
            self._log.error("internal_fault", fault_id=stream.action.action_id, exc_info=bug)
            event = StreamEvent.FAILURE
            stream.error = Fault(
                "edged made a mistake; this stream has ended.",
                data={"fault_id": stream.action.action_id},
            )
        if stream.error is not None:
            stream.reason = ""
        elif event is StreamEvent.ELAPSED:
            stream.reason = DURATION_REACHED
        stream.state = next_stream_state(stream.state, event)
        await self._close(stream)

    async def _measure(self, stream: Stream) -> StreamEvent:
        """Take the points of the grid; gives why that is over.

        Raises:
            EdgedError: a point failed.
            asyncio.CancelledError: ``_end`` has cut it.
        """
        grid = Grid(
            start_s=self._bench.clock.monotonic(),
            interval_ms=stream.interval_ms,
            duration_ms=stream.duration_ms,
        )
        number = -1
        try:
            while stream.ending is None:
                due = grid.after(number, self._bench.clock.monotonic())
                if due is None:
                    return StreamEvent.ELAPSED
                wait_s = due.at_s - self._bench.clock.monotonic()
                if wait_s > 0:
                    stream.is_waiting = True
                    await self._bench.clock.sleep(wait_s)
                    stream.is_waiting = False
                stream.skipped += due.number - number - 1
                number = due.number
                await self._take_point(stream)
            return stream.ending
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
        if outcome.error is not None:
            if outcome.error.code in COSTS_A_POINT:
                stream.skipped += 1
                stream.missed_by = outcome.error.message
                return
            raise outcome.error
        stream.busy_s += self._bench.clock.monotonic() - began
        self._take(stream, outcome, timestamp_ms)

    def _take(self, stream: Stream, outcome: Outcome, timestamp_ms: int) -> None:
        point = point_of(stream.command, outcome.data, timestamp_ms)
        stream.count += 1
        stream.noted.add(outcome.data.get("notes", ()))
        stream.last = point.shown
        stream.recent.append((stream.count, point.shown))
        if point.primary is not None:
            stream.stats.add(point.primary)
        self._record(stream, point, outcome.data["data"])
        sink = stream.action.progress
        if sink is not None and stream.ending is not StreamEvent.CLIENT_GONE:
            meta = {"stream_id": stream.stream_id}
            if not sink(Progress(progress=stream.count, message=point.json(), meta=meta)):
                stream.dropped += 1
        self._publish("point", stream, {"number": stream.count, **point.shown})

    def _record(self, stream: Stream, point: Point, data: Any) -> None:
        if stream.recording is None:
            return
        stream.recording.append(point.row)
        if isinstance(data, Mapping) and "point_index" in data and "y_dtype" in data:
            index = data["point_index"]
            waveform = self._waveforms.get(stream.stream_id, index)
            stream.recording.append_samples(array_name(index), waveform.type_code, waveform.samples)

    def _end(self, stream: Stream, event: StreamEvent, cause: Cause) -> None:
        """Have a running stream end: at once between points, else when its measurement is over.

        A question that has gone out is given time for its answer, so that the instrument is idle
        afterwards and not left with an answer that nobody reads.
        """
        if stream.state is not StreamState.RUNNING or stream.ending is not None:
            return
        stream.ending, stream.reason = event, cause.reason or CALLER_GONE.reason
        task = stream.task
        if task is None:
            return
        if stream.is_waiting:
            task.cancel(cause)
        elif stream.recording is not None:
            grace_s = min(stream.interval_ms / 1000, LONGEST_GRACE_S)
            stream.cutter = asyncio.get_running_loop().call_later(grace_s, task.cancel, cause)

    async def _close(self, stream: Stream) -> None:
        if stream.recording is not None:
            summary = {
                "count": stream.count,
                "stats": stream.statistics(),
                "reason": stream.reason,
                "notes": stream.notes(),
            }
            if stream.error is not None:
                summary["error"] = stream.error.message
            await stream.recording.close(stream.state.value, summary)
        del self._running[stream.stream_id]
        self._over[stream.stream_id] = stream
        if len(self._over) > POINTS_REMEMBERED:
            list(self._over.values())[-POINTS_REMEMBERED - 1].recent.clear()
        if len(self._over) > MAX_REMEMBERED:
            self._over.popitem(last=False)
        self._publish("ended", stream, stream.result())

    def _publish(self, what: str, stream: Stream, data: Mapping[str, Any]) -> None:
        if self._listeners:
            news = StreamNews(what=what, stream_id=stream.stream_id, data=data)
            for listener in tuple(self._listeners):
                listener(news)


async def _over(task: asyncio.Task[None]) -> None:
    """Wait until a task is over, whoever cancels meanwhile."""
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            continue
