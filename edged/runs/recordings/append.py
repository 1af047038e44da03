"""Files that only grow, on a disk that may refuse, and beside other programs that may harm them.

What could not be written whole is cut off again. Another program may have removed, replaced, cut
or written to a file meanwhile; ``found`` says so.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from edged.files import open_descriptor, open_update, remove, write_atomically
from edged.runs.recordings.formats import (
    MAX_ARCHIVE,
    MAX_MEMBERS,
    Member,
    directory_bytes,
    member_of,
)


class Disk:
    """What is asked of the disk; each may raise ``OSError``."""

    def write(self, handle: int, data: memoryview) -> int:
        """Write some of it; how many bytes."""
        return os.write(handle, data)

    def sync(self, handle: int) -> None:
        """Return when it is on the disk."""
        os.fsync(handle)

    def put(self, path: Path, text: str | bytes) -> None:
        """Write a small file whole or not at all."""
        write_atomically(path, text)

    def overwrite(self, path: Path, data: bytes) -> None:
        """Write over the beginning of a file that is there; takes no room that it has not."""
        with open_update(path) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


THE_DISK: Final = Disk()


class Appending:
    """A file that only grows.

    Args:
        may_be_there: goes on behind what stands in it.

    Attributes:
        size: of what is whole in it.
    """

    def __init__(self, path: Path, disk: Disk, *, may_be_there: bool = False) -> None:
        self.path = path
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._handle = open_descriptor(path, flags if may_be_there else flags | os.O_EXCL, 0o666)
        self._disk = disk
        self.size = os.fstat(self._handle).st_size
        self._synced = self.size
        self._is_torn = False
        info = os.fstat(self._handle)
        self._identity = info.st_dev, info.st_ino

    def add(self, data: bytes) -> int:
        """Put data at the end, whole or not at all; returns its length."""
        self._cut()
        view = memoryview(data)
        try:
            while view:
                view = view[self._disk.write(self._handle, view) :]
        except OSError:
            self._is_torn = True
            with contextlib.suppress(OSError):
                self._cut()
            raise
        self.size += len(data)
        return len(data)

    def sync(self) -> None:
        """Return when it is on the disk; if it is not, what was added since the last time goes."""
        try:
            self._disk.sync(self._handle)
        except OSError:
            # What the kernel keeps after a sync that failed is nowhere said.
            self.size = self._synced
            self._is_torn = True
            with contextlib.suppress(OSError):
                self._cut()
            raise
        self._synced = self.size

    def found(self) -> str:
        """What another program has done to the file; empty if nothing."""
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return "was removed"
        if (there.st_dev, there.st_ino) != self._identity:
            return "was replaced"
        if there.st_size < self.size:
            return "was cut short"
        is_longer = there.st_size > self.size and not self._is_torn
        return "was written to" if is_longer else ""

    def close(self) -> None:
        """No more will come; a second time does nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _cut(self) -> None:
        """Take back what was begun and not finished."""
        if self._is_torn:
            os.ftruncate(self._handle, self.size)
            self._is_torn = False


class Archive:
    """An archive that grows by whole members, and gets its directory at its end."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self.file = Appending(path, disk)
        self._members: list[Member] = []
        self._safe = 0

    @property
    def count(self) -> int:
        """How many members it has."""
        return len(self._members)

    @property
    def is_full(self) -> bool:
        """The next member belongs into another archive."""
        return len(self._members) >= MAX_MEMBERS or self.file.size >= MAX_ARCHIVE

    def add(self, member: bytes) -> int:
        """One more, as ``npy.member_bytes`` makes it; returns its length."""
        at = self.file.size
        size = self.file.add(member)
        self._members.append(member_of(member, at))
        return size

    def sync(self) -> tuple[int, OSError | None]:
        """Return when all members are on the disk.

        Returns:
            0; or how many are in it no longer, and what the disk said.
        """
        try:
            self.file.sync()
        except OSError as refused:
            gone = len(self._members) - self._safe
            del self._members[self._safe :]
            return gone, refused
        self._safe = len(self._members)
        return 0, None

    def end(self) -> None:
        """Write its directory; one without a member is removed. May be tried again."""
        if self._members:
            self.file.add(directory_bytes(self._members, self.file.size))
            self.file.sync()
        else:
            remove(self.file.path)
        self.file.close()
