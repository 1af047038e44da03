"""Simulated lock-ins, temperature controllers, switches and sources, with the real ones' traps."""

from __future__ import annotations

import pytest

from tests.bench.profile_matrix import SIMULATED
from tests.bench.simulated import PretendedBench, told


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


# Keysight B2901A


def test_a_b2901a_takes_no_level_beyond_a_fixed_range_and_says_nothing(
    bench: PretendedBench,
) -> None:
    smu = bench.add("keysight_b2901a")
    smu.tell(":SOUR:VOLT 1", ":SOUR:VOLT:RANG 2", ":SOUR:VOLT 3")
    assert smu.ask(":SOUR:VOLT?") == "+1.00000000E+000"
    assert smu.error() == 0


def test_a_b2901a_has_three_corners(bench: PretendedBench) -> None:
    smu = bench.add("keysight_b2901a")
    for volts, amps in ((6, 3.03), (21, 1.515), (210, 0.105)):
        smu.tell(":SOUR:VOLT 0", f":SENS:CURR:PROT {amps}", f":SOUR:VOLT {volts}")
        smu.raw(f":SENS:CURR:PROT {amps * 1.5}")
        assert smu.error() in {-221, -222}


def test_a_b2901a_is_limited_on_the_side_that_it_does_not_source(bench: PretendedBench) -> None:
    smu = bench.add("keysight_b2901a")
    smu.tell(":SOUR:FUNC:MODE CURR", ":SENS:VOLT:PROT 0.5", ":SOUR:CURR 0.1", ":OUTP ON")
    bench.wait(1)
    assert smu.ask(":SENS:VOLT:PROT:TRIP?") == "1"
    assert smu.ask(":SENS:CURR:PROT:TRIP?") == "0"


def test_reading_a_b2901a_switches_its_output_on_and_measuring_does_not(
    bench: PretendedBench,
) -> None:
    smu = bench.add("keysight_b2901a")
    smu.tell(":FORM:ELEM:SENS CURR,VOLT", ':SENS:FUNC:OFF "CURR"')
    assert smu.ask(":MEAS?").split(",")[1] == "+9.910000E+37"
    assert smu.ask(":OUTP?") == "0"
    smu.ask(":READ?")
    assert smu.ask(":OUTP?") == "1"


def test_initiating_a_b2901a_switches_its_output_on_and_fetching_does_not(
    bench: PretendedBench,
) -> None:
    smu = bench.add("keysight_b2901a")
    smu.tell(":SENS:CURR:PROT 0.5", ":SOUR:VOLT 1", ":FORM:ELEM:SENS VOLT")
    smu.tell(":OUTP:ON:AUTO OFF", ":INIT")
    assert smu.ask(":OUTP?") == "0"
    smu.tell(":OUTP:ON:AUTO ON", ":INIT")
    assert smu.ask(":OUTP?") == "1"
    bench.wait(0.1)
    assert float(smu.ask(":FETC?")) == pytest.approx(1, abs=0.01)
    smu.tell(":OUTP OFF")
    assert float(smu.ask(":FETC?")) == pytest.approx(1, abs=0.01)
    assert smu.ask(":OUTP?") == "0"


# Lake Shore 350


def test_a_350_has_five_ranges_and_its_analogue_outputs_none(bench: PretendedBench) -> None:
    controller = bench.add("lakeshore_350")
    for line in ("RANGE 2,5", "RANGE 3,1", "RANGE 4,2", "SETP 2,100"):
        controller.raw(line)
        bench.wait(0.1)
    assert [controller.ask(f"RANGE? {n}") for n in (1, 2, 3, 4)] == ["0", "5", "1", "0"]
    bench.wait(30)
    assert float(controller.ask("KRDG? B")) == pytest.approx(100, abs=0.1)


# Keysight 34970A


def test_what_a_34970a_measures_becomes_its_scan_list(bench: PretendedBench) -> None:
    logger = bench.add("keysight_34970a")
    assert logger.ask("ROUT:SCAN?") == "#13(@)"
    logger.raw("READ?")
    assert logger.error() == -221
    logger.tell("CONF:TEMP TC,K,(@103:105)")
    assert logger.ask("ROUT:SCAN?") == "#214(@103,104,105)"
    assert [round(float(t), 1) for t in logger.ask("READ?").split(",")] == [22.3, 22.4, 22.5]
    assert float(logger.ask("MEAS:RES? (@202)")) == pytest.approx(1000, rel=1e-3)
    assert logger.ask("ROUT:SCAN:SIZE?") == "+1"


def test_a_34970a_has_current_on_two_channels_and_four_wires_on_ten(bench: PretendedBench) -> None:
    logger = bench.add("keysight_34970a")
    for line in ("MEAS:CURR:DC? (@101)", "MEAS:FRES? (@111)", "MEAS:VOLT:DC? (@122)"):
        assert logger.raw(line) is None
        assert logger.error() == 112
    logger.ask("MEAS:CURR:DC? (@121)")


# Keithley 6221


