"""An instrument whose answers tell which question they belong to, and that misbehaves as told.

``READ? 17`` of unit 3 is answered by ``3000017.0``: whoever gets that for another question, or from
another unit, has been told something wrong, and can see it. What it does besides answering stands
in its ``Habits``; when it does so, dice decide that fall the same way each time.

It speaks over every wire of the simulated bench (``station``), and over a simulated USB bus. Run as
a module it is an engine with such instruments on its USB bus: a bus is a process's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import json
import os
import random
import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from edged_sim.faults import FaultKind
from edged_sim.output import HeldOutput
from edged_sim.wires.hislip import HislipWire
from edged_sim.wires.prologix import PrologixWire, SimulatedAdapter
from edged_sim.wires.serial import SerialWire
from edged_sim.wires.stream import Mouth, SimWire, SocketWire, WireKind
from edged_sim.wires.vxi11 import Vxi11Wire
from tests.bench.usb_backend import UsbInstrument, usb_bus

USB: Final = "usb"
# USBTMC needs a kernel that plays a USB device; here a bus is simulated in its place.
TRANSPORTS: Final = (*(kind.value for kind in WireKind if kind is not WireKind.USBTMC), USB)
UNIT: Final = 1_000_000
"""Questions of one unit; its number stands before theirs."""
DEVICES: Final = "NUMBERED_DEVICES"
READ_BYTES: Final = 1 << 20
MESSAGE_AVAILABLE: Final = 0x10
"""MAV of the status byte."""

PROFILE: Final = """
format: 1
profile_key: numbered_{key}
version: 1
manufacturer: Numbered
model: {model}
instrument_class: power_supply
source: made for tests
match: {{idn: 'numbered,{key}\\b', examples: ["NUMBERED,{model},N1,1.0"]}}
connection: {{timeout_ms: 1000, open_timeout_ms: 1000, on_connect: ["HELLO"], {connection}}}
abort: ["LEVEL 0"]
commands:
  read:
    scpi: "READ? {{number}}"
    is_query: true
    parameters: {{number: {{type: int, min: 0, max: 999999}}}}
    returns: {{type: float}}
  is_on:
    scpi: "STATE? {{number}}"
    is_query: true
    parameters: {{number: {{type: int, min: 0, max: 999999}}}}
    returns: {{type: bool}}
  label:
    scpi: "LABEL? {{number}}"
    is_query: true
    parameters: {{number: {{type: int, min: 0, max: 999999}}}}
    returns: {{type: string}}
  note:
    scpi: "NOTE {{number}}"
    parameters: {{number: {{type: int, min: 0, max: 999999}}}}
  set_level:
    scpi: "LEVEL {{level:.3f}}"
    parameters: {{level: {{type: float, min: 0, max: 10, unit: V}}}}
    sweep: {{parameter: level, setpoint: "LEVEL?", interval_ms: 50, abort: ["LEVEL 0"]}}
"""
CONNECTIONS: Final = {
    "queue": 'errors: {query: "SYST:ERR?", kind: queue}',
    "plain": "errors: {kind: none}",
    "declared": "errors: {kind: none}, acknowledge: '^OK$'",
}
"""What tells the profiles apart: how they look for errors, and that they await acknowledgements."""


def profile_text(key: str) -> str:
    return PROFILE.format(key=key, model=key.upper(), connection=CONNECTIONS[key])


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """What an instrument does besides answering.

    Attributes:
        profile: key of ``CONNECTIONS``.
        second: share of its answers that are followed by a second line, 0 to 50 ms later.
        acknowledges: what it says to a line that asks nothing; ``{}`` is that line's own value.
        late: share of its answers that come after the time-out.
        echo: what comes back of a line: ``""``, ``lower`` (in lower case, before the answer),
            ``late`` (after it); from the first numbered question on: somebody switched it on.
        keeps_output: what was not fetched is not interrupted by the next message, and outlives
            the link; on transports with messages.
        clears: a device clear stops what it measures.
        marks_alike: all its answers bear the same message id (HiSLIP).
    """

    profile: str = "queue"
    second: float = 0.0
    acknowledges: str = ""
    late: float = 0.0
    echo: str = ""
    keeps_output: bool = False
    clears: bool = True
    marks_alike: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """Something said ``after_s`` behind what came before it.

    ``is_aside``: the instrument is not busy with it, and goes on to the next line meanwhile.
    """

    data: bytes
    after_s: float = 0.0
    is_end: bool = True
    is_aside: bool = False


LATE_S: Final = (1.1, 1.5)
"""After the profile's second, which a busy machine seldom takes for an answer that is not late."""
SECOND_S: Final = (0.0, 0.03)
"""A DL3021's comes after 20 ms. What comes later than the 50 ms that a line is listened to at first
is met only later, and so is on a busy machine what is due shortly before."""
ANSWER: Final = re.compile(r"(READ|STATE|LABEL|ODD)\? (\d+)")


