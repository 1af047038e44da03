"""When a restart comes that waits for an idle moment, and when it does not."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from edged.engine.idle_restart import IdleRestart, under_way
from edged.errors import Conflict
from edged.runs.run_head import RunKind
from tests.bench.driven_clock import DrivenClock
from tests.promises import promise

SWEEP = {"sweep_id": "sweep-1", "instrument_id": "psu1", "status": "running"}


@dataclass
class Bench:
    """What runs, as a test has it."""

    sweeps: list[dict[str, Any]] = field(default_factory=list)
    streams: list[dict[str, Any]] = field(default_factory=list)
    sequences: list[dict[str, Any]] = field(default_factory=list)
    experiments: list[dict[str, Any]] = field(default_factory=list)
    calls: int = 0
    ended: int = 0

    def work(self) -> Any:
        return SimpleNamespace(
            sweeps=SimpleNamespace(active=lambda: tuple(self.sweeps)),
            streams=SimpleNamespace(running=lambda: self.streams),
            registry=SimpleNamespace(
                running={
                    RunKind.SEQUENCE: self.sequences,
                    RunKind.EXPERIMENT: self.experiments,
                }.__getitem__
            ),
        )

    def end(self) -> None:
        self.ended += 1

    def restart(self, clock: DrivenClock, *, is_supervised: bool = True) -> IdleRestart:
        return IdleRestart(
            clock,
            work=self.work(),
            calls=lambda: self.calls,
            is_supervised=is_supervised,
            end=self.end,
        )


@promise("restart.when-idle")
async def test_it_comes_when_the_last_thing_has_ended_and_not_before(
    driven_clock: DrivenClock,
) -> None:
    bench = Bench(sweeps=[SWEEP])
    restart = bench.restart(driven_clock)
    methods = restart.methods()
    told = await methods["restart.begin"]({"within_s": 100})
    assert told == {
        "state": "waiting",
        "under_way": ["sweep sweep-1 on psu1 (running)"],
        "left_s": 100.0,
    }
    await driven_clock.advance(50)
    assert bench.ended == 0
    bench.sweeps.clear()
    await driven_clock.advance(1)
    assert bench.ended == 1
    assert (await methods["restart.status"]({}))["state"] == "restarting"
    await restart.stop()


async def test_it_is_given_up_when_its_time_is_over(driven_clock: DrivenClock) -> None:
    bench = Bench(sweeps=[SWEEP])
    restart = bench.restart(driven_clock)
    await restart.methods()["restart.begin"]({"within_s": 10})
    await driven_clock.advance(11)
    assert (await restart.methods()["restart.status"]({}))["state"] == "given_up"
    bench.sweeps.clear()
    await driven_clock.advance(5)
    assert bench.ended == 0


async def test_it_can_be_taken_back(driven_clock: DrivenClock) -> None:
    bench = Bench(calls=1)
    restart = bench.restart(driven_clock)
    await restart.methods()["restart.begin"]({})
    assert (await restart.methods()["restart.cancel"]({}))["state"] == "cancelled"
    bench.calls = 0
    await driven_clock.advance(5)
    assert bench.ended == 0


async def test_whoever_asks_how_far_it_is_hears_of_the_next_change(
    driven_clock: DrivenClock,
) -> None:
    bench = Bench(sweeps=[SWEEP], streams=[{"stream_id": "mcp-1", "instrument_id": "dmm1"}])
    restart = bench.restart(driven_clock)
    await restart.methods()["restart.begin"]({})
    asked = asyncio.ensure_future(restart.methods()["restart.status"]({"wait_s": 30}))
    await driven_clock.advance(1)
    assert not asked.done()
    bench.sweeps.clear()
    await driven_clock.advance(1)
    assert (await asked)["under_way"] == ["stream mcp-1 on dmm1"]
    await restart.stop()


async def test_an_engine_that_nobody_starts_again_refuses(driven_clock: DrivenClock) -> None:
    restart = Bench().restart(driven_clock, is_supervised=False)
    with pytest.raises(Conflict, match="without a supervisor"):
        await restart.methods()["restart.begin"]({})


@pytest.mark.parametrize(
    ("bench", "expected"),
    [
        (Bench(), 0),
        (Bench(sweeps=[{**SWEEP, "status": "holding"}]), 1),
        (Bench(sweeps=[{**SWEEP, "status": "failed", "abort": {"state": "pending"}}]), 1),
        (Bench(sweeps=[{**SWEEP, "status": "failed", "abort": {"state": "given_up"}}]), 0),
        (Bench(experiments=[{"experiment": "map"}]), 1),
        (Bench(sequences=[{"sequence_name": "s", "instrument_id": "psu1"}], calls=1), 1),
        (Bench(calls=2), 1),
    ],
)
def test_what_counts_as_under_way(bench: Bench, expected: int) -> None:
    assert len(under_way(bench.work(), bench.calls)) == expected
