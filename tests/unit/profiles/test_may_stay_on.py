"""What of an abort is left out after a crash, because its owner lets an output stay on."""

from __future__ import annotations

import pytest

from edged.errors import Invalid
from edged.profiles.abort import not_staying
from edged.profiles.bench_file import parse_bench
from edged.profiles.model import AbortStep
from edged.profiles.owner_rules import clean_up_of
from tests.bench.fake_instruments import toy_profile
from tests.bench.shipped import shipped_library

STAGE = """
format: 1
profile_key: toy_stage
version: 1
manufacturer: Toy
model: S1
instrument_class: source
source: made for tests
match: {idn: 'toy,s1\\b', examples: ["TOY,S1,0001,1.0"]}
abort:
  - "RANGE 1,0"
  - "RANGE 2,0;:VOLT 0"
  - {send: STOP, ask: none, takes_back: [start, burst]}
  - "*RST"
commands:
  heater_on:
    scpi: "RANGE {output},{range}"
    is_dangerous: true
    parameters: {output: {type: int, min: 1, max: 2}, range: {type: int, min: 1, max: 3}}
  heater_off: {scpi: "RANGE {output},0", is_safe: true, parameters: {output: {type: int}}}
  read_range: {scpi: "RANGE? {output}", returns: {type: int}, parameters: {output: {type: int}}}
  set_voltage:
    scpi: "VOLT {voltage}"
    parameters: {voltage: {type: float, min: 0, max: 5, unit: V}}
  start: {scpi: "START", is_dangerous: true}
  burst: {scpi: "BURST", is_dangerous: true}
"""
PROFILE = toy_profile(STAGE)
SHIPPED = shipped_library()
LIBRARY = type(SHIPPED)(profiles={"lakeshore_335": SHIPPED.profiles["lakeshore_335"]})


@pytest.mark.parametrize(
    ("may_stay", "left_out"),
    [
        (set(), []),
        ({"heater_on"}, ["RANGE 1,0"]),
        ({"start"}, []),
        ({"start", "burst"}, ["STOP"]),
        ({"heater_on", "start", "burst", "gone"}, ["RANGE 1,0", "STOP"]),
        ({"heater_off", "read_range", "set_voltage"}, []),
        ({"heater_on", "set_voltage"}, ["RANGE 1,0", "RANGE 2,0;:VOLT 0"]),
    ],
)
def test_only_lines_that_take_back_nothing_else_are_left_out(may_stay, left_out):
    left = not_staying(PROFILE, PROFILE.abort, may_stay)

    assert [step.send for step in PROFILE.abort if step not in left] == left_out


def test_without_a_profile_all_is_sent():
    assert not_staying(None, (AbortStep(send="OUTP OFF"),), {"output_on"}) != ()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("[heater_onn]", 'has no command "heater_onn"'),
        ("[heater_off]", "no line of the abort of lakeshore_335 takes back heater_off"),
        ("[measure_temperature]", "takes back measure_temperature and nothing else"),
        ("[ramp_setpoint]", "takes back ramp_setpoint"),
    ],
)
def test_a_command_that_switches_nothing_on_is_a_complaint(said, why):
    with pytest.raises(Invalid, match=why):
        parse_bench(f"format: 1\ntc1: {{alias: tc1, may_stay_on: {said}}}", "bench.yaml", LIBRARY)


def test_of_two_entries_for_one_unit_both_must_let_it_stay_on():
    found = parse_bench(
        "format: 1\n"
        "A1: {may_stay_on: [heater_on], approval_survives_crash: true}\n"
        "tc1: {approval_survives_crash: true}\n",
        "bench.yaml",
        LIBRARY,
    )

    alone, both = found.rules_for("A1"), found.rules_for("A1", "tc1")
    assert (alone.may_stay_on, alone.approval_survives_crash) == ({"heater_on"}, True)
    assert (both.may_stay_on, both.approval_survives_crash) == (set(), True)


def test_the_journal_has_the_lines_that_are_left_and_no_proof_of_the_others():
    stage = SHIPPED.profiles["lakeshore_335"]
    rules = parse_bench(
        "format: 1\nA1: {may_stay_on: [heater_on]}", "bench.yaml", LIBRARY
    ).rules_for("A1")
    none = parse_bench("format: 1\nA1: {}", "bench.yaml", LIBRARY).rules_for("A1")

    kept = clean_up_of(stage, rules, stage.abort)

    assert (kept["abort"], kept["stays"]) == ([], ["RANGE 1,0", "RANGE 2,0"])
    assert kept["proofs"] == []
    as_ever = clean_up_of(stage, none, stage.abort)
    assert (as_ever["abort"], as_ever["stays"]) == (["RANGE 1,0", "RANGE 2,0"], [])
    assert len(as_ever["proofs"]) == 2
