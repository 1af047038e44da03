"""Simulated lock-ins, temperature controllers, switches and sources, with the real ones' traps."""

from __future__ import annotations

import pytest

from tests.bench.simulated import PretendedBench


@pytest.fixture
def bench() -> PretendedBench:
    return PretendedBench()


# Stanford Research SR860 and SR865A


def test_an_sr860_numbers_its_outputs_from_zero_and_its_sensitivities_downwards(
    bench: PretendedBench,
) -> None:
    lock_in = bench.add("srs_sr860")
    lock_in.tell("FREQ 1000", "SLVL 1", "SCAL 0", "OFLT 6")
    bench.wait(1)
    assert lock_in.number("OUTP? 0") == pytest.approx(0.5, rel=1e-3)
    assert lock_in.number("OUTP? 2") == pytest.approx(0.7071, rel=1e-3)
    lock_in.tell("SCAL 2")
    assert lock_in.number("OUTP? 2") == pytest.approx(0.218, rel=1e-3)
    assert int(lock_in.ask("CUROVLDSTAT?")) == 1
    lock_in.tell("ASCL")
    assert lock_in.ask("SCAL?") == "0"
    assert lock_in.ask("CUROVLDSTAT?") == "0"
    assert lock_in.ask("LIAS?") == "1", "what was overloaded is told until it was read"
    assert lock_in.ask("LIAS?") == "0"


def test_an_sr860_keeps_six_digits_of_a_frequency_and_three_of_a_level(
    bench: PretendedBench,
) -> None:
    lock_in = bench.add("srs_sr860")
    lock_in.tell("FREQ 123456.789", "SLVL 0.123456", "AUXV 3,1.5")
    assert lock_in.number("FREQ?") == 123_457
    assert lock_in.number("SLVL?") == 0.123
    assert lock_in.ask("AUXV? 3") == "1.5"
    lock_in.tell("SLVL 0")
    assert lock_in.number("SLVL?") == 0
    assert lock_in.raw("SNAP? 1") is None
    assert int(lock_in.ask("*ESR?")) & 32


@pytest.mark.parametrize(("model", "hertz"), [("srs_sr860", 500e3), ("srs_sr865a", 4e6)])
def test_each_sr86x_has_a_highest_frequency_of_its_own(
    bench: PretendedBench, model: str, hertz: float
) -> None:
    lock_in = bench.add(model)
    lock_in.tell(f"FREQ {hertz}")
    assert lock_in.number("FREQ?") == hertz
    assert lock_in.raw(f"FREQ {hertz * 1.1}") is None
    assert int(lock_in.ask("*ESR?")) & 16
