"""Watches the event loop from a thread of its own: a blocked loop is told with its stack.

A task on the loop could only tell afterwards that it had been late; a thread sees the loop while it
is stuck, and what it is stuck in.

Less of the machine's memory for the same work, mostly by how glibc's allocator is used.

Python keeps small objects in arenas of its own; what is larger, and all of SQLite's, is malloc's.

What an engine loads behind its first tool call: an engine that nobody calls never needs it.

Before the first call nothing runs that could be delayed, and no sooner can arguments be refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import mimetypes
import sys
import threading
import traceback
from typing import Final

import structlog

from edged.clock import Clock
from edged.profiles.arguments import load_authority

EVERY_S: Final = 0.5
LATE_S: Final = 0.05
"""Half of what a stop may take on an idle instrument (docs/promises.md section 13)."""


class LoopWatch:
    """Measures how long the loop takes to answer.

    Attributes:
        worst_lag_s: the longest answer since the start.
        last_lag_s: the latest one.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._log = structlog.get_logger("edged.loop")
        self.worst_lag_s = 0.0
        self.last_lag_s = 0.0

    def start(self) -> None:
        """Begin; call it on the loop that is to be watched."""
        loop, loop_thread = asyncio.get_running_loop(), threading.get_ident()
        self._thread = threading.Thread(
            target=self._watch, args=(loop, loop_thread), name="edged-loop-watch", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End; returns when the thread has."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def status(self) -> dict[str, float]:
        """{last_lag_ms, worst_lag_ms}: for get_status."""
        return {
            "last_lag_ms": round(self.last_lag_s * 1000, 3),
            "worst_lag_ms": round(self.worst_lag_s * 1000, 3),
        }

    def _watch(self, loop: asyncio.AbstractEventLoop, loop_thread: int) -> None:
        while not self._stopping.wait(EVERY_S):
            answered = threading.Event()
            asked = self._clock.monotonic()
            try:
                loop.call_soon_threadsafe(answered.set)
            except RuntimeError:
                return
            stack = "" if answered.wait(LATE_S) else _stack_of(loop_thread)
            while not answered.wait(0.1):
                if self._stopping.is_set():
                    return
            self.last_lag_s = self._clock.monotonic() - asked
            self.worst_lag_s = max(self.worst_lag_s, self.last_lag_s)
            if stack:
                lag_ms = round(self.last_lag_s * 1000)
                self._log.warning("event_loop_blocked", lag_ms=lag_ms, stack=stack)


def _stack_of(thread: int) -> str:
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - the documented way to see another thread
    return "".join(traceback.format_stack(frame, limit=12)) if frame else ""


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


SELDOM: Final = (10_000, 1_000, 1_000)
OFTEN: Final = gc.get_threshold()


def leave_garbage() -> None:
    """Look for it seldom until ``give_back``, and only among what is new.

    Of the processor time of a start, 150 looks at ever more modules take a sixth.
    """
    gc.set_threshold(*SELDOM)


def give_back() -> None:
    """Give what start-up needed and freed back to the system; takes some milliseconds.

    What is left is there for good: looking through it for garbage would hold the loop for 20 ms
    each time, so it is set apart. For a thread: while memory is given back the interpreter's lock
    is free.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*OFTEN)
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)


AFTER_S: Final = 0.1
"""The first call is answered first; an import takes the interpreter's lock in turns with it."""


class LateImports:
    """Loads jsonschema on a thread, once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Somebody calls tools; on the loop."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._load(), name="late imports")

    async def stop(self) -> None:
        """End; an import under way is waited for, which is a fraction of a second."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _load(self) -> None:
        await self._clock.sleep(AFTER_S)
        await asyncio.to_thread(load_authority)
