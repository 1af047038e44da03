"""What a sweep leaves in the journal, so that a daemon that finds it can clean up.

One row a sweep: durable before the first step, changed in place as it goes, gone when it has ended
and owes no abort. The rule of what is done with a row that is found is ``after_crash.py``'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from edged.errors import Failed
from edged.store.journal import JournalEntry, JournalKind
from edged.work.journalling import Journalling, place_of
from edged.work.sweep import Sweep
from edged.work.units import unit_of_instrument

__all__ = ["SweepJournal"]

WRITTEN_EVERY_S: Final = 0.5
"""The journal writes a row so often at most (``store/journal.py``); steps run that far ahead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepJournal:
    """The journal as sweeps use it."""

    journal: Journalling

    async def begin(self, sweep: Sweep) -> None:
        """Before the first step.

        Raises:
            Failed: STORE_FAILED; the sweep must not begin.
        """
        thing = sweep.thing
        instrument = thing.instrument
        await self.journal.begin(
            JournalEntry(
                id=sweep.sweep_id,
                kind=JournalKind.SWEEP,
                instrument_id=instrument.id,
                unit=unit_of_instrument(instrument).key,
                payload={
                    **place_of(instrument),
                    "command": thing.command.name,
                    "parameter": thing.plan.parameter,
                    "unit": thing.parameter.unit,
                    "target": sweep.plan.target,
                    "rate": sweep.plan.rate_per_s,
                    "setpoint": thing.setpoint_query,
                    "abort": list(sweep.abort.lines),
                    "proofs": [proof.to_json() for proof in sweep.abort.proofs],
                    "last_step": sweep.confirmed,
                    "reach": sweep.plan.rate_per_s * WRITTEN_EVERY_S + sweep.plan.max_step,
                    "tolerance": sweep.tolerance,
                },
            )
        )

    async def note(self, sweep: Sweep, next_value: float, *, is_heartbeat: bool) -> None:
        """See ``sweep_ramp.Steps``."""
        await self.journal.update(
            sweep.sweep_id,
            {"last_step": next_value, "status": sweep.state.value},
            is_forced=is_heartbeat,
        )

    async def finish(self, sweep: Sweep) -> None:
        """It has ended and nothing is owed."""
        await self.journal.finish(sweep.sweep_id)

    async def owe(self, sweep: Sweep) -> None:
        """It has ended, and its abort has not arrived: the row stays, and says so if it can."""
        try:
            await self.journal.update(
                sweep.sweep_id, {"status": sweep.state.value, "error": sweep.error}, is_forced=True
            )
        except Failed:
            # What is on the disk already says enough to clean up by.
            return
