"""Who did what: the calls in the record, the newest first, each of them once.

A call leaves an intent and an end, or an end alone, or a refusal; the later row tells all that the
earlier one does, so it is the one that is shown. What a run does by itself (the steps of a sweep or
a sequence, the points of a stream) is folded: of each command of a run on an instrument the newest
row stands for all, and says how many were met. Nothing is indexed but the number of a row: a search
walks back from the newest, some rows at a time, so that others are served between, and ends at the
first page that is too old.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final, NamedTuple

from edged.clock import Clock
from edged.record import record
from edged.store.audit.queries import Bound, fetch
from edged.store.audit.row import COLUMNS, AuditRow, Phase
from edged.store.database import Database

ROWS_LOOKED_AT: Final = 20_000
"""In one turn of the reader's thread: some 10 ms."""
ROWS_IN_PAGE: Final = 500
LONGEST_S: Final = 2.0
"""A search for what is rare in a long record ends then, and says that there may be more."""
CHECK: Final = "bench__check"
MOST_FOLDED: Final = 100_000
"""Calls and runs that one search remembers to have seen."""


@record
class CallFilter:
    """Which calls are wanted; what is empty does not narrow.

    Attributes:
        since_ms: Unix epoch milliseconds, included.
        before: only calls whose row has a lower number; 0: all.
    """

    since_ms: int
    instrument: str = ""
    command: str = ""
    outcome: str = ""
    before: int = 0


class Calls(NamedTuple):
    """Calls, the newest first; ``has_more``: there are, or may be, older ones that fit.

    Those are told by ``before`` = ``next_before``. ``met``: for how many calls of its run each row
    stands, one that is no run's for itself; more of them may be older.
    """

    rows: list[AuditRow]
    has_more: bool
    met: list[int]
    next_before: int = 0


class _Page(NamedTuple):
    """Rows that fit, the newest first; ``next_seq`` is where to go on, 0 at the end."""

    rows: list[AuditRow]
    next_seq: int


async def find_calls(
    database: Database,
    wanted: CallFilter,
    *,
    limit: int,
    may_see: Callable[[AuditRow], bool],
    clock: Clock,
) -> Calls:
    """At most ``limit`` calls that fit, the newest first.

    Args:
        may_see: judges on the event loop which rows the caller may see.

    Raises:
        Failed: STORE_FAILED, the database cannot be read.
    """
    found: list[AuditRow] = []
    # So many calls were met so far.
    seen: dict[_Key, int] = {}
    until_s = clock.monotonic() + LONGEST_S

    def met() -> list[int]:
        return [max(1, seen[_key(row)]) for row in found]

    # Some rows above: what is newer than was asked for is known by them.
    next_seq = wanted.before + ROWS_LOOKED_AT if wanted.before else None
    while next_seq != 0:
        page = await database.read(_page_before(wanted, next_seq))
        for row in page.rows:
            key = _key(row)
            is_known = key in seen
            # Also of what is newer than was asked for: an earlier row of such a call tells less.
            seen[key] = seen.get(key, 0) + (row.phase != Phase.INTENT.value)
            if is_known:
                continue
            is_too_new = 0 < wanted.before <= row.seq
            if is_too_new or _is_noise(row) or not may_see(row):
                continue
            if len(found) == limit:
                return Calls(found, True, met(), found[-1].seq)
            found.append(row)
        next_seq = page.next_seq
        if next_seq and (clock.monotonic() > until_s or len(seen) > MOST_FOLDED):
            return Calls(found, True, met(), next_seq + 1)
    return Calls(found, False, met())


_Key = tuple[str, str, str]


def _key(row: AuditRow) -> _Key:
    """What is told once: a call, or a command of a run on an instrument."""
    run = row.on_behalf_of or row.parent_id
    return (run, row.instrument, row.command) if run else (row.action_id, "", "")


def _is_noise(row: AuditRow) -> bool:
    """What a check of the bench asks each unit: the call that asked for it has a row of its own."""
    return row.tool == CHECK and bool(row.parent_id)


def _page_before(wanted: CallFilter, next_seq: int | None) -> Callable[[sqlite3.Connection], _Page]:
    conditions = ["seq <= ?", "seq > ?", "phase != ?", "time_ms >= ?"]
    narrowed: Bound = []
    for column, value in (
        ("instrument", wanted.instrument),
        ("command", wanted.command),
        ("outcome", wanted.outcome),
    ):
        if value:
            conditions.append(f"{column} = ?")
            narrowed.append(value)
    statement = (
        f"SELECT {', '.join(COLUMNS)} FROM audit WHERE {' AND '.join(conditions)} "  # noqa: S608 (constants)
        "ORDER BY seq DESC LIMIT ?"
    )

    def read(connection: sqlite3.Connection) -> _Page:
        top = _newest(connection)[0] if next_seq is None else next_seq
        floor = max(0, top - ROWS_LOOKED_AT)
        bound: Bound = [top, floor, Phase.EVENT.value, wanted.since_ms, *narrowed, ROWS_IN_PAGE]
        rows = [AuditRow.of(values) for values in fetch(connection, statement, bound)]
        following = rows[-1].seq - 1 if len(rows) == ROWS_IN_PAGE else floor
        seq, time_ms = _newest(connection, following)
        return _Page(rows, seq if time_ms >= wanted.since_ms else 0)

    return read


def _newest(connection: sqlite3.Connection, upto: int = 2**63 - 1) -> tuple[int, int]:
    """Number and time of the newest row up to that number; zeros where there is none."""
    query = "SELECT seq, time_ms FROM audit WHERE seq <= ? ORDER BY seq DESC LIMIT 1"
    row = connection.execute(query, (upto,)).fetchone()
    return row if row is not None and isinstance(row[1], int) else (0, 0)
