"""Arguments against what a profile allows: schema, refusals, and that both judges agree."""

from __future__ import annotations

import json
import math
from types import MappingProxyType
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import ErrorCode, Invalid
from edged.profiles.arguments import compile_parameters, compile_schema, is_fit, make_acceptor
from edged.profiles.model import Bound, Parameter, ParameterType
from edged.profiles.parameter_schema import parameters_schema
from tests.promises import promise

FLOAT, INT, STRING = ParameterType.FLOAT, ParameterType.INT, ParameterType.STRING
BOOL, ENUM = ParameterType.BOOL, ParameterType.ENUM

PARAMETERS = {
    parameter.name: parameter
    for parameter in (
        Parameter(name="channel", type=INT, min=1, max=3, default=1),
        Parameter(
            name="voltage",
            type=FLOAT,
            description="Voltage to set.",
            unit="V",
            min=0,
            max=32,
            by={"channel": {3: Bound(max=5.3)}},
        ),
        Parameter(name="current", type=FLOAT, unit="A", min=0, max=3.2, default=1.0),
        Parameter(name="mode", type=ENUM, options=("CV", "CC"), map={"CV": 0, "CC": 1}),
        Parameter(name="label", type=STRING),
        Parameter(name="is_on", type=BOOL, default=False),
    )
}
CHECK = compile_parameters(
    "rigol_dp832.set_voltage",
    PARAMETERS,
    ("voltage * current <= 60",),
    frozenset({"mode", "label"}),
)


def refusal(**arguments: object) -> Invalid:
    with pytest.raises(Invalid) as caught:
        CHECK.validate(arguments)
    assert caught.value.code is ErrorCode.BAD_ARGUMENTS
    json.dumps(caught.value.data, allow_nan=False)
    return caught.value


@promise("arguments.null-is-left-out")
def test_an_optional_parameter_that_is_null_was_left_out():
    nulls = dict.fromkeys(("channel", "current", "mode", "label", "is_on"))

    assert CHECK.validate({"voltage": 5, **nulls}) == CHECK.validate({"voltage": 5})


@promise("arguments.null-is-left-out")
def test_a_required_parameter_that_is_null_is_refused_and_says_so():
    assert refusal(voltage=None).message == (
        "voltage is null, and rigol_dp832.set_voltage needs it: a number."
    )


def test_schema_is_flat_and_says_what_agents_need():
    properties = CHECK.schema["properties"]

    assert CHECK.schema["required"] == ["voltage"]
    assert CHECK.schema["additionalProperties"] is False
    assert properties["voltage"] == {
        "type": "number",
        "minimum": 0,
        "maximum": 32,
        "description": "Voltage to set. At most 5.3 when channel is 3. (unit: V)",
    }
    assert properties["mode"] == {"type": "string", "enum": ["CV", "CC"]}
    assert properties["is_on"] == {"type": "boolean", "default": False}
    assert properties["channel"]["type"] == "integer"
    assert "voltage * current <= 60" in CHECK.schema["description"]
    assert not CHECK.schema.keys() & {"allOf", "oneOf", "anyOf", "if", "not"}


def test_schema_is_valid_in_old_and_new_drafts():
    for draft in (jsonschema.Draft7Validator, jsonschema.Draft202012Validator):
        draft.check_schema(CHECK.schema)


def test_bounds_listed_for_every_value_of_the_other_parameter_make_the_schema_tighter():
    parameters = {
        "channel": Parameter(name="channel", type=INT, min=1, max=2),
        "voltage": Parameter(
            name="voltage",
            type=FLOAT,
            max=100,
            by={"channel": {1: Bound(min=0, max=6), 2: Bound(min=-1, max=25)}},
        ),
    }

    schema = parameters_schema(parameters)["properties"]["voltage"]

    assert (schema["minimum"], schema["maximum"]) == (-1, 25)


