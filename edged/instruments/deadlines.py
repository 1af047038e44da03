"""When the time of a line's jobs is over: one timer for all of them.

A timer for each job costs more than the rest of handing it over, and nearly none ever rings. This
one is left standing when jobs are done in time, and looks for the next of them when it rings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from edged.instruments.mailbox import Job

__all__ = ["Deadlines"]


class Deadlines:
    """The jobs that somebody waits for; used on the event loop only.

    Args:
        expire: called once with each job whose time is over before it was discarded.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, expire: Callable[[Job], None]) -> None:
        self._loop = loop
        self._expire = expire
        # When on the loop's scale, in the order of coming.
        self._jobs: dict[Job, float] = {}
        self._alarm: asyncio.TimerHandle | None = None

    def add(self, job: Job, timeout_s: float) -> None:
        """Its time is over so much from now."""
        at = self._jobs[job] = self._loop.time() + timeout_s
        if self._alarm is None or at < self._alarm.when():
            self._set(at)

    def discard(self, job: Job) -> None:
        """It is done, or nobody waits for it any more."""
        self._jobs.pop(job, None)

    def _set(self, at: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        now = self._loop.time()
        for job in [job for job, at in self._jobs.items() if at <= now]:
            del self._jobs[job]
            self._expire(job)
        if self._jobs and self._alarm is None:
            self._set(min(self._jobs.values()))
