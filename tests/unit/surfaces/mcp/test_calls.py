from __future__ import annotations

import asyncio

import pytest

from edged.errors import Conflict
from edged.surfaces.mcp.sessions import CallEnd, CallEndedError, CallRegistry, RunningCall


def new_call() -> RunningCall:
    return RunningCall(asyncio.get_running_loop())


async def forever(log: list[str]) -> str:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        log.append("cleaned up")
        raise
    return "never"


async def test_a_call_gives_its_result() -> None:
    async def work() -> int:
        return 7

    assert await new_call().run(work()) == 7


@pytest.mark.parametrize("why", list(CallEnd))
async def test_ending_a_call_cancels_its_work_and_says_why(why: CallEnd) -> None:
    log: list[str] = []
    call = new_call()
    asyncio.get_running_loop().call_soon(call.end, why)
    with pytest.raises(CallEndedError) as ended:
        await call.run(forever(log))
    assert ended.value.why is why
    assert log == ["cleaned up"]
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_a_call_ended_before_its_turn_never_begins() -> None:
    log: list[str] = []
    call = new_call()
    call.end(CallEnd.CANCELLED)
    with pytest.raises(CallEndedError):
        await call.run(forever(log))
    assert log == []


async def test_only_the_first_end_counts_so_that_cleaning_up_is_not_torn() -> None:
    finished: list[str] = []
    call = new_call()

    async def makes_safe() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            call.end(CallEnd.STOPPING)
            await asyncio.sleep(0)
            finished.append("safe")

    asyncio.get_running_loop().call_soon(call.end, CallEnd.CANCELLED)
    with pytest.raises(CallEndedError) as ended:
        await call.run(makes_safe())
    assert ended.value.why is CallEnd.CANCELLED
    assert finished == ["safe"]


async def test_work_that_answers_its_cancellation_with_a_result_is_ended_all_the_same() -> None:
    call = new_call()

    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "an outcome"
        return "never"

    asyncio.get_running_loop().call_soon(call.end, CallEnd.CLIENT_GONE)
    with pytest.raises(CallEndedError):
        await call.run(stubborn())
    await asyncio.sleep(0)


async def test_cancelling_the_task_itself_is_not_swallowed() -> None:
    call = new_call()
    task = asyncio.create_task(call.run(forever([])))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_end_from_inside_of_the_call_leaves_no_cancellation_behind() -> None:
    call = new_call()

    async def ends_itself() -> None:
        call.end(CallEnd.CLIENT_GONE)
        await asyncio.sleep(0)

    with pytest.raises(CallEndedError):
        await call.run(ends_itself())
    await asyncio.sleep(0)


async def test_two_calls_of_one_id_are_a_conflict_and_1_is_not_the_text_1() -> None:
    book = CallRegistry()
    first = new_call()
    book.add(1, first)
    book.add("1", new_call())
    with pytest.raises(Conflict):
        book.add(1, new_call())
    book.discard(1, new_call())
    assert 1 in book
    book.discard(1, first)
    book.add(1, new_call())
    assert len(book) == 2


async def test_ending_an_id_that_is_not_in_flight_is_ignored() -> None:
    book = CallRegistry()
    call = new_call()
    book.add("a", call)
    book.end("b", CallEnd.CANCELLED)
    assert call.ended is None
    book.end_all(CallEnd.STOPPING)
    assert call.ended is CallEnd.STOPPING
