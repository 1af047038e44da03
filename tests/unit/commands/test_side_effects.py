"""Commands that change more than they name, and queries that act, on every road to a unit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from edged.actions.action import RunCommand, RunSequence, SendProgram, SendScpi, StartSweep
from edged.actions.outcome import Outcome
from edged.commands.budgets import BudgetControl
from edged.commands.freshness import Acquisitions
from edged.commands.pending import settled
from edged.commands.record import LogRecord
from edged.errors import ErrorCode, Invalid, Refused
from edged.profiles.budget import Budget
from edged.profiles.confirm import parse_confirm
from edged.profiles.model import Bound, Changes, Command, CommandStep, QueryStep, Sequence
from edged.profiles.unit_rules import EMPTY_RULES, UnitRules
from edged.store.lockouts import Lockout
from tests.bench.context import bench_of
from tests.bench.driven_clock import DrivenClock
from tests.bench.fake_instruments import toy_profile
from tests.bench.profile_matrix import SIMULATED
from tests.bench.simulated_unit import SimulatedUnit
from tests.bench.sweep_bench import DIRECT, PROFILE, SweepHouse
from tests.promises import promise

CONFIRM = parse_confirm("set_voltage.voltage > 12")
assert CONFIRM is not None
RESTRICTED = {
    "limits": UnitRules(key="k", limits={"set_voltage": {"voltage": Bound(max=12)}}),
    "confirm": UnitRules(key="k", confirm=(CONFIRM,)),
    "deny": UnitRules(key="k", deny=frozenset({"output_on"})),
    "requires_sweep": UnitRules(key="k", requires_sweep=frozenset({"set_voltage"})),
    "max_rate": UnitRules(key="k", max_rate={"": 0.5}),
}
RECALL = RunCommand(
    tool="execute_command",
    scope="recall_state",
    caller=DIRECT,
    action_id="a",
    instrument_id="psu1",
    command_name="recall_state",
    parameters={"memory": 1},
)


@pytest.fixture
async def house(driven_clock: DrivenClock) -> AsyncIterator[SweepHouse]:
    house = SweepHouse(driven_clock)
    yield house
    await house.sweeps.close(0.5)


def supply(house: SweepHouse, rules: UnitRules = EMPTY_RULES) -> SimulatedUnit:
    """A supply with the five memories of its front panel, and a sequence that recalls one."""
    profile = SIMULATED["siglent_spd3303x"]
    steps = (
        CommandStep(command="set_voltage", parameters={"channel": 1, "voltage": 1}),
        CommandStep(command="recall_state", parameters={"memory": 1}),
    )
    recalling = Sequence(name="recalling", steps=steps, is_dangerous=True)
    unit = SimulatedUnit(replace(profile, sequences={"recalling": recalling}))
    unit.alias, unit.rules = "psu1", rules
    house.pool.instruments[:] = [unit]
    return unit


def smu(house: SweepHouse) -> SimulatedUnit:
    unit = SimulatedUnit(SIMULATED["keysight_b2901a"])
    unit.alias = "psu1"
    house.pool.instruments[:] = [unit]
    return unit


def sequence(name: str) -> RunSequence:
    return RunSequence(
        tool="execute_sequence",
        scope=name,
        caller=DIRECT,
        action_id="a",
        instrument_id="psu1",
        sequence_name=name,
        parameters={},
    )


def program(line: str) -> SendProgram:
    return SendProgram(
        tool="send_scpi",
        caller=DIRECT,
        action_id="a",
        instrument_id="psu1",
        scpi=line,
        data=f"{line}\n".encode(),
    )


Road = Callable[[SweepHouse], Any]
ROADS: dict[str, Road] = {
    "typed": lambda house: house.perform(RECALL),
    "dynamic tool": lambda house: house.perform(
        replace(RECALL, tool="siglent_spd3303x__recall_state")
    ),
    "sequence": lambda house: house.perform(sequence("recalling")),
    "raw": lambda house: house.scpi("*RCL 1"),
    "raw, beside a query": lambda house: house.scpi("CH1:VOLT?;*rcl 1"),
    "program": lambda house: house.perform(program("*RCL 1")),
    "timer": lambda house: house.command("timer_on", channel=1),
    "tracking": lambda house: house.command("set_tracking", mode="series"),
    "raw tracking": lambda house: house.scpi("OUTP:TRACK 1"),
}


@promise("changes.any-refused")
@pytest.mark.parametrize("key", RESTRICTED)
@pytest.mark.parametrize("road", ROADS)
async def test_what_loads_any_value_is_refused_where_the_owner_restricts_values(
    house: SweepHouse, key: str, road: str
) -> None:
    unit = supply(house, RESTRICTED[key])
    sent = list(unit.sent)
    outcome: Outcome = await ROADS[road](house)
    assert outcome.error is not None
    assert unit.sent == sent
    assert outcome.error.code is ErrorCode.DENIED_BY_OWNER
    assert outcome.error.data["restricted_by"] == (key,)
    assert "allow_changes" in outcome.error.remedy


@promise("changes.any-refused")
async def test_a_stored_state_does_not_bring_back_a_voltage_above_the_limit(
    house: SweepHouse,
) -> None:
    unit = supply(house)
    for name, given in (
        ("set_voltage", {"channel": 1, "voltage": 25.5}),
        ("save_state", {"memory": 1}),
        ("set_voltage", {"channel": 1, "voltage": 5}),
    ):
        assert (await house.command(name, **given)).error is None
    unit.rules = RESTRICTED["limits"]
    assert (await house.perform(RECALL)).error is not None
    assert unit.asked.instrument.state.channels[1].source.volts == 5
    unit.rules = replace(unit.rules, allow_changes=frozenset({"recall_state"}))
    assert (await house.perform(RECALL)).error is None
    assert unit.asked.instrument.state.channels[1].source.volts == 25.5


@promise("changes.any-refused")
@pytest.mark.parametrize("road", sorted(ROADS.keys() - {"program"}))
async def test_what_loads_any_value_is_allowed_where_the_owner_lists_it(
    house: SweepHouse, road: str
) -> None:
    allowed = frozenset({"recall_state", "timer_on", "set_tracking"})
    unit = supply(house, replace(RESTRICTED["limits"], allow_changes=allowed))
    sent = len(unit.sent)
    assert house.path.judge(program("*RCL 1")).is_write
    assert (await ROADS[road](house)).error is None
    assert len(unit.sent) > sent


@pytest.mark.parametrize(
    "rules",
    [
        EMPTY_RULES,
        UnitRules(key="k", is_dangerous=frozenset({"set_current"})),
        UnitRules(key="k", budget={"set_voltage": Budget(per_hour=1)}),
    ],
)
async def test_what_loads_any_value_is_allowed_where_no_value_is_restricted(
    house: SweepHouse, rules: UnitRules
) -> None:
    unit = supply(house, rules)
    assert (await house.perform(RECALL)).error is None
    assert "*RCL 1" in unit.sent


async def test_settings_and_outputs_are_not_refused_by_limits(house: SweepHouse) -> None:
    unit = supply(house, RESTRICTED["limits"])
    assert (await house.command("timer_off", channel=1)).error is None
    assert "TIME CH1,OFF" in unit.sent


@promise("changes.any-refused")
async def test_what_loads_any_value_is_refused_once_the_owner_restricts_values_while_it_waits(
    house: SweepHouse,
) -> None:
    unit = supply(house)
    target = house.path.judge(RECALL)
    unit.rules = RESTRICTED["limits"]
    with pytest.raises(Refused, match="while this waited") as caught:
        house.policy.check_again(RECALL, target)
    assert caught.value.code is ErrorCode.DENIED_BY_OWNER


class Intents(LogRecord):
    """Which commands had an intent row."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    async def intend(self, action: Any, target: Any) -> None:
        self.names.append(target.command_name)


