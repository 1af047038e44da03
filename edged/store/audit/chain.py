"""The chain of the audit: where it stands, and rows appended to it. Store thread only.

Every row carries the hash of the row before it; ``audit_head`` names the newest, and
``audit_checkpoint`` the last one that retention removed. A hash chain needs one writer: this is it.

A row lies in ``audit_full``; or, where its texts are those of a row not long before, in
``audit_repeat``, which names them in ``audit_text``. The view ``audit`` shows both as one, and the
hash is over what it shows: whoever alters a shared text alters every row that names it.

Rows on their way to the disk, and the texts that many of them share. Store thread only.

A client that polls sends the same call again and again: who asks, what is asked and what came of it
are the same texts each time. They are made once, kept in a small memory, and rows refer to them. No
text of a write is shared: its row says by itself what was sent.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from edged.store.audit.row import (
    COLUMNS,
    GENESIS,
    TEXT_COLUMNS,
    Entry,
    encoded,
    is_flat,
    storable_id,
    storable_ms,
    texts_of,
)

MOST: Final = 1_024
"""Texts that are remembered; at most some 3 MB."""
SHARED_CHARS: Final = 1_000
"""Longer ones are each row's own."""
SHARED_FROM: Final = Entry._fields.index("phase")
SHARED_TO: Final = Entry._fields.index("is_weighty") + 1


class Texts:
    """The texts of a row. Two of them are the same only if they are one object.

    Attributes:
        values: those of ``TEXT_COLUMNS``.
        head, tail: what stands before and after the action's id where a row is hashed.
        is_shared: other rows may refer to them.
    """

    __slots__ = ("head", "is_shared", "tail", "values")

    def __init__(self, values: tuple[str, ...], *, is_weighty: bool) -> None:
        self.values = values
        # As ``encoded`` has it of texts.
        self.head, *tail = [f"s{len(text)}:{text}" for text in values]
        self.tail = "".join(tail)
        self.is_shared = not is_weighty and len(self.tail) <= SHARED_CHARS


class RepeatedRow:
    """An entry that comes again and again, but for its time, action and duration.

    Attributes:
        entry: it, as it came first. The event loop's.
        texts: made of it by the store thread, the first time it is written.
    """

    __slots__ = ("entry", "texts")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.texts: Texts | None = None


Stored = tuple[int, str, Texts, float]
"""What is stored of an entry: time_ms, action's id, texts, duration_ms."""


class Shelf:
    """Remembers texts by what they were made of."""

    def __init__(self) -> None:
        self._texts: dict[tuple[object, ...], Texts] = {}

    def row(self, entry: Entry) -> Stored:
        """What is stored of an entry."""
        action_id = storable_id(entry.action_id)
        return (entry.time_ms, action_id, self.texts(entry), storable_ms(entry.duration_ms))

    def texts(self, entry: Entry) -> Texts:
        """The texts of an entry; what came before gets the same again, but for a write's."""
        if entry.is_weighty:
            return Texts(texts_of(entry), is_weighty=True)
        key: tuple[object, ...] = entry[SHARED_FROM:SHARED_TO]
        if entry.arguments:
            if not is_flat(entry.arguments):
                return _make(entry)
            # By what they look like: 1, 1.0 and True are equal, and are not the same argument.
            key = (*key, repr(entry.arguments))
        texts = self._texts.get(key)
        if texts is None:
            texts = _make(entry)
            if texts.is_shared:
                self._remember(key, texts)
        return texts

    def _remember(self, key: tuple[object, ...], texts: Texts) -> None:
        if len(self._texts) >= MOST:
            self._texts.clear()
        self._texts[key] = texts


def _make(entry: Entry) -> Texts:
    return Texts(texts_of(entry), is_weighty=entry.is_weighty)


