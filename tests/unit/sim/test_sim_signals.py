from random import Random

import pytest

from edged_sim.models.families.scope import capture, measure_trace
from edged_sim.signals import LONGEST_TILE, Shape, Wave, sample


def quiet(
    wave: Wave, points: int, interval_s: float, start_s: float = 0.0
) -> tuple[list[float], int]:
    return sample(
        wave, points=points, interval_s=interval_s, start_s=start_s, noise_v=0.0, random=Random(1)
    )


@pytest.mark.parametrize("shape", list(Shape))
def test_rms_says_what_the_samples_are(shape: Shape) -> None:
    wave = Wave(shape=shape, hertz=1.0, volts_pp=2.0, offset=5.0)
    volts, _ = quiet(wave, 1000, 0.001)
    rms = (sum((volt - 5.0) ** 2 for volt in volts) / 1000) ** 0.5
    assert rms == pytest.approx(wave.rms_ac(), abs=0.005)


def test_every_shape_rises_through_its_middle_at_phase_zero() -> None:
    for shape in (Shape.SINE, Shape.RAMP):
        wave = Wave(shape=shape, volts_pp=2.0)
        before, after = wave.levels([-0.01, 0.01])
        assert before < 0 < after


@pytest.mark.parametrize(("points", "interval_s"), [(1_200_000, 1e-8), (250_000, 1e-6)])
def test_a_long_trace_repeats_a_few_values_and_keeps_its_period(
    points: int, interval_s: float
) -> None:
    wave = Wave(shape=Shape.SQUARE, hertz=1000.0, volts_pp=2.0)
    volts, held = quiet(wave, points, interval_s)
    assert len(volts) <= LONGEST_TILE
    periods = len(volts) * held * interval_s * wave.hertz
    assert periods == pytest.approx(round(periods), rel=1e-3)


def test_spread_codes_are_the_trace_at_any_place() -> None:
    trace = capture(
        Wave(shape=Shape.SINE, volts_pp=1.0),
        points=100_000,
        interval_s=1e-7,
        start_s=0.0,
        division_v=0.1,
        random=Random(1),
    )
    codes = bytes(index % 251 for index in range(len(trace.volts)))
    whole = trace.spread(codes, 0, 100_000)
    assert len(whole) == 100_000
    assert trace.spread(codes, 70_001, 1_199) == whole[70_001 : 70_001 + 1_199]


def test_measurements_of_a_square_are_those_of_a_square() -> None:
    volts, _ = quiet(Wave(shape=Shape.SQUARE, hertz=1000, volts_pp=3, offset=1.5), 1200, 1e-5)
    assert measure_trace(volts, 1e-5, "pp") == pytest.approx(3.0)
    assert measure_trace(volts, 1e-5, "mean") == pytest.approx(1.5)
    assert measure_trace(volts, 1e-5, "freq") == pytest.approx(1000.0)
    assert measure_trace(volts, 1e-5, "duty") == pytest.approx(50.0, abs=1.0)


def test_a_level_has_no_frequency() -> None:
    assert measure_trace([1.0] * 100, 1e-5, "freq") is None
