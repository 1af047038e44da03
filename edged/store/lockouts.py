"""Lockouts: which instruments must not be written to, by whose word, and why.

Hands are in the fixture: so a lockout is in force the moment it is asked for, also where it cannot
be written down, and is lifted only when that has been written down.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import asdict, astuple
from typing import Any, Final

from edged.changes import TOLD
from edged.clock import Clock
from edged.errors import ErrorCode, Failed, NotFound
from edged.record import record
from edged.store.database import Database
from edged.store.writer import Opening

SAVE: Final = (
    "INSERT OR REPLACE INTO lockout (instrument_id, unit, reason, locked_by, since_ms) "
    "VALUES (?, ?, ?, ?, ?)"
)
LOAD: Final = "SELECT instrument_id, unit, reason, locked_by, since_ms FROM lockout"
REMOVE: Final = "DELETE FROM lockout WHERE instrument_id = ?"


@record(kw_only=False)
class Lockout:
    """One instrument locked out.

    Attributes:
        unit: key of the physical instrument (``experience.unit_of``), so that it stays locked out
            under another address; empty when it was not known.
        since_ms: Unix epoch milliseconds.
    """

    instrument_id: str
    unit: str
    reason: str
    by: str
    since_ms: int

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


class Lockouts:
    """All lockouts, in memory and on disk.

    Args:
        database: where they are kept; they attach themselves.
        clock: for since when.

    Attributes:
        changes: how often they have changed in this life of the daemon.
        locked: by instrument id; replaced whole, so that any thread may read it.
    """

    def __init__(self, *, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._watchers: list[Callable[[], None]] = []
        self.changes = 0
        self.locked: dict[str, Lockout] = {}
        self._is_loaded = False
        # On their way out: a group that saves all must not bring them back.
        self._clearing: set[str] = set()
        self._flag = database.attach(self)

    async def lock(self, instrument_id: str, *, unit: str, reason: str, by: str) -> Lockout:
        """Lock an instrument out; a second lockout of it replaces the first.

        Raises:
            Failed: STORE_FAILED, it could not be written down. It is in force all the same, and is
                written when the database heals.
        """
        lockout = Lockout(instrument_id, unit, reason, by, self._clock.wall_ms())
        self._replace({**self.locked, instrument_id: lockout})
        self._flag.is_raised = True
        await self._database.write(lambda connection: connection.execute(SAVE, astuple(lockout)))
        return lockout

    async def clear(self, instrument_id: str) -> Lockout:
        """Lift a lockout.

        Raises:
            NotFound: UNKNOWN_INSTRUMENT, it is not locked out.
            Failed: STORE_FAILED, that could not be written down; it stays locked out.
        """
        lockout = self.locked.get(instrument_id)
        if lockout is None:
            raise NotFound(
                f"{instrument_id} is not locked out.",
                code=ErrorCode.UNKNOWN_INSTRUMENT,
                data={"instrument_id": instrument_id, "locked_out": sorted(self.locked)},
            )
        self._clearing.add(instrument_id)
        try:
            await self._database.write(
                lambda connection: connection.execute(REMOVE, (instrument_id,))
            )
        except (asyncio.CancelledError, Failed):
            # The row may be gone, or go yet, where the disk was slow: write it again, for it holds.
            self._clearing.discard(instrument_id)
            self._flag.is_raised = True
            self._database.nudge()
            raise
        finally:
            self._clearing.discard(instrument_id)
        if self.locked.get(instrument_id) is lockout:
            self._replace({key: kept for key, kept in self.locked.items() if key != instrument_id})
        # Else somebody has locked it out anew while this was written: that one holds.
        return lockout

    def find(self, instrument_id: str, unit: str = "") -> Lockout | None:
        """The lockout of an instrument, by its id or, under whatever address, by its unit.

        Units are compared without regard to case: a unit may spell its maker in two ways.
        """
        locked = self.locked
        if not locked:
            return None
        if (found := locked.get(instrument_id)) is not None:
            return found
        wanted = unit.casefold()
        return next(
            (lock for lock in locked.values() if wanted and lock.unit.casefold() == wanted), None
        )

    def all(self) -> tuple[Lockout, ...]:
        """All of them, oldest first."""
        return tuple(sorted(self.locked.values(), key=lambda lockout: lockout.since_ms))

    def subscribe(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call ``watcher`` on the loop at each change; the result ends that."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def _replace(self, locked: dict[str, Lockout]) -> None:
        self.locked = locked
        self.changes += 1
        TOLD.note()
        for watcher in tuple(self._watchers):
            watcher()

    # What the store thread calls: the Book.

    def load(self, connection: sqlite3.Connection, opening: Opening) -> None:
        """See ``Book``. What is in force is never forgotten for what a file says."""
        if self._is_loaded:
            if opening.is_fresh:
                self._flag.is_raised = True
            return
        stored = _by_id(connection.execute(LOAD).fetchall())
        copied = _by_id(opening.copied.lockouts if opening.copied else ())
        if copied.keys() - stored.keys():
            self._flag.is_raised = True
        self.locked = copied | stored | self.locked
        TOLD.note()
        self._is_loaded = True

    def write(self, connection: sqlite3.Connection, *, is_last: bool) -> None:  # noqa: ARG002
        staying = [lock for key, lock in self.locked.items() if key not in self._clearing]
        connection.executemany(SAVE, map(astuple, staying))


def _by_id(rows: Iterable[tuple[Any, ...]]) -> dict[str, Lockout]:
    return {
        key: Lockout(key, unit, reason, by, since_ms if isinstance(since_ms, int) else 0)
        for key, unit, reason, by, since_ms in rows
    }
