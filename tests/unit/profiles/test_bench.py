"""The owner's bench file: it tightens, and an entry that would widen is named with its line."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import Invalid
from edged.profiles.arguments import compile_parameters
from edged.profiles.bench_file import BenchFile, SeenUnit, parse_bench, unseen_keys
from edged.profiles.library import ProfileLibrary
from edged.profiles.loading import parse_profile
from edged.profiles.match import parse_idn
from edged.profiles.model import Bound
from edged.profiles.owner_rules import tighten
from edged.profiles.unit_rules import EMPTY_RULES
from edged.schema.fields import every_complaint
from tests.bench.shipped import shipped_library
from tests.promises import promise

SHIPPED = shipped_library()
# Three that the bounds below are meant for; another profile may have a wider set_voltage.
BESIDE = ("keysight_34461a", "rigol_dp832", "rigol_ds1054z")
LIBRARY = ProfileLibrary(profiles={key: SHIPPED.profiles[key] for key in BESIDE})
DP832 = LIBRARY.profiles["rigol_dp832"]
SUPPLY_WITH_MEMORIES = "siglent_spd3303x"
WITH_MEMORIES = ProfileLibrary(
    profiles={SUPPLY_WITH_MEMORIES: SHIPPED.profiles[SUPPLY_WITH_MEMORIES]}
)


def bench(body: str, library: ProfileLibrary = LIBRARY) -> BenchFile:
    return parse_bench("format: 1\n" + body, "bench.yaml", library)


def refused(body: str) -> Invalid:
    with pytest.raises(Invalid) as caught:
        bench(body)
    assert caught.value.message.startswith("bench.yaml:")
    return caught.value


WHOLE = """\
DP8B26AM00234:
  alias: psu1
  location: "rack 2, left"
  limits:
    set_voltage: {voltage: {max: 12}, channel: {max: 2}}
  max_rate: {set_voltage: 0.5}
  deny: [ovp_off, iv_curve]
  is_dangerous: [set_current]
  requires_sweep: [set_voltage]
  expose: [measure_*, set_voltage]
  raw_scpi: queries
