"""What an experiment file may say, and what its author is told where it may not."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from edged.experiments.grammar import STEPS
from edged.experiments.model import Experiment, LetStep, MeasureStep
from edged.experiments.problem import Problem
from edged.experiments.reading import BadPlan, placed, read_plan
from edged.profiles.format.sequences import STEPS as SEQUENCE_STEPS
from edged.profiles.model import ForStep, WaitStep, walk
from tests.promises import promise

EXAMPLES = Path(__file__).parent.parent.parent / "bench" / "experiments"


def plan(*steps: Any, **more: Any) -> dict[str, Any]:
    return {"format": 1, "experiment": "x", "roles": {"a": "psu1"}, "steps": list(steps), **more}


def problems(source: str | dict[str, Any]) -> tuple[Problem, ...]:
    with pytest.raises(BadPlan) as bad:
        read_plan(source)
    return bad.value.problems


@pytest.mark.parametrize("name", ["transistor_map", "board_test", "r_of_t"])
def test_the_examples_of_the_specification_are_read(name: str) -> None:
    experiment = read_plan((EXAMPLES / f"{name}.yaml").read_text())
    assert experiment.name == name
    assert any(isinstance(step, MeasureStep) for step in walk(experiment.steps)) or name == "r_of_t"


def test_a_plan_is_the_same_from_yaml_and_from_json() -> None:
    object_ = plan({"wait_s": 1}, {"let": {"x": "{1 + 2}"}})
    assert read_plan(object_) == read_plan(json.dumps(object_))


def test_each_step_knows_its_path() -> None:
    inner = {"for": "i", "in": [1, 2], "steps": [{"wait_s": 1}]}
    found = [step.path for step in walk(read_plan(plan({"wait_s": 1}, inner)).steps)]
    assert found == ["steps[0]", "steps[1]", "steps[1].steps[0]"]


@promise("experiment.all-errors")
def test_every_error_comes_at_once_with_its_path() -> None:
    found = problems(
        plan({"comand": "a.b"}, {"wait_s": 1, "bogus": 2}, {"leave": "q"}, resume={"at": "z"})
    )
    assert [one.path for one in found] == ["steps[0]", "steps[1].bogus", "steps[2].leave", "resume"]


def test_an_error_of_a_yaml_file_names_its_line() -> None:
    text = "format: 1\nexperiment: x\nroles: {a: psu1}\nsteps:\n  - wait_s: 1\n  - wait_s: [2]\n"
    assert [one.line for one in problems(text)] == [6]


def mutations(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Places of a plan, each with what is written there in place of what is right."""
    inside: Any = value.items() if isinstance(value, dict) else ()
    for key, inner in enumerate(value) if isinstance(value, list) else inside:
        here = (*path, key)
        yield from ((here, wrong) for wrong in (None, [1], {"a": 1}, "oh no!", -5, "1,5"))
        if isinstance(inner, dict):
            yield here, {**inner, "xyzzy": 1}
            yield from ((here, {k: v for k, v in inner.items() if k != one}) for one in inner)
        yield from mutations(inner, here)


@promise("experiment.all-errors")
@pytest.mark.parametrize("name", ["transistor_map", "board_test", "r_of_t"])
def test_an_error_names_its_path_once_and_its_place_in_yaml(name: str) -> None:
    good = YAML(typ="safe").load((EXAMPLES / f"{name}.yaml").read_text())
    for number, (path, wrong) in enumerate(mutations(good)):
        bad = copy.deepcopy(good)
        *outer, key = path
        functools.reduce(lambda there, one: there[one], outer, bad)[key] = wrong
        is_yaml = number % 10 == 0
        try:
            read_plan(json.dumps(bad, indent=1) if is_yaml else bad)
        except BadPlan as found:
            for one in found.problems:
                # Neither with its path, nor with what stands around that.
                parts = re.split(r"(?=[.\[])", one.path)
                for end in range(len(parts)):
                    owner = re.escape("".join(parts[: end + 1]))
                    assert not re.match(rf"{owner}[:. \[]", one.message), one
                assert one.text.count(f"{one.path}: ") == 1, one
                assert bool(one.line) == bool(one.column) == is_yaml
                if is_yaml:
                    assert one.text.startswith(f"line {one.line}, column {one.column}: {one.path}")


def test_a_decimal_comma_is_an_error_with_its_remedy() -> None:
    (found,) = problems(plan({"wait_s": "2,5"}))
    assert found.remedy == "Write 2.5."


def test_words_that_yaml_takes_for_booleans_are_texts() -> None:
    text = """\
format: 1
experiment: x
roles: {a: psu1}
tags: [no, on, off, yes, NO]
steps:
  - let: {x: on, y: true}
"""
    found = read_plan(text)
    assert found.tags == ("no", "on", "off", "yes", "NO")
    (step,) = found.steps
    assert isinstance(step, LetStep)
    assert dict(step.let) == {"x": "on", "y": True}


