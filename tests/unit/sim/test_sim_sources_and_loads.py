"""The quirks of the simulated sources and the load; each is a trap to whoever drives real ones."""

from __future__ import annotations

import pytest

from tests.bench.simulated import PretendedBench, told
from tests.promises import promise


@pytest.fixture
def bench() -> PretendedBench:
    return PretendedBench()


# Keysight E36312A


def test_a_list_of_channels_has_an_answer_for_each(bench: PretendedBench) -> None:
    psu = bench.add("keysight_e36312a")
    told(psu, "VOLT 5,(@1)", "VOLT 12,(@2:3)", "OUTP ON,(@1,3)")
    assert [float(v) for v in psu.ask("VOLT? (@1:3)").split(",")] == [5, 12, 12]
    assert psu.ask("OUTP? (@1:3)") == "1,0,1"


@pytest.mark.parametrize("message", ["VOLT 6.1,(@1)", "CURR 1.1,(@2)", "VOLT 25.1,(@3)"])
def test_each_channel_of_the_e36312a_has_its_own_rating(
    bench: PretendedBench, message: str
) -> None:
    psu = bench.add("keysight_e36312a")
    psu.raw(message)
    assert psu.error() == -222


def test_a_tripped_channel_stays_off_until_it_is_cleared(bench: PretendedBench) -> None:
    psu = bench.add("keysight_e36312a")
    told(psu, "VOLT 5,(@1)", "VOLT:PROT 2,(@1)", "VOLT:PROT:STAT ON,(@1)", "OUTP ON,(@1)")
    bench.wait(1)
    assert psu.ask("VOLT:PROT:TRIP? (@1)") == "1"
    assert psu.ask("OUTP? (@1)") == "0"
    assert psu.ask("STAT:QUES:INST:ISUM1:COND?") == "4"
    psu.raw("OUTP ON,(@1)")
    assert psu.error() == -221
    told(psu, "OUTP:PROT:CLE (@1)")
    assert psu.ask("OUTP? (@1)") == "0"


# Siglent SPD3303X-E


@promise("sim.quirky")
def test_the_spd_loses_what_comes_right_after_a_write(bench: PretendedBench) -> None:
    psu = bench.add("siglent_spd3303x")
    psu.raw("CH1:VOLT 5")
    psu.raw("CH1:CURR 1")
    assert psu.raw("CH1:VOLT?") is None
    bench.wait(0.1)
    assert psu.ask("CH1:VOLT?") == "5.000"
    assert psu.ask("CH1:CURR?") == "3.200"


def test_the_spd_tells_of_its_outputs_in_a_hexadecimal_word_only(bench: PretendedBench) -> None:
    psu = bench.add("siglent_spd3303x")
    assert psu.ask("*IDN?").count(",") == 4
    told(psu, "CH1:VOLT 5", "CH1:CURR 0.1", "OUTP CH1,ON")
    assert psu.raw("OUTP? CH1") is None
    bench.wait(0.1)
    assert psu.ask("SYST:ERR?") == "-113  Undefined header"
    assert psu.ask("SYST:ERR?") == "0  No Error"
    assert psu.ask("SYST:STAT?") == "0x15"


def test_the_third_channel_of_the_spd_can_only_be_switched(bench: PretendedBench) -> None:
    psu = bench.add("siglent_spd3303x")
    told(psu, "OUTP CH3,ON")
    psu.raw("CH3:VOLT 5")
    bench.wait(0.1)
    assert psu.ask("SYST:ERR?").startswith("-114")


def test_in_series_the_second_channel_follows_the_first(bench: PretendedBench) -> None:
    psu = bench.add("siglent_spd3303x")
    told(psu, "OUTP:TRACK 1", "CH1:VOLT 7")
    assert psu.ask("CH2:VOLT?") == "7.000"
    assert psu.ask("SYST:STAT?") == "0xc"


# Keithley 2450 and 2400


@pytest.mark.parametrize("model", ["keithley_2450", "keithley_2400"])
def test_a_source_meter_gives_no_more_than_20_watts(bench: PretendedBench, model: str) -> None:
    smu = bench.add(model)
    limit = ":SOUR:VOLT:ILIM" if model == "keithley_2450" else ":SENS:CURR:PROT"
    told(smu, f"{limit} 1")
    smu.raw(":SOUR:VOLT:LEV 30")
    assert smu.error() == -221
    told(smu, f"{limit} 0.1", ":SOUR:VOLT:LEV 30")


@pytest.mark.parametrize("model", ["keithley_2450", "keithley_2400"])
def test_another_source_function_switches_the_output_off(bench: PretendedBench, model: str) -> None:
    smu = bench.add(model)
    told(smu, ":OUTP ON", ":SOUR:FUNC CURR")
    assert smu.ask(":OUTP?") == "0"


