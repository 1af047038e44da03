"""The quirks of the simulated meters, generators and controllers, from the facts."""

import struct

import pytest

from tests.bench.simulated import PretendedBench


def test_a_setting_that_the_function_has_not_is_never_answered() -> None:
    meter = PretendedBench().add("keithley_dmm6500")
    assert meter.raw(":SENS:VOLT:AC:NPLC?") is None
    assert meter.error() == -113
    assert meter.number(":SENS:VOLT:NPLC?") == 1


def test_the_level_of_a_direct_voltage_is_in_the_whole_list_alone() -> None:
    generator = PretendedBench().add("rigol_dg1022z")
    generator.tell(":SOUR1:APPL:DC 1000,1,2.5")
    assert generator.number(":SOUR1:VOLT:OFFS?") == 0
    assert generator.ask(":SOUR1:APPL?").split(",")[3] == "2.500000E+00"
    assert generator.number(":OUTP1:LOAD?") == 9.9e37
    assert generator.ask(":OUTP1?") == "OFF"


def test_a_load_that_is_believed_changes_what_is_shown_and_not_the_wire() -> None:
    bench = PretendedBench()
    generator = bench.add("rigol_dg1022z")
    generator.tell(":SOUR1:VOLT 4", ":OUTP1 ON", ":OUTP1:LOAD 50")
    assert generator.number(":SOUR1:VOLT?") == 2
    signal = bench.world.signal()
    assert signal is not None
    assert signal.wave.volts_pp == 4


def test_what_a_siglent_generator_cannot_do_it_ignores_in_silence() -> None:
    generator = PretendedBench().add("siglent_sdg2042x")
    generator.tell("C1:BSWV AMP,50", "C1:BSWV FRQ,2500")
    answer = generator.ask("C1:BSWV?")
    assert answer.startswith("C1:BSWV WVTP,SINE,FRQ,2500HZ,")
    assert ",AMP,4V," in answer
    assert generator.raw("C1:BSWV:FRQ?") is None


@pytest.mark.parametrize("model", ["keysight_33220a", "keysight_33522b"])
def test_a_level_that_cannot_be_is_set_as_near_as_can_be_and_told(model: str) -> None:
    generator = PretendedBench().add(model)
    assert generator.number("OUTP:LOAD?") == 50
    generator.tell("VOLT 4", "VOLT:OFFS 3")
    generator.raw("VOLT:OFFS 4")
    assert generator.error() == -222
    assert generator.number("VOLT:OFFS?") == 3
    generator.raw("VOLT 9")
    assert generator.error() == -221
    assert (generator.number("VOLT?"), generator.number("VOLT:OFFS?")) == (9, 0.5)


def test_a_ramp_of_the_33220a_takes_the_frequency_down() -> None:
    generator = PretendedBench().add("keysight_33220a")
    generator.tell("FREQ 20e6")
    generator.raw("FUNC RAMP")
    assert generator.error() == -221
    assert generator.number("FREQ?") == 200e3
    assert generator.raw("OUTP2?") is None
    assert generator.error() == -114


def test_what_the_33522b_believes_of_a_load_is_each_channels_own() -> None:
    bench = PretendedBench()
    generator = bench.add("keysight_33522b")
    generator.tell("SOUR1:VOLT 2", "OUTP1 ON", "OUTP1:LOAD INF", "SOUR2:PHAS 90")
    assert (generator.number("SOUR1:VOLT?"), generator.number("SOUR2:VOLT?")) == (4, 0.1)
    assert (generator.number("OUTP1:LOAD?"), generator.number("OUTP2:LOAD?")) == (9.9e37, 50)
    signal = bench.world.signal()
    assert signal is not None
    assert signal.wave.volts_pp == 4


def test_a_bus_trigger_is_ignored_where_no_burst_waits_for_it() -> None:
    generator = PretendedBench().add("keysight_33220a")
    generator.raw("*TRG")
    assert generator.error() == -211
    generator.tell("TRIG:SOUR BUS", "BURS:STAT ON", "*TRG")


