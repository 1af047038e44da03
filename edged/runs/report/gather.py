"""Reads a recording for its report.

Reads files, and belongs on a thread (``RunRegistry.read``).
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from edged.errors import EdgedError, ErrorCode, Failed
from edged.files import names_in, open_bytes
from edged.plot.figure import Figure
from edged.record import record
from edged.runs.recordings.figures import PlotWish, run_figure
from edged.runs.recordings.files import META_FILE, NC_FILE, ROWS_FILE
from edged.runs.recordings.reader import archive_number, find_run, read_meta
from edged.runs.recordings.table import PageWish, read_page
from edged.runs.report.facts import DataFile, Extract

ROWS_FROM_EACH_END: Final = 10
PIECE_BYTES: Final = 32 * 1024 * 1024
"""Hashed at once; others read recordings between."""
WIDE_X: Final = 100.0
"""From the lowest to the highest so many times: an axis of frequencies is logarithmic then."""


@record(frozen=False)
class FileHash:
    """A file whose hash is being worked out."""

    path: Path
    size: int = 0
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)

    def told(self) -> DataFile:
        """What it came to."""
        return DataFile(name=self.path.name, size=self.size, sha256=self.digest.hexdigest())


@record
class RecordedRun:
    """What a recording says by itself; see ``facts.Material``."""

    meta: Mapping[str, Any]
    directory: Path
    figures: tuple[Figure, ...]
    undrawn: str
    extract: Extract
    files: tuple[FileHash, ...]


def look_at(root: Path, run_id: str) -> RecordedRun:
    """Everything but the hashes of its files.

    Raises:
        NotFound: UNKNOWN_RUN.
        Failed: RECORDING_FAILED, it cannot be read.
    """
    directory = find_run(root, run_id)
    figures, undrawn = _figures(root, run_id)
    archives = sorted(directory.glob("data*.npz"), key=archive_number)
    paths = (directory / ROWS_FILE, *archives, *_further(directory), directory / META_FILE)
    return RecordedRun(
        meta=read_meta(directory),
        directory=directory,
        figures=figures,
        undrawn=undrawn,
        extract=_extract(directory / ROWS_FILE),
        files=tuple(FileHash(path=path) for path in paths if path.exists()),
    )


def _further(directory: Path) -> list[Path]:
    """The other files of an experiment that are not made from these."""
    known = {ROWS_FILE, META_FILE, NC_FILE}
    with contextlib.suppress(OSError):
        return [
            directory / name
            for name in sorted(names_in(directory))
            if name not in known
            and not name.endswith(".npz")
            and not name.startswith(".")
            and (directory / name).is_file()
        ]
    return []


def take_piece(_root: Path, file: FileHash) -> bool:
    """Hash some more of a file; whether there may be more.

    Raises:
        Failed: RECORDING_FAILED, it cannot be read.
    """
    try:
        with open_bytes(file.path) as opened:
            opened.seek(file.size)
            piece = opened.read(PIECE_BYTES)
    except OSError as unreadable:
        raise Failed(
            f"{file.path} cannot be read: {unreadable.strerror}.", code=ErrorCode.RECORDING_FAILED
        ) from unreadable
    file.digest.update(piece)
    file.size += len(piece)
    return len(piece) == PIECE_BYTES


def _figures(root: Path, run_id: str) -> tuple[tuple[Figure, ...], str]:
    """Its pictures, or why there is none."""
    try:
        figure = run_figure(root, run_id)
        if _is_wide(figure):
            with contextlib.suppress(EdgedError):
                figure = run_figure(root, run_id, PlotWish(log_x=True))
    except EdgedError as error:
        if error.code is ErrorCode.UNKNOWN_RUN:
            raise
        return (), error.message
    return (figure,), ""


def _is_wide(figure: Figure) -> bool:
    """Whether it is over frequencies that only a logarithmic axis shows."""
    xs = [x for panel in figure.panels for line in panel.lines for x in line.x if x is not None]
    return figure.x_unit == "Hz" and bool(xs) and min(xs) > 0 and max(xs) > WIDE_X * min(xs)


def _extract(path: Path) -> Extract:
    """The ends of the table; none where it cannot be read, which the pictures tell."""
    with contextlib.suppress(Failed):
        return _ends(path)
    return Extract()


def _ends(path: Path) -> Extract:
    head = read_page(path, PageWish(first=0, most=ROWS_FROM_EACH_END))
    behind = max(len(head.rows), head.total - ROWS_FROM_EACH_END)
    # One that is still written may have become longer: what is told is of one moment.
    tail = read_page(path, PageWish(first=behind, most=head.total - behind))
    return Extract(
        columns=head.columns,
        first=tuple(tuple(map(_shown, row)) for row in head.rows),
        last=tuple(tuple(map(_shown, row)) for row in tail.rows),
        total=head.total,
    )


def _shown(cell: Any) -> str:
    """As it stands in the file, but for the guard before what a spreadsheet takes for a formula."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return "" if cell is None else str(cell)
