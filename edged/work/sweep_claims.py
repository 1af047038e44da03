"""What sweeps hold: one sweep a parameter of an instrument, and no other writer meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edged.errors import Conflict, ErrorCode
from edged.work.rivals import may_change
from edged.work.states import SweepState
from edged.work.sweep import Sweep, SweptThing

__all__ = ["SweepClaims"]


@dataclass(frozen=True, slots=True)
class _Holder:
    """Who holds a parameter; from before its set-point is asked until nothing more is sent."""

    sweep_id: str
    thing: SweptThing


class SweepClaims:
    """The parameters that are held, each by one sweep.

    Args:
        find: gives the sweep with an id; none while it is still about to begin.
    """

    def __init__(self, find: Callable[[str], Sweep | None]) -> None:
        self._find = find
        self._held: dict[tuple[str, str], _Holder] = {}

    def take(self, thing: SweptThing, sweep_id: str) -> None:
        """Hold a parameter for a sweep that is about to begin.

        Raises:
            Conflict: SWEEP_CONFLICT, another sweep holds it.
        """
        holder = self._held.get(thing.key)
        if holder is not None and self._still_holds(holder):
            raise self._conflict(holder)
        self._held[thing.key] = _Holder(sweep_id, thing)

    def drop(self, thing: SweptThing, sweep_id: str) -> None:
        """That sweep holds it no longer; another one may already."""
        holder = self._held.get(thing.key)
        if holder is not None and holder.sweep_id == sweep_id:
            del self._held[thing.key]

    def refuse_writer(
        self, instrument_id: str, lines: tuple[str, ...], on_behalf_of: str, *, is_raw: bool
    ) -> None:
        """Let no other writer to what is swept on an instrument pass.

        Args:
            lines: what it would send.
            is_raw: they were written by a caller.
            on_behalf_of: the sweep it comes from, if it comes from one.

        Raises:
            Conflict: SWEEP_CONFLICT, naming the sweep.
        """
        for holder in self._held.values():
            is_other = holder.thing.instrument.id == instrument_id
            if not is_other or holder.sweep_id == on_behalf_of or not self._still_holds(holder):
                continue
            if any(may_change(holder.thing, line, is_raw=is_raw) for line in lines):
                raise self._conflict(holder)

    def holds_on(self, instrument_id: str) -> bool:
        """Whether anything is swept on an instrument."""
        return any(
            holder.thing.instrument.id == instrument_id and self._still_holds(holder)
            for holder in self._held.values()
        )

    def _still_holds(self, holder: _Holder) -> bool:
        """What is over holds nothing, though its last words may not be written yet."""
        sweep = self._find(holder.sweep_id)
        return sweep is None or not sweep.ended.is_set() or sweep.is_active

    def _conflict(self, holder: _Holder) -> Conflict:
        sweep = self._find(holder.sweep_id)
        state = sweep.state.value if sweep else "about to begin"
        thing = holder.thing
        is_parked = sweep is not None and sweep.state is SweepState.HOLDING
        wait = "It does not end by itself:" if is_parked else "Wait for its end, or"
        return Conflict(
            f"{thing.plan.parameter} of {thing.instrument.id} ({thing.setpoint_query}) is held by "
            f"{holder.sweep_id}, which is {state}.",
            code=ErrorCode.SWEEP_CONFLICT,
            data={"sweep_id": holder.sweep_id, "status": state},
            remedy=f"{wait} call stop_sweep with sweep_id {holder.sweep_id!r}, "
            "which makes it safe.",
        )
