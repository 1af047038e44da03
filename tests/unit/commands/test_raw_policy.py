"""A raw line is judged as the typed roads judge the same line, and numbers in it both ways."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from edged.actions.outcome import Outcome, OutcomeStatus
from edged.errors import EdgedError, ErrorCode
from edged.profiles.arguments import ParameterCheck
from edged.profiles.model import Bound
from edged.profiles.owner_rules import tightened
from edged.profiles.unit_rules import UnitRules
from edged.yaml.tree import Scalar
from tests.bench.driven_clock import DrivenClock
from tests.bench.fake_instruments import toy_profile
from tests.bench.sweep_bench import SweepHouse
from tests.promises import promise

SOURCE = r"""
format: 1
profile_key: toy_source
version: 1
manufacturer: Toy
model: V1
instrument_class: source
source: made for tests
match: {idn: 'toy,v1\b', examples: ["TOY,V1,0001,1.0"]}
abort: [":OUTP OFF"]
commands:
  ramp_level:
    scpi: ":HV {level}"
    requires_sweep: true
    parameters: {level: {type: float, min: 0, max: 1000, unit: V}}
    sweep: {parameter: level, setpoint: ":HV?"}
  set_level:
    scpi: ":HV {level}"
    parameters: {level: {type: float, min: 0, max: 10, unit: V}}
  ramp_bias:
    scpi: ":BIAS {level}"
    requires_sweep: true
    parameters: {level: {type: float, min: 0, max: 1000, unit: V}}
    sweep: {parameter: level, setpoint: ":BIAS?"}
  set_voltage:
    scpi: ":VOLT {channel},{voltage}"
    parameters:
      channel: {type: int, min: 1, max: 2}
      voltage: {type: float, min: 0, max: 30, unit: V, by: {channel: {2: {max: 5}}}}
    checks: ["voltage * channel <= 40"]
  set_both:
    scpi: ":APPL {voltage},{current}"
    parameters:
      voltage: {type: float, min: 0, max: 30, unit: V}
      current: {type: float, min: 0, max: 3, unit: A}
    checks: ["voltage * current <= 40"]
  set_offset:
    scpi: ":OFFS {offset}mV"
    parameters: {offset: {type: float, min: 0, max: 500, unit: mV}}
  set_wave:
    scpi: [":WAVE{channel}:FREQ {frequency}", ":WAVE{channel}:OFFS {offset}"]
    parameters:
      channel: {type: int, min: 1, max: 2}
      frequency: {type: float, min: 1, max: 1000, unit: Hz}
      offset: {type: float, min: 0, max: 10, unit: V}
  set_wave_offset:
    scpi: ":WAVE{channel}:OFFS {offset}"
    parameters:
      channel: {type: int, min: 1, max: 2}
      offset: {type: float, min: 0, max: 10, unit: V}
  set_frequency:
    scpi: ":FREQ {frequency}"
    parameters: {frequency: {type: float, min: 1, max: 1.0e+6, unit: Hz}}
