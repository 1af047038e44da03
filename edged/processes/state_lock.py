"""One engine a state directory: a lock that goes with the process, however that ends.

Without it a second engine could bind the same address unnoticed (SO_REUSEPORT) and two daemons
would drive the same instruments.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO, Final

from edged.errors import Conflict, ErrorCode, Failed

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["StateLock", "lock_holder"]

LOCK_FILE: Final = "engine.lock"


class StateLock:
    """Held from ``take`` to ``release`` or the end of the process.

    Args:
        state_dir: STATE_DIR; made if it is missing.
        name: the file; each program that may run once has its own.
        what: that program, for the sentence.
    """

    def __init__(self, state_dir: Path, *, name: str = LOCK_FILE, what: str = "engine") -> None:
        self._path = state_dir / name
        self._what = what
        self._file: IO[str] | None = None

    def take(self) -> None:
        """Hold the lock.

        Raises:
            Conflict: another engine holds it; its PID is in the sentence.
            Failed: the state directory cannot be written.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = self._path.open("a+", encoding="ascii")
        except OSError as error:
            raise Failed(
                f"The state directory {self._path.parent} cannot be used: {error.strerror}.",
                code=ErrorCode.STORE_FAILED,
                remedy="Set STATE_DIR to a directory that this user may write.",
            ) from error
        if not _try_lock(file):
            holder = _read_pid(self._path)
            file.close()
            raise Conflict(
                f"Another edged {self._what} (PID {holder}) works with {self._path.parent}.",
                data={"pid": holder},
                remedy="Use that one, stop it first, or give this one another STATE_DIR.",
            )
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()}\n")
        file.flush()
        self._file = file

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
        with path.open("r+", encoding="ascii") as file:
            return "" if _try_lock(file) else _read_pid(path)
    except OSError:
        return ""


def _try_lock(file: IO[str]) -> bool:
    try:
        if sys.platform == "win32":
            # Byte 100 lies past the PID, so that others can still read who holds the lock.
            file.seek(100)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _read_pid(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip() or "unknown"
    except OSError:
        return "unknown"
