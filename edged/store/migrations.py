"""The schema, as the steps that lead to it: each takes a database from one version to the next.

A step is never changed once it has been released; a new one is added to ``MIGRATIONS``. The version
of a database is its ``user_version``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from edged.errors import ErrorCode, Failed

__all__ = ["MIGRATIONS", "Migration", "migrate", "version_of"]

Migration = Callable[[sqlite3.Connection], None]
"""Runs on the store thread, inside a transaction that also sets the new version."""

AUDIT: Final = """
CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    time_ms INTEGER NOT NULL,
    phase TEXT NOT NULL,
    action_id TEXT NOT NULL,
    parent_id TEXT NOT NULL,
    on_behalf_of TEXT NOT NULL,
    route TEXT NOT NULL,
    session TEXT NOT NULL,
    remote TEXT NOT NULL,
    subject TEXT NOT NULL,
    tool TEXT NOT NULL,
    scope TEXT NOT NULL,
    instrument TEXT NOT NULL,
    command TEXT NOT NULL,
    parameters TEXT NOT NULL,
    scpi TEXT NOT NULL,
    outcome TEXT NOT NULL,
    code TEXT NOT NULL,
    error TEXT NOT NULL,
    duration_ms REAL NOT NULL,
    prev BLOB NOT NULL,
    hash BLOB NOT NULL
)
"""

FIRST_SCHEMA: Final = (
    AUDIT,
    "CREATE INDEX audit_by_time ON audit (time_ms)",
    "CREATE INDEX audit_by_instrument ON audit (instrument) WHERE instrument != ''",
    # The newest row, so that rows cut off at the end are missed.
    "CREATE TABLE audit_head (id INTEGER PRIMARY KEY CHECK (id = 1), seq INTEGER NOT NULL, "
    "hash BLOB NOT NULL)",
    # The last row that retention removed: the chain begins behind it.
    "CREATE TABLE audit_checkpoint (id INTEGER PRIMARY KEY CHECK (id = 1), seq INTEGER NOT NULL, "
    "hash BLOB NOT NULL, removed_ms INTEGER NOT NULL)",
    "CREATE TABLE capability_unit (unit TEXT PRIMARY KEY, firmware TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE capability (unit TEXT NOT NULL, command TEXT NOT NULL, calls INTEGER NOT NULL, "
    "failures INTEGER NOT NULL, last_success_ms INTEGER NOT NULL, last_error TEXT NOT NULL, "
    "is_undefined INTEGER NOT NULL, latencies TEXT NOT NULL, PRIMARY KEY (unit, command)) "
    "WITHOUT ROWID",
    "CREATE TABLE journal (id TEXT PRIMARY KEY, kind TEXT NOT NULL, instrument_id TEXT NOT NULL, "
    "unit TEXT NOT NULL, begun_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL, "
    "payload TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE lockout (instrument_id TEXT PRIMARY KEY, unit TEXT NOT NULL, "
    "reason TEXT NOT NULL, locked_by TEXT NOT NULL, since_ms INTEGER NOT NULL) WITHOUT ROWID",
)

# Version 2: a row whose texts are those of another names them. The indices go, because nothing has
# used them: a list wants the newest rows first, and SQLite walks backwards: 0.1 s a million rows.
_TEXTS: Final = (
    "phase, parent_id, on_behalf_of, route, session, remote, subject, tool, scope, instrument, "
    "command, parameters, scpi, outcome, code, error"
)
_SHOWN: Final = (
    f"seq, time_ms, phase, action_id, {_TEXTS.removeprefix('phase, ')}, duration_ms, prev, hash"
)
SHARED_TEXTS: Final = (
    "DROP INDEX audit_by_time",
    "DROP INDEX audit_by_instrument",
    "ALTER TABLE audit RENAME TO audit_full",
    f"CREATE TABLE audit_text (id INTEGER PRIMARY KEY, {_TEXTS.replace(',', ' TEXT NOT NULL,')} "
    "TEXT NOT NULL)",
    "CREATE TABLE audit_repeat (seq INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL, "
    "action_id TEXT NOT NULL, text INTEGER NOT NULL, duration_ms REAL NOT NULL, "
    "prev BLOB NOT NULL, hash BLOB NOT NULL)",
    # LEFT: a row whose texts somebody has removed is still there, and does not pass for itself.
    f"CREATE VIEW audit AS SELECT {_SHOWN} FROM audit_full UNION ALL "  # noqa: S608 (constants)
    f"SELECT {_SHOWN} FROM audit_repeat LEFT JOIN audit_text ON id = text",
)

# Version 3: what was told to put something out, until it is seen to be off.
TOLD_ON: Final = (
    "CREATE TABLE told_on (unit TEXT NOT NULL, output TEXT NOT NULL, instrument_id TEXT NOT NULL, "
    "since_ms INTEGER NOT NULL, PRIMARY KEY (unit, output)) WITHOUT ROWID",
)


def version_of(connection: sqlite3.Connection) -> int:
    """The schema version of a database; 0 for an empty one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection, migrations: Mapping[int, Migration]) -> None:
    """Take a database to the newest version, one transaction a step.

    Raises:
        Failed: STORE_FAILED, the database is newer than ``migrations`` reach.
        sqlite3.Error: a step could not be done; the database is at the version before it.
    """
    newest = max(migrations)
    found = version_of(connection)
    if found > newest:
        raise Failed(
            f"The database has schema version {found}, and this program knows up to {newest}: "
            "it was written by a newer edged.",
            code=ErrorCode.STORE_FAILED,
            data={"found": found, "known": newest},
            remedy="Install that version again, or give this one another STATE_DIR.",
        )
    for version in range(found + 1, newest + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            migrations[version](connection)
            connection.execute(f"PRAGMA user_version = {version:d}")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")


def _lay_first_schema(connection: sqlite3.Connection) -> None:
    for statement in FIRST_SCHEMA:
        connection.execute(statement)


def _share_texts(connection: sqlite3.Connection) -> None:
    for statement in SHARED_TEXTS:
        connection.execute(statement)


def _keep_what_was_told(connection: sqlite3.Connection) -> None:
    for statement in TOLD_ON:
        connection.execute(statement)


MIGRATIONS: Final[Mapping[int, Migration]] = MappingProxyType(
    {
        1: _lay_first_schema,
        2: _share_texts,
        3: _keep_what_was_told,
    }
)
