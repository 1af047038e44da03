"""What the owner wants to be asked about, read from the bench file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import Invalid
from edged.profiles.bench_file import parse_bench
from edged.profiles.confirm import Way, parse_confirm
from edged.profiles.library import ProfileLibrary
from edged.profiles.unit_rules import UnitRules, combined
from tests.bench.shipped import shipped_library


@pytest.fixture(scope="module")
def library() -> ProfileLibrary:
    return shipped_library()


@pytest.mark.parametrize(
    ("text", "values", "is_asked"),
    [
        ("set_correction.enabled == on", {"enabled": True}, True),
        ("set_correction.enabled == off", {"enabled": True}, False),
        ("output_on", {}, True),
        ("set_voltage.voltage > 24", {"voltage": 24}, False),
        ("set_voltage.voltage > 24", {"voltage": 24.001}, True),
        ("set_voltage.voltage >= 24", {"voltage": 24}, True),
        ("set_voltage.voltage < -1.5e0", {"voltage": -2}, True),
        ("set_voltage.voltage <= 1", {"voltage": 2}, False),
        ("set_voltage.voltage == 5", {"voltage": 5.0}, True),
        ("set_voltage.voltage != 5", {"voltage": 5.0}, False),
        # What cannot be compared is asked about.
        ("set_voltage.voltage > 24", {}, True),
        ("set_voltage.voltage > 24", {"voltage": "MAX"}, True),
        ("set_range.range == auto", {"range": "AUTO"}, True),
        ("set_range.range != auto", {"range": "AUTO"}, False),
        ("set_remote.is_on == true", {"is_on": True}, True),
        ("set_remote.is_on == true", {"is_on": False}, False),
    ],
)
def test_a_rule_asks_about_the_values_that_it_names(
    text: str, values: dict[str, float | str | bool], is_asked: bool
) -> None:
    rule = parse_confirm(text)
    assert rule is not None
    assert rule.asks(values) is is_asked


def test_a_value_that_nobody_can_read_is_asked_about() -> None:
    rule = parse_confirm("set_voltage.voltage > 24")
    assert rule is not None
    assert rule.asks({"voltage": 1.0}, {"voltage"})


@pytest.mark.parametrize(
    "text",
    ["", "Set_voltage", "set_voltage.voltage", "set_voltage.voltage > ", "a.b >> 3", "a.b = 3",
     "sequence:x.y > 3", "a.b > high", "a b", "sequence:", "a.b.c > 3"],
)  # fmt: skip
def test_what_is_none_of_the_forms_is_no_rule(text: str) -> None:
    assert parse_confirm(text) is None


@given(st.text(max_size=60))
def test_any_text_is_a_rule_or_none(text: str) -> None:
    rule = parse_confirm(text)
    assert rule is None or rule.text == text.strip()


def test_two_entries_of_a_unit_ask_about_both_and_let_answer_whom_both_let() -> None:
    on, high = parse_confirm("output_on"), parse_confirm("set_voltage.voltage > 24")
    assert on is not None
    assert high is not None
    one = UnitRules(key="a", confirm=(on,), confirm_by=frozenset({Way.CLI, Way.CLIENT}))
    other = UnitRules(key="b", confirm=(high, on), confirm_by=frozenset({Way.CLI}), confirm_ttl_s=5)
    both = combined(one, other)
    assert both.confirm == (on, high)
    assert (both.confirm_by, both.confirm_ttl_s) == (frozenset({Way.CLI}), 5)
    assert "known" in both.raw_scpi_rules("all")


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("confirm: [outputs_on]", "no command"),
        ("confirm: [output_off]", "makes"),
        ("confirm: ['sequence:nothing']", 'no sequence "nothing"'),
        ("confirm: ['set_voltage.volts > 3']", 'no parameter "volts"'),
        ("confirm: ['set_voltage > 3']", "none of the allowed forms"),
        ("confirm: [measure_voltage]", "only asks"),
        ("confirm: ['set_voltage.voltage == 24 V']", "is a float"),
        ("confirm: ['set_voltage.voltage == nan']", "is a float"),
        ("confirm: ['set_voltage.voltage > 1e999']", "none of the allowed forms"),
        ("confirm_by: [somebody]", "must be client, page or cli"),
        ("confirm_by: []", "nobody could answer"),
        ("confirm_ttl_s: 0", "1 to 3600"),
        ("confirm_ttl_s: 9999", "1 to 3600"),
    ],
)
def test_an_entry_that_fits_no_profile_says_what_is_wrong(
    library: ProfileLibrary, entry: str, told: str
) -> None:
    text = f"format: 1\npsu1:\n  limits: {{set_voltage: {{voltage: {{max: 12}}}}}}\n  {entry}\n"
    with pytest.raises(Invalid, match=told):
        parse_bench(text, "bench.yaml", library)