def test_the_34401a_knows_no_auto_no_abort_and_no_band_of_its_own_for_volts() -> None:
    meter = PretendedBench().add("keysight_34401a")
    for line, code in (("CONF:VOLT:DC AUTO", -224), ("ABOR", -113), ("VOLT:AC:BAND 3", -113)):
        assert meter.raw(line) is None
        assert meter.error() == code
    meter.tell("CONF:VOLT:AC DEF", "DET:BAND 200", "SYST:REM")
    assert meter.number("DET:BAND?") == 200
    assert meter.raw("CONF:CURR:DC 4") is None
    assert meter.error() == -222
    meter.tell("CONF:CURR:DC 0.001")
    assert meter.number("CURR:DC:RANG?") == 0.01


def test_the_34410a_integrates_over_steps_of_its_own() -> None:
    meter = PretendedBench().add("keysight_34410a")
    assert meter.number("VOLT:DC:NPLC?") == 1
    meter.tell("VOLT:DC:NPLC 0.007", "CONF:RES 1E9")
    assert meter.number("VOLT:DC:NPLC?") == 0.02
    assert meter.number("RES:RANG?") == 1e9


def test_a_range_of_the_2000_is_asked_for_by_what_is_expected() -> None:
    meter = PretendedBench().add("keithley_2000")
    meter.tell("CONF:VOLT:AC", "VOLT:AC:RANG 757.5", "VOLT:AC:NPLC 0.1")
    assert meter.ask("FUNC?") == '"VOLT:AC"'
    assert (meter.number("VOLT:AC:RANG?"), meter.ask("VOLT:AC:RANG:AUTO?")) == (750, "0")
    assert meter.raw("VOLT:DC:RANG 1011") is None
    assert meter.error() == -222
    meter.tell("CONF:RES", "RES:NPLC 10", "RES:AVER:COUN 3", "RES:AVER:STAT ON")
    assert meter.number("READ?") == pytest.approx(10, rel=1e-2)
    assert meter.took_s > 1


def test_a_siglent_meter_takes_a_range_with_its_unit() -> None:
    meter = PretendedBench().add("siglent_sdm3055")
    meter.tell("CONF:VOLT:DC 200mV")
    assert meter.number("VOLT:DC:RANG?") == 0.2
    meter.tell("CONF:CURR:DC 2A", "CURR:DC:NPLC 0.4")
    assert (meter.number("CURR:DC:RANG?"), meter.number("CURR:DC:NPLC?")) == (2, 1)
    assert meter.raw("CONF:CURR:DC 20A") is None
    assert meter.error() == -222
    assert meter.number("CURR:DC:RANG?") == 2
    assert meter.raw("VOLT:AC:NPLC 1") is None
    assert meter.error() == -113


@pytest.mark.parametrize(("model", "hertz"), [("rigol_dg1032z", 30e6), ("rigol_dg1062z", 60e6)])
def test_a_sine_of_the_dg1022zs_sisters_is_faster_and_their_square_is_not(
    model: str, hertz: float
) -> None:
    generator = PretendedBench().add(model)
    generator.tell(f":SOUR1:FREQ {hertz}")
    generator.raw(f":SOUR1:FREQ {hertz + 1}")
    assert generator.error() == -222
    generator.tell(":SOUR1:FUNC SQU")
    assert generator.number(":SOUR1:FREQ?") == 25e6


def test_a_correction_of_the_lcr_meter_runs_on_and_its_register_tells() -> None:
    bench = PretendedBench()
    meter = bench.add("keysight_e4980a")
    meter.tell(":CORR:OPEN")
    assert meter.number(":STAT:OPER:COND?") == 1
    bench.wait(60)
    assert meter.number(":STAT:OPER:COND?") == 0
    first, _, status = meter.ask(":FETC?").split(",")
    assert float(first) == pytest.approx(100e-9, rel=1e-2)
    assert status == "+0"


def test_a_lock_in_that_answers_to_the_other_interface_is_silent_here() -> None:
    lock_in = PretendedBench().add("srs_sr830")
    assert lock_in.raw("OUTX 0") is None
    assert lock_in.raw("*IDN?") is None
    assert lock_in.raw("OUTX 1") is None
    assert lock_in.ask("FREQ?") == "1000"
    assert lock_in.raw("HARM 19999") is None
    assert int(lock_in.ask("*ESR?")) & 16


