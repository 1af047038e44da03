"""What was spent of the owner's budgets, on disk: no restart gives any back."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Mapping
from typing import Final

from edged.guards.budgets import Key, SpentBudget
from edged.sharing.leases import Moment
from edged.store.database import Database
from edged.store.writer import Opening

LOAD: Final = "SELECT unit, command, payload FROM budget"
SAVE: Final = "INSERT OR REPLACE INTO budget (unit, command, payload) VALUES (?, ?, ?)"
REMOVE: Final = "DELETE FROM budget WHERE unit = ? AND command = ?"


class BudgetRows:
    """One row a command of a unit.

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
        await self._database.write(lambda _connection: None)

    # What the store thread calls: the Book.

    def load(self, connection: sqlite3.Connection, opening: Opening) -> None:
        del opening
        if self._is_loaded:
            return
        rows = connection.execute(LOAD).fetchall()
        self.left = {(str(u), str(c)): left for u, c, text in rows if (left := _read(text))}
        self._is_loaded = True

    def write(self, connection: sqlite3.Connection, *, is_last: bool) -> None:  # noqa: ARG002
        with self._lock:
            self._writing, self._changed = self._changed, {}
        for key, left in self._writing.items():
            if left is None:
                connection.execute(REMOVE, key)
            else:
                connection.execute(SAVE, (*key, _written(left)))

    def settle(self, *, is_committed: bool) -> None:
        if not is_committed:
            with self._lock:
                self._changed = {**self._writing, **self._changed}
        self._writing = {}


def _written(left: SpentBudget) -> str:
    times = [[round(one.monotonic_s, 3), one.wall_ms] for one in left.spent]
    return json.dumps({"spent": times, "reserved": left.reserved}, separators=(",", ":"))


def _read(text: object) -> SpentBudget | None:
    """A row; one that somebody has spoiled is none."""
    try:
        told = json.loads(str(text))
        spent = tuple(Moment(float(mono), int(wall)) for mono, wall in told["spent"])
        return SpentBudget(spent, int(told["reserved"]))
    except (ValueError, KeyError, TypeError):
        return None
