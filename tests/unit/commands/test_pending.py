"""What runs as a task: cancelled once, told once, and over when it has settled what it owes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from edged.actions.cause import CALLER_GONE
from edged.actions.outcome import Done, Outcome, OutcomeStatus
from edged.commands.pending import Pending, settled
from edged.errors import EdgedError, ErrorCode

OK = OutcomeStatus.OK


class Told:
    """Begins one coroutine, and remembers what was told and recorded of it."""

    def __init__(self) -> None:
        self.told: list[Outcome | None] = []
        self.recorded: list[Outcome] = []

    def begin(self, work: Any) -> Pending:
        pending = Pending(self._conclude, self.recorded.append, self.told.append)
        pending.run_as_task(work)
        return pending

    def _conclude(self, found: Done | Exception) -> Outcome:
        if isinstance(found, Done):
            return Outcome(status=OK, data=found.data)
        error = found if isinstance(found, EdgedError) else None
        return Outcome(status=OutcomeStatus.FAILED, error=error, data=found)


async def over(pending: Pending) -> None:
    async with asyncio.timeout(5):
        while not pending.done():
            await asyncio.sleep(0)


async def test_what_it_gives_is_told_and_recorded_once() -> None:
    house = Told()

    async def work() -> Done:
        await asyncio.sleep(0)
        return Done(data=7)

    await over(house.begin(work()))
    assert [outcome and outcome.data for outcome in house.told] == [7]
    assert [outcome.data for outcome in house.recorded] == [7]


async def test_what_breaks_is_told_as_its_error() -> None:
    house = Told()

    async def work() -> Done:
        raise ZeroDivisionError

    await over(house.begin(work()))
    assert isinstance(house.recorded[0].data, ZeroDivisionError)
    assert house.told == house.recorded


async def test_only_the_first_cancellation_counts_so_that_making_safe_is_not_torn() -> None:
    house = Told()
    finished: list[str] = []
    begun = asyncio.Event()

    async def makes_safe() -> Done:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            pending.cancel(CALLER_GONE)
            await asyncio.sleep(0)
            finished.append("safe")
        return Done(data=None)

    pending = house.begin(makes_safe())
    await begun.wait()
    pending.cancel(CALLER_GONE)
    assert house.told == []
    async with asyncio.timeout(5):
        await pending.is_over()
    await over(pending)
    assert finished == ["safe"]
    assert house.told == [None]
    assert house.recorded[0].error is not None
    assert house.recorded[0].error.code is ErrorCode.CANCELLED


async def test_a_result_in_spite_of_a_cancellation_is_recorded_and_not_told() -> None:
    house = Told()
    begun = asyncio.Event()

    async def stubborn() -> Done:
        try:
            begun.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return Done(data="made safe")
        return Done(data=None)

    pending = house.begin(stubborn())
    await begun.wait()
    pending.cancel(CALLER_GONE)
    await over(pending)
    assert house.told == [None]
    assert [outcome.data for outcome in house.recorded] == ["made safe"]


async def test_whoever_waits_hears_of_a_cancellation_from_elsewhere() -> None:
    house = Told()

    async def forever() -> Done:
        await asyncio.Event().wait()
        return Done(data=None)

    def begin(tell: Any) -> Pending:
        pending = Pending(house._conclude, house.recorded.append, tell)
        pending.run_as_task(forever())
        asyncio.get_running_loop().call_soon(pending.cancel, CALLER_GONE)
        return pending

    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(5):
            await settled(begin)
    assert len(house.recorded) == 1
