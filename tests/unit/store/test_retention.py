"""What retention removes, and what it does not remove while the clock is not to be believed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edged.store.audit.book import Retention, why_implausible
from edged.store.audit.queries import AuditFilter
from tests.bench.driven_clock import START_WALL_MS, DrivenClock
from tests.bench.store_bench import StoreBench, entry, running_store
from tests.promises import promise

HOUR_S = 3600
DAY_S = 24 * HOUR_S
DAY_MS = DAY_S * 1000
NOW_MS = START_WALL_MS


async def ids(store: StoreBench) -> list[str]:
    rows = await store.audit.list(AuditFilter(), limit=1000)
    return [row.action_id for row in rows if row.action_id]


async def note(store: StoreBench, *names: str) -> None:
    for name in names:
        store.audit.note(entry(name, time_ms=store.clock.wall_ms()))
    await store.database.flush()


@contextlib.asynccontextmanager
async def retiring(
    store: StoreBench, clock: DrivenClock, *, is_synchronized: bool | None = None, days: int = 30
) -> AsyncIterator[Retention]:
    """Retention that has looked once."""
    retention = Retention(
        audit=store.audit, clock=clock, days=days, is_synchronized=lambda: is_synchronized
    )
    task = asyncio.create_task(retention.keep())
    try:
        await looked(clock)
        yield retention
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def looked(clock: DrivenClock) -> None:
    async with asyncio.timeout(5):
        while not clock.sleepers:
            await asyncio.sleep(0.01)


async def let_pass(clock: DrivenClock, hours: int) -> None:
    for _ in range(hours):
        await clock.advance(HOUR_S)
        await looked(clock)


async def test_a_days_worth_goes_at_a_time_until_what_is_left_is_young_enough(
    tmp_path: Path,
) -> None:
    clock = DrivenClock()
    async with running_store(tmp_path / "edged.db", clock) as store:
        for day in range(4):
            await note(store, f"day{day}")
            clock.move(DAY_S)
        clock.move(29 * DAY_S)
        await note(store, "today")
        async with retiring(store, clock, days=31):
            assert await ids(store) == ["day1", "day2", "day3", "today"]
            await let_pass(clock, 1)
            assert await ids(store) == ["day2", "day3", "today"]
            await let_pass(clock, 2)
            assert await ids(store) == ["day3", "today"]
        assert (await store.audit.verify()).is_intact


@promise("audit.retention-needs-a-clock")
async def test_a_start_with_the_clock_ahead_removes_nothing(tmp_path: Path) -> None:
    clock = DrivenClock()
    path = tmp_path / "edged.db"
    async with running_store(path, clock) as store:
        await note(store, "a", "b")
    ahead = DrivenClock(wall_ms=NOW_MS + 400 * DAY_MS)
    async with running_store(path, ahead) as store:
        store.audit.event("engine.started", "edged")
        async with retiring(store, ahead) as retention:
            await let_pass(ahead, 3)
            assert await ids(store) == ["a", "b"]
            assert "400.0 days ahead of the newest row" in retention.waits
    # The clock is right again: what was written meanwhile is from the future.
    right = DrivenClock(wall_ms=NOW_MS + DAY_MS)
    async with running_store(path, right) as store, retiring(store, right) as retention:
        assert retention.waits == ""
        assert await ids(store) == ["a", "b"]


async def test_a_bench_that_was_off_for_weeks_is_believed_after_a_day(tmp_path: Path) -> None:
    path = tmp_path / "edged.db"
    async with running_store(path, DrivenClock()) as store:
        await note(store, "old")
    clock = DrivenClock(wall_ms=NOW_MS + 40 * DAY_MS)
    async with running_store(path, clock) as store:
        await note(store, "new")
        async with retiring(store, clock) as retention:
            await let_pass(clock, 23)
            assert await ids(store) == ["old", "new"]
            await let_pass(clock, 2)
            assert retention.waits == ""
            assert await ids(store) == ["new"]


async def test_a_clock_that_jumps_while_it_runs_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "edged.db"
    async with running_store(path, DrivenClock()) as store:
        await note(store, "old")
    clock = JumpingClock(wall_ms=NOW_MS + DAY_MS // 2)
    async with running_store(path, clock) as store, retiring(store, clock) as retention:
        assert retention.waits == ""
        await let_pass(clock, 20)
        clock.jump_ms = 400 * DAY_MS
        await let_pass(clock, 20)
        assert "ahead of the newest row" in retention.waits
        assert await ids(store) == ["old"]


class JumpingClock(DrivenClock):
    jump_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.jump_ms


@pytest.mark.parametrize(
    ("ahead_ms", "is_synchronized", "why"),
    [
        (0, True, ""),
        (0, None, ""),
        (DAY_MS, None, ""),
        (DAY_MS + 1, True, "1.0 days ahead"),
        (-1000 * DAY_MS, None, "before the date of this program"),
        (0, False, "time service has not set the clock yet"),
    ],
)
def test_a_clock_is_judged_by_the_record_the_program_and_the_machine(
    ahead_ms: int, is_synchronized: bool | None, why: str
) -> None:
    told = why_implausible(
        now_ms=NOW_MS + ahead_ms,
        expected_ms=NOW_MS,
        built_ms=NOW_MS - 365 * DAY_MS,
        is_synchronized=is_synchronized,
    )
    assert why in told
    assert bool(told) is bool(why)


def test_without_any_row_there_is_nothing_to_compare_with() -> None:
    assert (
        why_implausible(now_ms=NOW_MS, expected_ms=None, built_ms=NOW_MS - 1, is_synchronized=None)
        == ""
    )
