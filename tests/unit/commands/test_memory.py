"""What a unit was set to last: told where it is known, and never guessed."""

from __future__ import annotations

from typing import Any

import pytest

from edged.commands.memory import Memory, Writing
from edged.profiles.abort import proofs_of
from edged.profiles.raw import identify
from edged.profiles.template import render_lines
from edged.yaml.tree import Scalar
from tests.bench.fake_instruments import FakeInstrument
from tests.bench.shipped import shipped_library
from tests.promises import promise

PROFILES = shipped_library().profiles


class Bench:
    """One unit, and what is remembered of it."""

    def __init__(self, key: str = "rigol_dp832") -> None:
        self.profile = PROFILES[key]
        self.unit: Any = FakeInstrument(id="S::1", profile=self.profile)
        self.memory = Memory(lambda _instrument, _output: None)

    def begin(self, name: str, **values: Scalar) -> Writing:
        command = self.profile.commands[name]
        return self.memory.begin(self.unit, command, render_lines(command, values))

    def set(self, name: str, **values: Scalar) -> dict[str, Scalar]:
        writing = self.begin(name, **values)
        writing.done()
        writing.over()
        return writing.previous

    def fail(self, name: str, **values: Scalar) -> None:
        self.begin(name, **values).over()

    def raw(self, line: str) -> Writing | None:
        return self.memory.begin_raw(self.unit, identify(self.profile, line))

    def abort(self) -> Writing:
        return self.memory.begin_abort(self.unit, self.profile.abort_lines)

    def hear(self, *answers: str) -> None:
        """The answers to the questions of the profile's abort, in their order."""
        proofs = proofs_of(self.profile, self.profile.abort)
        self.memory.heard_answers(self.unit, proofs, answers)

    def ask(self, name: str, answer: object, **values: Scalar) -> list[str]:
        command = self.profile.commands[name]
        lines = render_lines(command, values)
        self.memory.begin_question(self.unit, command)
        notes = self.memory.notes(self.unit, command, values)
        self.memory.heard(self.unit, command, lines, answer)
        return notes


@promise("previous.known")
def test_a_setter_tells_what_it_replaced_on_its_own_channel() -> None:
    bench = Bench()
    assert bench.set("set_voltage", channel=1, voltage=2.5) == {}
    assert bench.set("set_voltage", channel=2, voltage=7) == {}
    assert bench.set("set_current", channel=1, current=1) == {}
    assert bench.set("set_voltage", channel=1, voltage=3) == {"voltage": 2.5}
    assert bench.set("set_voltage", channel=2, voltage=3) == {"voltage": 7}


@promise("previous.known")
def test_what_was_asked_is_known_too() -> None:
    bench = Bench()
    bench.ask("get_voltage", 4.25, channel=1)
    assert bench.set("set_voltage", channel=1, voltage=3) == {"voltage": 4.25}


@promise("previous.known")
def test_a_selected_channel_is_told_from_another() -> None:
    bench = Bench("rs_hmp4040")
    bench.set("set_voltage", channel=1, voltage=2)
    assert bench.set("set_voltage", channel=2, voltage=3) == {}
    assert bench.set("set_voltage", channel=1, voltage=3) == {"voltage": 2}


@promise("previous.never-guessed")
def test_nothing_is_known_after_what_may_have_changed_it() -> None:
    bench = Bench()
    for forgetting in ("raw", "reopened", "another"):
        bench.set("set_voltage", channel=1, voltage=2)
        match forgetting:
            case "raw":
                raw = bench.raw(":SOUR1:VOLT 5")
                assert raw is not None
                raw.done()
            case "another":
                bench.set("ovp_off", channel=1)
            case _:
                bench.unit.meeting = object()
        assert bench.set("set_voltage", channel=1, voltage=3) == {}, forgetting


@promise("previous.known")
def test_of_a_command_that_sets_several_things_each_is_known() -> None:
    bench = Bench()
    bench.set("set_voltage", channel=2, voltage=2)
    bench.set("set_voltage_and_current", channel=1, voltage=1, current=0.5)
    assert bench.set("set_voltage", channel=2, voltage=3) == {"voltage": 2}
    assert bench.set("set_current", channel=1, current=1) == {"current": 0.5}
    replaced = bench.set("set_voltage_and_current", channel=1, voltage=4, current=2)
    assert replaced == {"voltage": 1, "current": 1}
    bench.set("set_voltage_and_current", channel=3, voltage=4, current=2)
    bench.begin("set_voltage", channel=3, voltage=1)  # its end is not known
    assert bench.set("set_voltage_and_current", channel=3, voltage=4, current=2) == {}


