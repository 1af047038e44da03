"""What runs leave in the journal, so that a daemon that finds a row can clean up.

One row a run: durable before its first step, changed in place as it goes, gone when it has ended
and owes nothing. A row says who began it, which unit it was, where it answered, and the lines that
make it safe; the rule of what is done with a row that is found is ``left_work.py``'s.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Final

from edged.actions.caller import Caller
from edged.clock import Clock
from edged.errors import Failed
from edged.instruments.instrument import Instrument
from edged.profiles.format.connection_facts import connection_facts
from edged.record import record
from edged.runs.run import Run
from edged.runs.units import unit_of_instrument
from edged.store.journal import Journal, JournalEntry, JournalKind

HEARTBEAT_S: Final = 20.0
"""How often the journal hears of work that has nothing to write: its age is what counts after a
crash (ABORT_AFTER_CRASH_SEC)."""


def work_of(caller: Caller, instrument: Instrument) -> dict[str, Any]:
    """Who began it, where the instrument answered, and how to speak to it there."""
    return {
        "caller": caller.to_json(),
        "alias": instrument.alias,
        "address": instrument.address,
        "profile": instrument.profile.key if instrument.profile else "",
        "connection": connection_facts(instrument.connection),
    }


@record
class RunJournal:
    """The journal as runs use it."""

    journal: Journal
    clock: Clock

    async def begin(
        self, run: Run, instrument: Instrument, payload: Mapping[str, Any], row: str = ""
    ) -> None:
        """Before the first step.

        Args:
            payload: what the clean-up needs besides: ``abort`` (lines) and ``proofs``.
            row: its id, where a run has several.

        Raises:
            Failed: STORE_FAILED; the run must not begin.
        """
        await self.journal.begin(
            JournalEntry(
                id=row or run.run_id,
                kind=JournalKind(run.kind.value),
                instrument_id=instrument.id,
                unit=unit_of_instrument(instrument).key,
                payload={**work_of(run.caller, instrument), **payload},
            )
        )

    async def note(self, run: Run, changes: Mapping[str, Any], *, is_forced: bool = False) -> None:
        """Change the row; see ``Journal.update``.

        Raises:
            Failed: STORE_FAILED.
        """
        await self.journal.update(run.run_id, changes, is_forced=is_forced)

    async def finish(self, run: Run, rows: Iterable[str] = ()) -> None:
        """It has ended: its rows go, but for those of an abort that is not done."""
        undone = {"pending", "given_up"}
        owed = {report.row for report in run.aborts.values() if report.state in undone}
        for row in dict.fromkeys([*rows, *(report.row for report in run.aborts.values())]):
            if row not in owed:
                await self.journal.finish(row)

    @contextlib.asynccontextmanager
    async def beating(
        self, run: Run, rows: Callable[[], Mapping[str, Mapping[str, Any]]]
    ) -> AsyncIterator[None]:
        """Meanwhile the rows hear that the run lives; they go afterwards (``finish``).

        Args:
            rows: by the id of each, what is written into it each time.
        """
        beat = asyncio.create_task(self._beat(rows), name=f"{run.run_id}-beat")
        try:
            yield
        finally:
            beat.cancel()
            await asyncio.gather(beat, return_exceptions=True)
            await self.finish(run, rows())

    async def _beat(self, rows: Callable[[], Mapping[str, Mapping[str, Any]]]) -> None:
        while True:
            await self.clock.sleep(HEARTBEAT_S)
            for row, changes in rows().items():
                # Its writes are refused by then; what is on the disk says enough to clean up by.
                with contextlib.suppress(Failed):
                    await self.journal.update(row, changes, is_forced=True)
