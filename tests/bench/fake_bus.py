"""A bus whose devices a test plugs in and out, and a hot-plug monitor that it makes speak.

Implements ``edged.discovery.buses.BusSource``; the listing runs in a real scan thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from edged.clock import Clock
from edged.config.instruments import InstrumentEntry
from edged.discovery.buses import Candidate, Listing
from edged.discovery.hotplug import Picked
from edged.discovery.hotplug_windows import ListThings
from tests.bench.waiting import HANGS_S


class FakeBus:
    def __init__(
        self, name: str = "usb", *, tells_departures: bool = True, is_slow: bool = False
    ) -> None:
        self.name = name
        self.tells_departures = tells_departures
        self.is_slow = is_slow
        self.limit_s = 0.3
        self.looks = 0
        self.failing: Exception | None = None
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.is_hanging = False
        self._devices: dict[str, Candidate] = {}

    def plug(
        self,
        address: str,
        *,
        usb_id: tuple[int, int] | None = None,
        problem: str = "",
        plug: str = "",
        name: str | None = None,
        profile: str | None = None,
        timeout_ms: int | None = 300,
    ) -> None:
        entry = InstrumentEntry(address=address, name=name, profile=profile, timeout_ms=timeout_ms)
        self._devices[address] = Candidate(entry=entry, usb_id=usb_id, problem=problem, plug=plug)

    def unplug(self, address: str) -> None:
        del self._devices[address]

    def list_now(self) -> Listing:
        self.looks += 1
        self.is_hanging = True
        self.may_answer.wait(HANGS_S)
        self.is_hanging = False
        if self.failing is not None:
            raise self.failing
        return Listing(candidates=tuple(self._devices.values()))


class FakeMonitor:
    """Speaks when told to; ``pick`` is what discovery takes as its picker."""

    def __init__(self, error: OSError | None = None) -> None:
        self.error = error
        self.is_running = False
        self._notice: Callable[[str], None] | None = None

    def start(self, notice: Callable[[str], None]) -> None:
        if self.error is not None:
            raise self.error
        self.is_running, self._notice = True, notice

    async def stop(self) -> None:
        self.is_running = False

    def say(self, device: str = "1-1") -> None:
        assert self._notice is not None
        self._notice(device)

    def pick(self, list_things: ListThings, clock: Clock) -> Picked:
        return Picked(monitor=self, name="fake", why="the test says so")
