"""The power fails while an experiment runs: what was synced stays, the rest is repeated."""

from __future__ import annotations

import functools
import json
import sqlite3
import tempfile
from functools import partial
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from edged.engine.virtual_time import VirtualClock
from tests.bench.lives import Lives, in_virtual_time, until
from tests.flows.test_resume import (
    UNITS,
    assert_is_as_without_a_crash,
    crashed_at,
    interrupted,
    is_over,
    mapped,
)
from tests.promises import promise


def kept_rows(corpse: Path, run_id: str) -> int:
    """How many rows were synced, as the place of the run says."""
    with sqlite3.connect(corpse / "edged.db") as database:
        ((payload,),) = database.execute("SELECT payload FROM journal WHERE id = ?", (run_id,))
    return int(json.loads(payload)["position"]["rows"])


@functools.cache
def whole() -> list[bytes]:
    """The lines of data.csv of a run that nothing has ended, its header first."""
    found: list[bytes] = []

    async def work(clock: VirtualClock) -> None:
        bench, life, run_id = await crashed_at(Path(directory), clock, (), mapped())
        del bench
        (folder,) = (life.directory / "data").rglob(run_id)
        found.extend((folder / "data.csv").read_bytes().splitlines(keepends=True))

    with tempfile.TemporaryDirectory() as directory:
        in_virtual_time(work)
    return found


def lose(file: Path, safe: int, cut: float, end: float, *, is_hole: bool) -> None:
    """What of a file behind its synced bytes did not reach the disk.

    Args:
        safe: bytes that are synced.
        cut, end: of the others, as parts of them; what lies between is lost.
        is_hole: its place is there, without its content, and what lies behind was written.
    """
    data = file.read_bytes()
    first, last = (safe + round(part * (len(data) - safe)) for part in sorted((cut, end)))
    lost = b"\0" * (last - first) + data[last:] if is_hole else b""
    file.write_bytes(data[:first] + lost)


PASS = 8
"""Rows of a pass of the outer loop."""

parts = st.floats(0, 1)


@promise("experiment.resume")
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(dies_at=st.integers(40, 160), cut=parts, end=parts, is_hole=st.booleans())
@example(dies_at=60, cut=0.0, end=1.0, is_hole=False)
@example(dies_at=100, cut=0.3, end=0.6, is_hole=True)
@example(dies_at=130, cut=0.9, end=1.0, is_hole=True)
def test_after_a_power_failure_nothing_synced_is_lost_and_nothing_is_there_twice(
    dies_at: int, cut: float, end: float, is_hole: bool
) -> None:
    lines = whole()

    async def work(clock: VirtualClock) -> None:
        bench = Lives(Path(directory), clock, UNITS)
        run_id = await interrupted(bench, mapped(), dies_at)
        corpse = bench.now.corpse
        assert corpse is not None
        (folder,) = (corpse / "data").rglob(run_id)
        rows = (folder / "data.csv").read_bytes().splitlines(keepends=True)
        count = 1 + kept_rows(corpse, run_id)
        synced = rows[:count]
        # All rows of the pass were on their way to the disk.
        (folder / "data.csv").write_bytes(b"".join([*synced, *lines[count : count + PASS]]))
        lose(folder / "data.csv", len(b"".join(synced)), cut, end, is_hole=is_hole)
        events = (folder / "events.jsonl").stat().st_size
        lose(folder / "events.jsonl", events // 2, cut, end, is_hole=is_hole)
        (folder / "data.nc").unlink(missing_ok=True)
        async with bench.life() as life:
            await until(life, partial(is_over, life, run_id))
            assert_is_as_without_a_crash(bench, life, run_id)
            (folder,) = (life.directory / "data").rglob(run_id)
            data = (folder / "data.csv").read_bytes()
            assert data.startswith(b"".join(synced))
            assert b"\0" not in data
            for line in (folder / "events.jsonl").read_text().splitlines():
                json.loads(line)

    with tempfile.TemporaryDirectory() as directory:
        in_virtual_time(work)
