"""Words of a command line become the arguments that a tool's schema asks for."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.cli.shared.options import parse_arguments
from edged.errors import Invalid
from tests.promises import promise

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "channel": {"type": "integer"},
        "voltage": {"type": "number"},
        "name": {"type": "string"},
        "hold": {"type": "boolean"},
        "mode": {"type": "string", "enum": ["a", "b"]},
        "measure": {"type": "array"},
        "parameters": {"type": "object"},
    },
}


@promise("arguments.null-is-left-out")
def test_null_is_null_but_for_a_text() -> None:
    words = ["channel=null", "voltage=null", "hold=null", "measure=null", "name=null", "mode:=null"]
    assert parse_arguments(words, SCHEMA) == {
        "channel": None,
        "voltage": None,
        "hold": None,
        "measure": None,
        "name": "null",
        "mode": None,
    }


@promise("cli.typed-arguments")
def test_values_get_the_type_of_the_schema() -> None:
    words = ["channel=1", "voltage=2.5", "name=5", "hold=true", "mode=a", "measure=[1]"]
    assert parse_arguments(words, SCHEMA) == {
        "channel": 1,
        "voltage": 2.5,
        "name": "5",
        "hold": True,
        "mode": "a",
        "measure": [1],
    }


@promise("cli.typed-arguments")
def test_inner_fields_are_set_by_dotted_names() -> None:
    words = ["parameters.voltage=5", "parameters.text=on", "parameters.deep.er:=[1]"]
    assert parse_arguments(words, SCHEMA) == {
        "parameters": {"voltage": 5, "text": "on", "deep": {"er": [1]}}
    }


@promise("cli.typed-arguments")
def test_a_list_is_written_with_commas_and_each_item_has_its_type() -> None:
    numbers = {"properties": {"at": {"type": "array", "items": {"type": "number"}}}}
    texts = {"properties": {"at": {"type": "array", "items": {"type": "string"}}}}
    assert parse_arguments(["at=1, 2.5"], numbers) == {"at": [1, 2.5]}
    assert parse_arguments(["at=1,2.5"], texts) == {"at": ["1", "2.5"]}
    assert parse_arguments(["at=[1, 2]"], numbers) == {"at": [1, 2]}
    with pytest.raises(Invalid, match="at must be a number, not 'x'"):
        parse_arguments(["at=1,x"], numbers)


@promise("cli.typed-arguments")
def test_what_is_no_number_is_told_the_bounds_of_the_schema() -> None:
    volts = {"properties": {"volts": {"type": "number", "minimum": 0, "maximum": 32}}}
    with pytest.raises(Invalid, match="volts must be a number from 0 to 32, not 'five'"):
        parse_arguments(["volts=five"], volts)


def test_json_is_taken_as_it_stands() -> None:
    assert parse_arguments(["name:=5"], SCHEMA) == {"name": 5}


def test_an_equals_sign_in_the_value_stays() -> None:
    assert parse_arguments(["name=a=b"], SCHEMA) == {"name": "a=b"}


def test_an_unknown_tool_gets_guessed_types() -> None:
    assert parse_arguments(["a=1", "b=x", "c=true"], None) == {"a": 1, "b": "x", "c": True}


def test_what_the_engine_can_judge_is_sent_to_it() -> None:
    assert parse_arguments(["channel=2.5", "surplus=1"], SCHEMA) == {"channel": 2.5, "surplus": 1}


@promise("cli.typed-arguments")
@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("voltage", "is not KEY=VALUE"),
        ("=5", "is not KEY=VALUE"),
        ("voltage=five", "must be a number"),
        ("voltage=nan", "must be a number"),
        ("voltage=inf", "must be a number"),
        ("channel=x", "whole number"),
        ("hold=yes", "true or false"),
        ("measure=[1", "not JSON"),
        ("name:=[1", "not JSON"),
    ],
)
def test_a_word_that_cannot_be_meant_is_refused(word: str, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        parse_arguments([word], SCHEMA)


def test_a_field_inside_of_a_plain_value_is_refused() -> None:
    with pytest.raises(Invalid, match="plain value"):
        parse_arguments(["parameters=5", "parameters.x=1"], None)


@given(st.lists(st.text(max_size=30), max_size=4))
def test_any_words_are_arguments_or_invalid(words: list[str]) -> None:
    with contextlib.suppress(Invalid):
        parse_arguments(words, SCHEMA)