@promise("changes.query-is-write")
async def test_a_query_that_acts_has_an_intent_and_marks_the_outputs(
    driven_clock: DrivenClock,
) -> None:
    intents = Intents()
    house = SweepHouse(driven_clock, record=intents)
    unit = smu(house)
    assert (await house.command("measure")).error is None
    assert intents.names == []
    assert (await house.command("read")).error is None
    assert intents.names == ["read"]
    assert {one for marks in house.told_on.turns().values() for one in marks} == {"OUTP"}
    assert unit.what_is_on() == {"is_on"}


@promise("changes.query-is-write")
@pytest.mark.parametrize(
    "line", [":READ?", "read?", ":OUTP?;:READ?", ":INIT", ":INITiate:IMMediate"]
)
async def test_a_raw_query_that_acts_marks_the_outputs(house: SweepHouse, line: str) -> None:
    unit = smu(house)
    await house.scpi(line)
    assert "OUTP" in {one for marks in house.told_on.turns().values() for one in marks}
    assert unit.what_is_on() == {"is_on"}


@promise("changes.query-is-write")
@pytest.mark.parametrize(
    "road",
    [
        lambda house: house.command("read"),
        lambda house: house.scpi(":READ?"),
        lambda house: house.perform(program(":READ?")),
        lambda house: house.perform(sequence("reading")),
        lambda house: house.perform(sequence("asking")),
        lambda house: house.perform(
            StartSweep(
                tool="start_sweep",
                scope="set_voltage",
                caller=DIRECT,
                action_id="a",
                arguments={
                    "target_value": 1,
                    "sweep_rate": 1,
                    "measure": [{"instrument_id": "psu1", "command_name": "read"}],
                },
                instrument_id="psu1",
                command_name="set_voltage",
            )
        ),
    ],
)
async def test_a_lockout_refuses_a_query_that_acts_on_every_road(
    house: SweepHouse, road: Road
) -> None:
    unit = smu(house)
    sequences = {
        "reading": Sequence(name="reading", steps=(CommandStep(command="read"),)),
        "asking": Sequence(name="asking", steps=(QueryStep(query=":READ?", save_as="found"),)),
    }
    assert unit.profile is not None
    unit.profile = replace(unit.profile, sequences=sequences)
    sent = list(unit.sent)
    house.lockout = Lockout(instrument_id=unit.id, unit="", reason="wiring", by="anna", since_ms=0)
    outcome = await road(house)
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.LOCKED_OUT
    assert unit.sent == sent
    assert (await house.command("measure")).error is None


