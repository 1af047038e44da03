from __future__ import annotations

import errno
import sqlite3

import pytest

from edged.store.health import StoreState, judge_error, must_be_moved_aside

PLENTY = 10**9


def failed(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("on purpose")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (failed(sqlite3.SQLITE_FULL), StoreState.FULL),
        (failed(sqlite3.SQLITE_READONLY), StoreState.READ_ONLY),
        # Extended codes say more about the same.
        (failed(sqlite3.SQLITE_READONLY | 4 << 8), StoreState.READ_ONLY),
        (failed(sqlite3.SQLITE_CANTOPEN), StoreState.READ_ONLY),
        (failed(sqlite3.SQLITE_CORRUPT), StoreState.BROKEN),
        (failed(sqlite3.SQLITE_BUSY), StoreState.BROKEN),
        (failed(sqlite3.SQLITE_IOERR), StoreState.BROKEN),
        (sqlite3.OperationalError("without a code"), StoreState.BROKEN),
        (OSError(errno.ENOSPC, "no space"), StoreState.FULL),
        (OSError(errno.EROFS, "read-only"), StoreState.READ_ONLY),
        (PermissionError(errno.EACCES, "no"), StoreState.READ_ONLY),
        (OSError("without a number"), StoreState.BROKEN),
    ],
)
def test_an_error_says_how_the_database_is(
    error: sqlite3.Error | OSError, state: StoreState
) -> None:
    health = judge_error(error, free_bytes=PLENTY, is_writable=True, now_ms=7)
    assert health.state is state
    assert health.reason
    assert health.remedy
    assert health.since_ms == 7


def test_an_io_error_without_space_is_a_full_disk() -> None:
    error = failed(sqlite3.SQLITE_IOERR)
    assert judge_error(error, free_bytes=0, is_writable=True, now_ms=7).state is StoreState.FULL


def test_an_io_error_on_what_may_not_be_written_is_a_read_only_disk() -> None:
    error = failed(sqlite3.SQLITE_IOERR)
    health = judge_error(error, free_bytes=0, is_writable=False, now_ms=7)
    assert health.state is StoreState.READ_ONLY


@pytest.mark.parametrize(
    ("code", "is_moved"),
    [
        (sqlite3.SQLITE_CORRUPT, True),
        (sqlite3.SQLITE_NOTADB, True),
        (sqlite3.SQLITE_FULL, False),
        (sqlite3.SQLITE_IOERR, False),
        (sqlite3.SQLITE_BUSY, False),
    ],
)
def test_only_a_damaged_file_is_moved_aside(code: int, *, is_moved: bool) -> None:
    assert must_be_moved_aside(failed(code)) is is_moved
