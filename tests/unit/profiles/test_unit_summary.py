"""What the owner's bench file comes to for one unit."""

from __future__ import annotations

import json
from dataclasses import replace

from edged.profiles.bench_file import parse_bench, unit_summary
from edged.profiles.model import Changes, Command
from tests.bench.shipped import shipped_library
from tests.promises import promise

LIBRARY = shipped_library()
FILE = """\
format: 1
PSU:
  limits:
    set_voltage: {voltage: {max: 12}}
    output_on: {channel: {max: 2}}
  max_rate: 0.5
  raw_scpi: queries
"""


def test_limits_stand_beside_what_the_profile_allows() -> None:
    rules = parse_bench(FILE, "bench.yaml", LIBRARY).units["PSU"]
    told = unit_summary(rules, LIBRARY.profiles["rigol_dp832"], "all")
    assert told["profile"] == "rigol_dp832"
    assert told["limits"][0] == {
        "command": "set_voltage",
        "parameter": "voltage",
        "allowed": "0 … 12",
        "profile_allows": "0 … 32",
        "unit": "V",
    }
    assert told["max_rate"] == {"every sweep": 0.5}
    # The limits bring "known" along; the owner's "queries" holds besides.
    assert told["raw_scpi"] == ["known", "queries"]


def test_every_key_of_an_entry_is_shown() -> None:
    """Those, too, that say nothing about a command: without them the file seems to lack them."""
    text = """\
format: 1
PSU:
  alias: psu1
  location: rack 2
  limits: {set_voltage: {voltage: {max: 12}}}
  max_rate: {set_voltage: 0.5}
  deny: [ovp_off]
  is_dangerous: [set_current]
  requires_sweep: [set_voltage]
  expose: [measure_*]
  raw_scpi: queries
  allow_raw: ["SYST:VERS?"]
  on_expiry: abort
  budget: {output_on: {per_hour: 5}}
  confirm: [output_on, set_voltage.voltage > 5]
  confirm_by: [page, cli]
  confirm_ttl_s: 60
  calibration_due: 2027-03-31
  may_stay_on: [output_on]
  approval_survives_crash: true
"""
    rules = parse_bench(text, "bench.yaml", LIBRARY).units["PSU"]
    rules = replace(rules, allow_changes=frozenset({"recall_state"}), dead_man_s=5.0)
    told = unit_summary(rules, LIBRARY.profiles["rigol_dp832"], "all")
    assert json.loads(json.dumps(told)) == told
    assert [name for name, value in told.items() if not value] == ["unlimited", "changes"]
    assert told["confirm"] == ["output_on", "set_voltage.voltage > 5"]
    assert (told["confirm_by"], told["confirm_ttl_s"]) == (["cli", "page"], 60)
    assert (told["budget"], told["deny"]) == ({"output_on": "5 an hour"}, ["ovp_off"])
    assert (told["calibration_due"], told["on_expiry"]) == ("2027-03-31", "abort")
    assert (told["may_stay_on"], told["approval_survives_crash"]) == (["output_on"], True)
    assert (told["allow_changes"], told["dead_man_s"]) == (["recall_state"], 5)


def test_what_sets_the_same_and_is_not_limited_is_told() -> None:
    text = "format: 1\nBATH:\n  limits: {set_setpoint: {temperature: {max: 60}}}\n"
    rules = parse_bench(text, "bench.yaml", LIBRARY).units["BATH"]
    profile = LIBRARY.profiles["lauda_integral"]
    told = unit_summary(rules, profile, "all")["unlimited"]
    assert told == ["set_upper_limit.temperature", "set_lower_limit.temperature"]
    more = text.replace("}}}", "}}, set_upper_limit: {temperature: {max: 60}}}")
    rules = parse_bench(f"{more}  deny: [set_lower_limit]\n", "bench.yaml", LIBRARY).units["BATH"]
    assert unit_summary(rules, profile, "all")["unlimited"] == []


def test_a_query_that_acts_and_sets_the_same_is_told() -> None:
    rules = parse_bench(FILE, "bench.yaml", LIBRARY).units["PSU"]
    profile = LIBRARY.profiles["rigol_dp832"]
    voltage = profile.commands["set_voltage"].parameters["voltage"]
    line, parameters = ":PULS? {voltage}", {"voltage": voltage}
    for changes, unlimited in ((None, []), (Changes.OUTPUTS, ["pulse.voltage"])):
        pulse = Command(
            name="pulse", scpi=(line,), is_query=True, changes=changes, parameters=parameters
        )
        more = replace(profile, commands={**profile.commands, "pulse": pulse})
        assert unit_summary(rules, more, "all")["unlimited"] == unlimited


def test_what_sends_the_limited_line_itself_is_limited_by_it() -> None:
    # set_voltage_and_current sends set_voltage's line, and is refused above its limit.
    rules = parse_bench(FILE, "bench.yaml", LIBRARY).units["PSU"]
    profile = LIBRARY.profiles["rigol_dp832"]
    assert unit_summary(rules, profile, "all")["unlimited"] == []
    # source_voltage sends set_voltage's line, among others.
    text = "format: 1\nSMU:\n  limits: {source_voltage: {voltage: {max: 12}}}\n"
    rules = parse_bench(text, "bench.yaml", LIBRARY).units["SMU"]
    assert unit_summary(rules, LIBRARY.profiles["keithley_2450"], "all")["unlimited"] == []


@promise("changes.any-refused")
def test_each_command_that_changes_more_than_it_names_stands_with_its_verdict() -> None:
    profile = LIBRARY.profiles["siglent_spd3303x"]
    text = (
        "format: 1\nPSU:\n  limits: {set_voltage: {voltage: {max: 12}}}\n  max_rate: 1\n"
        "  deny: [timer_on]\n  allow_changes: [recall_state]\n"
    )
    rules = parse_bench(text, "bench.yaml", LIBRARY).units["PSU"]
    told = unit_summary(rules, profile, "all")["changes"]
    assert {one["command"]: (one["changes"], one["verdict"]) for one in told} == {
        "set_tracking": ("any", "refused (limits, max_rate, deny)"),
        "independent_channels": ("settings", "allowed"),
        "set_timer_step": ("settings", "allowed"),
        "timer_on": ("any", "denied"),
        "timer_off": ("settings", "allowed"),
        "recall_state": ("any", "allowed by allow_changes"),
    }
    rules = parse_bench("format: 1\nPSU: {location: a}", "bench.yaml", LIBRARY).units["PSU"]
    told = unit_summary(rules, profile, "all")["changes"]
    assert {one["verdict"] for one in told} == {"allowed"}


def test_without_a_profile_the_entry_is_told_as_it_stands() -> None:
    rules = parse_bench(FILE, "bench.yaml", LIBRARY).units["PSU"]
    told = unit_summary(rules, None, "all")
    assert (told["profile"], told["unlimited"]) == ("", [])
    assert told["limits"][0]["profile_allows"] == ""
