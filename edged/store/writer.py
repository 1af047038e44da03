"""The store thread: takes all that waits, writes it in one transaction, tells who waited.

Rows of books may wait for company (50 ms, those of reads 0.25 s) and are not synced one by one; a
job that somebody awaits is written at once, and synced to the disk if it is durable. When a group
fails, the jobs in it are refused, the rows of books stay in memory, and the file is opened again on
the next job or after a second, whichever comes first: that is how it heals without a restart.

A disk may neither take nor refuse what is written: then the thread hangs in the kernel, and nothing
can be done about that here. Whoever waits goes by ``busy_s``, and ``health`` tells it.

How the store thread is woken: rarely, because every waking costs more than a row.

Whoever has something to write appends it to a queue first and rings then. A signal that has
been rung for rows, or for a job, is not rung again until the thread has answered; it answers before
it takes from the queues, so nothing that was appended is missed.

``Book``: the seam between the store thread and whatever keeps rows in the database.

A book has rows waiting in memory, which go along with whichever group is written next; that is how
rows are written without anybody waiting for them. The loop's thread appends to a book and raises
its flag, the store thread lowers the flag and takes from the book: they share queues
(``collections.deque``) and no lock. A group costs only the books that have rows.
"""

from __future__ import annotations

import collections
import enum
import queue
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Final, Protocol

import structlog

from edged.clock import Clock
from edged.errors import EdgedError, Fault
from edged.log import ASIDE
from edged.record import record
from edged.store.file import DatabaseFile, close
from edged.store.health import (
    FileLost,
    StoreHealth,
    StoreState,
    judge_error,
    must_be_moved_aside,
    refusal,
    stalled,
)
from edged.store.safety_copy import Copied


class Ring(enum.IntEnum):
    """Why the thread is woken."""

    ROWS = enum.auto()
    ROWS_SOON = enum.auto()
    JOB = enum.auto()
    STOP = enum.auto()
    DAMAGE = enum.auto()


GATHER_S: Final[Mapping[Ring | None, float]] = {Ring.ROWS: 0.25, Ring.ROWS_SOON: 0.05}
"""How long rows that nobody waits for may wait for company: those of reads, and those of writes.

A group costs what some fifty rows cost, and both threads some waiting for each other."""


