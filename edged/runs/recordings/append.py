"""Files that only grow, on a disk that may refuse, and beside other programs that may harm them.

What could not be written whole is cut off again. Another program may have removed, replaced, cut
or written to a file meanwhile; ``found`` says so.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from edged.files import open_descriptor, open_update, remove, sync_directory, write_atomically
from edged.record import record
from edged.runs.recordings.formats import (
    MAX_ARCHIVE,
    MAX_MEMBERS,
    Member,
    archive_name,
    archives_in,
    directory_bytes,
    finish_archive,
    member_bytes,
    member_of,
    npy_bytes,
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


@record
class Harm:
    """What another program has done to a file, and how much of what was in it is lost."""

    path: Path
    found: str
    lost: int


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


class Archive(Appending):
    """An archive that grows by whole members, and gets its directory at its end.

    Attributes:
        members: those that are in it.
    """

    def __init__(self, path: Path, disk: Disk) -> None:
        super().__init__(path, disk)
        self.members: list[Member] = []

    @property
    def is_full(self) -> bool:
        """The next member belongs into another archive."""
        return len(self.members) >= MAX_MEMBERS or self.size >= MAX_ARCHIVE

    def add_member(self, member: bytes) -> int:
        """One more, as ``npy.member_bytes`` makes it; returns its length."""
        made = member_of(member, self.size)
        size = self.add(member)
        self.members.append(made)
        return size

    def sync(self) -> None:
        try:
            super().sync()
        finally:
            while self.members and self.members[-1].end > self.size:
                self.members.pop()

    def end(self) -> None:
        """Write its directory; one without a member is removed. May be tried again."""
        if self.members:
            self.add(directory_bytes(self.members, self.size))
            super().sync()
        else:
            remove(self.path)
        self.close()


@record(kw_only=False)
class Array:
    """One array on its way to the archive."""

    name: str
    type_code: str
    samples: bytes | bytearray


class Arrays:
    """The archives of a recording, one begun when the one before is full; used as ``Lines``."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._directory = directory
        self._disk = disk
        self._count = len(archives_in(directory))
        # Of these the last one may be open.
        self._archives: list[Archive] = []
        self._open: Archive | None = None

    def add(self, arrays: Sequence[Array]) -> tuple[int, int, OSError | None]:
        """Append and sync as many as the disk takes; see ``Lines.add``."""
        refused: OSError | None = None
        size = added = 0
        try:
            for array in arrays:
                data = npy_bytes(array.type_code, array.samples)
                size += self._room().add_member(member_bytes(f"{array.name}.npy", data))
                added += 1
        except OSError as error:
            refused = error
        if self._open is not None:
            before = len(self._open.members)
            try:
                self._open.sync()
            except OSError as error:
                refused = refused or error
            added -= before - len(self._open.members)
            if not self._open.members:
                self._drop(self._open)
        return size, added, refused

    def end(self) -> None:
        """Write the directory of the archive that is open.

        Raises:
            OSError: the disk does not take it now.
        """
        if self._open is not None:
            self._open.end()
            self._open = None

    def look(self) -> Iterator[Harm]:
        """Find out what other programs have done, each time once, and go on in another archive."""
        for archive in tuple(self._archives):
            if not (found := archive.found()):
                continue
            self._archives.remove(archive)
            left = 0
            if archive is self._open:
                self._open = None
                archive.close()
                if found not in ("was removed", "was replaced"):
                    with contextlib.suppress(OSError):
                        left = finish_archive(archive.path)
            lost = max(0, len(archive.members) - left)
            yield Harm(path=archive.path, found=found, lost=lost)

    def close(self) -> None:
        """No more will come; a second time does nothing."""
        if self._open is not None:
            self._open.close()

    def _room(self) -> Archive:
        """The archive that has room for a member."""
        if self._open is not None and self._open.is_full:
            self.end()
        if self._open is None:
            path = self._directory / archive_name(self._count + 1)
            self._open = Archive(path, self._disk)
            self._archives.append(self._open)
            self._count += 1
            sync_directory(self._directory)
        return self._open

    def _drop(self, archive: Archive) -> None:
        archive.close()
        self._open = None
        self._archives.remove(archive)
        with contextlib.suppress(OSError):
            remove(archive.path)
            self._count -= 1
