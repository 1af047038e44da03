"""What is done, before any scan, about work that a former life of the daemon left under way.

Most of it has been done by then: ``engine/life.py`` visits what the journal tells how to
speak to before the daemon is loaded. What is left for here is what that could not visit, the
journal's rows, and telling the audit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import field

import structlog

from edged.record import record
from edged.runs.bench import Bench
from edged.runs.left_work import Clean, LeftWork, Visit, make_safe

log = structlog.get_logger("edged.after_crash")


@record(frozen=False)
class AfterCrash:
    """Cleans up once, at the start of the daemon.

    Attributes:
        visited: what has been visited in this life already, by the ids of journal entries.
    """

    bench: Bench
    visit: Visit
    visited: Mapping[str, LeftWork]
    found: list[LeftWork] = field(default_factory=list)

    async def clean_up(self) -> None:
        """Visit what was left, all at once; never raises an ``EdgedError``."""
        left = self.bench.store.journal.unfinished()
        self.found = [self.visited.get(entry.id) or LeftWork(entry=entry) for entry in left]
        await asyncio.gather(*map(self._clean_up, self.found))

    async def made_safe(self, unit: str, *, instrument_id: str = "") -> None:
        """A person has had this unit made safe: what it was left with is done.

        It may answer at another address by now, and at its old one another unit.

        Args:
            instrument_id: given where others tell the same of themselves: then only what was left
                under this id is the unit's for certain.
        """
        for left in self.found:
            is_its = instrument_id in ("", left.entry.instrument_id)
            if left.needs_attention and left.entry.unit == unit and is_its:
                left.done, left.at_ms = Clean.ABORTED, self.bench.clock.wall_ms()
                await self.bench.store.journal.finish(left.entry.id)

    async def _clean_up(self, left: LeftWork) -> None:
        entry = left.entry
        if entry.is_of_run:
            # Until it goes on, or is ended.
            return
        if entry.id not in self.visited:
            await make_safe(
                left, self.visit, self.bench.clock, self.bench.config.abort_after_crash_sec
            )
        if left.needs_attention:
            log.error("work_left_alone", id=entry.id, reason=left.reason)
        else:
            log.warning("work_cleaned_up", id=entry.id, scpi=entry.payload.get("abort"))
            await self.bench.store.journal.finish(entry.id)
        self.bench.tell(
            f"{entry.kind.value}.after_crash",
            f"{entry.id}: {left.error}"[:500],
            entry.instrument_id,
            "crash recovery",
        )
