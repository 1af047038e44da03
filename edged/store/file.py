"""The database as a file: opened, migrated after a backup, moved aside when damaged.

Everything here blocks and belongs to the store thread; ``open_for_reading`` to the reader's.

The schema, as the steps that lead to it: each takes a database from one version to the next.

A step is never changed once it has been released; a new one is added to ``MIGRATIONS``. The version
of a database is its ``user_version``.

What safety needs from a damaged database: its lockouts and its journal, row by row.

The audit is not carried over: its chain ends in the damaged file, which is kept.

Whether SQLite's write-ahead log still is the file that was written.

The newest rows are in the log alone, and SQLite does not notice that it was deleted or cut: it goes
on with what it has open, and what it acknowledged is gone with the process. So what lies there is
compared with what lay there after the last commit of our own, who alone may change it: the same
file, not shorter, with the same header (its salts change each time the log begins anew). The log
stays open for that, and its name is looked at.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import structlog

from edged.clock import Clock
from edged.errors import ErrorCode, Failed
from edged.files import (
    KeptFile,
    make_directory,
    move,
    open_descriptor,
    open_update,
    refuse_link,
    remove,
)
from edged.record import record
from edged.store.head_mark import head_mark_of
from edged.store.health import FileLost, is_locked
from edged.store.safety_copy import COLUMNS, SAFETY_FILE, SafetyCopy, read_copy

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

CLIENTS_SINCE: Final = 4
# Version 4: what a caller calls itself. Rows before had none, and are hashed without it.
CLIENTS: Final = (
    "ALTER TABLE audit_full ADD COLUMN client TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE audit_text ADD COLUMN client TEXT NOT NULL DEFAULT ''",
    "DROP VIEW audit",
    # As in version 2; a text that was removed must not pass for one without a client.
    f"CREATE VIEW audit AS SELECT {_SHOWN}, client FROM audit_full UNION ALL "  # noqa: S608 (constants)
    f"SELECT {_SHOWN}, client FROM audit_repeat LEFT JOIN audit_text ON id = text",
)


# Version 5: who has which units for a while, the fence of the last grant of each, and which
# answers of approvals were used.
SHARING: Final = (
    "CREATE TABLE lease (lease_id TEXT PRIMARY KEY, payload TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE fence (unit TEXT PRIMARY KEY, fence INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE spent_state (approval_id TEXT PRIMARY KEY, until_ms INTEGER NOT NULL) "
    "WITHOUT ROWID",
)

# Version 6: what guards remember: the timers inside instruments that were left running, how those
# are talked to, what was spent of budgets, and when each interlock has tripped last.
GUARDS: Final = (
    "CREATE TABLE budget (unit TEXT NOT NULL, command TEXT NOT NULL, payload TEXT NOT NULL, "
    "PRIMARY KEY (unit, command)) WITHOUT ROWID",
    "CREATE TABLE interlock_trip (name TEXT PRIMARY KEY, reason TEXT NOT NULL, "
    "tripped_ms INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE dead_man (instrument_id TEXT PRIMARY KEY, unit TEXT NOT NULL, "
    "payload TEXT NOT NULL) WITHOUT ROWID",
)

# Version 7: when an interlock has tripped on the machine's own scale too, which nobody sets.
TRIP_MOMENT: Final = ("ALTER TABLE interlock_trip ADD COLUMN monotonic_s REAL",)


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
        with connection:
            migrations[version](connection)
            connection.execute(f"PRAGMA user_version = {version:d}")


def _executing(statements: Sequence[str]) -> Migration:
    def run(connection: sqlite3.Connection) -> None:
        for statement in statements:
            connection.execute(statement)

    return run


MIGRATIONS: Final[Mapping[int, Migration]] = MappingProxyType(
    {
        1: _executing(FIRST_SCHEMA),
        2: _executing(SHARED_TEXTS),
        3: _executing(TOLD_ON),
        CLIENTS_SINCE: _executing(CLIENTS),
        5: _executing(SHARING),
        6: _executing(GUARDS),
        7: _executing(TRIP_MOMENT),
        # No table changes, but rows from now on have the hash of ``row_hash``. An edged that knows
        # version 7 would call them altered, and must not add rows of its own.
        8: _executing(()),
    }
)


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
    for table, columns in COLUMNS.items():
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
    try:
        with contextlib.closing(open_database(damaged, "mode=ro")) as source:
            query = f"SELECT {', '.join(columns)} FROM {table}"  # noqa: S608 (constants)
            rows.extend(source.execute(query))
    except sqlite3.Error:
        return rows, False
    return rows, True


GONE: Final = "its write-ahead log was deleted or replaced while in use"
CUT: Final = "its write-ahead log was cut or overwritten while in use"
HEADER_BYTES: Final = 32
MAGICS: Final = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")


_Sight = tuple[int, bytes]
"""Size and header of the log."""


class WalWatch:
    """Watches one log. Store thread only.

    Args:
        path: the log.
        limit_bytes: what SQLite cuts it back to when it begins anew after a burst.
    """

    def __init__(self, path: Path, *, limit_bytes: int) -> None:
        self.path = path
        self._limit_bytes = limit_bytes
        # No lock of SQLite's is on this file, so closing it gives none away. It is looked at by the
        # kernel's own calls, because each group of rows is written between two looks.
        self._file: KeptFile | None = None
        self._known: _Sight | None = None

    def begin(self) -> None:
        """What lies there is right: the database has just been opened. No log: nothing to watch."""
        self.close()
        with contextlib.suppress(FileNotFoundError):
            self._file = KeptFile(self.path, os.O_RDONLY)
            self._known = self._file.look(HEADER_BYTES)

    def loss(self) -> str:
        """What has been done to it since the last commit; empty where nothing was."""
        known = self._known
        if known is None or self._file is None:
            return ""
        found = self._file.look(HEADER_BYTES)
        if found is None:
            return GONE
        is_whole = found[0] >= known[0] and found[1] == known[1]
        return "" if is_whole else CUT

    def committed(self) -> str:
        """Remember it as a commit of our own has left it; ``loss`` of what was done meanwhile."""
        known = self._known
        if known is None or self._file is None:
            return ""
        found = self._file.look(HEADER_BYTES)
        if found is None:
            return GONE
        size, header = found
        if size < min(known[0], self._limit_bytes) or (size and not header.startswith(MAGICS)):
            return CUT
        self._known = found
        return ""

    def is_ours(self) -> bool:
        """Whether the file at that place is the one that was watched."""
        return self._file is not None and self._file.look(0) is not None

    def close(self) -> None:
        """End the watch, before SQLite closes the log: Windows removes no file that is open."""
        if self._file is not None:
            self._file.close()
        self._file = self._known = None


WAL_LIMIT_BYTES: Final = 4 * 1024 * 1024
"""The write-ahead log is cut back to this after a checkpoint, so that a burst does not stay."""
BUSY_S: Final = 0.5
"""How long SQLite waits for another program's lock (a shell that somebody left open). A caller, who
waits longer, hears of the lock and not of a disk that does not answer."""
COMPANIONS: Final = ("-wal", "-shm")
OWN_VFS: Final = "vfs=unix-excl" if sys.platform == "linux" else ""
"""The log's index is kept in memory, and no other program may open the file meanwhile.

