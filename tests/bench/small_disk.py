"""A disk for recordings that is full, or breaks, until a test heals it; the files are real."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from edged.runs.recordings.append import THE_DISK


class SmallDisk:
    """Implements ``edged.runs.recordings.append.Disk``.

    Attributes:
        room: bytes that it still takes; None takes all.
        is_sync_refused: what was written may not be there.
    """

    def __init__(self) -> None:
        self.room: int | None = None
        self.is_sync_refused = False

    def write(self, handle: int, data: memoryview) -> int:
        some = data if self.room is None else data[: self.room]
        if not some:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = os.write(handle, some)
        self._take(written)
        return written

    def sync(self, handle: int) -> None:
        if self.is_sync_refused:
            raise OSError(errno.EIO, "Input/output error")
        os.fsync(handle)

    def put(self, path: Path, text: str | bytes) -> None:
        if self.room is not None and self.room < len(text):
            raise OSError(errno.ENOSPC, "No space left on device")
        self._take(len(text))
        THE_DISK.put(path, text)

    def overwrite(self, path: Path, data: bytes) -> None:
        THE_DISK.overwrite(path, data)

    def _take(self, size: int) -> None:
        if self.room is not None:
            self.room -= size