def test_a_6221_gives_a_wave_that_is_armed_and_none_else(bench: PretendedBench) -> None:
    source = bench.add("keithley_6221")
    source.tell(":SOUR:WAVE:ABOR")
    source.raw(":SOUR:WAVE:INIT")
    assert source.error() == -221
    source.tell(":SOUR:WAVE:FUNC SQU", ":SOUR:WAVE:AMPL 0.05", ":SOUR:WAVE:ARM", ":SOUR:WAVE:INIT")
    assert source.ask(":OUTP?") == "1"
    assert source.ask(":SOUR:WAVE:ARM?") == "1"
    source.raw(":SOUR:WAVE:FUNC SIN")
    assert source.error() == -221
    source.tell(":SOUR:WAVE:ABOR", ":OUTP OFF", ":SOUR:WAVE:FUNC SIN")
    assert source.ask(":SOUR:WAVE:ARM?") == "0"


def test_a_6221_gives_its_current_up_to_its_limit(bench: PretendedBench) -> None:
    source = bench.add("keithley_6221")
    source.tell(":SOUR:CURR:COMP 0.5", ":SOUR:CURR 0.02", ":OUTP ON")
    for level, given in ((0.02, 0.02), (0.1, 0.05)):
        source.tell(f":SOUR:CURR {level}")
        bench.wait(1)
        amps = source.instrument.state.describe(bench.now)["amps"]
        assert amps == pytest.approx(given, rel=0.01), level


# HP 4284A


def test_a_4284a_ends_at_a_megahertz_and_has_a_least_level(bench: PretendedBench) -> None:
    meter = bench.add("hp_4284a")
    meter.tell(":FREQ 1e6", ":VOLT 0.005")
    for line in (":FREQ 1.1e6", ":VOLT 0.001", ":CURR 1e-5"):
        meter.raw(line)
        assert meter.error() == -222


# Stanford Research SR844


def test_an_sr844_tells_decibels_before_the_angle_and_its_frequency_as_the_eighth(
    bench: PretendedBench,
) -> None:
    lock_in = bench.add("srs_sr844")
    lock_in.tell("FREQ 1e6", "OFLT 0")
    bench.wait(1)
    volts, dbm, degrees = (lock_in.number(f"OUTP? {n}") for n in (3, 4, 5))
    assert volts == pytest.approx(0.3 / 2**0.5, rel=1e-3)
    assert dbm == pytest.approx(-0.46, abs=0.02)
    assert degrees == pytest.approx(-45, abs=0.1)
    assert lock_in.ask("SNAP? 1,8").split(",")[1] == "1e+06"


def test_an_sr844_ends_at_200_megahertz_and_answers_one_interface(bench: PretendedBench) -> None:
    lock_in = bench.add("srs_sr844")
    for hertz in (24e3, 201e6):
        assert lock_in.raw(f"FREQ {hertz}") is None
        assert int(lock_in.ask("*ESR?")) & 16
    lock_in.tell("OUTX 0")
    assert lock_in.raw("FREQ?") is None


# Keithley 6517B


def test_a_6517b_reads_nothing_while_its_input_is_shorted(bench: PretendedBench) -> None:
    meter = bench.add("keithley_6517b")
    meter.tell(":SENS:FUNC 'CURR'", ":FORM:ELEM READ", ":SOUR:VOLT 0.1", ":OUTP ON")
    bench.wait(1)
    assert meter.ask(":SYST:ZCH?") == "1"
    assert meter.number(":READ?") == 0
    meter.tell(":SYST:ZCH OFF")
    assert meter.number(":READ?") == pytest.approx(0.01, rel=0.01)
    meter.tell(":SENS:CURR:RANG 2e-6")
    assert meter.number(":READ?") == 9.9e37


def test_a_6517b_tells_unit_and_time_unless_it_is_told_not_to(bench: PretendedBench) -> None:
    meter = bench.add("keithley_6517b")
    meter.tell(":SENS:FUNC 'CURR'")
    reading, moment, number = meter.ask(":READ?").split(",")
    assert reading.endswith("NADC")
    assert moment.endswith("secs")
    assert number == "+00001RDNG#"
    meter.raw(":SENS:FUNC CURR")
    assert meter.error() == -104
    meter.raw(":SOUR:VOLT 101")
    assert meter.error() == -222


# Oscilloscopes of two channels, and of four


@pytest.mark.parametrize(
    ("model", "shown", "count"),
    [
        ("siglent_sds1202xe", "C{}:TRA?", 2),
        ("siglent_sds1104xe", "C{}:TRA?", 4),
        ("tektronix_tbs1000c", "SELect:CH{}?", 2),
        ("tektronix_tbs2202b", "SELect:CH{}?", 2),
        ("tektronix_tbs2204b", "SELect:CH{}?", 4),
    ],
)
def test_a_scope_has_as_many_channels_as_its_model(
    bench: PretendedBench, model: str, shown: str, count: int
) -> None:
    scope = bench.add(model)
    assert scope.ask(shown.format(count))[-1] in "0F"
    with pytest.raises(AssertionError, match="no answer"):
        scope.ask(shown.format(count + 1))
    assert {
        bound.max
        for command in (*SIMULATED[model].commands.values(), *SIMULATED[model].sequences.values())
        for name, bound in command.parameters.items()
        if name == "channel"
    } == {count}