"""


def test_everything_an_entry_says_is_read() -> None:
    rules = bench(WHOLE).rules_for("DP8B26AM00234")
    assert (rules.alias, rules.location) == ("psu1", "rack 2, left")
    assert rules.limits["set_voltage"] == {"voltage": Bound(max=12), "channel": Bound(max=2)}
    assert rules.max_rate_for("set_voltage") == 0.5
    assert rules.max_rate_for("set_current") is None
    assert rules.deny == {"ovp_off", "iv_curve"}
    assert rules.exposes("measure_power", is_essential=False)
    assert not rules.exposes("set_current", is_essential=True)
    assert rules.raw_scpi == "queries"


def test_the_examples_of_the_documentation_are_bench_files() -> None:
    page = (Path(__file__).parents[3] / "docs" / "bench-file.md").read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in page.split("```yaml\n")[1:]]
    first, second, third, fourth = blocks
    rules = parse_bench(first, "bench.yaml", LIBRARY).rules_for("", "psu1")
    assert rules.limits["set_voltage"] == {"voltage": Bound(max=12)}
    rules = parse_bench(second, "bench.yaml", LIBRARY).rules_for("DP8B26AM00234")
    assert rules.alias == "psu1"
    rules = parse_bench(f"format: 1\n{third}", "bench.yaml", SHIPPED).rules_for("", "psu1")
    assert rules.allow_changes == {"recall_state"}
    rules = parse_bench(f"format: 1\n{fourth}", "bench.yaml", SHIPPED).rules_for("", "psu1")
    assert rules.allow_raw == ("SYST:VERS?", 'DISP:TEXT "hands off"')


@promise("bench.only-tightens")
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("recal_state", 'Did you mean "recall_state"?'),
        ("timer_off", "needs no allow_changes"),
        ("iv_curve", "no command"),
    ],
)
def test_allow_changes_lists_only_commands_that_need_it(name: str, wrong: str) -> None:
    with pytest.raises(Invalid) as caught:
        bench(f"A1: {{allow_changes: [{name}]}}", WITH_MEMORIES)
    assert caught.value.data["line"] == 2
    assert wrong in str(caught.value)


def test_only_what_both_entries_allow_is_allowed() -> None:
    found = bench(
        "A1: {allow_changes: [recall_state, timer_on]}\npsu1: {allow_changes: [timer_on]}\n",
        WITH_MEMORIES,
    )
    assert found.rules_for("A1").allow_changes == {"recall_state", "timer_on"}
    assert found.rules_for("A1", "psu1").allow_changes == {"timer_on"}


def test_an_empty_file_has_no_rules() -> None:
    assert BenchFile().rules_for("any") is EMPTY_RULES


def test_a_unit_is_found_by_serial_and_by_alias_and_both_hold() -> None:
    found = bench(
        "A1: {limits: {set_voltage: {voltage: {max: 12}}}, max_rate: 2}\n"
        "psu1: {limits: {set_voltage: {voltage: {max: 20, min: 1}}}, max_rate: 1,"
        " deny: [ovp_off]}\n"
    )
    both = found.rules_for("A1", "psu1")
    assert both.limits["set_voltage"]["voltage"] == Bound(min=1, max=12)
    assert both.max_rate_for("set_voltage") == 1
    assert both.deny == {"ovp_off"}
    assert found.rules_for("", "psu1").max_rate_for("set_voltage") == 1
    assert found.rules_for("B2").key == ""


@promise("owner.keys-fit")
@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("SN4471", "SN4471"),
        ("SN4471", "4471"),
        ("4471", "SN4471"),
        ("'s/n: 4471'", "4471"),
        ("S/N 4471", "SN:4471"),
        ("Serial No. 4471", "4471"),
        ("dp8b26am00234", "DP8B26AM00234"),
        ("DP8B 26AM 00234", "DP8B26AM00234"),
        ("'0000'", "0000"),
        ("N/A", "n/a"),
        ("0001", "0001"),
    ],
)
def test_a_key_fits_as_the_label_and_as_the_unit_tell_it(key: str, told: str) -> None:
    identity = parse_idn(f"RIGOL TECHNOLOGIES,DP832,{told},1.0")
    file = bench(f"{key}: {{deny: [ovp_off]}}")
    rules = file.rules_for(identity.serial, told=identity.serial_told)
    assert rules.deny == {"ovp_off"}
    seen = SeenUnit(serial=identity.serial, serial_told=identity.serial_told)
    assert unseen_keys(file.units, [seen]) == ()


def test_an_entry_under_a_name_fits_in_any_case_and_no_other_unit() -> None:
    file = bench("Servo1: {deny: [ovp_off]}")
    assert file.rules_for("", "sERVO1").deny == {"ovp_off"}
    assert file.rules_for("", "vo1").deny == frozenset()
    assert file.rules_for("0001").deny == frozenset()


@promise("owner.unseen-keys")
def test_a_key_that_no_unit_fits_is_told_with_its_line_and_the_nearest_that_was_met() -> None:
    file = bench("A1: {}\nDP8B26AM00243: {}\nleft: {}\nright: {}\n")
    seen = [
        SeenUnit(serial="A1", serial_told="SN:A1"),
        SeenUnit(serial="DP8B26AM00234", serial_told="DP8B26AM00234", names=("Left",)),
    ]
    (swapped, right) = unseen_keys(file.units, seen)
    assert (swapped.key, swapped.place) == ("DP8B26AM00243", "bench.yaml:3:16")
    assert swapped.hint == 'Did you mean "DP8B26AM00234"?'
    assert (right.key, right.place) == ("right", "bench.yaml:5:8")


def test_a_serial_number_of_digits_keeps_its_zeros() -> None:
    assert bench("01419966: {alias: smu}").rules_for("01419966").alias == "smu"


def test_the_profile_is_narrowed_and_the_original_stays() -> None:
    rules = bench(WHOLE).rules_for("DP8B26AM00234")
    narrow = tighten(DP832, rules)
    command = narrow.commands["set_voltage"]
    assert (command.parameters["voltage"].max, command.parameters["channel"].max) == (12, 2)
    assert command.requires_sweep
    assert narrow.commands["set_current"].is_dangerous
    assert DP832.commands["set_voltage"].parameters["voltage"].max == 32
    assert tighten(DP832, EMPTY_RULES) is DP832


def test_a_sequence_that_hands_a_value_on_is_narrowed_with_the_command() -> None:
    rules = bench(WHOLE).rules_for("DP8B26AM00234")
    narrow = tighten(DP832, rules)
    assert narrow.sequences["voltage_point"].parameters["voltage"].max == 12
    assert narrow.sequences["voltage_point"].parameters["channel"].max == 2


def test_a_sequence_becomes_dangerous_with_its_step() -> None:
    assert not DP832.sequences["safe_state_check"].is_dangerous
    rules = bench("A1: {is_dangerous: [measure_voltage]}").rules_for("A1")
    assert tighten(DP832, rules).sequences["safe_state_check"].is_dangerous


def test_options_are_narrowed() -> None:
    rules = bench("A1: {limits: {measure_dc_voltage: {range: {options: [1 V, 10 V]}}}}").rules_for(
        "A1"
    )
    narrow = tighten(LIBRARY.profiles["keysight_34461a"], rules)
    assert narrow.commands["measure_dc_voltage"].parameters["range"].options == ("1 V", "10 V")


@promise("bench.only-tightens")
@given(
    low=st.none() | st.integers(0, 20),
    high=st.none() | st.integers(20, 32),
    value=st.floats(-5, 40),
    channel=st.integers(1, 3),
)
def test_what_a_tightened_profile_takes_the_profile_takes_too(
    low: int | None, high: int | None, value: float, channel: int
) -> None:
    bounds = {"min": low, "max": high}
    entry = ", ".join(f"{key}: {bound}" for key, bound in bounds.items() if bound is not None)
    if not entry:
        return
    rules = bench(f"A1: {{limits: {{set_voltage: {{voltage: {{{entry}}}}}}}}}").rules_for("A1")
    narrow = tighten(DP832, rules).commands["set_voltage"]
    wide = DP832.commands["set_voltage"]
    arguments = {"channel": channel, "voltage": value}
    try:
        compile_parameters("narrow", narrow.parameters).validate(arguments)
    except Invalid:
        return
    compile_parameters("wide", wide.parameters).validate(arguments)
    assert low is None or value >= low
    assert high is None or value <= high


def test_raw_scpi_is_known_wherever_the_owner_set_limits() -> None:
    limited = bench("A1: {limits: {set_voltage: {voltage: {max: 5}}}}").rules_for("A1")
    assert limited.raw_scpi_rules("all") == {"known"}
    assert limited.raw_scpi_rules("queries") == {"known", "queries"}
    assert limited.raw_scpi_rules("off") == {"known", "off"}
    assert bench("A1: {alias: x}").rules_for("A1").raw_scpi_rules("all") == {"all"}
    assert bench("A1: {raw_scpi: off}").rules_for("A1").raw_scpi_rules("all") == {"off"}


@pytest.mark.parametrize(
    ("expose", "listed"),
    [
        ("all", {"set_voltage", "measure_power"}),
        ("essential", {"set_voltage"}),
        ("none", set()),
        ("[measure_*]", {"measure_power"}),
        ("[measure_v*]", set()),
    ],
)
def test_expose_says_which_tools_are_listed(expose: str, listed: set[str]) -> None:
    rules = bench(f"A1: {{expose: {expose}}}").rules_for("A1")
    names = {"set_voltage": True, "measure_power": False}
    assert {n for n, is_first in names.items() if rules.exposes(n, is_essential=is_first)} == listed


@promise("bench.only-tightens")
@pytest.mark.parametrize(
    ("body", "line", "wrong"),
    [
        ("A1: {limts: {}}", 2, 'Did you mean "limits"?'),
        ("A1: {limits: {set_volt: {voltage: {max: 1}}}}", 2, 'Did you mean "set_voltage"?'),
        ("A1:\n  limits:\n    set_voltage:\n      volts: {max: 1}", 5, "volts"),
        ("A1:\n  limits:\n    set_voltage:\n      voltage:\n        max: 60", 6, "widen"),
        ("A1: {limits: {set_voltage: {voltage: {min: -1}}}}", 2, "widen"),
        ("A1: {limits: {set_voltage: {voltage: {min: 40}}}}", 2, "no value"),
        ("A1: {limits: {set_voltage: {voltage: {min: 4, max: 3}}}}", 2, "over"),
        ("A1: {limits: {set_voltage: {voltage: {}}}}", 2, "nothing"),
        ("A1: {limits: {set_voltage: {voltage: {options: [a]}}}}", 2, "options"),
        (
            "A1: {limits: {measure_dc_voltage: {range: {options: [2 V]}}}}",
            2,
            'keysight_34461a has no option "2 V"',
        ),
        ("A1: {limits: {measure_dc_voltage: {range: {max: 2}}}}", 2, "enum"),
        ("A1: {limits: {output_off: {channel: {max: 1}}}}", 2, "safe"),
        ("A1: {deny: [output_off]}", 2, "safe"),
        ("A1: {deny: [output_oof]}", 2, "output_o"),
        ("A1: {is_dangerous: [output_off]}", 2, "safe"),
        ("A1: {requires_sweep: [output_on]}", 2, "swept"),
        ("A1: {allow_changes: [set_voltage]}", 2, "needs no allow_changes"),
        ("A1: {max_rate: 0}", 2, "max_rate"),
        ("A1: {max_rate: {output_on: 1}}", 2, "swept"),
        ("A1: {max_rate: fast}", 2, "number"),
        ("A1: {expose: some}", 2, "all, essential or none"),
        ("A1: {expose: [mesure_*, set_voltage]}", 2, "matches nothing"),
        ("A1: {raw_scpi: on}", 2, "raw_scpi"),
        ("A1: {alias: 'TCPIP::1::INSTR'}", 2, "address"),
        ("A1: {alias: x}\nB2: {alias: x}", 3, "already"),
        ("A1: {alias: B2}\nB2: {}", 2, "entry of its own"),
        ("A1: {}\nA1: {}", 3, "line 2"),
        ("SN4471: {}\nB2: {}\n's/n: 4471': {}", 4, '"SN4471" in line 2'),
        ("psu1: {}\nPSU1: {}", 3, '"psu1" in line 2'),
        ("A1: {alias: Psu1}\nB2: {alias: psu1}", 3, "already"),
        ("A1: {alias: '4471'}\nSN4471: {}", 2, "entry of its own"),
        ("A1: [1]", 2, "mapping"),
    ],
)
def test_a_bad_entry_is_named_with_its_line(body: str, line: int, wrong: str) -> None:
    error = refused(body)
    assert error.data["line"] == line
    assert wrong in str(error)


def supply(key: str, most: int) -> str:
    return (
        f"format: 1\nprofile_key: {key}\nmanufacturer: a\nmodel: {key}\n"
        f"instrument_class: other\nsource: s\nmatch: {{idn: {key}}}\n"
        "commands: {set_voltage: {scpi: 'VOLT {voltage}', parameters: "
        f"{{voltage: {{type: float, min: 0, max: {most}}}}}}}}}\n"
    )


TWO = ProfileLibrary(
    profiles={
        key: parse_profile(supply(key, most)) for key, most in (("large", 600), ("small", 20))
    }
)


def seen(serial: str, profile_key: str) -> SeenUnit:
    return SeenUnit(serial=serial, serial_told=serial, profile_key=profile_key)


@promise("bench.only-tightens")
def test_each_unit_is_judged_by_its_own_profile() -> None:
    text = "format: 1\nS1:\n  limits:\n    set_voltage:\n      voltage:\n        max: 60\n"
    for units in ([], [seen("S1", "large")], [seen("S2", "small"), seen("S1", "gone")]):
        file = parse_bench(text, "bench.yaml", TWO, units)
        assert file.units["S1"].limits["set_voltage"]["voltage"] == Bound(max=60)
    with pytest.raises(Invalid) as caught:
        parse_bench(text, "bench.yaml", TWO, [seen("L1", "large"), seen("SN: S1", "small")])
    assert "max 60 would widen what small allows (0 to 20)" in caught.value.message
    assert "large" not in str(caught.value)
    assert caught.value.data["line"] == 6


def test_a_complaint_about_a_unit_nobody_met_says_whose_bounds_it_tells() -> None:
    text = "format: 1\nS1: {limits: {set_voltage: {voltage: {max: 700}}}}\n"
    with pytest.raises(Invalid) as caught:
        parse_bench(text, "bench.yaml", TWO, [seen("L1", "large")])
    assert "would widen what large allows (0 to 600)" in caught.value.message
    assert "of all profiles large fits the entry best" in caught.value.remedy


def test_names_that_no_profile_has_are_blamed_on_none() -> None:
    error = refused("A1:\n  limits: {set_humidity: {value: {max: 60}}}\n  deny: [heat]")
    assert error.data["line"] == 3
    assert 'no profile has "heat" or "set_humidity"' in str(error)
    assert "may not be loaded" in error.remedy


def test_an_entry_that_fits_another_profile_is_refused_for_this_one() -> None:
    rules = bench("A1: {limits: {measure_dc_voltage: {range: {options: [1 V]}}}}").rules_for("A1")
    with pytest.raises(Invalid, match="rigol_dp832") as caught:
        tighten(DP832, rules)
    assert caught.value.data["line"] == 2


def test_without_format_the_file_is_refused() -> None:
    with pytest.raises(Invalid, match="format"):
        parse_bench("A1: {}\n", "bench.yaml", LIBRARY)


def test_an_open_side_may_be_closed() -> None:
    profile = parse_profile(
        "format: 1\nprofile_key: p\nmanufacturer: a\nmodel: b\ninstrument_class: other\nsource: s\n"
        "match: {idn: x}\ncommands: {go: {scpi: 'G {v}', parameters: {v: {type: float}}}}\n"
    )
    library = ProfileLibrary(profiles={"p": profile})
    rules = bench("A1: {limits: {go: {v: {min: -1, max: 1}}}}", library).rules_for("A1")
    narrow = tighten(profile, rules).commands["go"].parameters["v"]
    assert (narrow.min, narrow.max) == (-1, 1)


@promise("report.calibration")
def test_a_unit_has_the_day_by_which_it_is_to_be_calibrated() -> None:
    rules = bench("psu1: {calibration_due: 2027-03-31}\nN1: {calibration_due: '2026-12-01'}")
    assert rules.rules_for("", "psu1").calibration_due == date(2027, 3, 31)
    assert rules.rules_for("N1", "psu1").calibration_due == date(2026, 12, 1), "the earlier"
    assert bench("psu1: {alias: a}").rules_for("", "psu1").calibration_due is None


@promise("report.calibration")
@pytest.mark.parametrize(
    "said", ["next spring", "2027-02-30", "31.03.2027", "2027-3-31", "20270331", "2027-W13-3"]
)
def test_a_calibration_that_is_no_date_is_an_error_with_its_line(said: str) -> None:
    error = refused(f"psu1:\n  alias: a\n  calibration_due: {said}\n")
    assert error.message.startswith("bench.yaml:4:")
    assert f'"calibration_due": "{said}" is not a date.' in error.message
    assert "2027-03-31" in error.remedy


def test_everything_that_is_wrong_is_told_at_once_with_its_lines() -> None:
    error = refused(
        "A1: {limts: {}}\nA2: {deny: [foo_bar]}\n"
        "A3: {limits: {set_voltage: {voltage: {max: 5000}}}}\n"
        "A4: {alias: psu1}\nA5: {alias: PSU1}\n"
    )
    assert [one.data["line"] for one in every_complaint(error)] == [2, 6, 3, 4]
    assert str(error).count("bench.yaml:") == 4
