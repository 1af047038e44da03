"""A set-point is moved in steps that its rate allows, however late or lost its unit is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.actions.action import Purpose, RunCommand, SendLines
from edged.actions.caller import Caller, Route
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.errors import ErrorCode, Failed
from edged.runs.bench import Bench
from edged.runs.moving import Mover
from edged.runs.sweeps.ramp_plan import Axis, SweptThing
from tests.bench.shipped import shipped_library
from tests.promises import promise

ACTION: dict[str, Any] = {"tool": "t", "caller": Caller(route=Route.DIRECT), "action_id": "a"}


class Supply:
    """A unit with one set-point, a clock that only waiting moves, and answers that come late.

    Attributes:
        meeting: of its line; ``troubles`` are done to it in place of the writes to come.
    """

    def __init__(self, start: float, delays: list[float], stalls: list[bool]) -> None:
        self.now = 0.0
        self.value = start
        self.written: list[tuple[float, float]] = [(-1e9, start)]
        self.troubles: list[Callable[[float], None]] = []
        self.asked = 0
        self._delays = delays
        self._stalls = stalls
        self.meeting = object()

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += max(0.0, seconds)

    async def perform(self, action: RunCommand | SendLines) -> Outcome:
        if isinstance(action, SendLines):
            self.asked += 1
            return Outcome(status=OutcomeStatus.OK, data={"answer": f"{self.value}"})
        value = float(cast("float", action.parameters["voltage"]))
        if self.troubles:
            self.troubles.pop()(value)
            return self._stalled()
        if (self._stalls and self._stalls.pop()) or action.meeting != self.meeting:
            return self._stalled()
        gone = self.now
        self.take(value)
        self.now += self._delays.pop() if self._delays else 0.0
        return Outcome(status=OutcomeStatus.OK, data={}, written_at=gone)

    def take(self, value: float) -> None:
        self.value = value
        self.written.append((self.now, value))

    def lose(self, _value: float) -> None:
        """Its line is opened anew; it holds what it held."""
        self.meeting = object()

    def _stalled(self) -> Outcome:
        error = Failed("The line is busy.", code=ErrorCode.BUSY)
        return Outcome(status=OutcomeStatus.FAILED, error=error)


class Bench1:
    """One set-point of a supply, and what moves it."""

    def __init__(self, supply: Supply) -> None:
        profile = shipped_library().profiles["keithley_2400"]
        command = profile.commands["set_voltage"]
        assert command.sweep is not None

        class Unit(SimpleNamespace):
            meeting = property(lambda _self: supply.meeting)

        instrument = Unit(
            id="smu1",
            called="smu1",
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
        self.supply = supply
        self.axis = Axis(thing=thing)
        self.pauses: list[Callable[[Bench1], Awaitable[None]]] = []
        self.mover = Mover(
            bench=cast("Bench", SimpleNamespace(clock=supply, perform=supply.perform)),
            step=lambda unit, name, values: RunCommand(
                **ACTION, instrument_id=unit, command_name=name, parameters=cast("Any", values)
            ),
            ask=lambda unit, lines: SendLines(
                **ACTION, instrument_id=unit, lines=lines, purpose=Purpose.MEASURE
            ),
            rest=self._rest,
            stands=lambda *_: None,
        )

    async def _rest(self, due: float, _value: float) -> None:
        await self.supply.sleep(due - self.supply.now)
        if self.pauses:
            await self.pauses.pop()(self)


def moved(supply: Supply, *targets: float, rate: float, is_lost: bool = False) -> None:
    async def work() -> None:
        bench = Bench1(supply)
        for target in targets:
            await bench.mover.move(bench.axis, target, rate)
            if is_lost:
                # It was switched off and on, and holds nothing of what it was set to.
                supply.meeting, supply.value = object(), 0.0

    asyncio.run(work())


def assert_within(supply: Supply, rate: float) -> None:
    most = rate * 0.1 + 1e-3
    for (before_s, before), (after_s, after) in pairwise(supply.written):
        assert abs(after - before) <= most
        assert abs(after - before) <= rate * (after_s - before_s) + 1e-3


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
    assert_within(supply, rate)


def test_a_unit_that_was_switched_off_meanwhile_is_not_ramped_on() -> None:
    supply = Supply(0.0, [], [])
    with pytest.raises(Failed, match="may have been switched off and on"):
        moved(supply, 2.0, 4.0, rate=10, is_lost=True)
    assert max(value for _, value in supply.written) == 2.0


@pytest.mark.parametrize("is_taken", [False, True])
def test_one_that_was_connected_anew_on_the_way_and_kept_its_value_is_ramped_on(
    *, is_taken: bool
) -> None:
    supply = Supply(0.0, [], [])

    def lose(value: float) -> None:
        # Whether the step was taken before the line went is not known.
        if is_taken:
            supply.take(value)
        supply.lose(value)

    supply.troubles = [lose]
    moved(supply, 1.0, rate=1)
    assert supply.value == 1.0
    assert supply.asked == 2
    assert_within(supply, 1)


def test_after_a_step_that_may_have_been_taken_it_is_asked_before_it_is_moved_back() -> None:
    supply = Supply(0.0, [], [])

    def cancel(value: float) -> None:
        supply.take(value)
        raise asyncio.CancelledError

    async def work() -> None:
        bench = Bench1(supply)
        await bench.mover.move(bench.axis, 1.0, 1)
        supply.troubles = [cancel]
        with pytest.raises(asyncio.CancelledError):
            await bench.mover.move(bench.axis, 2.0, 1)
        await bench.mover.move(bench.axis, 0.0, 1)

    asyncio.run(work())
    assert max(value for _, value in supply.written) == 1.1
    assert supply.value == 0.0
    assert_within(supply, 1)


def test_what_was_put_back_in_a_pause_of_its_ramp_waits_for_its_next_step() -> None:
    supply = Supply(0.0, [], [])

    async def by_hand(bench: Bench1) -> None:
        supply.take(0.0)
        stood = bench.axis.confirmed
        await bench.mover.put_back(bench.axis, stood)

    async def work() -> None:
        bench = Bench1(supply)
        await bench.mover.move(bench.axis, 0.5, 1)
        bench.pauses = [by_hand]
        await bench.mover.move(bench.axis, 1.0, 1)

    asyncio.run(work())
    # Somebody's own write to 0 V is no step of the ramp.
    by_ramp = supply.written[7:]
    assert [value for _, value in by_ramp] == pytest.approx([n / 10 for n in range(1, 11)])
    assert all(after - before >= 0.0999 for (before, _), (after, _) in pairwise(by_ramp))
