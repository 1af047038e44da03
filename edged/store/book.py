"""``Book``: the seam between the store thread and whatever keeps rows in the database.

A book has rows waiting in memory, which go along with whichever group is written next; that is how
rows are written without anybody waiting for them. The loop's thread appends to a book, the store
thread takes from it: they share queues (``collections.deque``) and no lock.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Protocol

from edged.store.safety_copy import Copied

__all__ = ["Book", "Opening"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What a book is told when the database has been opened or opened again.

    Attributes:
        is_fresh: the database is empty: what the book holds in memory must be written again.
        news: what belongs into the audit; the same sentences come again until they are on disk.
        follows_damaged: it was begun because the former one was damaged, which is kept: what is
            missing is there.
        copied: the second copy of lockouts and journal as a former life has left it.
        mark: number and hash of the row that the record had come to, noted outside of it.
    """

    is_fresh: bool
    news: tuple[str, ...]
    follows_damaged: bool = False
    copied: Copied | None = None
    mark: tuple[int, bytes] | None = None


class Book(Protocol):
    """One kind of rows. Every method is called on the store thread."""

    @property
    def is_waiting(self) -> bool:
        """Rows are waiting in memory."""
        ...

    def load(self, connection: sqlite3.Connection, opening: Opening) -> None:
        """Read what is needed from a database just opened, maybe read-only; writes nothing."""
        ...

    def write(self, connection: sqlite3.Connection, *, is_last: bool) -> None:
        """Write waiting rows, inside a group's transaction.

        Args:
            is_last: the database closes after this group: hold nothing back.
        """
        ...

    def settle(self, *, is_committed: bool) -> None:
        """The group is on disk, or has left nothing there and its rows have to wait again."""
        ...