def test_with_the_external_reference_the_generator_feeds_the_lock_in() -> None:
    bench = PretendedBench()
    generator, lock_in = bench.add("rigol_dg1022z"), bench.add("srs_sr830")
    generator.tell(":SOUR1:APPL:SIN 1000,2,0,0", ":OUTP1 ON")
    assert lock_in.number("OUTP? 3") == pytest.approx(0.7071, rel=1e-3)
    lock_in.raw("FMOD 0")
    bench.wait(5)
    assert lock_in.number("OUTP? 3") == pytest.approx(0.5, rel=1e-3)
    assert lock_in.number("OUTP? 4") == pytest.approx(-45, abs=0.1)
    generator.tell(":SOUR1:FREQ 10000")
    bench.wait(5)
    assert lock_in.number("FREQ?") == 10_000
    assert lock_in.number("OUTP? 3") == pytest.approx(0.0704, rel=1e-2)
    generator.tell(":OUTP1 OFF")
    bench.wait(5)
    assert lock_in.number("OUTP? 3") == pytest.approx(0, abs=1e-6)


def test_the_controller_moves_its_set_point_by_itself() -> None:
    bench = PretendedBench()
    controller = bench.add("lakeshore_335")
    controller.tell("RAMP 1,1,60")
    bench.wait(1)
    before = controller.number("SETP? 1")
    controller.tell("SETP 1,100")
    bench.wait(10)
    assert controller.number("SETP? 1") == pytest.approx(before + 10, abs=0.1)
    assert controller.raw("RANGE 1,1") is None
    assert controller.raw("KRDG? A") is None  # too soon after a command


def test_a_tektronix_scope_tells_what_its_data_mean_in_one_answer() -> None:
    scope = PretendedBench().add("tektronix_tbs1000c")
    scope.tell("DATa:STOP 1500", "WFMOutpre:BYT_Nr 2")
    told = scope.ask("WFMOutpre?")
    assert told.startswith(':WFMOUTPRE:BYT_NR 2;BIT_NR 16;ENCDG BINARY;BN_FMT RI;BYT_OR MSB;WFID "')
    scope.tell("HEADer OFF")
    *form, points, _y, _s, step, _zero, _off, _volts, factor, _yoff, _yzero = scope.ask(
        "WFMOutpre?"
    ).split(";")
    assert (len(form), points, scope.ask("DATa:STOP?")) == (6, "1500", "1500")
    assert (step, factor) == (scope.ask("WFMOutpre:XINcr?"), scope.ask("WFMOutpre:YMUlt?"))


def test_a_34970a_gives_its_readings_as_a_block_and_once() -> None:
    logger = PretendedBench().add("keysight_34970a")
    logger.tell("CONF:VOLT:DC (@101:102)", "INIT")
    assert logger.ask("CONF?").count('"VOLT ') == 2
    first = logger.ask("R? 1")
    assert (first[:4], first.count(",")) == ("#215", 0)
    assert logger.ask("R?")[:4] == "#215"
    assert logger.ask("R?") == "#10"


def test_the_buffers_of_a_lock_in_are_read_as_text_and_as_floats() -> None:
    bench = PretendedBench()
    lock_in = bench.add("srs_sr830")
    for line in ("SRAT 6", "STRT"):
        assert lock_in.raw(line) is None
    bench.wait(2.5)
    lock_in.raw("PAUS")
    bench.wait(2.5)
    assert lock_in.ask("SPTS?") == "10"
    text = lock_in.ask("TRCA? 1,2,3")
    data = lock_in.raw("TRCB? 1,2,3")
    assert data is not None
    assert struct.unpack("<3f", data[:12]) == pytest.approx(
        tuple(map(float, text.rstrip(",").split(","))), rel=1e-5
    )
    assert text.endswith(",")
    assert lock_in.raw("TRCA? 1,8,3") is None
    lock_in.raw("REST")
    assert lock_in.ask("SPTS?") == "0"


def test_while_an_error_waits_a_tektronix_scope_gives_no_data() -> None:
    scope = PretendedBench().add("tektronix_tbs1000c")
    assert scope.ask("CH1:SCAle?") == ":CH1:SCALE 1.000000E+00"
    scope.tell("HEADer OFF")
    assert scope.raw("DATa:SOUrce CH2") is None
    assert scope.raw("CURVe?") is None
    assert int(scope.ask("*ESR?")) & 16
    assert scope.ask("ALLEv?") == '221,"Settings conflict"'
    assert scope.raw("CURVe?") is not None
