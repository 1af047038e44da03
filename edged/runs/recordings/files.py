"""The files of one recording, written by the recorder's thread: rows, arrays, meta.json.

What ``write`` tells to be written is on the disk, and nothing that it does not: the rest can be
tried again when there is room. What another program does to the files meanwhile is found at the
next write and at the end, and told; the recording goes on behind it.

Which recordings are being written: a mark each, so that a restart finds those it must mend.

A mark is a small file in ``runs/.open`` that holds the recording's place; it goes when that is on
the disk to its end. It is as long from the beginning on as it will ever be, so that a full disk
takes the news of a recording that has ended and could not be written. At a start the marks of
before move to ``runs/.left``, each until its recording is mended.
Functions here touch the disk and belong on a thread.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from edged.csv_cells import guarded
from edged.errors import EdgedError
from edged.files import (
    make_directory,
    move,
    names_in,
    open_bytes,
    open_update,
    read_text,
    remove,
    remove_directory,
    sync_directory,
)
from edged.record import record
from edged.runs.recordings.append import THE_DISK, Appending, Archive, Disk
from edged.runs.recordings.formats import finish_archive, member_bytes, npy_bytes
from edged.runs.recordings.table import stats_of
from edged.yaml.tree import Scalar

ROWS_FILE: Final = "data.csv"
ARRAYS_FILE: Final = "data.npz"
META_FILE: Final = "meta.json"
ROWS_AT_ONCE: Final = 1_000
"""Are whole on the disk or not at all: a disk that has room for some gets those."""
MOST_HARMS: Final = 8
"""Are told in words; all are counted."""

Row = Sequence[Scalar | None]


@record(kw_only=False)
class Array:
    """One array on its way to the archive."""

    name: str
    type_code: str
    samples: bytes | bytearray


@record(frozen=False, kw_only=False)
class Written:
    """What has come on the disk: of the rows and arrays given, the first so many."""

    size: int = 0
    rows: int = 0
    arrays: int = 0
    error: OSError | None = None


class RunFiles:
    """The open files of one recording; used by one thread at a time.

    Args:
        directory: is made here.
        columns: names of the columns.

    Attributes:
        rows_lost, arrays_lost: were on the disk until another program took them away.

    Raises:
        OSError: it cannot be written there, and nothing of it is; FileExistsError: there is such a
            recording.
    """

    def __init__(self, directory: Path, columns: Sequence[str], disk: Disk = THE_DISK) -> None:
        is_first_of_day = not directory.parent.exists()
        try:
            make_directory(directory, exist_ok=False)
        except OSError:
            if is_first_of_day:
                with contextlib.suppress(OSError):
                    remove_directory(directory.parent)
            raise
        self.directory = directory
        self.rows_lost = self.arrays_lost = 0
        self._disk = disk
        self._header = _lines([columns])
        # Stands before the next row: what another program took away, or left unfinished.
        self._before = self._header
        self._count = 0
        self._archive: Archive | None = None
        self._ended: list[Archive] = []
        self._archives = 0
        self._harms: dict[str, None] = {}
        self._is_closed = False
        try:
            self._rows = Appending(directory / ROWS_FILE, disk)
            self._end_rows()
            sync_directory(directory)
            sync_directory(directory.parent)
            if is_first_of_day:
                sync_directory(directory.parent.parent)
        except OSError:
            self.discard()
            raise

    @property
    def harm(self) -> str:
        """What other programs have done to the files, in sentences; empty if nothing."""
        return " ".join(self._harms)

    def write(self, rows: Sequence[Row], arrays: Sequence[Array]) -> Written:
        """Append and sync as many as the disk takes, each row and array whole or not at all.

        Arrays go first: a row that names one comes after it.
        """
        written = Written()
        try:
            self._look()
            self._write_arrays(arrays, written)
            self._write_rows(rows, written)
        except OSError as refused:
            written.error = refused
        return written

    def close(self) -> None:
        """End the files; the archive gets its directory. May be tried again.

        Raises:
            OSError: the disk does not take it now.
        """
        if self._is_closed:
            return
        self._look()
        self._end_rows()
        self._end_archive()
        for archive in self._ended:
            if found := archive.file.found():
                self._tell(archive.file.path, found, archive.count, "waveforms")
                self.arrays_lost += archive.count
        self._rows.close()
        self._is_closed = True

    def discard(self) -> None:
        """Remove what was begun and cannot be gone on with. Never raises."""
        with contextlib.suppress(OSError, AttributeError):
            self._rows.close()
        with contextlib.suppress(OSError):
            for name in names_in(self.directory):
                remove(self.directory / name)
            remove_directory(self.directory)
            remove_directory(self.directory.parent)

    def _write_arrays(self, arrays: Sequence[Array], written: Written) -> None:
        refused: OSError | None = None
        for array in arrays:
            try:
                written.size += self._room().add(_member(array))
            except OSError as error:
                refused = error
                break
            written.arrays += 1
        if self._archive is not None and arrays:
            gone, why = self._archive.sync()
            written.arrays -= gone
            refused = refused or why
            if not self._archive.count:
                self._drop_archive(self._archive)
        if refused is not None:
            raise refused

    def _room(self) -> Archive:
        """The archive that has room for a member."""
        if self._archive is not None and self._archive.is_full:
            self._end_archive()
        if self._archive is None:
            path = self.directory / archive_name(self._archives + 1)
            self._archive = Archive(path, self._disk)
            self._archives += 1
            sync_directory(self.directory)
        return self._archive

    def _drop_archive(self, archive: Archive) -> None:
        archive.file.close()
        remove(archive.file.path)
        self._archive = None
        self._archives -= 1

    def _end_archive(self) -> None:
        if self._archive is not None:
            self._archive.end()
            self._ended.append(self._archive)
            self._archive = None

    def _write_rows(self, rows: Sequence[Row], written: Written) -> None:
        before = self._before
        refused: OSError | None = None
        added = 0
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = rows[start : start + ROWS_AT_ONCE]
            try:
                written.size += self._rows.add(self._before + _lines(some))
            except OSError as error:
                refused = error
                break
            self._before = b""
            added += len(some)
        if added:
            try:
                self._rows.sync()
            except OSError:
                self._before = before
                raise
        written.rows = added
        self._count += added
        if refused is not None:
            raise refused

    def _end_rows(self) -> None:
        if self._before:
            self._rows.add(self._before)
            self._before = b""
        self._rows.sync()

    def _look(self) -> None:
        """Find out what other programs have done, and go on behind it."""
        if found := self._rows.found():
            self._go_on_behind(found)
        archive = self._archive
        if archive is not None and (found := archive.file.found()):
            archive.file.close()
            self._archive = None
            left = 0
            if found not in ("was removed", "was replaced"):
                with contextlib.suppress(OSError):
                    left = finish_archive(archive.file.path)
            lost = max(0, archive.count - left)
            self.arrays_lost += lost
            self._tell(archive.file.path, found, lost, "waveforms")

    def _go_on_behind(self, found: str) -> None:
        path = self._rows.path
        if found == "was cut short":
            _cut_torn_line(path)
        make_directory(self.directory)
        rows = Appending(path, self._disk, may_be_there=True)
        lines, is_whole = _count_lines(path)
        self._rows.close()
        self._rows = rows
        self._before = self._header if not lines else b"" if is_whole else b"\n"
        left = max(0, lines - 1)
        lost = max(0, self._count - left)
        self._count -= lost
        self.rows_lost += lost
        self._tell(path, found, lost, "rows")

    def _tell(self, path: Path, found: str, lost: int, what: str) -> None:
        if len(self._harms) < MOST_HARMS:
            sentence = f"{path.name} {found} by another program while it was recorded: "
            sentence += f"{lost} {what} that were on the disk are lost."
            self._harms[sentence] = None


def _member(array: Array) -> bytes:
    return member_bytes(f"{array.name}.npy", npy_bytes(array.type_code, array.samples))


def _count_lines(path: Path) -> tuple[int, bool]:
    """How many lines a file has, a torn last one too, and whether the last one is whole."""
    count, last = 0, b"\n"
    with open_bytes(path) as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            count += part.count(b"\n")
            last = part[-1:]
    return count + (last != b"\n"), last == b"\n"


def archive_name(number: int) -> str:
    """Archives are data.npz, then data-2.npz, data-3.npz and so on."""
    return ARRAYS_FILE if number == 1 else f"data-{number}.npz"


def write_meta(directory: Path, meta: dict[str, Any], disk: Disk = THE_DISK) -> None:
    """Write meta.json, whole or not at all.

    Raises:
        OSError: it could not be written.
    """
    disk.put(directory / META_FILE, json.dumps(meta, indent=1, default=str) + "\n")


def repair(directory: Path) -> tuple[int, int]:
    """Make the files of a recording whole that a killed daemon left.

    Returns:
        How many rows and arrays they hold.

    Raises:
        OSError: they cannot be read or written.
    """
    arrays = 0
    for archive in directory.glob("data*.npz"):
        count = finish_archive(archive)
        arrays += count
        if not count:
            remove(archive)
    rows = directory / ROWS_FILE
    if not rows.exists():
        return 0, arrays
    _cut_torn_line(rows)
    return max(0, _count_lines(rows)[0] - 1), arrays


def _cut_torn_line(path: Path) -> None:
    with open_update(path) as file:
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
    """Numbers so that they read back equal; no cell takes more than one line, or is a formula."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str() if "\n" in value or "\r" in value or "\0" in value:
            return guarded(" ".join(value.replace("\0", " ").splitlines()))
        case str():
            return guarded(value)
        case _:
            return value


