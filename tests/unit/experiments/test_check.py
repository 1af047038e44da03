"""The check of a plan against a bench: what it promises of a good one, and says of a bad one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from edged.errors import ErrorCode, Invalid, NotFound
from edged.experiments.check import PlanCheck
from edged.experiments.checked import BenchView, Checked, RoleUnit
from edged.experiments.model import Experiment
from edged.experiments.problem import Problem
from edged.experiments.reading import read_plan
from edged.profiles.model import Command
from edged.profiles.template import render
from edged.runs.experiments.heads import columns_of
from edged.yaml.tree import Scalar
from tests.bench.shipped import shipped_library
from tests.promises import promise


def check(
    experiment: Experiment,
    bench: BenchView,
    roles: Mapping[str, str] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> tuple[Checked | None, tuple[Problem, ...]]:
    work = PlanCheck(experiment, bench, roles or {}, parameters or {})
    work.bind()
    work.look_through()
    for one in work.to_judge:
        work.judge(one)
    work.spend()
    return work.result(), work.problems


EXAMPLES = Path(__file__).parent.parent.parent / "bench" / "experiments"
UNITS = {
    "smu1": "keithley_2400",
    "smu2": "keithley_2400",
    "tc1": "lakeshore_335",
    "psu1": "rigol_dp832",
    "dmm1": "keysight_34461a",
    "load1": "rigol_dl3021",
}


class Bench:
    """A bench of shipped profiles that allows every value up to a limit."""

    def __init__(self, fastest: float | None = None) -> None:
        self.judged: list[tuple[str, Mapping[str, Scalar]]] = []
        self._fastest = fastest

    def unit(self, name: str) -> RoleUnit:
        if name not in UNITS:
            raise NotFound(f"There is no instrument {name!r}.", code=ErrorCode.UNKNOWN_INSTRUMENT)
        profile = shipped_library().profiles[UNITS[name]]
        return RoleUnit(id=name, called=f"{name} ({profile.key})", commands=profile.commands)

    def judge(
        self, unit: RoleUnit, command: Command, values: Mapping[str, Scalar], **_: Any
    ) -> tuple[str, ...]:
        del unit
        self.judged.append((command.name, values))
        voltage = values.get("voltage")
        if isinstance(voltage, int | float) and voltage > 32:
            raise Invalid(f"voltage {voltage:g} V is over the maximum 32 V.")
        return tuple(render(line, command.parameters, values) for line in command.scpi)

    def spend(self, *_: Any) -> None:
        return

    def fastest(self, unit: RoleUnit, command: Command) -> float | None:
        del unit, command
        return self._fastest


def plan(*steps: Any, **more: Any) -> dict[str, Any]:
    return {
        "format": 1,
        "experiment": "x",
        "roles": {"s": "psu1", "m": "dmm1"},
        "with": {"s": {"channel": 1}},
        "steps": list(steps),
        **more,
    }


def checked(*steps: Any, **more: Any) -> Checked:
    found, problems = check(read_plan(plan(*steps, **more)), Bench())
    assert found is not None, problems
    return found


def problems(*steps: Any, bench: Bench | None = None, **more: Any) -> tuple[Problem, ...]:
    found, wrong = check(read_plan(plan(*steps, **more)), bench or Bench())
    assert found is None
    return wrong


@pytest.mark.parametrize("name", ["transistor_map", "board_test", "r_of_t"])
def test_the_examples_of_the_specification_pass(name: str) -> None:
    found, wrong = check(read_plan((EXAMPLES / f"{name}.yaml").read_text()), Bench())
    assert wrong == ()
    assert found is not None


def test_a_map_is_judged_by_its_distinct_values() -> None:
    bench = Bench()
    text = (EXAMPLES / "transistor_map.yaml").read_text()
    found, _ = check(read_plan(text), bench)
    assert found is not None
    assert found.points[1] == 861
    assert len(bench.judged) < 100


def test_a_million_points_are_checked_without_being_unrolled() -> None:
    bench = Bench()
    inner = {"for": "v", "in": {"lin": [0, 5, 1_000]}, "set": "s.set_voltage",
             "steps": [{"measure": {"volts": "m.measure_dc_voltage"}}]}  # fmt: skip
    outer = {"for": "i", "in": {"lin": [0.1, 1, 1_000]}, "set": "s.set_current", "steps": [inner]}
    found, wrong = check(read_plan(plan(outer)), bench)
    assert found is not None, wrong
    assert found.points == (1_000_000, 1_000_000)
    assert len(bench.judged) <= 2_001


def test_the_loops_of_a_column_are_its_dimensions() -> None:
    found, _ = check(read_plan((EXAMPLES / "transistor_map.yaml").read_text()), Bench())
    assert found is not None
    assert {column.name: (column.unit, column.loops) for column in found.columns} == {
        "i_d": ("A", ("v_g", "v_d")),
        "v_ds": ("V", ("v_g", "v_d")),
        "i_g": ("A", ("v_g", "v_d")),
        "T": ("K", ("v_g", "v_d")),
    }
    # So data.nc is a grid.
    recorded = {column.name: column for column in columns_of(found)}
    assert recorded["i_d"].dimensions == ("v_g", "v_d")
    assert recorded["v_d"].dimensions == ("v_d",)
    assert recorded["flags"].is_text


def test_an_unknown_command_is_answered_with_the_one_to_write() -> None:
    (wrong,) = problems({"command": "s.output_onn"})
    assert (wrong.path, wrong.code) == ("steps[0].command", "unknown_command")
    assert wrong.remedy == "Write s.output_on."
    assert wrong.message == "s.output_onn: psu1 (rigol_dp832) has no such command."
    assert wrong.text == f"steps[0].command: {wrong.message} Write s.output_on."


@promise("experiment.all-errors")
def test_every_error_comes_at_once() -> None:
    wrong = problems(
        {"command": "q.output_on"},
        {"command": "s.set_voltage"},
        {"measure": {"v": "m.measure_dc_voltag"}},
        {"wait_s": "{nothing}"},
    )
    assert [one.code for one in wrong] == [
        "unknown_role",
        "missing_parameter",
        "unknown_command",
        "no_value",
    ]


@promise("experiment.whole-check")
def test_a_value_over_a_limit_is_refused_in_a_loop_too() -> None:
    loop = {"for": "v", "in": {"lin": [0, 40, 5]}, "set": "s.set_voltage", "steps": []}
    (wrong,) = problems(loop)
    assert wrong.path == "steps[0].set"
    assert "over the maximum 32 V" in wrong.message


@promise("experiment.bounded")
def test_a_value_that_hangs_on_an_answer_needs_bounds_and_the_remedy_is_the_line_to_add() -> None:
    steps = (
        {"read": {"v": "m.measure_dc_voltage"}},
        {"command": "s.set_voltage", "parameters": {"voltage": "{v * 2}"}},
    )
    (wrong,) = problems(*steps)
    assert wrong.code == "needs_bounds"
    assert "s.set_voltage.voltage: [lowest, highest]" in wrong.remedy
    checked(*steps, bounds={"s.set_voltage.voltage": [0, 5]})
    (wrong,) = problems(*steps, bounds={"s.set_voltage.voltage": [0, 50]})
    assert "over the maximum 32 V" in wrong.message


def test_a_name_without_a_value_on_every_way_is_an_error_until_it_has_one() -> None:
    steps = [
        {"read": {"v": "m.measure_dc_voltage"}},
        {"if": "v > 1", "then": [{"let": {"x": 1}}]},
        {"row": {"x": "x"}},
    ]
    (wrong,) = problems(*steps)
    assert "x has no value on every way" in wrong.message
    checked({"let": {"x": 0}}, *steps)


def test_a_name_that_only_a_left_loop_gives_is_not_certain() -> None:
    loop = {
        "for": "i",
        "in": {"count": 3},
        "steps": [{"if": "i > 0", "then": [{"leave": "i"}]}, {"let": {"x": "{i}"}}],
    }
    (wrong,) = problems(loop, {"row": {"x": "x"}})
    assert wrong.code == "no_value"


def test_a_parameter_that_may_only_be_ramped_needs_a_rate_within_the_owners() -> None:
    loop: dict[str, Any] = {"for": "v", "in": [0, 1], "set": "s.set_voltage", "steps": []}
    (wrong,) = problems(loop, bench=Bench(fastest=0.5))
    assert wrong.code == "needs_rate"
    (wrong,) = problems({**loop, "rate": 2}, bench=Bench(fastest=0.5))
    assert "over the owner's 0.5" in wrong.message


def test_a_field_that_an_answer_lacks_is_named_with_those_it_has() -> None:
    wrong, _ = (
        check(
            read_plan(
                {
                    "format": 1,
                    "experiment": "x",
                    "roles": {"a": "smu1"},
                    "steps": [{"read": {"i": "a.measure.curent"}}],
                }
            ),
            Bench(),
        ),
        (),
    )
    (problem,) = wrong[1]
    assert problem.code == "unknown_field"
    assert problem.remedy == "Write a.measure.current."


def test_a_window_that_cannot_settle_in_time_is_an_error() -> None:
    step = {"settle": "m.measure_dc_voltage", "drift": 1, "for_s": 10, "timeout_s": 5}
    assert problems(step)[0].code == "impossible"


def test_parameters_given_at_the_start_are_judged() -> None:
    plan_ = plan({"wait_s": "{t}"}, parameters={"t": {"type": "float", "min": 0, "max": 9}})
    for given in ({}, {"t": 10}, {"t": "x"}, {"u": 1, "t": 1}):
        found, wrong = check(read_plan(plan_), Bench(), parameters=given)
        assert found is None
        assert wrong
    found, _ = check(read_plan(plan_), Bench(), parameters={"t": 4})
    assert found is not None
    assert found.duration.least == 4


def test_the_envelope_has_each_write_with_its_values_and_its_count() -> None:
    found = checked(
        {"command": "s.output_on"},
        {"for": "v", "in": {"lin": [0, 2, 5]}, "set": "s.set_voltage", "rate": 1, "steps": []},
    )
    told = {one.command: (one.parameters, one.rate, one.count) for one in found.envelope}
    assert told["output_on"] == ({"channel": (1,)}, None, 1)
    assert told["set_voltage"] == ({"channel": (1,), "voltage": (0, 0.5, 1.0, 1.5, 2)}, 1, 5)


def test_a_loop_of_many_values_is_judged_by_its_extremes() -> None:
    bench = Bench()
    steps = {"for": "v", "in": {"lin": [0, 5, 100_000]}, "set": "s.set_voltage", "steps": []}
    found, wrong = check(read_plan(plan(steps)), bench)
    assert wrong == ()
    assert found is not None
    assert len(bench.judged) < 100


@pytest.mark.parametrize("name", ["v", "n_v", "attempt", "elapsed_s", "flags"])
def test_a_column_that_the_data_have_already_is_an_error(name: str) -> None:
    measure = {"measure": {name: "m.measure_dc_voltage"}}
    loop = {"for": "v", "in": [0, 1], "set": "s.set_voltage", "steps": [measure]}
    (wrong,) = problems(loop)
    assert wrong.code == "reserved"


@pytest.mark.parametrize("name", ["data", "checks"])
def test_a_log_whose_file_is_there_already_is_an_error(name: str) -> None:
    log = {name: {"command": "m.measure_dc_voltage", "every_s": 1}}
    assert problems({"wait_s": 0}, log=log)[0].code == "reserved"


def test_what_is_switched_on_and_not_off_again_is_left_on() -> None:
    on, off = {"command": "s.output_on"}, {"command": "s.output_off"}
    assert checked(on).left_on == ("psu1 (rigol_dp832): OUTP CH1",)
    assert checked(on, **{"finally": [off]}).left_on == ()
    loop = {"for": "i", "in": [1], "steps": [on], "finally": [off]}
    assert checked(loop).left_on == ()
    assert checked(on, off).left_on == ("psu1 (rigol_dp832): OUTP CH1",)


LOOPS = {
    "for": "i",
    "in": {"count": 2},
    "steps": [{"for": "j", "in": {"count": 2}, "steps": [{"row": {"x": "1"}}]}],
}
SWITCH = {"command": "s.output_on"}


def test_what_a_resume_would_leave_out_is_named() -> None:
    again = {"first": [SWITCH]}
    found = checked(again, {"let": {"a": 1}}, {"if": "a > 0", "then": [SWITCH]}, SWITCH, LOOPS,
                    resume={"at": "j"})  # fmt: skip
    assert [said for said in found.later if said.startswith("resume")] == [
        "resume: steps[2], steps[3] would not be done again; only first steps are"
    ]
    assert not checked(again, LOOPS, resume={"at": "i"}).later


def test_a_resume_at_a_loop_inside_of_a_unit_is_answered_with_the_loop_to_write() -> None:
    ask = {"ask": "serial", "text": "?", "type": "text"}
    units = {**LOOPS, "unit": "{serial}", "steps": [ask, *LOOPS["steps"]]}
    (wrong,) = problems(units, resume={"at": "j"})
    assert (wrong.path, wrong.remedy) == ("resume.at", "Write i.")
    assert checked(units, resume={"at": "i"})


def test_a_resume_at_a_loop_of_finally_is_an_error() -> None:
    (wrong,) = problems(SWITCH, **{"finally": [LOOPS]}, resume={"at": "i"})
    assert "stands in finally" in wrong.message
