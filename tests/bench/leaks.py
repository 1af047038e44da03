"""What was left behind since a moment: threads, child processes, open sockets."""

from __future__ import annotations

import gc
import os
import sys
import threading
from enum import Flag, auto
from pathlib import Path

import psutil

# What ends by itself (a closing loop's executor, a joined child) is given this long.
GRACE_S = 20.0
FDS = Path("/proc/self/fd")
HOSTED_THREAD = "edged-hosted"


def is_hosting() -> bool:
    """Whether an engine lives in a thread of this process now; see ``engine.py``."""
    return any(thread.name == HOSTED_THREAD for thread in threading.enumerate())


class Kind(Flag):
    THREADS = auto()
    CHILDREN = auto()
    SOCKETS = auto()


EVERYTHING = Kind.THREADS | Kind.CHILDREN | Kind.SOCKETS


class Before:
    """What there was when it was made."""

    def __init__(self) -> None:
        self._threads = set(threading.enumerate())
        self._children = _children()
        self._sockets = _sockets()

    def left(self, kinds: Kind = EVERYTHING) -> list[str]:
        """What there is besides now, a clause each; threads are waited for."""
        left = []
        if Kind.THREADS in kinds:
            left += [f"thread {thread.name}" for thread in _lingering(self._threads)]
        if Kind.CHILDREN in kinds:
            left += [f"process {child}" for child in sorted(_children() - self._children)]
        if Kind.SOCKETS in kinds and _sockets() - self._sockets:
            # A socket in a reference cycle is closed by the collector; that is no leak of ours.
            gc.collect()
            left += [f"socket {name}" for name in sorted(_sockets() - self._sockets)]
        return left


def _lingering(before: set[threading.Thread]) -> list[threading.Thread]:
    """New threads that outlive the grace; foreign daemon threads (of libraries) do not count."""
    ours = [
        thread
        for thread in threading.enumerate()
        if thread not in before and (not thread.daemon or thread.name.startswith("edged"))
    ]
    for thread in ours:
        thread.join(GRACE_S)
    return [thread for thread in ours if thread.is_alive()]


def _children() -> set[str]:
    if sys.platform != "win32":
        try:
            # Cheap, and takes nobody's exit status away; looking through /proc is 100 times dearer.
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return set()
    # What a child has started is that child's to end (an engine's workers, which come and go).
    return {f"{child.pid} {child.name()}" for child in psutil.Process().children()}


def _sockets() -> set[str]:
    if not FDS.is_dir():
        return set()
    found = set()
    for entry in os.listdir(FDS):  # noqa: PTH208 (hot: runs twice a test)
        try:
            target = os.readlink(f"{FDS}/{entry}")  # noqa: PTH115
        except OSError:
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found