@promise("changes.query-is-write")
async def test_a_query_that_acts_is_counted_by_its_budget(house: SweepHouse) -> None:
    unit = smu(house)
    unit.rules = UnitRules(key="k", budget={"read": Budget(per_hour=1)})
    control = BudgetControl(bench_of(house.clock, store={"budgets": NoRows()}, pool=house.pool))
    typed = replace(RECALL, command_name="read", scope="read", parameters={})
    for action in (typed, program(":READ?")):
        target = house.path.judge(action)
        assert control.take(action, target) is not None
        with pytest.raises(Refused, match="read was sent"):
            control.take(action, house.path.judge(action))
        control.over(target)


class NoRows:
    left: dict[Any, Any] = {}  # noqa: RUF012

    def note(self, _left: Any) -> None:
        return


@promise("changes.any-refused")
async def test_what_loads_any_value_waits_for_the_end_of_a_sweep(house: SweepHouse) -> None:
    extra = '  recall: {scpi: "*RCL 1", is_dangerous: true}\n'
    extra += '  test: {scpi: ":TEST?", is_query: true, changes: any}\n'
    house.supply.profile = toy_profile(PROFILE + extra)
    assert house.supply.profile is not None
    # A profile that nobody has linted: its stored states count all the same.
    assert house.supply.profile.commands["recall"].changes is Changes.ANY
    await house.start(target=1.0, rate=0.1)
    for name in ("recall", "test"):
        outcome = await house.command(name)
        assert outcome.error is not None
        assert outcome.error.code is ErrorCode.SWEEP_CONFLICT
    assert (await house.scpi(":TEST?")).error is not None
    assert not {":TEST?", "*RCL 1"} & {text for _, text in house.supply.log}


@promise("changes.query-is-write")
@pytest.mark.parametrize("changes", list(Changes))
@pytest.mark.parametrize(
    "road",
    [
        lambda house: house.command("test"),
        lambda house: house.scpi(":TEST?"),
        lambda house: house.scpi(":FORM ASC;:TEST?"),
        lambda house: house.perform(program(":TEST?")),
    ],
)
async def test_a_query_that_acts_is_another_writer_beside_a_sweep(
    house: SweepHouse, road: Road, changes: Changes
) -> None:
    test = f'{{scpi: [":FORM ASC", ":TEST?"], is_query: true, changes: {changes}}}'
    house.supply.profile = toy_profile(f"{PROFILE}  test: {test}\n")
    await house.start(target=1.0, rate=0.1)
    outcome = await road(house)
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.SWEEP_CONFLICT
    assert ":TEST?" not in {text for _, text in house.supply.log}


