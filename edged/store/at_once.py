"""The database of a rehearsal: written and read on the event loop itself, and never synced.

A thread of the store would be outrun by virtual time, and what a rehearsal notes need not survive
it. The books, the schema and the order of a group are those of the daemon's database.
"""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Final, TypeVar

from edged.clock import Clock
from edged.errors import Fault
from edged.log import ASIDE
from edged.store.database import WRITE_WITHIN_S, Database, Statement, Written
from edged.store.file import MIGRATIONS, close, migrate
from edged.store.health import StoreHealth, StoreState
from edged.store.writer import GATHER_S, Opening, Ring

T = TypeVar("T")

HEALTHY: Final = StoreHealth(state=StoreState.HEALTHY)


class DatabaseAtOnce(Database):
    """See ``Database``; every method belongs to the loop.

    Args:
        path: its file, which must not exist; rows that nobody reads again leave the memory by it.
    """

    def __init__(self, *, path: Path, clock: Clock) -> None:
        super().__init__(path=path, clock=clock)
        self.nudge = self._note_rows
        self._connection: sqlite3.Connection | None = None
        self._is_due = False

    @property
    def health(self) -> StoreHealth:
        return HEALTHY

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = MEMORY")
        connection.execute("PRAGMA synchronous = OFF")
        migrate(connection, MIGRATIONS)
        for flag in self._flags:
            flag.book.load(connection, Opening(is_fresh=True, news=()))

    async def stop(self) -> None:
        if self._connection is not None:
            self._write(_nothing, is_last=True)
            close(self._connection)
            self._connection = None

    def submit(
        self,
        statement: Statement[T],
        *,
        is_durable: bool = True,  # noqa: ARG002 - the base's
        within_s: float = WRITE_WITHIN_S,  # noqa: ARG002 - the base's
    ) -> Written[T]:
        written: Written[T] = Written()
        result: list[T] = []
        error: Exception | None = None
        try:
            result.append(self._write(statement))
        except Exception as raised:  # noqa: BLE001 - handed to whoever waits
            error = raised
        # At the next turn: whoever asked has yet to say what is to be done then.
        self._open_loop().call_soon(written.conclude, result, error)
        return written

    async def read(self, statement: Statement[T]) -> T:
        return statement(self._opened())

    def _note_rows(self, *, is_soon: bool = False) -> None:  # noqa: ARG002 - the base's
        if not self._is_due:
            self._is_due = True
            self._open_loop().call_later(GATHER_S[Ring.ROWS], self._write_rows)

    def _write_rows(self) -> None:
        if self._is_due and self._connection is not None:
            self._write(_nothing)

    def _write(self, statement: Statement[T], *, is_last: bool = False) -> T:
        """One group: the rows of books, then the statement, whose error undoes its own part."""
        connection = self._opened()
        self._is_due = False
        connection.execute("BEGIN")
        for flag in self._flags:
            if flag.is_raised:
                flag.is_raised, flag.is_open = False, True
                flag.book.write(connection, is_last=is_last)
        connection.execute("SAVEPOINT job")
        is_done = False
        try:
            result = statement(connection)
            is_done = True
            return result
        finally:
            if not is_done:
                connection.execute("ROLLBACK TO job")
            connection.execute("COMMIT")
            for flag in self._flags:
                if flag.is_open:
                    flag.is_open = False
                    if flag.settle is not None:
                        flag.settle(is_committed=True)
            ASIDE.write()

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            raise Fault("A database that is not open was written to.")
        return self._connection

    def _open_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise Fault("A database that was not started was written to.")
        return self._loop


def _nothing(_connection: sqlite3.Connection) -> None:
    """Write the rows of books alone."""
