"""Stop all for SDK wrappers: who must answer, and what is told of whom."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from edged.actions.action import Action, CallWrapper
from edged.actions.caller import Caller, Route
from edged.actions.cause import ENGINE_STOPPED
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.errors import ErrorCode, Failed
from edged.runs.stop_all import WrapperAbort, WrapperStop
from edged.runs.wording import all_stopped_by
from edged.store.told_on import ToldOn
from tests.bench.context import bench_of
from tests.bench.driven_clock import DrivenClock, settle
from tests.bench.sweep_bench import NoDatabase
from tests.promises import promise


class Path:
    def __init__(self, error: Failed | None, returned: object = None) -> None:
        self.error = error
        self.returned = returned
        self.actions: list[CallWrapper] = []

    async def perform(self, action: Action) -> Outcome:
        assert isinstance(action, CallWrapper)
        self.actions.append(action)
        status = OutcomeStatus.FAILED if self.error else OutcomeStatus.OK
        return Outcome(status=status, error=self.error, data={"data": self.returned})


async def stop(
    clock: DrivenClock, error: Failed | None, *, is_expected: bool
) -> tuple[dict[str, Any], Path]:
    path = Path(error)
    abort = WrapperAbort(wrapper="korad", spec_name="off", is_expected=is_expected)
    stopping = WrapperStop(
        bench_of(
            clock,
            store={"told_on": ToldOn(database=NoDatabase(), clock=clock)},
            perform=path.perform,
        ),
        lambda: [abort],
    )
    told = await stopping(Caller(route=Route.DIRECT), STOPPED, "p1", "bench__stop_all")
    return told[0], path


STOPPED = all_stopped_by("alice")
GONE = Failed("It is not connected.", code=ErrorCode.DISCONNECTED)
MISSING = Failed("Its library is missing.", code=ErrorCode.SDK_MISSING)
BROKEN = Failed("It says that its output is on.", code=ErrorCode.WRAPPER_FAILED)


@promise("sdk.stop-all")
@pytest.mark.parametrize(
    ("error", "is_expected", "state"),
    [
        (None, False, "taken"),
        (GONE, False, "not_connected"),
        (MISSING, False, "not_connected"),
        (GONE, True, "failed"),
        (BROKEN, False, "failed"),
    ],
)
async def test_a_device_that_has_been_there_must_say_that_it_is_safe(
    driven_clock: DrivenClock, error: Failed | None, is_expected: bool, state: str
) -> None:
    told, path = await stop(driven_clock, error, is_expected=is_expected)
    assert told["state"] == state
    assert (told["error"] is None) is (state != "failed")
    assert told["instrument_id"] == "sdk:korad"
    assert (path.actions[0].wrapper, path.actions[0].parent_id) == ("korad", "p1")


@promise("stop-all.truth")
@pytest.mark.parametrize(
    ("returned", "state", "unconfirmed"),
    [
        ({"is_on": False}, "confirmed", []),
        ({"ok": True}, "taken", ["its device"]),
        (None, "taken", ["its device"]),
    ],
)
async def test_a_device_that_was_told_something_is_confirmed_by_its_own_word_alone(
    driven_clock: DrivenClock, returned: object, state: str, unconfirmed: list[str]
) -> None:
    told_on = ToldOn(database=NoDatabase(), clock=driven_clock)  # type: ignore[arg-type]
    told_on.note("sdk:korad||", "sdk:korad", {"*"})
    stopping = WrapperStop(
        bench_of(driven_clock, store={"told_on": told_on}, perform=Path(None, returned).perform),
        lambda: [WrapperAbort(wrapper="korad", spec_name="off", is_expected=True)],
    )
    [told] = await stopping(Caller(route=Route.DIRECT), STOPPED, "p1", "bench__stop_all")
    assert (told["state"], told["unconfirmed"]) == (state, unconfirmed)
    assert bool(told_on.turns()) is bool(unconfirmed)


async def test_a_device_that_takes_long_is_told_of_in_time_and_goes_on(
    driven_clock: DrivenClock,
) -> None:
    may_answer = asyncio.Event()

    async def perform(_action: Action) -> Outcome:
        await may_answer.wait()
        return Outcome(status=OutcomeStatus.OK, data={"data": {"is_on": False}})

    told_on = ToldOn(database=NoDatabase(), clock=driven_clock)  # type: ignore[arg-type]
    told_on.note("sdk:korad||", "sdk:korad", {"*"})
    stopping = WrapperStop(
        bench_of(driven_clock, store={"told_on": told_on}, perform=perform),
        lambda: [WrapperAbort(wrapper="korad", spec_name="off", is_expected=True)],
    )
    asked = asyncio.create_task(
        stopping(Caller(route=Route.DIRECT), STOPPED, "p1", "bench__stop_all")
    )
    await driven_clock.advance(1.0)
    [told] = await asked
    assert (told["state"], told["unconfirmed"]) == ("trying", ["its device"])
    may_answer.set()
    await settle()
    assert told_on.turns() == {}
    await stopping.close()


@promise("exit.safe")
@pytest.mark.parametrize("is_marked", [True, False])
async def test_at_exit_only_what_may_be_on_is_aborted(
    driven_clock: DrivenClock, is_marked: bool
) -> None:
    told_on = ToldOn(database=NoDatabase(), clock=driven_clock)  # type: ignore[arg-type]
    if is_marked:
        told_on.note("sdk:korad||", "sdk:korad", {"*"})
    path = Path(None, {"is_on": False})
    stopping = WrapperStop(
        bench_of(driven_clock, store={"told_on": told_on}, perform=path.perform),
        lambda: [WrapperAbort(wrapper="korad", spec_name="off", is_expected=False)],
    )
    told = await stopping.stop_marked(
        Caller.part("shutdown"), ENGINE_STOPPED, tool="shutdown", within_s=1.5
    )
    assert [one["state"] for one in told] == ["confirmed"] * is_marked
    assert [action.caller.who for action in path.actions] == ["shutdown"] * is_marked
    assert [action.cause for action in path.actions] == [ENGINE_STOPPED] * is_marked
    assert told_on.turns() == {}
