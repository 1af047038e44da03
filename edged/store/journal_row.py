"""A row of the journal, and how rows are read where nothing else of the store is needed.

After a crash the rows are wanted before the store has opened, migrated or mended its database: what
they say is acted on at once (``processes/first_aid.py``), and the store finds them again later.
"""

from __future__ import annotations

import contextlib
import enum
import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from edged.store.head_mark import head_mark_of
from edged.store.safety_copy import HEAD, SAFETY_FILE, Copied, read_copy

__all__ = ["LOAD", "JournalEntry", "JournalKind", "entry_of", "left_by", "read_left"]

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
    with contextlib.suppress(sqlite3.Error):
        address = f"{path.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=BUSY_S)) as connection:
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            rows = connection.execute(LOAD).fetchall()
            (head,) = connection.execute(HEAD).fetchone()
    copied = read_copy(path.with_name(SAFETY_FILE))
    left = left_by(rows, head=head, copied=copied, mark=head_mark_of(path).read())
    return tuple(left.values())
