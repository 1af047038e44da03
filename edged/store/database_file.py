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
from edged.store.health import is_locked
from edged.store.migrations import Migration, migrate, version_of
from edged.store.salvage import salvage

__all__ = ["DatabaseFile", "Opened"]

BUSY_S: Final = 1.0
"""Waiting for another program's lock (a shell that somebody left open)."""
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
    """

    connection: sqlite3.Connection
    is_fresh: bool
    news: tuple[str, ...]


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

    def is_still_there(self) -> bool:
        """False once the open file has been deleted or replaced by another one."""
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
        is_fresh = before == 0 or self._damaged is not None
        if is_fresh:
            news.extend(self._begin(connection))
        found = self.path.stat()
        self._opened = (found.st_dev, found.st_ino)
        return Opened(connection=connection, is_fresh=is_fresh, news=tuple(news))

    def _begin(self, connection: sqlite3.Connection) -> list[str]:
        """The first sentences of an empty database, which may follow a damaged one."""
        damaged = self._damaged
        if damaged is None:
            return ["A new database was begun."]
        found = salvage(damaged, connection)
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
