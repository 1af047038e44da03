"""Stop all, for SDK wrappers: the tools that they mark as their aborts, side by side.

A wrapper whose device has answered in this life of the daemon must say that it is safe; of one that
never had a device nothing is asked.
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
from edged.work.ports import NewId, Perform

__all__ = ["WrapperAbort", "WrapperStop"]

WITHIN_S: Final = 6.0
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
    """

    def __init__(
        self,
        *,
        aborts: Callable[[], Sequence[WrapperAbort]],
        perform: Perform,
        new_id: NewId,
        clock: Clock,
    ) -> None:
        self._aborts = aborts
        self._perform = perform
        self._new_id = new_id
        self._clock = clock

    async def __call__(self, caller: Caller, parent_id: str, tool: str) -> list[dict[str, Any]]:
        """Run all at once; an entry each, in the form of an instrument's."""
        began = self._clock.monotonic()
        return await asyncio.gather(
            *(self._one(abort, caller, parent_id, tool, began) for abort in self._aborts())
        )

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
        told: dict[str, Any] = {
            "instrument_id": wrapper_id(abort.wrapper),
            "alias": "",
            "state": "taken",
            "tool": f"{abort.wrapper}__{abort.spec_name}",
            "taken_after_ms": None,
            "confirmed": [],
            "confirmed_after_ms": None,
            "error": None,
        }
        try:
            async with asyncio.timeout(WITHIN_S):
                outcome = await self._perform(action)
        except TimeoutError:
            return {**told, **_failed(f"It said nothing within {WITHIN_S:g} s.")}
        if outcome.error is None:
            spent_ms = round((self._clock.monotonic() - began) * 1000, 1)
            return {**told, "taken_after_ms": spent_ms}
        if outcome.error.code in NOBODY_THERE and not abort.is_expected:
            return {**told, "state": "not_connected"}
        return {**told, **_failed(str(outcome.error))}


def _failed(why: str) -> Mapping[str, Any]:
    return {"state": "failed", "error": why}
