"""The shipped profiles, read once for all tests of a process."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from edged.profiles.library import ProfileLibrary
from edged.profiles.library_cache import read_library

PROFILES: Final = Path(__file__).resolve().parents[2] / "profiles"


@cache
def shipped_library() -> ProfileLibrary:
    """As a command reads it: what `make test` had read beforehand, or else the files."""
    return read_library([PROFILES], PROFILES)
