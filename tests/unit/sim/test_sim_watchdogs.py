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
