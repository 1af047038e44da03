"""How the database is, and what an error of SQLite says about that. Pure."""

from __future__ import annotations

import enum
import errno
import sqlite3
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from edged.errors import ErrorCode, Failed
from edged.record import record


class StoreState(enum.StrEnum):
    """What can be done with the database.

    Whatever it is but ``HEALTHY``, nothing that changes an instrument is sent, and rows of reads
    and safe commands wait in memory.
    """

    HEALTHY = "healthy"
    STALLED = "stalled"
    FULL = "full"
    READ_ONLY = "read_only"
    BROKEN = "broken"


@record
class StoreHealth:
    """How the database is.

    Attributes:
        reason: half a sentence ("the disk is full"), empty when healthy.
        remedy: what to do, empty when healthy.
        since_ms: when this state began, Unix epoch milliseconds.
    """

    state: StoreState
    reason: str = ""
    remedy: str = ""
    since_ms: int = 0

    @property
    def is_healthy(self) -> bool:
        """Writes are taken."""
        return self.state is StoreState.HEALTHY


class FileLost(sqlite3.OperationalError):
    """Somebody has taken a file of the database away, or cut it, while it was in use."""


_LOST: Final = (
    StoreState.BROKEN,
    "another program has changed its files",
    "Find out who deletes or cuts files in the state directory; a check of the audit log tells "
    "what is missing. edged goes on by itself.",
)
_FULL: Final = (
    StoreState.FULL,
    "the disk is full",
    "Free space on the disk that holds the state directory; edged goes on by itself.",
)
_READ_ONLY: Final = (
    StoreState.READ_ONLY,
    "its file cannot be written",
    "Make the state directory writable for the user that runs edged; edged goes on by itself.",
)
_DAMAGED: Final = (
    StoreState.BROKEN,
    "its file is damaged",
    "edged moves the damaged file aside and begins a new one; look at the disk's health.",
)
_LOCKED: Final = (
    StoreState.BROKEN,
    "another program holds it locked",
    "Close whatever else has the database open; edged goes on by itself.",
)
_UNKNOWN: Final = (
    StoreState.BROKEN,
    "SQLite cannot use it",
    "Look at the disk and at edged's log; edged goes on by itself once it can be written.",
)

BY_SQLITE_CODE: Final[Mapping[int, tuple[StoreState, str, str]]] = MappingProxyType(
    {
        sqlite3.SQLITE_FULL: _FULL,
        sqlite3.SQLITE_READONLY: _READ_ONLY,
        sqlite3.SQLITE_PERM: _READ_ONLY,
        sqlite3.SQLITE_CANTOPEN: _READ_ONLY,
        sqlite3.SQLITE_AUTH: _READ_ONLY,
        sqlite3.SQLITE_CORRUPT: _DAMAGED,
        sqlite3.SQLITE_NOTADB: _DAMAGED,
        sqlite3.SQLITE_BUSY: _LOCKED,
        sqlite3.SQLITE_LOCKED: _LOCKED,
    }
)
BY_ERRNO: Final[Mapping[int, tuple[StoreState, str, str]]] = MappingProxyType(
    {
        errno.ENOSPC: _FULL,
        errno.EDQUOT: _FULL,
        errno.EROFS: _READ_ONLY,
        errno.EACCES: _READ_ONLY,
        errno.EPERM: _READ_ONLY,
    }
)
_PRIMARY: Final = 0xFF
"""The low byte of an extended SQLite result code is the primary one."""
_NO_CODE: Final = -1
TOO_LITTLE_BYTES: Final = 128 * 1024
"""The log's index alone takes 32 KiB and a commit some pages."""


def judge_error(
    error: sqlite3.Error | OSError, *, free_bytes: int, is_writable: bool, now_ms: int
) -> StoreHealth:
    """The state that an error of SQLite or of the file system puts the database in.

    Args:
        error: what was raised.
        free_bytes: space left on the disk; SQLite calls some failures for want of it I/O errors.
        is_writable: whether the file and its directory may be written now; likewise.
        now_ms: Unix epoch milliseconds.
    """
    if isinstance(error, FileLost):
        # Another disk may have come to lie over the directory: then that is what is wrong.
        verdict = _LOST if is_writable else _READ_ONLY
    elif isinstance(error, OSError):
        verdict = BY_ERRNO.get(error.errno or 0, _UNKNOWN)
    else:
        verdict = BY_SQLITE_CODE.get(_sqlite_code(error), _UNKNOWN)
    if verdict is _UNKNOWN and not is_writable:
        verdict = _READ_ONLY
    elif verdict is _UNKNOWN and free_bytes < TOO_LITTLE_BYTES:
        verdict = _FULL
    state, reason, remedy = verdict
    return StoreHealth(state=state, reason=f"{reason} ({error})", remedy=remedy, since_ms=now_ms)


def stalled(since_ms: int) -> StoreHealth:
    """How it is while the disk neither takes what is written nor refuses it."""
    return StoreHealth(
        state=StoreState.STALLED,
        reason="the disk does not answer",
        remedy="Look at the disk that holds the state directory, and at what it is connected by; "
        "edged goes on by itself once it answers.",
        since_ms=since_ms,
    )


def must_be_moved_aside(error: sqlite3.Error | OSError) -> bool:
    """True if the file itself is damaged, so that nothing will come of trying again."""
    return _sqlite_code(error) in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def is_locked(error: sqlite3.Error) -> bool:
    """True if another program holds the file: a running engine does."""
    return _sqlite_code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def refusal(health: StoreHealth) -> Failed:
    """What a write gets while the database is not healthy."""
    return Failed(
        f"The audit database cannot be written: {health.reason or 'it has been closed'}. "
        "Nothing that changes an instrument is sent meanwhile.",
        code=ErrorCode.STORE_FAILED,
        data={"store": health.state.value, "reason": health.reason},
        remedy=health.remedy,
    )


def _sqlite_code(error: Exception) -> int:
    # Errors that the sqlite3 module itself raises have no code.
    code = getattr(error, "sqlite_errorcode", None)
    return code & _PRIMARY if isinstance(code, int) else _NO_CODE
