"""Simulated analyzers of spectra and networks, with the real ones' traps."""

from __future__ import annotations

import struct

import pytest

from edged_sim.models.families.radio import FILTER, in_steps
from tests.bench.profile_matrix import SIMULATED
from tests.bench.simulated import Asked, PretendedBench


@pytest.fixture
def bench() -> PretendedBench:
    return PretendedBench()


def test_the_filter_of_the_bench_gives_back_what_it_does_not_let_through() -> None:
    assert abs(FILTER.transmission(100e6)) == pytest.approx(1)
    for hertz in (1e3, 80e6, 100e6, 3e9):
        passed, thrown_back = abs(FILTER.transmission(hertz)), abs(FILTER.reflection(hertz))
        assert passed**2 + thrown_back**2 == pytest.approx(1)


def test_bandwidths_go_by_one_and_three() -> None:
    assert in_steps(10, 1000) == (10, 30, 100, 300, 1000)


# Rigol DSA815


def text_of(analyzer: Asked) -> list[float]:
    """A trace as text, in its block."""
    answer = analyzer.raw(":TRAC:DATA? TRACE1")
    assert answer is not None
    assert answer.startswith(b"#9")
    assert len(answer) == 11 + int(answer[2:11]) + 1
    return [float(number) for number in answer[11:].decode().split(", ")]


def test_a_dsa815_sends_a_block_even_where_the_trace_is_text(bench: PretendedBench) -> None:
    analyzer = bench.add("rigol_dsa815")
    analyzer.tell(":INIT:CONT OFF")
    as_text = text_of(analyzer)
    analyzer.tell(":FORM:TRAC:DATA REAL,32")
    first = analyzer.block(":TRAC:DATA? TRACE1")
    assert struct.unpack(">601f", first) == pytest.approx(as_text, rel=1e-5)
    analyzer.tell(":FORM:BORD SWAP")
    assert struct.unpack("<601f", analyzer.block(":TRAC:DATA? TRACE1")) == struct.unpack(
        ">601f", first
    )


def test_a_dsa815_finds_the_station_and_says_when_its_sweep_is_over(bench: PretendedBench) -> None:
    analyzer = bench.add("rigol_dsa815")
    analyzer.tell(":SENS:FREQ:STAR 400E6", ":SENS:FREQ:STOP 460E6", ":SENS:BAND:RES 5000")
    assert analyzer.ask(":SENS:BAND:RES?") == "10000"
    analyzer.tell(":INIT:CONT OFF", ":INIT")
    assert analyzer.ask(":STAT:OPER:COND?") == "8"
    assert analyzer.ask("*OPC?") == "1"
    assert analyzer.took_s > 1
    assert analyzer.ask(":STAT:OPER:COND?") == "0"
    analyzer.tell(":CALC:MARK1:MAX:MAX")
    hertz, level = analyzer.ask(":CALC:MARK1:X?;:CALC:MARK1:Y?").split(";")
    assert float(hertz) == pytest.approx(433e6, abs=1e5)
    assert float(level) == pytest.approx(-42, abs=0.5)


def test_a_dsa815_sees_its_own_generator_through_the_filter(bench: PretendedBench) -> None:
    analyzer = bench.add("rigol_dsa815")
    analyzer.tell(":SENS:FREQ:STAR 50E6", ":SENS:FREQ:STOP 150E6", ":SENS:BAND:RES 10000")
    assert max(text_of(analyzer)) < -80
    analyzer.tell(":SOUR:POW:LEV:IMM:AMPL -10", ":OUTP:STAT ON")
    levels = text_of(analyzer)
    assert levels[300] == pytest.approx(-10, abs=0.1)
    assert levels[0] < -30
    analyzer.raw(":SOUR:POW:LEV:IMM:AMPL 0.5")
    assert analyzer.error() == -222


# Agilent E5061A and E5062A


def reals(analyzer: Asked, message: str) -> tuple[float, ...]:
    """An array of 32-bit numbers, the lowest byte first."""
    answer = analyzer.raw(message)
    assert answer is not None
    size = int(answer[2:8])
    assert answer[:2] == b"#6"
    assert len(answer) == 8 + size + 1
    return struct.unpack(f"<{size // 4}f", answer[8 : 8 + size])


def test_an_e5061a_measures_the_filter_in_pairs_whose_second_number_is_0(
    bench: PretendedBench,
) -> None:
    analyzer = bench.add("keysight_e5061a")
    analyzer.tell(":SENS1:FREQ:STAR 50E6", ":SENS1:FREQ:STOP 150E6", ":FORM:BORD SWAP")
    analyzer.tell(":FORM:DATA REAL32", ":CALC1:PAR1:DEF S21", ":TRIG:SOUR BUS")
    analyzer.tell(":INIT1:CONT ON", ":TRIG:SING")
    assert analyzer.ask("*OPC?") == "1"
    assert analyzer.took_s == pytest.approx(201 / 30e3 + 1e-3, rel=0.5)
    pairs = reals(analyzer, ":CALC1:DATA:FDAT?")
    assert len(pairs) == 402
    assert set(pairs[1::2]) == {0.0}
    assert pairs[200] == pytest.approx(0, abs=0.01)
    analyzer.tell(":CALC1:PAR1:DEF S11")
    assert reals(analyzer, ":CALC1:DATA:FDAT?")[200] < -60
    analyzer.tell(":CALC1:FORM SWR")
    assert reals(analyzer, ":CALC1:DATA:FDAT?")[200] == pytest.approx(1, abs=0.01)
    analyzer.tell("*RST")
    assert analyzer.ask(":FORM:DATA?") == "REAL32", "a reset leaves the format as it was"


def test_an_e5061a_is_not_triggered_while_nothing_waits_for_it(bench: PretendedBench) -> None:
    analyzer = bench.add("keysight_e5061a")
    analyzer.raw(":TRIG:SING")
    assert analyzer.error() == -211
    analyzer.tell(":TRIG:SOUR BUS")
    analyzer.raw(":TRIG:SING")
    assert analyzer.error() == -211, "after *RST the channel wants no sweep"
    analyzer.tell(":INIT1", ":TRIG:SING")
    analyzer.raw(":CALC1:PAR2:SEL")
    assert analyzer.error() == -221, "only one trace is shown"


@pytest.mark.parametrize(("model", "hertz"), [("keysight_e5061a", 1.5e9), ("keysight_e5062a", 3e9)])
def test_each_ena_has_a_highest_frequency_of_its_own(
    bench: PretendedBench, model: str, hertz: float
) -> None:
    analyzer = bench.add(model)
    analyzer.tell(f":SENS1:FREQ:STOP {hertz:.0f}")
    assert analyzer.number(":SENS1:FREQ:STOP?") == hertz
    analyzer.raw(f":SENS1:FREQ:STOP {hertz + 1:.0f}")
    assert analyzer.error() == -222
    bounds = SIMULATED[model].commands["set_frequency_range"].parameters
    assert bounds["stop"].max == hertz


def test_a_dark_ena_sees_noise_alone(bench: PretendedBench) -> None:
    analyzer = bench.add("keysight_e5062a")
    assert analyzer.ask(":OUTP?") == "1"
    analyzer.tell(":OUTP OFF", ":SYST:PRES", ":OUTP OFF", ":FORM:DATA ASC")
    levels = [float(number) for number in analyzer.ask(":CALC1:DATA:FDAT?").split(",")]
    assert max(levels[::2]) < -70
