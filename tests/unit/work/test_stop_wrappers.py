"""Stop all for SDK wrappers: who must answer, and what is told of whom."""

from __future__ import annotations

from typing import Any

import pytest

from edged.actions.action import Action, CallWrapper
from edged.actions.caller import Caller, Route
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.errors import ErrorCode, Failed
from edged.work.stop_wrappers import WrapperAbort, WrapperStop
from tests.bench.driven_clock import DrivenClock
from tests.promises import promise


class Path:
    def __init__(self, error: Failed | None) -> None:
        self.error = error
        self.actions: list[CallWrapper] = []

    async def perform(self, action: Action) -> Outcome:
        assert isinstance(action, CallWrapper)
        self.actions.append(action)
        status = OutcomeStatus.FAILED if self.error else OutcomeStatus.OK
        return Outcome(status=status, error=self.error)


async def stop(
    clock: DrivenClock, error: Failed | None, *, is_expected: bool
) -> tuple[dict[str, Any], Path]:
    path = Path(error)
    abort = WrapperAbort(wrapper="korad", spec_name="off", is_expected=is_expected)
    stopping = WrapperStop(
        aborts=lambda: [abort], perform=path.perform, new_id=lambda: "n1", clock=clock
    )
    told = await stopping(Caller(route=Route.DIRECT), "p1", "bench__stop_all")
    return told[0], path


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