def test_before_a_setting_it_is_known_whether_its_output_is_on() -> None:
    bench = Bench()
    values: dict[str, Scalar] = {"channel": 2, "voltage": 5}
    command = bench.profile.commands["set_voltage"]
    assert bench.memory.outputs(bench.unit, command, values) == []
    bench.set("output_on", channel=2)
    assert bench.memory.outputs(bench.unit, command, values) == ["output 2 is on"]
    bench.set("output_on", channel=1)
    bench.set("output_off", channel=2)
    assert bench.memory.outputs(bench.unit, command, values) == ["output 2 is off"]
    bench.unit.meeting = object()
    assert bench.memory.outputs(bench.unit, command, values) == []


def test_raw_questions_change_nothing() -> None:
    bench = Bench()
    bench.set("set_voltage", channel=1, voltage=2)
    assert bench.raw(":SOUR1:VOLT?") is None
    assert bench.set("set_voltage", channel=1, voltage=3) == {"voltage": 2}


@promise("previous.never-guessed")
def test_a_write_that_did_not_end_well_leaves_nothing_known_and_the_next_one_does() -> None:
    bench = Bench()
    bench.set("set_voltage", channel=1, voltage=2)
    bench.fail("set_voltage", channel=1, voltage=9)
    assert bench.set("set_voltage", channel=1, voltage=3) == {}
    assert bench.set("set_voltage", channel=1, voltage=4) == {"voltage": 3}
    bench.fail("clear_status")
    assert bench.set("set_voltage", channel=1, voltage=5) == {"voltage": 4}
    bench.fail("ovp_on", channel=1)
    assert bench.set("set_voltage", channel=1, voltage=6) == {}


@promise("previous.never-guessed")
def test_of_writes_that_were_under_way_side_by_side_nothing_is_known() -> None:
    bench = Bench()
    first, second = (bench.begin("set_voltage", channel=1, voltage=v) for v in (4, 5))
    first.done()
    assert bench.set("set_voltage", channel=1, voltage=6) == {}
    second.done()
    assert bench.set("set_voltage", channel=1, voltage=7) == {}
    raw = bench.raw(":APPL CH1,5,1")
    assert raw is not None
    assert bench.set("set_voltage", channel=1, voltage=8) == {}
    raw.over()
    assert bench.set("set_voltage", channel=1, voltage=9) == {}
    assert bench.set("set_voltage", channel=1, voltage=8) == {"voltage": 9}


@promise("previous.never-guessed")
def test_a_safe_write_that_went_out_before_one_that_waited_tells_nothing() -> None:
    bench = Bench()
    waiting = bench.begin("output_on", channel=1)
    bench.set("output_off", channel=1)
    waiting.done()
    assert bench.ask("measure_voltage", 5.0, channel=1) == []


@promise("previous.never-guessed")
def test_what_is_asked_while_a_write_is_under_way_is_not_believed() -> None:
    bench = Bench()
    writing = bench.begin("set_voltage", channel=1, voltage=4)
    bench.ask("get_voltage", 2.0, channel=1)
    writing.over()
    assert bench.set("set_voltage", channel=1, voltage=3) == {}


@promise("previous.never-guessed")
@pytest.mark.parametrize(
    ("key", "asked", "between"),
    [
        ("yokogawa_gs200", ("set_voltage", {"voltage": 1}),
         ("set_voltage_autorange", {"voltage": 5})),
        ("rigol_dg1022z", ("set_amplitude", {"channel": 1, "amplitude": 1}),
         ("set_load", {"channel": 1, "ohms": 50})),
        ("siglent_spd3303x", ("set_voltage", {"channel": 2, "voltage": 1}),
         ("set_voltage", {"channel": 1, "voltage": 5})),
        ("siglent_spd3303x", ("set_voltage", {"channel": 1, "voltage": 1}),
         ("recall_state", {"memory": 1})),
        ("keithley_2450", ("set_voltage", {"voltage": 1}),
         ("set_voltage_source_range", {"range": "2"})),
        ("rigol_dp832", ("set_voltage", {"channel": 1, "voltage": 1}), ("ovp_off", {"channel": 1})),
    ],
)  # fmt: skip
def test_what_another_setting_may_have_changed_is_not_known(
    key: str, asked: tuple[str, dict[str, Scalar]], between: tuple[str, dict[str, Scalar]]
) -> None:
    bench = Bench(key)
    (name, values), (other, given) = asked, between
    bench.set(name, **values)
    assert bench.set(name, **values) != {}
    bench.set(other, **given)
    assert bench.set(name, **values) == {}


@promise("previous.known")
def test_of_a_source_meter_the_limit_stays_known_beside_the_level() -> None:
    bench = Bench("keithley_2450")
    bench.set("set_voltage", voltage=1)
    bench.set("set_current_limit", current_limit=0.1)
    bench.set("output_on")
    assert bench.set("set_voltage", voltage=2) == {"voltage": 1}
    assert bench.set("set_current_limit", current_limit=0.2) == {"current_limit": 0.1}


@promise("previous.never-guessed")
def test_a_raw_line_that_couples_channels_parts_them_for_good() -> None:
    bench = Bench()
    raw = bench.raw(":OUTP:TRAC CH1,ON")
    assert raw is not None
    raw.done()
    bench.set("set_voltage", channel=2, voltage=2)
    bench.set("set_voltage", channel=1, voltage=3)
    assert bench.set("set_voltage", channel=2, voltage=4) == {}


