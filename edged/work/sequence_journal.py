"""What a sequence leaves in the journal: the lines of its ``finally`` steps, rendered beforehand.

Nothing is journalled for a sequence without ``finally`` steps: it leaves nothing to clean up.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from edged.clock import Clock
from edged.errors import Failed
from edged.instruments.pool import InstrumentPool
from edged.profiles.abort_proof import proofs_of
from edged.store.journal import JournalEntry, JournalKind
from edged.work.journalling import HEARTBEAT_S, Journalling, place_of
from edged.work.units import unit_of_instrument

__all__ = ["SequenceJournal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceJournal:
    """The journal as sequences use it."""

    journal: Journalling
    pool: InstrumentPool
    clock: Clock

    @contextlib.asynccontextmanager
    async def kept(
        self, run_id: str, instrument_id: str, sequence_name: str, lines: tuple[str, ...]
    ) -> AsyncIterator[None]:
        """A row while the sequence runs, its ``finally`` included; it hears that the run lives.

        Args:
            lines: what cleans up; empty where that depends on answers: then the profile's abort.

        Raises:
            Failed: STORE_FAILED; the sequence must not begin.
        """
        instrument = self.pool.get(instrument_id)
        profile = instrument.profile
        abort = profile.abort if profile is not None and not lines else ()
        proofs = proofs_of(profile, abort) if profile is not None else ()
        await self.journal.begin(
            JournalEntry(
                id=run_id,
                kind=JournalKind.SEQUENCE,
                instrument_id=instrument.id,
                unit=unit_of_instrument(instrument).key,
                payload={
                    **place_of(instrument),
                    "sequence": sequence_name,
                    "abort": list(lines or (step.send for step in abort)),
                    "proofs": [proof.to_json() for proof in proofs],
                },
            )
        )
        beat = asyncio.create_task(self._beat(run_id), name=f"{run_id}-beat")
        try:
            yield
        finally:
            beat.cancel()
            await asyncio.gather(beat, return_exceptions=True)
            await self.journal.finish(run_id)

    async def _beat(self, run_id: str) -> None:
        while True:
            await self.clock.sleep(HEARTBEAT_S)
            # Its writes are refused by then; what is on the disk says enough to clean up by.
            with contextlib.suppress(Failed):
                await self.journal.update(run_id, {}, is_forced=True)