def value_of(unit: int, number: int) -> float:
    return float(unit * UNIT + number)


def answer_of(unit: int, line: str) -> str | None:
    """The answer to one numbered question; None where the line is none."""
    found = ANSWER.fullmatch(line)
    if found is None:
        return None
    number = int(found[2])
    if found[1] == "STATE":
        return str(number % 2)
    if found[1] == "LABEL":
        return f"unit {unit} number {number}"
    return f"{value_of(unit, number):.1f}"


class Numbered:
    """What it says to each line, and when. Knows of no wire."""

    def __init__(self, unit: int, habits: Habits, *, seed: int = 0, serial: str = "") -> None:
        self.unit = unit
        self.habits = habits
        self.serial = serial or f"N{unit}"
        self.received: list[str] = []
        # Said to a line, before anything else is looked at.
        self.special: dict[str, tuple[Say, ...]] = {}
        self.level = 0.0
        self.is_silent = False
        self._is_echoing = False
        self._dice = random.Random(f"{seed}:{unit}")

    @property
    def idn(self) -> str:
        return f"NUMBERED,{self.habits.profile.upper()},{self.serial},1.0"

    def hear(self, line: str) -> tuple[Say, ...]:
        self.received.append(line)
        if self.is_silent:
            return ()
        said = list(self._answers(line))
        if not said and "?" not in line:
            said = self._acknowledged(line)
        self._is_echoing = self._is_echoing or answer_of(self.unit, line) is not None
        echo = Say(data=_line(line.lower()))
        match self.habits.echo if self._is_echoing else "":
            case "lower":
                said.insert(0, echo)
            case "late":
                after_s = self._dice.uniform(*SECOND_S)
                said.append(replace(echo, is_aside=True, after_s=after_s))
        return tuple(said)

    def _answers(self, line: str) -> Iterable[Say]:
        head, _, rest = line.partition(" ")
        if line in self.special:
            return self.special[line]
        if line == "*IDN?":
            return (Say(data=_line(self.idn)),)
        if line == "SYST:ERR?":
            return (Say(data=_line('0,"No error"')),)
        if line == "LEVEL?":
            return self._measured(f"{self.level:.3f}")
        if head == "LEVEL":
            self.level = float(rest)
            return ()
        if head == "ARM":
            return (Say(data=_line(f"{value_of(self.unit, int(rest)):.1f}")),)
        if head == "TWO?":
            return self._two_lines(int(rest))
        if head == "TRACE?":
            return self._block(int(rest), lie=0)
        if head == "LIE?":
            return self._block(int(rest), lie=self._dice.choice((-3, 4)))
        if head == "LATER?":
            self._dice.random()
            late_s = self._dice.uniform(*LATE_S)
            return (Say(data=_line(f"{value_of(self.unit, int(rest)):.1f}"), after_s=late_s),)
        said: list[Say] = []
        for question in line.split(";"):
            answer = answer_of(self.unit, question.strip())
            if answer is not None:
                said += self._measured(answer)
        return said

    def _measured(self, answer: str) -> Iterable[Say]:
        late = self._dice.random() < self.habits.late
        after_s = self._dice.uniform(*LATE_S) if late else 0.0
        yield Say(data=_line(answer), after_s=after_s)
        if self._dice.random() < self.habits.second:
            second = self._dice.choice((answer, answer, "8.888", "1"))
            after_s = self._dice.uniform(*SECOND_S)
            yield Say(data=_line(second), after_s=after_s, is_aside=True)

    def _two_lines(self, number: int) -> Iterable[Say]:
        line = _line(f"{value_of(self.unit, number):.1f}")
        after_s = self._dice.choice((0.0, self._dice.uniform(*SECOND_S)))
        return (Say(data=line), Say(data=line, after_s=after_s, is_aside=after_s > 0))

    def _block(self, number: int, *, lie: int) -> Iterable[Say]:
        """Lines of numbers in a block, cut behind a 0x0A; ``lie``: so many bytes more than said."""
        body = _line(f"{value_of(self.unit, number):.1f}") * 3
        size = len(body)
        if lie < 0:
            body = body[:lie]
        data = f"#2{size:02}".encode() + body + b"9" * max(0, lie) + b"\n"
        cut = data.index(b"\n") + 1
        return (
            Say(data=data[:cut], is_end=False),
            Say(data=data[cut:], after_s=self._dice.uniform(0.002, 0.02)),
        )

    def _acknowledged(self, line: str) -> list[Say]:
        if not self.habits.acknowledges:
            return []
        value = line.partition(" ")[2] or "1"
        after_s = self._dice.choice((0.0, 0.0, 0.003))
        return [Say(data=_line(self.habits.acknowledges.format(value)), after_s=after_s)]


