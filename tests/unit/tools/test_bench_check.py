"""What bench__check tells, over units and a path that are made up."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from edged.actions.action import NamedAction
from edged.actions.caller import Caller, Route
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.commands.memory import Memory
from edged.commands.target import Target
from edged.errors import EdgedError, ErrorCode, Failed
from edged.operations.bench_check import ANSWER_S, BenchCheck, CheckUnit
from tests.bench.context import bench_of
from tests.bench.driven_clock import DrivenClock
from tests.bench.shipped import shipped_library
from tests.promises import promise

PROFILES = shipped_library().profiles
NOTHING: dict[str, list[Any]] = {
    "sweeps": [],
    "streams": [],
    "sequences": [],
    "experiments": [],
    "lockouts": [],
    "leases": [],
    "approvals": [],
    "interlocks": [],
    "budgets": [],
}


@dataclass(kw_only=True)
class Unit:
    id: str
    alias: str = ""
    timer: None = None
    profile: Any = None
    is_connected: bool = True
    is_silent: bool = False
    line_reason: str = "nothing came"


@dataclass(kw_only=True)
class Lab:
    """A check of these units, that answer as ``answers`` has it; the rest never do."""

    clock: DrivenClock
    units: list[Unit]
    answers: dict[str, EdgedError | None] = field(default_factory=dict)
    busy: dict[str, tuple[str, ...]] = field(default_factory=dict)
    under_way: dict[str, list[Any]] = field(default_factory=lambda: dict(NOTHING))
    asked: list[str] = field(default_factory=list)

    async def perform(self, action: Any) -> Outcome:
        assert isinstance(action, CheckUnit)
        assert action.caller.outer_tool == "bench__check"
        self.asked.append(action.instrument_id)
        if action.instrument_id not in self.answers:
            await asyncio.Event().wait()
        error = self.answers[action.instrument_id]
        if error is None:
            action.findings.latency_s = 0.01
            action.findings.answers.extend("OFF" for _ in action.proofs)
        status = OutcomeStatus.OK if error is None else OutcomeStatus.FAILED
        return Outcome(status=status, data=None, error=error)

    async def check(self) -> dict[str, Any]:
        pool: Any = SimpleNamespace(all=lambda: self.units)
        operations = BenchCheck(
            bench=bench_of(
                self.clock,
                store={"told_on": SimpleNamespace(of=lambda _unit: {})},
                pool=pool,
                new_id=lambda: "a-1",
                perform=self.perform,
            ),
            moves=lambda name: self.busy.get(name, ()),
            under_way=lambda: self.under_way,
            memory=Memory(lambda _instrument, _output: None),
        )
        caller = Caller(route=Route.DIRECT, remote="test")
        action = NamedAction(
            operation="bench__check", tool="bench__check", caller=caller, action_id="a-0"
        )
        checking = asyncio.ensure_future(operations.check(action, Target(), 0.0))
        await self.clock.advance(ANSWER_S)
        done = await checking
        data: dict[str, Any] = done.data
        return data


@pytest.fixture
def lab(driven_clock: DrivenClock) -> Lab:
    return Lab(clock=driven_clock, units=[Unit(id="a"), Unit(id="b")])


async def test_whoever_has_not_answered_by_then_is_told_so_and_asked_no_longer(lab: Lab) -> None:
    lab.answers = {"a": None}
    told = await lab.check()
    assert not told["is_healthy"]
    hung, well = told["instruments"]
    assert (hung["instrument_id"], hung["is_answering"]) == ("b", False)
    assert hung["problems"] == ["It has not answered yet."]
    assert (well["is_answering"], well["latency_ms"], well["problems"]) == (True, 10.0, [])


async def test_a_unit_whose_line_is_taken_by_other_work_is_busy_and_not_ill(lab: Lab) -> None:
    late = Failed("It was not sent.", code=ErrorCode.TIMEOUT)
    lab.answers = {"a": late, "b": None}
    told = await lab.check()
    assert told["is_healthy"]
    assert told["instruments"][0]["busy_with"] == ["other work on its line"]
    lab.units[0].is_silent = True
    (ill, _) = (await lab.check())["instruments"]
    assert not ill["is_answering"]
    assert ill["problems"] == ["It can be reached, and does not answer: nothing came."]


async def test_who_is_in_a_sweep_or_not_there_is_not_asked(lab: Lab) -> None:
    lab.busy = {"a": ("sweep-1",)}
    lab.units[1].is_connected = False
    told = await lab.check()
    assert lab.asked == []
    away, busy = told["instruments"]
    assert away["problems"] == ["It is ready: nothing came."]
    assert (busy["busy_with"], busy["is_answering"]) == (["sweep-1"], True)


async def test_a_sweep_that_needs_attention_is_not_healthy(lab: Lab) -> None:
    lab.answers = {"a": None, "b": None}
    assert (await lab.check())["is_healthy"]
    lab.under_way["sweeps"] = [{"sweep_id": "sweep-1", "needs_attention": True, "steps": 4}]
    told = await lab.check()
    assert not told["is_healthy"]
    assert told["sweeps"] == [{"sweep_id": "sweep-1", "needs_attention": True}]


@promise("bench.check")
async def test_a_long_answer_leaves_out_whole_rows_and_those_are_well(
    driven_clock: DrivenClock,
) -> None:
    units = [
        Unit(id=f"TCPIP::10.0.0.{n}::5025::SOCKET", alias=f"psu{n}", profile=PROFILES[key])
        for n, key in enumerate(["rigol_dp832", "keysight_e36312a"] * 40)
    ]
    lab = Lab(clock=driven_clock, units=units)
    lab.answers = {unit.id: None for unit in units}
    lab.answers[units[-1].id] = Failed("It said nonsense.", code=ErrorCode.BAD_ANSWER)
    lab.under_way["streams"] = [{"stream_id": f"stream-{n}", "count": n} for n in range(500)]
    told = await lab.check()
    assert len(json.dumps(told, separators=(",", ":")).encode()) <= 8 * 1024
    assert told["instruments"][0]["problems"] == ["It said nonsense."]
    left = len(units) - len(told["instruments"]) + 500 - len(told["streams"])
    assert told["more"] == left
