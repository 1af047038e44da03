"""Which recordings are being written: a mark each, so that a restart finds those it must mend.

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
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from edged.work.run_append import THE_DISK, Disk
from edged.work.run_files import META_FILE, repair, write_meta

__all__ = [
    "came_to_its_end",
    "claim_marks",
    "drop_mark",
    "note_end",
    "repair_interrupted",
    "set_mark",
    "used_bytes",
]

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
        (root / marks).mkdir(parents=True, exist_ok=True)
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
            left.mkdir(exist_ok=True)
            mark.replace(left / mark.name)


def drop_mark(root: Path, run_id: str) -> None:
    """It is written no longer."""
    (root / MARKS / f"{run_id}.mark").unlink(missing_ok=True)


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
            place, _, end = mark.read_text(encoding="utf-8").partition("\n")
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
            mark.unlink(missing_ok=True)
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
    meta: dict[str, Any] = json.loads((directory / META_FILE).read_text(encoding="utf-8"))
    rows, arrays = repair(directory)
    if meta.get("status") != "running":
        return
    if end is None:
        meta["status"] = "interrupted"
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
    write_meta(directory, meta)
