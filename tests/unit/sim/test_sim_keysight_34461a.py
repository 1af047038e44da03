import pytest

from tests.bench.simulated import Asked, PretendedBench

OVERLOAD = 9.9e37


@pytest.fixture
def bench() -> PretendedBench:
    return PretendedBench()


@pytest.fixture
def psu(bench: PretendedBench) -> Asked:
    return bench.add("rigol_dp832", "psu1")


@pytest.fixture
def dmm(bench: PretendedBench, psu: Asked) -> Asked:
    return bench.add("keysight_34461a", "dmm1")


def powered(psu: Asked) -> None:
    psu.tell(":SOUR1:VOLT 5", ":OUTP CH1,ON")
    psu.bench.wait(1.0)


def test_it_sees_what_the_supply_does_less_the_leads(psu: Asked, dmm: Asked) -> None:
    powered(psu)
    assert dmm.number("MEAS:VOLT:DC?") == pytest.approx(5.0 / 1.005, abs=0.002)
    psu.tell(":OUTP CH1,OFF")
    psu.bench.wait(1.0)
    assert dmm.number("READ?") == pytest.approx(0.0, abs=0.001)


@pytest.mark.parametrize(("nplc", "seconds"), [("1", 0.04), ("10", 0.4), ("100", 4.0)])
def test_a_reading_takes_its_power_line_cycles_twice_with_autozero(
    dmm: Asked, nplc: str, seconds: float
) -> None:
    dmm.tell(f"VOLT:DC:NPLC {nplc}")
    dmm.ask("READ?")
    assert dmm.took_s == pytest.approx(seconds, abs=0.005)


def test_without_autozero_it_takes_half_as_long(dmm: Asked) -> None:
    dmm.tell("VOLT:NPLC 10", "VOLT:ZERO:AUTO OFF")
    dmm.ask("READ?")
    assert dmm.took_s == pytest.approx(0.2, abs=0.005)
    assert dmm.ask("VOLT:ZERO:AUTO?") == "0"


def test_a_number_of_cycles_between_steps_is_taken_up(dmm: Asked) -> None:
    dmm.tell("VOLT:NPLC 0.5")
    assert dmm.number("VOLT:NPLC?") == 1.0


def test_alternating_functions_have_no_power_line_cycles(dmm: Asked) -> None:
    dmm.raw("VOLT:AC:NPLC 1")
    assert dmm.error() == -113


def test_a_value_over_the_range_is_an_overload(psu: Asked, dmm: Asked) -> None:
    powered(psu)
    dmm.tell("CONF:VOLT:DC 1")
    assert dmm.number("READ?") == OVERLOAD
    dmm.tell("CONF:VOLT:DC 10")
    assert dmm.number("READ?") == pytest.approx(4.975, abs=0.002)


def test_ohms_of_a_live_load_mean_nothing(psu: Asked, dmm: Asked) -> None:
    assert dmm.number("MEAS:RES?") == pytest.approx(10.0, abs=0.01)
    powered(psu)
    assert dmm.number("MEAS:RES?") == OVERLOAD


def test_functions_are_quoted_words(dmm: Asked) -> None:
    dmm.tell('FUNC "VOLT:AC"')
    assert dmm.ask("FUNC?") == '"VOLT:AC"'
    dmm.raw('FUNC "NONSENSE"')
    assert dmm.error() == -224


def test_the_ripple_of_the_load_is_alternating_voltage(psu: Asked, dmm: Asked) -> None:
    powered(psu)
    assert dmm.number("MEAS:VOLT:AC?") == pytest.approx(0.00707, rel=0.01)
    assert dmm.number("MEAS:FREQ?") == pytest.approx(1000, rel=1e-3)


def test_several_samples_come_in_one_answer_and_take_their_time(dmm: Asked) -> None:
    dmm.tell("VOLT:NPLC 1", "SAMP:COUN 5")
    assert len(dmm.ask("READ?").split(",")) == 5
    assert dmm.took_s == pytest.approx(0.2, abs=0.005)
    assert dmm.ask("DATA:POIN?") == "+5"


def test_a_bus_trigger_makes_read_a_deadlock_and_trg_releases_it(dmm: Asked) -> None:
    dmm.tell("TRIG:SOUR BUS")
    assert dmm.raw("READ?") is None
    assert dmm.error() == -214
    dmm.tell("INIT", "*TRG")
    assert dmm.ask("FETC?").count("E") == 1
    assert dmm.took_s == pytest.approx(0.4, abs=0.01)


def test_fetching_what_was_never_measured_is_stale(dmm: Asked) -> None:
    assert dmm.raw("FETC?") is None
    assert dmm.error() == -230


def test_readings_are_numbers_with_sign_and_eight_places(dmm: Asked) -> None:
    answer = dmm.ask("READ?")
    mantissa, _, exponent = answer.partition("E")
    assert mantissa[0] in "+-"
    assert len(mantissa.partition(".")[2]) == 8
    assert exponent[0] in "+-"


def test_no_error_has_a_sign(dmm: Asked) -> None:
    assert dmm.ask("SYST:ERR?") == '+0,"No error"'