class WakeSignal:
    """One thread listens; any thread rings."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._rings: queue.SimpleQueue[Ring] = queue.SimpleQueue()
        self._rung_for_rows = False
        self._rung_for_soon = False
        self._rung_for_job = False
        # Set by the thread itself as it hears of them, and never reset here.
        self.is_stopping = False
        self.is_damaged = False

    def ring_for_rows(self, *, is_soon: bool = False) -> None:
        """Rows wait; costs next to nothing when that has been said already."""
        if is_soon and not self._rung_for_soon:
            self._rung_for_soon = self._rung_for_rows = True
            self._rings.put(Ring.ROWS_SOON)
        elif not self._rung_for_rows:
            self._rung_for_rows = True
            self._rings.put(Ring.ROWS)

    def ring_for_job(self) -> None:
        """A job waits, and somebody for it."""
        if not self._rung_for_job:
            self._rung_for_job = True
            self._rings.put(Ring.JOB)

    def ring(self, why: Ring) -> None:
        """Something that happens once."""
        self._rings.put(why)

    def wait(self, timeout_s: float | None) -> None:
        """Return when a group is due: at once for a job, after a short gathering for rows.

        Args:
            timeout_s: return after that long whatever happens; None is for ever.
        """
        ring = self._hear(timeout_s)
        if ring not in GATHER_S:
            return
        end = self._monotonic() + GATHER_S[ring]
        while (left_s := end - self._monotonic()) > 0:
            ring = self._hear(left_s)
            if ring not in GATHER_S:
                return
            end = min(end, self._monotonic() + GATHER_S[ring])

    def answer(self) -> None:
        """What is rung for from now on is new. To be called before anything is taken."""
        self._rung_for_rows = self._rung_for_soon = self._rung_for_job = False

    def _hear(self, timeout_s: float | None) -> Ring | None:
        try:
            ring = self._rings.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if ring is Ring.STOP:
            self.is_stopping = True
        elif ring is Ring.DAMAGE:
            self.is_damaged = True
        return ring


@record
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

    def load(self, connection: sqlite3.Connection, opening: Opening) -> None:
        """Read what is needed from a database just opened, maybe read-only; writes nothing."""
        ...

    def write(self, connection: sqlite3.Connection, *, is_last: bool) -> None:
        """Write waiting rows, inside a group's transaction, because the flag was raised.

        Args:
            is_last: the database closes after this group: hold nothing back.
        """
        ...


class DirtyFlag:
    """Whether a book has rows that are not on disk.

    Args:
        book: whose it is.
        settle: see there.

    Attributes:
        is_raised: rows wait in memory. Any thread raises it, once the book has them; the store
            thread lowers it before the book is to write, and raises it again if the group fails.
        is_open: the running transaction has rows of the book. The store thread's own; a job that
            writes a book's rows sets it.
    """

    __slots__ = ("book", "is_open", "is_raised", "settle")

    def __init__(self, book: Book, settle: Settle | None = None) -> None:
        self.book = book
        self.settle = settle
        self.is_raised = False
        self.is_open = False


class Settle(Protocol):
    """What a book is called by when a group that it has rows in, or rows for, has ended."""

    def __call__(self, *, is_committed: bool) -> None:
        """The group is on disk, or has left nothing there and its rows have to wait again."""
        ...


RETRY_S: Final = 1.0
"""How often a database that failed is opened again when nobody asks."""
RETRY_ASKED_S: Final = 0.1
"""How soon after a failure a job makes it open again: a flood of jobs must not hammer the disk."""
MAX_JOBS: Final = 1000
"""Jobs in one transaction: a bound on how long the first of them waits for the last."""
READERS_WITHIN_S: Final = 3.0
"""How long one who reads may take to let go of a database that has lost a file."""
LOOK_EVERY_S: Final = 5.0
"""How often somebody looks whether the file is there still, when nothing is written."""
STALLED_AFTER_S: Final = 2.0
"""A disk that has not come back by then does not answer."""
ASIDE_EVERY_S: Final = 60.0
"""A disk that damages every file at once must not be filled with damaged files."""


LINES_KEPT_BACK: Final = 32
"""Log lines that wait for a group without jobs: each write has one, for its end row."""
IS_RAISED: Final = attrgetter("is_raised")
IS_DURABLE: Final = attrgetter("is_durable")


class WriteJob(Protocol):
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


class Readers(Protocol):
    """Who else has the database open; see ``reader.Reader``."""

    def release(self, within_s: float) -> bool:
        """Close it and keep it closed; False if that takes too long."""
        ...

    def resume(self) -> None:
        """It may be opened again."""
        ...


class Writer:
    """The store thread.

    Args:
        file: the database; nobody else opens it for writing.
        flags: of the books; may grow until ``start``.
        publish: told each change of health, on the store thread.
        opened: called when the first opening has been tried and the books are loaded, and again at
            the end, in case it never came to that.
        ended: called as the last thing the thread does.
        readers: let go of the database when one of its files has been lost.
        told_s: how long nothing is written after such a loss, so that it is seen, and because who
            has been at the files may not be done.
    """

    def __init__(
        self,
        *,
        file: DatabaseFile,
        flags: Sequence[DirtyFlag],
        clock: Clock,
        publish: Callable[[StoreHealth], None],
        opened: Callable[[], None],
        ended: Callable[[], None],
        readers: Readers,
        told_s: float,
    ) -> None:
        self._readers = readers
        self._told_s = told_s
        # Until when nothing is written after a loss; whether readers have yet to let go after it.
        self._held_until = 0.0
        self._must_release = False
        self._file = file
        self._flags = flags
        self._clock = clock
        self._publish = publish
        self._opened = opened
        self._ended = ended
        # As of the last group; ``health`` knows of the one under way too.
        self._health = StoreHealth(
            state=StoreState.BROKEN, reason="it has not been opened", since_ms=clock.wall_ms()
        )
        # Since when the thread is at the disk, by the monotonic clock and by the other; replaced as
        # one, because the loop's thread reads it.
        self._at_disk: tuple[float, int] | None = None
        # Set when the database is newer than the program: nothing will come of trying again.
        self.fatal: EdgedError | None = None
        self._jobs: collections.deque[WriteJob] = collections.deque()
        self._wake_signal = WakeSignal(clock.monotonic)
        # Said by a book that has rows; costs next to nothing when that was said already.
        self.nudge = self._wake_signal.ring_for_rows
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

    def submit(self, job: WriteJob) -> None:
        """Queue a job; it is run in the next group, or refused at once when the thread is over."""
        self._jobs.append(job)
        if self._is_over:
            self._refuse(self._take_jobs(), refusal(self.health))
        else:
            self._wake_signal.ring_for_job()

    def stop(self) -> None:
        """Have the thread write what waits, close the database and end."""
        self._wake_signal.ring(Ring.STOP)

    def report_damage(self) -> None:
        """Somebody who reads has found the file damaged."""
        self._wake_signal.ring(Ring.DAMAGE)

    def join(self, timeout_s: float) -> None:
        """Wait for the thread's end, after ``ended`` has been called."""
        self._thread.join(timeout_s)

    @property
    def health(self) -> StoreHealth:
        """How the database is now: also while the thread hangs at the disk."""
        at_disk = self._at_disk
        if at_disk is None or self._clock.monotonic() - at_disk[0] < STALLED_AFTER_S:
            return self._health
        return stalled(at_disk[1])

    @property
    def busy_s(self) -> float:
        """For how long the thread has been at the disk; 0 while it waits for work."""
        at_disk = self._at_disk
        return 0.0 if at_disk is None else self._clock.monotonic() - at_disk[0]

    @property
    def waiting_jobs(self) -> int:
        """Jobs that have not been taken yet."""
        return len(self._jobs)

    # The thread.

    def _run(self) -> None:
        try:
            self._go_to_disk()
            self._reopen()
            self._at_disk = None
            self._opened()
            while self.fatal is None and not self._wake_signal.is_stopping:
                is_idle = self._health.state is StoreState.HEALTHY and not self._has_rows()
                self._wake_signal.wait(LOOK_EVERY_S if is_idle else RETRY_S)
                self._write_group(is_last=self._wake_signal.is_stopping)
            while self._jobs and self._health.is_healthy:
                self._write_group(is_last=True)
        except Exception as bug:  # noqa: BLE001 - the top of a thread
            self._log.error("store_thread_died", exc_info=bug)
            self._set_health(StoreHealth(state=StoreState.BROKEN, reason=f"a bug in edged ({bug})"))
        self._close()
        # In this order: who submits later sees the mark and refuses the job itself.
        self._is_over = True
        self._refuse(self._take_jobs(), refusal(self.health))
        self._opened()
        ASIDE.write()
        self._ended()

    def _has_rows(self) -> bool:
        return any(map(IS_RAISED, self._flags))

    def _go_to_disk(self) -> None:
        """From here on the disk may take any time; called anew before each thing that may."""
        self._at_disk = (self._clock.monotonic(), self._clock.wall_ms())

    def _write_group(self, *, is_last: bool) -> None:
        self._wake_signal.answer()
        jobs = self._take_jobs()
        self._go_to_disk()
        try:
            refused = self._try_group(jobs, is_last=is_last)
        finally:
            self._at_disk = None
        if refused is not None:
            self._settle(is_committed=False)
            self._refuse(jobs, refused)
            return
        for job in jobs:
            job.resolve(None)
        # Whoever waited for the disk goes on now, and would wait for the interpreter.
        if not jobs or len(ASIDE.waiting) > LINES_KEPT_BACK:
            ASIDE.write()

    def _try_group(self, jobs: Sequence[WriteJob], *, is_last: bool) -> EdgedError | None:
        """Write all that waits; gives what those who wait are refused with."""
        if not self._is_ready(is_asked=bool(jobs), is_last=is_last):
            return refusal(self.health)
        connection = self._connection
        if connection is None:
            return refusal(self.health)
        if not (jobs or self._wake_signal.is_damaged or self._has_rows()):
            self._look()
            return None
        try:
            self._commit(connection, jobs, is_last=is_last)
        except (sqlite3.Error, OSError) as error:
            self._fall_ill(error)
            return refusal(self._health)
        except Exception as bug:  # noqa: BLE001 - a bug in one book must not end the thread
            self._log.error("store_group_failed", exc_info=bug)
            self._fall_ill(sqlite3.OperationalError(f"a bug in edged: {bug}"))
            return Fault("edged made a mistake while it wrote to its database.")
        self._news.clear()
        self._settle(is_committed=True)
        # The disk has answered; how the database was meanwhile if that took too long.
        health = self.health
        stall = None if health is self._health else health
        self._at_disk = None
        if self._health.state is not StoreState.HEALTHY:
            self._set_health(StoreHealth(state=StoreState.HEALTHY, since_ms=self._clock.wall_ms()))
        if stall is not None:
            self._end_stall(connection, stall)
        return None

    def _end_stall(self, connection: sqlite3.Connection, stall: StoreHealth) -> None:
        """The disk has come back: that it was away is written with the next group."""
        self._set_health(stall)
        try:
            self._load(connection, is_fresh=False)
        except sqlite3.Error as error:
            self._fall_ill(error)

    def _look(self) -> None:
        """See to the files when there is nothing to write: a loss is told all the same."""
        try:
            self._file.check()
        except (sqlite3.Error, OSError) as error:
            self._fall_ill(error)

    def _commit(
        self, connection: sqlite3.Connection, jobs: Sequence[WriteJob], *, is_last: bool
    ) -> None:
        if self._wake_signal.is_damaged:
            self._wake_signal.is_damaged = False
            raise _damage("a reader found it so")
        self._file.check()
        is_durable = any(map(IS_DURABLE, jobs))
        self._set_synchronous(connection, is_full=is_durable)
        connection.execute("BEGIN IMMEDIATE")
        for flag in self._flags:
            if flag.is_raised:
                flag.is_raised, flag.is_open = False, True
                flag.book.write(connection, is_last=is_last)
        for job in jobs:
            job.run(connection)
        self._file.safety_copy.keep(
            connection, now_s=self._clock.monotonic(), is_durable=is_durable
        )
        connection.execute("COMMIT")
        self._file.committed()

    def _set_synchronous(self, connection: sqlite3.Connection, *, is_full: bool) -> None:
        """A synced commit syncs the whole log, and so the unsynced groups before it too."""
        if is_full is not self._is_synchronous_full:
            connection.execute(f"PRAGMA synchronous = {'FULL' if is_full else 'NORMAL'}")
            self._is_synchronous_full = is_full

    def _is_ready(self, *, is_asked: bool, is_last: bool) -> bool:
        """True with an open database; opens it again when it is time to."""
        if self._connection is not None:
            return True
        if self._clock.monotonic() < self._held_until and not is_last:
            return False
        spent_s = self._clock.monotonic() - self._tried_at
        if spent_s < (RETRY_ASKED_S if is_asked else RETRY_S) and not is_last:
            return False
        self._reopen()
        self._go_to_disk()
        return self._connection is not None

    def _reopen(self) -> None:
        """Open; once more at once if a damaged file had to make room for a fresh one."""
        aside_at = self._aside_at
        self._go_to_disk()
        self._open()
        if self._connection is None and self._aside_at != aside_at:
            self._go_to_disk()
            self._open()
        if self._connection is None and not self._has_loaded:
            self._go_to_disk()
            self._load_read_only()

    def _open(self) -> None:
        self._tried_at = self._clock.monotonic()
        if self._must_release and not self._release_readers():
            return
        try:
            opened = self._file.open()
            self._connection = opened.connection
            self._is_synchronous_full = False
            self._add_news(*opened.news)
            self._load(
                opened.connection,
                is_fresh=opened.is_fresh,
                follows_damaged=opened.follows_damaged,
            )
        except (sqlite3.Error, OSError) as error:
            self._fall_ill(error)
        except EdgedError as newer:
            self._set_health(StoreHealth(state=StoreState.BROKEN, reason=newer.message))
            self.fatal = None if self._has_loaded else newer
        else:
            if not self._has_loaded:
                self._set_health(StoreHealth(state=StoreState.HEALTHY))
            self._has_loaded = True

    def _load(
        self, connection: sqlite3.Connection, *, is_fresh: bool, follows_damaged: bool = False
    ) -> None:
        news = list(self._news)
        if self._has_loaded and not self._health.is_healthy:
            spent_s = (self._clock.wall_ms() - self._health.since_ms) / 1000
            news.append(f"Nothing could be written for {spent_s:.1f} s: {self._health.reason}.")
        opening = Opening(
            is_fresh=is_fresh,
            news=tuple(news),
            follows_damaged=follows_damaged,
            copied=self._file.copied,
            mark=self._file.head_mark.read(),
        )
        for flag in self._flags:
            flag.book.load(connection, opening)

    def _load_read_only(self) -> None:
        """Lockouts hold also where nothing can be written: read them once, however that goes."""
        try:
            connection = self._file.open_as_far_as_possible()
        except (sqlite3.Error, OSError):
            return
        try:
            for flag in self._flags:
                # Without the mark: what is in the log only is missed here, and not lost.
                flag.book.load(
                    connection, Opening(is_fresh=False, news=(), copied=self._file.copied)
                )
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
        if isinstance(error, FileLost):
            self._hold()
        self._close()
        if not self._must_release:
            self._readers.resume()
        if self._health.is_healthy:
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

    def _hold(self) -> None:
        """A file was lost: save what can be saved, and let it be seen before going on."""
        if self._file.is_writable():
            self._held_until = self._clock.monotonic() + self._told_s
        self._release_readers()
        if self._connection is not None:
            self._file.rescue(self._connection)

    def _release_readers(self) -> bool:
        """Whoever has the files open still sees what was, and must not share it with what comes."""
        self._must_release = not self._readers.release(READERS_WITHIN_S)
        return not self._must_release

    def _set_health(self, health: StoreHealth) -> None:
        before, self._health = self._health, health
        if before.state is health.state:
            # The same trouble goes on since it began.
            self._health = StoreHealth(
                state=health.state,
                reason=health.reason,
                remedy=health.remedy,
                since_ms=before.since_ms,
            )
            return
        tell = self._log.info if health.is_healthy else self._log.warning
        tell("store_state", state=health.state.value, reason=health.reason)
        self._publish(self._health)

    def _add_news(self, *sentences: str) -> None:
        self._news.extend(s for s in sentences if s not in self._news)

    def _settle(self, *, is_committed: bool) -> None:
        self._file.safety_copy.settle(is_committed=is_committed)
        for flag in self._flags:
            if flag.is_open and not is_committed:
                flag.is_raised = True
            if flag.is_open or (flag.is_raised and not is_committed):
                flag.is_open = False
                if flag.settle is not None:
                    flag.settle(is_committed=is_committed)

    def _take_jobs(self) -> list[WriteJob]:
        jobs: list[WriteJob] = []
        while len(jobs) < MAX_JOBS:
            try:
                jobs.append(self._jobs.popleft())
            except IndexError:
                break
        return jobs

    def _refuse(self, jobs: Sequence[WriteJob], error: EdgedError) -> None:
        for job in jobs:
            job.resolve(error)

    def _close(self) -> None:
        self._file.close()
        if self._connection is not None:
            close(self._connection)
            self._connection = None


def _damage(text: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(text)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error
