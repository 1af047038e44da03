from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.store.experience import Latency


def latency_of(*durations_ms: float) -> Latency:
    latency = Latency()
    for duration_ms in durations_ms:
        latency.note(duration_ms)
    return latency


def test_there_is_no_percentile_before_the_first_measurement() -> None:
    assert Latency().percentile(0.5) is None


@given(st.lists(st.floats(0.1, 1_000_000), min_size=1, max_size=60))
def test_a_percentile_is_right_within_ten_per_cent(durations_ms: list[float]) -> None:
    ordered = sorted(durations_ms)
    found = latency_of(*durations_ms).percentile(0.5)
    exact = ordered[(len(ordered) + 1) // 2 - 1]
    assert found == pytest.approx(exact, rel=0.1)


def test_what_was_long_ago_fades() -> None:
    latency = latency_of(*[5.0] * 1000, *[50.0] * 20_000)
    assert latency.percentile(0.05) == pytest.approx(50, rel=0.1)


def test_it_survives_being_written_down() -> None:
    latency = latency_of(1, 2, 3, 400)
    again = Latency.parse(latency.dump())
    assert again.percentile(0.95) == latency.percentile(0.95)


@pytest.mark.parametrize("text", ["", "{}", "[[1]]", "null", '[["a", 1]]', "[[9999, 5], [3, -2]]"])
def test_spoiled_text_is_no_measurement(text: str) -> None:
    assert Latency.parse(text).percentile(0.5) is None


@pytest.mark.parametrize("duration_ms", [0.0, -1.0, 1e12])
def test_any_duration_has_a_place(duration_ms: float) -> None:
    assert latency_of(duration_ms).percentile(0.5) is not None
