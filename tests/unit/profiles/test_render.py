"""Rendering: nothing can be injected, and nothing is rounded past a bound."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from edged.errors import Invalid
from edged.profiles.model import Bound, Command, Parameter, ParameterType, SweepPlan, wire_text
from edged.profiles.template import render, render_lines, resolution
from edged.scpi.line import split_compound
from tests.promises import promise

FLOAT, INT, STRING = ParameterType.FLOAT, ParameterType.INT, ParameterType.STRING
BOOL, ENUM = ParameterType.BOOL, ParameterType.ENUM


def parameter(name: str, kind: ParameterType, **fields: object) -> Parameter:
    return Parameter(name=name, type=kind, **fields)


def one(template: str, value: object, kind: ParameterType = FLOAT, **fields: object) -> str:
    return render(template, {"x": parameter("x", kind, **fields)}, {"x": value})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        (5.0, "5"),
        (0.1, "0.1"),
        (-3.25, "-3.25"),
        (0.0, "0"),
        (-0.0, "0"),
        (1e-7, "0.0000001"),
        (25e6, "25000000"),
        (1e300, "1E+300"),
        (5e-324, "5E-324"),
    ],
)
def test_a_number_without_format_is_its_shortest_text(value, text):
    assert one("{x}", value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_without_format_reads_back_equal(value):
    assert float(one("{x}", value)) == value


@pytest.mark.parametrize(
    ("template", "value", "bounds", "text"),
    [
        ("{x:.3f}", 31.9996, {"max": 32}, "32.000"),
        ("{x:.1f}", 5.25, {"max": 5.26}, "5.2"),
        ("{x:.1f}", 5.2999, {"max": 5.2999}, "5.2"),
        ("{x:.1f}", 0.04, {"min": 0.01}, "0.1"),
        ("{x:.1f}", -5.26, {"min": -5.26}, "-5.2"),
        ("{x:.2e}", 1.2399e3, {"max": 1239.9}, "1.23e+03"),
        ("{x:.3g}", 1239.9, {"max": 1239.9}, "1.23e+03"),
        ("{x:d}", 2.7, {"max": 2.8}, "2"),
        ("{x:.3f}", -0.0001, {}, "0.000"),
        ("{x:+.1f}", -0.01, {}, "+0.0"),
        ("{x:05.2f}", 5.0, {"max": 30}, "05.00"),
    ],
)
def test_a_format_never_writes_a_number_past_its_bound(template, value, bounds, text):
    assert one(template, value, **bounds) == text


def test_the_bound_that_another_parameter_brings_holds_for_rounding_too():
    parameters = {
        "channel": parameter("channel", INT, min=1, max=3, default=1),
        "voltage": parameter("voltage", FLOAT, min=0, max=32, by={"channel": {3: Bound(max=5.26)}}),
    }

    assert render("{voltage:.1f}", parameters, {"channel": 3, "voltage": 5.26}) == "5.2"
    assert render("{voltage:.1f}", parameters, {"voltage": 5.26}) == "5.3"


def test_a_format_that_can_write_nothing_within_the_bounds_is_refused():
    with pytest.raises(Invalid, match=r"cannot be written in the format \.1f"):
        one("{x:.1f}", 5.23, min=5.21, max=5.25)


bounds_and_value = st.tuples(*[st.floats(-1e6, 1e6) for _ in range(3)]).map(sorted)


@given(bounds_and_value, st.sampled_from([".0f", ".1f", ".3f", ".2e", ".3g", "d", "+.2f", "08.3f"]))
def test_whatever_is_written_lies_within_the_bounds(numbers, spec):
    low, value, high = numbers
    try:
        text = one(f"{{x:{spec}}}", value, min=low, max=high)
    except Invalid:
        return
    assert low <= float(text) <= high
    assert not (float(text) == 0 and "-" in text)


def test_optional_part_falls_away_without_a_value_and_not_with_a_default():
    parameters = {"a": parameter("a", FLOAT), "b": parameter("b", FLOAT, default=2.0)}

    assert render("X[ {a}][,{b}]", parameters, {}) == "X,2"
    assert render("X[ {a}][,{b}]", parameters, {"a": 1.0}) == "X 1,2"


def test_a_missing_value_outside_of_an_optional_part_is_refused():
    with pytest.raises(Invalid, match="a is missing"):
        render("X {a}", {"a": parameter("a", FLOAT)}, {})


def test_labels_go_out_as_wire_values():
    mode = {"options": ("volts", "amps"), "map": {"volts": '"VOLT:DC"', "amps": 3}}

    assert one("FUNC {x}", "volts", ENUM, **mode) == 'FUNC "VOLT:DC"'
    assert one("FUNC {x}", "amps", ENUM, **mode) == "FUNC 3"
    assert one("OUTP {x}", True, BOOL, map={"true": "ON", "false": "OFF"}) == "OUTP ON"
    assert one("OUTP {x}", False, BOOL) == "OUTP 0"


def test_a_name_that_is_no_parameter_is_written_by_the_kind_of_its_value():
    assert render("{i} {f:.2f} {b}", {}, {"i": 3, "f": 1.5, "b": True}) == "3 1.50 1"


def test_quoted_string_has_its_quotes_doubled():
    assert one("DISP {x:q}", 'say "hi"', STRING) == 'DISP "say ""hi"""'