@pytest.mark.parametrize("model", ["tektronix_tbs1000c", "tektronix_tbs2202b"])
def test_a_tektronix_scope_has_the_records_of_its_model(bench: PretendedBench, model: str) -> None:
    scope = bench.add(model)
    lengths = SIMULATED[model].commands["set_record_length"].parameters["points"].options
    for length in lengths:
        scope.tell(f"HORizontal:RECOrdlength {length}")
    scope.raw("HORizontal:RECOrdlength 4000")
    assert int(scope.ask("*ESR?")) & 16
    most = SIMULATED[model].commands["capture_waveform"].parameters["points"].max
    assert most == int(str(lengths[-1]))


# Keithley 7001


def test_a_7001_tells_neighbours_that_are_closed_as_a_range(bench: PretendedBench) -> None:
    switch = bench.add("keithley_7001")
    assert switch.ask(":ROUT:CLOS:STAT?") == "(@)"
    switch.tell(":CLOS (@1!1,1!3:1!5, 2!1!10,2!2!1)")
    assert switch.ask("CLOS:STAT?") == "(@1!1,1!3:1!5,2!1!10,2!2!1)"
    assert switch.ask(":CLOS? (@1!3, 1!2)") == "1,0"
    switch.tell(":OPEN (@1!4)")
    assert switch.ask(":ROUT:CLOS:STAT?") == "(@1!1,1!3,1!5,2!1!10,2!2!1)"
    switch.tell(":ROUT:OPEN ALL")
    assert switch.ask(":ROUT:CLOS:STAT?") == "(@)"


@pytest.mark.parametrize("relay", ["1!41", "2!5!1", "2!1!11", "1!1!1", "2!1", "3!1"])
def test_a_7001_has_no_relay_that_its_cards_have_not(bench: PretendedBench, relay: str) -> None:
    switch = bench.add("keithley_7001")
    switch.raw(f":ROUT:CLOS (@{relay})")
    assert switch.error() == -222
    assert switch.ask(":ROUT:CLOS:STAT?") == "(@)"


# American Magnetics 430


def test_a_430_ramps_at_the_rate_of_its_segment_and_stays_where_it_is_paused(
    bench: PretendedBench,
) -> None:
    magnet = bench.add("ami_430")
    magnet.tell("CONF:RAMP:RATE:CURR 1,0.05,80", "CONF:CURR:TARG 2", "RAMP")
    assert magnet.ask("STATE?") == "1"
    bench.wait(20)
    assert magnet.number("CURR:MAG?") == pytest.approx(1, abs=0.01)
    magnet.tell("PAUSE")
    bench.wait(100)
    assert magnet.ask("STATE?") == "3"
    assert magnet.number("CURR:MAG?") == pytest.approx(1, abs=0.01)
    magnet.tell("RAMP")
    bench.wait(100)
    assert magnet.ask("STATE?") == "2"
    assert magnet.number("FIELD:MAG?") == pytest.approx(2 * magnet.number("COIL?"), abs=0.001)
    magnet.tell("ZERO")
    assert magnet.ask("STATE?") == "6"
    bench.wait(100)
    assert magnet.ask("STATE?") == "8"


def test_a_430_takes_no_target_over_its_magnets_limit_nor_a_rate_of_no_segment(
    bench: PretendedBench,
) -> None:
    magnet = bench.add("ami_430")
    magnet.raw("CONF:CURR:TARG 80.1")
    assert magnet.error() == -222
    magnet.raw("CONF:RAMP:RATE:CURR 2,0.01,80")
    assert magnet.error() == -222
    magnet.tell("CONF:RAMP:RATE:UNITS 1", "CONF:RAMP:RATE:CURR 1,3,80")
    assert magnet.ask("RAMP:RATE:CURR:1?") == "3.000000,80.0000"
    magnet.tell("CONF:RAMP:RATE:UNITS 0")
    assert magnet.ask("RAMP:RATE:CURR:1?") == "0.050000,80.0000"


def test_the_sample_on_the_first_cold_stage_has_its_temperature(bench: PretendedBench) -> None:

    supply, meter = bench.add("keithley_2400", "smu1"), bench.add("keysight_34461a")
    controller, other = bench.add("lakeshore_335", "tc1"), bench.add("lakeshore_335", "tc2")
    told(supply, ":SOUR:FUNC CURR", ":SOUR:CURR:RANG 0.1", ":SOUR:CURR 0.1", ":OUTP ON")

    def ohms_at(kelvin: float) -> float:
        told(controller, f"SETP 1,{kelvin}", "RANGE 1,3")
        told(other, "SETP 1,200", "RANGE 1,3")
        bench.wait(600)
        return meter.number("MEAS:VOLT:DC?") / 0.1

    cold, warm = ohms_at(80), ohms_at(300)
    # Metal film, 400 ppm a kelvin.
    assert warm - cold == pytest.approx(10 * 400e-6 * 220, rel=0.05)
