"""Simulated analyzers of spectra and networks, with the real ones' traps."""

from __future__ import annotations

import struct

import pytest

from edged.sim.models.families.radio import FILTER, in_steps
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
