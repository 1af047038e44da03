"""data.nc of a recording: written beside data.csv, and made again from it.

It is derived, so it is never a reason to lose a row: where the disk refuses it, it is removed, and
the next export makes it. Functions here touch the disk and belong on a thread.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from edged.errors import EdgedError, ErrorCode, Failed
from edged.files import open_descriptor, read_text, remove
from edged.runs.recordings.append import THE_DISK, Disk
from edged.runs.recordings.files import META_FILE, NC_FILE, ROWS_FILE, read_dimensions
from edged.runs.recordings.netcdf import NAN, Layout, layout_of
from edged.runs.recordings.table import check_size, number_of, rows_of
from edged.runs.run_head import ATTEMPT, Column, RunKind

NANS: Final = NAN * 65_536
TRUTHS: Final = {"true": 1.0, "false": 0.0}
WriteAt = Callable[[int, bytes], None]


class CellFile:
    """An open data.nc; used by one thread at a time.

    Args:
        directory: the recording; the file is made.

    Raises:
        OSError: it cannot be written; there is none then.
    """

    def __init__(self, directory: Path, layout: Layout, disk: Disk) -> None:
        self._path = directory / NC_FILE
        remove(self._path)
        self._handle = open_descriptor(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        self._disk = disk
        self._layout = layout
        self._records = 0
        try:
            begin(layout, self._write_at)
        except OSError:
            self.give_up()
            raise

    def put(self, rows: Iterable[Sequence[Any]]) -> None:
        """Write rows of data.csv into their cells; gives up where the disk refuses."""
        if self._handle >= 0:
            try:
                self._records = put(self._layout, rows, self._records, self._write_at)
            except OSError:
                self.give_up()

    def close(self) -> None:
        """It is on the disk; a second time does nothing."""
        if self._handle >= 0:
            try:
                self._disk.sync(self._handle)
            except OSError:
                self.give_up()
            else:
                os.close(self._handle)
                self._handle = -1

    def give_up(self) -> None:
        """Remove it: what it has is in data.csv."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
        with contextlib.suppress(OSError):
            remove(self._path)

    def _write_at(self, offset: int, data: bytes) -> None:
        os.lseek(self._handle, offset, os.SEEK_SET)
        view = memoryview(data)
        while view:
            view = view[self._disk.write(self._handle, view) :]


def begin(layout: Layout, write_at: WriteAt) -> None:
    """Write a file without rows."""
    write_at(0, layout.head)
    for offset in range(len(layout.head), layout.size, len(NANS)):
        write_at(offset, NANS[: layout.size - offset])


def put(layout: Layout, rows: Iterable[Sequence[Any]], records: int, write_at: WriteAt) -> int:
    """Write rows; returns the number of records in the file then."""
    for row in rows:
        for offset, data in layout.writes(row, records):
            write_at(offset, data)
        records += 1
    return records


def open_cells(directory: Path, meta: Mapping[str, Any], disk: Disk) -> CellFile | None:
    """Make data.nc with the valid rows of data.csv; ``None`` where the disk refuses it."""
    try:
        file = CellFile(directory, _layout(directory, meta), disk)
    except (OSError, EdgedError, ValueError):
        return None
    try:
        file.put(valid_rows(directory, meta))
    except EdgedError:
        file.give_up()
    return file


def make_again(directory: Path, meta: Mapping[str, Any]) -> None:
    """Make the data.nc of an experiment from its data.csv. Never raises."""
    if meta.get("kind") == RunKind.EXPERIMENT:
        cells = open_cells(directory, meta, THE_DISK)
        if cells is not None:
            cells.close()


@functools.lru_cache(maxsize=1)
def netcdf_bytes(directory: Path, size: int) -> bytes:
    """data.nc of any recording, made from its data.csv.

    Args:
        size: of data.csv, so that a longer one is made again.

    Raises:
        Failed: RECORDING_FAILED, it is too long, or cannot be read.
    """
    check_size(size)
    try:
        meta = json.loads(read_text(directory / META_FILE))
        layout = _layout(directory, meta)
    except (OSError, ValueError) as unreadable:
        raise Failed(
            f"{directory} cannot be read: {unreadable}.", code=ErrorCode.RECORDING_FAILED
        ) from unreadable
    made = bytearray()

    def write_at(offset: int, data: bytes) -> None:
        made[offset : offset + len(data)] = data

    begin(layout, write_at)
    put(layout, valid_rows(directory, meta), 0, write_at)
    return bytes(made)


def _layout(directory: Path, meta: Mapping[str, Any]) -> Layout:
    columns = [
        Column(
            name=column["name"],
            unit=column.get("unit", ""),
            dimensions=tuple(column.get("dimensions", ())),
            is_text=column.get("is_text", False),
        )
        for column in meta.get("columns", ())
    ]
    if meta.get("kind") != RunKind.EXPERIMENT:
        columns = _with_texts(directory, columns)
    attributes = {
        "title": str(meta.get("command_name")),
        "run_id": str(meta.get("run_id")),
        "started": str(meta.get("started")),
        "source": f"edged {meta.get('edged_version')}, from data.csv",
    }
    return layout_of(columns, read_dimensions(directory), attributes)


def _with_texts(directory: Path, columns: Sequence[Column]) -> list[Column]:
    """The columns of data.csv, those marked that have text and no number."""
    known = {column.name: column for column in columns}
    names, rows = rows_of(directory / ROWS_FILE)
    has_number, has_text = [False] * len(names), [False] * len(names)
    for row in rows:
        for index, cell in enumerate(row[: len(names)]):
            if cell:
                is_number = _cell(cell) is not None
                has_number[index] |= is_number
                has_text[index] |= not is_number
    return [
        Column(
            name=name,
            unit=known[name].unit if name in known else "",
            is_text=has_text[index] and not has_number[index],
        )
        for index, name in enumerate(names)
    ]


def valid_rows(directory: Path, meta: Mapping[str, Any]) -> Iterator[list[float | None]]:
    """The rows of data.csv that count, as numbers.

    Raises:
        Failed: RECORDING_FAILED, it cannot be read.
    """
    names, rows = rows_of(directory / ROWS_FILE)
    for texts in counted_rows(rows, names, meta):
        row = [_cell(text) for text in texts]
        yield [*row, *[None] * (len(names) - len(row))]


def counted_rows(
    rows: Iterable[Sequence[str]], names: Sequence[str], meta: Mapping[str, Any]
) -> Iterator[Sequence[str]]:
    """Rows of data.csv but for those of passes that were repeated."""
    repeated = [
        (resume["attempt"], [(names.index(f"n_{loop}"), at) for loop, at in resume["at"].items()])
        for resume in meta.get("resumes", ())
        if resume["at"]
    ]
    attempt_at = names.index(ATTEMPT.name) if repeated else 0
    for row in rows:
        if not any(
            int(row[attempt_at]) < attempt and all(row[place] == str(at) for place, at in places)
            for attempt, places in repeated
            if len(row) == len(names)
        ):
            yield row


def _cell(text: str) -> float | None:
    """A cell as a number; a truth is 1 or 0."""
    number = number_of(text)
    return TRUTHS.get(text) if number is None else number
