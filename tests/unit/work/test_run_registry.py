"""The registry of runs, with a kind of run that has two instruments and pauses."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection
from dataclasses import field
from typing import Any

import pytest

from edged.actions.action import Action
from edged.actions.caller import Caller, Route
from edged.errors import ErrorCode, Failed, NotFound
from edged.record import record
from edged.runs.registry import Late, Registry
from edged.runs.run import Ending, Run
from edged.runs.run_head import RunHead, RunKind
from edged.runs.states import SWEEP, RunEvent, RunState
from edged.runs.wording import all_stopped_by, locked_out
from tests.bench.context import NoNotes, bench_of
from tests.bench.driven_clock import DrivenClock, settle

CALLER = Caller(route=Route.DIRECT)
ACTION = Action(tool="pair", caller=CALLER, action_id="a")
ALICE = all_stopped_by("alice")


@record(frozen=False, eq=False)
class Pair(Run):
    """Works two instruments until it is told to end."""

    words = SWEEP
    most_ended = 2

    instruments: Collection[str] = ("psu1", "dmm1")
    wishes: asyncio.Queue[Ending] = field(default_factory=asyncio.Queue)

    @property
    def units(self) -> Collection[str]:
        return self.instruments

    def end(self, ending: Ending) -> None:
        self.wishes.put_nowait(ending)

    def notes(self, _now_s: float, /) -> list[str]:
        return []

    async def live(self) -> None:
        while self.state in {RunState.RUNNING, RunState.PAUSED}:
            ending = await self.wishes.get()
            self.move(ending.event)
            self.reason, self.error = ending.reason, ending.error


def registry() -> Registry:
    recorder: Any = None
    return Registry(bench_of(DrivenClock()), recorder=recorder, notes=NoNotes())


def started(runs: Registry, run_id: str = "pair-1", **fields: Any) -> Pair:
    head = RunHead(
        kind=RunKind.SWEEP,
        run_id=run_id,
        instrument_id="psu1",
        command_name="pair",
        columns=(),
        caller=CALLER,
    )
    run = Pair(head=head, action=ACTION, caller=CALLER, began=0.0, started_ms=1, **fields)
    runs.live(run, run.live())
    return run


@pytest.mark.parametrize("unit", ["psu1", "dmm1"])
async def test_a_stop_of_any_of_its_instruments_ends_a_run(unit: str) -> None:
    runs = registry()
    run = started(runs)
    assert await runs.stop_all(locked_out("load1"), "load1".__eq__) == []
    assert await runs.stop_all(locked_out(unit), unit.__eq__) == [run]
    assert (run.status, run.reason) == ("stopped", "the instrument was locked out")
    assert await runs.stop_all(ALICE) == []


async def test_a_run_whose_instrument_is_not_as_it_was_has_failed_by_that() -> None:
    runs = registry()
    run = started(runs)
    assert await runs.fail_all(ALICE, Failed("It tripped."), "dmm1".__eq__) == [run]
    assert (run.status, run.error, run.reason) == ("failed", "It tripped.", "")


async def test_stops_are_told_by_kind_and_counted() -> None:
    runs = registry()
    run = started(runs)
    assert await runs.stop_all(ALICE, kinds={RunKind.STREAM}) == []
    assert run.status == "running"
    assert (runs.halts, runs.halted_by) == (1, ALICE)
    await runs.close(0.5)
    assert (run.status, runs.is_closing) == ("stopped", True)


async def test_a_paused_run_is_under_way_until_it_is_stopped() -> None:
    runs = registry()
    run = started(runs)
    run.end(Ending.wished(RunEvent.PAUSE, ALICE))
    await settle()
    assert (run.status, runs.under_way("dmm1".__eq__)) == ("holding", [run])
    await runs.stop(run, Ending.wished(RunEvent.STOP, ALICE))
    assert (run.status, runs.under_way()) == ("stopped", [])
    await runs.stop(run, Ending.wished(RunEvent.FAILURE, ALICE))
    assert run.status == "stopped"


async def test_who_goes_away_ends_the_run_and_waits_for_that() -> None:
    runs = registry()
    run = started(runs)
    waiting = asyncio.create_task(runs.attend(run))
    await settle()
    run.end(Ending.wished(RunEvent.STOP, ALICE))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert run.ended.is_set()


async def test_the_oldest_that_are_over_are_forgotten_but_for_those_to_look_at() -> None:
    runs = registry()
    for number in range(4):
        run = started(runs, f"pair-{number}", needs_attention=number == 0)
        await runs.stop(run, Ending.wished(RunEvent.STOP, ALICE))
    assert [run.run_id for run in runs.known(RunKind.SWEEP)] == ["pair-0", "pair-2", "pair-3"]
    with pytest.raises(NotFound, match="'pair-1'") as unknown:
        runs.find("pair-1")
    assert unknown.value.code is ErrorCode.UNKNOWN_RUN
    assert "pair-" in unknown.value.remedy
    assert runs.find("pair-3").status == "stopped"


async def test_a_run_that_did_not_begin_leaves_no_trace() -> None:
    runs = registry()
    run = started(runs)
    other = Pair(head=run.head, action=ACTION, caller=CALLER, began=0.0, started_ms=1)
    await runs.stop(run, Ending.wished(RunEvent.STOP, ALICE))
    runs.add(other)
    assert runs.under_way() == [other]
    runs.drop(other)
    assert (runs.under_way(), other.ended.is_set()) == ([], True)


async def test_what_runs_work_with_comes_once_and_its_modules_before_it() -> None:
    made: list[str] = []

    def make() -> str:
        assert "edged.experiments.examples" in sys.modules
        made.append("book")
        return made[-1]

    sys.modules.pop("edged.experiments.examples", None)
    late = Late(registry(), "edged.experiments.examples", make)
    assert late.made is None
    assert await asyncio.gather(late.come(), late.come()) == ["book", "book"]
    assert (made, late.get(), late.made) == (["book"], "book", "book")


async def test_what_is_stopped_while_its_modules_come_does_not_begin() -> None:
    """Or a run would begin behind the STOP ALL that its caller was answered by."""
    runs = registry()
    late = Late(runs, "edged.experiments.examples", lambda: "book")
    coming = asyncio.create_task(late.come())
    await asyncio.sleep(0)
    await runs.stop_all(ALICE)
    with pytest.raises(Failed, match="The call was ended by stop all of alice") as stopped:
        await coming
    assert (stopped.value.code, late.made) == (ErrorCode.CANCELLED, None)
    assert await late.come() == "book"
