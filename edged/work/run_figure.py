"""A recording as a figure to draw: its rows, or the newest of its waveforms.

Reads files, and belongs on a thread (``RunBook.read``).
"""

from __future__ import annotations

import contextlib
import csv
import math
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from edged.errors import ErrorCode, Failed
from edged.plot.figure import Figure
from edged.work.npy import read_npy
from edged.work.pictures import table_figure, waveform_figure
from edged.work.points import Waveform
from edged.work.run_files import ROWS_FILE
from edged.work.run_reader import archive_number, find_run, read_meta

__all__ = ["run_figure"]

MAX_TABLE_BYTES: Final = 256 * 1024 * 1024
"""A longer table is not read into memory; half a week of a row each 100 ms."""
MAX_ARRAY_BYTES: Final = 256 * 1024 * 1024


def run_figure(root: Path, run_id: str) -> Figure:
    """What a picture of a recording shows.

    Raises:
        NotFound: UNKNOWN_RUN.
        Failed: RECORDING_FAILED, it cannot be read, or is too long to draw.
    """
    directory = find_run(root, run_id)
    meta = read_meta(directory)
    title = f"{run_id}: {meta.get('command_name')} of {meta.get('instrument_id')}"
    archives = sorted(directory.glob("data*.npz"), key=archive_number)
    try:
        if archives:
            return waveform_figure(*_newest_waveform(directory, archives, title))
        rows_file = directory / ROWS_FILE
        if rows_file.stat().st_size > MAX_TABLE_BYTES:
            raise _too_long()
        with rows_file.open(encoding="utf-8", newline="") as file:
            table = csv.reader(file)
            names = next(table, [])
            units = {str(c.get("name")): str(c.get("unit", "")) for c in meta.get("columns", [])}
            columns = [(name, units.get(name, "")) for name in names]
            return table_figure(title, columns, map(_cells, table))
    except OSError as unreadable:
        raise Failed(
            f"{directory} cannot be read: {unreadable.strerror}.", code=ErrorCode.RECORDING_FAILED
        ) from unreadable


def _newest_waveform(directory: Path, archives: Sequence[Path], title: str) -> tuple[Waveform, str]:
    """The last array that is whole, with what its row says of it."""
    about = {row["array"]: row for row in _rows(directory) if row.get("array")}
    for path in reversed(archives):
        # The archive that is being written has no directory yet; the one before has.
        with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
            for member in reversed(archive.infolist()):
                if member.file_size > MAX_ARRAY_BYTES:
                    raise _too_long()
                name = member.filename.removesuffix(".npy")
                type_code, samples = read_npy(archive.read(member))
                row = about.get(name, {})
                waveform = Waveform(
                    type_code=type_code,
                    samples=samples,
                    x_unit=row.get("x_unit") or "",
                    y_unit=row.get("y_unit") or "",
                    x_increment=_number(row.get("x_increment"), 1.0),
                )
                return waveform, f"{title}, {name}"
    raise Failed(
        "This recording's waveforms are still being written.",
        code=ErrorCode.RECORDING_FAILED,
        remedy="Draw it when it has ended; fetch_waveform draws those in memory.",
    )


def _rows(directory: Path) -> Iterator[dict[str, str]]:
    with (directory / ROWS_FILE).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _cells(row: Sequence[str]) -> list[Any]:
    return [_number(cell, math.nan) for cell in row]


def _number(cell: str | None, otherwise: float) -> float:
    try:
        return float(cell or "")
    except ValueError:
        return otherwise


def _too_long() -> Failed:
    return Failed(
        "This recording is too long to draw.",
        code=ErrorCode.RECORDING_FAILED,
        remedy="Export it, and draw a part of it.",
    )