MARKS: Final = ".open"
LEFT: Final = ".left"
MARK_BYTES: Final = 4_000
"""Within one block of any file system."""
CAME_TO_ITS_END: Final = frozenset({"ended", "completed"})
"""What is told of a recording only if it is whole."""


def came_to_its_end(status: str) -> bool:
    """Whether this status says that all of it was measured."""
    return status in CAME_TO_ITS_END


def set_mark(root: Path, run_id: str, place: str, disk: Disk = THE_DISK) -> None:
    """The recording at ``place`` (below ``root``) is being written.

    Raises:
        OSError: it cannot be written.
    """
    for marks in (MARKS, LEFT):
        make_directory(root / marks)
    disk.put(root / MARKS / f"{run_id}.mark", f"{place}\n".ljust(MARK_BYTES))


def note_end(
    root: Path, run_id: str, place: str, end: Mapping[str, Any], disk: Disk = THE_DISK
) -> None:
    """Note in its mark how a recording has ended that the disk does not take. Never raises.

    Args:
        end: what meta.json would say: status, rows, arrays, error and so on.
    """
    text = f"{place}\n{json.dumps(end, default=str)}\n"
    if len(text.encode()) > MARK_BYTES:
        text = f"{place}\n{json.dumps({**end, 'summary': {}}, default=str)}\n"
    data = text.encode().ljust(MARK_BYTES)
    if len(data) == MARK_BYTES:
        with contextlib.suppress(OSError):
            disk.overwrite(root / MARKS / f"{run_id}.mark", data)


