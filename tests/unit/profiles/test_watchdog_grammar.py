"""``watchdog`` of a profile, and ``dead_man_s`` of the bench file, which uses it."""

from __future__ import annotations

import pytest

from edged.errors import Invalid
from edged.profiles.bench_file import parse_bench
from edged.profiles.library import ProfileLibrary
from edged.profiles.loading import parse_profile
from edged.profiles.model import InstrumentWatchdog, Precondition, Tripped
from edged.profiles.unit_rules import UnitRules, combined
from tests.bench.shipped import shipped_library

HEAD = """\
format: 1
profile_key: acme
manufacturer: Acme
model: One
instrument_class: power_supply
source: guide
match: {idn: acme}
commands: {output_off: {scpi: "OUTP OFF", is_safe: true}}
"""
ABORT = 'abort: [{send: "OUTP OFF", ask: "OUTP?", expect: "^0"}]\n'
GOOD = {
    "delay": '["WD:DEL {s}"]',
    "enable": '["WD ON"]',
    "disable": '["WD OFF"]',
    "range": "[1, 3600]",
    "clear": '["WD:CLE"]',
    "tripped": '{ask: "STAT?", bit: 2048}',
    "feeds": "any",
}


def text_with(**changes: str | None) -> str:
    entries = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    lines = "".join(f"  {key}: {value}\n" for key, value in entries.items())
    return f"{HEAD}{ABORT}watchdog:\n{lines}"


def read(**changes: str | None) -> InstrumentWatchdog:
    watchdog = parse_profile(text_with(**changes), "acme.yaml").watchdog
    assert watchdog is not None
    return watchdog


def test_a_watchdog_is_read_as_it_is_written() -> None:
    assert read() == InstrumentWatchdog(
        delay=("WD:DEL {s}",),
        enable=("WD ON",),
        disable=("WD OFF",),
        range_s=(1, 3600),
        clear=("WD:CLE",),
        tripped=Tripped(ask="STAT?", bit=2048),
    )


def test_the_line_that_enables_may_hold_the_time_itself() -> None:
    found = read(
        delay=None,
        enable='["WD SET,{ms}"]',
        range="[0.02, 10]",
        step="0.001",
        tripped="{ask: 'WD?', expect: '^0$'}",
        feeds="['WD?']",
        precondition="{query: 'AFTER?', expect: OFF, hint: 'set it'}",
    )
    assert (found.enable, found.delay, found.range_s) == (("WD SET,{ms}",), (), (0.02, 10))
    assert found.tripped == Tripped(ask="WD?", expect="^0$")
    assert (found.feeds, found.step_s) == (("WD?",), 0.001)
    assert found.precondition == Precondition(query="AFTER?", expect="OFF", hint="set it")


def test_a_profile_without_one_has_none() -> None:
    assert parse_profile(HEAD, "acme.yaml").watchdog is None


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"after": "1"}, 'unknown key "after"'),
        ({"range": "[3600, 1]"}, "not a range"),
        ({"range": "[0, 1]"}, "not a range"),
        ({"range": "[1]"}, "shortest and the longest"),
        ({"step": "0"}, "over 0"),
        ({"delay": None}, "nothing sets its time"),
        ({"delay": '["WD:DEL {v}"]'}, "braces without a parameter"),
        ({"delay": '["WD:DEL {s:.1f}"]'}, "braces without a parameter"),
        ({"disable": '["WD {s}"]'}, "braces without a parameter"),
        ({"enable": "[]"}, "is empty"),
        ({"enable": '["WD?"]'}, "answer would be lost"),
        ({"enable": '["WD ON", "OUTP ON"]'}, "may work an output"),
        ({"clear": '["*RCL 1"]'}, "may work an output"),
        ({"clear": None}, 'no "clear"'),
        ({"tripped": "{ask: 'STAT?'}"}, "one of bit and expect"),
        ({"tripped": "{ask: 'STAT?', bit: 1, expect: a}"}, "one of bit and expect"),
        ({"tripped": "{ask: 'STAT?', bit: 0}"}, "outside of 1"),
        ({"tripped": "{ask: 'STAT?', expect: '('}"}, "not a regular expression"),
        ({"feeds": "some"}, "must be a list"),
        ({"feeds": None}, 'no "feeds"'),
    ],
)
def test_what_breaks_a_rule_is_told_with_its_place(changes: dict[str, str], told: str) -> None:
    with pytest.raises(Invalid, match=told) as raised:
        read(**changes)
    first = text_with(**changes).splitlines().index("watchdog:") + 1
    assert raised.value.data["path"] == "acme.yaml"
    assert first <= raised.value.data["line"] <= first + len(GOOD) + 1
    assert raised.value.data["column"] >= 1


