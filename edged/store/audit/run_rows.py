"""The rows of the record that belong to one run: what began it, what it did, and who ended it.

Nothing is indexed but the number of a row. Where a run begins is found by the times of some; from
there on all are looked at, so many at a time that others are served between.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import deque
from collections.abc import Callable
from dataclasses import field
from typing import Final

from edged.clock import Clock
from edged.record import record
from edged.store.audit.queries import Bound, fetch
from edged.store.audit.row import GENESIS
from edged.store.audit.run_row import RunRow, RunRows
from edged.store.database import Database

MOST_SHOWN: Final = 20
"""Rows that are told from each end of a run's; the rest is counted and hashed."""
ROWS_LOOKED_AT: Final = 20_000
"""In one turn of the reader's thread: some 10 ms."""
LONGEST_S: Final = 10.0
"""In a record so long that this is not enough it is said that there may be more."""
EARLIER_MS: Final = 60_000
LATER_MS: Final = 24 * 3600 * 1000
"""Where a run has ended, its rows end; its clock may have been set back since."""
COLUMNS: Final = "seq, time_ms, phase, action_id, tool, command, outcome, hash"


@record(frozen=False, kw_only=False)
class _Found:
    first: list[RunRow] = field(default_factory=list)
    last: deque[RunRow] = field(default_factory=lambda: deque(maxlen=MOST_SHOWN))
    total: int = 0
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)

    def add(self, row: RunRow) -> None:
        self.total += 1
        self.digest.update(f"{row.hash}\n".encode())
        (self.first if len(self.first) < MOST_SHOWN else self.last).append(row)


async def find_run_rows(
    database: Database, run_id: str, *, since_ms: int, until_ms: int | None, clock: Clock
) -> RunRows:
    """The rows that are on the disk.

    Args:
        since_ms, until_ms: when it began and ended, Unix epoch milliseconds.

    Raises:
        Failed: STORE_FAILED, the database cannot be read.
    """
    ends_s = clock.monotonic() + LONGEST_S
    head_seq, head_hash = await database.read(_head)
    begins = await database.read(_begin_of(head_seq, since_ms - EARLIER_MS))
    root = ""
    floor = begins
    while not root and floor < head_seq and clock.monotonic() < ends_s:
        root = await database.read(_root_of(run_id, floor))
        floor += ROWS_LOOKED_AT
    found = _Found()
    floor = begins
    while floor < head_seq and clock.monotonic() < ends_s:
        rows, time_ms = await database.read(_page(run_id, root, floor, head_seq))
        if until_ms is not None and not rows and time_ms > until_ms + LATER_MS:
            floor = head_seq
        for row in rows:
            found.add(row)
        floor += ROWS_LOOKED_AT
    return RunRows(
        first=tuple(found.first),
        last=tuple(found.last),
        total=found.total,
        digest=found.digest.hexdigest() if found.total else "",
        is_whole=floor >= head_seq,
        head_seq=head_seq,
        head_hash=head_hash,
    )


def _head(connection: sqlite3.Connection) -> tuple[int, str]:
    query = "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1"
    row = connection.execute(query).fetchone()
    if row is None or not isinstance(row[0], int):
        return 0, GENESIS.hex()
    return row[0], _hex(row[1])


def _begin_of(head_seq: int, since_ms: int) -> Callable[[sqlite3.Connection], int]:
    """The number behind which all rows of that time and later stand."""
    query = "SELECT seq, time_ms FROM audit WHERE seq <= ? ORDER BY seq DESC LIMIT 1"

    def read(connection: sqlite3.Connection) -> int:
        seq = head_seq
        while seq > 0:
            row = connection.execute(query, (seq,)).fetchone()
            if row is None:
                return 0
            if isinstance(row[1], int) and row[1] < since_ms:
                return int(row[0]) - 1
            seq = int(row[0]) - ROWS_LOOKED_AT
        return 0

    return read


def _root_of(run_id: str, floor: int) -> Callable[[sqlite3.Connection], str]:
    """The action that began the run: what its own actions name as theirs."""
    query = (
        "SELECT seq, parent_id FROM audit WHERE seq > ? AND seq <= ? AND on_behalf_of = ? "
        "AND parent_id != '' ORDER BY seq LIMIT 1"
    )

    def read(connection: sqlite3.Connection) -> str:
        rows = fetch(connection, query, [floor, floor + ROWS_LOOKED_AT, run_id])
        return str(rows[0][1]) if rows else ""

    return read


def _page(
    run_id: str, root: str, floor: int, head_seq: int
) -> Callable[[sqlite3.Connection], tuple[list[RunRow], int]]:
    """The rows of a stretch that belong to the run, and when its last row was written."""
    # Who stops a run names it; what else names it only looks.
    statement = (
        f"SELECT {COLUMNS} FROM audit WHERE seq > ? AND seq <= ? AND (on_behalf_of = ? "  # noqa: S608 (constants)
        "OR (action_id = ? AND action_id != '') "
        "OR (instr(tool, 'stop') > 0 AND instr(parameters, ?) > 0)) ORDER BY seq"
    )
    newest = "SELECT seq, time_ms FROM audit WHERE seq <= ? ORDER BY seq DESC LIMIT 1"
    ceiling = min(floor + ROWS_LOOKED_AT, head_seq)
    bound: Bound = [floor, ceiling, run_id, root, f'"{run_id}"']

    def read(connection: sqlite3.Connection) -> tuple[list[RunRow], int]:
        rows = [
            RunRow._make((*values, _hex(digest)))
            for *values, digest in fetch(connection, statement, bound)
        ]
        last = connection.execute(newest, (ceiling,)).fetchone()
        return rows, last[1] if last is not None and isinstance(last[1], int) else 0

    return read


def _hex(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
