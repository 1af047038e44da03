"""When the time of what somebody waits for is over: one timer for all of it.

A timer for each job of a line costs more than the rest of handing it over, and nearly none ever
rings. This one is left standing when jobs are done in time, and looks for the next of them when it
rings.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Deadlines(Generic[T]):
    """What somebody waits for; used on the event loop only.

    Args:
        expire: called once with each of them whose time is over before it was discarded.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, expire: Callable[[T], None]) -> None:
        self._loop = loop
        self._expire = expire
        # When on the loop's scale, in the order of coming.
        self._jobs: dict[T, float] = {}
        self._alarm: asyncio.TimerHandle | None = None
        # When that rings.
        self._rings_at = math.inf

    def add(self, job: T, timeout_s: float) -> None:
        """Its time is over so much from now, whatever was said of it before."""
        at = self._jobs[job] = self._loop.time() + timeout_s
        if at < self._rings_at:
            self._set(at)

    def discard(self, job: T) -> None:
        """It is done, or nobody waits for it any more."""
        self._jobs.pop(job, None)

    def _set(self, at: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._rings_at = at
        self._alarm = self._loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._alarm, self._rings_at = None, math.inf
        now = self._loop.time()
        for job in [job for job, at in self._jobs.items() if at <= now]:
            del self._jobs[job]
            self._expire(job)
        if self._jobs and self._alarm is None:
            self._set(min(self._jobs.values()))
