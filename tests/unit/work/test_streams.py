import asyncio
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.actions.action import Action, Progress, Purpose, RunCommand, StartStream
from edged.actions.caller import Caller, Route
from edged.actions.cause import ENGINE_STOPPED
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.errors import Conflict, ErrorCode, Failed, NotFound
from edged.profiles.model import Command, ListAnswer, ScalarAnswer
from edged.runs.registry import Registry
from edged.runs.run_head import RunHead
from edged.runs.states import STREAM, RunEvent
from edged.runs.streams.registry import MOST, MOST_ON_ONE, StreamNews, Streams
from edged.runs.streams.statistics import columns_of, point_of
from edged.runs.streams.stream import RECENT_POINTS
from edged.runs.streams.waveforms import WaveformRegistry
from edged.runs.wording import all_stopped_by, locked_out
from edged.scpi.kinds import AnswerType
from tests.bench.context import NoNotes, bench_of
from tests.bench.driven_clock import DrivenClock, settle
from tests.promises import promise

VOLTS = Command(
    name="measure",
    scpi=("MEAS?",),
    is_query=True,
    returns=ScalarAnswer(type=AnswerType.FLOAT, unit="V"),
)


class Sink:
    def __init__(self, head: RunHead) -> None:
        self.head = head
        self.rows: list[tuple[Any, ...]] = []
        self.closed: list[str] = []

    def append(self, row: Sequence[Any]) -> None:
        self.rows.append(tuple(row))

    def append_samples(self, name: str, type_code: str, samples: bytes) -> None:
        raise AssertionError(name)

    def told(self) -> dict[str, Any]:
        return {"run_id": self.head.run_id, "path": "/x", "rows": len(self.rows), "error": ""}

    async def close(self, status: str, summary: Mapping[str, Any] | None = None) -> None:
        self.closed.append(status)


class Lab:
    """Answers measurements after ``takes_s`` of driven time; records what was asked when."""

    def __init__(self) -> None:
        self.clock = DrivenClock()
        self.began = self.clock.monotonic()
        self.takes_s = 0.0
        self.asked: list[tuple[float, RunCommand]] = []
        self.answered = 0
        self.failing: dict[int, Failed] = {}
        self.values: Callable[[int], Any] = float
        self.sinks: list[Sink] = []
        self.unread: set[int] = set()
        self.gate: asyncio.Event | None = None
        ids = itertools.count()
        self.runs = Registry(
            bench_of(self.clock, perform=self.perform, new_id=lambda: f"a{next(ids)}"),
            recorder=self,
            notes=NoNotes(),
        )
        self.book = Streams(self.runs, waveforms=WaveformRegistry(1))

    async def open(self, head: RunHead) -> Sink:
        self.sinks.append(Sink(head))
        return self.sinks[-1]

    async def perform(self, action: Action) -> Outcome:
        assert isinstance(action, RunCommand)
        number = len(self.asked)
        self.asked.append((round(self.clock.monotonic() - self.began, 6), action))
        if self.gate is not None:
            await self.gate.wait()
        if self.takes_s:
            await self.clock.sleep(self.takes_s)
        if number in self.failing:
            return Outcome(status=OutcomeStatus.FAILED, error=self.failing[number])
        self.answered += 1
        return Outcome(status=OutcomeStatus.OK, data={"data": self.values(number), "unit": "V"})

    def start(self, *, instrument_id: str = "dmm", **wishes: Any) -> asyncio.Task[dict[str, Any]]:
        action = StartStream(
            tool="start_stream",
            caller=Caller(route=Route.DIRECT),
            action_id="outer",
            arguments=wishes,
            instrument_id=instrument_id,
            command_name="measure",
            progress=self.read,
        )
        return asyncio.create_task(self.book.start(action, instrument_id, VOLTS, {}))

    def read(self, point: Progress) -> bool:
        """A reader; too slow for the points of ``unread``."""
        if point.progress in self.unread:
            return False
        self.points.append(point)
        return True

    @property
    def points(self) -> list[Progress]:
        if not hasattr(self, "_points"):
            self._points: list[Progress] = []
        return self._points


STOPPED = {"status": "terminated", "reason": "stopped by alice"}


