"""A day's stream in constant memory: 24 hours at 1 Hz, as fast as this machine goes.

The real stream and recording code on a clock that does not wait: 86,400 points through statistics,
the ring, the listeners, the progress sink and the files on disk. Memory is looked at each virtual
hour; the first is left out, because buffers and caches fill in it.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import psutil

from benchmarks.figures import Figure, parse_json_flag, tell
from edged.actions.action import Action, Progress, StartStream
from edged.actions.caller import Caller, Route
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.profiles.model import Command, ScalarAnswer
from edged.runs.recordings.registry import RunRegistry
from edged.runs.registry import Registry
from edged.runs.streams.registry import Streams
from edged.runs.streams.waveforms import WaveformRegistry
from edged.scpi.kinds import AnswerType
from tests.bench.context import NoNotes, bench_of
from tests.bench.driven_clock import DrivenClock
from tests.bench.fake_instruments import FakePool

HOURS: Final = 24
HOUR_S: Final = 3_600
STRIDE_S: Final = 30
"""Virtual seconds between two moments at which the thread that writes may catch up."""
MOST_GROWTH_KIB: Final = 2_048.0
VOLTS: Final = Command(
    name="measure",
    scpi=("MEAS?",),
    is_query=True,
    returns=ScalarAnswer(type=AnswerType.FLOAT, unit="V"),
)


class Day:
    """One stream, its recording, and what they cost."""

    def __init__(self, directory: Path) -> None:
        self.clock = DrivenClock()
        self.told = 0
        self.resident_kib: list[float] = []
        self._numbers = itertools.count()
        bench = bench_of(
            self.clock,
            data_dir=directory,
            data_budget_mb=1_000,
            pool=FakePool(),
            new_id=lambda: f"a{next(self._numbers)}",
            perform=self._answer,
        )
        self.runs = RunRegistry(bench)
        self.streams = Streams(
            Registry(bench, recorder=self.runs, notes=NoNotes()), waveforms=WaveformRegistry(1)
        )
        self.streams.subscribe(lambda _news: None)

    async def run(self, hours: int) -> dict[str, Any]:
        """The whole stream; start_stream's result."""
        self.runs.start()
        action = StartStream(
            tool="start_stream",
            caller=Caller(route=Route.DIRECT),
            action_id="day",
            arguments={"interval_ms": 1_000, "duration_ms": hours * HOUR_S * 1_000},
            instrument_id="DMM::1",
            command_name="measure",
            progress=self._read,
        )
        task = asyncio.create_task(self.streams.start(action, "DMM::1", VOLTS, {}))
        process = psutil.Process()
        for _ in range(hours):
            for _ in range(HOUR_S // STRIDE_S):
                await self.clock.advance(STRIDE_S)
                await asyncio.sleep(0.001)
            self.resident_kib.append(process.memory_info().rss / 1024)
        while not task.done():
            await self.clock.advance(1)
            await asyncio.sleep(0.001)
        result = await task
        await self.runs.stop()
        return result

    async def _answer(self, _action: Action) -> Outcome:
        number = next(self._numbers)
        return Outcome(status=OutcomeStatus.OK, data={"data": 5 + number % 7 * 1e-3, "unit": "V"})

    def _read(self, _point: Progress) -> bool:
        self.told += 1
        return True


def growth_kib(resident_kib: list[float]) -> float:
    """How much more there was at the end than after the first hour."""
    return resident_kib[-1] - resident_kib[0]


def main() -> int:
    as_json = parse_json_flag(__doc__)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as directory:
        day = Day(Path(directory))
        result = asyncio.run(day.run(HOURS))
        size = sum(path.stat().st_size for path in Path(directory).rglob("data.csv"))
    figures = (
        Figure(name="points measured", value=result["count"], unit=""),
        Figure(name="points skipped", value=result["stats"]["skipped"], unit="", bound=0),
        Figure(name="points told", value=day.told, unit=""),
        Figure(name="recorded", value=size / 1e6, unit="MB"),
        Figure(name="took", value=time.perf_counter() - began, unit="s"),
        Figure(name="memory after the first hour", value=day.resident_kib[0] / 1024, unit="MiB"),
        Figure(
            name="growth over the other 23 hours",
            value=growth_kib(day.resident_kib),
            unit="KiB",
            bound=MOST_GROWTH_KIB,
        ),
    )
    return tell("a day's stream at 1 Hz", figures, as_json=as_json)


if __name__ == "__main__":
    raise SystemExit(main())
