"""What an engine loads behind its first tool call: an engine that nobody calls never needs it.

Before the first call nothing runs that could be delayed, and no sooner can arguments be refused.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from edged.clock import Clock
from edged.profiles.schema import load_authority

__all__ = ["LateImports"]

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
