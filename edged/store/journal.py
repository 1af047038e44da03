"""The journal: sweeps and sequences that must be cleaned up if the daemon dies.

One row for each that is under way, changed in place as it goes, gone when it has ended well. What
``unfinished`` gives after a start is what a former life left behind.

A row of the journal, and how rows are read where nothing else of the store is needed.

After a crash the rows are wanted before the store has opened, migrated or mended its database: what
they say is acted on at once (``engine/life.py``), and the store finds them again later.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final

from edged.clock import Clock
from edged.errors import Failed
from edged.record import record
from edged.store.database import Database
from edged.store.file import open_database
from edged.store.head_mark import head_mark_of
from edged.store.safety_copy import HEAD, SAFETY_FILE, Copied, read_copy
from edged.store.writer import Opening

LOAD: Final = (
    "SELECT id, kind, instrument_id, unit, begun_ms, updated_ms, payload FROM journal "
    "ORDER BY begun_ms"
)


class JournalKind(enum.StrEnum):
    """What is under way."""

    SWEEP = "sweep"
    SEQUENCE = "sequence"
    EXPERIMENT = "experiment"


@record
class JournalEntry:
    """One thing under way.

    Attributes:
        id: of the sweep or sequence run.
        unit: key of the physical instrument (``experience.unit_of``), to know it again.
        payload: JSON-ready: whatever its owner needs to clean up (last step, rendered abort…).
        begun_ms, updated_ms: Unix epoch milliseconds; the journal sets them.
    """

    id: str
    kind: JournalKind
    instrument_id: str
    unit: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)
    begun_ms: int = 0
    updated_ms: int = 0

    @property
    def is_of_run(self) -> bool:
        """Where a run of several units stood: it is of none of them, and nothing is sent for it."""
        return self.payload.get("run") == self.id


def entry_of(row: tuple[Any, ...]) -> JournalEntry:
    """From a row; a payload that somebody has spoiled is empty, and its owner sees that."""
    entry_id, kind, instrument_id, unit, begun_ms, updated_ms, text = row
    try:
        payload = json.loads(text)
    except (TypeError, ValueError):
        payload = {}
    return JournalEntry(
        id=entry_id,
        kind=JournalKind(kind) if kind in set(JournalKind) else JournalKind.SEQUENCE,
        instrument_id=instrument_id,
        unit=unit,
        begun_ms=begun_ms if isinstance(begun_ms, int) else 0,
        updated_ms=updated_ms if isinstance(updated_ms, int) else 0,
        payload=payload if isinstance(payload, dict) else {},
    )


def left_by(
    rows: Iterable[tuple[Any, ...]],
    *,
    head: int,
    copied: Copied | None,
    mark: tuple[int, bytes] | None,
) -> dict[str, JournalEntry]:
    """What a former life left, by ids, oldest first: by the database and by its second copy.

    What either of them has is looked after. But a database that the record had come past has lost
    rows, and may lack that something had ended: then the copy is right.

    Args:
        rows: of the database's journal, as ``LOAD`` gives them.
        head: the number of the database's newest row in the audit.
        copied: the copy, if there is one; it tells how far the record had come when it was made.
        mark: tells how far it had come at last.
    """
    stored = {entry.id: entry for entry in map(entry_of, rows)}
    if copied is None:
        return stored
    left = {entry.id: entry for entry in map(entry_of, copied.journal)}
    if head >= max(copied.head, mark[0] if mark else 0):
        left |= stored
    return dict(sorted(left.items(), key=lambda item: item[1].begun_ms))


def read_left(path: Path) -> tuple[JournalEntry, ...]:
    """What a former life left in the database at ``path``, oldest first; changes nothing there.

    Where that cannot be read the copy beside it has to do: the store knows more ways to read a file
    than this.
    """
    rows: list[tuple[Any, ...]] = []
    head = 0
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(open_database(path, "mode=ro")) as connection,
    ):
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        rows = connection.execute(LOAD).fetchall()
        (head,) = connection.execute(HEAD).fetchone()
    copied = read_copy(path.with_name(SAFETY_FILE))
    left = left_by(rows, head=head, copied=copied, mark=head_mark_of(path).read())
    return tuple(left.values())


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
        self._flag = database.attach(self, settle=self.settle)

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
            self._remove_soon(begun.id)
            raise
        self._open[begun.id] = begun
        return begun

    async def update(
        self,
        entry_id: str,
        changes: Mapping[str, Any],
        *,
        is_forced: bool = False,
        is_durable: bool = False,
    ) -> None:
        """Put changes into the payload; written at most every half second unless forced.

        What is not written at once goes along with the next update. The row reaches the disk
        without a sync, so a killed daemon loses nothing and a power failure the last seconds.

        Args:
            is_durable: it is written now, and synced when this returns.

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
        is_forced = is_forced or is_durable
        if not is_forced and now - self._written_at.get(entry_id, -UPDATE_EVERY_S) < UPDATE_EVERY_S:
            return
        await self._save(changed, is_durable=is_durable)

    async def finish(self, entry_id: str) -> None:
        """Remove the row: it ended, or was cleaned up. Never raises; retried until it is done.

        Waits for the disk for a moment only: who stops everything finishes many.
        """
        self._open.pop(entry_id, None)
        self._left.pop(entry_id, None)
        self._written_at.pop(entry_id, None)
        try:
            # A job, because it comes behind an update that waits.
            await self._database.write(
                lambda connection: connection.execute(REMOVE, (entry_id,)),
                within_s=FINISH_WITHIN_S,
            )
        except (asyncio.CancelledError, Failed) as failure:
            # The row goes with a later group, once the database heals.
            self._remove_soon(entry_id)
            if not isinstance(failure, Failed):
                raise

    def unfinished(self) -> tuple[JournalEntry, ...]:
        """What a former life of the daemon left under way, oldest first, less what was finished."""
        return tuple(self._left.values())

    def _remove_soon(self, entry_id: str) -> None:
        self._finished.add(entry_id)
        self._flag.is_raised = True
        self._database.nudge()

    async def _save(self, entry: JournalEntry, *, is_durable: bool) -> None:
        values = _values(entry)
        await self._database.write(
            lambda connection: connection.execute(SAVE, values), is_durable=is_durable
        )
        self._written_at[entry.id] = self._clock.monotonic()

    # What the store thread calls: the Book.

    def load(self, connection: sqlite3.Connection, opening: Opening) -> None:
        if self._is_loaded:
            if opening.is_fresh:
                self._must_restore = self._flag.is_raised = True
            return
        rows = connection.execute(LOAD).fetchall()
        (head,) = connection.execute(HEAD).fetchone()
        self._left = left_by(rows, head=head, copied=opening.copied, mark=opening.mark)
        stored = {row[0] for row in rows}
        self._must_restore = bool(self._left.keys() - stored)
        # Of what had ended when the copy was made, and whose end the database has lost.
        self._finished.update(stored - self._left.keys())
        if self._finished or self._must_restore:
            self._flag.is_raised = True
        self._is_loaded = True

    def write(self, connection: sqlite3.Connection, *, is_last: bool) -> None:  # noqa: ARG002
        if self._must_restore:
            under_way = [*list(self._left.values()), *list(self._open.values())]
            connection.executemany(SAVE, map(_values, under_way))
        self._removing = tuple(self._finished)
        connection.executemany(REMOVE, [(entry_id,) for entry_id in self._removing])

    def settle(self, *, is_committed: bool) -> None:
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
