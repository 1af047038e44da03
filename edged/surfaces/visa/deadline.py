"""A deadline that each question sets anew, and that is mostly taken back before it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["Deadline"]


class Deadline:
    """Calls back on the loop once its time has come, unless it was taken back or set anew.

    The loop is asked to wake it once for many questions: a timer for each of them, armed and
    cancelled, is a twentieth of what a question costs.

    Args:
        then: what to call.
    """

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then
        self._due_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self, after_s: float) -> None:
        """Let it come after so many seconds from now, and no other time."""
        loop = asyncio.get_running_loop()
        due_s = self._due_s = loop.time() + after_s
        timer = self._timer
        if timer is None or timer.when() > due_s:
            if timer is not None:
                timer.cancel()
            self._timer = loop.call_at(due_s, self._look, loop)

    def clear(self) -> None:
        """Take it back."""
        self._due_s = None

    def close(self) -> None:
        """Take it back, and let go of the loop."""
        self._due_s = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        due_s = self._due_s
        if due_s is None:
            return
        if due_s > loop.time():
            self._timer = loop.call_at(due_s, self._look, loop)
        else:
            self._due_s = None
            self._then()