async def test_a_stream_measures_on_the_grid_and_tells_each_point() -> None:
    lab = Lab()
    task = lab.start(interval_ms=100, duration_ms=400)
    await lab.clock.advance(1.0)
    result = await task
    assert [at for at, _ in lab.asked] == [0.0, 0.1, 0.2, 0.3]
    assert (result["status"], result["count"]) == ("ended", 4)
    assert (result["reason"], result["notes"]) == ("duration reached", [])
    assert result["stats"]["mean"] == 1.5
    assert (result["stats"]["min"], result["stats"]["max"], result["stats"]["skipped"]) == (0, 3, 0)
    assert result["last"]["value"] == 3.0
    assert [p.progress for p in lab.points] == [1, 2, 3, 4]
    assert {p.meta["stream_id"] for p in lab.points} == {result["stream_id"]}
    assert json.loads(lab.points[0].message) == {
        "value": 0.0,
        "unit": "V",
        "timestamp_ms": lab.sinks[0].rows[0][0],
    }
    assert [row[1] for row in lab.sinks[0].rows] == [0.0, 1.0, 2.0, 3.0]
    assert lab.sinks[0].closed == ["ended"]


async def test_each_point_is_an_action_of_the_caller_inside_start_stream() -> None:
    lab = Lab()
    task = lab.start(interval_ms=100, duration_ms=100, parameters={})
    await lab.clock.advance(1.0)
    result = await task
    _, action = lab.asked[0]
    assert action.purpose is Purpose.STREAM_POINT
    assert action.parent_id == "outer"
    assert (action.caller.outer_tool, action.caller.outer_scope) == ("start_stream", "measure")
    assert action.caller.on_behalf_of == result["stream_id"]


async def test_a_slow_instrument_skips_grid_points_and_never_queues_them() -> None:
    lab = Lab()
    lab.takes_s = 0.25
    task = lab.start(interval_ms=100, duration_ms=1_000)
    await lab.clock.advance(3.0)
    result = await task
    # A point begins at most half an interval late; 0.25 s is not too late for the point at 0.2 s.
    assert [at for at, _ in lab.asked] == [0.0, 0.25, 0.5, 0.75]
    assert result["count"] == 4
    assert result["stats"]["skipped"] == 6
    assert result["notes"] == ["10 points were asked for, 4 came: one reading takes 0.25 s"]


async def test_stop_ends_a_stream_at_once_and_its_caller_gets_what_was_measured() -> None:
    lab = Lab()
    task = lab.start(interval_ms=1000, duration_ms=60_000)
    await lab.clock.advance(2.5)
    stream_id = lab.book.running()[0]["stream_id"]
    assert await lab.book.stop(stream_id, "alice") == STOPPED
    result = await task
    assert (result["status"], result["count"]) == ("terminated", 3)
    assert lab.sinks[0].closed == ["terminated"]
    assert lab.book.running() == []
    assert await lab.book.stop(stream_id, "alice") == STOPPED


async def test_stopping_a_stream_that_ended_tells_its_own_end() -> None:
    lab = Lab()
    task = lab.start(interval_ms=100, duration_ms=100)
    await lab.clock.advance(1.0)
    assert await lab.book.stop((await task)["stream_id"], "alice") == {
        "status": "ended",
        "reason": "duration reached",
    }


async def test_one_instruments_line_is_not_given_to_ever_more_streams() -> None:
    lab = Lab()
    started = [await lab.start(detach=True, duration_ms=3_600_000) for _ in range(MOST_ON_ONE)]
    with pytest.raises(Conflict, match="16 streams measure dmm already") as refused:
        await lab.start(detach=True)
    assert refused.value.code is ErrorCode.BUSY
    assert "stop_stream" in refused.value.remedy
    assert (await lab.start(instrument_id="psu", detach=True))["status"] == "running"
    await lab.book.stop(started[0]["stream_id"], "alice")
    assert (await lab.start(detach=True))["status"] == "running"
    await lab.runs.stop_all(all_stopped_by("alice"))


async def test_the_streams_of_all_instruments_together_have_a_bound() -> None:
    lab = Lab()
    for number in range(MOST):
        await lab.start(instrument_id=f"dmm{number}", detach=True, duration_ms=3_600_000)
    with pytest.raises(Conflict, match="256 run in all"):
        await lab.start(instrument_id="another", detach=True)
    assert len(lab.book.running()) == MOST
    await lab.runs.stop_all(all_stopped_by("alice"))


async def test_an_unknown_stream_is_named_with_those_that_run() -> None:
    lab = Lab()
    with pytest.raises(NotFound) as caught:
        await lab.book.stop("mcp-nothing", "alice")
    assert caught.value.code is ErrorCode.UNKNOWN_STREAM


