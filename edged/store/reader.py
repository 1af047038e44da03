"""The reader's thread: questions to the database on a read-only connection of their own.

It exists so that a long list never holds up an intent. It starts with the first question.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import structlog

from edged.errors import EdgedError, ErrorCode, Failed
from edged.store.database_file import DatabaseFile, close
from edged.store.health import must_be_moved_aside

__all__ = ["Question", "Reader"]

STEPS_BETWEEN_LOOKS: Final = 50_000
"""Virtual machine steps of SQLite (some milliseconds) after which an abandoned question ends."""


class Question(Protocol):
    """A read that somebody awaits."""

    @property
    def is_abandoned(self) -> bool:
        """Nobody waits for the answer any more."""
        ...

    def run(self, connection: sqlite3.Connection) -> None:
        """Read and keep the answer."""
        ...

    def resolve(self, error: EdgedError | None) -> None:
        """Hand out the answer, or the error. Called once, on the reader's thread."""
        ...


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
        self._questions: queue.SimpleQueue[Question | bool | None] = queue.SimpleQueue()
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

    def ask(self, question: Question) -> None:
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

    def _answer(self, question: Question) -> None:
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
            remedy="Ask again in a second; `edged doctor` says how the database is.",
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
