"""The timers that switch simulated supplies off, each with the traps that its maker's manual has.

What the control port tells (``describe``) is the truth, and feeds none of them.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench.simulated import Asked, PretendedBench


@pytest.fixture
def bench() -> PretendedBench:
    return PretendedBench()


def truth(unit: Asked) -> dict[str, Any]:
    return dict(unit.instrument.state.describe(unit.bench.now))


def are_on(unit: Asked) -> list[bool]:
    """Of each output, as its wires have it."""
    return [bool(told["is_on"]) for name, told in truth(unit).items() if name.startswith("ch")]


def is_tripped(unit: Asked) -> bool:
    return bool(truth(unit)["watchdog"]["is_tripped"])


# Keysight N6700


@pytest.fixture
def mainframe(bench: PretendedBench) -> Asked:
    unit = bench.add("keysight_n6700")
    unit.tell("VOLT 5,(@1:4)", "CURR 1,(@1:4)", "OUTP ON,(@1,3)")
    unit.tell("OUTP:PROT:WDOG:DEL 10", "OUTP:PROT:WDOG ON")
    return unit


def test_a_silent_mainframe_switches_all_its_outputs_off(mainframe: Asked) -> None:
    mainframe.bench.wait(9.9)
    assert are_on(mainframe) == [True, False, True, False]
    mainframe.bench.wait(0.2)
    assert are_on(mainframe) == [False] * 4
    assert is_tripped(mainframe)
    assert mainframe.bench.world.main().advance(mainframe.bench.now + 1).volts < 0.01


def test_whatever_hangs_on_the_output_sees_it_go_off_though_nobody_asks_the_supply(
    mainframe: Asked,
) -> None:
    node = mainframe.bench.world.main()
    assert node.advance(mainframe.bench.now + 5).volts > 4
    assert node.advance(mainframe.bench.now + 11).volts < 0.01


@pytest.mark.parametrize("message", ["*IDN?", "MEAS:VOLT? (@2)", "NONSENSE 1", "OUTP:PROT:WDOG?"])
def test_any_word_feeds_the_mainframe(mainframe: Asked, message: str) -> None:
    for _ in range(3):
        mainframe.bench.wait(9)
        mainframe.raw(message)
    assert are_on(mainframe) == [True, False, True, False]


def test_looking_by_the_control_port_feeds_nothing(mainframe: Asked) -> None:
    for _ in range(11):
        mainframe.bench.wait(1)
        truth(mainframe)
    assert is_tripped(mainframe)


def test_what_was_programmed_stays_so_and_comes_back_when_it_is_cleared(mainframe: Asked) -> None:
    mainframe.bench.wait(11)
    assert mainframe.ask("OUTP? (@1:4)") == "1,0,1,0"
    assert mainframe.ask("STAT:QUES:COND? (@1:4)") == "+2048,+2048,+2048,+2048"
    mainframe.tell("OUTP ON,(@1)")
    assert are_on(mainframe) == [False] * 4
    mainframe.tell("OUTP:PROT:CLE (@1:4)")
    assert are_on(mainframe) == [True, False, True, False]
    assert mainframe.ask("STAT:QUES:COND? (@1)") == "+0"


def test_stopping_the_timer_of_a_mainframe_clears_no_trip(mainframe: Asked) -> None:
    mainframe.bench.wait(11)
    mainframe.tell("OUTP:PROT:WDOG OFF")
    assert is_tripped(mainframe)
    assert int(mainframe.ask("STAT:QUES:COND? (@1)")) == 2048


def test_a_stopped_timer_switches_nothing_off(mainframe: Asked) -> None:
    mainframe.tell("OUTP:PROT:WDOG OFF")
    mainframe.bench.wait(1000)
    assert are_on(mainframe) == [True, False, True, False]


@pytest.mark.parametrize("how", ["*RST", "power"])
def test_the_setting_is_lost_by_a_reset_and_with_the_power(mainframe: Asked, how: str) -> None:
    if how == "power":
        mainframe.instrument.power_cycle(mainframe.bench.now)
    else:
        mainframe.tell(how)
    assert mainframe.ask("OUTP:PROT:WDOG?") == "0"
    assert mainframe.ask("OUTP:PROT:WDOG:DEL?") == "60"
    assert are_on(mainframe) == [False] * 4
    mainframe.tell("OUTP ON,(@1)")
    mainframe.bench.wait(100)
    assert are_on(mainframe)[0]


@pytest.mark.parametrize("message", ["OUTP:PROT:WDOG:DEL 0", "OUTP:PROT:WDOG:DEL 3601"])
def test_the_time_of_a_mainframe_has_bounds(mainframe: Asked, message: str) -> None:
    mainframe.raw(message)
    assert mainframe.error() == -222


def test_a_word_about_an_output_of_a_mainframe_names_it(mainframe: Asked) -> None:
    mainframe.raw("OUTP ON")
    assert mainframe.error() == -109


# Keysight N7951A


@pytest.fixture
def aps(bench: PretendedBench) -> Asked:
    unit = bench.add("keysight_n7951a")
    unit.tell("VOLT 5", "CURR:LIM 1", "OUTP ON", "OUTP:PROT:WDOG:DEL 10", "OUTP:PROT:WDOG ON")
    return unit


def test_the_watchdog_of_the_aps_is_told_by_its_first_questionable_register(aps: Asked) -> None:
    aps.bench.wait(9)
    assert aps.ask("STAT:QUES1:COND?") == "+0"
    aps.bench.wait(10.1)
    assert are_on(aps) == [False]
    assert aps.ask("STAT:QUES1:COND?") == "+2048"
    assert aps.ask("OUTP?") == "1"
    aps.tell("OUTP OFF", "OUTP:PROT:CLE")
    assert are_on(aps) == [False]
    assert not is_tripped(aps)


def test_the_aps_has_no_channels_to_name(aps: Asked) -> None:
    aps.raw("OUTP OFF,(@1)")
    assert aps.error() == -108
    assert are_on(aps) == [True]


# TDK-Lambda GENESYS+


@pytest.fixture
def genesys(bench: PretendedBench) -> Asked:
    unit = bench.add("tdk_g10_100")
    unit.tell("CURR 1", "VOLT 5", "OUTP ON", "SYST:WATCH:TIM 10", "SYST:WATCH ON")
    return unit


def test_the_genesys_counts_from_the_first_message_after_it_was_enabled(genesys: Asked) -> None:
    genesys.bench.wait(1000)
    assert are_on(genesys) == [True]
    genesys.ask("*IDN?")
    genesys.bench.wait(9.9)
    assert are_on(genesys) == [True]
    genesys.bench.wait(0.2)
    assert are_on(genesys) == [False]


def test_a_new_time_of_the_genesys_counts_from_the_next_message(genesys: Asked) -> None:
    genesys.ask("*IDN?")
    genesys.tell("SYST:COMM:WATCH:TIM 5")
    genesys.bench.wait(100)
    assert are_on(genesys) == [True]
    genesys.ask("*IDN?")
    genesys.bench.wait(5.1)
    assert are_on(genesys) == [False]


def test_a_line_that_nobody_understands_feeds_the_genesys(genesys: Asked) -> None:
    for _ in range(4):
        genesys.raw("NONSENSE 1")
        genesys.bench.wait(9)
    assert are_on(genesys) == [True]


def test_the_genesys_tells_that_it_switched_off_by_an_error_and_a_bit(genesys: Asked) -> None:
    genesys.ask("*IDN?")
    genesys.bench.wait(11)
    assert int(genesys.ask("STAT:QUES:COND?")) & 32768
    assert genesys.ask("SYST:ERR?").startswith("342,")
    genesys.raw("OUTP ON")
    assert genesys.error() == -221
    genesys.tell("OUTP:PROT:CLE")
    assert not int(genesys.ask("STAT:QUES:COND?")) & 32768
    assert are_on(genesys) == [False]


def test_disabling_the_watchdog_of_the_genesys_clears_that_it_switched_off(genesys: Asked) -> None:
    genesys.ask("*IDN?")
    genesys.bench.wait(11)
    assert is_tripped(genesys)
    genesys.raw("SYST:WATCH OFF")
    assert not is_tripped(genesys)
    assert not int(genesys.ask("STAT:QUES:COND?")) & 32768


# Delta Elektronika SM15K


@pytest.fixture
def sm15k(bench: PretendedBench) -> Asked:
    unit = bench.add("delta_sm500_cp_90")
    unit.tell("SOUR:CUR 1", "SOUR:VOL 5", "OUTP ON", "SYST:COM:WAT SET,2000")
    return unit


def test_the_line_that_sets_the_time_of_the_sm15k_starts_and_feeds_it(sm15k: Asked) -> None:
    for _ in range(3):
        sm15k.bench.wait(1.9)
        sm15k.tell("SYST:COMM:WAT SET,2000")
    assert are_on(sm15k) == [True]
    assert sm15k.ask("SYST:COMM:WAT SET?") == "2000"
    sm15k.bench.wait(2.1)
    assert are_on(sm15k) == [False]


def test_the_sm15k_tells_the_milliseconds_that_were_left(sm15k: Asked) -> None:
    sm15k.bench.wait(0.5)
    assert sm15k.ask("SYST:COMM:WAT?") == "1500"


def test_only_what_is_valid_feeds_the_sm15k(sm15k: Asked) -> None:
    for _ in range(3):
        sm15k.bench.wait(1.5)
        sm15k.ask("*IDN?")
    assert are_on(sm15k) == [True]
    sm15k.bench.wait(1.5)
    sm15k.raw("NONSENSE 1")
    sm15k.bench.wait(1.0)
    assert are_on(sm15k) == [False]


def test_the_sm15k_tells_once_that_it_switched_off(sm15k: Asked) -> None:
    sm15k.bench.wait(3)
    assert is_tripped(sm15k)
    assert [sm15k.ask("SYST:COMM:WAT?") for _ in range(2)] == ["0", "-1"]
    assert are_on(sm15k) == [False]


def test_the_sm15k_can_be_switched_on_again_and_nothing_guards_it_then(sm15k: Asked) -> None:
    sm15k.bench.wait(3)
    sm15k.tell("OUTP ON")
    sm15k.bench.wait(100)
    assert are_on(sm15k) == [True]


@pytest.mark.parametrize("how", ["SYST:COM:WAT STOP", "power"])
def test_a_stopped_timer_of_the_sm15k_is_off(sm15k: Asked, how: str) -> None:
    if how == "power":
        sm15k.instrument.power_cycle(sm15k.bench.now)
        sm15k.tell("OUTP ON")
    else:
        sm15k.tell(how)
    sm15k.bench.wait(100)
    assert are_on(sm15k) == [True]
    assert sm15k.ask("SYST:COMM:WAT?") == "-1"


def test_the_timer_of_the_sm15k_can_be_tried(sm15k: Asked) -> None:
    sm15k.tell("SYST:COMM:WAT TEST")
    sm15k.bench.wait(0.003)
    assert are_on(sm15k) == [False]
    assert is_tripped(sm15k)


@pytest.mark.parametrize("milliseconds", [19, 10001])
def test_the_time_of_the_sm15k_has_bounds(sm15k: Asked, milliseconds: int) -> None:
    sm15k.raw(f"SYST:COMM:WAT SET,{milliseconds}")
    assert sm15k.error() == -222
