"""What safety needs from a damaged database: its lockouts and its journal, row by row.

The audit is not carried over: its chain ends in the damaged file, which is kept.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Final

__all__ = ["salvage"]

TABLES: Final = {
    "lockout": ("instrument_id", "unit", "reason", "locked_by", "since_ms"),
    "journal": ("id", "kind", "instrument_id", "unit", "begun_ms", "updated_ms", "payload"),
}
LOST: Final = {
    "lockout": "Its lockouts could not be read: lock out again what must not be used.",
    "journal": "Its journal could not be read: look whether a sweep was under way.",
}


def salvage(damaged: Path, connection: sqlite3.Connection, *, has_copy: bool) -> list[str]:
    """Copy lockouts and journal from a damaged database into a fresh one.

    Args:
        has_copy: there is a second copy of both, which adds what could not be read.

    Returns:
        Sentences that say what was carried over and what was lost.

    Raises:
        sqlite3.Error: the fresh database cannot be written.
    """
    sentences: list[str] = []
    for table, columns in TABLES.items():
        rows, is_whole = _read(damaged, table, columns)
        marks = ", ".join("?" * len(columns))
        # The names are the constants above; the values are bound.
        statement = f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608
        connection.executemany(statement, rows)
        if rows:
            sentences.append(f"{len(rows)} rows of its {table} table were carried over.")
        if not is_whole:
            sentences.append(f"Its {table} table goes on by its copy." if has_copy else LOST[table])
    return sentences


def _read(
    damaged: Path, table: str, columns: tuple[str, ...]
) -> tuple[list[tuple[object, ...]], bool]:
    """The rows that can be read, and whether those are all."""
    rows: list[tuple[object, ...]] = []
    address = f"{damaged.absolute().as_uri()}?mode=ro"
    try:
        with contextlib.closing(sqlite3.connect(address, uri=True, isolation_level=None)) as source:
            query = f"SELECT {', '.join(columns)} FROM {table}"  # noqa: S608 (constants)
            rows.extend(source.execute(query))
    except sqlite3.Error:
        return rows, False
    return rows, True
