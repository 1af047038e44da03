"""The whole simulated bench: its world, its stations, and what can be done to them at run time.

One simulated instrument at its place on the bench, whatever wire leads to it.

A shell: the wire brings messages, the pure instrument is asked, its answer is delivered as the
faults say (``visit.py``). Several readers do not wait for each other.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

from edged.clock import Clock
from edged.errors import Conflict, ErrorCode, Failed, Invalid, NotFound
from edged.record import record
from edged_sim.faults import FaultBook, FaultKind, WireFault
from edged_sim.models import load_model
from edged_sim.physics import World
from edged_sim.plain import PlainSpec, simulated
from edged_sim.scpi import SimulatedInstrument
from edged_sim.wires.hislip import HislipWire
from edged_sim.wires.prologix import PrologixWire, SimulatedAdapter
from edged_sim.wires.serial import SerialWire
from edged_sim.wires.stream import (
    LOOPBACK,
    ByteLog,
    Host,
    Mouth,
    SimWire,
    SocketWire,
    Visit,
    WireKind,
)
from edged_sim.wires.usbtmc import KernelBus, UsbBus, UsbtmcWire
from edged_sim.wires.vxi11 import Vxi11Wire


class Station:
    """An instrument that can be reached. All methods belong to the bench's event loop."""

    def __init__(
        self,
        instrument: SimulatedInstrument[Any],
        *,
        model: str,
        clock: Clock,
        log: ByteLog,
        make_wire: Callable[[Station], SimWire],
        is_single_session: bool = False,
        profile: str = "",
    ) -> None:
        self.instrument = instrument
        # What its owner would name, where it cannot say what it is.
        self.profile = profile
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
    def message_end(self) -> bytes:
        return self.instrument.dialect.message_end

    @property
    def serial_end(self) -> bytes:
        return self.instrument.dialect.serial_end

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

    async def power_cycle(self) -> None:
        """Switch it off and on: its connections break, and what it does not keep is lost."""
        self.power_off()
        self.instrument.power_cycle(self._clock.monotonic())
        await self.power_on()

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


HIGHEST_PORT: Final = 65_535
MOST_LATENCY_MS: Final = 600_000

_LOOPBACK: Final = re.compile(r"127(?:\.(?:0|[1-9][0-9]{0,2})){3}")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


@record
class Order:
    """One instrument that the bench is to have.

    ``serial`` empty: the next of its model. ``port`` 0: any. ``latency_ms`` None: the model's own.
    ``at``: the loopback address where it listens, as if it were a host of its own. ``profile``:
    what its owner would name; empty: what its model says, if it cannot say what it is.
    ``kept_port``: where it listens, in place of any, if that is free.
    """

    name: str
    model: str
    serial: str = ""
    port: int = 0
    latency_ms: float | None = None
    is_single_session: bool = False
    transport: WireKind = WireKind.SOCKET
    at: str = LOOPBACK
    profile: str = ""
    kept_port: int = 0


async def _open(station: Station, order: Order) -> None:
    if order.kept_port and not order.port:
        with contextlib.suppress(OSError, Invalid):
            await station.open(order.kept_port)
            return
    await station.open(order.port)


