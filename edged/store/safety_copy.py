"""The second copy of what makes safe after a crash: lockouts and journal, in a file of their own.

A database can lose what was acknowledged (its log taken away under it, a disk that lies), and then
of all rows these matter most. They are few, so all of them are written anew each time, before the
commit: whatever of the two is found after a crash, nothing that somebody relies on is missing.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any, Final

from edged.files import read_text, write_atomically
from edged.record import record

SAFETY_FILE: Final = "safety.json"
FORMAT: Final = 1
EVERY_S: Final = 10.0
"""How often steps of a sweep are copied at most: its beginning and its end are at once."""
COLUMNS: Final = {
    "lockout": ("instrument_id", "unit", "reason", "locked_by", "since_ms"),
    "journal": ("id", "kind", "instrument_id", "unit", "begun_ms", "updated_ms", "payload"),
}
HEAD: Final = "SELECT coalesce(max(seq), 0) FROM audit_head"
FUNCTION: Final = "edged_changed"
# A step of a sweep is the one change that may wait: the row that begins it is written durably.
CHANGES: Final = (
    ("lockout", "INSERT", 1),
    ("lockout", "DELETE", 1),
    ("journal", "INSERT", 0),
    ("journal", "DELETE", 1),
)


@record
class Copied:
    """What a copy holds.

    Attributes:
        lockouts, journal: rows with the values of ``COLUMNS``.
        head: the newest row of the audit when it was written; a database with less is older.
    """

    lockouts: tuple[tuple[Any, ...], ...] = ()
    journal: tuple[tuple[Any, ...], ...] = ()
    head: int = 0


class SafetyCopy:
    """Writes the copy. Store thread only.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # At first: a database of before there were any copies has none.
        self._is_due = True
        self._is_urgent = False
        self._is_ahead = False
        self._written_s: float | None = None

    def watch(self, connection: sqlite3.Connection) -> None:
        """Hear of every change of the two tables, by whatever statement."""
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.create_function(FUNCTION, 1, self._note)
        for table, change, is_urgent in CHANGES:
            connection.execute(
                f"CREATE TEMP TRIGGER {table}_{change.lower()} AFTER {change} ON main.{table} "
                f"BEGIN SELECT {FUNCTION}({is_urgent}); END"
            )

    def keep(self, connection: sqlite3.Connection, *, now_s: float, is_durable: bool) -> None:
        """Write it if the transaction that is about to be committed has changed what it holds.

        Raises:
            OSError: it cannot be written; the transaction must not be committed.
        """
        is_old = self._written_s is None or now_s - self._written_s >= EVERY_S
        if not self._is_due or not (self._is_urgent or is_durable or is_old):
            return
        rows = {
            table: connection.execute(f"SELECT {', '.join(names)} FROM {table}").fetchall()  # noqa: S608
            for table, names in COLUMNS.items()
        }
        (head,) = connection.execute(HEAD).fetchone()
        told = {"format": FORMAT, "head": head, **rows}
        write_atomically(self._path, json.dumps(told, indent=1) + "\n", mode=0o600)
        self._is_ahead = True
        self._written_s = now_s
        self._is_due = self._is_urgent = False

    def settle(self, *, is_committed: bool) -> None:
        """What was written with the transaction holds; or does not, and is written anew."""
        if self._is_ahead and not is_committed:
            self._is_due = self._is_urgent = True
        self._is_ahead = False

    def _note(self, is_urgent: int) -> None:
        self._is_due = True
        self._is_urgent = self._is_urgent or bool(is_urgent)


def read_copy(path: Path) -> Copied | None:
    """What a former life has copied; None where there is nothing that can be read."""
    try:
        told = json.loads(read_text(path))
        if told["format"] != FORMAT or not isinstance(told["head"], int):
            return None
        return Copied(
            lockouts=_rows(told, "lockout"), journal=_rows(told, "journal"), head=told["head"]
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _rows(told: dict[str, Any], table: str) -> tuple[tuple[Any, ...], ...]:
    width = len(COLUMNS[table])
    return tuple(tuple(row) for row in told[table] if len(row) == width)
