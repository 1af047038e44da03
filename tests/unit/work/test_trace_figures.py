from __future__ import annotations

import math
import random
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.runs.points import outline_of, summary_of

ANY_FLOAT = st.floats(width=32)


def wave(count: int, periods: float, *, noise: float = 0.0, shape: str = "sine") -> list[float]:
    by_chance = random.Random(1)
    values = [math.sin(2 * math.pi * periods * n / count + 1) for n in range(count)]
    if shape == "square":
        values = [1.0 if value > 0 else -1.0 for value in values]
    if shape == "pulse":
        values = [1.0 if value > 0.999 else 0.0 for value in values]
    return [value + by_chance.gauss(0, noise) for value in values]


@pytest.mark.parametrize("shape", ["sine", "square", "pulse"])
@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_the_frequency_of_a_wave_is_found_within_a_percent(shape: str, noise: float) -> None:
    told = summary_of(wave(20_000, 10, noise=noise, shape=shape), 1e-6, "s")
    assert told["frequency"] == pytest.approx(10 / 0.02, rel=0.01)
    assert (told["frequency_unit"], told["periods"]) == ("Hz", 9)


def test_one_spike_does_not_hide_a_wave() -> None:
    values = wave(10_000, 8)
    values[5_000] = 50.0
    told = summary_of(values, 1e-3, "s")
    assert told["frequency"] == pytest.approx(0.8, rel=0.01)
    assert told["y_max"] == 50.0


@pytest.mark.parametrize(
    "values",
    [
        [5.0] * 100,
        [1.0],
        [math.nan] * 10,
        [],
        wave(1_000, 0.9),
        [random.Random(2).gauss(0, 1) for _ in range(5_000)],
        [float(n) for n in range(1_000)],
    ],
    ids=["constant", "one", "nan", "none", "less than a period", "noise", "ramp"],
)
def test_what_is_no_regular_wave_has_no_frequency(values: list[float]) -> None:
    assert summary_of(values, 1.0, "s")["frequency"] is None


def test_the_figures_of_a_known_trace() -> None:
    told = summary_of(array("f", [1.0, -1.0, 1.0, -1.0]), 1.0, "")
    assert {name: told[name] for name in ("y_min", "y_max", "y_mean", "y_rms")} == {
        "y_min": -1.0,
        "y_max": 1.0,
        "y_mean": 0.0,
        "y_rms": 1.0,
    }
    assert (told["y_peak_to_peak"], told["frequency_unit"], told["not_finite"]) == (2.0, "", 0)
    told = summary_of([math.nan, 2.0, math.inf, 4.0], 1.0, "m")
    assert (told["y_min"], told["y_max"], told["not_finite"]) == (2.0, 4.0, 2)
    assert told["frequency_unit"] == "1/m"


@given(st.lists(ANY_FLOAT, max_size=200), st.integers(1, 50))
def test_an_outline_is_bounded_holds_the_extremes_and_never_fails(
    values: list[float], stretches: int
) -> None:
    size, (lows, highs) = outline_of(values, stretches)
    assert len(lows) == len(highs) == math.ceil(len(values) / size) <= stretches
    finite = [value for value in values if math.isfinite(value)]
    found = [low for low in lows if low is not None]
    assert bool(found) is bool(finite)
    if finite:
        assert min(found) == pytest.approx(min(finite), rel=1e-6)
    summary_of(values, 0.5, "s")
