"""What of an action is marked before its intent is written down."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from edged.actions.action import SendProgram
from edged.commands.record import LogRecord
from edged.profiles.unit_rules import UnitRules
from tests.bench.driven_clock import DrivenClock
from tests.bench.profile_matrix import SIMULATED
from tests.bench.simulated_unit import SimulatedUnit
from tests.bench.sweep_bench import DIRECT, SweepHouse
from tests.promises import promise


@pytest.fixture
async def house(driven_clock: DrivenClock) -> AsyncIterator[SweepHouse]:
    house = SweepHouse(driven_clock)
    yield house
    await house.sweeps.close(0.5)


def told(house: SweepHouse) -> set[str]:
    return {output for marks in house.told_on.turns().values() for output in marks}


@promise("stop-all.truth")
@pytest.mark.parametrize(
    ("key", "command", "given", "outputs"),
    [
        ("rigol_dp832", "output_on", {"channel": 2}, {"OUTP CH2"}),
        ("rigol_dp832", "set_voltage", {"channel": 2, "voltage": 5}, set()),
        ("rigol_dp832", "output_off", {"channel": 2}, set()),
        ("rigol_dp832", "measure_voltage", {"channel": 2}, set()),
        ("rigol_dp832", "ovp_off", {"channel": 2}, set()),
        ("keysight_e36312a", "output_on", {"channel": 3}, {"OUTP (@3)"}),
        ("srs_sr830", "set_sine_level", {"level": 1}, {"SLVL"}),
        ("srs_sr830", "set_sine_level", {"level": 0.004}, set()),
        ("srs_sr830", "set_aux_output", {"output": 3, "voltage": -2}, {"AUXV 3"}),
        ("siglent_spd3303x", "timer_on", {"channel": 1}, {"*"}),
        ("siglent_spd3303x", "set_tracking", {"mode": "series"}, {"*"}),
        ("keysight_b2901a", "read", {}, {"OUTP"}),
        ("keysight_b2901a", "initiate", {}, {"OUTP"}),
        ("keysight_b2901a", "measure", {}, set()),
        ("keithley_6221", "wave_start", {}, {"OUTP", "SOUR:WAVE:ABOR"}),
        ("tektronix_tbs1000c", "autoset", {}, set()),
        ("siglent_spd3303x", "recall_state", {"memory": 1}, {"*"}),
        ("lakeshore_335", "heater_on", {"output": 1, "range": "low"}, {"RANGE 1"}),
        ("keysight_34461a", "initiate", {}, set()),
    ],
)
async def test_a_command_marks_the_outputs_that_it_tells(
    house: SweepHouse, key: str, command: str, given: dict[str, object], outputs: set[str]
) -> None:
    house.pool.instruments[:] = [SimulatedUnit(SIMULATED[key])]
    outcome = await house.command(command, key, **given)
    assert outcome.error is None, outcome.error
    assert told(house) == outputs


@promise("stop-all.truth")
@pytest.mark.parametrize(
    ("line", "outputs"),
    [
        (":OUTP CH1,ON", {"OUTP CH1"}),
        ("output ch1,1;:sour2:volt 3", {"OUTP CH1"}),
        (":OUTP? CH1", set()),
        (":OUTP CH1,OFF", set()),
        ("*CLS", set()),
        (":FOO:BAR 1", {"*"}),
        (",:OUTP CH1,ON", {"*"}),
        ("(@1):OUTP CH1,ON", {"*"}),
        ("'x':OUTP CH1,ON", {"*"}),
        ("*RCL 1", {"*"}),
    ],
)
async def test_a_raw_line_marks_what_it_may_tell(
    house: SweepHouse, line: str, outputs: set[str]
) -> None:
    await house.scpi(line)
    assert told(house) == outputs


@promise("raw.unknown-is-a-write")
@pytest.mark.parametrize(
    ("key", "line", "why"),
    [
        ("rigol_dp832", ":FOO?", "a raw line that no command of its profile matches was sent"),
        ("rigol_dp832", ":FOO 1", "a raw line that no command of its profile matches was sent"),
        ("keysight_34461a", ":FOO?", None),
        ("keysight_34461a", ":FOO 1", "a raw line that no command of its profile matches was sent"),
        (None, ":FOO?", "a raw line was sent, and no profile says what it does"),
        (None, "READ?", "a raw line was sent, and no profile says what it does"),
        (None, ":FOO 1", "a raw line was sent, and no profile says what it does"),
        (None, "*IDN?", None),
        (None, "SYST:ERR?", None),
        ("siglent_spd3303x", "*RCL 1", "recall_state was sent, which can change any output"),
    ],
)
async def test_a_line_that_may_do_anything_marks_whatever_a_unit_may_have_and_says_why(
    house: SweepHouse, key: str | None, line: str, why: str | None
) -> None:
    unit = SimulatedUnit(SIMULATED[key or "rigol_dp832"])
    unit.alias = "psu1"
    house.pool.instruments[:] = [unit]
    if key is None:
        unit.profile = unit.safe_by = None
    await house.scpi(line)
    entries = list(house.told_on.told().values())
    assert [(entry["outputs"], entry["why"]) for entry in entries] == (
        [(["*"], why)] if why else []
    )


@promise("raw.allowed-lines")
async def test_a_line_that_the_owner_knows_to_be_harmless_marks_nothing_without_a_profile(
    house: SweepHouse,
) -> None:
    house.supply.profile = house.supply.safe_by = None
    house.supply.rules = UnitRules(key="k", allow_raw=("MEAS:VOLT?",))
    await house.scpi(":MEASure:VOLTage?")
    assert told(house) == set()


@promise("raw.unknown-is-a-write")
async def test_a_message_with_a_block_may_have_set_any_output(house: SweepHouse) -> None:
    unit = SimulatedUnit(SIMULATED["rigol_dp832"])
    unit.alias = "psu1"
    house.pool.instruments[:] = [unit]
    await house.perform(
        SendProgram(
            tool="send_scpi",
            caller=DIRECT,
            action_id="a",
            instrument_id="psu1",
            scpi="*IDN? #213<13 bytes>",
            data=b"*IDN? #213\n:OUTP CH1,ON",
        )
    )
    assert told(house) == {"*"}


async def test_a_sweep_marks_what_it_ramps_before_its_first_step(
    house: SweepHouse,
) -> None:
    unit = SimulatedUnit(SIMULATED["srs_sr830"])
    unit.alias = "psu1"
    house.pool.instruments[:] = [unit]
    outcome = await house.ask_start(2.0, 0.1, command="set_sine_level")
    assert outcome.error is None, outcome.error
    assert not any(line.startswith("SLVL ") for line in unit.sent)
    assert told(house) == {"SLVL"}


async def test_the_mark_comes_before_the_intent(driven_clock: DrivenClock) -> None:
    class Watching(LogRecord):
        marked = frozenset[str]()

        async def intend(self, action: object, target: object) -> None:
            self.marked = frozenset(told(house))

    record = Watching()
    house = SweepHouse(driven_clock, record=record)
    await house.command("output_on", channel=1)
    assert record.marked == {"OUTP CH1"}
