"""The seam between an instrument of the bench and what leads to it, and the plainest wire.

Bytes as they arrive → whole messages. Pure.

Every byte of the bench with its time: a ring in memory, and a file of JSON lines if wanted.

Tests read from here what did and what did *not* reach an instrument.

One reader at one simulated instrument: its commands in order, and the answers as faults say.

A listening TCP port of the bench that can be switched off and on, and cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import json
import logging
import socket
import struct
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, TextIO

from edged.clock import Clock
from edged.record import record
from edged_sim.faults import (
    ACKNOWLEDGEMENT,
    Close,
    FaultBook,
    FaultKind,
    Reset,
    SendBytes,
    Wait,
    deliver,
    merged,
)
from edged_sim.scpi import SimulatedInstrument

LONGEST_MESSAGE_BYTES: Final = 1024 * 1024
"""What an input buffer holds; instruments hold less, and this only bounds memory."""


class LineFramer:
    """Cuts one connection's bytes at line ends; a carriage return before one is dropped.

    Args:
        end: what ends a line; where that is a carriage return, a line feed behind it is dropped.
    """

    def __init__(self, end: bytes = b"\n") -> None:
        self._end = end
        self._rest = b""
        self._is_skipping = False
        self.overruns = 0  # messages thrown away because they were too long

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that ``data`` completes, without their line ends; empty ones left out."""
        *whole, self._rest = (self._rest + data).split(self._end)
        if whole and self._is_skipping:
            del whole[0]
            self._is_skipping = False
        if len(self._rest) > LONGEST_MESSAGE_BYTES:
            self._rest = b""
            if not self._is_skipping:
                self.overruns += 1
            self._is_skipping = True
        return [message.lstrip(b"\n").rstrip(b"\r") for message in whole if message.strip()]


MOST_ENTRIES: Final = 200_000
MOST_BYTES: Final = 64 * 1024 * 1024
SHOWN_BYTES: Final = 4096
"""Of one entry, where it is shown over the control port; the file has them all."""


@record
class WireEntry:
    """One thing that happened on a wire.

    ``direction``: ``in`` (to the instrument), ``out`` (from it), ``open`` and ``close`` (of a
    connection), ``refused``. ``t``: monotonic seconds of the simulator; the same scale as every
    process of a Linux machine.
    """

    seq: int
    t: float
    wall_ms: int
    instrument: str
    connection: int
    direction: str
    data: bytes

    def as_json(self, *, most_bytes: int | None = None) -> dict[str, object]:
        """JSON-ready; ``size`` is the true number of bytes even where the rest is cut."""
        data = self.data[:most_bytes]
        return {
            "seq": self.seq,
            "t": self.t,
            "wall_ms": self.wall_ms,
            "instrument": self.instrument,
            "connection": self.connection,
            "direction": self.direction,
            "size": len(self.data),
            "text": data[:SHOWN_BYTES].decode("latin-1"),
            "hex": data.hex(),
        }


class ByteLog:
    """The log of one bench; written and read on its event loop only."""

    def __init__(
        self, clock: Clock, file: Path | None = None, *, most_entries: int = MOST_ENTRIES
    ) -> None:
        self._clock = clock
        self._most_entries = most_entries
        self._ring: deque[WireEntry] = deque()
        self._bytes = 0
        self._seq = 0
        self._file: TextIO | None = file.open("a", encoding="ascii") if file else None

    def __enter__(self) -> ByteLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def record(self, instrument: str, connection: int, direction: str, data: bytes = b"") -> None:
        """Note that it happened, now."""
        self._seq += 1
        entry = WireEntry(
            seq=self._seq,
            t=self._clock.monotonic(),
            wall_ms=self._clock.wall_ms(),
            instrument=instrument,
            connection=connection,
            direction=direction,
            data=data,
        )
        self._ring.append(entry)
        self._bytes += len(data)
        while len(self._ring) > self._most_entries or self._bytes > MOST_BYTES:
            self._bytes -= len(self._ring.popleft().data)
        if self._file is not None:
            self._file.write(json.dumps(entry.as_json()) + "\n")
            self._file.flush()

    def entries(
        self, *, instrument: str = "", since: int = 0, limit: int = 10_000
    ) -> list[WireEntry]:
        """The oldest ``limit`` entries after number ``since``, of one instrument or of all."""
        chosen: list[WireEntry] = []
        for entry in self._ring:
            if entry.seq > since and instrument in ("", entry.instrument):
                chosen.append(entry)
                if len(chosen) >= limit:
                    break
        return chosen

    @property
    def last(self) -> int:
        """The number of the newest entry."""
        return self._seq

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