REPEATED: Final = ("seq", "time_ms", "action_id", "text", "duration_ms", "prev", "hash")
TEXT_SPAN: Final = 100_000
"""A shared text bears the number of the first row that names it, and is named by no row so many
behind that: so retention knows by the number alone when nothing needs it."""
FUTURE_MS: Final = 24 * 3600 * 1000
"""Rows further ahead than that are from the future."""
MOST_TEXTS: Final = 1_024
"""Texts whose place is remembered."""
MOST_DURATIONS: Final = 2_048
ROWS_AT_ONCE: Final = (256, 32, 4, 1)
"""Rows in one INSERT: each statement gives up the interpreter lock once, whatever its size."""
SET_HEAD: Final = "INSERT OR REPLACE INTO audit_head (id, seq, hash) VALUES (1, ?, ?)"
SET_CHECKPOINT: Final = (
    "INSERT OR REPLACE INTO audit_checkpoint (id, seq, hash, removed_ms) VALUES (1, ?, ?, ?)"
)
INSERT_TEXT: Final = (
    f"INSERT OR REPLACE INTO audit_text (id, {', '.join(TEXT_COLUMNS)}) "  # noqa: S608 (constants)
    f"VALUES (?{', ?' * len(TEXT_COLUMNS)})"
)


class _Insert:
    """Rows into one table, many in a statement."""

    def __init__(self, table: str, columns: Sequence[str]) -> None:
        self._width = len(columns)
        marks = f"({', '.join('?' * self._width)})"
        begin = f"INSERT INTO {table} ({', '.join(columns)}) VALUES "  # noqa: S608 (constants)
        self._by_size = [(size, begin + ", ".join([marks] * size)) for size in ROWS_AT_ONCE]

    def run(self, connection: sqlite3.Connection, values: list[Any]) -> None:
        """Insert rows whose values stand one behind the other."""
        at = 0
        for size, statement in self._by_size:
            step = size * self._width
            while len(values) - at >= step:
                connection.execute(statement, values[at : at + step])
                at += step


INSERT_FULL: Final = _Insert("audit_full", COLUMNS)
INSERT_REPEATED: Final = _Insert("audit_repeat", REPEATED)


class ChainLink(NamedTuple):
    """A place in the chain: a row's number and its hash."""

    seq: int
    hash: bytes


