"""Verification of an audit whose engine does not run: by the file alone, read and never changed."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from edged.clock import SystemClock
from edged.errors import ErrorCode, Failed
from edged.store.audit_chain import Link
from edged.store.audit_verify import ChainCheck, Marks, VerifyReport, check_page, read_marks
from edged.store.database_file import DatabaseFile, close
from edged.store.head_mark import head_mark_of
from edged.store.health import is_locked
from edged.store.migrations import MIGRATIONS

__all__ = ["verify_file"]


def verify_file(path: Path) -> VerifyReport:
    """Walk the whole chain of a database file.

    Raises:
        Failed: STORE_FAILED, it cannot be read.
    """
    if not path.is_file():
        raise Failed(f"There is no database {path}.", code=ErrorCode.STORE_FAILED)
    file = DatabaseFile(path=path, clock=SystemClock(), migrations=MIGRATIONS)
    try:
        connection = file.open_as_far_as_possible()
        try:
            check = ChainCheck(_with_mark(path, read_marks(connection)))
            while not check.is_done:
                check_page(connection, check)
            return check.report()
        finally:
            close(connection)
    except sqlite3.Error as error:
        if is_locked(error):
            raise Failed(
                f"{path} is in use by a running engine.",
                code=ErrorCode.STORE_FAILED,
                remedy="Ask that one: `edged audit verify` without --file.",
            ) from error
        raise Failed(
            f"{path} cannot be read: {error}.",
            code=ErrorCode.STORE_FAILED,
            remedy="Name edged.db of a state directory that this user may read.",
        ) from error


def _with_mark(path: Path, marks: Marks) -> Marks:
    """The marks, with the row that the record had come to if the file does not know of it."""
    told = head_mark_of(path).read()
    if told is None or told[0] <= (marks.head.seq if marks.head else 0):
        return marks
    return marks._replace(head=Link(*told))
