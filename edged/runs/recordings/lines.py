"""A file of lines that only grows: a table in CSV under its header, or one JSON object a line.

What another program does to the file is found when somebody looks, and the file goes on behind it.
Functions here touch the disk and belong on a thread.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from edged.csv_cells import guarded
from edged.files import make_directory, open_bytes, open_update
from edged.runs.recordings.append import Appending, Disk, Harm
from edged.yaml.tree import Scalar

ROWS_AT_ONCE: Final = 1_000
"""Are whole on the disk or not at all: a disk that has room for some gets those."""

Row = Sequence[Scalar | None]


class Lines:
    """An open file of lines; used by one thread at a time.

    Args:
        columns: the header of a table; ``None``: a file of JSON objects, without a header.
        goes_on: the file may be there already, and grows behind its whole lines.

    Attributes:
        count: rows in the file.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(
        self, path: Path, columns: Sequence[str] | None, disk: Disk, *, goes_on: bool = False
    ) -> None:
        self.path = path
        self.count = 0
        self._disk = disk
        self._is_table = columns is not None
        self._header = b"" if columns is None else encoded([columns])
        # Stands before the next row: what another program took away, or left unfinished.
        self._before = self._header
        self._file = Appending(path, disk, may_be_there=goes_on)
        try:
            if self._file.size:
                self._begin_behind()
            self.end()
        except OSError:
            self._file.close()
            raise

    def add(self, rows: Sequence[Any]) -> tuple[int, int, OSError | None]:
        """Append and sync as many rows as the disk takes.

        Returns:
            (bytes, rows, why not all).

        Raises:
            OSError: they were written but not synced, so none of them is in the file.
        """
        before = self._before
        refused: OSError | None = None
        size = added = 0
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = rows[start : start + ROWS_AT_ONCE]
            text = encoded(some) if self._is_table else _objects(some)
            try:
                size += self._file.add(self._before + text)
            except OSError as error:
                refused = error
                break
            self._before = b""
            added += len(some)
        if added:
            try:
                self._file.sync()
            except OSError:
                self._before = before
                raise
        self.count += added
        return size, added, refused

    def end(self) -> None:
        """Write what stands before the next row, and sync.

        Raises:
            OSError: the disk does not take it now.
        """
        if self._before:
            self._file.add(self._before)
            self._before = b""
        self._file.sync()

    def look(self) -> Iterator[Harm]:
        """Find out what other programs have done, and go on behind it."""
        found = self._file.found()
        if not found:
            return
        if found == "was cut short":
            cut_torn_line(self.path)
        make_directory(self.path.parent)
        file = Appending(self.path, self._disk, may_be_there=True)
        self._file.close()
        self._file = file
        before = self.count
        self._begin_behind()
        self.count = min(self.count, before)
        yield Harm(path=self.path, found=found, lost=before - self.count)

    def close(self) -> None:
        """No more will come; a second time does nothing."""
        self._file.close()

    def _begin_behind(self) -> None:
        lines, is_whole = _count_lines(self.path)
        self._before = self._header if not lines else b"" if is_whole else b"\n"
        self.count = max(0, lines - 1) if self._is_table else lines


def rows_in(path: Path) -> int:
    """How many rows a table has under its header."""
    return max(0, _count_lines(path)[0] - 1)


def _count_lines(path: Path) -> tuple[int, bool]:
    """How many lines a file has, a torn last one too, and whether the last one is whole."""
    count, last = 0, b"\n"
    with open_bytes(path) as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            count += part.count(b"\n")
            last = part[-1:]
    return count + (last != b"\n"), last == b"\n"


def cut_torn_line(path: Path) -> None:
    """Remove what stands behind the last whole line.

    A power failure leaves zeros where what was written had not reached the disk; lines have none.
    """
    with open_update(path) as file:
        size = file.seek(0, os.SEEK_END)
        tail_from = max(0, size - 65_536)
        file.seek(tail_from)
        tail = file.read()
        whole = tail.rfind(b"\n", 0, tail.find(b"\0") if b"\0" in tail else None) + 1
        if whole < len(tail):
            file.truncate(tail_from + whole)
    if tail_from and not whole:
        cut_torn_line(path)


def encoded(rows: Sequence[Sequence[Any]]) -> bytes:
    """Rows as the lines of a CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue().encode("utf-8", "replace")


def _objects(rows: Sequence[Any]) -> bytes:
    """Objects as lines of JSON."""
    return "".join(f"{json.dumps(row, default=str)}\n" for row in rows).encode()


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