@promise("previous.known")
def test_a_mode_is_replaced_by_its_name() -> None:
    bench = Bench("rigol_ds1054z")
    bench.set("set_coupling", channel=1, coupling="AC")
    assert bench.set("set_coupling", channel=1, coupling="DC") == {"coupling": "AC"}


@promise("previous.never-guessed")
def test_a_raw_question_that_nobody_knows_may_change_something() -> None:
    bench = Bench()
    bench.set("output_off", channel=1)
    for line in ("*OPC?", ":OUTP? CH1"):
        assert bench.raw(line) is None
    raw = bench.raw(":SOME:THING?")
    assert raw is not None
    raw.done()
    assert bench.ask("measure_voltage", 0.0, channel=1) == []


@promise("notes.off")
def test_after_an_abort_the_outputs_are_known_to_be_off() -> None:
    bench = Bench()
    bench.set("output_on", channel=2)
    abort = bench.abort()
    assert bench.ask("measure_voltage", 0.0, channel=2) == []
    abort.done()
    assert bench.ask("measure_voltage", 0.0, channel=2) == ["output 2 is off"]
    bench.hear("OFF", "ON", "OFF")
    assert bench.ask("measure_voltage", 0.0, channel=2) == []
    bench.abort().over()
    assert bench.ask("measure_voltage", 0.0, channel=1) == []


@promise("previous.known")
def test_an_abort_that_switches_off_leaves_the_levels_known_and_one_that_sets_them_tells() -> None:
    bench = Bench()
    bench.set("set_voltage", channel=1, voltage=2)
    bench.abort().done()
    assert bench.set("set_voltage", channel=1, voltage=3) == {"voltage": 2}
    bench = Bench("yokogawa_gs200")
    bench.set("set_voltage", voltage=2)
    bench.abort().done()
    assert bench.set("set_voltage", voltage=3) == {"voltage": 0}


@promise("notes.off")
def test_what_a_check_of_the_bench_was_answered_is_known() -> None:
    bench = Bench()
    bench.hear("OFF", "ON")
    assert bench.ask("measure_voltage", 0.0, channel=1) == ["output 1 is off"]
    assert bench.ask("measure_voltage", 0.0, channel=2) == []


@promise("notes.off")
def test_a_measurement_of_all_outputs_names_those_that_are_off() -> None:
    bench = Bench("keysight_e36312a")
    bench.set("output_off", channel=3)
    assert bench.ask("measure_all_voltages", {}) == ["output 3 is off"]


@promise("notes.off")
def test_a_channel_of_a_supply_with_a_switch_for_all_is_off_by_either() -> None:
    bench = Bench("rs_hmp4040")
    bench.set("deactivate_channel", channel=2)
    assert bench.ask("measure_voltage", 0.0, channel=1) == []
    assert bench.ask("measure_voltage", 0.0, channel=2) == ["output 2 is off"]
    bench.set("output_off")
    assert bench.ask("measure_voltage", 0.0, channel=1) == ["the output is off"]


@promise("notes.off")
def test_a_measurement_of_an_output_that_is_off_says_so() -> None:
    bench = Bench()
    assert bench.ask("measure_voltage", 0.0, channel=1) == []
    bench.set("output_off", channel=1)
    assert bench.ask("measure_voltage", 0.0, channel=1) == ["output 1 is off"]
    assert bench.ask("measure_voltage", 0.0, channel=2) == []
    assert bench.ask("get_voltage", 0.0, channel=1) == []
    bench.begin("output_on", channel=1)
    assert bench.ask("measure_voltage", 0.0, channel=1) == []


@promise("notes.off")
@pytest.mark.parametrize(
    ("key", "measure", "note"),
    [
        ("keithley_2450", "measure_current", "the output is off"),
        ("rs_hmp4040", "measure_voltage", "the output is off"),
        ("keysight_e36312a", "measure_voltage", "output 1 is off"),
        ("rigol_dl3021", "measure_current", "the input is off"),
        ("yokogawa_gs200", "measure_current", "the output is off"),
    ],
)
def test_the_sources_and_loads_of_the_library_are_known(key: str, measure: str, note: str) -> None:
    bench = Bench(key)
    off = next(n for n in ("output_off", "input_off") if n in PROFILES[key].commands)

    def given(name: str) -> dict[str, Scalar]:
        return {"channel": 1} if "channel" in PROFILES[key].commands[name].parameters else {}

    bench.set(off, **given(off))
    assert bench.ask(measure, 0.0, **given(measure)) == [note]
    assert bench.ask(measure, 0.0, **given(measure)) == [note]


@promise("notes.off")
def test_a_meter_measures_no_output_of_its_own() -> None:
    bench = Bench("srs_sr830")
    bench.set("set_frequency", frequency=1000)
    assert bench.ask("measure_r", 0.0) == []
