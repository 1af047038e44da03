"""One engine a state directory, and one a data directory: locks that go with the process.

Without the first a second engine could bind the same address unnoticed (SO_REUSEPORT) and two
daemons would drive the same instruments. Without the other one would take the recordings that the
other is just writing for those of a daemon that died, call them interrupted and cut their files.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import IO, Final

from edged.errors import Conflict, ErrorCode, Failed

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["StateLock", "lock_data", "lock_holder"]

LOCK_FILE: Final = "engine.lock"
DATA_LOCK_FILE: Final = "data.lock"
LOCKED_AT: Final = 100
"""The byte that Windows locks: past the PID, so that others can still read who holds the lock."""
DATA_LOCKED_AT: Final = 65_536
"""The same where a path stands behind the PID."""
HELD: Final = frozenset({errno.EACCES, errno.EAGAIN, errno.EDEADLK})
"""What platforms say of a lock that somebody else has; of anything else the disk has no locks."""


class StateLock:
    """Held from ``take`` to ``release`` or the end of the process.

    Args:
        directory: where it lies; made if it is missing.
        name: the file; each program that may run once has its own.
        what: that program, for the sentence.
        key: the key of the configuration that names the directory.
        told: what others are told of the holder besides its PID; one line.
        locked_at: the byte that Windows locks.
    """

    def __init__(
        self,
        directory: Path,
        *,
        name: str = LOCK_FILE,
        what: str = "engine",
        key: str = "STATE_DIR",
        told: str = "",
        locked_at: int = LOCKED_AT,
    ) -> None:
        self._path = directory / name
        self._what = what
        self._key = key
        self._told = told
        self._locked_at = locked_at
        self._file: IO[str] | None = None

    def take(self) -> None:
        """Hold the lock.

        Raises:
            Conflict: another engine holds it; its PID is in the sentence.
            Failed: the state directory cannot be written.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = self._path.open("a+", encoding="utf-8")
        except OSError as error:
            raise self._unusable(error) from error
        try:
            is_ours = _try_lock(file, self._locked_at)
        except OSError as error:
            file.close()
            raise self._unusable(error) from error
        if not is_ours:
            file.close()
            raise self._taken()
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()}\n{self._told}")
        file.flush()
        self._file = file

    def _unusable(self, error: OSError) -> Failed:
        return Failed(
            f"The directory {self._path.parent} cannot be used: {error.strerror}.",
            code=ErrorCode.STORE_FAILED,
            remedy=f"Set {self._key} to a directory that this user may write.",
        )

    def _taken(self) -> Conflict:
        holder, told = _read_holder(self._path)
        more = f", STATE_DIR {told}" if told else ""
        return Conflict(
            f"Another edged {self._what} (PID {holder}{more}) works with {self._path.parent}.",
            data={"pid": holder, "state_dir": told} if told else {"pid": holder},
            remedy=f"Use that one, stop it first, or give this one another {self._key}.",
        )

    def release(self) -> None:
        """Let go; the file stays, because removing it would race with the next holder."""
        if self._file is not None:
            self._file.close()
            self._file = None


def lock_holder(state_dir: Path) -> str:
    """The PID of the engine that works with a state directory, "unknown", or empty: there is none.

    A PID in a file alone proves nothing: after a restart of the machine it is somebody else's.
    """
    path = state_dir / LOCK_FILE
    try:
        with path.open("r+", encoding="utf-8") as file:
            return "" if _try_lock(file) else _read_holder(path)[0]
    except OSError:
        return ""


def lock_data(data_dir: Path, state_dir: Path) -> StateLock | None:
    """The lock on DATA_DIR, held; ``None`` where nothing can be locked there.

    A directory that cannot be written stops no engine: its recordings say so themselves.

    Raises:
        Conflict: another engine holds it; its PID and STATE_DIR are in the sentence.
    """
    lock = StateLock(
        data_dir,
        name=DATA_LOCK_FILE,
        key="DATA_DIR",
        told=f"{state_dir.absolute()}\n",
        locked_at=DATA_LOCKED_AT,
    )
    try:
        lock.take()
    except Failed as unusable:
        # Loaded here because first aid waits for what is loaded before it.
        import structlog

        structlog.get_logger("edged.engine").warning("data_dir_not_locked", error=str(unusable))
        return None
    return lock


def _try_lock(file: IO[str], locked_at: int = LOCKED_AT) -> bool:
    """False if somebody else holds it; raises OSError where there are no locks."""
    try:
        if sys.platform == "win32":
            file.seek(locked_at)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in HELD:
            return False
        raise
    return True


def _read_holder(path: Path) -> tuple[str, str]:
    """PID and what else is told; of a holder that is just writing it, unknown."""
    try:
        pid, _, told = path.read_text(encoding="utf-8", errors="replace").partition("\n")
    except OSError:
        pid, told = "", ""
    return pid.strip() or "unknown", told.strip()
