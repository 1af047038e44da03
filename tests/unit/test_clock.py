"""The two clocks: the machine's own and the one that tests drive."""

from __future__ import annotations

import asyncio

import pytest

from edged.clock import Clock, SystemClock, ago
from tests.bench.driven_clock import DrivenClock


async def test_sleepers_wake_in_order_at_their_own_time(driven_clock: DrivenClock) -> None:
    clock: Clock = driven_clock
    begin, woken = clock.monotonic(), []

    async def sleep_twice(name: str, seconds: float) -> None:
        for _ in range(2):
            await clock.sleep(seconds)
            woken.append((name, clock.monotonic() - begin))

    tasks = [asyncio.create_task(sleep_twice(name, s)) for name, s in (("a", 2.0), ("b", 3.0))]
    await driven_clock.advance(5)
    assert woken == [("a", 2.0), ("b", 3.0), ("a", 4.0)]
    await driven_clock.advance(1)
    await asyncio.gather(*tasks)
    assert woken[-1] == ("b", 6.0)


async def test_a_cancelled_sleeper_is_forgotten(driven_clock: DrivenClock) -> None:
    task = asyncio.create_task(driven_clock.sleep(5))
    await driven_clock.advance(1)
    assert driven_clock.sleepers == 1
    task.cancel()
    await driven_clock.advance(10)
    assert driven_clock.sleepers == 0
    assert task.cancelled()


def test_wall_time_follows_the_monotonic_one(driven_clock: DrivenClock) -> None:
    before = driven_clock.wall_ms()
    driven_clock.move(1.5)
    assert driven_clock.wall_ms() - before == 1500


async def test_the_machines_clock_moves_on() -> None:
    clock = SystemClock()
    begin = clock.monotonic()
    await clock.sleep(0.001)
    await clock.sleep(-1)
    assert clock.monotonic() - begin >= 0.001
    assert clock.wall_ms() > 1_700_000_000_000


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3.0, "0 s ago"),
        (0.4, "0 s ago"),
        (59.9, "59 s ago"),
        (60, "1 min ago"),
        (200, "3 min ago"),
        (3_600, "1 h ago"),
        (100_000, "27 h ago"),
        (200_000, "2 days ago"),
    ],
)
def test_how_long_ago_something_was(seconds: float, text: str) -> None:
    assert ago(seconds) == text
