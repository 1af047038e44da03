"""What bench__runs tells of a run that goes on while it is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from edged.actions.caller import Caller, Route
from edged.actions.outcome import Done
from edged.operations.runs import ReadRuns, RunOperations
from edged.runs.run_head import RunHead, RunKind, RunNow


@dataclass
class Stream:
    """A stream whose last row comes, and which ends, while the rows before are written."""

    taken: int = 396
    written: int = 0
    state: str = "running"

    def runs(self) -> tuple[RunNow, ...]:
        head = cast("RunHead", Head())
        return (RunNow(head=head, state=self.state, started_ms=1, rows=self.taken),)

    def end(self) -> None:
        self.taken += 1
        self.state = "ended"


@dataclass
class Head:
    run_id: str = "mcp-1"
    kind: RunKind = RunKind.STREAM
    caller: Caller = field(default_factory=lambda: Caller(route=Route.DIRECT))


@dataclass
class Recordings:
    """Their rows are on the disk as far as they had been taken when that was asked for."""

    stream: Stream
    meanwhile: list[Callable[[], None]] = field(default_factory=list)

    async def written(self, _run_id: str) -> None:
        self.stream.written = self.stream.taken
        while self.meanwhile:
            self.meanwhile.pop()()

    async def read_run(self, _caller: Caller, _function: object, *_: object) -> dict[str, Any]:
        return {
            "meta": {"kind": "stream", "status": self.stream.state},
            "columns": ["n"],
            "units": [""],
            "rows": [[number] for number in range(self.stream.written)],
            "total_rows": self.stream.written,
            "statistics": None,
        }


async def test_a_run_that_ends_while_it_is_read_is_not_told_as_over_without_its_last_row() -> None:
    stream = Stream()
    parts: Any = {
        "runs": Recordings(stream, [stream.end]),
        "registry": stream,
        "waveforms": None,
        "artist": None,
    }
    operations = RunOperations(**parts)
    action = ReadRuns(
        tool="bench__runs",
        caller=Caller(route=Route.INTERNAL),
        action_id="a-1",
        arguments={"run_id": "mcp-1"},
    )

    async def told() -> Any:
        done = await operations.read(action, cast("Any", None), 0.0)
        assert isinstance(done, Done)
        return done.data

    first = await told()
    assert (first["state"], first["total_rows"]) == ("running", 396)
    second = await told()
    assert (second["state"], second["total_rows"]) == ("ended", 397)


@dataclass
class Sequences:
    def runs(self) -> tuple[RunNow, ...]:
        head = cast("RunHead", Head(run_id="seq-1", kind=RunKind.SEQUENCE))
        return (RunNow(head=head, state="completed", started_ms=1, result={"last_V": 5.0}),)


@dataclass
class Unclosed:
    """A recording that has not been told of the end of its run."""

    async def written(self, _run_id: str) -> None:
        return None

    async def read_run(self, _caller: Caller, _function: object, *_: object) -> dict[str, Any]:
        return {
            "meta": {"kind": "sequence", "status": "running"},
            "columns": [],
            "units": [],
            "rows": [],
            "total_rows": 0,
            "statistics": None,
        }


async def test_the_result_of_a_sequence_that_is_over_is_told_before_its_recording_has_it() -> None:
    parts: Any = {
        "runs": Unclosed(),
        "registry": Sequences(),
        "waveforms": None,
        "artist": None,
    }
    action = ReadRuns(
        tool="bench__runs",
        caller=Caller(route=Route.INTERNAL),
        action_id="a-1",
        arguments={"run_id": "seq-1"},
    )
    done = await RunOperations(**parts).read(action, cast("Any", None), 0.0)
    assert isinstance(done, Done)
    assert (done.data["state"], done.data["result"]) == ("completed", {"last_V": 5.0})
