"""Questions to the audit: what fits a filter, as rows or as text to take away.

The names in the statements are constants; every value is bound.
"""

from __future__ import annotations

import csv
import enum
import io
import json
import sqlite3
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Any, Final

from edged.csv_cells import guarded
from edged.record import record
from edged.store.audit.row import COLUMNS, AuditRow
from edged.store.database import Database

PAGE_ROWS: Final = 500
"""Rows read at a time: a few milliseconds of the reader's thread, and of its share of the lock."""
MAX_ROWS: Final = 10_000
"""The most one list may hold."""

Bound = list[str | int]


class ExportForm(enum.StrEnum):
    """What an export looks like."""

    JSONL = "jsonl"
    CSV = "csv"


@record
class AuditFilter:
    """Which rows are wanted; what is empty or None does not narrow.

    Attributes:
        since_ms, until_ms: Unix epoch milliseconds, both ends included.
        caller: a session id, a remote address (with or without port), a subject, a client (with or
            without its version), a route, or the id of a sweep, stream or sequence.
        after: rows with a greater number, from there on; for paging and following.
    """

    instrument: str = ""
    since_ms: int | None = None
    until_ms: int | None = None
    caller: str = ""
    tool: str = ""
    outcome: str = ""
    after: int | None = None


def list_rows(connection: sqlite3.Connection, wanted: AuditFilter, *, limit: int) -> list[AuditRow]:
    """The rows that fit, oldest first: the first ones behind ``after``, else the newest."""
    is_newest = wanted.after is None
    rows = select_rows(
        connection, wanted, limit=max(0, min(limit, MAX_ROWS)), is_newest_first=is_newest
    )
    return [AuditRow.of(row) for row in (reversed(rows) if is_newest else rows)]


def select_rows(
    connection: sqlite3.Connection, wanted: AuditFilter, *, limit: int, is_newest_first: bool
) -> list[tuple[Any, ...]]:
    """The values of ``COLUMNS`` of the rows that fit."""
    conditions, bound = _conditions(wanted)
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    order = "DESC" if is_newest_first else "ASC"
    statement = f"SELECT {', '.join(COLUMNS)} FROM audit {where} ORDER BY seq {order} LIMIT ?"  # noqa: S608
    return fetch(connection, statement, [*bound, limit])


def fetch(connection: sqlite3.Connection, statement: str, bound: Bound) -> list[tuple[Any, ...]]:
    """All rows of a statement, also where somebody has put bytes into a text by hand."""
    try:
        return connection.execute(statement, bound).fetchall()
    except sqlite3.OperationalError as error:
        if "decode" not in str(error):
            raise
    connection.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
    try:
        return connection.execute(statement, bound).fetchall()
    finally:
        connection.text_factory = str


def newest_time(connection: sqlite3.Connection) -> int | None:
    """When the newest row was written, as it says itself."""
    # With the number: without it SQLite reads and sorts all rows of the view.
    row = connection.execute("SELECT seq, time_ms FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
    return row[1] if row is not None and isinstance(row[1], int) else None


def oldest_time(connection: sqlite3.Connection, *, now_ms: int) -> int | None:
    """When the oldest row was written whose time is not ahead of ``now_ms``."""
    query = "SELECT seq, time_ms FROM audit WHERE time_ms <= ? ORDER BY seq LIMIT 1"
    row = connection.execute(query, (now_ms,)).fetchone()
    return None if row is None else row[1]


async def export_lines(
    database: Database, form: ExportForm, wanted: AuditFilter
) -> AsyncIterator[str]:
    """The rows that fit as text, page by page, oldest first.

    JSON lines hold every row as it is. In CSV, with a header line, a text that a spreadsheet would
    take for a formula gets an apostrophe before it.

    Raises:
        Failed: STORE_FAILED, the database cannot be read.
    """
    if form is ExportForm.CSV:
        yield _csv_line(COLUMNS)
    after = wanted.after or 0
    while True:
        page = await database.read(_page(replace(wanted, after=after)))
        if not page:
            return
        after = page[-1].seq
        yield export_rows(form, page)


def export_rows(form: ExportForm, rows: Iterable[AuditRow], *, with_header: bool = False) -> str:
    """Rows as text; see ``export_lines``."""
    write = _jsonl if form is ExportForm.JSONL else _csv
    header = _csv_line(COLUMNS) if with_header and form is ExportForm.CSV else ""
    return header + "".join(map(write, rows))


def _page(wanted: AuditFilter) -> Any:
    return lambda connection: list_rows(connection, wanted, limit=PAGE_ROWS)


def _conditions(wanted: AuditFilter) -> tuple[list[str], Bound]:
    conditions: list[str] = []
    bound: Bound = []
    for condition, value in (
        ("instrument = ?", wanted.instrument),
        ("tool = ?", wanted.tool),
        ("outcome = ?", wanted.outcome),
    ):
        if value:
            conditions.append(condition)
            bound.append(value)
    for condition, number in (
        ("time_ms >= ?", wanted.since_ms),
        ("time_ms <= ?", wanted.until_ms),
        ("seq > ?", wanted.after),
    ):
        if number is not None:
            conditions.append(condition)
            bound.append(number)
    if wanted.caller:
        conditions.append(
            "(? IN (session, remote, subject, client, route, on_behalf_of)"
            " OR substr(remote, 1, length(?)) = ? OR substr(client, 1, length(?)) = ?)"
        )
        with_port, with_version = f"{wanted.caller}:", f"{wanted.caller} "
        bound.extend((wanted.caller, with_port, with_port, with_version, with_version))
    return conditions, bound


def _jsonl(row: AuditRow) -> str:
    return json.dumps(row.to_json(), separators=(",", ":")) + "\n"


def _csv(row: AuditRow) -> str:
    return _csv_line(tuple(_safe_cell(getattr(row, name)) for name in COLUMNS))


def _csv_line(cells: tuple[Any, ...]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()


def _safe_cell(value: Any) -> Any:
    return guarded(value) if isinstance(value, str) else value
