"""Quirks of the later simulated sources and loads; each is a trap to whoever drives real ones."""

from __future__ import annotations

import pytest

from tests.bench.simulated import PretendedBench, told


@pytest.fixture
def bench() -> PretendedBench:
    return PretendedBench()


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


def test_each_output_of_the_e3649a_has_a_range_of_its_own(bench: PretendedBench) -> None:
    psu = bench.add("keysight_e3649a")
    told(psu, "INST:NSEL 2", "VOLT:RANG P60V", "VOLT 60")
    assert float(psu.ask("VOLT?")) == 60
    psu.raw("CURR 1.4")
    assert psu.error() == -222
    told(psu, "INST:NSEL 1", "CURR 1.4")
    assert psu.ask("VOLT:RANG?") == "P35V"


# Keithley 2231A


def test_a_channel_of_the_2231a_has_its_own_switch_and_all_have_one(bench: PretendedBench) -> None:
    psu = bench.add("keithley_2231a_30_3")
    psu.raw("VOLT 5")
    assert psu.error() == -221
    told(psu, "SYST:REM", "INST:NSEL 2", "VOLT 5", "CHAN:OUTP ON")
    assert [psu.ask(f"STAT:OPER:INST:ISUM{n}:COND?") for n in (1, 2, 3)] == ["0", "9", "0"]
    told(psu, "CURR 0.1")
    bench.wait(1)
    assert psu.ask("STAT:OPER:INST:ISUM2:COND?") == "10"
    told(psu, "OUTP OFF")
    assert psu.ask("STAT:OPER:INST:ISUM2:COND?") == "0"


# Siglent SPD1000X


def test_the_spd1168x_tells_of_its_output_in_a_hexadecimal_word_only(bench: PretendedBench) -> None:
    psu = bench.add("siglent_spd1168x")
    told(psu, "CH1:VOLT 5", "CH1:CURR 0.1", "OUTP CH1,ON", "TIME CH1,ON")
    bench.wait(1)
    assert psu.ask("SYST:STAT?") == "0x51"
    assert psu.raw("OUTP? CH1") is None


# Loads


@pytest.mark.parametrize("model", ["rigol_dl3031", "siglent_sdl1020x"])
def test_the_low_range_of_a_load_takes_its_level_down(bench: PretendedBench, model: str) -> None:
    load = bench.add(model)
    header, low = (":SOUR:CURR:RANG", 6) if "rigol" in model else (":SOUR:CURR:IRANG", 5)
    told(load, ":SOUR:CURR 20", f"{header} {low}")
    assert float(load.ask(":SOUR:CURR?")) == low
    load.raw(":SOUR:CURR 20")
    assert load.error() == -222


def test_the_sdl_says_its_mode_in_a_long_word(bench: PretendedBench) -> None:
    load = bench.add("siglent_sdl1020x")
    told(load, ":SOUR:FUNC POW")
    assert load.ask(":SOUR:FUNC?") == "POWER"


def test_a_protection_of_the_sdl_switches_its_input_off(bench: PretendedBench) -> None:
    source = bench.add("keithley_2400")
    load = bench.add("siglent_sdl1020x")
    told(source, ":SOUR:VOLT 5", ":SENS:CURR:PROT 1", ":OUTP ON")
    told(load, ":SOUR:CURR 0.3", ":SOUR:CURR:PROT:LEV 0.2", ":SOUR:CURR:PROT:STAT ON")
    told(load, ":SOUR:INP:STAT ON")
    bench.wait(1)
    load.ask("MEAS:CURR?")
    assert load.ask(":SOUR:INP:STAT?") == "0"


# Source meters and the 336


@pytest.mark.parametrize(
    ("model", "volts", "amps"), [("keithley_2410", 1100, 0.021), ("keithley_2420", 63, 1.05)]
)
def test_beyond_its_corner_a_source_meter_has_little_current(
    bench: PretendedBench, model: str, volts: float, amps: float
) -> None:
    smu = bench.add(model)
    told(smu, f":SENS:CURR:PROT {amps}", f":SOUR:VOLT {volts}")
    assert float(smu.ask(":SOUR:VOLT?")) == volts
    smu.raw(f":SENS:CURR:PROT {amps * 1.1}")
    assert smu.error() == -221


def test_a_2401_has_its_whole_current_at_its_whole_voltage(bench: PretendedBench) -> None:
    smu = bench.add("keithley_2401")
    told(smu, ":SENS:CURR:PROT 1.05", ":SOUR:VOLT 21")
    assert float(smu.ask(":SOUR:VOLT?")) == 21
    smu.raw(":SOUR:VOLT 21.1")
    assert smu.error() == -222


def test_the_analogue_outputs_of_the_336_have_no_ranges(bench: PretendedBench) -> None:
    controller = bench.add("lakeshore_336")
    for line in ("RANGE 3,1", "RANGE 3,2"):
        controller.raw(line)
        bench.wait(0.1)
    assert controller.ask("RANGE? 3") == "1"
    assert float(controller.ask("KRDG? D")) == pytest.approx(77.35, abs=0.1)


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
