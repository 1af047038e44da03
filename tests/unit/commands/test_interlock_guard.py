"""A guarded write that waits: it goes only while its reading is new enough and nothing tripped."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any, cast

import pytest

from edged.actions.action import Action, RunCommand, SendScpi
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.commands.interlocks import InterlockControl
from edged.commands.target import SendGuard, Target, moment
from edged.errors import ErrorCode, Failed, Refused
from edged.profiles.bench_file import parse_bench
from edged.profiles.raw import identify
from edged.runs.units import unit_of_instrument
from edged.store.kept import InterlockTrip
from tests.bench.context import bench_of
from tests.bench.driven_clock import DrivenClock
from tests.bench.fake_instruments import FakeInstrument, FakePool
from tests.bench.shipped import shipped_library
from tests.bench.sweep_bench import DIRECT, SweepHouse
from tests.promises import promise

POLL_S, MAX_AGE_S = 1.0, 5.0
RULE = f"""
format: 1
interlocks:
  - name: rail
    when: {{instrument: psu2, command: measure_voltage, parameters: {{channel: 1}}}}
    must: "value < 3"
    max_age_s: {MAX_AGE_S}
    poll_s: {POLL_S}
    guards: [psu1.output_on]
    trip: abort
"""


class Pool(FakePool):
    def bearers(self, name: str) -> tuple[FakeInstrument, ...]:
        return tuple(one for one in self.instruments if one.alias == name)


class Rows:
    """Trips in memory."""

    def __init__(self) -> None:
        self.trips: Mapping[str, InterlockTrip] = {}

    def note(self, trips: Mapping[str, InterlockTrip]) -> None:
        self.trips = dict(trips)

    async def keep(self) -> None:
        return


class Bench:
    """One supply that is guarded, and one whose voltage is read."""

    def __init__(self, clock: DrivenClock) -> None:
        house = SweepHouse(clock, supplies=2)
        self.volts, self.tripped = 1.0, list[str]()
        self.clock, self.is_away, self.hangs_from_s = clock, False, math.inf
        self.supply, self.told_on = house.supply, house.told_on
        self.pool, self.rows = Pool(*house.supplies), Rows()
        self.control = InterlockControl(
            bench_of(
                clock,
                store={"told_on": self.told_on, "trips": self.rows},
                pool=self.pool,
                perform=self.read,
            ),
            is_off=lambda _instrument, _outputs: False,
            trip=self.trip,
            is_first_look_over=lambda: True,
        )

    async def read(self, _action: Action) -> Outcome:
        if self.is_away and self.clock.monotonic() > self.hangs_from_s:
            await asyncio.Event().wait()
        if self.is_away:
            error = Failed("The cable is out.", code=ErrorCode.DISCONNECTED)
            return Outcome(status=OutcomeStatus.FAILED, error=error)
        data = {"data": self.volts, "unit": "V"}
        return Outcome(status=OutcomeStatus.OK, data=data)

    async def trip(self, _rule: Any, _units: Any, reason: str) -> None:
        self.tripped.append(reason)

    def tell(self, output: str) -> None:
        """Something of the supply is told to put something out."""
        unit = unit_of_instrument(cast("Any", self.supply)).key
        self.told_on.note(unit, self.supply.id, {output})
        self.control.wake()

    async def learn(self, text: str) -> None:
        """This is the owner's bench file from now on."""
        await self.control.learn(parse_bench(text, "bench.yaml", shipped_library()).interlocks)

    async def waiting(self) -> SendGuard:
        """What is asked as a write goes out that was let through just now."""
        action = RunCommand(
            tool="execute_command",
            caller=DIRECT,
            action_id="a",
            instrument_id=self.supply.id,
            command_name="output_on",
        )
        assert self.supply.profile is not None
        target = Target(
            instrument=cast("Any", self.supply),
            command=self.supply.profile.commands["output_on"],
            lines=(":OUTP CH1,ON",),
            is_write=True,
        )
        await self.control.admit(action, target)
        guard = self.control.send_guard(action, target)
        assert guard is not None
        return guard


@pytest.fixture
async def bench(driven_clock: DrivenClock) -> Bench:
    bench = Bench(driven_clock)
    await bench.learn(RULE)
    return bench


@promise("interlock.every-road")
async def test_a_write_that_waited_longer_than_its_reading_may_age_is_not_sent(
    bench: Bench, driven_clock: DrivenClock
) -> None:
    guard = await bench.waiting()
    driven_clock.move(MAX_AGE_S)
    guard()
    driven_clock.move(0.1)
    with pytest.raises(Refused, match="longer ago than max_age_s 5"):
        guard()


@promise("interlock.trip")
async def test_a_write_that_waited_while_it_tripped_is_not_sent_however_good_the_reading_is_by_now(
    bench: Bench, driven_clock: DrivenClock
) -> None:
    guard = await bench.waiting()
    bench.control.start()
    try:
        # Another output of the unit.
        bench.tell("OUTP CH2")
        bench.volts = 5.0
        await driven_clock.advance(POLL_S + 0.1)
        assert "must be: value < 3" in bench.tripped[0]
        bench.volts = 1.0
        await bench.waiting()
        with pytest.raises(
            Refused, match="was ended by interlock rail, which tripped while it waited"
        ):
            guard()
    finally:
        await bench.control.stop()


