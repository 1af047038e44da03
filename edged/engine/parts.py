"""What is kept in SQLite, put together: one database, its five books, and the record over them.

The SDK wrappers put together: their registry, and what other parts ask of it.

The buses of this machine, as the configuration wants them looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from edged import __version__
from edged.actions.action import Action
from edged.clock import Clock
from edged.commands.audit_record import AuditRecord
from edged.commands.operation import Operation
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
from edged.errors import EdgedError, NotFound
from edged.instruments.instrument import Instrument
from edged.instruments.pool import Arrived, Changed, Event, InstrumentPool
from edged.operations.wrappers import NamesOf, WrapperOperations, wrapper_capabilities
from edged.profiles.model import ProfileHead
from edged.runs.recordings.meta import clock_state
from edged.runs.stop_all import WrapperAbort
from edged.runs.units import unit_of_instrument, unit_of_wrapper
from edged.sdk.registry import WrapperRegistry
from edged.sdk.specs import WrapperSpec, wrapper_id
from edged.store.approvals import SpentStates
from edged.store.audit.book import Audit, Retention
from edged.store.budgets import BudgetRows
from edged.store.database import Database
from edged.store.dead_man import ArmedUnits
from edged.store.experience import CapabilityBook, CommandKnowledge
from edged.store.interlocks import TripRows
from edged.store.journal import Journal
from edged.store.leases import LeaseRows
from edged.store.lockouts import Lockout, Lockouts
from edged.store.told_on import ToldOn
from edged.transports.address import parse_address

DATABASE_FILE: Final = "edged.db"
TIME_SERVICES: Final = (Path("/run/systemd/timesync"), Path("/run/chrony"), Path("/run/ntpd.pid"))
"""Signs of a service that keeps the clock. The kernel alone calls a clock that nobody keeps and one
that nobody has set yet the same."""


IsOff = Callable[[Instrument, Collection[str]], bool]


class Stores:
    """The database of one engine and everything that is kept in it.

    Args:
        state_dir: STATE_DIR.
        retention_days: AUDIT_RETENTION_DAYS.
        clock: for the times of rows.
    """

    def __init__(self, *, state_dir: Path, retention_days: int, clock: Clock) -> None:
        self._clock = clock
        self.database = Database(path=state_dir / DATABASE_FILE, clock=clock)
        self.audit = Audit(database=self.database, clock=clock)
        self.capability = CapabilityBook(database=self.database, clock=clock)
        self.journal = Journal(database=self.database, clock=clock)
        self.lockouts = Lockouts(database=self.database, clock=clock)
        self.leases = LeaseRows(database=self.database)
        self.spent_states = SpentStates(database=self.database)
        self.trips = TripRows(database=self.database)
        self.budgets = BudgetRows(database=self.database)
        self.told_on = ToldOn(database=self.database, clock=clock)
        self.armed = ArmedUnits(database=self.database)
        self._retention = Retention(
            audit=self.audit, clock=clock, days=retention_days, is_synchronized=_is_synchronized
        )
        self._pool: InstrumentPool | None = None
        self.record = AuditRecord(
            audit=self.audit, capability=self.capability, clock=clock, id_of=self._id_of
        )

    async def start(self, parts: contextlib.AsyncExitStack) -> None:
        """Open the database; ``parts`` gets what closes it.

        Raises:
            Failed: STORE_FAILED, the database was written by a newer edged. One that is full,
                read-only or damaged stops nothing: see ``status``.
        """
        await self.database.start()
        parts.push_async_callback(self.database.stop)
        self.audit.event("engine.started", f"edged {__version__}")
        retiring = asyncio.create_task(self._retention.keep(), name="audit-retention")
        parts.callback(retiring.cancel)

    def watch(self, pool: InstrumentPool) -> None:
        """Remember the firmware of whoever arrives: what was learnt of another no longer holds."""
        self._pool = pool
        pool.subscribe(self._hear)

    def _hear(self, event: Event) -> None:
        if isinstance(event, Arrived | Changed):
            self.capability.seen(unit_of_instrument(event.instrument))

    def _id_of(self, name: str) -> str:
        try:
            return self._pool.get(name).id if self._pool else name
        except NotFound:
            return name

    def told_on_now(self, is_off: IsOff) -> list[dict[str, Any]]:
        """``ToldOn.told``, each unit under the id by which it is met now.

        Args:
            is_off: whether outputs are known to be off by what was sent or answered since; listed
                as ``off``. Until an answer of a stop or a check says so they stay marked.
        """
        told = self.told_on.told()
        known = self._pool.known() if told and self._pool else ()
        for unit, entry in told.items():
            met = [one for one in known if unit_of_instrument(one).key == unit]
            # Of two that tell one serial number nobody knows which of them was told.
            asked = entry["outputs"] if len(met) == 1 else ()
            entry["off"] = [output for output in asked if is_off(met[0], [output])]
            if met:
                entry["instrument_id"] = met[-1].id
        return list(told.values())

    def left_on(self, is_off: IsOff) -> list[str]:
        """What may be on, a clause for each unit: "psu1 (CH1, CH2)"."""
        known = {one.id: one.called for one in self._pool.known()} if self._pool else {}
        found = []
        for unit in self.told_on_now(is_off):
            on = ["any output (state unknown)" if one == "*" else one
                  for one in unit["outputs"] if one not in unit["off"]]  # fmt: skip
            if on:
                found.append(f"{known.get(unit['instrument_id'], unit['instrument_id'])} "
                             f"({', '.join(on)})")  # fmt: skip
        return found

    def lockout_of(self, instrument: Instrument) -> Lockout | None:
        """The lockout of an instrument, under whatever address it answers."""
        if not self.lockouts.locked:
            return None
        return self.lockouts.find(instrument.id, unit_of_instrument(instrument).key)

    def experience_of(self, instrument: Instrument) -> Mapping[str, CommandKnowledge]:
        """What has been learnt of an instrument's commands, by their names."""
        return self.capability.of(unit_of_instrument(instrument))

    def experience_of_wrapper(self, spec: WrapperSpec) -> Mapping[str, CommandKnowledge]:
        """The same of an SDK wrapper's tools."""
        return self.capability.of(unit_of_wrapper(spec))

    def status(self) -> dict[str, Any]:
        """Health of the database and how far the audit is behind, for get_status."""
        health = self.database.health
        return {
            "state": health.state.value,
            "reason": health.reason,
            "remedy": health.remedy,
            "since_ms": health.since_ms,
            "rows_waiting": self.audit.waiting,
            "rows_lost": self.audit.lost,
            "loss": self.audit.loss,
            "retention_waits": self._retention.waits,
        }


