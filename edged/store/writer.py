"""The store thread: takes all that waits, writes it in one transaction, tells who waited.

Rows of books may wait for company (50 ms, those of reads 0.25 s) and are not synced one by one; a
job that somebody awaits is written at once, and synced to the disk if it is durable. When a group
fails, the jobs in it are refused, the rows of books stay in memory, and the file is opened again on
the next job or after a second, whichever comes first: that is how it heals without a restart.
"""

from __future__ import annotations

import collections
import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import structlog

from edged.clock import Clock
from edged.errors import EdgedError, Fault
from edged.store.bell import Bell, Ring
from edged.store.book import Book, Opening
from edged.store.database_file import DatabaseFile, close
from edged.store.health import (
    StoreHealth,
    StoreState,
    judge_error,
    must_be_moved_aside,
    refusal,
)

__all__ = ["Job", "Writer"]

RETRY_S: Final = 1.0
"""How often a database that failed is opened again when nobody asks."""
RETRY_ASKED_S: Final = 0.1
"""How soon after a failure a job makes it open again: a flood of jobs must not hammer the disk."""
MAX_JOBS: Final = 1000
"""Jobs in one transaction: a bound on how long the first of them waits for the last."""
ASIDE_EVERY_S: Final = 60.0
"""A disk that damages every file at once must not be filled with damaged files."""


class Job(Protocol):
    """A write that somebody awaits."""

    is_durable: bool

    def run(self, connection: sqlite3.Connection) -> None:
        """Write, inside of the group's transaction.

        Raises:
            sqlite3.Error: the group fails. Anything else is kept for ``resolve``.
        """
        ...

    def resolve(self, error: EdgedError | None) -> None:
        """It is on disk, or was refused with ``error``. Called once, on the store thread."""
        ...


