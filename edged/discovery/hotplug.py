"""Hot-plug: "something was plugged in or taken away, look again", from whatever this machine has.

A monitor only says that something changed, and where; who is there, the buses tell. A device makes
a burst of events while it settles (interfaces, drivers, nodes), so each is waited for by itself:
one that chatters delays no other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from edged.clock import Clock
from edged.discovery.hotplug_windows import ListMonitor, ListThings
from edged.record import record

QUIET_S: Final = 0.15
"""A device without a further event for so long has settled."""
LONGEST_S: Final = 0.6
"""A device that goes on chattering is looked at after so long all the same."""
MOST_DEVICES: Final = 256

log = structlog.get_logger(__name__)

Notice = Callable[[str], None]


class Monitor(Protocol):
    """Tells of changes; lives on the event loop."""

    def start(self, notice: Notice) -> None:
        """Begin; ``notice`` is called on the loop with the device, whatever happened to it.

        Raises:
            OSError: this machine does not tell.
        """
        ...

    async def stop(self) -> None:
        """End; may be called twice, and without ``start``."""
        ...


@record
class Picked:
    """The monitor of this machine; ``name`` and ``why`` are for people."""

    monitor: Monitor
    name: str
    why: str


def pick_monitor(list_things: ListThings, clock: Clock, platform: str = sys.platform) -> Picked:
    """The kernel's own monitor where there is one; comparing lists elsewhere.

    Args:
        list_things: what is plugged in now, for the comparison; runs in a thread.
    """
    if platform == "linux":
        from edged.discovery.hotplug_linux import KernelMonitor

        return Picked(
            monitor=KernelMonitor(), name="kernel", why="Linux tells of each device by netlink."
        )
    return Picked(
        monitor=ListMonitor(list_things, clock),
        name="lists",
        why=f"{platform} is asked for its USB and serial lists every 2 s.",
    )


def start_monitor(picked: Picked, notice: Notice, list_things: ListThings, clock: Clock) -> Picked:
    """Start it, or fall back to comparing lists and say so; gives the one that runs."""
    try:
        picked.monitor.start(notice)
    except OSError as error:
        why = f"The {picked.name} monitor cannot be had ({error}); lists are compared every 2 s."
        log.warning("hotplug_fell_back", reason=str(error))
        picked = Picked(monitor=ListMonitor(list_things, clock), name="lists", why=why)
        picked.monitor.start(notice)
    log.info("hotplug_monitor", monitor=picked.name, why=picked.why)
    return picked


class Settling:
    """Which devices have settled since the last look. Pure; times are monotonic seconds."""

    def __init__(self) -> None:
        # Device → first and last event since it was last looked at.
        self._devices: dict[str, tuple[float, float]] = {}

    def note(self, device: str, now: float) -> None:
        """An event came from this device."""
        if device not in self._devices and len(self._devices) >= MOST_DEVICES:
            return  # A look is due anyway, and sees all of them.
        first, _ = self._devices.get(device, (now, now))
        self._devices[device] = (first, now)

    def take_settled(self, now: float) -> bool:
        """Whether some device has settled; it is forgotten with that."""
        settled = [
            device
            for device, (first, last) in self._devices.items()
            if now - last >= QUIET_S or now - first >= LONGEST_S
        ]
        for device in settled:
            del self._devices[device]
        return bool(settled)
