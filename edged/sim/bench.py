"""The whole simulated bench: its world, its stations, and what can be done to them at run time.

One simulated instrument at its place on the bench, whatever wire leads to it.

A shell: the wire brings messages, the pure instrument is asked, its answer is delivered as the
faults say (``visit.py``). Several readers do not wait for each other.

What two simulated scopes share: probes on nodes, captured traces and what is measured in them.

Pure. Codes, scaling and commands are each model's own affair.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from edged.clock import Clock
from edged.errors import Conflict, ErrorCode, Failed, Invalid, NotFound
from edged.sim.faults import FaultBook, FaultKind, WireFault
from edged.sim.models import load_model
from edged.sim.physics import CALIBRATOR, World
from edged.sim.scpi import SimulatedInstrument
from edged.sim.signals import SILENCE, Wave, sample
from edged.sim.wires.hislip import HislipWire
from edged.sim.wires.prologix import PrologixWire, SimulatedAdapter
from edged.sim.wires.serial import SerialWire
from edged.sim.wires.stream import (
    LOOPBACK,
    ByteLog,
    Host,
    Mouth,
    SimWire,
    SocketWire,
    Visit,
    WireKind,
)
from edged.sim.wires.vxi11 import Vxi11Wire

__all__ = [
    "Bench",
    "Capture",
    "Order",
    "Station",
    "capture",
    "introduce",
    "measure_trace",
    "seen_by",
]


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


HIGHEST_PORT: Final = 65_535
MOST_LATENCY_MS: Final = 600_000

_LOOPBACK: Final = re.compile(r"127(?:\.(?:0|[1-9][0-9]{0,2})){3}")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One instrument that the bench is to have.

    ``serial`` empty: the next of its model. ``port`` 0: any. ``latency_ms`` None: the model's own.
    ``at``: the loopback address where it listens, as if it were a host of its own.
    """

    name: str
    model: str
    serial: str = ""
    port: int = 0
    latency_ms: float | None = None
    is_single_session: bool = False
    transport: WireKind = WireKind.SOCKET
    at: str = LOOPBACK


class Bench:
    """Stations around one world. All methods belong to one event loop."""

    def __init__(self, *, clock: Clock, log: ByteLog, seed: int = 0) -> None:
        self.log = log
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
            await station.open(order.port)
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
        instrument = SimulatedInstrument(
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


NOISE_OF_DIVISION: Final = 0.02
"""The scope's own noise, in divisions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """One channel's trace: each of ``volts`` holds for ``held`` points, and all repeat."""

    volts: Sequence[float]
    held: int
    points: int
    interval_s: float
    start_s: float

    def spread(self, codes: bytes, first: int, count: int) -> bytes:
        """``count`` codes from point ``first`` (from 0) on; ``codes`` has one for each volt."""
        tile = bytearray(len(codes) * self.held)
        for place in range(self.held):
            tile[place :: self.held] = codes
        begin = first % len(tile)
        repeats = -(-(begin + count) // len(tile))
        return bytes(tile * repeats)[begin : begin + count]

    def measure(self, item: str) -> float | None:
        """See ``measure_trace``; where the values repeat, edges are counted over the seam."""
        repeats = 3 if len(self.volts) * self.held < self.points else 1
        return measure_trace(list(self.volts) * repeats, self.interval_s * self.held, item)


def seen_by(world: World, channel: int, now: float) -> Wave:
    """The signal at the probe of ``channel``: the main node, the generator's, or nothing."""
    if channel == 1:
        return world.main().advance(now).seen_by_scope()
    if channel == 2:
        node = world.signal()
        return CALIBRATOR if node is None else node.advance(now).seen_by_scope()
    return SILENCE


def capture(
    wave: Wave,
    *,
    points: int,
    interval_s: float,
    start_s: float,
    division_v: float,
    random: Random,
) -> Capture:
    """Sample ``wave`` with the scope's noise; at time 0 the wave is at its rising edge."""
    volts, held = sample(
        wave,
        points=points,
        interval_s=interval_s,
        start_s=start_s,
        noise_v=division_v * NOISE_OF_DIVISION,
        random=random,
    )
    return Capture(volts=volts, held=held, points=points, interval_s=interval_s, start_s=start_s)


def measure_trace(volts: Sequence[float], interval_s: float, item: str) -> float | None:
    """``max, min, pp, mean, rms, freq, period, duty`` of a trace; None where it has no such thing.

    A frequency needs two rising edges through the middle that are clearer than the noise.
    """
    highest, lowest = max(volts), min(volts)
    match item:
        case "max":
            return highest
        case "min":
            return lowest
        case "pp":
            return highest - lowest
        case "mean":
            return math.fsum(volts) / len(volts)
        case "rms":
            return math.sqrt(math.fsum(volt * volt for volt in volts) / len(volts))
    edges = _rising_edges(volts, highest, lowest)
    if len(edges) < 2:
        return None
    period_s = (edges[-1] - edges[0]) / (len(edges) - 1) * interval_s
    if item == "duty":
        middle = (highest + lowest) / 2
        whole = volts[edges[0] : edges[-1]]
        return 100 * sum(volt > middle for volt in whole) / len(whole)
    return 1 / period_s if item == "freq" else period_s


def _rising_edges(volts: Sequence[float], highest: float, lowest: float) -> list[int]:
    quarter = (highest - lowest) / 4
    low, high = lowest + quarter, highest - quarter
    edges: list[int] = []
    is_low = False
    for index, volt in enumerate(volts):
        if volt < low:
            is_low = True
        elif volt > high and is_low:
            is_low = False
            edges.append(index)
    return edges
