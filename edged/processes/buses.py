"""The buses of this machine, as the configuration wants them looked at."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable
from typing import Any, Final

from edged.clock import Clock
from edged.config import Bus, Config
from edged.config_instruments import InstrumentEntry
from edged.errors import EdgedError
from edged.instruments.address import parse_address
from edged.instruments.discovery import PickMonitor
from edged.instruments.hotplug import pick_monitor
from edged.instruments.lan_source import LanSource
from edged.instruments.serial_source import SerialSource, known_usb_ids
from edged.instruments.sources import Candidate, Listing, Source
from edged.instruments.usb_source import UsbSource
from edged.processes.sim_child import SimChild
from edged.profiles.head import ProfileHead

__all__ = ["SimulatedBus", "make_sources", "monitor_for"]

ANSWER_WITHIN_S: Final = 3.0
LONGEST_ANSWER_BYTES: Final = 64 * 1024 * 1024
LOOPBACK: Final = "127.0.0.1"
GPIB_REMARK: Final = (
    "gpib: a GPIB bus is not searched, because addressing a device that is switched off can hang "
    "the adapter; name its instruments in INSTRUMENTS."
)


def make_sources(
    config: Config, profiles: Iterable[ProfileHead], sim: SimChild | None, clock: Clock
) -> tuple[Source, ...]:
    """What DISCOVERY asks for, and the simulated bench where there is one."""
    sources: list[Source] = [] if sim is None else [SimulatedBus(sim)]
    for bus in config.discovery:
        match bus:
            case Bus.USB:
                sources.append(UsbSource())
            case Bus.SERIAL:
                sources.append(SerialSource(config.serial_ports, known_usb_ids(profiles)))
            case Bus.LAN:
                sources.append(LanSource(clock))
            case Bus.GPIB:
                sources.append(NothingListed("gpib", GPIB_REMARK))
    return tuple(sources)


def monitor_for(config: Config) -> PickMonitor | None:
    """The hot-plug monitor's picker, where something that is looked at can be plugged."""
    is_pluggable = Bus.USB in config.discovery or Bus.SERIAL in config.discovery
    return pick_monitor if is_pluggable else None


class SimulatedBus:
    """The instruments that are on the simulated bench now; see ``Source``.

    They come and go by its control port (``add``, ``remove``).
    """

    name = "simulated"
    is_slow = False
    tells_departures = True
    limit_s = 5.0

    def __init__(self, sim: SimChild) -> None:
        self._sim = sim

    def list_now(self) -> Listing:
        """See ``Source``."""
        state = _ask_control(self._sim.control_port, "state")
        found = [
            Candidate(
                entry=InstrumentEntry(address=entry["address"], name=entry["name"]),
                plug=f"{entry['serial']} {entry['address']}",
            )
            for entry in state["instruments"].values()
            if _is_address(entry["address"])
        ]
        return Listing(candidates=tuple(found))


class NothingListed:
    """A bus that is not searched, and why; see ``Source``."""

    is_slow = True
    tells_departures = False
    limit_s = 1.0

    def __init__(self, name: str, remark: str) -> None:
        self.name = name
        self._remark = remark

    def list_now(self) -> Listing:
        """See ``Source``."""
        return Listing(remark=self._remark)


def _ask_control(port: int, method: str) -> Any:
    """One call of the bench's control port.

    Raises:
        OSError: it does not answer.
        ValueError: what answers is no control port.
    """
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
    with socket.create_connection((LOOPBACK, port), ANSWER_WITHIN_S) as line:
        line.settimeout(ANSWER_WITHIN_S)
        line.sendall(json.dumps(request).encode("ascii") + b"\n")
        with line.makefile("rb") as answers:
            return json.loads(answers.readline(LONGEST_ANSWER_BYTES))["result"]


def _is_address(text: str) -> bool:
    try:
        parse_address(text)
    except EdgedError:
        return False
    return True
