"""The expression language: what it means, and that it refuses in one way only."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import ErrorCode, Invalid
from edged.profiles.expr import compile_expression, names_in

VALUES = {"voltage": 12.0, "current": 2, "mode": "CV", "is_on": True}

names = st.sampled_from(["a", "b", "c", "value"])
scalars = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=5),
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("2 - 3 - 4", -5),
        ("-voltage + 1", -11.0),
        ("8 / 2 / 2", 2.0),
        ("1.5e3 - .5", 1499.5),
        ("voltage * current <= 24", True),
        ("voltage * current < 24", False),
        ("mode == 'CV' and is_on", True),
        ('mode != "CV" or not is_on', False),
        ("not voltage > 20", True),
        ("not is_on == is_on", False),
        ("is_on or 1 / 0 > 2", True),
        ("(voltage > 1) == is_on", True),
        ("abs(-voltage)", 12.0),
        ("min(voltage, current, 5) + max(1, -2)", 3),
        ("sqrt(current * 8) - log10(1000)", 1.0),
        ("exp(0) == round(1.4)", True),
        ("round(2.5) + round(voltage)", 14),
        ("-abs (voltage) + 1", -11.0),
        ("max(min(0.02 * voltage, 5), 0.2)", 0.24),
    ],
)
def test_expression_has_the_value_that_arithmetic_and_logic_give_it(text, value):
    assert compile_expression(text).evaluate(VALUES) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", "1 +", "(1", "1)", "a.b", "f(1)", "a[0]", "5V", "1e999", "a = 1", "a; b"),
        *("a == not b", "a b", "lambda: 1", "'open", "a ** 2", "a // 2", "a\nb", "é"),
        *("- " * 40 + "1", "(" * 40 + "1" + ")" * 40, "1+" * 100 + "1", "1 < 2 < 3"),
        *("..", "1..2", "__import__('os')", "a\u0663"),
        *("abs()", "abs(1, 2)", "min(1)", "max(1,)", "min(,1)", "abs(1", "sqrt 4", "sin(1)"),
        *("1, 2", "(1, 2)", "0,5", "abs(a)(b)", "and(1, 2)", "min((1, 2))", "abs(" * 40 + "1"),
    ],
)
def test_text_outside_the_grammar_is_refused_with_its_column(text):
    with pytest.raises(Invalid) as caught:
        compile_expression(text)

    assert caught.value.code is ErrorCode.BAD_PROFILE
    assert caught.value.data["column"] >= 1


@pytest.mark.parametrize(
    "text",
    [
        *("voltage / 0", "mode + 1", "mode < 'D'", "voltage == mode", "is_on + 1", "-mode"),
        *("missing > 1", "1e300 * 1e300", "not voltage", "voltage and is_on", "mode and is_on"),
        *("sqrt(-voltage)", "log10(0)", "log10(-1)", "exp(1000)", "abs(mode)", "max(1, is_on)"),
        *("round(missing)", "sqrt(1 / 0)", "sqrt(1" + "0" * 180 + " * 1e200)"),
    ],
)
def test_what_cannot_be_worked_out_is_refused_with_a_sentence(text):
    with pytest.raises(Invalid, match="The expression"):
        compile_expression(text).evaluate(VALUES)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, [], {}])
def test_a_value_that_is_no_finite_scalar_is_refused(value):
    with pytest.raises(Invalid):
        compile_expression("value > 1").evaluate({"value": value})


def test_names_are_those_that_must_have_values():
    expression = compile_expression("a * b <= 200 and not c == 'x'")

    assert expression.names == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sin(1)", "no function sin; there are abs, min, max, sqrt, log10, exp, round"),
        ("2 + sqrt(1, 2)", "gives 2 to sqrt, which takes one number (column 5)"),
        ("min(a)", "gives 1 to min, which takes two numbers or more"),
        ("0,5", 'the decimal mark is "."'),
    ],
)
def test_a_refused_call_says_what_is_wrong_with_it(text, why):
    with pytest.raises(Invalid, match=re.escape(why)):
        compile_expression(text)


def test_a_value_that_a_function_does_not_have_is_named():
    with pytest.raises(Invalid, match=re.escape("needs sqrt(-4), which has no value")):
        compile_expression("sqrt(x)").evaluate({"x": -4})


def test_a_function_and_a_value_may_have_the_same_name():
    expression = compile_expression("max(min, 3) + abs")

    assert expression.names == {"min", "abs"}
    assert expression.evaluate({"min": 5, "abs": 1}) == 6
    assert names_in("{round(max(a, b) / 2)}") == {"a", "b"}


def test_a_number_is_no_condition():
    with pytest.raises(Invalid, match="not a condition"):
        compile_expression("voltage").is_true(VALUES)


@pytest.mark.parametrize(
    ("text", "slope", "intercept"),
    [
        ("value", 1, 0),
        ("(value - yo - yr) * yi", 0.5, -1.5),
        ("value * (vdiv / 25) - ofst", 0.08, -1),
        ("-value / 4", -0.25, 0),
        ("3", 0, 3),
    ],
)
def test_a_scale_that_is_a_line_is_seen_as_one(text, slope, intercept):
    values = {"yo": 1, "yr": 2, "yi": 0.5, "vdiv": 2, "ofst": 1}

    line = compile_expression(text).line("value", values)

    assert line is not None
    assert (line.slope, line.intercept) == pytest.approx((slope, intercept))


@pytest.mark.parametrize(
    "text", ["value * value", "1 / value", "value > 2", "value * missing", "abs(value)"]
)
def test_what_is_no_line_is_not_taken_for_one(text):
    assert compile_expression(text).line("value", {}) is None


@given(st.text(max_size=220))
def test_any_text_compiles_or_is_refused_as_a_bad_profile(text):
    try:
        compile_expression(text)
    except Invalid as error:
        code = error.code
    else:
        return
    assert code is ErrorCode.BAD_PROFILE


def trees() -> st.SearchStrategy[str]:
    leaf = st.one_of(names, st.integers(0, 9).map(str), st.just("'x'"))
    operators = st.sampled_from(["+", "-", "*", "/", "==", "!=", "<", "<=", ">", ">=", "and", "or"])
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(inner, operators, inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
            inner.map(lambda text: f"(not {text})"),
            inner.map(lambda text: f"(-{text})"),
            st.tuples(st.sampled_from(["abs", "sqrt", "log10", "exp", "round"]), inner).map(
                lambda t: f"{t[0]}({t[1]})"
            ),
            st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(
                lambda t: f"{t[0]}({t[1]}, {t[2]})"
            ),
        ),
        max_leaves=12,
    ).filter(lambda text: len(text) <= 200)


@given(text=trees(), values=st.dictionaries(names, scalars))
def test_evaluation_gives_a_finite_scalar_or_raises_invalid_and_nothing_else(text, values):
    try:
        result = compile_expression(text).evaluate(values)
    except Invalid:
        return
    assert isinstance(result, (bool, int, float, str))
    assert not isinstance(result, float) or math.isfinite(result)


@given(
    text=trees(),
    values=st.dictionaries(names, st.integers(-50, 50), min_size=4),
    x=st.integers(-20, 20),
)
def test_a_line_agrees_with_evaluation(text, values, x):
    expression = compile_expression(text)
    line = expression.line("value", values)
    if line is None:
        return
    expected = expression.evaluate({**values, "value": x})
    assert line.slope * x + line.intercept == pytest.approx(expected, rel=1e-6, abs=1e-6)