def _line(text: str) -> bytes:
    return text.encode("ascii") + b"\n"


class Station:
    """A numbered instrument at its place: the ``Host`` of a wire.

    ``instrument`` may be exchanged while the wire stays: another unit was put at the address.
    """

    message_end = b"\n"
    serial_end = b""

    def __init__(
        self, instrument: Numbered, wire: WireKind, adapter: SimulatedAdapter | None
    ) -> None:
        self.instrument = instrument
        self.name = f"n{instrument.unit}"
        # What was not fetched before the last reader left, where the instrument keeps it.
        self.kept: list[tuple[bytes, bool]] = []
        self.visits: list[Visit] = []
        self.wire = _wire_of(self, wire, adapter)

    @property
    def address(self) -> str:
        return self.wire.address

    def join(self, mouth: Mouth) -> Visit:
        visit = Visit(self, mouth)
        self.visits.append(visit)
        return visit

    async def close(self) -> None:
        await self.wire.close()
        for visit in self.visits:
            await visit.stop()


def _wire_of(station: Station, kind: WireKind, adapter: SimulatedAdapter | None) -> SimWire:
    match kind:
        case WireKind.SOCKET:
            return SocketWire(station)  # type: ignore[arg-type]
        case WireKind.VXI11:
            return Vxi11Wire(station)  # type: ignore[arg-type]
        case WireKind.HISLIP:
            return HislipWire(station)  # type: ignore[arg-type]
        case WireKind.SERIAL:
            return SerialWire(station)  # type: ignore[arg-type]
        case WireKind.PROLOGIX:
            return PrologixWire(station, adapter or SimulatedAdapter())  # type: ignore[arg-type]
        case WireKind.USBTMC:
            raise ValueError(kind)


class Visit:
    """One reader; what a wire needs of one (``edged_sim.wires.stream.Visit``), with habits."""

    def __init__(self, station: Station, mouth: Mouth) -> None:
        self._station = station
        self._mouth = mouth
        self._heard: asyncio.Queue[tuple[str, int] | None] = asyncio.Queue()
        # What the reader before did not fetch comes before what is answered now.
        self._kept = station.kept
        station.kept = []
        # Each of something said aside.
        self._asides: set[asyncio.Task[None]] = set()
        self._worker = asyncio.get_running_loop().create_task(self._work())

    def arrived(self, data: bytes) -> None:
        """Nobody logs it here."""

    def is_under(self, kind: FaultKind) -> bool:
        """What the wires themselves ask for; a clear is this visit's own business."""
        match kind:
            case FaultKind.KEEP_OUTPUT:
                return self._habits.keeps_output
            case FaultKind.SAME_ID:
                return self._habits.marks_alike
            case _:
                return False

    def status_byte(self, *, is_unread: bool) -> int:
        return MESSAGE_AVAILABLE if is_unread else 0

    async def hear(self, message: bytes, tag: int = 0) -> None:
        kept, self._kept = self._kept, []
        for data, is_end in kept:
            await self._mouth.say(data, is_end=is_end, tag=tag)
        self._heard.put_nowait((message.decode("latin-1").strip(), tag))

    def overrun(self) -> None:
        """Nothing sends that much here."""

    async def forget(self) -> None:
        """A device clear."""
        self._kept.clear()
        if self._habits.clears:
            await self._end()
            self._heard = asyncio.Queue()
            self._worker = asyncio.get_running_loop().create_task(self._work())

    async def finish(self) -> None:
        """The reader is gone; what it had sent is still done."""
        self._heard.put_nowait(None)
        await self._worker
        await self.stop()

    async def stop(self) -> None:
        await self._end()
        if self._habits.keeps_output:
            self._station.kept = self._kept + _unfetched(self._mouth)

    @property
    def _habits(self) -> Habits:
        return self._station.instrument.habits

    async def _end(self) -> None:
        tasks = (self._worker, *self._asides)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self) -> None:
        while (heard := await self._heard.get()) is not None:
            line, tag = heard
            for say in self._station.instrument.hear(line):
                if say.is_aside:
                    aside = asyncio.get_running_loop().create_task(self._say(say, tag))
                    self._asides.add(aside)
                    aside.add_done_callback(self._asides.discard)
                else:
                    await self._say(say, tag)

    async def _say(self, say: Say, tag: int) -> None:
        if say.after_s:
            await asyncio.sleep(say.after_s)
        with contextlib.suppress(OSError):
            await self._mouth.say(say.data, is_end=say.is_end, tag=tag)


