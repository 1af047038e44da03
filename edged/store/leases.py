"""Leases and their fences on disk: who has which unit outlives the daemon.

A grant and an end go to disk before they are told. What a renewal changes goes along with the next
rows: a crash in between shortens a lease, and never lengthens it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping
from typing import Any, Final

from edged.sharing.leases import Lease, Moment
from edged.store.database import Database
from edged.store.writer import Opening

LOAD: Final = "SELECT payload FROM lease"
LOAD_FENCES: Final = "SELECT unit, fence FROM fence"
REMOVE_ALL: Final = "DELETE FROM lease"
SAVE: Final = "INSERT INTO lease (lease_id, payload) VALUES (?, ?)"
SAVE_FENCE: Final = "INSERT OR REPLACE INTO fence (unit, fence) VALUES (?, ?)"


class LeaseRows:
    """What is kept of all leases. All but the ``Book``'s methods belong to the loop.

    Args:
        database: where they are kept; they attach themselves.

    Attributes:
        left: what a former life left, once the database was read; clocks may have jumped since.
        left_fences: the last fence of each unit that was ever leased.
    """

    def __init__(self, *, database: Database) -> None:
        self._database = database
        self.left: tuple[Lease, ...] = ()
        self.left_fences: Mapping[str, int] = {}
        # Replaced whole, so that the store thread may read them.
        self._leases: tuple[Lease, ...] = ()
        self._fences: Mapping[str, int] = {}
        self._is_loaded = False
        self._flag = database.attach(self)

    def note(self, leases: Collection[Lease], fences: Mapping[str, int]) -> None:
        """These are all there are now; written with the next rows that are. Never waits."""
        self._leases, self._fences = tuple(leases), dict(fences)
        self._flag.is_raised = True

    async def keep(self, leases: Collection[Lease], fences: Mapping[str, int]) -> None:
        """The same, and they are on disk when this returns.

        Raises:
            Failed: STORE_FAILED; they are written when the database heals.
        """
        self.note(leases, fences)
        await self._database.write(lambda _connection: None)

    # What the store thread calls: the Book.

    def load(self, connection: sqlite3.Connection, opening: Opening) -> None:
        if self._is_loaded:
            if opening.is_fresh:
                self._flag.is_raised = True
            return
        rows = connection.execute(LOAD).fetchall()
        self.left = tuple(lease for (text,) in rows if (lease := _read(text)) is not None)
        fences = connection.execute(LOAD_FENCES).fetchall()
        self.left_fences = {str(unit): fence for unit, fence in fences if isinstance(fence, int)}
        self._is_loaded = True

    def write(self, connection: sqlite3.Connection, *, is_last: bool) -> None:  # noqa: ARG002
        """See ``Book``. There are few: all are written anew."""
        connection.execute(REMOVE_ALL)
        connection.executemany(SAVE, [(one.lease_id, _written(one)) for one in self._leases])
        connection.executemany(SAVE_FENCE, list(self._fences.items()))


def _written(lease: Lease) -> str:
    told = {
        "units": lease.units,
        "holder_key": lease.holder_key,
        "who": lease.who,
        "purpose": lease.purpose,
        "ttl_s": lease.ttl_s,
        "fence": lease.fence,
        "granted_ms": lease.granted_ms,
        "until": [lease.until.monotonic_s, lease.until.wall_ms],
        "last": [lease.last.monotonic_s, lease.last.wall_ms],
        "lease_id": lease.lease_id,
        "run_id": lease.run_id,
    }
    return json.dumps(told, separators=(",", ":"))


def _read(text: object) -> Lease | None:
    """A row; one that somebody has spoiled is none."""
    try:
        told: dict[str, Any] = json.loads(str(text))
        return Lease(
            lease_id=str(told["lease_id"]),
            units=tuple(str(unit) for unit in told["units"]),
            holder_key=str(told["holder_key"]),
            who=str(told["who"]),
            purpose=str(told["purpose"]),
            ttl_s=float(told["ttl_s"]),
            fence=int(told["fence"]),
            granted_ms=int(told["granted_ms"]),
            until=Moment(float(told["until"][0]), int(told["until"][1])),
            last=Moment(float(told["last"][0]), int(told["last"][1])),
            run_id=str(told.get("run_id", "")),
        )
    except (ValueError, KeyError, TypeError, IndexError):
        return None
