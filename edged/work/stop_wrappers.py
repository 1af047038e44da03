"""Stop all, for SDK wrappers: the tools that they mark as their aborts, side by side.

A wrapper whose device has answered in this life of the daemon must say that it is safe; of one that
never had a device nothing is asked. Only a tool that returns ``is_on: false`` has seen the device
say that it is off; without it the order was taken, and no more is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from edged.actions.action import CallWrapper
from edged.actions.caller import Caller
from edged.clock import Clock
from edged.errors import ErrorCode
from edged.sdk.specs import wrapper_id
from edged.work.ports import NewId, Perform, ToldOutputs

__all__ = ["WrapperAbort", "WrapperStop"]

WITHIN_S: Final = 6.0
ANSWER_S: Final = 0.85
"""What is told after this is what is known by then; the tool goes on."""
IS_ON: Final = "is_on"
"""What an abort tool returns as false when its device has said that it is off."""
ITS_DEVICE: Final = "its device"
TRYING: Final[Mapping[str, Any]] = {
    "state": "trying",
    "error": "It has not answered yet; it goes on being tried.",
}
NOBODY_THERE: Final = frozenset({ErrorCode.DISCONNECTED, ErrorCode.SDK_MISSING})


@dataclass(frozen=True, slots=True, kw_only=True)
class WrapperAbort:
    """One tool that makes a wrapper's device safe. ``is_expected``: its device has been there."""

    wrapper: str
    spec_name: str
    is_expected: bool


class WrapperStop:
    """Runs the aborts of all wrappers.

    Args:
        aborts: what there is to run.
        perform: the command path.
        new_id: makes action ids.
        clock: for how long things took.
        told_on: what was told to put something out and has not been seen to be off since.
    """

    def __init__(
        self,
        *,
        aborts: Callable[[], Sequence[WrapperAbort]],
        perform: Perform,
        new_id: NewId,
        clock: Clock,
        told_on: ToldOutputs,
    ) -> None:
        self._aborts = aborts
        self._perform = perform
        self._new_id = new_id
        self._clock = clock
        self._told_on = told_on
        self._running: set[asyncio.Task[dict[str, Any]]] = set()

    async def __call__(self, caller: Caller, parent_id: str, tool: str) -> list[dict[str, Any]]:
        """Run all at once; an entry each, in the form of an instrument's, before long."""
        began = self._clock.monotonic()
        found = [
            (abort, asyncio.ensure_future(self._one(abort, caller, parent_id, tool, began)))
            for abort in self._aborts()
        ]
        tasks = [task for _, task in found]
        self._running.update(tasks)
        for task in tasks:
            task.add_done_callback(self._running.discard)
        bound = asyncio.ensure_future(self._clock.sleep(ANSWER_S))
        try:
            while not bound.done() and (left := {task for task in tasks if not task.done()}):
                await asyncio.wait({*left, bound}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            bound.cancel()
            await asyncio.gather(bound, return_exceptions=True)
        return [
            task.result() if task.done() else self._with_told(abort, {**_told(abort), **TRYING})
            for abort, task in found
        ]

    async def close(self) -> None:
        """The daemon stops: nothing is waited for any more."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _one(
        self, abort: WrapperAbort, caller: Caller, parent_id: str, tool: str, began: float
    ) -> dict[str, Any]:
        action = CallWrapper(
            tool=tool,
            caller=caller,
            action_id=self._new_id(),
            parent_id=parent_id,
            wrapper=abort.wrapper,
            spec_name=abort.spec_name,
        )
        told = _told(abort)
        unit = f"{wrapper_id(abort.wrapper)}||"
        marked = self._told_on.of(unit)
        try:
            async with asyncio.timeout(WITHIN_S):
                outcome = await self._perform(action)
        except TimeoutError:
            said = f"It said nothing within {WITHIN_S:g} s."
            return self._with_told(abort, {**told, **_failed(said)})
        if outcome.error is None:
            spent_ms = round((self._clock.monotonic() - began) * 1000, 1)
            told["taken_after_ms"] = spent_ms
            returned = outcome.data.get("data")
            if isinstance(returned, Mapping) and returned.get(IS_ON) is False:
                self._told_on.clear(unit, marked)
                told |= {"state": "confirmed", "confirmed_after_ms": spent_ms}
        elif outcome.error.code in NOBODY_THERE and not abort.is_expected:
            told["state"] = "not_connected"
        else:
            told |= _failed(str(outcome.error))
        return self._with_told(abort, told)

    def _with_told(self, abort: WrapperAbort, told: dict[str, Any]) -> dict[str, Any]:
        """With what it was told and has not been seen to be off."""
        is_told = bool(self._told_on.of(f"{wrapper_id(abort.wrapper)}||"))
        return {**told, "unconfirmed": [ITS_DEVICE] if is_told else []}


def _told(abort: WrapperAbort) -> dict[str, Any]:
    return {
        "instrument_id": wrapper_id(abort.wrapper),
        "alias": "",
        "state": "taken",
        "tool": f"{abort.wrapper}__{abort.spec_name}",
        "taken_after_ms": None,
        "confirmed": [],
        "confirmed_after_ms": None,
        "error": None,
    }


def _failed(why: str) -> Mapping[str, Any]:
    return {"state": "failed", "error": why}
