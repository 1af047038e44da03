"""Whether SQLite's write-ahead log still is the file that was written.

The newest rows are in the log alone, and SQLite does not notice that it was deleted or cut: it goes
on with what it has open, and what it acknowledged is gone with the process. So what lies there is
compared with what lay there after the last commit of our own, who alone may change it: the same
file, not shorter, with the same header (its salts change each time the log begins anew).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["CUT", "GONE", "WalWatch"]

GONE: Final = "its write-ahead log was deleted or replaced while in use"
CUT: Final = "its write-ahead log was cut or overwritten while in use"
HEADER_BYTES: Final = 32
READ_BYTES: Final[int] = os.O_RDONLY | vars(os).get("O_BINARY", 0)
"""Windows alone has to be told that these are no lines of text."""
MAGICS: Final = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")


class _Sight(NamedTuple):
    place: tuple[int, int]
    size: int
    header: bytes


class WalWatch:
    """Watches one log. Store thread only.

    Args:
        path: the log.
        limit_bytes: what SQLite cuts it back to when it begins anew after a burst.
    """

    def __init__(self, path: Path, *, limit_bytes: int) -> None:
        self.path = path
        self._name = str(path)
        self._limit_bytes = limit_bytes
        self._known: _Sight | None = None

    def begin(self) -> None:
        """What lies there is right: the database has just been opened. No log: nothing to watch."""
        self._known = self._look()

    def loss(self) -> str:
        """What has been done to it since the last commit; empty where nothing was."""
        known = self._known
        if known is None:
            return ""
        found = self._look()
        if found is None or found.place != known.place:
            return GONE
        is_whole = found.size >= known.size and found.header == known.header
        return "" if is_whole else CUT

    def committed(self) -> str:
        """Remember it as a commit of our own has left it; ``loss`` of what was done meanwhile."""
        known = self._known
        if known is None:
            return ""
        found = self._look()
        if found is None or found.place != known.place:
            return GONE
        if found.size < min(known.size, self._limit_bytes):
            return CUT
        if found.size and not found.header.startswith(MAGICS):
            return CUT
        self._known = found
        return ""

    def is_ours(self) -> bool:
        """Whether the file at that place is the one that was watched."""
        found = self._look()
        return found is not None and self._known is not None and found.place == self._known.place

    def _look(self) -> _Sight | None:
        # By the kernel's own calls, because each group of rows is written between two looks. No
        # lock of SQLite's is on this file, so closing it gives none away.
        try:
            handle = os.open(self._name, READ_BYTES)
        except FileNotFoundError:
            return None
        try:
            found, header = os.fstat(handle), os.read(handle, HEADER_BYTES)
        finally:
            os.close(handle)
        return _Sight((found.st_dev, found.st_ino), found.st_size, header)
