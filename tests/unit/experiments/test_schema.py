"""The JSON Schema of experiments, and the text of the grammar for agents."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from edged.experiments.examples import EXAMPLES
from edged.experiments.grammar import STEPS
from edged.experiments.reading import BadPlan, read_plan
from edged.experiments.schema import experiment_schema, grammar_text
from edged.profiles.library import parse_yaml
from tests.bench.plain import plain_tree
from tests.unit.experiments.test_reading import EXAMPLES as FILES
from tests.unit.experiments.test_reading import plan

MOST_BYTES = 4_096
VALIDATOR = Draft202012Validator(experiment_schema())


def tree_of(text: str) -> Any:
    return plain_tree(parse_yaml(text, "an example"))


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(experiment_schema())


@pytest.mark.parametrize("path", sorted(FILES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_of_the_specification_are_valid(path: Any) -> None:
    VALIDATOR.validate(tree_of(path.read_text()))


@pytest.mark.parametrize("kind", EXAMPLES)
def test_the_plans_to_begin_with_are_valid_and_can_be_read(kind: str) -> None:
    VALIDATOR.validate(tree_of(EXAMPLES[kind]))
    read_plan(EXAMPLES[kind])


CALL = {"command": "a.set_voltage", "parameters": {"channel": 1}}


@pytest.mark.parametrize(
    "step",
    [
        {"ramp": CALL, "to": "{2}", "rate": 1},
        {"for": "v", "in": [1, 2], "set": CALL, "steps": []},
        {"for": "v", "in": {"count": 3}, "steps": [{"leave": "v"}]},
        {"settle": CALL, "drift": 1},
        {"measure": {"v": CALL, "i": "a.measure.current"}},
        {"wait_ms": "2 + 3"},
    ],
)
def test_what_the_reader_takes_the_schema_takes(step: dict[str, Any]) -> None:
    read_plan(plan(step))
    VALIDATOR.validate(plan(step))


@pytest.mark.parametrize(
    "bad",
    [
        {"roles": {}},
        {"bogus": 1},
        {"steps": [{"wait": 1}]},
        {"steps": [{"wait_s": 1, "bogus": 2}]},
        {"steps": [{"wait_s": [2]}]},
        {"steps": [{"ramp": "a.b", "to": 1}]},
        {"steps": [{"measure": {"v": "nowhere"}}]},
        {"steps": [{"for": "v", "in": {"lin": [0, 1]}, "steps": []}]},
        {"steps": [{"ask": "x", "text": "?", "type": "colour"}]},
        {"steps": [{"repeat": "r", "at_most": 0, "until": "true", "steps": []}]},
        {"log": {"t": {"command": "a.b"}}},
        {"watch": [{"read": "a.b", "must": "value < 1", "every_s": 1, "else": "sing"}]},
    ],
)
def test_what_the_grammar_refuses_the_schema_refuses(bad: dict[str, Any]) -> None:
    whole = {**plan({"wait_s": 1}), **bad}
    with pytest.raises(BadPlan):
        read_plan(whole)
    assert not VALIDATOR.is_valid(whole)


def test_the_grammar_for_agents_is_short_and_names_every_step() -> None:
    text = grammar_text()
    assert len(text.encode()) <= MOST_BYTES
    assert [kind for kind in STEPS if f"\n- {kind}: " not in text] == []


def test_the_example_of_the_grammar_can_be_read() -> None:
    example = grammar_text().partition("```yaml\n")[2].partition("```")[0]
    assert read_plan(example).name == "transistor_map"