def test_the_2450_reads_no_number_while_its_output_is_off(bench: PretendedBench) -> None:
    smu = bench.add("keithley_2450")
    assert smu.ask("*LANG?") == "SCPI"
    assert smu.number(':READ? "defbuffer1",READ') == 9.9e37
    told(smu, ":SOUR:VOLT:ILIM 0.5", ":SOUR:VOLT:LEV 1", ":OUTP ON")
    bench.wait(1)
    source, amps = map(float, smu.ask(':READ? "defbuffer1",SOUR,READ').split(","))
    assert source == 1
    assert amps == pytest.approx(0.0995, abs=0.001)
    assert smu.ask(":SOUR:VOLT:ILIM:TRIP?") == "0"
    told(smu, ":SOUR:VOLT:ILIM 0.01")
    bench.wait(1)
    assert smu.ask(":SOUR:VOLT:ILIM:TRIP?") == "1"
    assert len(smu.ask(':TRAC:DATA? 1,2,"defbuffer1"').split(",")) == 2


def test_as_a_current_source_it_is_in_compliance_at_its_voltage_limit(
    bench: PretendedBench,
) -> None:
    smu = bench.add("keithley_2450")
    told(smu, ":SOUR:FUNC CURR", ":SOUR:CURR:VLIM 2", ":SOUR:CURR:LEV 0.1", ":OUTP ON")
    bench.wait(1)
    assert smu.ask(":SOUR:CURR:VLIM:TRIP?") == "0"
    told(smu, ":SOUR:CURR:LEV 0.5")
    bench.wait(1)
    assert smu.ask(":SOUR:CURR:VLIM:TRIP?") == "1"
    told(smu, ':SENS:FUNC "VOLT"')
    assert smu.number(":READ?") == pytest.approx(2, abs=0.02)


@promise("sim.quirky")
def test_measure_switches_the_output_of_a_2400_on_and_read_does_not(bench: PretendedBench) -> None:
    smu = bench.add("keithley_2400")
    assert smu.raw(":READ?") is None
    assert smu.error() == 802
    assert smu.ask(":OUTP?") == "0"
    assert smu.ask(":MEAS?")
    assert smu.ask(":OUTP?") == "1"


def test_the_2400_orders_its_elements_itself_and_marks_compliance(bench: PretendedBench) -> None:
    smu = bench.add("keithley_2400")
    told(smu, ":FORM:ELEM STAT,CURR,VOLT", ':SENS:FUNC "VOLT","CURR"')
    assert smu.ask(":FORM:ELEM?") == "VOLT,CURR,STAT"
    told(smu, ":SENS:CURR:PROT 0.01", ":SOUR:VOLT:LEV 5", ":OUTP ON")
    bench.wait(1)
    volts, amps, status = map(float, smu.ask(":READ?").split(","))
    assert (volts, amps) == pytest.approx((0.1, 0.01), abs=0.002)
    assert int(status) & 8
    assert smu.ask(":SENS:CURR:PROT:TRIP?") == "1"


def test_the_2400_takes_2500_readings_at_most(bench: PretendedBench) -> None:
    smu = bench.add("keithley_2400")
    told(smu, ":ARM:COUN 50", ":TRIG:COUN 50")
    smu.raw(":TRIG:COUN 51")
    assert smu.error() == -221


# Rigol DL3021


def test_the_load_answers_another_word_than_it_was_told(bench: PretendedBench) -> None:
    load = bench.add("rigol_dl3021")
    for word, answer in {"CURR": "CC", "VOLT": "CV", "RES": "CR", "POW": "CP"}.items():
        told(load, f":SOUR:FUNC {word}")
        assert load.ask(":SOUR:FUNC?") == answer


@promise("sim.quirky")
def test_the_load_sends_a_second_line_while_its_input_is_off(bench: PretendedBench) -> None:
    load = bench.add("rigol_dl3021")
    assert load.raw(":MEAS:CURR?") == b"0.000067\n0\n"
    told(load, ":SOUR:INP:STAT ON")
    assert load.ask(":MEAS:CURR?").count("\n") == 0


def test_the_load_takes_its_current_from_the_supply(bench: PretendedBench) -> None:
    psu, load = bench.add("rigol_dp832", "psu1"), bench.add("rigol_dl3021", "load1")
    told(psu, ":SOUR1:VOLT 10", ":SOUR1:CURR 3", ":OUTP CH1,ON")
    told(load, ":SOUR:FUNC CURR", ":SOUR:CURR:LEV:IMM 1.5", ":SOUR:INP:STAT ON")
    bench.wait(1)
    assert load.number(":MEAS:CURR?") == pytest.approx(1.5, abs=0.01)
    assert psu.number(":MEAS:CURR? CH1") == pytest.approx(2.49, abs=0.03)
    told(load, ":SOUR:CURR:VON 20")
    assert load.number(":MEAS:CURR?") == pytest.approx(0, abs=0.001)


def test_the_low_range_of_the_load_ends_at_4_amperes(bench: PretendedBench) -> None:
    load = bench.add("rigol_dl3021")
    told(load, ":SOUR:CURR:LEV:IMM 9", ":SOUR:CURR:RANG 4")
    assert load.number(":SOUR:CURR:LEV:IMM?") == 4
    load.raw(":SOUR:CURR:LEV:IMM 4.1")
    assert load.error() == -222


# Rohde & Schwarz HMP4040 and NGE103B