def claim_marks(root: Path) -> None:
    """Put the marks that a former daemon left aside, to be mended at leisure. Never raises."""
    left = root / LEFT
    for mark in sorted((root / MARKS).glob("*.mark")):
        with contextlib.suppress(OSError):
            make_directory(left)
            move(mark, left / mark.name)


def drop_mark(root: Path, run_id: str) -> None:
    """It is written no longer."""
    remove(root / MARKS / f"{run_id}.mark")


def repair_interrupted(root: Path, now: str) -> int:
    """Mend every recording whose mark ``claim_marks`` has put aside.

    Args:
        now: when they were found, as meta.json writes it.

    Returns:
        How many were mended.
    """
    marks = root / LEFT
    mended = 0
    for mark in sorted(marks.glob("*.mark")) if marks.is_dir() else ():
        try:
            place, _, end = read_text(mark).partition("\n")
            directory = root / place
            if place and directory.is_relative_to(root) and ".." not in directory.parts:
                _mend(directory, now, _noted(end))
                mended += 1
        except (FileNotFoundError, ValueError):
            # Removed by its owner, or written by nobody here: nothing to mend.
            pass
        except OSError:
            # A disk that is full still: the next look mends it.
            continue
        with contextlib.suppress(OSError):
            remove(mark)
    return mended


def used_bytes(root: Path) -> int:
    """Bytes of everything recorded."""
    total = 0
    for directory, _, names in os.walk(root):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(directory) / name).stat().st_size
    return total


def _noted(text: str) -> dict[str, Any] | None:
    with contextlib.suppress(ValueError):
        end = json.loads(text)
        return end if isinstance(end, dict) else None
    return None


def _mend(directory: Path, now: str, end: dict[str, Any] | None) -> None:
    """Make it whole and say how it ended.

    Args:
        end: what was noted of it, if it had ended and waited for the disk.
    """
    meta: dict[str, Any] = json.loads(read_text(directory / META_FILE))
    rows, arrays = repair(directory)
    if meta.get("status") != "running":
        return
    if end is None:
        meta["status"] = "failed"
        meta["error"] = f"The daemon died while this was recorded; found at {now}."
    else:
        meta.update(end)
        lost_rows, lost_arrays = max(0, end["rows"] - rows), max(0, end["arrays"] - arrays)
        if lost_rows or lost_arrays:
            meta["status"] = "failed" if came_to_its_end(end["status"]) else end["status"]
            meta["error"] = (
                f"Its last {lost_rows} rows and {lost_arrays} waveforms are lost: it had ended, "
                f"and the disk refused them until the daemon ended; found at {now}."
            )
    meta["rows"], meta["arrays"] = rows, arrays
    with contextlib.suppress(EdgedError):
        meta["statistics"] = stats_of(directory / ROWS_FILE)
    write_meta(directory, meta)
