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
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import structlog

from edged.errors import EdgedError
from edged.files import (
    make_directory,
    move,
    names_in,
    read_text,
    remove,
    remove_directory,
    sync_directory,
)
from edged.record import record
from edged.runs.recordings.append import THE_DISK, Arrays, Disk
from edged.runs.recordings.formats import ARRAYS_FILE, archives_in, finish_archive
from edged.runs.recordings.lines import Lines, cut_torn_line, rows_in
from edged.runs.recordings.table import stats_of
from edged.runs.run_head import Dimension, RunKind

log = structlog.get_logger("edged.runs")

ROWS_FILE: Final = "data.csv"
META_FILE: Final = "meta.json"
DIMENSIONS_FILE: Final = "dimensions.json"
NC_FILE: Final = "data.nc"
EVENTS_FILE: Final = "events.jsonl"
CHECKS_FILE: Final = "checks.csv"
MOST_HARMS: Final = 8
"""Are told in words; all are counted."""
NOTHING_FURTHER: Final[Mapping[str, Sequence[str] | None]] = MappingProxyType({})


@record(frozen=False, kw_only=False)
class OnDisk:
    """What has come on the disk: of what was for each file the first so many."""

    size: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    error: OSError | None = None


class RunFiles:
    """The open files of one recording; used by one thread at a time.

    Args:
        directory: is made here.
        columns: names of the columns of data.csv.
        further: the columns of each further table by the name of its file; ``None``: a file of
            JSON objects.
        goes_on: the directory is there, and its files grow.

    Attributes:
        lost: by the name of the file, what was on the disk until another program took it away.

    Raises:
        OSError: it cannot be written there, and nothing of it is; FileExistsError: there is such a
            recording.
    """

    def __init__(
        self,
        directory: Path,
        columns: Sequence[str],
        disk: Disk = THE_DISK,
        *,
        further: Mapping[str, Sequence[str] | None] = NOTHING_FURTHER,
        goes_on: bool = False,
    ) -> None:
        is_first_of_day = not directory.parent.exists()
        if not goes_on:
            _make(directory, is_first_of_day=is_first_of_day)
        self.directory = directory
        self.lost: Counter[str] = Counter()
        # By the name of the file, data.csv first.
        self._parts: dict[str, Lines | Arrays] = {}
        self._harms: dict[str, None] = {}
        self._is_closed = False
        try:
            for name, header in {ROWS_FILE: columns, **further}.items():
                self._parts[name] = Lines(directory / name, header, disk, goes_on=goes_on)
            self._parts[ARRAYS_FILE] = Arrays(directory, disk)
            sync_directory(directory)
            sync_directory(directory.parent)
            if is_first_of_day:
                sync_directory(directory.parent.parent)
        except OSError:
            if goes_on:
                self.leave()
            else:
                self.discard()
            raise

    @property
    def harm(self) -> str:
        """What other programs have done to the files, in sentences; empty if nothing."""
        return " ".join(self._harms)

    def write(self, waiting: Mapping[str, Sequence[Any]]) -> OnDisk:
        """Append and sync as many as the disk takes, each row and array whole or not at all.

        Arrays go first: a row that names one comes after it. The files follow in their order, so
        that an event stands for rows that are on the disk.

        Args:
            waiting: rows and arrays by the names of files.
        """
        written = OnDisk()
        try:
            self._look()
            for name in dict.fromkeys((ARRAYS_FILE, *self._parts)):
                if some := waiting.get(name):
                    size, written.counts[name], refused = self._parts[name].add(some)
                    written.size += size
                    if refused is not None:
                        raise refused
        except OSError as refused:
            written.error = refused
        return written

    def close(self) -> None:
        """End the files; the archive gets its directory. May be tried again.

        Raises:
            OSError: the disk does not take it now.
        """
        if not self._is_closed:
            self._look()
            for part in self._parts.values():
                part.end()
            self.leave()
            self._is_closed = True

    def leave(self) -> None:
        """Close the files as they are. Never raises."""
        for part in self._parts.values():
            with contextlib.suppress(OSError):
                part.close()

    def discard(self) -> None:
        """Remove what was begun and cannot be gone on with. Never raises."""
        self.leave()
        with contextlib.suppress(OSError):
            for name in names_in(self.directory):
                remove(self.directory / name)
            remove_directory(self.directory)
            remove_directory(self.directory.parent)

    def _look(self) -> None:
        """Find out what other programs have done, and go on behind it."""
        for name, part in self._parts.items():
            for harm in part.look():
                self.lost[name] += harm.lost
                if len(self._harms) < MOST_HARMS:
                    sentence = (
                        f"{harm.path.name} {harm.found} by another program while it was recorded: "
                        f"{harm.lost} {'waveforms' if name == ARRAYS_FILE else 'rows'} that were "
                        "on the disk are lost."
                    )
                    self._harms[sentence] = None
                log.error("recording_harmed", run_id=self.directory.name, reason=self.harm)