@pytest.mark.promise("stream.client-gone")
async def test_a_client_that_goes_cancels_its_stream_within_one_interval() -> None:
    lab = Lab()
    task = lab.start(interval_ms=500, duration_ms=60_000)
    await lab.clock.advance(1.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lab.sinks[0].closed == ["cancelled"]
    asked = len(lab.asked)
    await lab.clock.advance(10.0)
    assert len(lab.asked) == asked


async def test_a_question_on_the_wire_may_be_answered_before_its_stream_is_cancelled() -> None:
    lab = Lab()
    lab.gate = asyncio.Event()
    task = lab.start(interval_ms=500, duration_ms=60_000)
    await settle()
    task.cancel()
    await settle()
    assert not task.done()
    lab.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lab.answered == 1
    assert lab.points == []
    assert lab.sinks[0].closed == ["cancelled"]


async def test_a_question_without_an_answer_is_cut_after_one_interval() -> None:
    lab = Lab()
    lab.gate = asyncio.Event()
    task = lab.start(interval_ms=20, duration_ms=60_000)
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(2.0):
            await task
    assert lab.answered == 0


async def test_an_instrument_that_fails_ends_its_stream_as_failed_with_what_was_measured() -> None:
    lab = Lab()
    lab.failing[2] = Failed("no answer", code=ErrorCode.TIMEOUT, sent=("MEAS?",))
    task = lab.start(interval_ms=100, duration_ms=1_000)
    await lab.clock.advance(2.0)
    with pytest.raises(Failed, match="after 2 points: no answer") as caught:
        await task
    assert caught.value.code is ErrorCode.TIMEOUT
    assert caught.value.sent == ("MEAS?",)
    assert (caught.value.data["status"], caught.value.data["count"]) == ("failed", 2)
    assert lab.sinks[0].closed == ["failed"]
    assert len(lab.asked) == 3


@pytest.mark.parametrize("code", [ErrorCode.PREEMPTED, ErrorCode.BUSY])
async def test_being_overtaken_costs_a_point_and_not_the_stream(code: ErrorCode) -> None:
    lab = Lab()
    lab.failing[1] = Failed("not now", code=code)
    task = lab.start(interval_ms=100, duration_ms=400)
    await lab.clock.advance(1.0)
    result = await task
    assert (result["status"], result["count"], result["stats"]["skipped"]) == ("ended", 3, 1)


async def test_a_detached_stream_answers_at_once_and_lives_on() -> None:
    lab = Lab()
    result = await lab.start(interval_ms=100, duration_ms=300, detach=True)
    assert result["count"] == 0
    assert (result["last"], result["status"]) == (None, "running")
    await lab.clock.advance(1.0)
    shown = lab.book.show(result["stream_id"])
    assert (shown["status"], shown["count"], len(shown["points"])) == ("ended", 3, 3)
    assert [p["number"] for p in lab.book.show(result["stream_id"], after=2)["points"]] == [3]


async def test_shutdown_terminates_every_stream() -> None:
    lab = Lab()
    tasks = [lab.start(interval_ms=1000, duration_ms=60_000) for _ in range(3)]
    await lab.clock.advance(1.5)
    assert len(await lab.runs.stop_all(ENGINE_STOPPED, event=RunEvent.SHUTDOWN)) == 3
    assert {(await task)["status"] for task in tasks} == {"terminated"}
    assert [sink.closed for sink in lab.sinks] == [["terminated"]] * 3


async def test_streams_of_one_instrument_can_be_ended_alone() -> None:
    lab = Lab()
    task = lab.start(interval_ms=1000, duration_ms=3_000)
    await lab.clock.advance(0.5)
    assert await lab.runs.stop_all(locked_out("dmm1"), "psu".__eq__) == []
    assert len(await lab.runs.stop_all(locked_out("dmm1"), "dmm".__eq__)) == 1
    assert (await task)["status"] == "terminated"


async def test_a_day_long_stream_keeps_no_more_than_its_last_points() -> None:
    lab = Lab()
    task = lab.start(interval_ms=10, duration_ms=20_000, detach=True)
    result = await task
    await lab.clock.advance(21.0)
    shown = lab.book.show(result["stream_id"])
    assert shown["count"] == 2000
    assert len(shown["points"]) == RECENT_POINTS


async def test_a_value_that_is_no_number_is_told_and_counts_in_no_statistics() -> None:
    lab = Lab()
    lab.values = lambda number: None if number == 1 else 2.0
    task = lab.start(interval_ms=100, duration_ms=300)
    await lab.clock.advance(1.0)
    result = await task
    assert (result["count"], result["stats"]["mean"]) == (3, 2.0)


async def test_listeners_hear_of_start_points_and_end() -> None:
    lab = Lab()
    heard: list[StreamNews] = []
    unsubscribe = lab.book.subscribe(heard.append)
    task = lab.start(interval_ms=100, duration_ms=200)
    await lab.clock.advance(1.0)
    await task
    assert [news.what for news in heard] == ["started", "point", "point", "ended"]
    unsubscribe()
    task = lab.start(interval_ms=100, duration_ms=100)
    await lab.clock.advance(1.0)
    await task
    assert len(heard) == 4


@given(
    orders=st.lists(
        st.tuples(st.sampled_from(["stop", "gone", "shutdown", "wait"]), st.floats(0.0, 0.4)),
        max_size=6,
    ),
    takes_s=st.floats(0.0, 0.3),
    fails_at=st.integers(0, 12),
)
@promise("stream.one-end")
async def test_whatever_happens_a_stream_ends_once_and_nothing_is_asked_afterwards(
    orders: list[tuple[str, float]], takes_s: float, fails_at: int
) -> None:
    lab = Lab()
    lab.takes_s = takes_s
    lab.failing[fails_at] = Failed("no answer", code=ErrorCode.TIMEOUT)
    task = lab.start(interval_ms=50, duration_ms=500)
    await settle()
    for order, after_s in orders:
        await lab.clock.advance(after_s)
        running = lab.book.running()
        match order:
            case "stop" if running:
                stopping = asyncio.create_task(lab.book.stop(running[0]["stream_id"], "alice"))
                await lab.clock.advance(1.0)
                await stopping
            case "gone":
                task.cancel()
            case "shutdown":
                ending = asyncio.create_task(
                    lab.runs.stop_all(ENGINE_STOPPED, event=RunEvent.SHUTDOWN)
                )
                await lab.clock.advance(1.0)
                await ending
            case _:
                continue
    await lab.clock.advance(3.0)
    await asyncio.gather(task, return_exceptions=True)
    (sink,) = lab.sinks
    assert len(sink.closed) == 1
    assert sink.closed[0] in {*STREAM.states.values()} - {"running"}
    assert len(sink.rows) == lab.answered
    asked = len(lab.asked)
    await lab.clock.advance(2.0)
    assert len(lab.asked) == asked
    assert lab.book.running() == []


@pytest.mark.promise("stream.slow-reader")
async def test_points_that_the_reader_was_too_slow_for_are_counted_and_recorded() -> None:
    lab = Lab()
    lab.unread = {2, 3}
    task = lab.start(interval_ms=100, duration_ms=500)
    await lab.clock.advance(1.0)
    result = await task
    assert (result["count"], result["dropped"]) == (5, 2)
    assert [p.progress for p in lab.points] == [1, 4, 5]
    assert len(lab.sinks[0].rows) == 5


def test_a_point_of_a_list_is_the_list_and_json_in_the_recording() -> None:
    command = Command(name="m", scpi=("R?",), is_query=True, returns=ListAnswer(unit="V"))
    data = {"data": [1.5, math.nan, None], "unit": "V", "flag": {"2": "no_value"}}
    point = point_of(command, data, 7)
    assert [column.name for column in columns_of(command)] == ["timestamp_ms", "value", "flag"]
    assert point.row == (7, "[1.5,null,null]", '{"2":"no_value"}')
    assert (point.shown["value"], point.primary) == ([1.5, None, None], None)


async def test_a_mistake_in_one_stream_ends_it_alone_and_names_the_log() -> None:
    lab = Lab()
    lab.values = lambda number: 1 / (number - 2)
    broken = lab.start(interval_ms=100, duration_ms=1000)
    other = lab.start(instrument_id="psu", interval_ms=300, duration_ms=1000)
    await lab.clock.advance(2.0)
    with pytest.raises(Failed, match="edged made a mistake") as failed:
        await broken
    stream_id = failed.value.data["stream_id"]
    assert failed.value.code is ErrorCode.INTERNAL
    assert stream_id in failed.value.message
    assert failed.value.data["status"] == "failed"
    assert (await other)["status"] == "ended"
    assert sorted(sink.closed[0] for sink in lab.sinks) == ["ended", "failed"]