@pytest.mark.parametrize("model", ["rs_hmp4040", "rs_nge103b"])
def test_the_channel_is_a_state_that_everybody_shares(bench: PretendedBench, model: str) -> None:
    psu = bench.add(model)
    told(psu, "INST:NSEL 2", "VOLT 5", "INST OUT3", "VOLT 7")
    assert psu.ask("VOLT?") == "7.000"
    assert psu.ask("INST:NSEL 2;:VOLT?") == "5.000"
    assert psu.ask("INST:NSEL?") == "2"


@pytest.mark.parametrize(("model", "switch"), [("rs_hmp4040", "OUTP:SEL"), ("rs_nge103b", "OUTP")])
def test_a_channel_needs_its_own_switch_and_the_master(
    bench: PretendedBench, model: str, switch: str
) -> None:
    psu = bench.add(model)
    told(psu, "INST:NSEL 1", "VOLT 5", "CURR 1", f"{switch} ON")
    bench.wait(1)
    assert psu.number("MEAS:VOLT?") < 0.1
    told(psu, "OUTP:GEN ON")
    bench.wait(1)
    assert psu.number("MEAS:VOLT?") == pytest.approx(5, abs=0.02)
    told(psu, "OUTP:GEN OFF")
    bench.wait(1)
    assert psu.number("MEAS:VOLT?") < 0.1


def test_a_blown_fuse_deactivates_its_channel(bench: PretendedBench) -> None:
    psu = bench.add("rs_hmp4040")
    told(psu, "INST:NSEL 1", "VOLT 10", "CURR 0.2", "FUSE ON", "OUTP:SEL ON", "OUTP:GEN ON")
    bench.wait(1)
    assert psu.ask("FUSE:TRIP?") == "1"
    assert psu.ask("OUTP:SEL?") == "0"


def test_an_hmp_tells_which_of_its_channels_limit_the_current(bench: PretendedBench) -> None:
    psu = bench.add("rs_hmp4040")
    told(psu, "INST:NSEL 1", "VOLT 5", "CURR 1", "OUTP:SEL ON", "OUTP:GEN ON")
    told(psu, "INST:NSEL 2", "VOLT 5", "CURR 0.1", "OUTP:SEL ON")
    bench.wait(1)
    told_of = [psu.ask(f"STAT:QUES:INST:ISUM{n}:COND?") for n in (1, 2, 3)]
    assert told_of == ["2", "1", "0"]
    assert psu.ask("INST:NSEL?") == "2"


def test_clearing_the_over_voltage_of_an_hmp_activates_the_channel(bench: PretendedBench) -> None:
    psu = bench.add("rs_hmp4040")
    told(psu, "VOLT 10", "VOLT:PROT 5", "CURR 5", "OUTP:SEL ON", "OUTP:GEN ON")
    bench.wait(1)
    assert psu.ask("VOLT:PROT:TRIP?") == "1"
    told(psu, "OUTP:GEN OFF", "VOLT:PROT:CLE")
    assert psu.ask("OUTP:SEL?") == "1"


# Yokogawa GS200


def test_the_gs200_calls_itself_gs210_and_changes_function_with_the_output_off_only(
    bench: PretendedBench,
) -> None:
    source = bench.add("yokogawa_gs200")
    assert source.ask("*IDN?").startswith("YOKOGAWA,GS210,")
    told(source, ":OUTP ON")
    source.raw(":SOUR:FUNC CURR")
    assert source.error() == -221
    told(source, ":OUTP OFF", ":SOUR:FUNC CURR")
    assert source.ask(":SOUR:FUNC?") == "CURR"


def test_a_level_goes_to_a_fifth_beyond_its_range(bench: PretendedBench) -> None:
    source = bench.add("yokogawa_gs200")
    told(source, ":SOUR:RANG 1", ":SOUR:LEV 1.2")
    source.raw(":SOUR:LEV 1.21")
    assert source.error() == -222


def test_a_program_ramps_on_a_clock_of_10_hertz(bench: PretendedBench) -> None:
    source = bench.add("yokogawa_gs200")
    told(source, ":OUTP ON", ":PROG:EDIT:STAR", ":SOUR:LEV 10", gap_s=0)
    assert source.number(":SOUR:LEV?") == 0
    told(source, ":PROG:EDIT:END", ":PROG:SLOP 1", ":PROG:INT 1", ":PROG:RUN", gap_s=0)
    levels = []
    for _ in range(12):
        bench.wait(0.1)
        levels.append(source.number(":SOUR:LEV?"))
    assert levels == sorted(levels)
    assert 2 < levels[4] < 8
    assert levels[-1] == 10


def test_the_monitor_needs_itself_the_output_and_a_large_range(bench: PretendedBench) -> None:
    source = bench.add("yokogawa_gs200")
    assert source.raw(":MEAS?") is None
    assert source.error() == -221
    told(source, ":SENS 1", ":SOUR:RANG 1", ":SOUR:LEV 1", ":OUTP ON")
    bench.wait(1)
    assert source.number(":MEAS?") == pytest.approx(0.0995, abs=0.001)
    told(source, ":SOUR:RANG 0.1")
    assert source.raw(":MEAS?") is None