@promise("interlock.missing")
async def test_why_there_was_no_reading_is_told_though_the_last_question_had_no_time(
    bench: Bench, driven_clock: DrivenClock
) -> None:
    await bench.waiting()
    bench.is_away = True
    bench.hangs_from_s = driven_clock.monotonic() + POLL_S + MAX_AGE_S - 0.01
    bench.control.start()
    try:
        bench.tell("OUTP CH1")
        async with asyncio.timeout(10):
            while not bench.tripped:
                await driven_clock.advance(0.1)
                await asyncio.sleep(0.005)
        assert "gave no reading for 5 s: The cable is out." in bench.tripped[0]
    finally:
        await bench.control.stop()


@promise("interlock.until-obeyed")
async def test_what_is_told_after_the_abort_of_a_restart_is_watched_and_not_aborted_again(
    bench: Bench, driven_clock: DrivenClock
) -> None:
    # Nobody can ask this unit whether it is off, so what it was told stays marked.
    for output in ("OUTP CH1", "OUTP CH2"):
        bench.tell(output)
    bench.rows.trips = {"rail": InterlockTrip("it was hot", moment(driven_clock))}
    bench.control.start()
    try:
        # Before anybody has looked: it was on all the same.
        bench.tell("OUTP CH2")
        await driven_clock.advance(POLL_S)
        assert bench.tripped == ["it was hot"]
        # A write that is not guarded: set_voltage comes before output_on.
        bench.tell("OUTP CH1")
        await driven_clock.advance(2 * POLL_S)
        assert bench.tripped == ["it was hot"]
    finally:
        await bench.control.stop()


@promise("interlock.until-obeyed")
async def test_a_rule_that_is_changed_before_its_unit_is_met_forgets_no_trip_of_before_the_restart(
    bench: Bench, driven_clock: DrivenClock
) -> None:
    bench.tell("OUTP CH1")
    bench.rows.trips = {"rail": InterlockTrip("it was hot", moment(driven_clock))}
    met = tuple(bench.pool.instruments)
    bench.pool.change(*(one for one in met if one is not bench.supply))
    bench.control.start()
    try:
        await driven_clock.advance(POLL_S)
        changed = RULE.replace(f"poll_s: {POLL_S}", "poll_s: 2")
        await bench.learn(changed)
        bench.pool.change(*met)
        await driven_clock.advance(POLL_S)
        assert bench.tripped == ["it was hot"]
    finally:
        await bench.control.stop()


ANOTHER = RULE + RULE.partition("interlocks:")[2].replace("rail", "case").replace("< 3", "< 0.5")


@promise("interlock.when-sent")
@pytest.mark.parametrize("before", ["format: 1", RULE, RULE.replace("< 3", "< 9")])
async def test_a_write_that_waited_while_an_interlock_was_added_or_changed_is_not_sent_unread(
    bench: Bench, before: str
) -> None:
    await bench.learn(before)
    guard = await bench.waiting()
    guard()
    await bench.learn(ANOTHER)
    with pytest.raises(Refused, match="which was added or changed while it waited") as caught:
        guard()
    assert caught.value.code is ErrorCode.INTERLOCK
    # Called again, it is read first, and that reading is bad.
    with pytest.raises(Refused, match=r"must be: value < 0\.5"):
        await bench.waiting()


@promise("interlock.when-sent")
async def test_a_write_that_waited_is_sent_once_the_added_interlock_has_a_good_reading(
    bench: Bench,
) -> None:
    await bench.learn("format: 1")
    first = await bench.waiting()
    await bench.learn(RULE)
    with pytest.raises(Refused):
        first()
    await bench.waiting()
    first()


@promise("interlock.when-sent")
async def test_a_write_that_waited_is_sent_although_its_interlock_was_removed(
    bench: Bench, driven_clock: DrivenClock
) -> None:
    guard = await bench.waiting()
    driven_clock.move(MAX_AGE_S + 1)
    await bench.learn("format: 1")
    guard()


@promise("interlock.when-sent")
async def test_no_reading_lets_an_unknown_line_pass_that_waited_while_an_interlock_was_added(
    bench: Bench,
) -> None:
    await bench.learn("format: 1")
    action = SendScpi(
        tool="send_scpi",
        caller=DIRECT,
        action_id="a",
        instrument_id=bench.supply.id,
        scpi=":FOO?",
    )
    target = Target(
        instrument=cast("Any", bench.supply),
        parts=identify(bench.supply.profile, ":FOO?"),
        lines=(":FOO?",),
        is_write=True,
    )
    guard = bench.control.send_guard(action, target)
    assert guard is not None
    guard()
    await bench.learn(RULE)
    await bench.waiting()
    with pytest.raises(Refused, match="which was added or changed while it waited"):
        guard()


@promise("interlock.when-sent")
async def test_a_trip_while_a_write_waited_is_not_forgotten_as_another_interlock_is_added(
    bench: Bench, driven_clock: DrivenClock
) -> None:
    guard = await bench.waiting()
    bench.control.start()
    try:
        bench.tell("OUTP CH2")
        bench.volts = 5.0
        await driven_clock.advance(POLL_S + 0.1)
        bench.volts = 0.1
        await bench.learn(ANOTHER)
        await bench.waiting()
        with pytest.raises(Refused, match="which tripped while it waited"):
            guard()
    finally:
        await bench.control.stop()


@promise("interlock.when-sent")
async def test_an_interlock_of_another_command_ends_no_write_that_waits(bench: Bench) -> None:
    await bench.learn("format: 1")
    guard = await bench.waiting()
    await bench.learn(RULE.replace("psu1.output_on", "psu2"))
    guard()
