"""What a unit was set to last: told where it is known, and never guessed."""

from __future__ import annotations

import pytest

from edged.commands.memory import Memory, Writing
from edged.profiles.loading import load_library
from edged.profiles.model import Scalar
from edged.profiles.raw import identify
from edged.profiles.template import render_lines
from tests.bench.engine_process import REPOSITORY
from tests.bench.fake_instruments import FakeInstrument
from tests.promises import promise

PROFILES = load_library([REPOSITORY / "profiles"]).profiles


class Bench:
    """One unit, and what is remembered of it."""

    def __init__(self, key: str = "rigol_dp832") -> None:
        self.unit = FakeInstrument(id="S::1", profile=PROFILES[key])
        self.memory = Memory()

    def begin(self, name: str, **values: Scalar) -> Writing:
        command = PROFILES[self.unit.profile.key].commands[name]
        return self.memory.begin(self.unit, command, render_lines(command, values))  # type: ignore[arg-type]

    def set(self, name: str, **values: Scalar) -> dict[str, Scalar]:
        writing = self.begin(name, **values)
        writing.done()
        return writing.previous

    def raw(self, line: str) -> Writing | None:
        parts = identify(PROFILES[self.unit.profile.key], line)  # type: ignore[union-attr]
        return self.memory.begin_raw(self.unit, parts)  # type: ignore[arg-type]

    def ask(self, name: str, answer: object, **values: Scalar) -> list[str]:
        command = PROFILES[self.unit.profile.key].commands[name]
        lines = render_lines(command, values)
        self.memory.begin_question(self.unit, command, lines)  # type: ignore[arg-type]
        notes = self.memory.notes(self.unit, command, values)  # type: ignore[arg-type]
        self.memory.heard(self.unit, command, lines, answer)  # type: ignore[arg-type]
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
    for forgetting in ("raw", "abort", "reopened", "another"):
        bench.set("set_voltage", channel=1, voltage=2)
        match forgetting:
            case "raw":
                raw = bench.raw(":SOUR1:VOLT 5")
                assert raw is not None
                raw.done()
            case "abort":
                bench.memory.forget(bench.unit.id)
            case "another":
                bench.set("ovp_off", channel=1)
            case _:
                bench.unit.meeting = object()
        assert bench.set("set_voltage", channel=1, voltage=3) == {}, forgetting


@promise("previous.known")
def test_a_command_that_sets_several_things_leaves_just_these_known() -> None:
    bench = Bench()
    bench.set("set_voltage", channel=2, voltage=2)
    bench.set("set_voltage_and_current", channel=1, voltage=1, current=0.5)
    assert bench.set("set_voltage", channel=2, voltage=3) == {}
    assert bench.set("set_current", channel=1, current=1) == {"current": 0.5}


def test_raw_questions_change_nothing() -> None:
    bench = Bench()
    bench.set("set_voltage", channel=1, voltage=2)
    assert bench.raw(":SOUR1:VOLT?") is None
    assert bench.set("set_voltage", channel=1, voltage=3) == {"voltage": 2}


@promise("previous.never-guessed")
def test_a_write_whose_end_nobody_knows_leaves_nothing_known() -> None:
    bench = Bench()
    bench.set("set_voltage", channel=1, voltage=2)
    bench.begin("set_voltage", channel=1, voltage=9)
    assert bench.set("set_voltage", channel=1, voltage=3) == {}
    first, second = (bench.begin("set_voltage", channel=1, voltage=v) for v in (4, 5))
    first.done()
    assert bench.set("set_voltage", channel=1, voltage=6) == {}
    second.done()
    raw = bench.raw(":APPL CH1,5,1")
    assert raw is not None
    assert bench.set("set_voltage", channel=1, voltage=7) == {}
    assert bench.set("set_voltage", channel=1, voltage=8) == {}


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