MESSAGE_AVAILABLE: Final = 0x10
"""MAV of the status byte."""
MOST_WAITING: Final = 256
"""Messages of one reader not done yet; beyond it nothing more is read, as TCP allows."""

logger = logging.getLogger(__name__)


class Mouth(Protocol):
    """Where one reader's answers go: the far side of a wire.

    ``is_stream``: it carries bytes, and not messages.
    """

    is_stream: bool

    async def say(self, data: bytes, *, is_end: bool, tag: int) -> None:
        """Bytes of an answer; ``tag`` is that of the message it answers."""
        ...

    def end(self) -> None:
        """Close in order."""
        ...

    def reset(self) -> None:
        """Break off."""
        ...


class WireVisitor(Protocol):
    """What a visit needs of the station it is at."""

    instrument: SimulatedInstrument[Any]
    faults: FaultBook


class Visit:
    """Commands of one reader are done one after the other, as an instrument does.

    What has arrived is logged at once, also while an earlier command still runs.
    """

    def __init__(
        self,
        station: WireVisitor,
        number: int,
        mouth: Mouth,
        *,
        clock: Clock,
        log: ByteLog,
        on_leave: Callable[[Visit], None],
    ) -> None:
        self.mouth = mouth
        self._station = station
        self._number = number
        self._clock = clock
        self._log = log
        self._on_leave = on_leave
        self._waiting: asyncio.Queue[tuple[bytes, int] | None] = asyncio.Queue(MOST_WAITING)
        self._has_left = False
        self._record("open")
        self._worker = asyncio.get_running_loop().create_task(self._begin())

    def arrived(self, data: bytes) -> None:
        """Log bytes as they come."""
        self._record("in", data)

    async def hear(self, message: bytes, tag: int = 0) -> None:
        """A whole message; waits while too many are not done yet."""
        await self._waiting.put((message, tag))

    def hear_at_once(self, message: bytes) -> bool:
        """The same without waiting; False: too many are not done yet, and this one is lost."""
        if self._waiting.full():
            return False
        self._waiting.put_nowait((message, 0))
        return True

    def overrun(self) -> None:
        """A message was longer than any input buffer."""
        self._station.instrument.status.push(-363)

    def is_under(self, kind: FaultKind) -> bool:
        """Whether a fault of that kind is in force at this instrument."""
        return self._station.faults.is_under(kind)

    def status_byte(self, *, is_unread: bool) -> int:
        """The status byte, as it is told beside the messages; ``is_unread``: an answer waits."""
        return self._station.instrument.status.byte() | (MESSAGE_AVAILABLE if is_unread else 0)

    async def forget(self) -> None:
        """A device clear: what waits or runs is neither done nor answered any more.

        An instrument that is deaf to it only says that it has done so.
        """
        if self.is_under(FaultKind.DEAF_CLEAR):
            return
        worker = self._worker
        await self._end_worker()
        if self._has_left or self._worker is not worker:
            return  # the reader has gone meanwhile, or cleared once more
        self._waiting = asyncio.Queue(MOST_WAITING)
        self._worker = asyncio.get_running_loop().create_task(self._work())

    async def finish(self) -> None:
        """The reader is gone; what it had sent (an output off, say) is still done."""
        self._leave()
        await self._waiting.put(None)
        # A clear may be ending it at the same time.
        await asyncio.gather(self._worker, return_exceptions=True)

    async def stop(self) -> None:
        """End at once."""
        self._leave()
        await self._end_worker()

    async def say(self, data: bytes, *, is_end: bool = True, tag: int = 0) -> None:
        """Send bytes, asked for or not."""
        if data and not self._has_left:
            self._record("out", data)
            await self.mouth.say(data, is_end=is_end, tag=tag)

    def _leave(self) -> None:
        if not self._has_left:
            self._has_left = True
            self._on_leave(self)
            self._record("close")

    async def _end_worker(self) -> None:
        self._worker.cancel()
        await asyncio.gather(self._worker, return_exceptions=True)

    def _record(self, direction: str, data: bytes = b"") -> None:
        self._log.record(self._station.instrument.name, self._number, direction, data)

    async def _begin(self) -> None:
        if self.mouth.is_stream:
            with contextlib.suppress(OSError):
                await self.say(self._station.instrument.dialect.banner)
        await self._work()

    async def _work(self) -> None:
        name = self._station.instrument.name
        while (heard := await self._waiting.get()) is not None:
            try:
                await self._do(*heard)
            except OSError:
                continue  # the reader is gone; what it had asked for before is still done
            except Exception as error:  # noqa: BLE001 - a mistake in a model must not end the bench
                logger.error("model_failed instrument=%s error=%r", name, error)  # noqa: TRY400
                self._station.instrument.status.push(-300, "Device-specific error")

    async def _do(self, message: bytes, tag: int) -> None:
        faults = self._station.faults
        if faults.is_under(FaultKind.FREEZE):
            return
        answer = await self._execute(message)
        if answer is None:
            if not faults.is_under(FaultKind.ACKNOWLEDGE) or b"?" in message:
                return
            answer = ACKNOWLEDGEMENT + self._station.instrument.dialect.line_end
        steps = deliver(answer, faults.take(), self._station.instrument.random)
        for step in merged(steps) if self.mouth.is_stream else steps:
            match step:
                case SendBytes(data, is_end):
                    await self.say(data, is_end=is_end, tag=tag)
                case Wait(seconds):
                    await self._hold_back(seconds)
                case Close():
                    self.mouth.end()
                case Reset():
                    self.mouth.reset()

    async def _hold_back(self, seconds: float) -> None:
        """Let seconds pass, or less where all faults are removed before."""
        over = asyncio.ensure_future(self._clock.sleep(seconds))

        def end() -> None:
            over.cancel()

        self._station.faults.on_clear.add(end)
        try:
            await asyncio.wait({over})
        finally:
            over.cancel()
            self._station.faults.on_clear.discard(end)

    async def _execute(self, message: bytes) -> bytes | None:
        steps = self._station.instrument.execute(message, self._clock.monotonic())
        try:
            pause_s = next(steps)
            while True:
                await self._clock.sleep(pause_s)
                pause_s = steps.send(self._clock.monotonic())
        except StopIteration as end:
            answer: bytes | None = end.value
            return answer


