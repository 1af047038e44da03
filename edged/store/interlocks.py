"""When each interlock has tripped last, on disk: a restart shortens no cool-down."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping
from typing import Final

from edged.record import record
from edged.sharing.leases import Moment
from edged.store.database import Database
from edged.store.writer import Opening

LOAD: Final = "SELECT name, reason, tripped_ms, monotonic_s FROM interlock_trip"
REMOVE_ALL: Final = "DELETE FROM interlock_trip"
SAVE: Final = (
    "INSERT INTO interlock_trip (name, reason, tripped_ms, monotonic_s) VALUES (?, ?, ?, ?)"
)


@record(kw_only=False)
class InterlockTrip:
    """The last trip of an interlock."""

    reason: str
    at: Moment


class TripRows:
    """The last trip of each interlock. All but the ``Book``'s methods belong to the loop.

    Args:
        database: where they are kept; they attach themselves.

    Attributes:
        trips: by the interlock's name; replaced whole.
    """

    def __init__(self, *, database: Database) -> None:
        self._database = database
        self.trips: Mapping[str, InterlockTrip] = {}
        self._is_loaded = False
        self._flag = database.attach(self)

    def note(self, trips: Mapping[str, InterlockTrip]) -> None:
        """These are the last trips from now on. Never raises, never waits."""
        self.trips = dict(trips)
        self._flag.is_raised = True
        self._database.nudge(is_soon=True)

    async def keep(self) -> None:
        """All that was noted is on disk when this returns.

        Raises:
            Failed: STORE_FAILED; it is written when the database heals.
        """
        await self._database.write(lambda _connection: None)

    # What the store thread calls: the Book.

    def load(self, connection: sqlite3.Connection, opening: Opening) -> None:
        if self._is_loaded:
            if opening.is_fresh:
                self._flag.is_raised = True
            return
        rows = connection.execute(LOAD).fetchall()
        self.trips = {
            str(name): InterlockTrip(str(why), _moment(wall_ms, monotonic_s))
            for name, why, wall_ms, monotonic_s in rows
            if isinstance(wall_ms, int)
        }
        self._is_loaded = True

    def write(self, connection: sqlite3.Connection, *, is_last: bool) -> None:  # noqa: ARG002
        """See ``Book``. There are few: all are written anew."""
        connection.execute(REMOVE_ALL)
        rows = [
            (name, trip.reason, trip.at.wall_ms, trip.at.monotonic_s)
            for name, trip in self.trips.items()
        ]
        connection.executemany(SAVE, rows)


def _moment(wall_ms: int, monotonic_s: object) -> Moment:
    """One of before the machine's scale was kept is judged by the wall's clock alone."""
    return Moment(monotonic_s if isinstance(monotonic_s, float) else math.inf, wall_ms)