def test_steps_of_a_sequence_are_steps_of_an_experiment() -> None:
    # A raw line is a step of a sequence alone: an experiment knows commands and their limits.
    assert set(SEQUENCE_STEPS) - {"query"} <= set(STEPS)
    command = {"command": "a.set_voltage", "parameters": {"voltage": "{v}"}, "as": "said"}
    steps = [command, {"wait_ms": 20}, {"row": {"level": "v", "said": "said"}}]
    found = read_plan(plan({"for": "v", "in": {"lin": [0, 1, 3]}, "steps": steps}))
    assert [step.path for step in walk(found.steps)][1:] == [
        f"steps[0].steps[{number}]" for number in range(3)
    ]


def test_a_misspelt_step_is_told_the_word_that_is_near() -> None:
    (found,) = problems(plan({"mesure": {"v": "a.measure_voltage"}}))
    assert "measure" in found.remedy


def test_a_quoted_number_is_that_number() -> None:
    (step,) = read_plan(plan({"wait_s": "2.5"})).steps
    assert step == WaitStep(path="steps[0]", wait_ms="{(2.5) * 1000}")


def test_wait_s_is_a_step_and_a_key_of_for() -> None:
    (step,) = read_plan(plan({"for": "i", "in": [1], "wait_s": 0.1, "steps": []})).steps
    assert isinstance(step, ForStep)
    assert step.wait_s == 0.1


def test_let_keeps_the_order_of_its_names() -> None:
    (step,) = read_plan(plan({"let": {"z": 1, "a": "{z + 1}"}})).steps
    assert isinstance(step, LetStep)
    assert list(step.let) == ["z", "a"]


@pytest.mark.parametrize(
    "step",
    [
        {"for": "i", "in": {"lin": [0, 1]}, "steps": []},
        {"for": "i", "in": [], "steps": []},
        {"for": "i", "in": {"count": 0}, "steps": []},
        {"for": "i", "in": [1], "rate": 1, "steps": []},
        {"check": "c", "value": 1},
        {"settle": "a.measure"},
        {"settle": "a.measure", "target": 1, "drift": 1},
        {"ask": "q", "text": "?", "type": "choice"},
        {"ask": "q", "text": "?", "type": "confirm", "pattern": "^x$"},
        {"repeat": "r", "until": "x > 1", "steps": []},
        {"wait_s": 1, "let": {"x": 1}},
        {"command": "psu1"},
    ],
)
def test_a_step_that_could_not_be_done_is_refused(step: dict[str, Any]) -> None:
    assert len(problems(plan(step))) >= 1


def test_a_step_can_leave_only_a_loop_that_it_stands_in() -> None:
    loop = {"for": "i", "in": [1], "steps": [{"leave": "i"}]}
    read_plan(plan(loop))
    assert problems(plan(loop, {"leave": "i"}))[0].path == "steps[1].leave"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)
STEP_KEYS = st.sampled_from(
    [
        "command",
        "wait_s",
        "poll",
        "row",
        "for",
        "in",
        "set",
        "read",
        "measure",
        "ramp",
        "to",
        "rate",
        "settle",
        "if",
        "then",
        "repeat",
        "until",
        "let",
        "check",
        "ask",
        "leave",
        "first",
        "steps",
    ]
)


@given(steps=st.lists(st.dictionaries(STEP_KEYS, JSON, max_size=4) | JSON, max_size=4))
def test_whatever_is_sent_is_a_plan_or_a_list_of_errors(steps: list[Any]) -> None:
    with contextlib.suppress(BadPlan):
        assert isinstance(read_plan(plan(*steps)), Experiment)


@given(text=st.text(max_size=60))
def test_whatever_text_is_sent_is_a_plan_or_a_list_of_errors(text: str) -> None:
    with contextlib.suppress(BadPlan):
        read_plan(text)


def test_a_problem_of_the_check_gets_the_line_of_its_path() -> None:
    text = (
        "format: 1\nexperiment: x\nroles: {a: psu1}\nsteps:\n"
        "  - command: a.on\n    parameters: {v: 1}\n  - {wait_s: 1}\n"
    )
    paths = ("steps[0].command", "steps[0].parameters.v", "steps[1].wait_s.x", "roles.b", "bounds")
    found = placed([Problem(path=path, code="x", message="") for path in paths], text)
    assert [problem.line for problem in found] == [5, 6, 7, 3, 0]


def test_an_unreadable_text_needs_no_lines() -> None:
    assert placed(problems("a: [1"), "a: [1")[0].line == 1


def test_a_text_that_is_no_yaml_has_its_place_once() -> None:
    with pytest.raises(BadPlan) as refused:
        read_plan("format: 1\nsteps: [\n")
    (problem,) = refused.value.problems
    assert problem.line == 3
    assert problem.message.startswith("This is not YAML")
