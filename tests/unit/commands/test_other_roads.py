"""What the owner said about one command holds for others that send the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edged.actions.action import Purpose, RunCommand
from edged.actions.caller import Approval
from edged.actions.envelope import Allowed, Envelope, EnvelopeRow, OpenEnvelope
from edged.actions.outcome import Outcome
from edged.auth.permissions import Grant, Permissions
from edged.errors import EdgedError, ErrorCode, Failed
from edged.profiles.confirm import parse_confirm
from edged.profiles.model import Bound
from edged.profiles.owner_rules import tightened
from edged.profiles.unit_rules import UnitRules
from edged.runs.units import unit_of_instrument
from tests.bench.driven_clock import DrivenClock
from tests.bench.fake_instruments import toy_profile
from tests.bench.sweep_bench import DIRECT, SweepHouse
from tests.promises import promise

LEVELS = """
format: 1
profile_key: toy_level
version: 1
manufacturer: Toy
model: L1
instrument_class: source
source: made for tests
match: {idn: 'toy,l1\\b', examples: ["TOY,L1,0001,1.0"]}
abort: [":OUTP OFF"]
commands:
  set_voltage:
    scpi: ":LEV {voltage:.3f}"
    parameters: {voltage: {type: float, min: 0, max: 30, unit: V}}
  set_current:
    scpi: ":LEV {current:.6f}"
    parameters: {current: {type: float, min: 0, max: 0.2, unit: A}}
  set_level:
    scpi: ":LEV {level}"
    parameters: {level: {type: float, min: 0, max: 30}}
  set_range:
    scpi: [":RANG {voltage}", ":LEV {voltage}"]
    parameters: {voltage: {type: float, min: 0, max: 30, unit: V}}