@pytest.mark.parametrize("abort", ["", "abort: []\n"])
def test_a_watchdog_without_an_abort_could_never_be_stopped(abort: str) -> None:
    with pytest.raises(Invalid, match="no abort"):
        parse_profile(text_with().replace(ABORT, abort), "acme.yaml")


def test_a_member_of_a_family_replaces_the_whole_watchdog_or_takes_it_away() -> None:
    from edged.profiles.library import parse_yaml
    from edged.profiles.loading import merge
    from edged.yaml.tree import MapNode

    family = parse_yaml(text_with(), "acme.yaml")
    member = parse_yaml("extends: acme\nwatchdog: {range: [1, 2]}\n", "b.yaml")
    gone = parse_yaml("extends: acme\nwatchdog: null\n", "b.yaml")
    assert isinstance(family, MapNode)
    assert isinstance(member, MapNode)
    assert isinstance(gone, MapNode)
    merged = merge(family, member).entries["watchdog"]
    assert isinstance(merged, MapNode)
    assert list(merged.entries) == ["range"]
    assert "watchdog" not in merge(family, gone).entries


def library(**changes: str) -> ProfileLibrary:
    profile = parse_profile(text_with(**changes), "acme.yaml")
    return ProfileLibrary(profiles={profile.key: profile})


def test_the_owner_says_after_how_long_a_silence_a_unit_switches_off() -> None:
    bench = parse_bench("format: 1\npsu1: {dead_man_s: 10}\n", "bench.yaml", library())
    assert bench.rules_for("", "psu1").dead_man_s == 10


@pytest.mark.parametrize(
    ("limit", "told"),
    [
        ("0", "over 0"),
        ("-1", "over 0"),
        ("soon", "must be a number"),
        ("0.5", "takes 1 to 3600 s"),
        ("3601", "takes 1 to 3600 s"),
        ("2.5", "whole seconds alone"),
    ],
)
def test_a_time_that_the_instrument_does_not_take_is_told_with_its_line(
    limit: str, told: str
) -> None:
    with pytest.raises(Invalid, match=told) as raised:
        parse_bench(f"format: 1\npsu1:\n  dead_man_s: {limit}\n", "bench.yaml", library(step="1"))
    assert raised.value.data["line"] == 3


def test_a_time_is_held_to_an_instrument_that_has_a_timer_where_nobody_knows_which_one_it_is() -> (
    None
):
    text = "format: 1\npsu1: {dead_man_s: 1e6}\n"
    with pytest.raises(Invalid, match=r"takes [0-9.]+ to \d+ s, not 1e\+06"):
        parse_bench(text, "bench.yaml", shipped_library())


def test_a_fraction_is_taken_where_the_instrument_takes_it() -> None:
    text = "format: 1\npsu1: {dead_man_s: 2.345}\n"
    for step in ({}, {"step": "0.001"}):
        bench = parse_bench(text, "bench.yaml", library(**step))
        assert bench.rules_for("", "psu1").dead_man_s == 2.345


def test_no_dead_man_can_be_used_of_an_instrument_that_has_none() -> None:
    profile = parse_profile(HEAD, "acme.yaml")
    with pytest.raises(Invalid, match="acme has no watchdog") as raised:
        parse_bench(
            "format: 1\npsu1:\n  dead_man_s: 10\n",
            "bench.yaml",
            ProfileLibrary(profiles={"acme": profile}),
        )
    assert raised.value.data["line"] == 3


def test_of_two_entries_of_a_unit_the_shorter_time_holds() -> None:
    one, other = UnitRules(key="a", dead_man_s=10), UnitRules(key="b", dead_man_s=5)
    assert combined(one, other).dead_man_s == 5
    assert combined(one, UnitRules(key="b")).dead_man_s == 10
