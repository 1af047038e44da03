"""The journal: sweeps and sequences that must be cleaned up if the daemon dies.

One row for each that is under way, changed in place as it goes, gone when it has ended well. What
``unfinished`` gives after a start is what a former life left behind.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from edged.clock import Clock
from edged.errors import Failed
from edged.store.book import Opening
from edged.store.database import Database
from edged.store.journal_row import LOAD, JournalEntry, JournalKind, left_by
from edged.store.safety_copy import HEAD

__all__ = ["Journal", "JournalEntry", "JournalKind"]

UPDATE_EVERY_S: Final = 0.5
"""How often one row is written at most: SD cards wear out."""
FINISH_WITHIN_S: Final = 0.25
SAVE: Final = (
    "INSERT OR REPLACE INTO journal (id, kind, instrument_id, unit, begun_ms, updated_ms, payload) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)
REMOVE: Final = "DELETE FROM journal WHERE id = ?"


class Journal:
    """What is under way, on disk.

    Args:
        database: where it is kept; the journal attaches itself.
        clock: for ages, and for how often a row is written.
    """

    def __init__(self, *, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        # All touched on the loop; the store thread replaces ``_left`` once, while it loads.
        self._open: dict[str, JournalEntry] = {}
        self._left: dict[str, JournalEntry] = {}
        self._written_at: dict[str, float] = {}
        # Ids whose rows must still go, though the disk would not have it.
        self._finished: set[str] = set()
        # The store thread's own.
        self._is_loaded = False
        self._must_restore = False
        self._removing: tuple[str, ...] = ()
        database.attach(self)

    async def begin(self, entry: JournalEntry) -> JournalEntry:
        """Write the row, synced to disk.

        Returns:
            The entry with its times.

        Raises:
            Failed: STORE_FAILED; what it stands for must not begin.
        """
        now_ms = self._clock.wall_ms()
        begun = replace(entry, begun_ms=now_ms, updated_ms=now_ms)
        try:
            await self._save(begun, is_durable=True)
        except (asyncio.CancelledError, Failed):
            # The row may be on disk already: it must not be found there by the next life.
            self._finished.add(begun.id)
            self._database.nudge()
            raise
        self._open[begun.id] = begun
        return begun

    async def update(
        self, entry_id: str, changes: Mapping[str, Any], *, is_forced: bool = False
    ) -> None:
        """Put changes into the payload; written at most every half second unless forced.

        What is not written at once goes along with the next update. The row reaches the disk
        without a sync, so a killed daemon loses nothing and a power failure the last seconds.

        Raises:
            Failed: STORE_FAILED; the sweep whose step cannot be journalled must hold.
        """
        entry = self._open.get(entry_id) or self._left.get(entry_id)
        if entry is None:
            return
        changed = replace(
            entry, payload={**entry.payload, **changes}, updated_ms=self._clock.wall_ms()
        )
        (self._open if entry_id in self._open else self._left)[entry_id] = changed
        now = self._clock.monotonic()
        if not is_forced and now - self._written_at.get(entry_id, -UPDATE_EVERY_S) < UPDATE_EVERY_S:
            return
        await self._save(changed, is_durable=False)

    async def finish(self, entry_id: str) -> None:
        """Remove the row: it ended, or was cleaned up. Never raises; retried until it is done.

        Waits for the disk for a moment only: who stops everything finishes many.
        """
        self._open.pop(entry_id, None)
        self._left.pop(entry_id, None)
        self._written_at.pop(entry_id, None)
        self._finished.add(entry_id)
        try:
            await self._database.write(
                lambda connection: connection.execute(REMOVE, (entry_id,)),
                within_s=FINISH_WITHIN_S,
            )
        except Failed:
            # The row goes with a later group, once the database heals.
            self._database.nudge()
        else:
            self._finished.discard(entry_id)

    def unfinished(self) -> tuple[JournalEntry, ...]:
        """What a former life of the daemon left under way, oldest first, less what was finished."""
        return tuple(self._left.values())

    async def _save(self, entry: JournalEntry, *, is_durable: bool) -> None:
        values = _values(entry)
        await self._database.write(
            lambda connection: connection.execute(SAVE, values), is_durable=is_durable
        )
        self._written_at[entry.id] = self._clock.monotonic()

    # What the store thread calls: the Book.

    @property
    def is_waiting(self) -> bool:
        """See ``Book``."""
        return bool(self._finished) or self._must_restore

    def load(self, connection: sqlite3.Connection, opening: Opening) -> None:
        """See ``Book``."""
        if self._is_loaded:
            self._must_restore = self._must_restore or opening.is_fresh
            return
        rows = connection.execute(LOAD).fetchall()
        (head,) = connection.execute(HEAD).fetchone()
        self._left = left_by(rows, head=head, copied=opening.copied, mark=opening.mark)
        stored = {row[0] for row in rows}
        self._must_restore = bool(self._left.keys() - stored)
        # Of what had ended when the copy was made, and whose end the database has lost.
        self._finished.update(stored - self._left.keys())
        self._is_loaded = True

    def write(self, connection: sqlite3.Connection, *, is_last: bool) -> None:  # noqa: ARG002
        """See ``Book``."""
        if self._must_restore:
            under_way = [*list(self._left.values()), *list(self._open.values())]
            connection.executemany(SAVE, map(_values, under_way))
        self._removing = tuple(self._finished)
        connection.executemany(REMOVE, [(entry_id,) for entry_id in self._removing])

    def settle(self, *, is_committed: bool) -> None:
        """See ``Book``."""
        if is_committed:
            self._must_restore = False
            self._finished.difference_update(self._removing)
        self._removing = ()


def _values(entry: JournalEntry) -> tuple[Any, ...]:
    return (
        entry.id,
        entry.kind.value,
        entry.instrument_id,
        entry.unit,
        entry.begun_ms,
        entry.updated_ms,
        json.dumps(dict(entry.payload), separators=(",", ":")),
    )
