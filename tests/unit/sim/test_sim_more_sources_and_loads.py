"""Quirks of the later simulated sources and loads; each is a trap to whoever drives real ones."""

from __future__ import annotations

import pytest

from tests.bench.simulated import Asked, PretendedBench


@pytest.fixture
def bench() -> PretendedBench:
    return PretendedBench()


def told(unit: Asked, *messages: str, gap_s: float = 0.15) -> None:
    for message in messages:
        unit.tell(message)
        unit.bench.wait(gap_s)


# Keysight E3600


def test_all_outputs_of_the_e3631a_have_one_switch(bench: PretendedBench) -> None:
    psu = bench.add("keysight_e3631a")
    told(psu, "INST:NSEL 2", "VOLT 12", "INST:NSEL 1", "VOLT 5", "OUTP ON")
    bench.wait(1)
    assert float(psu.ask("INST:NSEL 2;:MEAS:VOLT?")) == pytest.approx(12, abs=0.05)
    assert float(psu.ask("MEAS:VOLT? P6V")) == pytest.approx(5, abs=0.05)


def test_the_third_output_of_the_e3631a_is_set_below_zero(bench: PretendedBench) -> None:
    psu = bench.add("keysight_e3631a")
    told(psu, "INST:NSEL 3", "VOLT -5")
    assert float(psu.ask("VOLT?")) == -5
    psu.raw("VOLT 5")
    assert psu.error() == -222


def test_tracking_takes_the_negative_output_of_the_e3631a_along(bench: PretendedBench) -> None:
    psu = bench.add("keysight_e3631a")
    told(psu, "INST:NSEL 2", "VOLT 12", "OUTP:TRAC ON")
    assert float(psu.ask("INST:NSEL 3;:VOLT?")) == -12
    told(psu, "VOLT -3")
    assert float(psu.ask("INST:NSEL 2;:VOLT?")) == 3


@pytest.mark.parametrize(
    ("model", "beyond_low"),
    [
        ("keysight_e3632a", "VOLT 15.1"),
        ("keysight_e3633a", "VOLT 8.1"),
        ("keysight_e3634a", "VOLT 25.1"),
    ],
)
def test_a_range_bounds_what_can_be_set(bench: PretendedBench, model: str, beyond_low: str) -> None:
    psu = bench.add(model)
    psu.raw(beyond_low)
    assert psu.error() == -222
    told(psu, "VOLT:RANG HIGH", beyond_low)
    volts = float(beyond_low.split()[1])
    assert float(psu.ask("VOLT?")) == volts
    told(psu, "VOLT:RANG LOW")
    assert float(psu.ask("VOLT?")) == pytest.approx(volts - 0.1)


def test_clearing_a_trip_of_the_e3634a_brings_its_output_back(bench: PretendedBench) -> None:
    psu = bench.add("keysight_e3634a")
    told(psu, "VOLT 5", "VOLT:PROT 3", "OUTP ON")
    bench.wait(1)
    assert psu.ask("VOLT:PROT:TRIP?") == "1"
    assert psu.ask("OUTP?") == "1"
    assert psu.ask("STAT:QUES:COND?") == "+512"
    assert float(psu.ask("MEAS:VOLT?")) == pytest.approx(0, abs=0.01)
    told(psu, "VOLT:PROT 20", "VOLT:PROT:CLE")
    bench.wait(1)
    assert float(psu.ask("MEAS:VOLT?")) == pytest.approx(5, abs=0.05)


# Sisters


def test_a_sister_has_its_own_ratings(bench: PretendedBench) -> None:
    psu = bench.add("keysight_e36313a")
    told(psu, "CURR 10,(@1)", "CURR 2,(@2:3)")
    assert [float(amps) for amps in psu.ask("CURR? (@1:3)").split(",")] == [10, 2, 2]
    hmp = bench.add("rs_hmp2030")
    hmp.raw("CURR 5.1")
    assert hmp.error() == -222
    hmp.raw("INST:NSEL 4")
    assert hmp.error() == -222
