"""A day's stream in constant memory, by the benchmark's own means."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.day_stream import HOURS, MOST_GROWTH_KIB, Day, growth_kib


@pytest.mark.promise("stream.constant-memory")
async def test_a_day_of_points_is_told_and_recorded_in_constant_memory(tmp_path: Path) -> None:
    day = Day(tmp_path)
    result = await day.run(HOURS)
    assert (result["count"], day.told, result["stats"]["skipped"]) == (86_400, 86_400, 0)
    (data,) = tmp_path.rglob("data.csv")
    assert data.read_bytes().count(b"\n") == 86_401
    assert growth_kib(day.resident_kib) < MOST_GROWTH_KIB
