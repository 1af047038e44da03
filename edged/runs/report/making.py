"""Reads a recording and makes its report, on the thread that reads recordings.

Loaded when the first one is asked for, which most lives of the daemon never see.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, Final

from edged import __version__
from edged.errors import EdgedError, ErrorCode, Failed, NotFound
from edged.files import names_in, open_bytes
from edged.plot.figure import Figure
from edged.runs.bench import Bench
from edged.runs.recordings.figures import PlotWish, run_figure
from edged.runs.recordings.files import META_FILE, NC_FILE, ROWS_FILE
from edged.runs.recordings.formats import archives_in
from edged.runs.recordings.reader import find_run, read_meta
from edged.runs.recordings.registry import RunRegistry
from edged.runs.recordings.table import PageWish, read_page, reading
from edged.runs.report.document import document_of
from edged.runs.report.facts import (
    DataFile,
    Extract,
    Material,
    Standing,
    report_of,
    span_of,
    unit_ids,
)

ROWS_FROM_EACH_END: Final = 10
PIECE_BYTES: Final = 32 * 1024 * 1024
"""Hashed at once; others read recordings between."""
WIDE_X: Final = 100.0
"""From the lowest to the highest so many times: an axis of frequencies is logarithmic then."""


def look_at(root: Path, run_id: str) -> Material:
    """All that a recording says by itself, but for the hashes of its files.

    Raises:
        NotFound: UNKNOWN_RUN.
        Failed: RECORDING_FAILED, it cannot be read.
    """
    directory = find_run(root, run_id)
    figures, undrawn = _figures(root, run_id)
    data = (directory / ROWS_FILE, *archives_in(directory))
    paths = (*data, *_further(directory), directory / META_FILE)
    return Material(
        run_id=run_id,
        meta=read_meta(directory),
        path=str(directory),
        figures=figures,
        undrawn=undrawn,
        extract=_extract(directory / ROWS_FILE),
        files=tuple(DataFile(path=path) for path in paths if path.exists()),
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


def take_piece(_root: Path, file: DataFile) -> bool:
    """Hash some more of a file; whether there may be more.

    Raises:
        Failed: RECORDING_FAILED, it cannot be read.
    """
    with reading(file.path), open_bytes(file.path) as opened:
        opened.seek(file.size)
        piece = opened.read(PIECE_BYTES)
    file.digest.update(piece)
    file.size += len(piece)
    file.sha256 = file.digest.hexdigest()
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


async def make_report(bench: Bench, runs: RunRegistry, run_id: str) -> bytes:
    """The report of a run as it is on the disk.

    Raises:
        NotFound: UNKNOWN_RUN.
        Failed: RECORDING_FAILED, it cannot be read.
    """
    await runs.closed(run_id)
    is_open = await runs.written(run_id) is not None
    found = await runs.read(look_at, run_id)
    for file in found.files:
        while await runs.read(take_piece, file):
            pass
    material = await _with_record(bench, found)
    standing = Standing(
        now_ms=bench.clock.wall_ms(),
        version=__version__,
        dues=_dues(bench, found),
        is_open=is_open and found.meta.get("status") == "running",
    )
    report = await runs.read(lambda _root: report_of(material, standing))
    return await runs.read(lambda _root: document_of(report))


async def _with_record(bench: Bench, found: Material) -> Material:
    begun, ended = span_of(found.meta)
    audit = bench.store.audit
    try:
        rows = await audit.of_run(found.run_id, since_ms=begun, until_ms=ended)
    except EdgedError as error:
        return replace(found, unread=error.message)
    return replace(found, record=rows)


def _dues(bench: Bench, found: Material) -> dict[str, date]:
    dues: dict[str, date] = {}
    for name in unit_ids(found.meta):
        with contextlib.suppress(NotFound):
            due = bench.pool.get(name).rules.calibration_due
            if due is not None:
                dues[name] = due
    return dues
