"""A set-point is moved in steps that its rate allows, however late or lost its unit is."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.actions.action import RunCommand, SendLines
from edged.actions.caller import Caller, Route
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.errors import ErrorCode, Failed
from edged.runs.bench import Bench
from edged.runs.experiments.moving import Axis, Mover
from edged.runs.sweeps.sweep import SweptThing
from tests.bench.shipped import shipped_library
from tests.promises import promise

CALLER = Caller(route=Route.DIRECT)


class Supply:
    """A unit with one set-point, a clock that only waiting moves, and answers that come late."""

    def __init__(self, start: float, delays: list[float], stalls: list[bool]) -> None:
        self.now = 0.0
        self.value = start
        self.written: list[tuple[float, float]] = [(-1e9, start)]
        self._delays = delays
        self._stalls = stalls
        self.meeting = object()

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += max(0.0, seconds)

    async def perform(self, action: RunCommand | SendLines) -> Outcome:
        if isinstance(action, SendLines):
            return Outcome(status=OutcomeStatus.OK, data={"answer": f"{self.value}"})
        if self._stalls and self._stalls.pop():
            error = Failed("The line is busy.", code=ErrorCode.BUSY)
            return Outcome(status=OutcomeStatus.FAILED, error=error)
        gone = self.now
        self.value = float(cast("float", action.parameters["voltage"]))
        self.written.append((gone, self.value))
        self.now += self._delays.pop() if self._delays else 0.0
        return Outcome(status=OutcomeStatus.OK, data={}, written_at=gone)


def moved(supply: Supply, *targets: float, rate: float, is_lost: bool = False) -> None:
    profile = shipped_library().profiles["keithley_2400"]
    command = profile.commands["set_voltage"]
    assert command.sweep is not None
    instrument = SimpleNamespace(
        id="smu1",
        called="smu1",
        meeting=supply.meeting,
        transport=SimpleNamespace(is_cable=True),
        rules=SimpleNamespace(max_rate={}, max_rate_for=lambda _name: None),
    )
    thing = SweptThing(
        instrument=cast("Any", instrument),
        command=command,
        plan=command.sweep,
        values={"voltage": 0.0},
        profile=profile,
    )
    bench = cast("Bench", SimpleNamespace(clock=supply, perform=supply.perform))

    def step(unit: str, name: str, values: object) -> RunCommand:
        return RunCommand(
            tool="t", caller=CALLER, action_id="a", instrument_id=unit, command_name=name,
            parameters=cast("Any", values),
        )  # fmt: skip

    def ask(unit: str, lines: tuple[str, ...]) -> SendLines:
        purpose = cast("Any", None)
        return SendLines(
            tool="t", caller=CALLER, action_id="a", instrument_id=unit, lines=lines, purpose=purpose
        )

    async def rest(due: float) -> None:
        await supply.sleep(due - supply.now)

    async def work() -> None:
        axis = Axis(thing=thing)
        mover = Mover(bench=bench, step=step, ask=ask, rest=rest, stands=lambda *_: None)
        for target in targets:
            await mover.move(axis, target, rate)
            if is_lost:
                # It was switched off and on, and holds nothing of what it was set to.
                instrument.meeting, supply.value = object(), 0.0

    asyncio.run(work())


@promise("experiment.rate")
@given(
    start=st.floats(-5, 5),
    targets=st.lists(st.floats(-5, 5), min_size=1, max_size=3),
    rate=st.floats(0.5, 20),
    delays=st.lists(st.floats(0, 3), max_size=20),
    stalls=st.lists(st.booleans(), max_size=20),
)
def test_no_step_is_larger_than_the_rate_allows_and_the_target_is_reached(
    start: float, targets: list[float], rate: float, delays: list[float], stalls: list[bool]
) -> None:
    supply = Supply(start, delays, stalls)
    moved(supply, *targets, rate=rate)
    assert supply.value == pytest.approx(targets[-1], abs=1e-3)
    most = rate * 0.1 + 1e-3
    for (before_s, before), (after_s, after) in pairwise(supply.written):
        assert abs(after - before) <= most
        assert abs(after - before) <= rate * (after_s - before_s) + 1e-3


def test_a_unit_that_was_switched_off_meanwhile_is_not_ramped_on() -> None:
    supply = Supply(0.0, [], [])
    with pytest.raises(Failed, match="may have been switched off and on"):
        moved(supply, 2.0, 4.0, rate=10, is_lost=True)
    assert max(value for _, value in supply.written) == 2.0