LOOPBACK: Final = "127.0.0.1"
BACKLOG: Final = 64

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class TcpListener:
    """Takes connections on loopback and has each served by ``serve``, on the bench's loop.

    Args:
        at: the loopback address; another one is another host to whoever looks from outside.
    """

    def __init__(self, serve: Serve, at: str = LOOPBACK) -> None:
        self._serve = serve
        self._at = at
        self.port = 0  # known once open
        self._server: asyncio.Server | None = None
        self._reserved: socket.socket | None = None  # holds the port while switched off
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_listening(self) -> bool:
        """Whether new connections are taken."""
        return self._server is not None

    async def open(self, port: int = 0) -> None:
        """Listen; ``port`` 0 is any. Raises OSError where the port is taken."""
        self._reserved = _bind(self._at, port)
        self.port = self._reserved.getsockname()[1]
        await self.power_on()

    async def power_on(self) -> None:
        """Take connections (again) at the same port."""
        if self._server is None and self._reserved is not None:
            self._server = await asyncio.start_server(
                self._take, sock=self._reserved, backlog=BACKLOG
            )
            self._reserved = None

    def power_off(self) -> None:
        """Reset every connection and refuse new ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
            self._reserved = _bind(self._at, self.port)
        for writer in tuple(self._writers):
            reset(writer)

    async def close(self) -> None:
        """End everything; the port is free after it."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None
        for writer in tuple(self._writers):
            writer.close()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._writers.add(writer)
        # asyncio does it only for sockets that name their protocol.
        raw: socket.socket = writer.get_extra_info("socket")
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            # A reset by the peer is an end like any other; only the end of the bench cancels, and
            # the stream machinery would report that as an error.
            with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
                await self._serve(reader, writer)
        finally:
            self._writers.discard(writer)
            writer.close()


