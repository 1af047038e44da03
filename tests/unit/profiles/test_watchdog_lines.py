"""Which raw lines would take the owner's dead-man away."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.profiles.raw import LineClass, class_of, identify
from edged.profiles.watchdog import disarms
from tests.bench.shipped import shipped_library

PROFILES = shipped_library().profiles


def is_held_back(key: str, line: str) -> bool:
    """Of a unit with a dead-man: what would take it away, and whatever is unknown."""
    is_unknown = class_of(identify(PROFILES[key], line)) is LineClass.UNKNOWN
    return is_unknown or disarms(PROFILES[key], line)


@pytest.mark.parametrize(
    "line",
    [
        "OUTP:PROT:WDOG OFF",
        ":OUTPUT:PROTECTION:WDOG:STATE 0",
        "outp:prot:wdog on",
        "OUTP:PROT:WDOG:DEL 3600",
        "Output:Prot:WDOG:Delay 10",
        "OUTP:PROT:CLE (@1)",
        "VOLT 1,(@1);:OUTP:PROT:WDOG OFF",
        "OUTP:PROT:CLE (@1);WDOG OFF",
        "*RST",
        "*CLS;*RST",
        "*RCL 1",
        "SYST:PRES",
        "SYSTEM:PRESET",
        "X" * 20_000,
        ";".join(["*CLS"] * 100),
    ],
)
def test_what_sets_or_resets_the_timer_of_the_n6700_is_held_back(line: str) -> None:
    assert is_held_back("keysight_n6700", line)


@pytest.mark.parametrize(
    "line",
    [
        "OUTP:PROT:WDOG?",
        "OUTP:PROT:WDOG:DEL?",
        "OUTP ON,(@1)",
        "OUTP OFF,(@1:4)",
        "VOLT 5,(@1)",
        "VOLT:PROT 5,(@1)",
        "OUTP:PROT:COUP ON",
        "*CLS",
        "*IDN?",
        "STAT:QUES:COND? (@1)",
        "",
    ],
)
def test_what_is_about_other_things_disarms_nothing(line: str) -> None:
    assert not disarms(PROFILES["keysight_n6700"], line)


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("tdk_g10_100", "SYST:COMM:WATCH OFF"),
        ("tdk_g10_100", "SYSTEM:WATCHDOG:STATE OFF"),
        ("tdk_g10_100", "SYST:WATCH:TIM 3600"),
        ("tdk_g10_100", "SYST:COMMUNICATE:WATCHDOG:TIME 3600"),
        ("delta_sm500_cp_90", "SYSTem:COMmunicate:WATchdog SET,10000"),
        ("delta_sm500_cp_90", "SYST:COMM:WATCH STOP"),
        ("delta_sm500_cp_90", "syst:com:wat test"),
        ("keysight_n7951a", "OUTP:PROT:WDOG 0"),
    ],
)
def test_every_form_of_the_others_is_held_back(key: str, line: str) -> None:
    assert is_held_back(key, line)


def test_a_profile_without_a_watchdog_has_nothing_to_disarm() -> None:
    assert not disarms(PROFILES["rigol_dp832"], "*RST")


@pytest.mark.parametrize("key", sorted(k for k, p in PROFILES.items() if p.watchdog is not None))
def test_of_the_shipped_commands_only_those_that_clear_a_trip_would_disarm(key: str) -> None:
    profile = PROFILES[key]
    found = {c.name for c in profile.commands.values() if any(disarms(profile, s) for s in c.scpi)}
    assert found <= {"clear_protection", "clear_faults"}


@given(st.text(max_size=200))
def test_any_line_is_judged(line: str) -> None:
    assert disarms(PROFILES["keysight_n6700"], line) in (True, False)
