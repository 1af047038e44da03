"""The table of a recording, read by pages: some of its rows, and the statistics of all of them.

Reads files, and belongs on a thread (``RunRegistry.read``). A page costs what the bytes before it
cost to be counted: no row but those of the page is taken apart.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import io
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from edged.csv_cells import unguarded
from edged.errors import ErrorCode, Failed, Invalid
from edged.files import open_bytes
from edged.record import record
from edged.runs.run_head import ELAPSED
from edged.runs.running_stats import TableStats

PIECE_BYTES: Final = 1 << 20
MAX_TABLE_BYTES: Final = 256 * 1024 * 1024
"""A longer table is not taken into memory; half a week of a row each 100 ms."""


@record
class PageWish:
    """Which rows of a table are wanted.

    Attributes:
        first: the number of the first one, from 0.
        most: so many at most.
        every: each so-manieth from the first on.
        columns: names, in the order in which they are wanted; all of them where that is empty.
        table: a further table of the run; empty: its rows.
    """

    first: int
    most: int
    every: int = 1
    columns: tuple[str, ...] = ()
    table: str = ""


@record
class Page:
    """Some rows of a table; ``total`` counts all that there are."""

    columns: tuple[str, ...]
    rows: list[list[Any]]
    total: int


def cell_value(cell: str) -> Any:
    """A cell as it went in, as far as text tells."""
    if cell == "":
        return None
    if cell in ("true", "false"):
        return cell == "true"
    try:
        return int(cell)
    except ValueError:
        pass
    try:
        number = float(cell)
    except ValueError:
        return unguarded(cell)
    return number if math.isfinite(number) else cell


def read_page(path: Path, wish: PageWish) -> Page:
    """A page of the table in ``path``; a row that is being written just now is none yet.

    Raises:
        Invalid: no such column.
        Failed: RECORDING_FAILED, it cannot be read.
    """
    with reading(path), open_bytes(path) as file:
        names = _header(file)
        columns = wish.columns or names
        unknown = [name for name in columns if name not in names]
        if unknown:
            raise no_column(unknown[0], names, "columns")
        places = [names.index(name) for name in columns]
        lines, total = _picked(file, wish)
    rows = [
        [cell_value(row[place]) if place < len(row) else None for place in places]
        for row in csv.reader(lines)
    ]
    return Page(columns=tuple(columns), rows=rows, total=total)


def no_column(name: str, names: Sequence[str], parameter: str) -> Invalid:
    """The error for a column that a table has not; ``parameter`` is where it was asked for."""
    return Invalid(
        f"There is no column {name[:100]!r}; there are {', '.join(names)}.",
        data={"parameter": parameter, "value": name[:100], "columns": list(names)},
    )


def rows_of(path: Path) -> tuple[list[str], Iterator[list[str]]]:
    """The header and all whole rows.

    Raises:
        Failed: RECORDING_FAILED, it cannot be read.
    """
    rows = _rows(path)
    return next(rows, []), rows


def _rows(path: Path) -> Iterator[list[str]]:
    with reading(path), open_bytes(path) as file:
        yield from csv.reader(_texts(file))


def check_size(size: int) -> None:
    """A table that is put into a file in one piece must not be longer than ``MAX_TABLE_BYTES``.

    Raises:
        Failed: RECORDING_FAILED.
    """
    if size > MAX_TABLE_BYTES:
        raise Failed(
            "This table is too long for one file.",
            code=ErrorCode.RECORDING_FAILED,
            remedy="Export it as csv.",
        )


def stats_of(path: Path) -> dict[str, dict[str, Any]]:
    """The statistics of all rows of a table that has ended; see ``TableStats``.

    Raises:
        Failed: RECORDING_FAILED, it cannot be read.
    """
    with reading(path):
        size = path.stat().st_size
    return _stats_of(path, size)


@functools.lru_cache(maxsize=64)
def _stats_of(path: Path, _size: int) -> dict[str, dict[str, Any]]:
    return stats_so_far(path)[0].told()


def stats_so_far(path: Path) -> tuple[TableStats, float]:
    """The statistics of a table that goes on, and the last ``elapsed_s`` in it, else 0.

    Raises:
        Failed: RECORDING_FAILED, it cannot be read.
    """
    names, rows = rows_of(path)
    stats = TableStats(names)
    numbers: list[float | None] = []
    for row in rows:
        numbers = [number_of(cell) for cell in row]
        stats.add(numbers)
    last = dict(zip(names, numbers, strict=False)).get(ELAPSED.name)
    return stats, last or 0.0


def number_of(cell: str | None) -> float | None:
    """A cell as a number; ``None`` for what is none."""
    try:
        return float(cell or "")
    except ValueError:
        return None


def _picked(file: BinaryIO, wish: PageWish) -> tuple[Sequence[str], int]:
    """The lines of a page, and how many rows there are in all."""
    begins = file.tell()
    picked: list[bytes] = []
    number = 0
    rest = b""
    while piece := file.read(PIECE_BYTES):
        if b'"' in piece:
            # A text may hold line ends: only a reader of CSV knows what a row is.
            file.seek(begins)
            return _picked_with_care(file, wish)
        lines = (rest + piece).split(b"\n")
        rest = lines.pop()
        ends = number + len(lines)
        if ends > wish.first and len(picked) < wish.most:
            start = (
                wish.first - number if number <= wish.first else -(number - wish.first) % wish.every
            )
            picked += lines[start :: wish.every][: wish.most - len(picked)]
        number = ends
    return [line.decode("utf-8", "replace") for line in picked], number


def _picked_with_care(file: BinaryIO, wish: PageWish) -> tuple[Sequence[str], int]:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    number = -1
    wanted = islice(range(wish.first, 1 << 62, wish.every), wish.most)
    following = next(wanted, -1)
    for number, row in enumerate(csv.reader(_texts(file))):
        if number == following:
            writer.writerow(row)
            following = next(wanted, -1)
    return text.getvalue().splitlines(keepends=True), number + 1


def _texts(file: BinaryIO) -> Iterator[str]:
    """Whole lines; the last one only if it is at its end."""
    return (line.decode("utf-8", "replace") for line in file if line.endswith(b"\n"))


def _header(file: BinaryIO) -> tuple[str, ...]:
    line = file.readline().decode("utf-8", "replace")
    return tuple(next(csv.reader([line]), []))


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Have an OSError within say that the file or directory cannot be read.

    Raises:
        Failed: RECORDING_FAILED.
    """
    try:
        yield
    except OSError as unreadable:
        raise Failed(
            f"{path} cannot be read: {unreadable.strerror}.", code=ErrorCode.RECORDING_FAILED
        ) from unreadable