def test_values_come_back_typed_with_defaults_filled_in():
    values = CHECK.validate(MappingProxyType({"voltage": 5, "channel": 2.0, "mode": "CC"}))

    assert values == {
        "channel": 2,
        "voltage": 5.0,
        "current": 1.0,
        "mode": "CC",
        "is_on": False,
    }
    assert isinstance(values["channel"], int)
    assert isinstance(values["voltage"], float)


def test_value_over_its_maximum_is_refused_with_value_bound_and_unit():
    error = refusal(voltage=61)

    assert error.message == "voltage 61 V is over the maximum 32 V of rigol_dp832.set_voltage."
    assert error.data == {"parameter": "voltage", "value": 61, "maximum": 32, "unit": "V"}


def test_limit_that_depends_on_another_parameter_is_named_with_its_condition():
    error = refusal(voltage=6, channel=3)

    assert error.message == (
        "voltage 6 V is over the maximum 5.3 V of rigol_dp832.set_voltage when channel is 3."
    )
    assert error.data["maximum"] == 5.3


def test_check_that_does_not_hold_is_named_with_the_values():
    error = refusal(voltage=30, current=3)

    assert "voltage * current <= 60" in error.message
    assert error.data["check"] == "voltage * current <= 60"


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        ({}, "voltage"),
        ({"voltage": True}, "voltage"),
        ({"voltage": "1"}, "voltage"),
        ({"voltage": None}, "voltage"),
        ({"voltage": [1]}, "voltage"),
        ({"voltage": {"a": 1}}, "voltage"),
        ({"voltage": math.nan}, "voltage"),
        ({"voltage": math.inf}, "voltage"),
        ({"voltage": 10**400}, "voltage"),
        ({"voltage": 1e308}, "voltage"),
        ({"voltage": -0.001}, "voltage"),
        ({"voltage": 1, "channel": 1.5}, "channel"),
        ({"voltage": 1, "channel": True}, "channel"),
        ({"voltage": 1, "channel": 2**70}, "channel"),
        ({"voltage": 1, "mode": "cv"}, "mode"),
        ({"voltage": 1, "mode": 0}, "mode"),
        ({"voltage": 1, "is_on": 1}, "is_on"),
        ({"voltage": 1, "label": 5}, "label"),
        ({"voltage": 1, "label": "a;b"}, "label"),
        ({"voltage": 1, "label": "a\nb"}, "label"),
        ({"voltage": 1, "label": "a\x00"}, "label"),
        ({"voltage": 1, "label": "µV"}, "label"),
        ({"voltage": 1, "label": "x" * 257}, "label"),
        ({"voltage": 1, "volts": 2}, "volts"),
    ],
)
def test_what_does_not_fit_is_refused_by_the_parameter_name(arguments, parameter):
    assert refusal(**arguments).data["parameter"] == parameter


def test_misspelled_parameter_is_told_the_nearest_name():
    assert "Did you mean voltage?" in str(refusal(volage=1))


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        ({}, "Nothing was sent: give voltage."),
        ({"voltage": None}, "Nothing was sent: give voltage."),
        ({"voltage": math.inf}, "Nothing was sent: write a finite number."),
        ({"voltage": 32, "current": 3}, "Nothing was sent: stay within what is allowed."),
        ({"voltage": 6, "channel": 3}, "Nothing was sent: stay within what is allowed."),
        ({"voltage": 1, "label": "a;b"}, "Nothing was sent: write it without that."),
        ({"voltage": 1, "volage": 1}, "Nothing was sent. Did you mean voltage?"),
    ],
)
def test_every_refusal_says_that_nothing_was_sent(arguments: dict[str, Any], remedy: str) -> None:
    assert refusal(**arguments).remedy == remedy


def test_a_parameter_beside_parameters_is_told_where_it_goes() -> None:
    schema = {
        "type": "object",
        "properties": {"command_name": {"type": "string"}, "parameters": {"type": "object"}},
        "additionalProperties": False,
    }
    with pytest.raises(Invalid, match="is the command's own, put it in parameters"):
        compile_schema("start_sweep", schema)({"command_name": "set_voltage", "channel": 1})


