"""Less of the machine's memory for the same work, mostly by how glibc's allocator is used.

Python keeps small objects in arenas of its own; what is larger, and all of SQLite's, is malloc's.
"""

from __future__ import annotations

import contextlib
import ctypes
import mimetypes
import sys
from typing import Final

__all__ = ["give_back", "keep_no_media_types", "share_one_heap"]

M_ARENA_MAX: Final = -8
"""From glibc's malloc.h."""


def share_one_heap() -> None:
    """One heap for all threads, before there are many: glibc would give each of them one.

    They hold the interpreter's lock while they allocate, so they seldom wait for one another.
    """
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def keep_no_media_types() -> None:
    """Files are told by their types nowhere here: the machine's list of a thousand is not read."""
    mimetypes.knownfiles.clear()


def give_back() -> None:
    """Give what start-up needed and freed back to the system; takes some milliseconds.

    For a thread: the interpreter's lock is free meanwhile.
    """
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)
