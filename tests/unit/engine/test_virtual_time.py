"""A loop whose time leaps while nothing is ready."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from edged.engine.virtual_time import VirtualClock, VirtualLoop
from edged.errors import ErrorCode, Failed, Fault

T = TypeVar("T")
WALL_NS = 1_790_000_000_000_000_000
DAY_S = 86_400.0


def run(work: Coroutine[Any, Any, T], clock: VirtualClock | None = None) -> T:
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock or VirtualClock(WALL_NS))) as runner:
        return runner.run(work)


def test_days_pass_in_no_time_and_both_scales_tell_them() -> None:
    clock = VirtualClock(WALL_NS)
    began = time.perf_counter()
    run(clock.sleep(3 * DAY_S), clock)
    assert clock.passed_s == pytest.approx(3 * DAY_S)
    assert clock.wall_ns() - WALL_NS == pytest.approx(3 * DAY_S * 1e9)
    assert clock.wall_ms() == clock.wall_ns() // 1_000_000
    assert time.perf_counter() - began < 1


def test_who_sleeps_wakes_in_the_order_of_time_and_each_at_its_moment() -> None:
    clock = VirtualClock(WALL_NS)
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, round(clock.passed_s, 6)))

    async def all_of_them() -> None:
        await asyncio.gather(sleeper("late", 7_200), sleeper("soon", 0.5), sleeper("next", 0.5))

    run(all_of_them(), clock)
    assert woken == [("soon", 0.5), ("next", 0.5), ("late", 7_200.0)]


def test_time_stands_still_while_anything_is_ready() -> None:
    clock = VirtualClock(WALL_NS)

    async def busy() -> float:
        timer = asyncio.get_running_loop().call_later(1, lambda: None)
        for _ in range(1_000):
            await clock.sleep(0)
        timer.cancel()
        return clock.passed_s

    assert run(busy(), clock) == 0


def test_a_time_limit_ends_what_has_no_other_end() -> None:
    async def limited() -> None:
        async with asyncio.timeout(3_600):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        run(limited())


def test_what_is_handed_to_a_thread_is_done_before_time_goes_on() -> None:
    clock = VirtualClock(WALL_NS)

    async def asks() -> tuple[int, float]:
        asking = asyncio.create_task(asyncio.to_thread(sum, [1, 2, 3]))
        racing = asyncio.create_task(clock.sleep(1e-6))
        done, _ = await asyncio.wait({asking, racing}, return_when=asyncio.FIRST_COMPLETED)
        assert done == {asking}
        racing.cancel()
        return asking.result(), clock.passed_s

    assert run(asks(), clock) == (6, 0)


def test_what_a_function_raises_in_a_thread_is_raised_where_it_is_awaited() -> None:
    async def asks() -> None:
        await asyncio.to_thread(int, "no number")

    with pytest.raises(ValueError, match="no number"):
        run(asks())


def test_a_wait_without_an_end_is_an_error_and_no_hang() -> None:
    with pytest.raises(Fault, match="no end"):
        run(asyncio.Event().wait())


def test_time_without_end_is_an_error() -> None:
    clock = VirtualClock(WALL_NS)

    async def forever() -> None:
        while True:
            await clock.sleep(DAY_S)

    with pytest.raises(Failed, match="45 days"):
        run(forever(), clock)


def test_what_computes_too_long_is_ended_by_its_processor_time() -> None:
    clock = VirtualClock(WALL_NS, processor_s=0.05)

    async def endless() -> None:
        while True:
            await clock.sleep(1)

    with pytest.raises(Failed, match=r"not done within 0\.05 s of processor time") as late:
        run(endless(), clock)
    assert late.value.code is ErrorCode.TIMEOUT