@promise("changes.query-is-write")
async def test_a_dangerous_query_of_the_swept_value_is_another_writer(house: SweepHouse) -> None:
    again = ':SOUR{channel}:VOLT:AGAIN? {voltage:.3f}"'
    parameters = "{channel: {type: int, min: 1, max: 2}, voltage: {type: float, min: 0, max: 30}}"
    extra = f'  again: {{scpi: "{again}, is_dangerous: true, parameters: {parameters}}}\n'
    house.supply.profile = toy_profile(PROFILE + extra)
    await house.start(target=1.0, rate=0.1)
    outcome = await house.command("again", channel=1, voltage=5)
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.SWEEP_CONFLICT
    assert (await house.command("again", channel=2, voltage=5)).error is None


async def test_what_only_prepares_a_query_that_acts_goes_on_beside_a_sweep(
    house: SweepHouse,
) -> None:
    test = '{scpi: [":FORM ASC", ":TEST?"], is_query: true, changes: any}'
    house.supply.profile = toy_profile(f"{PROFILE}  test: {test}\n")
    await house.start(target=1.0, rate=0.1)
    assert (await house.scpi(":FORM ASC")).error is None


@promise("changes.any-refused")
async def test_the_line_of_a_command_that_does_not_act_is_not_refused_for_the_one_that_does(
    house: SweepHouse,
) -> None:
    """Series mode first switches the outputs off, and that line by itself must always go."""
    unit = supply(house, RESTRICTED["limits"])
    assert (await house.scpi("OUTP CH1,OFF")).error is None
    assert unit.sent.count("OUTP CH1,OFF") == 1
    house.path.judge(program("OUTP CH1,OFF"))


@promise("changes.query-is-write")
async def test_a_programs_query_that_acts_is_held_to_its_bounds(house: SweepHouse) -> None:
    level = '{scpi: ":READ? {level}", is_query: true, changes: outputs, is_dangerous: true, '
    level += "parameters: {level: {type: float, min: 0, max: 10, unit: V}}}"
    house.supply.profile = toy_profile(f"{PROFILE}  read: {level}\n")
    house.path.judge(program(":READ? 10"))
    for line in (":READ? 11", ":READ? MAX"):
        with pytest.raises((Invalid, Refused)):
            house.path.judge(program(line))
    # A dry run of a raw line says what the profile would have refused.
    rehearsed = await settled(partial(house.path.rehearse, raw(":READ? 11")))
    assert "level 11 V is over the maximum 10 V" in str(rehearsed.data)
    assert "profile's limits" in str(rehearsed.data)


@promise("changes.query-is-write")
@pytest.mark.parametrize("line", ["LOAD?", "LOAD", "*IDN?;:LOAD?"])
async def test_what_can_load_any_setting_is_refused_where_a_dead_man_is_wanted(
    house: SweepHouse, line: str
) -> None:
    profile = SIMULATED["keysight_n7951a"]
    load = Command(name="load", scpi=(line.rpartition(":")[2],), changes=Changes.ANY)
    load = replace(load, is_query="?" in line)
    unit = SimulatedUnit(replace(profile, commands={**profile.commands, "load": load}))
    unit.alias, unit.rules = "psu1", UnitRules(key="k", dead_man_s=10)
    house.pool.instruments[:] = [unit]
    for action in (program(line), raw(line), replace(RECALL, command_name="load", parameters={})):
        with pytest.raises(Refused) as caught:
            house.path.judge(action)
        assert caught.value.code is ErrorCode.DEAD_MAN


def raw(line: str) -> SendScpi:
    return SendScpi(tool="send_scpi", caller=DIRECT, action_id="a", instrument_id="psu1", scpi=line)


def test_a_query_that_acts_and_starts_a_capture_makes_the_next_trace_fresh() -> None:
    profile = SIMULATED["rigol_ds1054z"]
    assert profile.acquisition is not None
    run = Command(name="run_all", scpi=(":RUN:ALL?",), is_query=True, changes=Changes.SETTINGS)
    acquisition = replace(profile.acquisition, started_by=("run_all",))
    commands = {**profile.commands, "run_all": run}
    profile = replace(profile, acquisition=acquisition, commands=commands)
    acquisitions = Acquisitions()
    for begun, fresh in ((False, False), (True, True)):
        if begun:
            acquisitions.note("A1", profile, run, run.scpi)
        capture = profile.commands["capture_waveform"]
        found = acquisitions.is_fresh("A1", acquisition, "STOP", capture, {"channel": 1})
        assert found is fresh