def _bind(at: str, port: int) -> socket.socket:
    """A bound socket that does not listen yet: it holds the port and connections are refused."""
    reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":  # there it would let another process take the port
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind((at, port))
    except OSError:
        reserved.close()
        raise
    return reserved


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST: lingering zero seconds tells the kernel to throw away what is left."""
    linger = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)
    raw = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


READ_BYTES: Final = 65_536


class WireKind(enum.StrEnum):
    """What can lead to an instrument; the text is what ``--transport`` calls it."""

    SOCKET = "socket"
    VXI11 = "vxi11"
    HISLIP = "hislip"
    SERIAL = "serial"
    PROLOGIX = "prologix"
    USBTMC = "usbtmc"


class Host(Protocol):
    """The instrument's place, as its wire sees it."""

    @property
    def name(self) -> str:
        """The instrument's name on the bench."""
        ...

    @property
    def message_end(self) -> bytes:
        """What ends a line that it is told."""
        ...

    @property
    def serial_end(self) -> bytes:
        """The end of its answers on a serial line; empty: as on any other wire."""
        ...

    def join(self, mouth: Mouth) -> Visit | None:
        """A reader has come; None: not now."""
        ...


class SimWire(Protocol):
    """One way to one instrument."""

    @property
    def address(self) -> str:
        """VISA address; known once open."""
        ...

    @property
    def port(self) -> int:
        """TCP port, or 0."""
        ...

    @property
    def is_listening(self) -> bool:
        """Whether it is switched on."""
        ...

    async def open(self, port: int) -> None:
        """Be reachable; raises OSError where ``port`` is taken."""
        ...

    async def power_on(self) -> None:
        """Be reachable again at the same address; nothing where it is."""
        ...

    def power_off(self) -> None:
        """Break what is connected, refuse what comes."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...


class StreamMouth:
    """Answers straight into a stream; a line end is all that tells their end."""

    is_stream = True

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def say(self, data: bytes, *, is_end: bool, tag: int) -> None:  # noqa: ARG002 - the seam's
        if not self._writer.is_closing():
            self._writer.write(data)
            await self._writer.drain()

    def end(self) -> None:
        self._writer.close()

    def reset(self) -> None:
        reset(self._writer)


class SocketWire:
    """A raw TCP socket; see ``SimWire``."""

    def __init__(self, host: Host, at: str = LOOPBACK) -> None:
        self._host = host
        self._at = at
        self._listener = TcpListener(self._serve, at)
        self.open = self._listener.open
        self.power_on = self._listener.power_on
        self.power_off = self._listener.power_off
        self.close = self._listener.close

    @property
    def address(self) -> str:
        return f"TCPIP::{self._at}::{self.port}::SOCKET"

    @property
    def port(self) -> int:
        return self._listener.port

    @property
    def is_listening(self) -> bool:
        return self._listener.is_listening

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visit = self._host.join(StreamMouth(writer))
        if visit is None:
            reset(writer)
            return
        framer = LineFramer(self._host.message_end)
        try:
            try:
                while data := await reader.read(READ_BYTES):
                    visit.arrived(data)
                    overruns = framer.overruns
                    for message in framer.feed(data):
                        await visit.hear(message)
                    if framer.overruns > overruns:
                        visit.overrun()
            except OSError:
                pass  # a reset by the peer is an end like any other
            await visit.finish()
        finally:
            await visit.stop()
