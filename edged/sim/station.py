"""One pretended instrument at its place on the bench, whatever wire leads to it.

A shell: the wire brings messages, the pure instrument is asked, its answer is delivered as the
faults say (``visit.py``). Several readers do not wait for each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from edged.clock import Clock
from edged.sim.bytelog import ByteLog
from edged.sim.faults import FaultBook
from edged.sim.scpi import PretendedInstrument
from edged.sim.visit import Mouth, Visit
from edged.sim.wire import Wire

__all__ = ["Station"]


class Station:
    """An instrument that can be reached. All methods belong to the bench's event loop."""

    def __init__(
        self,
        instrument: PretendedInstrument[Any],
        *,
        model: str,
        clock: Clock,
        log: ByteLog,
        make_wire: Callable[[Station], Wire],
        is_single_session: bool = False,
    ) -> None:
        self.instrument = instrument
        self.model = model
        self.faults = FaultBook()
        self.is_single_session = is_single_session
        self._clock = clock
        self._log = log
        self._wire = make_wire(self)
        self._visits: set[Visit] = set()
        self._return: asyncio.Task[None] | None = None
        self._opened = 0

    @property
    def name(self) -> str:
        """The instrument's name on the bench."""
        return self.instrument.name

    @property
    def address(self) -> str:
        """The VISA address at which it answers."""
        return self._wire.address

    @property
    def port(self) -> int:
        """Of the TCP port that leads to it; 0 where none does. Known once open."""
        return self._wire.port

    @property
    def is_listening(self) -> bool:
        """Whether new connections are taken."""
        return self._wire.is_listening

    @property
    def connection_count(self) -> int:
        """Connections that are open now."""
        return len(self._visits)

    async def open(self, port: int = 0) -> None:
        """Be reachable; ``port`` 0 is any. Raises OSError where the port is taken."""
        await self._wire.open(port)

    async def power_on(self) -> None:
        """Be reachable again, at the same address."""
        await self._wire.power_on()

    def power_off(self, seconds: float | None = None) -> None:
        """Break every connection and refuse new ones, for a time or until ``power_on``."""
        self._wire.power_off()
        if seconds is not None and self._return is None:
            self._return = asyncio.get_running_loop().create_task(self._come_back(seconds))

    async def close(self) -> None:
        """End everything; the address is free after it."""
        if self._return is not None:
            self._return.cancel()
            await asyncio.gather(self._return, return_exceptions=True)
        await self._wire.close()
        for visit in tuple(self._visits):
            await visit.stop()

    async def say(self, data: bytes) -> None:
        """Send bytes that nobody asked for to every reader."""
        for visit in tuple(self._visits):
            await visit.say(data)

    def join(self, mouth: Mouth) -> Visit | None:
        """A reader has come; None where the instrument takes one at a time and has one."""
        self._opened += 1
        if self.is_single_session and self._visits:
            self._log.record(self.name, self._opened, "refused")
            return None
        visit = Visit(
            self,
            self._opened,
            mouth,
            clock=self._clock,
            log=self._log,
            on_leave=self._visits.discard,
        )
        self._visits.add(visit)
        return visit

    async def _come_back(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._return = None
        self.faults.clear()
        await self.power_on()