def test_enum_refusal_lists_the_labels():
    assert refusal(voltage=1, mode="XX").data["options"] == ["CV", "CC"]


def test_an_integer_without_bounds_is_no_longer_than_a_machine_word():
    check = compile_parameters("p.c", {"n": Parameter(name="n", type=INT)})

    assert check.validate({"n": 2**62}) == {"n": 2**62}
    with pytest.raises(Invalid, match="not a finite number"):
        check.validate({"n": 2**63})


def test_other_encodings_carry_what_they_can():
    parameters = {"label": Parameter(name="label", type=STRING)}
    check = compile_parameters("p.c", parameters, encoding="latin-1")

    assert check.validate({"label": "µV"}) == {"label": "µV"}
    with pytest.raises(Invalid):
        check.validate({"label": "Ω"})


def test_a_check_about_an_absent_optional_parameter_is_passed_over():
    parameters = {"a": Parameter(name="a", type=FLOAT), "b": Parameter(name="b", type=FLOAT)}
    check = compile_parameters("p.c", parameters, ("a < b",), frozenset({"b"}))

    assert check.validate({"a": 1}) == {"a": 1.0}
    with pytest.raises(Invalid):
        check.validate({"a": 1, "b": 0})


def test_a_check_that_cannot_be_worked_out_refuses():
    parameters = {"a": Parameter(name="a", type=FLOAT)}
    check = compile_parameters("p.c", parameters, ("1 / a < 5",))

    with pytest.raises(Invalid, match="divides by zero") as caught:
        check.validate({"a": 0})
    assert caught.value.code is ErrorCode.BAD_ARGUMENTS


def test_a_default_outside_of_narrowed_limits_must_be_given():
    parameters = {"a": Parameter(name="a", type=FLOAT, max=5, default=10.0)}
    check = compile_parameters("p.c", parameters)

    assert check.schema["required"] == ["a"]
    with pytest.raises(Invalid, match="needs a"):
        check.validate({})


def test_options_by_another_parameter_are_checked():
    parameters = {
        "mode": Parameter(name="mode", type=ENUM, options=("a", "b")),
        "span": Parameter(
            name="span",
            type=ENUM,
            options=("x", "y"),
            by={"mode": {"a": Bound(options=("x",))}},
        ),
    }
    check = compile_parameters("p.c", parameters)

    assert check.validate({"mode": "b", "span": "y"})["span"] == "y"
    with pytest.raises(Invalid, match=r'"y" is not one of "x" of p\.c when mode is a'):
        check.validate({"mode": "a", "span": "y"})


STATIC = {
    "type": "object",
    "properties": {
        "sweep_rate": {"type": "number", "minimum": 0},
        "measure": {
            "type": "array",
            "maxItems": 2,
            "items": {
                "type": "object",
                "properties": {"command_name": {"type": "string", "minLength": 1}},
                "required": ["command_name"],
                "additionalProperties": False,
            },
        },
        "parameters": {"type": "object"},
        "points": {"type": "integer", "minimum": 0, "default": 0},
        "then": {"type": "string", "enum": ["hold", "abort"]},
        "hold": {"type": "boolean"},
    },
    "required": ["sweep_rate"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        ({"sweep_rate": 1, "measure": [{}]}, "measure[0].command_name"),
        ({"sweep_rate": 1, "measure": [{"command_name": ""}]}, "measure[0].command_name"),
        ({"sweep_rate": 1, "parameters": {"a": [math.nan]}}, "parameters.a[0]"),
        ({"sweep_rate": 1, "measure": [{"command_name": "a"}] * 3}, "measure"),
        ({"sweep_rate": -1}, "sweep_rate"),
    ],
)
def test_static_schema_refusals_name_the_place(arguments, parameter):
    with pytest.raises(Invalid) as caught:
        compile_schema("start_sweep", STATIC)(arguments)

    assert caught.value.data["parameter"] == parameter