class Chain:
    """Appends rows, and can go back to where it stood when the transaction began.

    Attributes:
        is_followed: somebody wants to be told of rows as they come to disk.
    """

    def __init__(self) -> None:
        self.is_followed = False
        self._head = ChainLink(0, GENESIS)
        self._committed = self._head
        # Where shared texts are, by their number; 0 for those that have come but once.
        self._places: dict[Texts, int] = {}
        self._durations: dict[float, str] = {}
        # The rows appended since the last settling, in full, for those who follow.
        self._appended: list[tuple[object, ...]] = []

    @property
    def head(self) -> ChainLink:
        """The newest row, also one not committed yet."""
        return self._head

    def load(
        self,
        connection: sqlite3.Connection,
        *,
        mark: tuple[int, bytes] | None = None,
        is_new: bool = False,
    ) -> tuple[int, int] | None:
        """Find the end of the stored chain.

        Where rows and head disagree, somebody has been at the file. The chain goes on behind the
        later of the two, so that ``verify`` finds what was done; for the same reason it goes on
        behind what was written in this life, and behind the mark outside of it.

        Args:
            mark: number and hash of the row that the record had come to, as noted outside of it.
            is_new: it is another chain than before, which begins with the first row.

        Returns:
            The first and the last of the rows that were there and are not any more.
        """
        places = [ChainLink(0, GENESIS)]
        for query in (
            "SELECT seq, hash FROM audit_checkpoint",
            "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1",
            "SELECT seq, hash FROM audit_head",
        ):
            row = connection.execute(query).fetchone()
            if row is not None and isinstance(row[0], int) and isinstance(row[1], bytes):
                places.append(ChainLink(*row))
        stored = max(reversed(places), key=lambda place: place.seq)
        known = ChainLink(0, GENESIS)
        if not is_new:
            known = max(self._committed, ChainLink(*mark or known), key=lambda place: place.seq)
        self._places.clear()
        self._appended.clear()
        if known.seq <= stored.seq:
            self._head = self._committed = stored
            return None
        self._head = self._committed = known
        return stored.seq + 1, known.seq

    def append(self, connection: sqlite3.Connection, rows: Iterable[Stored]) -> None:
        """Write rows behind the newest one, inside a transaction."""
        full: list[Any] = []
        repeated: list[Any] = []
        places, durations = self._places, self._durations
        seq, prev = self._head
        # As arrays, because for bytes sqlite3 looks for an adapter each time.
        stored_prev = bytearray(prev)
        for time_ms, action_id, texts, duration_ms in rows:
            seq += 1
            # What ``row_hash`` makes of the same row, by a shorter way.
            duration = durations.get(duration_ms) or self._duration(duration_ms)
            action = f"s{len(action_id)}:{action_id}"
            text = f"i{seq};i{time_ms};{texts.head}{action}{texts.tail}{duration}"
            digest = sha256(prev + text.encode()).digest()
            stored = bytearray(digest)
            place = places.get(texts, 0)
            if texts.is_shared and not (place and seq - place < TEXT_SPAN):
                place = self._place(connection, texts, seq)
            if place:
                repeated += (seq, time_ms, action_id, place, duration_ms, stored_prev, stored)
            else:
                phase, *rest = texts.values
                full += (seq, time_ms, phase, action_id, *rest, duration_ms, stored_prev, stored)
            if self.is_followed:
                phase, *rest = texts.values
                self._appended.append(
                    (seq, time_ms, phase, action_id, *rest, duration_ms, prev, digest)
                )
            prev, stored_prev = digest, stored
        if seq == self._head.seq:
            return
        if full:
            INSERT_FULL.run(connection, full)
        if repeated:
            INSERT_REPEATED.run(connection, repeated)
        connection.execute(SET_HEAD, (seq, prev))
        self._head = ChainLink(seq, prev)

    def _duration(self, duration_ms: float) -> str:
        """A duration as it is hashed. Those of short calls come again, and floats print slowly."""
        if len(self._durations) >= MOST_DURATIONS:
            self._durations.clear()
        text = self._durations[duration_ms] = encoded(duration_ms)
        return text

    def _place(self, connection: sqlite3.Connection, texts: Texts, seq: int) -> int:
        """The number under which the texts of row ``seq`` are stored; 0 if it has to hold them."""
        if texts not in self._places:
            if len(self._places) >= MOST_TEXTS:
                self._places.clear()
            self._places[texts] = 0
            return 0
        connection.execute(INSERT_TEXT, (seq, *texts.values))
        self._places[texts] = seq
        return seq

    def remove_before(
        self, connection: sqlite3.Connection, *, before_ms: int, most: int, now_ms: int
    ) -> tuple[ChainLink, int]:
        """Remove at most ``most`` of the oldest rows, all older than ``before_ms``.

        A row from the future was written by a clock that was wrong; it is as old at least as the
        rows behind it, and goes with them.

        Returns:
            The last row removed and how many were; the checkpoint is set to it.
        """
        last, removed = self._head, 0
        query = "SELECT seq, time_ms FROM audit WHERE time_ms <= ? ORDER BY seq LIMIT 1"
        latest_ms = now_ms + FUTURE_MS
        dated = connection.execute(query, (latest_ms,)).fetchone()
        old_until = dated[0] if dated and dated[1] < before_ms else 0
        query = "SELECT seq, hash, time_ms FROM audit ORDER BY seq LIMIT ?"
        rows = connection.execute(query, (most,)).fetchall()
        for count, (seq, digest, time_ms) in enumerate(rows, start=1):
            if seq > old_until and isinstance(time_ms, int) and time_ms >= before_ms:
                if time_ms <= latest_ms:
                    break
                continue
            last = ChainLink(seq, digest if isinstance(digest, bytes) else b"")
            removed = count
        if removed:
            for table in ("audit_full", "audit_repeat"):
                connection.execute(f"DELETE FROM {table} WHERE seq <= ?", (last.seq,))  # noqa: S608
            connection.execute("DELETE FROM audit_text WHERE id <= ?", (last.seq - TEXT_SPAN,))
            connection.execute(SET_CHECKPOINT, (last.seq, last.hash, now_ms))
        return last, removed

    def settle(self, *, is_committed: bool) -> list[tuple[object, ...]]:
        """Keep or forget what was appended; gives the rows that are on disk now, if followed."""
        appended, self._appended = self._appended, []
        if is_committed:
            self._committed = self._head
            return appended
        self._head = self._committed
        # Texts may have been given a place that is not there.
        self._places.clear()
        return []
