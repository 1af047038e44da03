"""The database as the rest of edged sees it: awaited writes, awaited reads, and its health.

SQLite in WAL mode behind two threads: ``writer.py`` writes in groups, ``reader.py`` reads beside.
What is written without waiting goes through a ``Book``.

The reader's thread: questions to the database on a read-only connection of their own.

It exists so that a long list never holds up an intent. It starts with the first question.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import structlog

from edged.clock import Clock
from edged.deadlines import Deadlines
from edged.errors import EdgedError, ErrorCode, Failed, Fault
from edged.store.file import MIGRATIONS, DatabaseFile, Migration, close
from edged.store.health import StoreHealth, StoreState, must_be_moved_aside, refusal, stalled
from edged.store.writer import Book, DirtyFlag, Opening, Settle, Writer

STEPS_BETWEEN_LOOKS: Final = 50_000
"""Virtual machine steps of SQLite (some milliseconds) after which an abandoned question ends."""


class Reader:
    """The reader's thread.

    Args:
        file: the database.
        report_damage: told when the file turns out to be damaged.
        ended: called as the last thing the thread does; at once if there is none.
    """

    def __init__(
        self, *, file: DatabaseFile, report_damage: Callable[[], None], ended: Callable[[], None]
    ) -> None:
        self._file = file
        self._report_damage = report_damage
        self._ended = ended
        # None ends the thread; True has it let go of the file and go on.
        self._questions: queue.SimpleQueue[_Question[Any] | bool | None] = queue.SimpleQueue()
        self._connection: sqlite3.Connection | None = None
        # The file that the connection reads, as (device, inode).
        self._reading: tuple[int, int] = (0, 0)
        self._must_close = False
        # Somebody waits for the file: what is being read ends.
        self._is_wanted = False
        self._is_closed, self._may_open = threading.Event(), threading.Event()
        self._is_closed.set()
        self._may_open.set()
        self._log = structlog.get_logger("edged.store")
        self._thread: threading.Thread | None = None

    def ask(self, question: _Question[Any]) -> None:
        """Queue a question; first come, first served. Called from the loop's thread."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="edged-store-reader", daemon=True
            )
            self._thread.start()
        self._questions.put(question)

    def let_go(self) -> None:
        """Close the file before the next question: it may have been replaced."""
        self._must_close = True

    def release(self, within_s: float) -> bool:
        """Have the file closed, whatever is being read, and kept closed until ``resume``.

        Called from the writer's thread, who is about to bring the file to another state.

        Returns:
            False if that takes too long.
        """
        self._may_open.clear()
        if self._is_closed.is_set():
            return True
        self._is_wanted = True
        self._questions.put(True)
        return self._is_closed.wait(within_s)

    def resume(self) -> None:
        """The file may be opened again."""
        self._is_wanted = False
        self._may_open.set()

    def stop(self) -> None:
        """End after what is being read."""
        if self._thread is None:
            self._ended()
        else:
            self._questions.put(None)

    def join(self, timeout_s: float) -> None:
        """Wait for the thread's end, after ``ended`` has been called."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while (question := self._questions.get()) is not None:
            if isinstance(question, bool):
                self._close()
                continue
            error: EdgedError | None = None
            try:
                self._answer(question)
            except sqlite3.Error as trouble:
                error = self._judge(trouble)
            except Exception as bug:  # noqa: BLE001 - the top of a thread: one question must not end it
                self._log.error("store_read_failed", exc_info=bug)
                error = Failed("The database could not be read.", code=ErrorCode.STORE_FAILED)
            question.resolve(error)
        self._close()
        self._ended()

    def _answer(self, question: _Question[Any]) -> None:
        if question.is_abandoned:
            return
        found = _identity(self._file.path)
        if self._connection is None or self._must_close or found != self._reading:
            self._must_close = False
            self._close()
            # In this order: who asks for the file meanwhile sees either that it is open, or not.
            self._is_closed.clear()
            if not self._may_open.is_set():
                raise sqlite3.OperationalError("a file of it was lost, and it is being mended")
            self._connection = self._file.open_for_reading()
            self._reading = found
        connection = self._connection
        connection.set_progress_handler(
            lambda: int(question.is_abandoned or self._is_wanted), STEPS_BETWEEN_LOOKS
        )
        try:
            question.run(connection)
        finally:
            connection.set_progress_handler(None, 0)

    def _judge(self, trouble: sqlite3.Error) -> Failed:
        self._close()
        if must_be_moved_aside(trouble):
            self._report_damage()
        return Failed(
            f"The database could not be read ({trouble}).",
            code=ErrorCode.STORE_FAILED,
            remedy="Ask again in a second; get_status (store) says how the database is.",
        )

    def _close(self) -> None:
        if self._connection is not None:
            close(self._connection)
            self._connection = None
        self._is_closed.set()


def _identity(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return (found.st_dev, found.st_ino)


TOLD_S: Final = 30.0
"""How long nothing is written after a file was lost: whoever looks every ten seconds sees it,
also on a busy machine."""
STOP_S: Final = 1.0
"""How long the two threads may take to write what waits and to close."""
MAX_WAITING: Final = 10_000
"""Awaited writes at one time; each is a caller, so more would be a bug or a siege."""

WRITE_WITHIN_S: Final = 2.0
"""How long a caller waits for a write; the disk may take it yet, and the answer must not wait."""
STALLED_WITHIN_S: Final = 0.1
"""The disk may just seem slow: where the process itself stood still, its thread answers now."""
READ_WITHIN_S: Final = 20.0
"""A list of millions of rows by a filter takes some seconds on a small machine."""
READ_WHILE_STALLED_S: Final = 5.0
OVERSLEPT_S: Final = 0.5
"""A wait that ends so much later than asked is no judgement of the disk: the loop stood still."""

T = TypeVar("T")
Statement = Callable[[sqlite3.Connection], T]


class Database:
    """One SQLite database.

    Args:
        path: its file, ``edged.db`` in the state directory.
        clock: for waits, and for times in names and health.
        migrations: schema version → the step that leads to it.
        file: stands in for the file at ``path``, with a quota say.
        told_s: how long nothing is written after one of its files was lost.
    """

    def __init__(
        self,
        *,
        path: Path,
        clock: Clock,
        migrations: Mapping[int, Migration] = MIGRATIONS,
        file: DatabaseFile | None = None,
        told_s: float = TOLD_S,
    ) -> None:
        self.path = path
        self._flags: list[DirtyFlag] = []
        self._watchers: list[Callable[[StoreHealth], None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        # Of writes that somebody waits for; made with the loop.
        self._deadlines: Deadlines[_Job[Any]]
        self._clock = clock
        self._is_stopped = False
        # When the last stall that was told of began.
        self._told_stall_ms = 0
        self._log = structlog.get_logger("edged.store")
        # Set once the books are loaded, or the first opening has failed.
        self._is_opened = asyncio.Event()
        self._writer_ended = asyncio.Event()
        self._reader_ended = asyncio.Event()
        file = file or DatabaseFile(path=path, clock=clock, migrations=migrations)
        self.head_mark = file.head_mark
        self._reader = Reader(
            file=file,
            report_damage=lambda: self._writer.report_damage(),
            ended=lambda: self.call_soon(self._reader_ended.set),
        )
        self._writer = Writer(
            file=file,
            flags=self._flags,
            clock=clock,
            publish=self._publish,
            opened=lambda: self.call_soon(self._is_opened.set),
            ended=lambda: self.call_soon(self._writer_ended.set),
            readers=self._reader,
            told_s=told_s,
        )
        # Said by a book that has rows: they are committed within 0.25 s or so, or within 50 ms
        # (``is_soon``) where they matter more.
        self.nudge = self._writer.nudge

    @property
    def health(self) -> StoreHealth:
        """How it is: as of the last group, and ``STALLED`` while one hangs at the disk."""
        return self._writer.health

    def attach(self, book: Book, *, settle: Settle | None = None) -> DirtyFlag:
        """Have a book's rows written with the groups that come. Before ``start``.

        Args:
            settle: see ``Settle``; of a book that has to know what became of its rows.

        Returns:
            What the book raises when it has rows.
        """
        if self._loop is not None:
            raise Fault("A book was attached to a database that has been started.")
        flag = DirtyFlag(book, settle)
        self._flags.append(flag)
        return flag

    def subscribe(self, watcher: Callable[[StoreHealth], None]) -> Callable[[], None]:
        """Call ``watcher`` on the loop at each change of health; the result ends that."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    async def start(self) -> None:
        """Open, migrate, and load the books.

        A disk that is full, read-only or damaged is no reason to stop: see ``health``.

        Raises:
            Failed: STORE_FAILED, the database was written by a newer edged.
        """
        self._loop = asyncio.get_running_loop()
        self._deadlines = Deadlines(self._loop, self._expire)
        self._writer.start()
        await self._is_opened.wait()
        if self._writer.fatal is not None:
            await self.stop()
            raise self._writer.fatal

    async def stop(self) -> None:
        """Write what waits and close, within about a second."""
        if self._is_stopped or self._loop is None:
            return
        self._is_stopped = True
        # The reader first: whoever closes last folds the log into the database, and only the
        # writer can. Neither has anything left to do but to return once it has ended.
        self._reader.stop()
        if await self._ends(self._reader_ended):
            self._reader.join(STOP_S)
        self._writer.stop()
        if await self._ends(self._writer_ended):
            self._writer.join(STOP_S)

    async def write(
        self,
        statement: Statement[T],
        *,
        is_durable: bool = True,
        within_s: float = WRITE_WITHIN_S,
    ) -> T:
        """``submit``, and wait for it."""
        return await self.submit(statement, is_durable=is_durable, within_s=within_s)

    def submit(
        self,
        statement: Statement[T],
        *,
        is_durable: bool = True,
        within_s: float = WRITE_WITHIN_S,
    ) -> Written[T]:
        """Run ``statement`` on the store thread in the next group; done once that is committed.

        Args:
            statement: called with the connection, inside a transaction. What it raises undoes its
                own changes only, and is its exception.
            is_durable: committed and synced, so that it survives a power failure.
            within_s: how long to wait; STALLED_WITHIN_S at most where the disk has kept others
                waiting so long.

        Cancelling withdraws a statement that has not been run yet, and so does the end of its time.
        After a suspended computer, a stopped process or a loop that hung, that has come before the
        store's thread could answer: then it has ``within_s`` once more.

        Raises:
            Failed: STORE_FAILED, with the reason, here or as its exception; nothing was written.
                Where the disk does not answer it may be found written later, all the same.
        """
        loop = self._running_loop()
        if self._writer.busy_s >= within_s:
            within_s = min(within_s, STALLED_WITHIN_S)
        if self._writer.waiting_jobs >= MAX_WAITING:
            raise Failed("The database is too far behind.", code=ErrorCode.STORE_FAILED)
        job = _Job(statement, loop, self._deadlines, is_durable=is_durable, within_s=within_s)
        self._writer.submit(job)
        self._deadlines.add(job, within_s)
        return job.future

    def _expire(self, job: _Job[Any]) -> None:
        now_s = job.loop.time()
        if job.future.done():
            return
        if now_s - job.asked_s >= job.within_s + OVERSLEPT_S:
            job.asked_s = now_s
            self._deadlines.add(job, job.within_s)
        else:
            job.refuse(self._overdue())

    async def read(self, statement: Statement[T]) -> T:
        """Run ``statement`` on the reader's thread, on a connection that can change nothing.

        Raises:
            Failed: STORE_FAILED, the database cannot be read.
        """
        question = _Question(statement, self._running_loop())
        self._reader.ask(question)
        is_stalled = self.health.state is StoreState.STALLED
        within_s = READ_WHILE_STALLED_S if is_stalled else READ_WITHIN_S
        if not await _comes(question.future, within_s):
            raise Failed(
                f"The database could not be read within {within_s:g} s.",
                code=ErrorCode.STORE_FAILED,
                remedy="Ask for less, or again later; get_status (store) says how the database is.",
            )
        return question.future.result()

    async def keep(self) -> None:
        """All rows of all books are on disk when this returns.

        Raises:
            Failed: STORE_FAILED; they are written when the database heals.
        """
        await self.write(_nothing)

    async def flush(self) -> None:
        """Have all that waits in the books committed (not synced), if that can be done now."""
        with contextlib.suppress(Failed):
            await self.write(_nothing, is_durable=False)

    def call_soon(self, callback: Callable[..., None], *arguments: Any) -> None:
        """From the store thread: have the loop call something, unless the loop is closed."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(callback, *arguments)

    def _overdue(self) -> Failed:
        """What a caller gets who has waited long enough; the first of a stall tells the others."""
        health = self._writer.health
        if health.is_healthy:
            health = stalled(self._clock.wall_ms())
        elif health.state is StoreState.STALLED and health.since_ms != self._told_stall_ms:
            self._told_stall_ms = health.since_ms
            self._log.error("store_stalled", waiting=self._writer.waiting_jobs)
            self._tell(health)
        return refusal(health)

    async def _ends(self, ended: asyncio.Event) -> bool:
        try:
            async with asyncio.timeout(STOP_S / 2):
                await ended.wait()
        except TimeoutError:
            self._log.error("store_did_not_stop", waiting=self._writer.waiting_jobs)
            return False
        return True

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._is_stopped:
            raise refusal(self.health)
        return self._loop

    def _publish(self, health: StoreHealth) -> None:
        """On the store thread."""
        self._reader.let_go()
        self.call_soon(self._tell, health)

    def _tell(self, health: StoreHealth) -> None:
        for watcher in tuple(self._watchers):
            watcher(health)


class FewRows:
    """A ``Book`` of one table that has few rows: all are written anew when some have changed.

    Args:
        table, columns: constants; they become part of a statement.
        take: is given the rows that the previous run left, once, on the store thread.
        rows: all there are now, on the store thread: what it reads is replaced whole.
    """

    def __init__(
        self,
        database: Database,
        table: str,
        columns: Sequence[str],
        *,
        take: Callable[[list[tuple[Any, ...]]], object],
        rows: Callable[[], Iterable[tuple[Any, ...]]],
    ) -> None:
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        self._take, self._rows = take, rows
        self._is_loaded = False
        self._load = f"SELECT {names} FROM {table}"  # noqa: S608 (constants)
        self._remove_all = f"DELETE FROM {table}"  # noqa: S608 (constants)
        self._save = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 (constants)
        self._flag = database.attach(self)

    def changed(self) -> None:
        """Have them written with the next rows that are."""
        self._flag.is_raised = True

    def load(self, connection: sqlite3.Connection, opening: Opening) -> None:
        if self._is_loaded:
            if opening.is_fresh:
                self.changed()
            return
        self._take(connection.execute(self._load).fetchall())
        self._is_loaded = True

    def write(self, connection: sqlite3.Connection, *, is_last: bool) -> None:  # noqa: ARG002
        connection.execute(self._remove_all)
        connection.executemany(self._save, list(self._rows()))


class Written(asyncio.Future[T]):
    """A statement that is done once it is committed.

    Attributes:
        then: called with it in the same breath, unless it is cancelled; the callbacks of a future
            cost a turn of the loop.
    """

    then: Callable[[Written[T]], None] | None = None

    def conclude(self, result: Sequence[T], error: Exception | None) -> None:
        """What came of it, on the loop; ``result`` has one value where there is no error."""
        if self.done():
            return
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(result[0])
        if self.then is not None:
            self.then(self)


class _Awaited(Generic[T]):
    """A statement, and the future of whoever waits for it."""

    def __init__(self, statement: Statement[T], loop: asyncio.AbstractEventLoop) -> None:
        self.future: Written[T] = Written(loop=loop)
        self._statement = statement
        self.loop = loop
        self._result: list[T] = []
        # What the statement itself raised.
        self._raised: Exception | None = None

    def resolve(self, error: EdgedError | None) -> None:
        try:
            self.loop.call_soon_threadsafe(self._hand_out, error or self._raised)
        except RuntimeError:
            # The loop is closed: nobody waits.
            return

    def _hand_out(self, error: Exception | None) -> None:
        self.future.conclude(self._result, error)


class _Job(_Awaited[T]):
    """An awaited write; implements ``writer.WriteJob``.

    Attributes:
        asked_s: since when it is waited for, ``within_s`` long; on the loop's scale.
    """

    def __init__(
        self,
        statement: Statement[T],
        loop: asyncio.AbstractEventLoop,
        deadlines: Deadlines[_Job[Any]],
        *,
        is_durable: bool,
        within_s: float,
    ) -> None:
        super().__init__(statement, loop)
        self._deadlines = deadlines
        self.is_durable = is_durable
        self.within_s = within_s
        self.asked_s = loop.time()

    def run(self, connection: sqlite3.Connection) -> None:
        if self.future.done():
            return
        connection.execute("SAVEPOINT job")
        try:
            self._result.append(self._statement(connection))
        except (sqlite3.ProgrammingError, sqlite3.InterfaceError) as mistake:
            # The statement is wrong, the database is not.
            self._undo(connection, mistake)
        except sqlite3.Error:
            raise
        except Exception as raised:  # noqa: BLE001 - handed to whoever waits; others go on
            self._undo(connection, raised)
        connection.execute("RELEASE job")

    def _hand_out(self, error: Exception | None) -> None:
        self._deadlines.discard(self)
        super()._hand_out(error)

    def refuse(self, error: EdgedError) -> None:
        """Its time is over."""
        super()._hand_out(error)

    def _undo(self, connection: sqlite3.Connection, raised: Exception) -> None:
        self._raised = raised
        connection.execute("ROLLBACK TO job")


class _Question(_Awaited[T]):
    """An awaited read: run and resolved on the reader's thread."""

    @property
    def is_abandoned(self) -> bool:
        return self.future.cancelled()

    def run(self, connection: sqlite3.Connection) -> None:
        self._result.append(self._statement(connection))


async def _comes(answer: asyncio.Future[T], within_s: float) -> bool:
    """Whether it is there in time; it is cancelled, and with it the question, where it is not."""
    try:
        await asyncio.wait((answer,), timeout=within_s)
        return answer.done()
    finally:
        answer.cancel()


def _nothing(_connection: sqlite3.Connection) -> None:
    """Write nothing of one's own."""
