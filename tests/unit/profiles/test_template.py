"""The grammar of SCPI templates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import ErrorCode, Invalid
from edged.profiles.template import optional_names, parse_template, placeholders, render


def test_placeholders_come_in_order_with_format_and_whether_they_may_fall_away():
    found = placeholders("APPL {voltage:.3f}[,{current:g}] {voltage}")

    assert found == (
        ("voltage", ".3f", False),
        ("current", "g", True),
        ("voltage", "", False),
    )


def test_a_name_is_optional_only_where_no_line_needs_it():
    assert optional_names(["A[ {x}][,{y}]", "B {y}"]) == {"x"}


@pytest.mark.parametrize(
    "template",
    [
        *("{", "}", "{}", "{1a}", "{a.b}", "{a!r}", "{a:s}", "{a:x}", "{a:.999f}", "{a:>5}"),
        *("[", "]", "[x]", "[[x]", "[a{b}[{c}]]", "A\nB", "A\x00", "{a:.3d}", "{a[0]}", "x" * 2001),
    ],
)
def test_a_template_outside_the_grammar_is_refused_with_its_column(template):
    with pytest.raises(Invalid) as caught:
        parse_template(template)

    assert caught.value.code is ErrorCode.BAD_PROFILE
    assert caught.value.data["column"] >= 1


def test_doubled_braces_and_brackets_are_literal():
    assert render("{{a}} [[b]]", {}, {}) == "{a} [b]"


@given(st.text(alphabet="{}[]:,.ab3fq ?\n", max_size=30))
def test_any_text_is_a_template_or_is_refused_as_a_bad_profile(template):
    try:
        placeholders(template)
    except Invalid as error:
        code = error.code
    else:
        return
    assert code is ErrorCode.BAD_PROFILE


@given(st.text(alphabet=st.characters(codec="ascii", categories=("L", "N", "P", "S")), max_size=40))
def test_escaped_text_renders_as_itself(text):
    template = "".join(mark * 2 if mark in "{}[]" else mark for mark in text)

    assert render(template, {}, {}) == text
