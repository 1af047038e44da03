"""The chain of the audit: where it stands, and rows appended to it. Store thread only.

Every row carries the hash of the row before it; ``audit_head`` names the newest, and
``audit_checkpoint`` the last one that retention removed. A hash chain needs one writer: this is it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, NamedTuple

from edged.store.audit_row import COLUMNS, GENESIS, Stored, row_hash

__all__ = ["Chain", "Link"]

ROWS_IN_ONE: Final = 32
"""Rows in one INSERT: each statement gives up the interpreter lock once, whatever its size."""
_MARKS: Final = f"({', '.join('?' * len(COLUMNS))})"
_INSERT: Final = f"INSERT INTO audit ({', '.join(COLUMNS)}) VALUES "  # noqa: S608 (constants)
INSERT_ONE: Final = _INSERT + _MARKS
INSERT_MANY: Final = _INSERT + ", ".join([_MARKS] * ROWS_IN_ONE)
SET_HEAD: Final = "INSERT OR REPLACE INTO audit_head (id, seq, hash) VALUES (1, ?, ?)"
SET_CHECKPOINT: Final = (
    "INSERT OR REPLACE INTO audit_checkpoint (id, seq, hash, removed_ms) VALUES (1, ?, ?, ?)"
)


class Link(NamedTuple):
    """A place in the chain: a row's number and its hash."""

    seq: int
    hash: bytes


class Chain:
    """Appends rows, and can go back to where it stood when the transaction began."""

    def __init__(self) -> None:
        self._head = Link(0, GENESIS)
        self._committed = self._head
        # The rows appended since the last settling, in full, for those who follow.
        self._appended: list[tuple[object, ...]] = []

    @property
    def head(self) -> Link:
        """The newest row, also one not committed yet."""
        return self._head

    def load(self, connection: sqlite3.Connection) -> None:
        """Find the end of the stored chain.

        Where rows and head disagree, somebody has been at the file. The chain goes on behind the
        later of the two, so that ``verify`` finds what was done.
        """
        places = [Link(0, GENESIS)]
        for query in (
            "SELECT seq, hash FROM audit_checkpoint",
            "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1",
            "SELECT seq, hash FROM audit_head",
        ):
            row = connection.execute(query).fetchone()
            if row is not None and isinstance(row[0], int) and isinstance(row[1], bytes):
                places.append(Link(*row))
        self._head = self._committed = max(reversed(places), key=lambda place: place.seq)
        self._appended.clear()

    def append(self, connection: sqlite3.Connection, rows: Sequence[Stored]) -> None:
        """Write rows behind the newest one, inside a transaction."""
        full: list[tuple[object, ...]] = []
        seq, prev = self._head
        for stored in rows:
            seq += 1
            values = (seq, *stored)
            digest = row_hash(prev, values)
            full.append((*values, prev, digest))
            prev = digest
        for start in range(0, len(full), ROWS_IN_ONE):
            some = full[start : start + ROWS_IN_ONE]
            if len(some) == ROWS_IN_ONE:
                connection.execute(INSERT_MANY, [value for row in some for value in row])
            else:
                connection.executemany(INSERT_ONE, some)
        connection.execute(SET_HEAD, (seq, prev))
        self._head = Link(seq, prev)
        self._appended.extend(full)

    def remove_before(
        self, connection: sqlite3.Connection, *, before_ms: int, most: int, now_ms: int
    ) -> tuple[Link, int]:
        """Remove at most ``most`` of the oldest rows, all older than ``before_ms``.

        Returns:
            The last row removed and how many were; the checkpoint is set to it.
        """
        last, removed = self._head, 0
        query = "SELECT seq, hash, time_ms FROM audit ORDER BY seq LIMIT ?"
        for seq, digest, time_ms in connection.execute(query, (most,)).fetchall():
            if isinstance(time_ms, int) and time_ms >= before_ms:
                break
            last = Link(seq, digest if isinstance(digest, bytes) else b"")
            removed += 1
        if removed:
            connection.execute("DELETE FROM audit WHERE seq <= ?", (last.seq,))
            connection.execute(SET_CHECKPOINT, (last.seq, last.hash, now_ms))
        return last, removed

    def settle(self, *, is_committed: bool) -> list[tuple[object, ...]]:
        """Keep or forget what was appended; gives the rows that are on disk now."""
        appended, self._appended = self._appended, []
        if is_committed:
            self._committed = self._head
            return appended
        self._head = self._committed
        return []
