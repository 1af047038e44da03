"""A listener that may not get its port at the start: everything else starts, and it tries again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from edged.clock import Clock
from edged.errors import Failed

SOON_S: Final = 1.0
SOON_FOR_S: Final = 60.0


class PortBinding:
    """Binds one listener.

    Args:
        name: what the port is called in the log: ``mcp``.
        bind: binds; raises Failed.
        port: tells the port, once it is bound.
        again_s: how long to wait after a failure, once it was tried each second for a minute.
        clock: for that.

    Attributes:
        error: why it is not bound; empty when it is, or was not to be yet.
    """

    def __init__(
        self,
        name: str,
        *,
        bind: Callable[[], Awaitable[None]],
        port: Callable[[], int],
        again_s: float,
        clock: Clock,
    ) -> None:
        self._name = name
        self._bind = bind
        self._port = port
        self._again_s = again_s
        self._clock = clock
        self._log = structlog.get_logger("edged.engine")
        self._trying: asyncio.Task[None] | None = None
        self.error = ""

    async def start(self, bound: Callable[[], None]) -> None:
        """Bind now, or warn once and bind later.

        Args:
            bound: is called when it was bound later.
        """
        try:
            await self._bind()
        except Failed as unbound:
            self.error = unbound.message
            event = f"{self._name}_not_listening"
            self._log.warning(event, reason=unbound.message, remedy=unbound.remedy)
            self._trying = asyncio.create_task(self._try_again(bound), name=f"{self._name} bind")

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
        soon_until_s = self._clock.monotonic() + SOON_FOR_S
        while self.error:
            is_soon = self._clock.monotonic() < soon_until_s
            await self._clock.sleep(min(SOON_S, self._again_s) if is_soon else self._again_s)
            try:
                await self._bind()
            except Failed as unbound:
                self.error = unbound.message
            else:
                self.error = ""
        event = f"{self._name}_listening"
        self._log.info(event, port=self._port())
        bound()
