import pytest

from tests.bench.simulated import Asked, PretendedBench


@pytest.fixture
def bench() -> PretendedBench:
    return PretendedBench()


@pytest.fixture
def psu(bench: PretendedBench) -> Asked:
    return bench.add("rigol_dp832", "psu1")


def powered(psu: Asked, volts: float, amps: float = 1.0) -> None:
    psu.tell(f":SOUR1:VOLT {volts}", f":SOUR1:CURR {amps}", ":OUTP CH1,ON")
    psu.bench.wait(1.0)


def test_it_starts_at_zero_volts_with_every_output_off(psu: Asked) -> None:
    for channel in (1, 2, 3):
        assert psu.ask(f":OUTP? CH{channel}") == "OFF"
        assert psu.ask(f":SOUR{channel}:VOLT?") == "0.000"


def test_a_powered_channel_delivers_what_its_load_takes(psu: Asked) -> None:
    powered(psu, 5)
    volts, amps, watts = map(float, psu.ask(":MEAS:ALL? CH1").split(","))
    assert volts == pytest.approx(5.0, abs=0.01)
    assert amps == pytest.approx(0.4975, abs=0.005)
    assert watts == pytest.approx(volts * amps, abs=0.002)
    assert psu.ask(":OUTP:MODE? CH1") == "CV"


def test_the_current_limit_takes_over_when_the_load_wants_more(psu: Asked) -> None:
    powered(psu, 20, amps=0.5)
    assert psu.ask(":OUTP:MODE? CH1") == "CC"
    assert psu.number(":MEAS:CURR? CH1") == pytest.approx(0.5, abs=0.002)
    assert psu.number(":MEAS:VOLT? CH1") == pytest.approx(5.05, abs=0.1)
    assert psu.ask(":STAT:QUES:INST:ISUM1:COND?") == "1"


def test_outputs_answer_in_words(psu: Asked) -> None:
    powered(psu, 1)
    assert psu.ask(":OUTP? CH1") == "ON"
    assert psu.ask("OUTPUT:STATE? CH1") == "ON"


def test_apply_answers_with_the_range_before_the_values(psu: Asked) -> None:
    psu.tell(":APPL CH1,5,1")
    assert psu.ask(":APPL? CH1") == "CH1:30V/3A,5.000,1.0000"
    assert psu.ask(":APPL? CH1,VOLT") == "5.000"


@pytest.mark.parametrize(
    ("message", "query", "kept"),
    [
        (":SOUR1:VOLT 32.001", ":SOUR1:VOLT?", "0.000"),
        (":SOUR3:VOLT 5.301", ":SOUR3:VOLT?", "0.000"),
        (":SOUR1:CURR 3.3", ":SOUR1:CURR?", "1.0000"),
        (":OUTP:OVP:VAL CH3,5.6", ":OUTP:OVP:VAL? CH3", "5.500"),
    ],
)
def test_a_value_out_of_range_is_ignored_and_only_the_queue_tells(
    psu: Asked, message: str, query: str, kept: str
) -> None:
    assert psu.raw(message) is None
    assert psu.error() == -222
    assert psu.ask(query) == kept


def test_the_bounds_of_a_channel_can_be_asked(psu: Asked) -> None:
    assert psu.ask(":SOUR3:VOLT? MAX") == "5.300"
    assert psu.ask(":SOUR1:VOLT? MIN") == "0.000"


def test_without_a_channel_the_selected_one_is_meant(psu: Asked) -> None:
    psu.tell(":INST CH2", ":VOLT 3")
    assert psu.ask(":SOUR2:VOLT?") == "3.000"
    assert psu.ask(":INST:NSEL?") == "2"


def test_over_voltage_protection_switches_off_and_clear_leaves_it_off(psu: Asked) -> None:
    psu.tell(":OUTP:OVP:VAL CH1,4", ":OUTP:OVP CH1,ON")
    powered(psu, 5)
    assert psu.ask(":OUTP? CH1") == "OFF"
    assert psu.ask(":OUTP:OVP:QUES? CH1") == "YES"
    psu.tell(":OUTP:OVP:CLEAR CH1")
    assert psu.ask(":OUTP:OVP:QUES? CH1") == "NO"
    assert psu.ask(":OUTP? CH1") == "OFF"


def test_the_other_clear_switches_the_output_on_again(psu: Asked) -> None:
    psu.tell(":OUTP:OVP:VAL CH1,4", ":OUTP:OVP CH1,ON")
    powered(psu, 5)
    psu.tell(":SOUR1:VOLT 3", ":SOUR1:VOLT:PROT:CLE")
    assert psu.ask(":OUTP? CH1") == "ON"


def test_over_current_protection_trips_by_the_load(psu: Asked) -> None:
    psu.tell(":OUTP:OCP:VAL CH1,0.4", ":OUTP:OCP CH1,ON")
    powered(psu, 5)
    assert psu.ask(":OUTP:OCP:QUES? CH1") == "YES"
    assert psu.ask(":OUTP:OVP:QUES? CH1") == "NO"


def test_a_reset_switches_everything_off(psu: Asked) -> None:
    powered(psu, 5)
    psu.tell("*RST")
    assert psu.ask(":OUTP? CH1") == "OFF"
    assert psu.ask(":SOUR1:VOLT?") == "0.000"


def test_a_recalled_state_brings_back_its_levels_even_after_a_reset(psu: Asked) -> None:
    psu.tell(":SOUR1:VOLT 25.5", ":SOUR2:CURR 0.3", "*SAV 1", "*RST")
    assert psu.ask(":SOUR1:VOLT?") == "0.000"
    psu.tell("*RCL 1")
    assert psu.ask(":SOUR1:VOLT?") == "25.500"
    assert psu.ask(":SOUR2:CURR?") == "0.3000"
    psu.raw("*RCL 11")
    assert psu.error() == -222


def test_no_channel_has_sense(psu: Asked) -> None:
    assert psu.ask(":OUTP:SENS? CH1") == "NONE"
    psu.raw(":OUTP:SENS CH1,ON")
    assert psu.error() == -221


def test_no_error_has_no_sign(psu: Asked) -> None:
    assert psu.ask("SYST:ERR?") == '0,"No error"'
