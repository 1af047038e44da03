"""What a run does goes on until it ends, or somebody wants another end: one way for every kind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from structlog.testing import capture_logs

from edged.actions.cause import Cause
from edged.errors import ErrorCode, Failed
from edged.runs.run import Ended, Ending, Run
from edged.runs.run_head import RunHead, RunKind
from edged.runs.states import RunEvent
from edged.runs.wording import all_stopped_by, parked_by, stopped_by
from tests.unit.work.test_run_registry import ACTION, CALLER

PARK, STOP, ALL = parked_by("alice"), stopped_by("bob"), all_stopped_by("carol")
DONE = Ending(event=RunEvent.DONE)


def new_run() -> Run:
    head = RunHead(
        kind=RunKind.SWEEP,
        run_id="run-1",
        instrument_id="psu1",
        command_name="c",
        columns=(),
        caller=CALLER,
    )
    return Run(head=head, action=ACTION, caller=CALLER, began=0.0, started_ms=1)


def wished(cause: Cause, event: RunEvent = RunEvent.STOP) -> Ending:
    return Ending.wished(event, cause)


async def waits() -> Ending:
    await asyncio.Event().wait()
    return DONE


async def comes_to(what: Ending | Exception) -> Ending:
    if isinstance(what, Exception):
        raise what
    return what


GONE = Failed("It is gone.", code=ErrorCode.DISCONNECTED)
MET = Ending(event=RunEvent.PAUSE, reason="met")


@pytest.mark.parametrize(
    ("body", "event", "said"),
    [
        (comes_to(DONE), RunEvent.DONE, ""),
        (comes_to(Ended(MET)), RunEvent.PAUSE, "met"),
        (comes_to(GONE), RunEvent.FAILURE, "It is gone."),
        (comes_to(KeyError("a bug")), RunEvent.FAILURE, "edged made a mistake"),
    ],
)
async def test_without_a_wish_it_ends_as_what_it_does_comes_to_an_end(
    body: Coroutine[Any, Any, Ending], event: RunEvent, said: str
) -> None:
    ending = await new_run().until_ended(body)
    assert ending.event is event
    assert said in ending.reason + ending.error
    assert (ending.failure is not None) is (event is RunEvent.FAILURE)


async def test_the_first_who_wants_an_end_is_the_reason() -> None:
    run = new_run()
    asyncio.get_running_loop().call_soon(lambda: [run.end(wished(one)) for one in (STOP, ALL)])
    assert await run.until_ended(waits()) == wished(STOP)


async def test_a_pause_gives_way_to_a_stop_and_leaves_room_for_one() -> None:
    run = new_run()
    loop = asyncio.get_running_loop()
    pause = wished(PARK, RunEvent.PAUSE)
    loop.call_soon(run.end, pause)
    assert await run.until_ended(waits()) == pause
    for one in (pause, wished(STOP), pause, wished(ALL)):
        loop.call_soon(run.end, one)
    assert await run.until_ended(waits()) == wished(STOP)


async def test_who_stops_in_the_moment_in_which_it_has_come_to_its_end_is_obeyed() -> None:
    run = new_run()

    async def body() -> Ending:
        run.end(wished(STOP))
        return DONE

    assert await run.until_ended(body()) == wished(STOP)


async def test_a_mistake_in_the_moment_of_a_stop_is_in_the_log() -> None:
    run = new_run()

    async def body() -> Ending:
        run.end(wished(STOP))
        raise KeyError("a bug")

    with capture_logs() as logged:
        assert await run.until_ended(body()) == wished(STOP)
    assert [(one["event"], one["run_id"]) for one in logged] == [("run_fault", "run-1")]


async def test_what_is_stopped_before_it_begins_does_nothing() -> None:
    run = new_run()
    run.end(wished(STOP))
    done = []

    async def body() -> Ending:
        done.append(1)
        return DONE

    assert await run.until_ended(body()) == wished(STOP)
    assert done == []


async def test_whoever_cancels_its_life_leaves_nothing_going() -> None:
    run = new_run()
    life = asyncio.create_task(run.until_ended(waits()))
    await asyncio.sleep(0)
    life.cancel()
    with pytest.raises(asyncio.CancelledError):
        await life
    assert run.body is not None
    assert run.body.cancelled()