def _make(directory: Path, *, is_first_of_day: bool) -> None:
    try:
        make_directory(directory, exist_ok=False)
    except OSError:
        if is_first_of_day:
            with contextlib.suppress(OSError):
                remove_directory(directory.parent)
        raise


def table_file(name: str) -> str:
    """The file of a further table."""
    return f"{name}.csv"


def write_dimensions(
    directory: Path, dimensions: Sequence[Dimension], disk: Disk = THE_DISK
) -> None:
    """Write the values of an experiment's loops, which may be many, beside meta.json.

    Raises:
        OSError: it could not be written.
    """
    told = [
        {"name": dimension.name, "unit": dimension.unit, "values": dimension.values}
        for dimension in dimensions
    ]
    disk.put(directory / DIMENSIONS_FILE, json.dumps(told) + "\n")


def read_dimensions(directory: Path) -> tuple[Dimension, ...]:
    """The loops of an experiment; none of other runs.

    Raises:
        OSError, ValueError: they cannot be read.
    """
    try:
        told = json.loads(read_text(directory / DIMENSIONS_FILE))
    except FileNotFoundError:
        return ()
    return tuple(
        Dimension(
            name=one["name"],
            unit=one["unit"],
            values=None if one["values"] is None else tuple(one["values"]),
        )
        for one in told
    )


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
    for archive in archives_in(directory):
        count = finish_archive(archive)
        arrays += count
        if not count:
            remove(archive)
    for lines in (*directory.glob("*.csv"), *directory.glob("*.jsonl")):
        cut_torn_line(lines)
    rows = directory / ROWS_FILE
    return rows_in(rows) if rows.exists() else 0, arrays


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
    """The recording at ``place`` (below ``root``) is being written, and is not to be mended.

    Raises:
        OSError: it cannot be written.
    """
    for marks in (MARKS, LEFT):
        make_directory(root / marks)
    disk.put(root / MARKS / f"{run_id}.mark", f"{place}\n".ljust(MARK_BYTES))
    remove(root / LEFT / f"{run_id}.mark")


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


def repair_interrupted(
    root: Path, now: str, mended: Callable[[Path, Mapping[str, Any]], None] | None = None
) -> int:
    """Mend every recording whose mark ``claim_marks`` has put aside.

    Args:
        now: when they were found, as meta.json writes it.
        mended: is called with the directory and meta.json of each.

    Returns:
        How many were mended.
    """
    marks = root / LEFT
    count = 0
    for mark in sorted(marks.glob("*.mark")) if marks.is_dir() else ():
        try:
            place, _, end = read_text(mark).partition("\n")
            directory = root / place
            if place and directory.is_relative_to(root) and ".." not in directory.parts:
                meta = _mend(directory, now, _noted(end))
                if mended is not None:
                    mended(directory, meta)
                count += 1
        except (FileNotFoundError, ValueError):
            # Removed by its owner, or written by nobody here: nothing to mend.
            pass
        except OSError:
            # A disk that is full still: the next look mends it.
            continue
        with contextlib.suppress(OSError):
            remove(mark)
    return count


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


def _mend(directory: Path, now: str, end: dict[str, Any] | None) -> dict[str, Any]:
    """Make it whole and say how it ended; returns its meta.json.

    Args:
        end: what was noted of it, if it had ended and waited for the disk.
    """
    meta: dict[str, Any] = json.loads(read_text(directory / META_FILE))
    rows, arrays = repair(directory)
    if meta.get("status") != "running":
        return meta
    if end is None:
        # An experiment may go on.
        is_experiment = meta.get("kind") == RunKind.EXPERIMENT
        meta["status"] = "interrupted" if is_experiment else "failed"
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
    return meta
