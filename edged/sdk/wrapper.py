"""What the author of an SDK wrapper may use of edged: two settings to ask for, two errors to raise.

A wrapper runs in a worker process, never in the engine. It needs nothing of this module; any
exception that it raises becomes a clear error. Imports nothing but ``os``, so that a wrapper can be
tried out by itself in any Python.

Source: docs/sdk-wrappers.md.

What a wrapper's function gives back → what JSON can hold; runs in the worker.

Vendor packages hand out their own numbers and arrays; those that have ``tolist`` (NumPy's, and
``array.array``) are turned into Python's. A number that is not finite is no value: null.

Which files in SDK_WRAPPER_DIRS are wrappers, and which cannot be.
"""

from __future__ import annotations

import enum
import math
import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from edged.record import record

LIBRARY_PREFIX = "SDK_LIBRARY_"
SETTING_PREFIX = "SDK_SETTING_"


class SdkMissing(Exception):
    """The vendor's library or package is not installed.

    Args:
        message: what was looked for.
        remedy: what to install, and how to tell edged where it is.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class NotConnected(Exception):
    """The device is not there, or somebody else has it; so nothing of it can be switched.

    Args:
        message: what was looked for, and where.
        remedy: what to do about it.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


def library(name: str, default: str) -> str:
    """Path of a vendor's library: what SDK_LIBRARIES says under ``name``, else ``default``."""
    return os.environ.get(f"{LIBRARY_PREFIX}{name.upper()}", default)


def setting(name: str, default: str = "") -> str:
    """What SDK_SETTINGS says under this wrapper's stem and ``name``, else ``default``."""
    return os.environ.get(f"{SETTING_PREFIX}{name.upper()}", default)


MAX_DEPTH: Final = 16


def json_ready(value: object, depth: int = 0) -> Any:
    """The same value in plain types.

    Raises:
        TypeError: something that has no plain form, or too deep; the text says where.
    """
    match value:
        case enum.Enum():
            return json_ready(value.value, depth)
        case None | bool() | str():
            return value
        case int():
            return int(value)
        case float():
            return float(value) if math.isfinite(value) else None
        case _ if depth >= MAX_DEPTH:
            raise TypeError(f"it is nested deeper than {MAX_DEPTH} levels")
        case Mapping():
            return {str(key): json_ready(item, depth + 1) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [json_ready(item, depth + 1) for item in value]
    plain = getattr(value, "tolist", None)
    if callable(plain):
        return json_ready(plain(), depth + 1)
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


_STEM: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_LONGEST_STEM: Final = 40
MOST_WRAPPERS: Final = 32
"""Each is a process."""
RESERVED: Final = frozenset({"bench"})


@record
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
