"""The database as a file: opened, migrated after a backup, moved aside when damaged.

Everything here blocks and belongs to the store thread; ``open_for_reading`` to the reader's.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from edged.clock import Clock
from edged.store.head_mark import head_mark_of
from edged.store.health import FileLost, is_locked
from edged.store.migrations import Migration, migrate, version_of
from edged.store.safety_copy import SAFETY_FILE, SafetyCopy, read_copy
from edged.store.salvage import salvage
from edged.store.wal_watch import GONE, WalWatch

__all__ = ["DatabaseFile", "Opened"]

BUSY_S: Final = 0.5
"""Waiting for another program's lock (a shell that somebody left open): well within what a caller
waits, who is to be told of the lock and not of a disk that does not answer."""
WAL_LIMIT_BYTES: Final = 4 * 1024 * 1024
"""The write-ahead log is cut back to this after a checkpoint, so that a burst does not stay."""
COMPANIONS: Final = ("-wal", "-shm")
OWN_VFS: Final = "vfs=unix-excl" if sys.platform == "linux" else ""
"""The log's index is kept in memory, and no other program may open the file meanwhile.

By default it is a mapped file, and where a disk turns read-only under that (a worn SD card), the
next write to it ends the process with SIGBUS (measured)."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # SQLite gives its companion files the mode of the main one; rows tell who did what.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?{OWN_VFS}",
            uri=True,
            timeout=BUSY_S,
            isolation_level=None,
            cached_statements=256,
        )
        # Bytes that are no text, which somebody put there by hand, must not stop everything.
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        try:
            return self._prepare(connection)
        except BaseException:
            close(connection)
            raise

    def open_for_reading(self) -> sqlite3.Connection:
        """Open so that nothing can be changed, beside the writer and in its process.

        On a read-only disk the newest rows may be missing: those that are in the log only.

        Raises:
            sqlite3.Error: there is no database, or it cannot be read.
        """
        address = self.path.absolute().as_uri()
        try:
            return _readable(f"{address}?mode=rw&{OWN_VFS}")
        except sqlite3.OperationalError:
            if self.is_writable():
                raise
            return _readable(f"{address}?mode=ro&immutable=1")

    def open_as_far_as_possible(self) -> sqlite3.Connection:
        """Open to read once and close, where ``open`` has failed: on a full or read-only disk.

        SQLite wants to make a file beside the database even to read it. Measured: on a full disk it
        does without when it has the database to itself; on a read-only one it has to take the file
        for one that nobody writes, and then misses what is in the log only.

        Raises:
            sqlite3.Error: it cannot be read either way, or a running engine has it open.
        """
        address = self.path.absolute().as_uri()
        try:
            return _readable(f"{address}?mode=ro")
        except sqlite3.OperationalError as error:
            # What is read past a lock may be half written, and look damaged.
            if is_locked(error):
                raise
        try:
            return _readable(f"{address}?mode=rw", is_alone=True)
        except sqlite3.OperationalError:
            return _readable(f"{address}?mode=ro&immutable=1")

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
                    self._wal.path.unlink()
            return
        is_saved = False
        if self._wal.loss() == GONE:
            with contextlib.suppress(sqlite3.Error):
                (is_busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                is_saved = not is_busy
        if not is_saved:
            with contextlib.suppress(OSError):
                os.truncate(self._wal.path, 0)
        self._log.error("database_log_lost", path=str(self._wal.path), is_saved=is_saved)

    def _is_still_there(self) -> bool:
        try:
            found = self.path.stat()
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
        self.path.replace(aside)
        for end in COMPANIONS:
            with contextlib.suppress(FileNotFoundError):
                self.path.with_name(self.path.name + end).replace(aside.with_name(aside.name + end))
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
        draft.unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(draft)) as copy:
            connection.backup(copy)
        draft.replace(backup)
        self._log.info("database_backed_up", path=str(backup), version=version)
        return f"The database was migrated from schema version {version}; {backup.name} is a copy."


def close(connection: sqlite3.Connection) -> None:
    """Close a connection that may be in any state."""
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    with contextlib.suppress(sqlite3.Error):
        connection.close()


def _readable(address: str, *, is_alone: bool = False) -> sqlite3.Connection:
    connection = sqlite3.connect(address, uri=True, timeout=BUSY_S, isolation_level=None)
    try:
        if is_alone:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        # Opening is lazy: only a look inside tells whether it can be read.
        connection.execute("PRAGMA query_only = ON")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        close(connection)
        raise
    return connection
