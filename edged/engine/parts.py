"""The SDK wrappers put together: their registry, and what other parts ask of it.

The buses of this machine, as the configuration wants them looked at.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from edged.clock import Clock
from edged.commands.operation import Rows
from edged.config.instruments import InstrumentEntry
from edged.config.keys import Bus
from edged.config.load import Config, this_machine
from edged.discovery.buses import BusSource, Candidate, Listing
from edged.discovery.hotplug import pick_monitor
from edged.discovery.lan import LanSource
from edged.discovery.loop import PickMonitor
from edged.discovery.serial import SerialSource, known_usb_ids
from edged.discovery.usb import UsbSource
from edged.engine.sim_child import SimChild
from edged.errors import EdgedError
from edged.operations.wrappers import NamesOf, WrapperOperations, wrapper_capabilities
from edged.profiles.model import ProfileHead
from edged.runs.bench import Bench
from edged.runs.stop_all import WrapperAbort
from edged.sdk.registry import WrapperRegistry
from edged.sdk.specs import WrapperSpec, wrapper_id
from edged.transports.address import parse_address


class SdkParts:
    """The wrappers of one engine.

    Args:
        profile_keys: which no wrapper may be called.
    """

    def __init__(self, bench: Bench, *, profile_keys: Collection[str]) -> None:
        config = bench.config
        self._bench = bench
        self.registry = WrapperRegistry(
            directories=config.sdk_wrapper_dirs,
            taken=profile_keys,
            memory_mb=config.sdk_memory_mb,
            libraries=config.sdk_libraries,
            settings=config.sdk_settings,
            variables=config.sdk_environment,
            clock=bench.clock,
            shipped=this_machine().sdk_wrapper_dirs[0],
        )

    def start(self, parts: contextlib.AsyncExitStack) -> None:
        """Start the workers; ``parts`` gets what ends them."""
        parts.push_async_callback(self.registry.stop)
        self.registry.start()

    def operations(self) -> Rows:
        """What can be asked of them."""
        return WrapperOperations(registry=self.registry, clock=self._bench.clock).table()

    def find_spec(self, stem: str, name: str) -> WrapperSpec:
        """One tool of one wrapper; raises NotFound."""
        return self.registry.find(stem, name)[1]

    def capabilities(self, names_of: NamesOf) -> list[dict[str, Any]]:
        """Their part of get_capabilities."""
        return wrapper_capabilities(
            self.registry, self._bench.store.experience_of_wrapper, names_of
        )

    def wrapper_ids(self) -> frozenset[str]:
        """What they are called as instruments."""
        return frozenset(wrapper_id(executor.stem) for executor in self.registry.offered())

    def aborts(self) -> list[WrapperAbort]:
        """What stop all runs."""
        return [
            WrapperAbort(
                wrapper=executor.stem, spec_name=spec.name, is_expected=executor.has_answered
            )
            for executor, spec in self.registry.aborts()
        ]

    def is_wrapper(self, name: str) -> bool:
        """Whether this is a wrapper's id."""
        return self.registry.known(name) is not None

    async def stop_calls_on(self, name: str) -> list[str]:
        """For a lockout; returns the tools whose calls were ended."""
        executor = self.registry.known(name)
        return executor.stop_calls() if executor is not None else []


ANSWER_WITHIN_S: Final = 3.0
LONGEST_ANSWER_BYTES: Final = 64 * 1024 * 1024
LOOPBACK: Final = "127.0.0.1"
GPIB_REMARK: Final = (
    "gpib: a GPIB bus is not searched, because addressing a device that is switched off can hang "
    "the adapter; name its instruments in INSTRUMENTS."
)


def make_sources(
    config: Config, profiles: Iterable[ProfileHead], sim: SimChild | None, clock: Clock
) -> tuple[BusSource, ...]:
    """What DISCOVERY asks for, and the simulated bench where there is one."""
    sources: list[BusSource] = [] if sim is None else [SimulatedBus(sim)]
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


NO_PARITY: Final[Mapping[str, Any]] = {"data_bits": 8, "parity": "none", "flow": "none"}
"""A simulated serial port is a pseudo-terminal, which has no others."""


class SimulatedBus:
    """The instruments that are on the simulated bench now; see ``BusSource``.

    They come and go by its control port (``add``, ``remove``).
    """

    name = "simulated"
    is_slow = False
    tells_departures = True
    limit_s = 5.0

    def __init__(self, sim: SimChild) -> None:
        self._sim = sim

    def list_now(self) -> Listing:
        state = _ask_control(self._sim.control_port, "state")
        found = [
            Candidate(
                # Nobody works at a front panel here that a heartbeat could disturb.
                entry=InstrumentEntry(
                    address=entry["address"],
                    name=entry["name"],
                    heartbeat=True,
                    profile=entry["profile"] or None,
                    **(NO_PARITY if entry["address"].startswith("ASRL") else {}),
                ),
                plug=f"{entry['serial']} {entry['address']}",
            )
            for entry in state["instruments"].values()
            if _is_address(entry["address"])
        ]
        return Listing(candidates=tuple(found))


class NothingListed:
    """A bus that is not searched, and why; see ``BusSource``."""

    is_slow = True
    tells_departures = False
    limit_s = 1.0

    def __init__(self, name: str, remark: str) -> None:
        self.name = name
        self._remark = remark

    def list_now(self) -> Listing:
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
