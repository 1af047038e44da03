"""How far the record had come, noted outside of it: so that rows which go are missed.

Whoever takes the newest rows away together with the log that holds them leaves a record that is
whole by itself, only shorter. The mark is written after every commit that somebody relies on, and
never synced: it outlives the process, and after a power failure it is old, which does no harm.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from edged.files import KeptFile, open_bytes
from edged.store.audit.row import GENESIS

SEQ_DIGITS: Final = 20
LENGTH: Final = SEQ_DIGITS + 1 + 2 * len(GENESIS) + 1


class HeadMark:
    """One mark, a file beside the database. Store thread only.

    Args:
        path: the file; made with the first mark.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: KeptFile | None = None

    def read(self) -> tuple[int, bytes] | None:
        """Number and hash of the row it names; None where there is no mark that can be read."""
        try:
            with open_bytes(self._path) as file:
                seq, _, digest = file.read(LENGTH).decode("ascii").strip().partition(" ")
            found = (int(seq), bytes.fromhex(digest))
        except (OSError, ValueError):
            return None
        return found if len(found[1]) == len(GENESIS) else None

    def write(self, seq: int, digest: bytes) -> None:
        """Name a row. In one write over the old one, so that no kill leaves half a mark.

        The file stays open, and is made again where somebody has removed or exchanged it. A mark
        that cannot be written is done without: the row it is about is on the disk.
        """
        line = f"{seq:0{SEQ_DIGITS}d} {digest.hex()}\n".encode("ascii")
        try:
            if self._file is None or self._file.look(0) is None:
                self.close()
                self._file = KeptFile(self._path, os.O_RDWR | os.O_CREAT)
            self._file.write(line)
        except OSError:
            self.close()

    def close(self) -> None:
        """Let go of the file; the next mark opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None


def head_mark_of(database: Path) -> HeadMark:
    """The mark that belongs to a database."""
    return HeadMark(database.with_name(f"{database.name}-head"))
