import struct

import pytest

from tests.bench.simulated import Asked, PretendedBench


@pytest.fixture
def bench() -> PretendedBench:
    return PretendedBench()


@pytest.fixture
def psu(bench: PretendedBench) -> Asked:
    return bench.add("rigol_dp832", "psu1")


@pytest.fixture
def scope(bench: PretendedBench, psu: Asked) -> Asked:
    scope = bench.add("siglent_sds1104xe", "scope1")
    scope.tell("CHDR OFF")
    return scope


def test_answers_carry_header_and_unit_until_they_are_switched_off(scope: Asked) -> None:
    scope.tell("CHDR SHORT", "C1:VDIV 0.5")
    assert scope.ask("C1:VDIV?") == "C1:VDIV 5.00E-01V"
    scope.tell("CHDR OFF")
    assert scope.ask("C1:VDIV?") == "5.00E-01"


def test_codes_give_the_volts_of_the_load(psu: Asked, scope: Asked) -> None:
    psu.tell(":SOUR1:VOLT 5", ":OUTP CH1,ON")
    psu.bench.wait(1.0)
    scope.tell("C1:VDIV 1", "C1:OFST -3", "WFSU SP,0,NP,1000,FP,0")
    answer = scope.raw("C1:WF? DAT2")
    assert answer[:11] == b"#9000001000"
    assert answer[1011:] == b"\n\n"  # the line end, and the empty line that must be drained
    codes = struct.unpack("1000b", answer[11:1011])
    volts = [code * (1 / 25) - (-3) for code in codes]
    assert sum(volts) / len(volts) == pytest.approx(4.975, abs=0.03)


def test_sparsing_first_point_and_number_of_points_choose_from_the_trace(scope: Asked) -> None:
    scope.tell("STOP", "WFSU SP,0,NP,0,FP,0")
    whole = scope.raw("C1:WF? DAT2")[11:-2]
    scope.tell("WFSU SP,10,NP,50,FP,3")
    assert scope.raw("C1:WF? DAT2")[11:-2] == whole[3::10][:50]
    assert scope.ask("SAST?") == "Stop"


def test_the_sample_rate_has_a_suffix(scope: Asked) -> None:
    scope.tell("TDIV 1e-6")
    assert scope.ask("SARA?") == "1.00GSa/s"


def test_there_is_no_error_queue_but_codes_that_are_read_once(scope: Asked) -> None:
    scope.raw("NONSENSE")
    assert scope.ask("CMR?") == "1"
    assert scope.ask("CMR?") == "0"
    scope.raw("C1:VDIV 99")
    assert scope.ask("EXR?") == "21"
    assert scope.raw("SYST:ERR?") is None


def test_the_calibrator_is_on_channel_two(scope: Asked) -> None:
    scope.tell("C2:TRA ON")
    name, value = scope.ask("C2:PAVA? FREQ").split(",")
    assert name == "FREQ"
    assert float(value) == pytest.approx(1000, rel=0.01)
    assert scope.ask("C3:PAVA? FREQ") == "FREQ,****"


def test_the_picture_is_a_bitmap_whose_header_tells_its_length(scope: Asked) -> None:
    answer = scope.raw("SCDP")
    assert answer[:2] == b"BM"
    assert struct.unpack("<I", answer[2:6])[0] == len(answer) - 1
