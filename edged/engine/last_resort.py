"""The end of a process that cannot end by itself, because a disk does not answer.

What may hang is a thread in the kernel, and Python's own end waits for some of them. By then the
listeners are closed and what is energised has been made safe (5 s in all): nothing is left that
waiting longer would save, and who works with these instruments next needs them free.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Final

WITHIN_S: Final = 7.0
"""The 5 s that stopping may take, and what a busy machine takes longer. A supervisor kills its
engine after 6 s, systemd its service after 15 s."""


async def end_at_last(
    asked: asyncio.Event,
    status: Callable[[], int],
    *,
    within_s: float = WITHIN_S,
    end: Callable[[int], object] = os._exit,
) -> None:
    """Wait until the process is asked to end; see that it has ended so long after that.

    Args:
        asked: set when it is asked.
        status: its exit status, asked when it has to be ended.
        within_s: how long it may take by itself.
        end: ends it; threads that hang in the kernel keep the process there until they come back.
    """
    await asked.wait()
    # Not on the loop, which may have ended or hang itself.
    timer = threading.Timer(within_s, lambda: end(status()))
    timer.daemon = True
    timer.start()
