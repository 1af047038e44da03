"""The simulated instruments that are no SCPI, with the traps of the real ones."""

from __future__ import annotations

import pytest

from tests.bench.simulated import Asked, PretendedBench


def fp50() -> Asked:
    return PretendedBench().add("julabo_fp50")


def order(unit: Asked, line: str) -> None:
    assert unit.raw(line) is None, "an order is answered by nothing"
    unit.bench.wait(0.3)


def test_an_order_is_silent_and_the_status_tells_once_what_was_wrong_with_it() -> None:
    unit = fp50()
    order(unit, "OUT_SP_00 31.5")
    assert unit.ask("IN_SP_00") == "31.50"
    assert unit.ask("STATUS") == "02 REMOTE STOP"
    for line, told in (
        ("OUT_SP_00 500", "-11 VALUE TOO LARGE"),
        ("OUT_SP_00 -80", "-10 VALUE TOO SMALL"),
        ("OUT_SP_00 hot", "-08 INVALID COMMAND"),
        ("*IDN?", "-08 INVALID COMMAND"),
    ):
        order(unit, line)
        assert unit.ask("STATUS") == told
        assert unit.ask("STATUS") == "02 REMOTE STOP"
    assert unit.ask("IN_SP_00") == "31.50"


def test_what_comes_right_after_an_order_is_lost() -> None:
    unit = fp50()
    assert unit.raw("OUT_MODE_05 1") is None
    assert unit.raw("IN_MODE_05") is None
    unit.bench.wait(0.3)
    assert unit.ask("in_mode_05") == "1"


def test_in_manual_it_answers_and_obeys_nothing() -> None:
    unit = fp50()
    unit.instrument.state.is_remote = False
    order(unit, "OUT_MODE_05 1")
    assert unit.ask("STATUS").startswith("-09")
    assert unit.ask("STATUS") == "00 MANUAL STOP"
    assert unit.ask("IN_MODE_05") == "0"


@pytest.mark.parametrize("model", ["julabo_fp50", "lauda_integral"])
def test_a_bath_goes_where_it_is_told_while_it_runs(model: str) -> None:
    unit = PretendedBench().add(model)
    state = unit.instrument.state
    state.setpoint = 60.0
    unit.bench.wait(30)
    assert float(unit.ask("IN_PV_00")) == pytest.approx(22, abs=0.1)
    state.is_running = True
    unit.bench.wait(30)
    assert float(unit.ask("IN_PV_00")) == pytest.approx(60, abs=0.1)


def test_the_thermostat_answers_each_order_and_says_what_is_wrong() -> None:
    unit = PretendedBench().add("lauda_integral")
    said = {
        "OUT_SP_00_25.00": "OK",
        "OUT_SP_00_500": "ERR_6",
        "OUT_SP_00_x": "ERR_5",
        "OUT_SP_00 25": "ERR_3",
        "OUT_SP_01_9": "ERR_6",
        "OUT_SP_04_-60": "ERR_6",
        "OUT_SP_05_220": "OK",
        "OUT_SP_04_100": "ERR_32",
        "OUT_PAR_00_4": "OK",
        "OUT_MODE_00_1": "OK",
        "IN_PV_03": "ERR_33",
        "*IDN?": "ERR_3",
        "START": "OK",
        "IN_MODE_02": "0",
        "STOP": "OK",
    }
    assert {line: unit.ask(line) for line in said} == said
    assert (unit.ask("IN_MODE_02"), unit.ask("IN_SP_00"), unit.ask("TYPE")) == ("1", "025.00", "XT")


def test_an_itc503_obeys_in_remote_only_and_repeats_what_it_does_not_do() -> None:
    unit = PretendedBench().add("oxford_itc503")
    assert unit.ask("V").startswith("ITC503 Version")
    assert unit.ask("X") == "X0A0C2S00H1L0"
    assert unit.ask("T100") == "?T100"
    assert unit.ask("*IDN?") == "?*IDN?"
    assert unit.ask("C3") == "C"
    assert unit.ask("T100") == "T"
    assert unit.ask("R0") == "R+0100.000"
    assert unit.ask("T2000") == "?T2000"
    assert unit.raw("$T90") is None, "after a dollar nothing is answered"
    assert unit.ask("R0") == "R+0090.000"


def test_an_itc503_warms_the_stage_that_it_controls_until_its_heater_is_manual_and_zero() -> None:
    unit = PretendedBench().add("oxford_itc503")
    for line in ("C3", "H2", "T100", "A1"):
        assert unit.ask(line) == line[0]
    assert unit.ask("O50") == "?O50", "an automatic heater is not set by hand"
    unit.bench.wait(30)
    assert float(unit.ask("R2")[1:]) == pytest.approx(100, abs=0.1)
    assert float(unit.ask("R1")[1:]) == pytest.approx(77.35, abs=0.1)
    assert unit.ask("A0") == "A"
    assert float(unit.ask("R5")[1:]) > 0, "made manual, it keeps what it had"
    assert unit.ask("O0") == "O"
    unit.bench.wait(30)
    assert float(unit.ask("R2")[1:]) == pytest.approx(77.35, abs=0.1)


def test_of_two_genesys_the_one_that_was_addressed_last_listens() -> None:
    unit = PretendedBench().add("tdk_genesys_pair")
    assert unit.raw("IDN?") is None, "nobody is addressed"
    assert unit.ask("ADR 6") == "OK"
    assert (unit.ask("IDN?"), unit.ask("PV 5")) == ("LAMBDA,GEN60-25", "OK")
    assert (unit.ask("PV 61"), unit.ask("*IDN?"), unit.ask("FOO")) == ("E01", "C01", "C01")
    assert unit.ask("ADR 7") == "OK"
    assert (unit.ask("PV?"), unit.ask("OUT 1"), unit.ask("OUT?")) == ("00.000", "OK", "ON")
    assert unit.ask("ADR 6") == "OK"
    assert (unit.ask("PV?"), unit.ask("OUT?")) == ("05.000", "OFF")
    assert unit.raw("ADR 9") is None
    assert unit.raw("PV?") is None


def test_each_line_to_an_alicat_begins_with_its_letter() -> None:
    unit = PretendedBench().add("alicat_mc_pair")
    assert unit.ask("AS12.50").split()[5] == "+012.50"
    assert unit.ask("B").split()[5] == "+000.00"
    assert unit.ask("A").split()[0] == "A"
    assert unit.ask("AX9") == "?"
    assert unit.raw("C") is None
    assert unit.raw("*IDN?") is None
