"""What the guards of writes keep on disk: leases, trips of interlocks, budgets, used approvals.

No restart gives anything of it back. The key of approvals lies beside the database.
"""

from __future__ import annotations

import json
import math
import secrets
import sqlite3
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final

from edged.errors import ErrorCode, Failed
from edged.files import keep_secret
from edged.guards.budgets import Key, SpentBudget
from edged.record import record
from edged.sharing.leases import Lease, Moment
from edged.sharing.request_state import KEY_BYTES
from edged.store.database import Database, FewRows
from edged.store.writer import Opening

KEY_FILE: Final = "approval.key"
DROP_OLD: Final = "DELETE FROM spent_state WHERE until_ms < ?"
SPEND: Final = "INSERT OR IGNORE INTO spent_state (approval_id, until_ms) VALUES (?, ?)"
LOAD_BUDGETS: Final = "SELECT unit, command, payload FROM budget"
SAVE_BUDGET: Final = "INSERT OR REPLACE INTO budget (unit, command, payload) VALUES (?, ?, ?)"
REMOVE_BUDGET: Final = "DELETE FROM budget WHERE unit = ? AND command = ?"


class LeaseRows:
    """All leases and their fences: who has which unit outlives the daemon.

    A grant and an end go to disk before they are told. What a renewal changes goes along with the
    next rows: a crash in between shortens a lease, and never lengthens it.

    Args:
        database: where they are kept.

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
        self._tables = (
            FewRows(
                database,
                "lease",
                ("lease_id", "payload"),
                take=self._take_leases,
                rows=lambda: [(one.lease_id, _lease_text(one)) for one in self._leases],
            ),
            FewRows(
                database,
                "fence",
                ("unit", "fence"),
                take=self._take_fences,
                rows=lambda: self._fences.items(),
            ),
        )

    def note(self, leases: Collection[Lease], fences: Mapping[str, int]) -> None:
        """These are all there are now; written with the next rows that are. Never waits."""
        self._leases, self._fences = tuple(leases), dict(fences)
        for table in self._tables:
            table.changed()

    async def keep(self, leases: Collection[Lease], fences: Mapping[str, int]) -> None:
        """The same, and they are on disk when this returns.

        Raises:
            Failed: STORE_FAILED; they are written when the database heals.
        """
        self.note(leases, fences)
        await self._database.keep()

    def _take_leases(self, rows: list[tuple[Any, ...]]) -> None:
        self.left = tuple(lease for _, text in rows if (lease := _lease_of(text)) is not None)

    def _take_fences(self, rows: list[tuple[Any, ...]]) -> None:
        self.left_fences = {str(unit): fence for unit, fence in rows if isinstance(fence, int)}


_PLAIN: Final[Mapping[str, Callable[[Any], Any]]] = {
    "lease_id": str, "holder_key": str, "who": str, "purpose": str, "ttl_s": float, "fence": int,
    "granted_ms": int,
}  # fmt: skip
"""Fields of a lease that are kept as they are, and their types."""


def _lease_text(lease: Lease) -> str:
    told = {name: getattr(lease, name) for name in ("units", "run_id", *_PLAIN)}
    for name, at in (("until", lease.until), ("last", lease.last)):
        told[name] = [at.monotonic_s, at.wall_ms]
    return json.dumps(told, separators=(",", ":"))


def _lease_of(text: object) -> Lease | None:
    """A row; one that somebody has spoiled is none."""
    try:
        told: dict[str, Any] = json.loads(str(text))
        return Lease(
            **{name: kind(told[name]) for name, kind in _PLAIN.items()},
            units=tuple(str(unit) for unit in told["units"]),
            until=Moment(float(told["until"][0]), int(told["until"][1])),
            last=Moment(float(told["last"][0]), int(told["last"][1])),
            run_id=str(told.get("run_id", "")),
        )
    except (ValueError, KeyError, TypeError, IndexError):
        return None


@record(kw_only=False)
class InterlockTrip:
    """The last trip of an interlock."""

    reason: str
    at: Moment


class TripRows:
    """The last trip of each interlock: a restart shortens no cool-down.

    Args:
        database: where they are kept.

    Attributes:
        trips: by the interlock's name; replaced whole.
    """

    def __init__(self, *, database: Database) -> None:
        self._database = database
        self.trips: Mapping[str, InterlockTrip] = {}
        columns = ("name", "reason", "tripped_ms", "monotonic_s")
        self._table = FewRows(database, "interlock_trip", columns, take=self._take, rows=self._rows)

    def note(self, trips: Mapping[str, InterlockTrip]) -> None:
        """These are the last trips from now on. Never raises, never waits."""
        self.trips = dict(trips)
        self._table.changed()
        self._database.nudge(is_soon=True)

    async def keep(self) -> None:
        """All that was noted is on disk when this returns.

        Raises:
            Failed: STORE_FAILED; it is written when the database heals.
        """
        await self._database.keep()

    def _take(self, rows: list[tuple[Any, ...]]) -> None:
        """One of before the machine's scale was kept is judged by the wall's clock alone."""
        self.trips = {
            str(name): InterlockTrip(
                str(why), Moment(clock_s if isinstance(clock_s, float) else math.inf, wall_ms)
            )
            for name, why, wall_ms, clock_s in rows
            if isinstance(wall_ms, int)
        }

    def _rows(self) -> list[tuple[Any, ...]]:
        return [
            (name, trip.reason, trip.at.wall_ms, trip.at.monotonic_s)
            for name, trip in self.trips.items()
        ]


class BudgetRows:
    """What was spent of the owner's budgets: one row a command of a unit.

    Args:
        database: where they are kept; they attach themselves.

    Attributes:
        left: what a former life left, once the database was read.
    """

    def __init__(self, *, database: Database) -> None:
        self._database = database
        self.left: Mapping[Key, SpentBudget] = {}
        self._lock = threading.Lock()
        # What has changed and is not on disk; ``None``: nothing is left of it.
        self._changed: dict[Key, SpentBudget | None] = {}
        self._writing: dict[Key, SpentBudget | None] = {}
        self._is_loaded = False
        self._flag = database.attach(self, settle=self.settle)

    def note(self, changed: Mapping[Key, SpentBudget | None]) -> None:
        """Written with the next rows that are, and soon. Never waits; any thread may call it."""
        with self._lock:
            self._changed.update(changed)
        self._flag.is_raised = True
        self._database.nudge()

    async def keep(self) -> None:
        """All that was noted is on disk when this returns.

        Raises:
            Failed: STORE_FAILED; nothing must be sent that was not counted.
        """
        await self._database.keep()

    # What the store thread calls: the Book.

    def load(self, connection: sqlite3.Connection, opening: Opening) -> None:
        del opening
        if self._is_loaded:
            return
        rows = connection.execute(LOAD_BUDGETS).fetchall()
        self.left = {(str(u), str(c)): left for u, c, text in rows if (left := _spent_of(text))}
        self._is_loaded = True

    def write(self, connection: sqlite3.Connection, *, is_last: bool) -> None:  # noqa: ARG002
        with self._lock:
            self._writing, self._changed = self._changed, {}
        for key, left in self._writing.items():
            if left is None:
                connection.execute(REMOVE_BUDGET, key)
            else:
                connection.execute(SAVE_BUDGET, (*key, _spent_text(left)))

    def settle(self, *, is_committed: bool) -> None:
        if not is_committed:
            with self._lock:
                self._changed = {**self._writing, **self._changed}
        self._writing = {}


def _spent_text(left: SpentBudget) -> str:
    times = [[round(one.monotonic_s, 3), one.wall_ms] for one in left.spent]
    return json.dumps({"spent": times, "reserved": left.reserved}, separators=(",", ":"))


def _spent_of(text: object) -> SpentBudget | None:
    """A row; one that somebody has spoiled is none."""
    try:
        told = json.loads(str(text))
        spent = tuple(Moment(float(mono), int(wall)) for mono, wall in told["spent"])
        return SpentBudget(spent, int(told["reserved"]))
    except (ValueError, KeyError, TypeError):
        return None


def keep_key(state_dir: Path) -> bytes:
    """The key of this STATE_DIR for approvals, made where there is none; only its owner reads it.

    Raises:
        Failed: STORE_FAILED, it can neither be read nor made.
    """
    path = state_dir / KEY_FILE
    try:
        # After a spoiled key was replaced, what is pending is asked for again.
        return keep_secret(
            path,
            of=lambda held: held if len(held) == KEY_BYTES else b"",
            make=lambda: secrets.token_bytes(KEY_BYTES),
        )
    except OSError as error:
        raise Failed(
            f"{path} cannot be kept: {error.strerror}.", code=ErrorCode.STORE_FAILED
        ) from error


class SpentStates:
    """The questions whose answer was used, until they would have expired.

    A ``requestState`` counts once, after a restart too.
    """

    def __init__(self, *, database: Database) -> None:
        self._database = database

    async def spend(self, approval_id: str, until_ms: int, now_ms: int) -> bool:
        """Use one up; false where it was used before. On disk when this returns.

        Raises:
            Failed: STORE_FAILED; it counts as used by nobody, and nothing must be sent.
        """

        def write(connection: sqlite3.Connection) -> bool:
            connection.execute(DROP_OLD, (now_ms,))
            return connection.execute(SPEND, (approval_id, until_ms)).rowcount == 1

        return await self._database.write(write)