def _is_synchronized() -> bool | None:
    """Whether a time service keeps this machine's clock right; None where nobody tells."""
    told: bool | None = clock_state()["is_synchronized"]
    return None if not told and not any(map(Path.exists, TIME_SERVICES)) else told


class SdkParts:
    """The wrappers of one engine.

    Args:
        profile_keys: which no wrapper may be called.
        stores: knows what was learnt of their tools.
    """

    def __init__(
        self, config: Config, *, profile_keys: Collection[str], stores: Stores, clock: Clock
    ) -> None:
        self._stores = stores
        self._clock = clock
        self.registry = WrapperRegistry(
            directories=config.sdk_wrapper_dirs,
            taken=profile_keys,
            memory_mb=config.sdk_memory_mb,
            libraries=config.sdk_libraries,
            settings=config.sdk_settings,
            variables=config.sdk_environment,
            clock=clock,
            shipped=this_machine().sdk_wrapper_dirs[0],
        )

    def start(self, parts: contextlib.AsyncExitStack) -> None:
        """Start the workers; ``parts`` gets what ends them."""
        parts.push_async_callback(self.registry.stop)
        self.registry.start()

    def operations(self) -> dict[type[Action], Operation]:
        """What can be asked of them."""
        return WrapperOperations(registry=self.registry, clock=self._clock).table()

    def find_spec(self, stem: str, name: str) -> WrapperSpec:
        """One tool of one wrapper; raises NotFound."""
        return self.registry.find(stem, name)[1]

    def capabilities(self, names_of: NamesOf) -> list[dict[str, Any]]:
        """Their part of get_capabilities."""
        return wrapper_capabilities(self.registry, self._stores.experience_of_wrapper, names_of)

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