def test_a_bound_that_is_not_allowed_itself_is_named():
    schema = {**STATIC, "properties": {"rate": {"type": "number", "exclusiveMinimum": 0}}}
    schema["required"] = ["rate"]
    with pytest.raises(Invalid, match=r"rate 0 is not above 0, as start_sweep needs\.") as caught:
        compile_schema("start_sweep", schema)({"rate": 0})

    assert caught.value.data == {"parameter": "rate", "value": 0, "exclusiveMinimum": 0}


def test_arguments_that_are_no_object_are_refused():
    with pytest.raises(Invalid):
        compile_schema("start_sweep", STATIC)([1])  # type: ignore[arg-type]


json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from([0, 1, 1.0, -0.0, 2.5, 1e308, 10**400, math.nan, math.inf]),
        st.floats(),
        st.sampled_from(["", "hold", "abort", "CV", "1"]),
        st.text(max_size=4),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["command_name", "a"]), inner, max_size=2),
    ),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*STATIC["properties"], "x"]), json_values, max_size=5))
def test_the_fast_yes_and_jsonschema_agree_on_the_static_tools(arguments):
    accepts = make_acceptor(STATIC)
    validator = jsonschema.Draft202012Validator(STATIC)

    assert accepts is not None
    assert accepts(arguments) == (is_fit(arguments) and validator.is_valid(arguments))


@given(st.dictionaries(st.sampled_from([*PARAMETERS, "x"]), json_values, max_size=5))
def test_the_fast_yes_and_jsonschema_agree_on_a_command(arguments):
    accepts = make_acceptor(CHECK.schema)
    validator = jsonschema.Draft202012Validator(CHECK.schema)

    assert accepts is not None
    assert accepts(arguments) == (is_fit(arguments) and validator.is_valid(arguments))


@given(st.dictionaries(st.sampled_from([*PARAMETERS, "x"]), json_values, max_size=5))
def test_any_json_is_validated_or_refused_as_bad_arguments(arguments):
    try:
        values = CHECK.validate(arguments)
    except Invalid as error:
        json.dumps(error.data, allow_nan=False)
        return
    assert values["voltage"] <= 32


@pytest.mark.parametrize("schema", [{"type": ["string", "null"]}, {"anyOf": []}, {}, {"const": 1}])
def test_a_keyword_beyond_the_fast_yes_leaves_the_judgement_to_jsonschema(schema):
    assert make_acceptor(schema) is None


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"nplc": 1}, 'nplc 1 is not a string, as t needs. Nothing was sent: write "0.2" or "1".'),
        ({"points": 5}, "Nothing was sent: write an object with count, spacing."),
        ({"measure": 5}, "Nothing was sent: write a list of objects with command_name."),
        ({"level": "5 V"}, 'level "5 V" is not a number, as t needs. Nothing was sent.'),
        ({"level": "5.0"}, "Nothing was sent: write 5.0 without quotes."),
        ({"free": '{"voltage": 1}'}, "Nothing was sent: write it without quotes."),
        ({"free": "[1]"}, 'free "[1]" is not an object, as t needs. Nothing was sent.'),
        ({"free": "[" * 9_999}, "Nothing was sent."),
        ({"level": "NaN"}, 'level "NaN" is not a number, as t needs. Nothing was sent.'),
        ({"level": "true"}, 'level "true" is not a number, as t needs. Nothing was sent.'),
    ],
)
def test_a_value_of_the_wrong_kind_is_told_with_what_to_write(
    given: dict[str, Any], told: str
) -> None:
    schema = {
        "type": "object",
        "properties": {
            "nplc": {"type": "string", "enum": ["0.2", "1"]},
            "level": {"type": "number"},
            "free": {"type": "object"},
            "points": {"type": "object", "properties": {"count": {}, "spacing": {}}},
            "measure": {
                "type": "array",
                "items": {"type": "object", "properties": {"command_name": {}}},
            },
        },
    }
    with pytest.raises(Invalid) as refused:
        compile_schema("t", schema)(given)
    assert told in str(refused.value)
