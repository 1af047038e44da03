from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from edged.clock import SystemClock
from edged.errors import ErrorCode, Failed, Fault
from edged.store.database import Database
from edged.store.health import StoreState
from edged.store.writer import Opening
from tests.bench.store_bench import StoreBench, running_store

MAKE = "CREATE TABLE IF NOT EXISTS thing (name TEXT)"


async def add(database: Database, name: str) -> None:
    def insert(connection: sqlite3.Connection) -> None:
        connection.execute(MAKE)
        connection.execute("INSERT INTO thing VALUES (?)", (name,))

    await database.write(insert)


def names(connection: sqlite3.Connection) -> list[str]:
    return [row[0] for row in connection.execute("SELECT name FROM thing ORDER BY rowid")]


async def test_a_write_is_there_for_the_next_read(store: StoreBench) -> None:
    await add(store.database, "one")
    assert await store.database.read(names) == ["one"]


async def test_writes_that_wait_together_are_committed_together(store: StoreBench) -> None:
    entered = threading.Event()
    may_go = threading.Event()
    changes: list[int] = []

    def block(_connection: sqlite3.Connection) -> None:
        entered.set()
        may_go.wait(5)

    blocked = asyncio.create_task(store.database.write(block))
    while not entered.is_set():
        await asyncio.sleep(0)
    waiting = [
        asyncio.create_task(store.database.write(lambda c: changes.append(c.total_changes)))
        for _ in range(5)
    ]
    await asyncio.sleep(0)
    may_go.set()
    await asyncio.gather(blocked, *waiting)
    # One transaction: not even the audit's own rows came between them.
    assert len(set(changes)) == 1


async def test_only_groups_that_somebody_relies_on_are_synced(store: StoreBench) -> None:
    def level(connection: sqlite3.Connection) -> int:
        return int(connection.execute("PRAGMA synchronous").fetchone()[0])

    assert await store.database.write(level) == 2
    assert await store.database.write(level, is_durable=False) == 1


