"""Reads profile directories into the cache, in a process of its own.

Reading YAML with places takes a second of Python for a few dozen profiles. In the engine's own
process that second would be taken from the event loop, whichever thread does it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from edged.profiles.library_cache import load_cached_library

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """``python -m edged.processes.profile_reader CACHE DIRECTORY…``."""
    cache, *directories = map(Path, arguments)
    load_cached_library(directories, cache)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
