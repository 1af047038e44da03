"""A row of the journal, and how rows are read where nothing else of the store is needed.

After a crash the rows are wanted before the store has opened, migrated or mended its database: what
they say is acted on at once (``processes/first_aid.py``), and the store finds them again later.
"""

from __future__ import annotations

import contextlib
import enum
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

__all__ = ["LOAD", "JournalEntry", "JournalKind", "entry_of", "read_left"]

LOAD: Final = (
    "SELECT id, kind, instrument_id, unit, begun_ms, updated_ms, payload FROM journal "
    "ORDER BY begun_ms"
)
BUSY_S: Final = 1.0


class JournalKind(enum.StrEnum):
    """What is under way."""

    SWEEP = "sweep"
    SEQUENCE = "sequence"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One thing under way.

    Attributes:
        id: of the sweep or sequence run.
        unit: key of the physical instrument (``capability.unit_of``), to know it again.
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


def entry_of(row: tuple[Any, ...]) -> JournalEntry:
    """From a row; a payload that somebody has spoiled is empty, and its owner sees that."""
    entry_id, kind, instrument_id, unit, begun_ms, updated_ms, text = row
    try:
        payload = json.loads(text)
    except (TypeError, ValueError):
        payload = {}
    return JournalEntry(
        id=entry_id,
        kind=JournalKind.SWEEP if kind == JournalKind.SWEEP.value else JournalKind.SEQUENCE,
        instrument_id=instrument_id,
        unit=unit,
        begun_ms=begun_ms if isinstance(begun_ms, int) else 0,
        updated_ms=updated_ms if isinstance(updated_ms, int) else 0,
        payload=payload if isinstance(payload, dict) else {},
    )


def read_left(path: Path) -> tuple[JournalEntry, ...]:
    """What a former life left in the database at ``path``, oldest first; changes nothing there.

    Empty where it cannot be read: the store knows more ways to read a file than this.
    """
    try:
        address = f"{path.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=BUSY_S)) as connection:
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            return tuple(map(entry_of, connection.execute(LOAD).fetchall()))
    except sqlite3.Error:
        return ()