By default it is a mapped file, and where a disk turns read-only under that (a worn SD card), the
next write to it ends the process with SIGBUS (measured)."""


@record
class Opened:
    """A database that has been opened.

    Attributes:
        is_fresh: it was empty: nothing that books hold in memory is in it.
        news: sentences that belong into the audit (begun anew, migrated).
        follows_damaged: it is empty because the former one was damaged.
    """

    connection: sqlite3.Connection
    is_fresh: bool
    news: tuple[str, ...]
    follows_damaged: bool = False


class DatabaseFile:
    """One database file and what lies beside it.

    Args:
        path: the file; its directory is made if need be.
        clock: for the names of files moved aside.
        migrations: schema version → the step that leads to it.
    """

    def __init__(self, *, path: Path, clock: Clock, migrations: Mapping[int, Migration]) -> None:
        self.path = path
        self._clock = clock
        self._migrations = migrations
        self.head_mark = head_mark_of(path)
        self.safety_copy = SafetyCopy(path.with_name(SAFETY_FILE))
        # As it was before this life has written any.
        self.copied = read_copy(path.with_name(SAFETY_FILE))
        self._wal = WalWatch(
            path.with_name(f"{path.name}{COMPANIONS[0]}"), limit_bytes=WAL_LIMIT_BYTES
        )
        self._name = str(path)
        # The file that is open, as (device, inode), to notice that it was taken away.
        self._opened: tuple[int, int] = (0, 0)
        # Where the damaged file went, until its lockouts and journal have been carried over.
        self._damaged: Path | None = None
        self._log = structlog.get_logger("edged.store")

    def open(self) -> Opened:
        """Open for writing, in WAL mode, at the newest schema version.

        Raises:
            Failed: the database is newer than the program.
            sqlite3.Error, OSError: it cannot be opened or migrated now.
        """
        make_directory(self.path.parent)
        # SQLite gives its companion files the mode of the main one; rows tell who did what.
        os.close(open_descriptor(self.path, os.O_RDWR | os.O_CREAT))
        connection = open_database(self.path, OWN_VFS)
        # Bytes that are no text, which somebody put there by hand, must not stop everything.
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        with contextlib.ExitStack() as undo:
            undo.callback(close, connection)
            prepared = self._prepare(connection)
            undo.pop_all()
        return prepared

    def open_for_reading(self) -> sqlite3.Connection:
        """Open so that nothing can be changed, beside the writer and in its process.

        On a read-only disk the newest rows may be missing: those that are in the log only.

        Raises:
            sqlite3.Error: there is no database, or it cannot be read.
        """
        try:
            return _readable(self.path, f"mode=rw&{OWN_VFS}")
        except sqlite3.OperationalError:
            if self.is_writable():
                raise
            return _readable(self.path, "mode=ro&immutable=1")

    def open_as_far_as_possible(self) -> sqlite3.Connection:
        """Open to read once and close, where ``open`` has failed: on a full or read-only disk.

        SQLite wants to make a file beside the database even to read it. Measured: on a full disk it
        does without when it has the database to itself; on a read-only one it has to take the file
        for one that nobody writes, and then misses what is in the log only.

        Raises:
            sqlite3.Error: it cannot be read either way, or a running engine has it open.
        """
        try:
            return _readable(self.path, "mode=ro")
        except sqlite3.OperationalError as error:
            # What is read past a lock may be half written, and look damaged.
            if is_locked(error):
                raise
        try:
            return _readable(self.path, "mode=rw", is_alone=True)
        except sqlite3.OperationalError:
            return _readable(self.path, "mode=ro&immutable=1")

    def check(self) -> None:
        """See whether the open files are what they were.

        Raises:
            FileLost: one has been deleted, replaced or cut.
        """
        if not self._is_still_there():
            raise FileLost("the file was deleted or replaced while in use")
        if loss := self._wal.loss():
            raise FileLost(loss)

    def committed(self) -> None:
        """A commit has been made; see whether its rows are where they belong.

        Raises:
            FileLost: the log was taken away or cut meanwhile.
        """
        if loss := self._wal.committed():
            raise FileLost(loss)

    def rescue(self, connection: sqlite3.Connection) -> None:
        """Before a connection is closed that has lost a file: save what is in the log.

        A log without a name is whole, and is folded into the database. One that was cut is emptied:
        SQLite would fold in what is left of it, without another look, when it closes; the database
        is as it was when the log began. A log whose database is gone must not meet another one.
        Nobody else may have the database open.
        """
        if not self._is_still_there():
            if self._wal.is_ours():
                with contextlib.suppress(OSError):
                    remove(self._wal.path)
            return
        is_saved = False
        if self._wal.loss() == GONE:
            with contextlib.suppress(sqlite3.Error):
                (is_busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                is_saved = not is_busy
        if not is_saved:
            with contextlib.suppress(OSError), open_update(self._wal.path) as log:
                log.truncate()
        self._log.error("database_log_lost", path=str(self._wal.path), is_saved=is_saved)

    def close(self) -> None:
        """Let go of the files beside the database, before its connection is closed."""
        self._wal.close()
        self.head_mark.close()

    def _is_still_there(self) -> bool:
        try:
            found = os.lstat(self._name)
        except OSError:
            return False
        return self._opened == (found.st_dev, found.st_ino)

    def is_writable(self) -> bool:
        """Whether the file (if there is one) and its directory may be written now."""
        is_file_writable = os.access(self.path, os.W_OK) or not self.path.exists()
        return is_file_writable and os.access(self.path.parent, os.W_OK)

    def free_bytes(self) -> int:
        """Space left where the database lies; as much as one likes if that cannot be known."""
        try:
            return shutil.disk_usage(self.path.parent).free
        except OSError:
            return sys.maxsize

    def move_aside(self) -> Path:
        """Take a damaged file out of the way, with its companions, under a name of its own.

        Raises:
            OSError: it cannot be renamed (on Windows: while somebody has it open).
        """
        aside = self.path.with_name(f"{self.path.name}.corrupt-{self._clock.wall_ms()}")
        move(self.path, aside)
        for end in COMPANIONS:
            with contextlib.suppress(FileNotFoundError):
                move(self.path.with_name(self.path.name + end), aside.with_name(aside.name + end))
        self._damaged = aside
        self._log.error("database_moved_aside", path=str(aside))
        return aside

    def _prepare(self, connection: sqlite3.Connection) -> Opened:
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            self._log.warning("database_without_wal", mode=mode)
        connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES:d}")
        connection.execute("PRAGMA synchronous = NORMAL")
        before = version_of(connection)
        news: list[str] = []
        if 0 < before < max(self._migrations):
            news.append(self._back_up(connection, before))
        migrate(connection, self._migrations)
        if before < max(self._migrations):
            # A database whose log is lost has its tables all the same.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        follows_damaged = self._damaged is not None
        is_fresh = before == 0 or follows_damaged
        if is_fresh:
            news.extend(self._begin(connection))
        self.safety_copy.watch(connection)
        found = self.path.stat()
        self._opened = (found.st_dev, found.st_ino)
        self._wal.begin()
        return Opened(
            connection=connection,
            is_fresh=is_fresh,
            news=tuple(news),
            follows_damaged=follows_damaged,
        )

    def _begin(self, connection: sqlite3.Connection) -> list[str]:
        """The first sentences of an empty database, which may follow a damaged one."""
        damaged = self._damaged
        if damaged is None:
            return ["A new database was begun."]
        found = salvage(damaged, connection, has_copy=self.copied is not None)
        self._damaged = None
        return [
            f"A new database was begun: the former one was damaged and is kept as {damaged.name}.",
            *found,
        ]

    def _back_up(self, connection: sqlite3.Connection, version: int) -> str:
        """Copy the database as it is before a migration; a copy that is not whole has no name."""
        backup = self.path.with_name(f"{self.path.name}.before-v{max(self._migrations)}")
        draft = backup.with_name(f"{backup.name}.part")
        remove(draft)
        with contextlib.closing(open_database(draft)) as copy:
            connection.backup(copy)
        move(draft, backup)
        self._log.info("database_backed_up", path=str(backup), version=version)
        return f"The database was migrated from schema version {version}; {backup.name} is a copy."


def open_database(path: Path, query: str = "") -> sqlite3.Connection:
    """A connection in autocommit mode.

    Args:
        path: the file.
        query: parameters of its URI, such as ``mode=ro``.

    Raises:
        sqlite3.Error: it cannot be opened, or it or a file beside it is a symbolic link.
    """
    try:
        for end in ("", "-journal", *COMPANIONS):
            refuse_link(path.with_name(f"{path.name}{end}"))
    except OSError as error:
        message = f"{error.filename}: {error.strerror}"
        raise sqlite3.OperationalError(message) from error
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{query}",
        uri=True,
        timeout=BUSY_S,
        isolation_level=None,
        cached_statements=256,
    )


def close(connection: sqlite3.Connection) -> None:
    """Close a connection that may be in any state."""
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    with contextlib.suppress(sqlite3.Error):
        connection.close()


def _readable(path: Path, query: str, *, is_alone: bool = False) -> sqlite3.Connection:
    connection = open_database(path, query)
    with contextlib.ExitStack() as undo:
        undo.callback(close, connection)
        if is_alone:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        # Opening is lazy: only a look inside tells whether it can be read.
        connection.execute("PRAGMA query_only = ON")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        undo.pop_all()
    return connection