"""


@pytest.fixture
async def house(driven_clock: DrivenClock) -> AsyncIterator[SweepHouse]:
    house = SweepHouse(driven_clock)
    yield house
    await house.sweeps.close(0.5)


def owner(house: SweepHouse, **said: Any) -> None:
    rules = UnitRules(key="0001", **said)
    supply = house.supply
    assert supply.profile is not None
    supply.rules, supply.profile = rules, tightened(supply.profile, rules)


def code_of(outcome: Outcome) -> ErrorCode | None:
    return outcome.error.code if isinstance(outcome.error, EdgedError) else None


@promise("raw.owner-limits-hold")
async def test_a_limit_holds_for_a_command_that_sets_the_same_with_other_things(
    house: SweepHouse,
) -> None:
    owner(house, limits={"set_voltage": {"voltage": Bound(max=12), "channel": Bound(max=1)}})
    refused = await house.command("set_both", voltage=13, current=1)
    assert code_of(refused) is ErrorCode.BAD_ARGUMENTS
    assert str(refused.error) == (
        "set_both: 13 V is outside of the limits that the owner set for set_voltage.voltage: "
        "the maximum is 12 V."
    )
    assert code_of(await house.command("set_both", channel=2, voltage=5, current=1)) is (
        ErrorCode.BAD_ARGUMENTS
    )
    assert house.supply.writes() == []
    assert code_of(await house.command("set_both", voltage=12, current=1)) is None
    # What sends something else is not bound by it.
    assert code_of(await house.command("set_protection", level=20)) is None


async def test_one_level_in_volts_or_in_amperes_is_two_values(driven_clock: DrivenClock) -> None:
    house = SweepHouse(driven_clock)
    bound: dict[str, Any] = {"limits": {"set_current": {"current": Bound(max=0.01)}}}
    for said in (bound, {"deny": frozenset({"set_current"})}):
        house.supply.profile = toy_profile(LEVELS)
        owner(house, **said)
        assert code_of(await house.command("set_voltage", voltage=5)) is None
    house.supply.profile = toy_profile(LEVELS)
    owner(house, limits={"set_voltage": {"voltage": Bound(max=3)}})
    assert code_of(await house.command("set_level", level=5)) is ErrorCode.BAD_ARGUMENTS
    assert code_of(await house.command("set_range", voltage=5)) is ErrorCode.BAD_ARGUMENTS


@promise("raw.owner-limits-hold")
async def test_a_denied_and_a_ramped_command_are_not_reached_under_another_name(
    house: SweepHouse,
) -> None:
    owner(house, requires_sweep=frozenset({"set_voltage"}))
    given = {"voltage": 1, "current": 1}
    assert code_of(await house.command("set_both", **given)) is ErrorCode.REQUIRES_SWEEP
    owner(house, deny=frozenset({"set_voltage"}))
    assert code_of(await house.command("set_both", **given)) is ErrorCode.DENIED_BY_OWNER
    assert house.supply.writes() == []
    assert code_of(await house.command("output_off", channel=1)) is None


@promise("raw.owner-limits-hold")
async def test_what_the_owner_calls_dangerous_is_so_under_every_name(
    driven_clock: DrivenClock,
) -> None:
    harmless = Permissions(direct=Grant(tools=None, danger=False))
    for permissions, code in ((harmless, ErrorCode.DANGEROUS), (Permissions(), None)):
        house = SweepHouse(driven_clock, permissions=permissions)
        owner(house, is_dangerous=frozenset({"set_voltage"}))
        outcome = await house.command("set_both", voltage=1, current=1)
        assert code_of(outcome) is code
        assert len(house.supply.writes()) == (0 if code else 1)


@promise("raw.owner-limits-hold")
async def test_a_limit_of_a_command_of_several_lines_holds_for_each_line_that_carries_a_value(
    house: SweepHouse,
) -> None:
    owner(house, limits={"set_both": {"voltage": Bound(max=12)}})
    refused = await house.command("set_voltage", voltage=13)
    assert str(refused.error) == (
        "set_voltage: 13 is outside of the limits that the owner set for set_both.voltage: "
        "the maximum is 12."
    )
    for line in (":SOUR1:VOLT 13", "*CLS;sour1:voltage 13", ":SOUR:VOLT 13", ":SOUR1:VOLT 13mV"):
        assert code_of(await house.scpi(line)) is ErrorCode.BAD_ARGUMENTS, line
    assert house.supply.writes() == []
    # Neither is anything held to what does not stand in its line.
    owner(house, limits={"set_both": {"voltage": Bound(max=12), "current": Bound(max=0.5)}})
    assert code_of(await house.command("set_voltage", voltage=12)) is None
    assert code_of(await house.scpi(":SOUR1:VOLT 12")) is None
    owner(house, deny=frozenset({"set_both"}))
    assert code_of(await house.command("set_voltage", voltage=12)) is None


@promise("approval.every-road")
async def test_a_value_that_is_asked_about_is_so_in_each_line_that_carries_it(
    house: SweepHouse,
) -> None:
    rule = parse_confirm("set_both.voltage > 12")
    assert rule is not None
    owner(house, confirm=(rule,))
    assert code_of(await house.command("set_voltage", voltage=13)) is ErrorCode.NEEDS_APPROVAL
    assert code_of(await house.scpi(":SOUR1:VOLT 13")) is ErrorCode.NEEDS_APPROVAL
    assert house.supply.writes() == []
    assert code_of(await house.command("set_voltage", voltage=12)) is None
    assert code_of(await house.scpi(":SOUR1:VOLT 12")) is None


@promise("raw.sweep-as-typed")
@pytest.mark.parametrize("road", ["typed", "raw"])
async def test_what_may_only_be_ramped_is_not_set_at_once_by_one_of_its_lines(
    house: SweepHouse, road: str
) -> None:
    supply = house.supply
    assert supply.profile is not None
    commands = supply.profile.commands
    ramped = replace(commands["set_both"], sweep=commands["set_voltage"].sweep)
    supply.profile = replace(supply.profile, commands={**commands, "set_both": ramped})
    owner(house, requires_sweep=frozenset({"set_both"}))
    if road == "typed":
        refused = await house.command("set_voltage", voltage=5)
    else:
        refused = await house.scpi(":SOUR1:VOLT 5")
    assert code_of(refused) is ErrorCode.REQUIRES_SWEEP
    assert supply.writes() == []
    assert code_of(await house.command("output_off", channel=1)) is None


@promise("approval.shown")
async def test_a_step_of_a_ramp_lies_within_the_values_that_were_shown(house: SweepHouse) -> None:
    rule = parse_confirm("set_voltage.voltage >= 0")
    assert rule is not None
    owner(house, confirm=(rule,))
    approval = Approval(approval_id="ask-1", ramped="set_voltage", within=(1.0, 12.0))

    def is_refused(voltage: float, approved: Approval) -> bool:
        step = RunCommand(
            tool="start_sweep",
            caller=replace(DIRECT, approval=approved, on_behalf_of="sweep-1"),
            action_id="step",
            instrument_id="psu1",
            command_name="set_voltage",
            parameters={"voltage": voltage},
            purpose=Purpose.SWEEP_STEP,
        )
        try:
            house.path.judge(step)
        except EdgedError as refused:
            return refused.code is ErrorCode.NEEDS_APPROVAL
        return False

    assert [is_refused(voltage, approval) for voltage in (1.0, 5.5, 12.0)] == [False] * 3
    assert [is_refused(voltage, approval) for voltage in (0.999, 12.001)] == [True] * 2
    assert is_refused(5.5, replace(approval, ramped="set_both"))
    assert is_refused(5.5, Approval(approval_id="ask-1", ramped="set_voltage"))


def planned(most: int = 0) -> Envelope:
    """A run that may set 1 to 12 V, ramped at 2 V/s at most, and 5 V at once."""
    channel = Allowed(values=(1,))
    bounds = {"channel": channel, "voltage": Allowed(between=(1.0, 12.0), unit="V")}
    alone = {"channel": channel, "voltage": Allowed(values=(5.0,), unit="V")}
    unit = {"unit": "toy/0001", "called": "psu1", "command": "set_voltage"}
    rows = (
        EnvelopeRow(**unit, parameters=bounds, rate=2.0),
        EnvelopeRow(**unit, parameters=alone, most=most),
    )
    return Envelope(plan_id="plan-1", rows=rows, most_s=60)


def step_of_plan(
    house: SweepHouse, approval: Approval, voltage: float, *, rate: float = 0.0, **more: Any
) -> RunCommand:
    return RunCommand(
        tool="bench__start_experiment",
        caller=replace(DIRECT, approval=approval, on_behalf_of="exp-1"),
        action_id=house.new_id(),
        instrument_id="psu1",
        command_name=more.pop("command", "set_voltage"),
        parameters={"voltage": voltage} if "parameters" not in more else more.pop("parameters"),
        purpose=more.pop("purpose", Purpose.SEQUENCE_STEP),
        rate=rate,
    )


@pytest.mark.parametrize("approval_id", ["ask-1", ""])
async def test_a_step_outside_of_the_plan_of_its_run_is_refused_before_it_is_sent(
    house: SweepHouse, driven_clock: DrivenClock, approval_id: str
) -> None:
    unit = unit_of_instrument(house.supply).key
    envelope = planned()
    rows = tuple(replace(row, unit=unit) for row in envelope.rows)
    opened = OpenEnvelope(replace(envelope, rows=rows), driven_clock.monotonic)
    approval = Approval(approval_id=approval_id, envelope=opened)

    async def code(voltage: float, **more: Any) -> ErrorCode | None:
        return code_of(await house.path.perform(step_of_plan(house, approval, voltage, **more)))

    outside = ErrorCode.NEEDS_APPROVAL if approval_id else ErrorCode.BAD_ARGUMENTS
    assert await code(5.0) is None
    assert await code(6.0) is outside
    assert await code(6.0, rate=2.0) is None
    assert await code(6.0, rate=2.5) is outside
    assert await code(12.5, rate=1.0) is outside
    assert await code(12.5, purpose=Purpose.FINALLY_STEP) is outside
    assert await code(0.0, command="output_on", parameters={"channel": 1}) is outside
    assert len(house.supply.writes()) == 2
    assert await code(0.0, command="output_off", parameters={"channel": 1}) is None
    driven_clock.move(61)
    assert await code(5.0) is outside
    assert await code(5.0, purpose=Purpose.FINALLY_STEP) is None


async def test_what_a_plan_says_is_no_yes_where_the_owner_wants_to_be_asked(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    rule = parse_confirm("set_voltage.voltage >= 0")
    assert rule is not None
    owner(house, confirm=(rule,))
    unit = unit_of_instrument(house.supply).key
    envelope = planned(most=1)
    rows = tuple(replace(row, unit=unit) for row in envelope.rows)
    for approval_id, codes in (
        ("", [ErrorCode.NEEDS_APPROVAL] * 2),
        ("ask-1", [None, ErrorCode.NEEDS_APPROVAL]),
    ):
        opened = OpenEnvelope(replace(envelope, rows=rows), driven_clock.monotonic)
        approval = Approval(approval_id=approval_id, envelope=opened)
        steps = [step_of_plan(house, approval, 5.0) for _ in range(2)]
        assert [code_of(await house.path.perform(step)) for step in steps] == codes


async def test_a_step_of_which_nothing_was_sent_may_be_tried_again(
    house: SweepHouse, driven_clock: DrivenClock
) -> None:
    unit = unit_of_instrument(house.supply).key
    envelope = planned(most=1)
    rows = tuple(replace(row, unit=unit) for row in envelope.rows)
    opened = OpenEnvelope(replace(envelope, rows=rows), driven_clock.monotonic)
    approval = Approval(approval_id="ask-1", envelope=opened)

    async def code() -> ErrorCode | None:
        return code_of(await house.path.perform(step_of_plan(house, approval, 5.0)))

    house.supply.failing = Failed("Others have the line.", code=ErrorCode.BUSY)
    assert await code() is ErrorCode.BUSY
    house.supply.failing = None
    assert await code() is None
    assert await code() is ErrorCode.NEEDS_APPROVAL
    assert len(house.supply.writes()) == 1


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=st.lists(st.tuples(st.floats(-1, 15), st.floats(0, 4)), max_size=5))
async def test_every_line_that_a_run_sends_lies_in_its_plan(
    driven_clock: DrivenClock, asked: list[tuple[float, float]]
) -> None:
    house = SweepHouse(driven_clock)
    unit = unit_of_instrument(house.supply).key
    rows = tuple(replace(row, unit=unit) for row in planned(most=1).rows)
    opened = OpenEnvelope(replace(planned(), rows=rows), driven_clock.monotonic)
    approval = Approval(approval_id="", envelope=opened)
    for voltage, rate in asked:
        before = len(house.supply.writes())
        await house.path.perform(step_of_plan(house, approval, voltage, rate=rate))
        for _, sent in house.supply.writes()[before:]:
            assert 1 <= sent <= 12
            # A rate is compared as floats are.
            assert 0 < rate <= 2 * (1 + 1e-9) or sent == 5
    await house.sweeps.close(0.5)
