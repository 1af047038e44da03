"""Where no kernel tells of devices: the USB and serial lists are compared every two seconds.

Windows' own notifications need a window and a message loop; two lists cost a few milliseconds. It
is also what the other platforms fall back to.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from edged.clock import Clock

EVERY_S: Final = 2.0

ListThings = Callable[[], Awaitable[frozenset[str] | None]]
"""What is plugged in, one text for each thing; ``None`` where a list could not be had."""


class ListMonitor:
    """See ``hotplug.Monitor``."""

    def __init__(self, list_things: ListThings, clock: Clock) -> None:
        self._list_things = list_things
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    def start(self, notice: Callable[[str], None]) -> None:
        self._task = asyncio.create_task(self._run(notice), name="edged-hotplug")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _run(self, notice: Callable[[str], None]) -> None:
        known = await self._list_things()
        while True:
            await self._clock.sleep(EVERY_S)
            now = await self._list_things()
            if now is None:
                continue
            for thing in sorted((known or frozenset()) ^ now):
                notice(thing)
            known = now
