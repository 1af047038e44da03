"""Which files in SDK_WRAPPER_DIRS are wrappers, and which cannot be."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["WrapperFiles", "find_wrappers", "stamp_of"]

_STEM: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_LONGEST_STEM: Final = 40
MOST_WRAPPERS: Final = 32
"""Each is a process."""
RESERVED: Final = frozenset({"bench"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WrapperFiles:
    """The wrappers by stem, and a sentence for each file that is left out."""

    found: Mapping[str, Path]
    complaints: Sequence[str]


def find_wrappers(directories: Sequence[Path], taken: Collection[str] = ()) -> WrapperFiles:
    """Look through the directories; in later ones a file overrides that of an earlier one.

    Args:
        taken: keys of profiles, whose tools have such names already.
    """
    found: dict[str, Path] = {}
    complaints: list[str] = []
    for directory in directories:
        try:
            files = sorted(path for path in directory.glob("*.py") if path.is_file())
        except OSError as error:
            complaints.append(f"{directory} cannot be read: {error.strerror or error}.")
            continue
        for path in files:
            if path.stem.startswith("_"):
                continue
            problem = _problem(path.stem, taken)
            if problem:
                complaints.append(f"{path}: {problem}")
            else:
                found[path.stem] = path
    complaints.extend(
        f"{found.pop(stem)}: more than {MOST_WRAPPERS} wrappers are not loaded."
        for stem in list(found)[MOST_WRAPPERS:]
    )
    return WrapperFiles(found=found, complaints=complaints)


def stamp_of(path: Path) -> list[int]:
    """Changes when the file does; zeros where it cannot be seen."""
    try:
        found = path.stat()
    except OSError:
        return [0, 0]
    return [found.st_mtime_ns, found.st_size]


def _problem(stem: str, taken: Collection[str]) -> str:
    if not _STEM.fullmatch(stem) or len(stem) > _LONGEST_STEM:
        return (
            "the name of a wrapper's file is lower case letters, digits and single _, a letter "
            f"first, at most {_LONGEST_STEM} characters."
        )
    if stem in taken:
        return f"a profile is called {stem}, too, so its tools would have the same names."
    return f"the name {stem} is edged's own." if stem in RESERVED else ""
