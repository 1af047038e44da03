"""When which bus is looked at: by the interval, after something was plugged in, or when asked.

What a look brought is handed to ``loop.py``; nothing here knows of instruments.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog

from edged.clock import Clock
from edged.discovery.buses import BusScanner, BusSource, Listing
from edged.discovery.hotplug import Settling
from edged.log import surviving

SCANS_ASIDE: Final = 10
"""Slow buses are looked at, and what was set aside is asked again, at every tenth scan."""
RELOOKS_S: Final = (0.5, 2.0)
"""After a plug-in that could not be opened yet: udev gives access a moment after the kernel tells,
and a slow device gets its strings late."""

log = structlog.get_logger(__name__)


class ScanSchedule:
    """The buses and the looks at them in flight; lives on the event loop.

    Args:
        take: gets what a look brought.
        has_trouble: whether something that a bus lists could not be reached.
    """

    def __init__(
        self,
        sources: Sequence[BusSource],
        *,
        clock: Clock,
        rescan_interval_s: float,
        take: Callable[[BusSource, Listing], None],
        has_trouble: Callable[[], bool],
    ) -> None:
        self._buses = tuple(BusScanner(source) for source in sources)
        self._clock = clock
        self._rescan_interval_s = rescan_interval_s
        self._take = take
        self._has_trouble = has_trouble
        self._settling = Settling()
        # By bus: at most one that runs and one that waits for its end.
        self._flying: dict[str, list[asyncio.Task[None]]] = {
            bus.source.name: [] for bus in self._buses
        }
        self._scan_due = float("-inf")
        self._again_at: list[float] = []
        self.scans = 0

    def tick(self, now: float) -> None:
        """Begin what is due at this monotonic time."""
        if now >= self._scan_due:
            is_thorough = self.scans % SCANS_ASIDE == 0
            self.scans += 1
            self._scan_due = now + self._rescan_interval_s
            for bus in self._buses:
                if is_thorough or not bus.source.is_slow:
                    self._look_at(bus)
        if self._is_due_after_plug(now):
            for bus in self._pluggable():
                self._look_at(bus)

    def note_plug(self, device: str) -> None:
        """The hot-plug monitor says that something happened to a device."""
        self._settling.note(device, self._clock.monotonic())

    def look_at_all(self) -> list[asyncio.Task[None]]:
        """Looks at every bus that begin from now on."""
        return [self._look_at(bus) for bus in self._buses]

    def flying(self, *, is_quick: bool = False) -> list[asyncio.Task[None]]:
        """Every look in flight, or those at quick buses alone."""
        return [
            task
            for bus in self._buses
            if not (is_quick and bus.source.is_slow)
            for task in self._flying[bus.source.name]
        ]

    async def list_things(self) -> frozenset[str] | None:
        """What is plugged in now, for a monitor that compares lists; ``None`` if nobody knows."""
        things: set[str] = set()
        for bus in self._pluggable():
            listing = await bus.look()
            if not listing.is_complete:
                return None
            things |= {f"{c.entry.address} {c.plug}" for c in listing.candidates}
        return frozenset(things)

    def tells_departure(self, names: set[str]) -> bool:
        """Whether one of these buses tells when something is taken away."""
        return any(bus.source.tells_departures for bus in self._buses if bus.source.name in names)

    def report(self) -> list[dict[str, Any]]:
        """Each bus, what it lists and what there is to say about it."""
        return [
            {"name": bus.source.name, "found": bus.found, "remark": bus.remark}
            for bus in self._buses
        ]

    def _pluggable(self) -> list[BusScanner]:
        return [b for b in self._buses if b.source.tells_departures and not b.source.is_slow]

    def _is_due_after_plug(self, now: float) -> bool:
        if self._settling.take_settled(now):
            self._again_at = [now + delay for delay in RELOOKS_S]
            return True
        if self._again_at and now >= self._again_at[0]:
            del self._again_at[0]
            return self._has_trouble()
        return False

    def _look_at(self, bus: BusScanner) -> asyncio.Task[None]:
        """One that begins from now on: one that runs may have begun before the change."""
        flying = self._flying[bus.source.name]
        if len(flying) < 2:
            task = asyncio.create_task(self._look(bus), name=f"edged-look-{bus.source.name}")
            flying.append(task)
            task.add_done_callback(flying.remove)
        return flying[-1]

    async def _look(self, bus: BusScanner) -> None:
        listing = await bus.look()
        with surviving(log, "listing_not_taken", bus=bus.source.name):
            self._take(bus.source, listing)