async def test_a_statement_that_raises_undoes_itself_and_nothing_else(store: StoreBench) -> None:
    await add(store.database, "one")

    def insert_and_raise(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO thing VALUES ('two')")
        raise Fault("on purpose")

    results = await asyncio.gather(
        store.database.write(insert_and_raise),
        add(store.database, "three"),
        return_exceptions=True,
    )
    assert isinstance(results[0], Fault)
    assert await store.database.read(names) == ["one", "three"]
    assert store.database.health.is_healthy


async def test_a_wrong_statement_says_nothing_about_the_database(store: StoreBench) -> None:
    with pytest.raises(sqlite3.ProgrammingError):
        await store.database.write(lambda c: c.execute("SELECT ?", ()))
    assert store.database.health.is_healthy


async def test_reading_changes_nothing(store: StoreBench) -> None:
    with pytest.raises(Failed):
        await store.database.read(lambda c: c.execute("CREATE TABLE other (name TEXT)"))


async def test_a_long_read_does_not_hold_up_a_write(store: StoreBench) -> None:
    reading, may_end = threading.Event(), threading.Event()

    def read_long(connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM audit").fetchone()
        reading.set()
        may_end.wait(5)
        connection.execute("ROLLBACK")

    long = asyncio.create_task(store.database.read(read_long))
    while not reading.is_set():
        await asyncio.sleep(0)
    await add(store.database, "meanwhile")
    assert not long.done()
    may_end.set()
    await long


async def test_an_abandoned_read_ends_by_itself(store: StoreBench) -> None:
    endless = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    )
    started = threading.Event()

    def read(connection: sqlite3.Connection) -> None:
        started.set()
        connection.execute(endless).fetchone()

    task = asyncio.create_task(store.database.read(read))
    while not started.is_set():
        await asyncio.sleep(0)
    task.cancel()
    async with asyncio.timeout(5):
        assert await store.database.read(lambda c: c.execute("SELECT 7").fetchone()[0]) == 7


async def test_a_newer_database_is_refused_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "edged.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    database = Database(path=path, clock=SystemClock())
    with pytest.raises(Failed, match=r"schema version 99.*newer edged") as refused:
        await database.start()
    assert refused.value.code is ErrorCode.STORE_FAILED
    assert not any(name.startswith("edged-store") for name in _threads())


async def test_what_waits_is_on_disk_after_stop_and_the_log_is_folded_in(tmp_path: Path) -> None:
    path = tmp_path / "edged.db"
    async with running_store(path) as store:
        await store.database.read(lambda c: c.execute("SELECT 1").fetchone())
        store.audit.event("engine.started", "just now")
    assert {p.name for p in tmp_path.iterdir()} == {"edged.db", "safety.json"}
    connection = sqlite3.connect(path)
    tools = [row[0] for row in connection.execute("SELECT tool FROM audit ORDER BY seq")]
    connection.close()
    assert tools[-1] == "engine.started"


async def test_after_stop_a_write_is_refused_and_no_thread_is_left(tmp_path: Path) -> None:
    async with running_store(tmp_path / "edged.db") as store:
        await store.database.read(lambda c: c.execute("SELECT 1").fetchone())
        assert {"edged-store", "edged-store-reader"} <= _threads()
    assert not any(name.startswith("edged-store") for name in _threads())
    with pytest.raises(Failed):
        await add(store.database, "late")


async def test_only_this_user_may_read_the_file(store: StoreBench) -> None:
    if os.name == "posix":
        assert store.path.stat().st_mode & 0o077 == 0


async def test_an_unwritable_state_directory_leaves_reads_and_refuses_writes(
    tmp_path: Path,
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way", encoding="ascii")
    async with running_store(blocked / "edged.db") as store:
        assert store.database.health.state is StoreState.BROKEN
        with pytest.raises(Failed, match="cannot be written"):
            await add(store.database, "one")
        blocked.unlink()
        async with asyncio.timeout(5):
            await _until_written(store.database)
        assert store.database.health.is_healthy


async def test_a_file_deleted_while_in_use_is_noticed_and_begun_anew(store: StoreBench) -> None:
    await store.lockouts.lock("USB0::1::INSTR", unit="u", reason="hands inside", by="Kim")
    store.path.unlink()
    with pytest.raises(Failed, match="deleted or replaced"):
        await add(store.database, "one")
    await _until_written(store.database)
    await store.healed()
    kept = await store.database.read(lambda c: c.execute("SELECT reason FROM lockout").fetchall())
    assert kept == [("hands inside",)]


async def test_a_database_turned_read_only_refuses_with_that_reason_and_heals(
    store: StoreBench,
) -> None:
    heard: list[StoreState] = []
    unsubscribe = store.database.subscribe(lambda health: heard.append(health.state))
    await store.database.write(lambda c: c.execute("PRAGMA query_only = ON"))
    with pytest.raises(Failed, match="its file cannot be written"):
        await add(store.database, "one")
    await store.healed()
    await add(store.database, "one")
    unsubscribe()
    assert heard == [StoreState.READ_ONLY, StoreState.HEALTHY]


async def test_a_lock_of_another_program_is_named_and_waited_out(store: StoreBench) -> None:
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Failed, match="another program holds it locked"):
        await add(store.database, "one")
    other.close()
    await store.healed()
    await add(store.database, "one")


class FaultyBook:
    """A book with a bug that shows once."""

    bugs = 1

    def load(self, connection: sqlite3.Connection, opening: Opening) -> None:
        """Nothing to read."""

    def write(self, connection: sqlite3.Connection, *, is_last: bool) -> None:
        if self.bugs:
            self.bugs -= 1
            raise ZeroDivisionError


async def test_a_bug_in_one_book_is_told_as_ours_and_does_not_end_the_store(
    tmp_path: Path,
) -> None:
    database = Database(path=tmp_path / "edged.db", clock=SystemClock())
    database.attach(FaultyBook()).is_raised = True
    await database.start()
    with pytest.raises(Fault):
        await add(database, "one")
    await add(database, "two")
    assert await database.read(names) == ["two"]
    await database.stop()


class OneRow:
    """A book with rows that comes again where its group failed.

    Attributes:
        writes: how often it was asked to write.
        settled: what became of its groups.
        late: called while it writes.
    """

    def __init__(self, database: Database) -> None:
        self.flag = database.attach(self, settle=self.settle)
        self.writes = 0
        self.settled: list[bool] = []
        self.late: Callable[[], None] = lambda: None

    def load(self, connection: sqlite3.Connection, opening: Opening) -> None:
        """Nothing to read."""

    def write(self, connection: sqlite3.Connection, *, is_last: bool) -> None:
        self.writes += 1
        self.late()

    def settle(self, *, is_committed: bool) -> None:
        self.settled.append(is_committed)


async def test_a_group_asks_only_books_that_have_rows(tmp_path: Path) -> None:
    database = Database(path=tmp_path / "edged.db", clock=SystemClock())
    first, second = OneRow(database), OneRow(database)
    await database.start()
    second.flag.is_raised = True
    await add(database, "one")
    await add(database, "two")
    await database.stop()
    assert (first.writes, first.settled) == (0, [])
    assert (second.writes, second.settled) == (1, [True])


async def test_rows_that_come_while_their_book_writes_go_with_the_next_group(
    tmp_path: Path,
) -> None:
    database = Database(path=tmp_path / "edged.db", clock=SystemClock())
    book = OneRow(database)
    book.late = lambda: setattr(book.flag, "is_raised", book.writes == 1)
    book.flag.is_raised = True
    await database.start()
    await add(database, "one")
    await add(database, "two")
    await add(database, "three")
    await database.stop()
    assert book.settled == [True, True]


async def test_rows_of_a_group_that_failed_are_written_again(tmp_path: Path) -> None:
    database = Database(path=tmp_path / "edged.db", clock=SystemClock())
    book = OneRow(database)
    database.attach(FaultyBook()).is_raised = True
    book.flag.is_raised = True
    await database.start()
    with pytest.raises(Fault):
        await add(database, "one")
    await add(database, "two")
    await database.stop()
    assert book.settled == [False, True]


async def test_a_book_cannot_come_late(store: StoreBench) -> None:
    with pytest.raises(Fault):
        store.database.attach(FaultyBook())


async def test_a_watcher_hears_of_trouble_and_of_its_end(store: StoreBench) -> None:
    heard: list[StoreState] = []
    unsubscribe = store.database.subscribe(lambda health: heard.append(health.state))
    await store.fill_the_disk()
    await _fill(store.database)
    store.free_the_disk()
    await store.healed()
    unsubscribe()
    assert heard == [StoreState.FULL, StoreState.HEALTHY]


async def test_a_full_disk_refuses_with_that_reason_and_heals_by_itself(store: StoreBench) -> None:
    await store.fill_the_disk()
    refused = await _fill(store.database)
    assert refused.code is ErrorCode.STORE_FAILED
    assert "the disk is full" in refused.message
    assert "Free space" in refused.remedy
    with pytest.raises(Failed, match="the disk is full"):
        await add(store.database, "x" * 4000)
    store.free_the_disk()
    await store.healed()
    await add(store.database, "again")


async def _fill(database: Database) -> Failed:
    """Write until the disk is full."""
    for _ in range(100):
        try:
            await add(database, "x" * 4000)
        except Failed as refused:
            return refused
    raise AssertionError("the disk never was full")


async def _until_written(database: Database) -> None:
    while True:
        try:
            await add(database, "again")
        except Failed:
            await asyncio.sleep(0.02)
        else:
            return


def _threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


async def test_nothing_of_it_is_mapped_so_that_a_failing_disk_cannot_end_the_process(
    store: StoreBench,
) -> None:
    await add(store.database, "one")
    assert await store.database.read(names) == ["one"]
    mapped = Path("/proc/self/maps").read_text() if sys.platform == "linux" else ""
    assert store.path.name not in mapped


async def test_no_other_program_opens_it_meanwhile(store: StoreBench) -> None:
    await add(store.database, "one")
    look = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('SELECT 1 FROM x')"
    told = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", look, str(store.path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ("locked" in told.stderr) is (sys.platform == "linux")