"""


@pytest.fixture
async def house(driven_clock: DrivenClock) -> AsyncIterator[SweepHouse]:
    house = SweepHouse(driven_clock)
    house.supply.profile = toy_profile(SOURCE)
    yield house
    await house.sweeps.close(0.5)


def owner(house: SweepHouse, **said: Any) -> None:
    rules = UnitRules(key="0001", **said)
    house.supply.rules, house.supply.profile = rules, tightened(toy_profile(SOURCE), rules)


def code_of(outcome: Outcome) -> ErrorCode | None:
    return outcome.error.code if isinstance(outcome.error, EdgedError) else None


LIMITED = {
    "set_voltage": {"voltage": Bound(max=6)},
    "set_both": {"voltage": Bound(max=5)},
    "set_offset": {"offset": Bound(max=400)},
    "set_frequency": {"frequency": Bound(max=1000)},
}


@promise("raw.units-both-ways")
@pytest.mark.parametrize(
    "line",
    [
        ":VOLT 1,30mV",
        ":VOLT 1,30 mV",
        ":volt 1,30MV",
        ":VOLT 1,0.01KV",
        # Within the command's limit either way, and over the one that the channel sets.
        ":VOLT 2,5500uV",
        # Within each limit, and over the check of the two together.
        ":APPL 4,20000mA",
        ":APPL 30mV,20mA",
        ":FREQ 0.5KHZ",
        ":FREQ 1MHZ",
        # Read in volts by an instrument that wants millivolts to be written.
        ":OFFS 30",
        ":VOLT 1,MAX",
        ":VOLT 1,DEF",
        ":VOLT 1,UP",
        ":VOLT 1,(1+1)",
        ":VOLT 1,#HFF",
        ":VOLT 1,1 0",
        ":VOLT 1,1furlong",
    ],
)
async def test_a_number_must_be_within_its_limit_with_its_unit_and_without(
    house: SweepHouse, line: str
) -> None:
    owner(house, limits=LIMITED)
    outcome = await house.scpi(line)
    assert outcome.status is OutcomeStatus.REFUSED, line
    assert house.supply.log == []


@promise("raw.units-both-ways")
@pytest.mark.parametrize(
    "line", [":VOLT 1,5V", ":VOLT 1,300e-3", ":VOLT 1,4 mV", ":OFFS 30mV", ":FREQ 0.9KHZ;:VOLT 2,1"]
)
async def test_a_number_that_is_within_its_limit_either_way_passes(
    house: SweepHouse, line: str
) -> None:
    limits = {**LIMITED, "set_frequency": {"frequency": Bound(min=0.5, max=1000)}}
    house.supply.profile = toy_profile(SOURCE.replace("min: 1, max: 1.0e", "min: 0.1, max: 1.0e"))
    rules = UnitRules(key="0001", limits=limits)
    house.supply.rules, house.supply.profile = rules, tightened(house.supply.profile, rules)
    assert (await house.scpi(line)).error is None


@promise("raw.units-both-ways")
async def test_a_refusal_of_the_bare_number_says_that_units_may_be_ignored(
    house: SweepHouse,
) -> None:
    owner(house, limits=LIMITED)
    error = (await house.scpi(":VOLT 1,30mV")).error
    assert error is not None
    assert error.message.startswith(
        "':VOLT 1,30mV' is within its limits only with its unit, which some instruments ignore: "
    )
    assert "30" in error.message
    assert error.remedy == "Write the number in the base unit, without a suffix."


@promise("raw.sweep-as-typed")
async def test_a_profiles_ramp_binds_its_command_and_not_the_line_that_another_sends(
    house: SweepHouse,
) -> None:
    assert code_of(await house.scpi(":BIAS 5")) is ErrorCode.REQUIRES_SWEEP
    # No other command may send it: it is beyond what that one allows.
    assert code_of(await house.scpi(":HV 11")) is ErrorCode.REQUIRES_SWEEP
    assert code_of(await house.scpi(":HV MAX")) is ErrorCode.REQUIRES_SWEEP
    assert house.supply.log == []
    assert (await house.command("set_level", level=5)).error is None
    assert (await house.scpi(":HV 5")).error is None
    assert code_of(await house.command("ramp_level", level=5)) is ErrorCode.REQUIRES_SWEEP


@promise("raw.sweep-as-typed")
async def test_the_owners_ramp_binds_every_command_that_sends_the_line(house: SweepHouse) -> None:
    owner(house, requires_sweep=frozenset({"ramp_level"}))
    assert code_of(await house.command("set_level", level=5)) is ErrorCode.REQUIRES_SWEEP
    assert code_of(await house.scpi(":HV 5")) is ErrorCode.REQUIRES_SWEEP
    assert house.supply.log == []


@promise("raw.owner-limits-hold")
@pytest.mark.parametrize("filling", ["*CLS;", "*WAI;", ":VOLT? 1;", ":ANY:THING 1;"])
async def test_a_line_of_more_commands_than_are_judged_is_not_sent(
    house: SweepHouse, filling: str
) -> None:
    for rules in ({}, {"deny": frozenset({"set_frequency"})}):
        owner(house, **rules)
        for count in (64, 300):
            assert code_of(await house.scpi(filling * count + ":FREQ 10")) is ErrorCode.BAD_SCPI
    assert house.supply.log == []
    assert code_of(await house.scpi("*CLS;" * 63 + ":FREQ 10")) is ErrorCode.DENIED_BY_OWNER
    owner(house)
    assert (await house.scpi("*CLS;" * 63 + ":FREQ 10")).error is None


@promise("raw.bounded")
async def test_what_a_line_says_again_in_other_spellings_is_not_checked_again(
    house: SweepHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner(house, limits=LIMITED)
    checked, validate = [], ParameterCheck.validate

    def counted(check: ParameterCheck, values: Mapping[str, object]) -> dict[str, Scalar]:
        checked.append(values)
        return validate(check, values)

    monkeypatch.setattr(ParameterCheck, "validate", counted)
    counts = []
    for line in (":FREQ 10", ";".join([":FREQ 10", ":freq 10.0", ":FREQUENCY 1E1"] * 21)):
        checked.clear()
        assert (await house.scpi(line)).error is None
        counts.append(len(checked))
    assert counts[0] == counts[1] > 0
    too_high = await house.scpi(":FREQ 10;:FREQ 10;:FREQ 1001")
    assert too_high.status is OutcomeStatus.REFUSED


@pytest.mark.parametrize("line", [";", " ; ;"])
async def test_a_line_without_a_command_says_so(house: SweepHouse, line: str) -> None:
    error = (await house.scpi(line)).error
    assert error is not None
    assert error.message == "scpi_command holds no command."
    assert house.supply.log == []


@promise("raw.refusal-in-its-shape")
@pytest.mark.parametrize(
    ("line", "code"),
    [
        (":OUTP\n", ErrorCode.BAD_SCPI),
        (":VOLT 1,7", ErrorCode.BAD_ARGUMENTS),
        (":VOLT 1,MAX", ErrorCode.RAW_SCPI_RESTRICTED),
        (":ANY:THING 1", ErrorCode.RAW_SCPI_RESTRICTED),
        (":BIAS 1", ErrorCode.REQUIRES_SWEEP),
        (":FREQ 10", ErrorCode.DENIED_BY_OWNER),
    ],
)
async def test_every_refusal_has_the_members_of_every_answer(
    house: SweepHouse, line: str, code: ErrorCode
) -> None:
    owner(house, limits=LIMITED, deny=frozenset({"set_frequency"}))
    outcome = await house.scpi(line)
    assert outcome.status is OutcomeStatus.REFUSED
    assert set(outcome.data) == {"response", "error", "execution_time_ms"}
    assert outcome.data["response"] is None
    assert outcome.data["execution_time_ms"] >= 0
    assert outcome.data["error"]["code"] == code.value
    assert outcome.data["error"]["message"] == outcome.error.message  # type: ignore[union-attr]


WAVE = {"channel": Bound(max=1), "offset": Bound(max=0)}


@pytest.mark.parametrize("names", [("channel", "offset"), ("offset", "channel")])
async def test_of_two_limits_the_first_in_the_bench_file_is_named(
    house: SweepHouse, names: tuple[str, str]
) -> None:
    owner(house, limits={"set_wave": {name: WAVE[name] for name in names}})
    refused = await house.scpi(":WAVE2:OFFS 9.5")
    assert f"set for set_wave.{names[0]}:" in str(refused.error)
