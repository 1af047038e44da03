"""A listener that may not get its port at the start: everything else starts, and it tries again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from edged.clock import Clock
from edged.errors import Failed
from edged.record import part

log = structlog.get_logger("edged.engine")

SOON_S: Final = 1.0
SOON_FOR_S: Final = 60.0


@part
class PortBinding:
    """Binds one listener.

    Attributes:
        name: what the port is called in the log: ``mcp``.
        bind: binds; raises Failed.
        port: tells the port, once it is bound.
        again_s: how long to wait after a failure, once it was tried each second for a minute.
        clock: for that.
        error: why it is not bound; empty when it is, or was not to be yet.
    """

    name: str
    bind: Callable[[], Awaitable[None]]
    port: Callable[[], int]
    again_s: float
    clock: Clock
    _trying: asyncio.Task[None] | None = None
    error: str = ""

    async def start(self, bound: Callable[[], None]) -> None:
        """Bind now, or warn once and bind later.

        Args:
            bound: is called when it was bound later.
        """
        try:
            await self.bind()
        except Failed as unbound:
            self.error = unbound.message
            event = f"{self.name}_not_listening"
            log.warning(event, reason=unbound.message, remedy=unbound.remedy)
            self._trying = asyncio.create_task(self._try_again(bound), name=f"{self.name} bind")

    def give_up(self) -> None:
        """Try no more."""
        if self._trying is not None:
            self._trying.cancel()

    async def stop(self) -> None:
        """Try no more, and have ended."""
        self.give_up()
        if self._trying is not None:
            await asyncio.gather(self._trying, return_exceptions=True)

    async def _try_again(self, bound: Callable[[], None]) -> None:
        # After a crash the port is held for a moment by what the former engine has left.
        soon_until_s = self.clock.monotonic() + SOON_FOR_S
        while self.error:
            is_soon = self.clock.monotonic() < soon_until_s
            await self.clock.sleep(min(SOON_S, self.again_s) if is_soon else self.again_s)
            try:
                await self.bind()
            except Failed as unbound:
                self.error = unbound.message
            else:
                self.error = ""
        event = f"{self.name}_listening"
        log.info(event, port=self.port())
        bound()
