"""One simulated instrument behind each kind of wire, and a caller on a real line to it.

Everything runs on the test's event loop but for the line's own thread. A network transport goes
through a ``FaultProxy``; a serial port is a pty; USBTMC is ``usb_backend``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Generator
from dataclasses import dataclass, field

from edged.clock import SystemClock
from edged.instruments import dialogue
from edged.instruments.actor import Actor
from edged.instruments.conversation import (
    Ask,
    AskBlock,
    Conversation,
    Reply,
    lines_conversation,
)
from edged.instruments.in_step import Habits
from edged.instruments.line import BoundInstrument, LineReport
from edged.instruments.mailbox import Priority
from edged.profiles.match import parse_idn
from edged.profiles.model import Connection
from edged.transports.address import parse_address
from edged.transports.visa import VisaLibrary
from edged_sim.bench import Bench, Order, Station
from edged_sim.faults import FaultKind, WireFault
from edged_sim.wires.stream import ByteLog, WireKind
from tests.bench.fault_proxy import FaultProxy
from tests.bench.waiting import HANGS_S

NETWORK = (WireKind.SOCKET, WireKind.VXI11, WireKind.HISLIP)
SIMULATED = (*NETWORK, WireKind.SERIAL, WireKind.PROLOGIX)


@dataclass
class Line:
    """Talks to one instrument as its known unit."""

    actor: Actor
    reports: list[LineReport] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(
        self,
        question: str,
        *,
        answer_s: float | None = None,
        timeout_s: float = 8.0,
        priority: Priority = Priority.COMMAND,
    ) -> str:
        def talk() -> Conversation[str]:
            answer = yield Ask(question, answer_s)
            return str(answer)

        return await self.actor.converse(
            talk, unit=1, priority=priority, timeout_s=timeout_s, name=question
        )

    async def echo(self, nonce: object, **options: float) -> str:
        return await self.ask(f'DIAG:ECHO? "{nonce}"', **options)  # type: ignore[arg-type]

    async def make_safe(self, *lines: str, timeout_s: float = 8.0) -> None:
        def talk() -> Conversation[Reply]:
            return lines_conversation(lines, Connection())

        await self.actor.converse(
            talk, unit=1, priority=Priority.SAFE, timeout_s=timeout_s, name="safe"
        )

    async def fetch(
        self, question: str, answer_s: float | None = None, timeout_s: float = 30.0
    ) -> bytes:
        def talk() -> Conversation[bytes]:
            data = yield AskBlock(question, timeout_s=answer_s)
            assert isinstance(data, bytes | bytearray)
            return bytes(data)

        return await self.actor.converse(
            talk, unit=1, priority=Priority.MEASURE, timeout_s=timeout_s, name=question
        )


class Lines:
    """Opens lines, and ends them."""

    def __init__(self) -> None:
        self.visa = VisaLibrary(clock=SystemClock())
        self.actors: list[Actor] = []

    def open(self, address: str, idn: str, connection: Connection | None = None) -> Line:
        def hear(_actor: Actor, report: LineReport) -> None:
            line.reports.append(report)
            line.news.set()

        actor = Actor(
            address=parse_address(address),
            link=self.visa.open_link(address),
            clock=SystemClock(),
            is_same_unit=lambda one, other: parse_idn(one) == parse_idn(other),
            report=hear,
        )
        line = Line(actor)
        self.actors.append(actor)
        actor.start()
        habits = Habits(quiet_s=dialogue.QUIET_S)
        connection = connection or Connection()
        actor.settle(BoundInstrument(number=1, idn=idn, connection=connection, habits=habits))
        return line

    async def close(self) -> None:
        await asyncio.gather(*(actor.stop(2.0) for actor in self.actors))
        self.visa.close()


@dataclass
class Wired:
    """An instrument of the bench, the wire to it, and (on a network) the proxy in between."""

    bench: Bench
    station: Station
    address: str
    proxy: FaultProxy | None
    log: ByteLog
    # message → what is answered to it, line end included, before the model is asked
    special: dict[bytes, bytes] = field(default_factory=dict)
    late_s: float = 0.0

    def __post_init__(self) -> None:
        instrument = self.station.instrument
        execute = instrument.execute

        def answer(message: bytes, now: float) -> Generator[float, float, bytes | None]:
            if message in self.special:
                if self.late_s:
                    yield self.late_s
                return self.special[message]
            return (yield from execute(message, now))

        instrument.execute = answer  # type: ignore[method-assign]

    @property
    def idn(self) -> str:
        return self.station.instrument.idn

    def fault(
        self, kind: FaultKind, *, seconds: float | None = None, count: int | None = 1
    ) -> None:
        self.bench.apply(self.station.name, WireFault(kind=kind, seconds=seconds, count=count))

    async def clear(self) -> None:
        await self.bench.clear(self.station.name)

    def received(self) -> list[str]:
        entries = self.log.entries(instrument=self.station.name)
        text = b"".join(entry.data for entry in entries if entry.direction == "in")
        return [line for line in text.decode("latin-1").splitlines() if line]

    async def heard(self, line: str, times: int = 1, within_s: float = HANGS_S) -> None:
        """Wait until a line has reached the instrument."""
        async with asyncio.timeout(within_s):
            while self.received().count(line) < times:
                await asyncio.sleep(0.002)


@contextlib.asynccontextmanager
async def wired(kind: WireKind, *names: str, model: str = "generic_scpi") -> AsyncIterator[Wired]:
    """One instrument (or several behind one adapter: the first is ``station``)."""
    with ByteLog(SystemClock()) as log:
        bench = Bench(clock=SystemClock(), log=log)
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(bench.stop)
            stations = [
                await bench.add(Order(name=name, model=model, transport=kind))
                for name in names or ("unit",)
            ]
            station = stations[0]
            proxy = None
            address = station.address
            if station.port:
                proxy = await stack.enter_async_context(FaultProxy(station.port))
                address = address.replace(str(station.port), str(proxy.port))
            yield Wired(bench, station, address, proxy, log)
