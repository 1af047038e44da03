import struct
import zlib

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
    return bench.add("rigol_ds1054z", "scope1")


def volts(scope: Asked) -> list[float]:
    fields = [float(field) for field in scope.ask(":WAV:PRE?").split(",")]
    increment, origin, reference = fields[7:]
    return [(code - origin - reference) * increment for code in scope.block(":WAV:DATA?")]


@pytest.mark.parametrize("offset", ["0", "-3", "2"])
def test_codes_give_the_volts_of_the_load_whatever_the_offset(
    psu: Asked, scope: Asked, offset: str
) -> None:
    psu.tell(":SOUR1:VOLT 5", ":OUTP CH1,ON")
    psu.bench.wait(1.0)
    scope.tell(":CHAN1:SCAL 2", f":CHAN1:OFFS {offset}", ":WAV:SOUR CHAN1")
    trace = volts(scope)
    assert len(trace) == 1200
    assert sum(trace) / len(trace) == pytest.approx(4.975, abs=0.05)


def test_the_screen_spans_twelve_divisions(scope: Asked) -> None:
    scope.tell(":TIM:MAIN:SCAL 1e-3")
    fields = scope.ask(":WAV:PRE?").split(",")
    assert fields[:4] == ["0", "0", "1200", "1"]
    assert float(fields[4]) == pytest.approx(12e-3 / 1200)
    assert float(fields[5]) == pytest.approx(-6e-3)


def test_what_does_not_fit_the_screen_is_clipped(psu: Asked, scope: Asked) -> None:
    psu.tell(":SOUR1:VOLT 5", ":OUTP CH1,ON")
    psu.bench.wait(1.0)
    scope.tell(":CHAN1:SCAL 0.1")
    assert set(scope.block(":WAV:DATA?")) == {255}


def test_channel_two_shows_the_calibrator(scope: Asked) -> None:
    scope.tell(":CHAN2:DISP ON")
    assert scope.number(":MEAS:ITEM? FREQ,CHAN2") == pytest.approx(1000, rel=0.01)
    assert scope.number(":MEAS:ITEM? VPP,CHAN2") == pytest.approx(3.0, abs=0.2)


def test_a_hidden_channel_has_no_measurement(scope: Asked) -> None:
    assert scope.ask(":MEAS:ITEM? VPP,CHAN3") == "9.9E37"


def test_deep_memory_is_read_stopped_in_pieces_that_join(scope: Asked) -> None:
    scope.tell(":CHAN2:DISP ON", ":CHAN1:DISP OFF", ":ACQ:MDEP 1200000", ":STOP")
    scope.tell(":WAV:SOUR CHAN2", ":WAV:MODE RAW")
    pieces = []
    for first in range(1, 1_200_001, 240_000):
        scope.tell(f":WAV:STAR {first}", f":WAV:STOP {first + 239_999}")
        pieces.append(scope.block(":WAV:DATA?"))
    whole = b"".join(pieces)
    assert len(whole) == 1_200_000
    edges = sum(a < 150 <= b for a, b in zip(whole[::100], whole[100::100], strict=False))
    assert edges in (11, 12, 13)


def test_more_than_a_quarter_million_points_at_once_are_refused(scope: Asked) -> None:
    scope.tell(":ACQ:MDEP 1200000", ":STOP", ":WAV:MODE RAW", ":WAV:STAR 1", ":WAV:STOP 250001")
    assert scope.block(":WAV:DATA?") == b""
    assert scope.error() == -222


def test_raw_memory_of_a_running_scope_is_a_conflict(scope: Asked) -> None:
    scope.tell(":WAV:MODE RAW")
    assert scope.raw(":WAV:DATA?") is None
    assert scope.error() == -221


def test_a_stopped_scope_keeps_its_trace_and_a_running_one_does_not(scope: Asked) -> None:
    assert scope.block(":WAV:DATA?") != scope.block(":WAV:DATA?")
    scope.tell(":STOP")
    assert scope.block(":WAV:DATA?") == scope.block(":WAV:DATA?")
    assert scope.ask(":TRIG:STAT?") == "STOP"


def test_a_probe_factor_scales_the_division(scope: Asked) -> None:
    scope.tell(":CHAN1:SCAL 1", ":CHAN1:PROB 10")
    assert scope.number(":CHAN1:SCAL?") == 10.0
    scope.raw(":CHAN1:PROB 3")
    assert scope.error() == -222


def test_the_screenshot_is_a_png_of_the_screen(scope: Asked) -> None:
    picture = scope.block(":DISP:DATA? ON,OFF,PNG")
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", picture[16:24]) == (800, 480)
    start = picture.index(b"IDAT") + 4
    size = struct.unpack(">I", picture[start - 8 : start - 4])[0]
    rows = zlib.decompress(picture[start : start + size])
    assert len(rows) == 480 * 801
    assert 2 in rows  # channel 1's colour


def test_the_screenshot_without_arguments_is_a_bitmap_of_a_megabyte(scope: Asked) -> None:
    picture = scope.block(":DISP:DATA?")
    assert picture.startswith(b"BM")
    assert len(picture) == struct.unpack("<I", picture[2:6])[0] == 1_152_054