@pytest.mark.parametrize(
    "value",
    [
        "a,b",
        ",1",
        "a;b",
        'a"b',
        "a'b",
        "a\nb",
        "a\rb",
        "a\x00b",
        "\x1b[2J",
        "#15hello",
        "\u2028",
        "a\tb",
    ],
)
def test_a_bare_string_cannot_end_its_message_or_line(value):
    with pytest.raises(Invalid):
        one("DISP {x}", value, STRING)


@promise("arguments.one-text")
@pytest.mark.parametrize(
    ("template", "line"),
    [
        ("DISP {x:q}", 'DISP "a,b"'),
        ('DISP "{x}"', 'DISP "a,b"'),
        ("DISP '\"{x}'", "DISP '\"a,b'"),
        ('DISP "1"[,"{x}"]', 'DISP "1","a,b"'),
    ],
)
def test_a_comma_may_stand_in_a_text_that_the_template_quotes(template, line):
    assert one(template, "a,b", STRING) == line


@promise("arguments.one-text")
@pytest.mark.parametrize("template", ["X {x}", 'X "1",{x}', "X[ {x}]", "X '\"',{x}"])
def test_a_text_is_one_argument_and_no_more(template):
    for value in ("a,b", "a;b", 'a"', "a'", "a\x01"):
        with pytest.raises(Invalid):
            one(template, value, STRING)


def test_a_label_of_the_profile_may_hold_a_comma():
    assert one("MEAS {x}", "VOLT,CURR", ENUM, options=("VOLT,CURR",)) == "MEAS VOLT,CURR"


@given(st.text(max_size=40))
def test_a_rendered_line_is_one_message_whatever_the_string(value):
    for template in ("DISP {x:q}", "DISP {x}"):
        try:
            line = one(template, value, STRING)
        except Invalid:
            continue
        assert line.isprintable()
        assert [part.split() for part in split_compound(line)] == [line.split()]


@pytest.mark.parametrize("value", [math.nan, math.inf, 10**400])
def test_a_number_that_no_instrument_takes_is_refused(value):
    with pytest.raises(Invalid):
        one("{x:.3f}", value)


def test_lines_of_a_job_are_rendered_in_order():
    command = Command(
        name="set_voltage",
        scpi=("INST:NSEL {channel}", "VOLT {voltage:.3f}"),
        parameters={"channel": parameter("channel", INT), "voltage": parameter("voltage", FLOAT)},
    )

    lines = render_lines(command, {"channel": 2, "voltage": 5})

    assert lines == ("INST:NSEL 2", "VOLT 5.000")


def test_resolution_is_the_step_or_the_coarsest_format_or_one_for_an_integer():
    parameters = {
        "v": parameter("v", FLOAT),
        "n": parameter("n", INT),
        "s": parameter("s", FLOAT, step=0.05),
        "e": parameter("e", FLOAT),
    }
    command = Command(name="c", scpi=("A {v:.3f} {n} {s:.4f} {e:.3e}",), parameters=parameters)
    swept = Command(
        name="c",
        scpi=("A {v:.3f}",),
        parameters=parameters,
        sweep=SweepPlan(parameter="v", setpoint="A?", step=0.25),
    )

    assert resolution(command, "v") == 0.001
    assert resolution(command, "n") == 1
    assert resolution(command, "s") == 0.05
    assert resolution(command, "e") is None
    assert resolution(swept, "v") == 0.25


def test_wire_text_is_what_a_label_is_on_the_wire():
    mode = parameter("m", ENUM, options=("slow",), map={"slow": 10.0})

    assert wire_text("slow", mode) == "10"
    assert wire_text(True, None) == "1"


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 6))
def test_fixed_format_is_within_half_a_step_of_the_value(value, digits):
    assume(abs(value) < 1e12)
    text = one(f"{{x:.{digits}f}}", value)

    assert abs(float(text) - value) <= 0.51 * 10**-digits + abs(value) * 1e-15
