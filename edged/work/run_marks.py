"""Which recordings are being written: a mark each, so that a restart finds those it must mend.

A mark is a small file in ``runs/.open`` that holds the recording's place; it goes when that is
closed. At a start the marks of before move to ``runs/.left``, each until its recording is mended.
Functions here touch the disk and belong on a thread.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any, Final

from edged.work.run_files import META_FILE, ROWS_FILE, repair, write_meta

__all__ = ["claim_marks", "drop_mark", "repair_interrupted", "set_mark", "used_bytes"]

MARKS: Final = ".open"
LEFT: Final = ".left"


def set_mark(root: Path, run_id: str, place: str) -> None:
    """The recording at ``place`` (below ``root``) is being written.

    Raises:
        OSError: it cannot be written.
    """
    marks = root / MARKS
    marks.mkdir(parents=True, exist_ok=True)
    (marks / f"{run_id}.mark").write_text(place, encoding="utf-8")


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
        with contextlib.suppress(OSError, ValueError):
            directory = root / mark.read_text(encoding="utf-8")
            if directory.is_relative_to(root) and ".." not in directory.parts:
                _mend(directory, now)
                mended += 1
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


def _mend(directory: Path, now: str) -> None:
    meta: dict[str, Any] = json.loads((directory / META_FILE).read_text(encoding="utf-8"))
    repair(directory)
    if meta.get("status") == "running":
        with (directory / ROWS_FILE).open("rb") as rows:
            count = sum(chunk.count(b"\n") for chunk in iter(lambda: rows.read(1 << 20), b""))
        meta["rows"] = max(0, count - 1)
        meta["status"] = "interrupted"
        meta["error"] = f"The daemon died while this was recorded; found at {now}."
        write_meta(directory, meta)