class Bench:
    """Stations around one world. All methods belong to one event loop.

    Args:
        usb_bus: where USB devices are plugged in; the machine's own where nobody says.
    """

    def __init__(
        self, *, clock: Clock, log: ByteLog, seed: int = 0, usb_bus: UsbBus | None = None
    ) -> None:
        self.log = log
        self._usb_bus = usb_bus or KernelBus()
        self._clock = clock
        self._seed = seed
        self._world = World()
        self._stations: dict[str, Station] = {}
        # Whatever is put behind a Prologix adapter is put behind this one.
        self._adapter = SimulatedAdapter()
        self._made: dict[str, int] = {}  # units so far of each model, for serial numbers

    async def add(self, order: Order) -> Station:
        """Put an instrument on the bench; it listens when this returns.

        Raises:
            Conflict: the name is taken.
            Invalid: the name is none.
            NotFound: there is no such model.
            Failed: the port cannot be had (BIND_FAILED).
        """
        if not _NAME.fullmatch(order.name):
            raise Invalid(f"{order.name!r} is no name for an instrument of the bench.")
        if not 0 <= order.port <= HIGHEST_PORT:
            raise Invalid(f"Port {order.port} of {order.name} is outside of 0 to {HIGHEST_PORT}.")
        if not _LOOPBACK.fullmatch(order.at):
            raise Invalid(f"{order.name} cannot listen at {order.at!r}, which is no 127.… address.")
        if order.latency_ms is not None and not 0 <= order.latency_ms <= MOST_LATENCY_MS:
            raise Invalid(
                f"A latency of {order.latency_ms} ms for {order.name} is outside of "
                f"0 to {MOST_LATENCY_MS}."
            )
        if order.name in self._stations:
            raise Conflict(f"There is a {order.name} on the bench already.")
        station = self._make(order)
        self._stations[order.name] = station
        try:
            await _open(station, order)
        except Invalid:
            self._forget(order.name)
            raise
        except OSError as error:
            self._forget(order.name)
            raise Failed(
                f"Port {order.port} for {order.name} cannot be had: {error.strerror}.",
                code=ErrorCode.BIND_FAILED,
            ) from error
        return station

    async def remove(self, name: str) -> None:
        """Take an instrument away: its connections end and its port refuses."""
        station = self.station(name)
        self._forget(name)
        await station.close()

    def station(self, name: str) -> Station:
        """The station called ``name``; NotFound names those that there are."""
        try:
            return self._stations[name]
        except KeyError:
            raise NotFound(
                f"There is no {name!r} on the bench.",
                remedy=f"There are {', '.join(self._stations) or 'none'}.",
            ) from None

    def stations(self) -> tuple[Station, ...]:
        """All of them, in the order in which they came."""
        return tuple(self._stations.values())

    def apply(self, name: str, fault: WireFault) -> None:
        """Give an instrument a fault; without a name, each of them."""
        for station in (self.station(name),) if name else self.stations():
            station.faults.add(fault)
            if fault.kind is FaultKind.REFUSE:
                station.power_off(fault.seconds)

    async def clear(self, name: str = "") -> None:
        """End the faults of one instrument, or of all."""
        for station in (self.station(name),) if name else self.stations():
            station.faults.clear()
            await station.power_on()

    def change_load(self, ohms: float) -> None:
        """Put another resistor where the first supply's output goes."""
        self._world.main().advance(self._clock.monotonic())
        self._world.change_load(ohms)

    def connect_transistor(self, gate: str, drain: str) -> None:
        """Put a transistor between the outputs of two instruments: see ``World``.

        Raises:
            NotFound: one is not on the bench.
            Invalid: one has no output, or both are the same.
        """
        self._world.connect_transistor(self.station(gate).name, self.station(drain).name)

    def describe(self) -> dict[str, Any]:
        """Everything as it is now, JSON-ready."""
        now = self._clock.monotonic()
        return {
            "t": now,
            "nodes": self._world.describe(now),
            "instruments": {s.name: _describe(s, now) for s in self.stations()},
        }

    async def stop(self) -> None:
        """Close every station."""
        await asyncio.gather(*(station.close() for station in self.stations()))
        self._stations.clear()

    def _make(self, order: Order) -> Station:
        spec = load_model(order.model)
        made = self._made.get(order.model, 0)
        self._made[order.model] = made + 1
        serial = order.serial or spec.serial.format(number=spec.first_number + made)
        instrument = simulated(
            spec,
            name=order.name,
            serial=serial,
            world=self._world,
            random=Random(f"{self._seed}:{order.name}"),  # noqa: S311 - noise, repeatable
        )
        if order.latency_ms is not None:
            instrument.latency_s = order.latency_ms / 1000
        return Station(
            instrument,
            model=order.model,
            clock=self._clock,
            log=self.log,
            make_wire=lambda host: self._wire(order, host),
            is_single_session=order.is_single_session,
            profile=order.profile or (spec.profile if isinstance(spec, PlainSpec) else ""),
        )

    def _wire(self, order: Order, host: Host) -> SimWire:
        match order.transport:
            case WireKind.SOCKET:
                return SocketWire(host, order.at)
            case WireKind.VXI11:
                return Vxi11Wire(host, order.at)
            case WireKind.HISLIP:
                return HislipWire(host, order.at)
            case WireKind.SERIAL:
                return SerialWire(host)
            case WireKind.PROLOGIX:
                return PrologixWire(host, self._adapter)
            case WireKind.USBTMC:
                return UsbtmcWire(host, self._usb_bus)

    def _forget(self, name: str) -> None:
        del self._stations[name]
        self._world.disconnect(name)


def introduce(station: Station) -> dict[str, str | int]:
    """How a station is told of: in the ready line and over the control port."""
    return {
        "name": station.name,
        "model": station.model,
        "serial": station.instrument.serial,
        "address": station.address,
        "port": station.port,
    }


def _describe(station: Station, now: float) -> Mapping[str, Any]:
    return {
        **introduce(station),
        "profile": station.profile,
        "idn": station.instrument.idn,
        "is_listening": station.is_listening,
        "connections": station.connection_count,
        "errors": station.instrument.status.count(),
        "faults": [
            {"kind": fault.kind.value, "seconds": fault.seconds, "count": fault.count}
            for fault in station.faults.active()
        ],
        "state": station.instrument.state.describe(now),
    }