def _unfetched(mouth: Mouth) -> list[tuple[bytes, bool]]:
    """What lies in an output buffer; it is empty then."""
    parts = []
    if isinstance(mouth, HeldOutput):
        while (part := mouth.fetch(READ_BYTES))[0]:
            parts.append(part)
    return parts


@contextlib.asynccontextmanager
async def numbered_bench(
    instruments: Sequence[tuple[Numbered, WireKind]],
    *,
    adapters: Iterable[SimulatedAdapter] = (),
    behind_one: int = 2,
) -> AsyncIterator[list[Station]]:
    """A station each, open; so many units behind one adapter are neighbours."""
    given = iter(adapters)
    adapter, left = SimulatedAdapter(), 0
    stations: list[Station] = []
    try:
        for instrument, kind in instruments:
            if kind is WireKind.PROLOGIX:
                if left == 0:
                    adapter, left = next(given, None) or SimulatedAdapter(), behind_one
                left -= 1
            station = Station(instrument, kind, adapter)
            await station.wire.open(0)
            stations.append(station)
        yield stations
    finally:
        for station in stations:
            await station.close()


class NumberedUsb(UsbInstrument):
    """A numbered instrument on the simulated bus; says what takes time from timers of its own."""

    def __init__(self, instrument: Numbered) -> None:
        super().__init__(instrument.serial, idn=instrument.idn)
        self.instrument = instrument
        self._busy_until = 0.0
        # When it is said, the order in which it was due, and what: a heap.
        self._due: list[tuple[float, int, bytes]] = []
        self._order = itertools.count()

    def forget(self) -> None:
        with self._news:
            super().forget()
            if self.instrument.habits.clears:
                self._due.clear()
                self._busy_until = 0.0

    def _message(self, text: str) -> None:
        with self._news:
            self._bring()
            if not self.instrument.habits.keeps_output:
                self._output.clear()
            at = max(time.monotonic(), self._busy_until)
            begun = b""
            for say in self.instrument.hear(text.strip()):
                when = at + say.after_s
                if not say.is_aside:
                    at = when
                if not say.is_end:
                    begun += say.data
                    continue
                heapq.heappush(self._due, (when, next(self._order), begun + say.data))
                begun = b""
            self._busy_until = at
            self._bring()
            self._wind()

    def _bring(self) -> None:
        """Say what is due by now, in its order: timers ring in any."""
        with self._news:
            while self._due and self._due[0][0] <= time.monotonic():
                self._output.append(heapq.heappop(self._due)[2])
            self._news.notify_all()

    def _wind(self) -> None:
        """A timer for each thing that is not due yet, those of before included: they are few."""
        self._timers[:] = [timer for timer in self._timers if timer.is_alive()]
        for when, _, _ in self._due:
            timer = threading.Timer(max(0.0, when - time.monotonic()), self._bring)
            timer.daemon = True
            self._timers.append(timer)
            timer.start()


def usb_engine(
    instruments: Sequence[tuple[int, Habits]], seed: int
) -> tuple[tuple[str, ...], dict[str, str], dict[int, str]]:
    """For ``running_engine``: command, environment; and the address of each unit."""
    devices = [{"unit": unit, "seed": seed, "habits": asdict(h)} for unit, h in instruments]
    addresses = {unit: NumberedUsb(Numbered(unit, habits)).address for unit, habits in instruments}
    command = (sys.executable, "-m", "tests.bench.numbered")
    return command, {DEVICES: json.dumps(devices)}, addresses


def main() -> int:
    """An engine whose USB bus has the devices that the environment tells."""
    from edged.cli.main import main as run

    devices: list[dict[str, Any]] = json.loads(os.environ[DEVICES])
    with usb_bus() as bus:
        for device in devices:
            habits = Habits(**device["habits"])
            bus.plug(NumberedUsb(Numbered(device["unit"], habits, seed=device["seed"])))
        status = run()
        assert threading.current_thread() is threading.main_thread()
        return int(status or 0)


if __name__ == "__main__":
    raise SystemExit(main())
