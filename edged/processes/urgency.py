"""A new engine goes before other programs until it has seen to what the last one left.

On a machine that is busy with something else it would share the processor like everybody, while an
output that nobody watches stays on. The system may refuse (no privilege, no LimitNICE): then it
waits its turn. Nothing of this outside of Linux.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Final

__all__ = ["calm", "hurry"]

STEPS: Final = 10
"""Of niceness: about nine tenths of a processor that one other program wants, too."""


def hurry(pid: int) -> None:
    """Put a program that was just started before others, if the system allows it."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid) - STEPS)


def calm() -> None:
    """Share with others again, as whoever started us does."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            wanted = os.getpriority(os.PRIO_PROCESS, os.getppid())
            os.setpriority(os.PRIO_PROCESS, 0, wanted)
