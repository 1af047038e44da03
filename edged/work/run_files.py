"""The files of one recording, written by the recorder's thread: rows, arrays, meta.json.

What ``write`` has returned from is on the disk. A write that failed half-way is taken back, so that
the same rows can be tried again when there is room.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from edged.host import write_atomically
from edged.profiles.model import Scalar
from edged.work.npy import MAX_ARCHIVE, MAX_MEMBERS, finish_archive, member_bytes, npy_bytes

__all__ = ["ARRAYS_FILE", "META_FILE", "ROWS_FILE", "Array", "Row", "RunFiles", "write_meta"]

ROWS_FILE: Final = "data.csv"
ARRAYS_FILE: Final = "data.npz"
META_FILE: Final = "meta.json"

Row = Sequence[Scalar | None]


@dataclass(frozen=True, slots=True)
class Array:
    """One array on its way to the archive."""

    name: str
    type_code: str
    samples: bytes


class RunFiles:
    """The open files of one recording; used by one thread at a time.

    Args:
        directory: is made here.
        columns: names of the columns.

    Raises:
        OSError: it cannot be written there; FileExistsError: there is such a recording.
    """

    def __init__(self, directory: Path, columns: Sequence[str]) -> None:
        is_first_of_day = not directory.parent.exists()
        directory.mkdir(parents=True)
        self.directory = directory
        self._rows = _Appending(directory / ROWS_FILE)
        self._arrays: _Appending | None = None
        self._archives = 0
        self._members = 0
        self._rows.add(_lines([columns]))
        self._rows.sync()
        sync_directory(directory)
        sync_directory(directory.parent)
        if is_first_of_day:
            sync_directory(directory.parent.parent)

    def write(self, rows: Sequence[Row], arrays: Sequence[Array]) -> int:
        """Append and sync; each row and array whole or not at all.

        After a failure all of it may be tried again: an array that is there twice is the same.

        Returns:
            How many bytes.

        Raises:
            OSError: it is not on the disk.
        """
        written = 0
        for array in arrays:
            written += self._write_array(array)
        if self._arrays is not None and arrays:
            self._arrays.sync()
        if rows:
            written += self._rows.add(_lines(rows))
            self._rows.sync()
        return written

    def close(self) -> None:
        """End the files; the archive gets its directory."""
        self._rows.close()
        self._end_archive()

    def _write_array(self, array: Array) -> int:
        if self._arrays is None:
            self._archives += 1
            self._members = 0
            self._arrays = _Appending(self.directory / archive_name(self._archives))
            sync_directory(self.directory)
        data = npy_bytes(array.type_code, array.samples)
        written = self._arrays.add(member_bytes(f"{array.name}.npy", data))
        self._members += 1
        if self._members >= MAX_MEMBERS or self._arrays.size >= MAX_ARCHIVE:
            self._arrays.sync()
            self._end_archive()
        return written

    def _end_archive(self) -> None:
        if self._arrays is not None:
            self._arrays.close()
            finish_archive(self._arrays.path)
            self._arrays = None


class _Appending:
    """A file that only grows; what could not be written whole is cut off again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._file: BinaryIO = path.open("xb", buffering=0)

    def add(self, data: bytes) -> int:
        """Put data at the end."""
        view = memoryview(data)
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError:
            with contextlib.suppress(OSError):
                self._file.seek(self.size)
                self._file.truncate()
            raise
        self.size += len(data)
        return len(data)

    def sync(self) -> None:
        """Return when it is on the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """No more will come."""
        with contextlib.suppress(OSError):
            self.sync()
        self._file.close()


def sync_directory(directory: Path) -> None:
    """Have the names of new files survive a power cut; where directories can be synced."""
    if os.name != "posix":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def archive_name(number: int) -> str:
    """Archives are data.npz, then data-2.npz, data-3.npz and so on."""
    return ARRAYS_FILE if number == 1 else f"data-{number}.npz"


def write_meta(directory: Path, meta: dict[str, Any]) -> None:
    """Write meta.json, whole or not at all.

    Raises:
        OSError: it could not be written.
    """
    write_atomically(directory / META_FILE, json.dumps(meta, indent=1, default=str) + "\n")


def repair(directory: Path) -> None:
    """Make the files of a recording whole that a killed daemon left.

    Raises:
        OSError: they cannot be read or written.
    """
    for archive in directory.glob("data*.npz"):
        finish_archive(archive)
    rows = directory / ROWS_FILE
    if rows.exists():
        _cut_torn_line(rows)


def _cut_torn_line(path: Path) -> None:
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        tail_from = max(0, size - 65_536)
        file.seek(tail_from)
        tail = file.read()
        whole = tail.rfind(b"\n") + 1
        if whole < len(tail):
            file.truncate(tail_from + whole)


def _lines(rows: Sequence[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue().encode("utf-8", "replace")


def _cell(value: Any) -> Any:
    """Numbers so that they read back equal; no cell takes more than one line."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str() if "\n" in value or "\r" in value or "\0" in value:
            return " ".join(value.replace("\0", " ").splitlines())
        case _:
            return value
