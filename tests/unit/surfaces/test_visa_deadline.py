"""A deadline that is set for each question, on a loop whose time the test moves."""

from __future__ import annotations

import asyncio

from edged.surfaces.visa.deadline import Deadline


async def test_it_comes_once_at_the_time_that_was_set_last() -> None:
    told: list[float] = []
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    deadline = Deadline(lambda: told.append(loop.time() - began_s))
    deadline.set(0.05)
    deadline.set(0.15)
    deadline.set(0.10)
    await asyncio.sleep(0.3)
    assert len(told) == 1
    assert told[0] >= 0.1


async def test_one_that_is_set_nearer_comes_sooner() -> None:
    came = asyncio.Event()
    deadline = Deadline(came.set)
    deadline.set(3_600)
    deadline.set(0.01)
    async with asyncio.timeout(5):
        await came.wait()


async def test_one_that_was_taken_back_does_not_come_and_can_be_set_again() -> None:
    told: list[int] = []
    deadline = Deadline(lambda: told.append(1))
    deadline.set(0.01)
    deadline.clear()
    await asyncio.sleep(0.05)
    assert told == []
    deadline.set(0.01)
    await asyncio.sleep(0.05)
    assert told == [1]


async def test_once_closed_it_keeps_nothing_on_the_loop() -> None:
    deadline = Deadline(lambda: None)
    deadline.set(3_600)
    deadline.close()
    assert deadline._timer is None
