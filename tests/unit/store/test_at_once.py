"""The database of a rehearsal."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edged.errors import Fault
from edged.store.at_once import DatabaseAtOnce
from edged.store.writer import DirtyFlag, Opening
from tests.bench.driven_clock import DrivenClock


class Names:
    """A book of names."""

    def __init__(self) -> None:
        self.waiting: list[str] = []
        self.settled: list[bool] = []
        self.is_loaded = False

    def load(self, connection: sqlite3.Connection, opening: Opening) -> None:
        self.is_loaded = opening.is_fresh
        connection.execute("CREATE TABLE name (text TEXT)")

    def write(self, connection: sqlite3.Connection, *, is_last: bool) -> None:
        connection.executemany("INSERT INTO name VALUES (?)", [(one,) for one in self.waiting])
        self.waiting.clear()

    def settle(self, *, is_committed: bool) -> None:
        self.settled.append(is_committed)


class Kept:
    """A database with that book."""

    def __init__(self, path: Path) -> None:
        self.database = DatabaseAtOnce(path=path, clock=DrivenClock())
        self.book = Names()
        self.flag: DirtyFlag = self.database.attach(self.book, settle=self.book.settle)

    def note(self, name: str) -> None:
        self.book.waiting.append(name)
        self.flag.is_raised = True
        self.database.nudge()

    async def names(self) -> list[str]:
        return await self.database.read(
            lambda connection: [text for (text,) in connection.execute("SELECT text FROM name")]
        )


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Kept]:
    kept = Kept(tmp_path / "edged.db")
    await kept.database.start()
    yield kept
    await kept.database.stop()


async def test_rows_go_along_with_what_is_awaited(kept: Kept) -> None:
    assert kept.book.is_loaded
    kept.note("a")
    result = await kept.database.write(
        lambda connection: connection.execute("INSERT INTO name VALUES ('b')").rowcount
    )
    assert result == 1
    assert await kept.names() == ["a", "b"]
    assert kept.book.settled == [True]
    assert kept.database.health.is_healthy


async def test_rows_that_nobody_waits_for_are_written_soon(kept: Kept) -> None:
    kept.note("a")
    assert await kept.names() == []
    async with asyncio.timeout(20):
        while not kept.book.settled:
            await asyncio.sleep(0.01)
    assert await kept.names() == ["a"]


async def test_what_is_to_be_done_then_can_be_said_after_the_call(kept: Kept) -> None:
    written = kept.database.submit(lambda _connection: 7)
    heard = asyncio.Event()
    written.then = lambda _written: heard.set()
    assert await written == 7
    assert heard.is_set()


async def test_a_statement_that_fails_undoes_itself_and_no_rows(kept: Kept) -> None:
    def fails(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO name VALUES ('b')")
        raise ValueError("no")

    kept.note("a")
    with pytest.raises(ValueError, match="no"):
        await kept.database.write(fails)
    assert await kept.names() == ["a"]


async def test_what_waits_at_the_end_is_written(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "edged.db")
    await kept.database.start()
    kept.note("a")
    await kept.database.stop()
    with sqlite3.connect(tmp_path / "edged.db") as connection:
        assert connection.execute("SELECT text FROM name").fetchall() == [("a",)]
    connection.close()
    with pytest.raises(Fault):
        await kept.database.read(lambda _connection: None)