class Writer:
    """The store thread.

    Args:
        file: the database; nobody else opens it for writing.
        books: what has rows waiting; may grow until ``start``.
        publish: told each change of health, on the store thread.
        opened: called when the first opening has been tried and the books are loaded, and again at
            the end, in case it never came to that.
        ended: called as the last thing the thread does.
    """

    def __init__(
        self,
        *,
        file: DatabaseFile,
        books: Sequence[Book],
        clock: Clock,
        publish: Callable[[StoreHealth], None],
        opened: Callable[[], None],
        ended: Callable[[], None],
    ) -> None:
        self._file = file
        self._books = books
        self._clock = clock
        self._publish = publish
        self._opened = opened
        self._ended = ended
        self.health = StoreHealth(
            state=StoreState.BROKEN, reason="it has not been opened", since_ms=clock.wall_ms()
        )
        # Set when the database is newer than the program: nothing will come of trying again.
        self.fatal: EdgedError | None = None
        self._jobs: collections.deque[Job] = collections.deque()
        self._bell = Bell(clock.monotonic)
        self._connection: sqlite3.Connection | None = None
        self._is_synchronous_full = False
        self._is_over = False
        self._has_loaded = False
        self._tried_at = -RETRY_S
        self._aside_at = -ASIDE_EVERY_S
        self._news: list[str] = []
        self._log = structlog.get_logger("edged.store")
        self._thread = threading.Thread(target=self._run, name="edged-store", daemon=True)

    # Called from the loop's thread.

    def start(self) -> None:
        """Start the thread; it opens the database first."""
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Queue a job; it is run in the next group, or refused at once when the thread is over."""
        self._jobs.append(job)
        if self._is_over:
            self._refuse(self._take_jobs(), refusal(self.health))
        else:
            self._bell.ring_for_job()

    def nudge(self, *, is_soon: bool = False) -> None:
        """Say that a book has rows waiting. Costs next to nothing when that was said already."""
        self._bell.ring_for_rows(is_soon=is_soon)

    def stop(self) -> None:
        """Have the thread write what waits, close the database and end."""
        self._bell.ring(Ring.STOP)

    def report_damage(self) -> None:
        """Somebody who reads has found the file damaged."""
        self._bell.ring(Ring.DAMAGE)

    def join(self, timeout_s: float) -> None:
        """Wait for the thread's end, after ``ended`` has been called."""
        self._thread.join(timeout_s)

    @property
    def waiting_jobs(self) -> int:
        """Jobs that have not been taken yet."""
        return len(self._jobs)

    # The thread.

    def _run(self) -> None:
        try:
            self._reopen()
            self._opened()
            while self.fatal is None and not self._bell.is_stopping:
                is_idle = self.health.is_healthy and not self._has_rows()
                self._bell.wait(None if is_idle else RETRY_S)
                self._write_group(is_last=self._bell.is_stopping)
            while self._jobs and self.health.is_healthy:
                self._write_group(is_last=True)
        except Exception as bug:  # noqa: BLE001 - the top of a thread
            self._log.error("store_thread_died", exc_info=bug)
            self._set_health(StoreHealth(state=StoreState.BROKEN, reason=f"a bug in edged ({bug})"))
        self._close()
        # In this order: who submits later sees the mark and refuses the job itself.
        self._is_over = True
        self._refuse(self._take_jobs(), refusal(self.health))
        self._opened()
        self._ended()

    def _has_rows(self) -> bool:
        return any(book.is_waiting for book in self._books)

    def _write_group(self, *, is_last: bool) -> None:
        self._bell.answer()
        jobs = self._take_jobs()
        if not self._is_ready(is_asked=bool(jobs), is_last=is_last):
            self._settle(is_committed=False)
            self._refuse(jobs, refusal(self.health))
            return
        connection = self._connection
        if connection is None or not (jobs or self._bell.is_damaged or self._has_rows()):
            return
        try:
            self._commit(connection, jobs, is_last=is_last)
        except (sqlite3.Error, OSError) as error:
            self._fall_ill(error)
            self._settle(is_committed=False)
            self._refuse(jobs, refusal(self.health))
        except Exception as bug:  # noqa: BLE001 - a bug in one book must not end the thread
            self._log.error("store_group_failed", exc_info=bug)
            self._fall_ill(sqlite3.OperationalError(f"a bug in edged: {bug}"))
            self._settle(is_committed=False)
            self._refuse(jobs, Fault("edged made a mistake while it wrote to its database."))
        else:
            self._news.clear()
            self._settle(is_committed=True)
            self._recover()
            for job in jobs:
                job.resolve(None)

    def _commit(
        self, connection: sqlite3.Connection, jobs: Sequence[Job], *, is_last: bool
    ) -> None:
        if self._bell.is_damaged:
            self._bell.is_damaged = False
            raise _damage("a reader found it so")
        if not self._file.is_still_there():
            raise sqlite3.OperationalError("the file was deleted or replaced while in use")
        self._set_synchronous(connection, is_full=any(job.is_durable for job in jobs))
        connection.execute("BEGIN IMMEDIATE")
        for book in self._books:
            book.write(connection, is_last=is_last)
        for job in jobs:
            job.run(connection)
        connection.execute("COMMIT")

    def _set_synchronous(self, connection: sqlite3.Connection, *, is_full: bool) -> None:
        """A synced commit syncs the whole log, and so the unsynced groups before it too."""
        if is_full is not self._is_synchronous_full:
            connection.execute(f"PRAGMA synchronous = {'FULL' if is_full else 'NORMAL'}")
            self._is_synchronous_full = is_full

    def _is_ready(self, *, is_asked: bool, is_last: bool) -> bool:
        """True with an open database; opens it again when it is time to."""
        if self._connection is not None:
            return True
        spent_s = self._clock.monotonic() - self._tried_at
        if spent_s < (RETRY_ASKED_S if is_asked else RETRY_S) and not is_last:
            return False
        self._reopen()
        return self._connection is not None

    def _reopen(self) -> None:
        """Open; once more at once if a damaged file had to make room for a fresh one."""
        aside_at = self._aside_at
        self._open()
        if self._connection is None and self._aside_at != aside_at:
            self._open()
        if self._connection is None and not self._has_loaded:
            self._load_read_only()

    def _open(self) -> None:
        self._tried_at = self._clock.monotonic()
        try:
            opened = self._file.open()
            self._connection = opened.connection
            self._is_synchronous_full = False
            self._add_news(*opened.news)
            self._load(opened.connection, is_fresh=opened.is_fresh)
        except (sqlite3.Error, OSError) as error:
            self._fall_ill(error)
        except EdgedError as newer:
            self._set_health(StoreHealth(state=StoreState.BROKEN, reason=newer.message))
            self.fatal = None if self._has_loaded else newer
        else:
            if not self._has_loaded:
                self._set_health(StoreHealth(state=StoreState.HEALTHY))
            self._has_loaded = True

    def _load(self, connection: sqlite3.Connection, *, is_fresh: bool) -> None:
        news = list(self._news)
        if self._has_loaded and not self.health.is_healthy:
            spent_s = (self._clock.wall_ms() - self.health.since_ms) / 1000
            news.append(f"Nothing could be written for {spent_s:.1f} s: {self.health.reason}.")
        opening = Opening(is_fresh=is_fresh, news=tuple(news))
        for book in self._books:
            book.load(connection, opening)

    def _load_read_only(self) -> None:
        """Lockouts hold also where nothing can be written: read them once, however that goes."""
        try:
            connection = self._file.open_as_far_as_possible()
        except (sqlite3.Error, OSError):
            return
        try:
            for book in self._books:
                book.load(connection, Opening(is_fresh=False, news=()))
            self._has_loaded = True
        except sqlite3.Error as error:
            self._log.warning("database_unreadable", error=str(error))
        finally:
            close(connection)

    def _fall_ill(self, error: sqlite3.Error | OSError) -> None:
        """Close, remember why, and move a damaged file out of the way."""
        health = judge_error(
            error,
            free_bytes=self._file.free_bytes(),
            is_writable=self._file.is_writable(),
            now_ms=self._clock.wall_ms(),
        )
        self._close()
        if self.health.is_healthy:
            # The first retry need not wait: one failure may have been one statement's.
            self._tried_at = self._clock.monotonic() - RETRY_S
        self._set_health(health)
        if not must_be_moved_aside(error):
            return
        now = self._clock.monotonic()
        if now - self._aside_at < ASIDE_EVERY_S:
            return
        try:
            self._file.move_aside()
        except OSError as stuck:
            self._log.error("database_not_moved_aside", error=str(stuck))
            return
        # A fresh file can be opened at once.
        self._aside_at, self._tried_at = now, now - RETRY_S

    def _recover(self) -> None:
        if not self.health.is_healthy:
            self._set_health(StoreHealth(state=StoreState.HEALTHY, since_ms=self._clock.wall_ms()))

    def _set_health(self, health: StoreHealth) -> None:
        before, self.health = self.health, health
        if before.state is health.state:
            # The same trouble goes on since it began.
            self.health = StoreHealth(
                state=health.state,
                reason=health.reason,
                remedy=health.remedy,
                since_ms=before.since_ms,
            )
            return
        tell = self._log.info if health.is_healthy else self._log.warning
        tell("store_state", state=health.state.value, reason=health.reason)
        self._publish(self.health)

    def _add_news(self, *sentences: str) -> None:
        self._news.extend(s for s in sentences if s not in self._news)

    def _settle(self, *, is_committed: bool) -> None:
        for book in self._books:
            book.settle(is_committed=is_committed)

    def _take_jobs(self) -> list[Job]:
        jobs: list[Job] = []
        while len(jobs) < MAX_JOBS:
            try:
                jobs.append(self._jobs.popleft())
            except IndexError:
                break
        return jobs

    def _refuse(self, jobs: Sequence[Job], error: EdgedError) -> None:
        for job in jobs:
            job.resolve(error)

    def _close(self) -> None:
        if self._connection is not None:
            close(self._connection)
            self._connection = None


def _damage(text: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(text)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error
