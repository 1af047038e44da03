"""What runs as a task: cancelled once, told once, and over when it has settled what it owes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from edged.actions.cause import CALLER_GONE
from edged.actions.outcome import Done, Outcome, OutcomeStatus
from edged.commands.pending import Held, Pending, settled
from edged.errors import EdgedError, ErrorCode, Failed
from edged.store.database import Written

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


def held(written: asyncio.Future[None], house: Told) -> tuple[Pending, list[str]]:
    """What begins once that is there, and what has begun."""
    begun: list[str] = []

    def go() -> Done:
        begun.append("sent")
        return Done(data=7)

    pending = Pending(house._conclude, house.recorded.append, house.told.append)
    pending.run(Held(written, go))
    return pending, begun


@pytest.mark.parametrize("kind", [asyncio.Future, Written])
async def test_a_write_begins_once_its_intent_is_there(kind: type[asyncio.Future[None]]) -> None:
    house, written = Told(), kind()
    pending, begun = held(written, house)
    await asyncio.sleep(0)
    assert begun == []
    written.set_result(None)
    if isinstance(written, Written):
        assert written.then is not None
        written.then(written)
        # In the same breath.
        assert begun == ["sent"]
    await over(pending)
    assert begun == ["sent"]
    assert [outcome.data for outcome in house.recorded] == [7]


@pytest.mark.parametrize("kind", [asyncio.Future, Written])
async def test_a_write_whose_intent_failed_never_begins(kind: type[asyncio.Future[None]]) -> None:
    house, written = Told(), kind()
    pending, begun = held(written, house)
    written.set_exception(Failed("The disk is full.", code=ErrorCode.STORE_FAILED))
    if isinstance(written, Written):
        assert written.then is not None
        written.then(written)
    await over(pending)
    assert begun == []
    assert house.recorded[0].error is not None
    assert house.recorded[0].error.code is ErrorCode.STORE_FAILED


@pytest.mark.parametrize("kind", [asyncio.Future, Written])
async def test_a_write_that_is_cancelled_before_its_intent_is_there_never_begins(
    kind: type[asyncio.Future[None]],
) -> None:
    house, written = Told(), kind()
    pending, begun = held(written, house)
    pending.cancel(CALLER_GONE)
    await over(pending)
    await asyncio.sleep(0)
    assert written.cancelled()
    assert (begun, house.told) == ([], [None])
    assert [outcome.error and outcome.error.message for outcome in house.recorded] == [
        CALLER_GONE.sentence
    ]
