"""One pretended instrument at its place on the bench: its listener and its connections.

A shell: bytes in, the pure instrument asked, its answer delivered as the faults say. Commands of
one connection are done one after the other, as an instrument does; another connection does not wait
for them. What has arrived is logged at once, also while an earlier command still runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
import sys
from dataclasses import dataclass
from typing import Any, Final

from edged.clock import Clock
from edged.sim.bytelog import ByteLog
from edged.sim.faults import Close, FaultBook, FaultKind, Reset, Send, Wait, deliver
from edged.sim.framing import Framer
from edged.sim.scpi import PretendedInstrument

__all__ = ["Station"]

LOOPBACK: Final = "127.0.0.1"
MOST_WAITING: Final = 256
"""Messages of one connection not done yet; beyond it nothing more is read, as TCP allows."""
READ_BYTES: Final = 65_536
BACKLOG: Final = 64

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Connection:
    number: int
    writer: asyncio.StreamWriter
    waiting: asyncio.Queue[bytes | None]


class Station:
    """An instrument that listens. All methods belong to the bench's event loop."""

    def __init__(
        self,
        instrument: PretendedInstrument[Any],
        *,
        model: str,
        clock: Clock,
        log: ByteLog,
        is_single_session: bool = False,
    ) -> None:
        self.instrument = instrument
        self.model = model
        self.faults = FaultBook()
        self.port = 0  # known once open
        self.is_single_session = is_single_session
        self._clock = clock
        self._log = log
        self._server: asyncio.Server | None = None
        self._reserved: socket.socket | None = None  # holds the port while powered off
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._return: asyncio.Task[None] | None = None
        self._opened = 0

    @property
    def name(self) -> str:
        """The instrument's name on the bench."""
        return self.instrument.name

    @property
    def address(self) -> str:
        """The VISA address at which it answers."""
        return f"TCPIP::{LOOPBACK}::{self.port}::SOCKET"

    @property
    def is_listening(self) -> bool:
        """Whether new connections are taken."""
        return self._server is not None

    @property
    def connection_count(self) -> int:
        """Connections that are open now."""
        return len(self._connections)

    async def open(self, port: int = 0) -> None:
        """Listen on loopback.

        Args:
            port: a fixed one, or 0 for any.

        Raises:
            OSError: the port is taken.
        """
        self._reserved = _bind(port)
        self.port = self._reserved.getsockname()[1]
        await self.power_on()

    async def power_on(self) -> None:
        """Take connections (again) at the same port."""
        if self._server is None and self._reserved is not None:
            self._server = await asyncio.start_server(
                self._serve, sock=self._reserved, backlog=BACKLOG
            )
            self._reserved = None

    def power_off(self, seconds: float | None = None) -> None:
        """Reset every connection and refuse new ones, for a time or until ``power_on``."""
        if self._server is not None:
            self._server.close()
            self._server = None
            self._reserved = _bind(self.port)
        for connection in tuple(self._connections):
            _reset(connection.writer)
        if seconds is not None and self._return is None:
            self._return = asyncio.get_running_loop().create_task(self._come_back(seconds))

    async def close(self) -> None:
        """End everything; the port is free after it."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None
        for connection in tuple(self._connections):
            connection.writer.close()
        tasks = [*self._tasks, *([self._return] if self._return else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def say(self, data: bytes) -> None:
        """Send bytes that nobody asked for to every connection."""
        for connection in self._connections:
            self._send(connection, data)

    async def _come_back(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._return = None
        self.faults.clear()
        await self.power_on()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._opened += 1
        connection = _Connection(self._opened, writer, asyncio.Queue(MOST_WAITING))
        if self.is_single_session and self._connections:
            self._log.record(self.name, connection.number, "refused")
            _reset(writer)
            return
        self._connections.add(connection)
        self._log.record(self.name, connection.number, "open")
        worker = asyncio.get_running_loop().create_task(self._work(connection))
        try:
            await self._read(reader, connection)
            # The peer is gone, and what it sent last (an output off, say) is still done.
            self._leave(connection)
            await connection.waiting.put(None)
            await worker
        except asyncio.CancelledError:
            # Only the end of the bench cancels; the stream machinery would report it as an error.
            pass
        finally:
            self._leave(connection)
            worker.cancel()
            writer.close()

    def _leave(self, connection: _Connection) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            self._log.record(self.name, connection.number, "close")

    async def _read(self, reader: asyncio.StreamReader, connection: _Connection) -> None:
        framer = Framer()
        with contextlib.suppress(OSError):  # a reset by the peer is an end like any other
            while data := await reader.read(READ_BYTES):
                self._log.record(self.name, connection.number, "in", data)
                overruns = framer.overruns
                for message in framer.feed(data):
                    await connection.waiting.put(message)
                if framer.overruns > overruns:
                    self.instrument.status.push(-363)

    async def _work(self, connection: _Connection) -> None:
        while (message := await connection.waiting.get()) is not None:
            try:
                await self._do(connection, message)
            except OSError:
                continue  # the reader is gone; what it had asked for before is still done
            except Exception as error:  # noqa: BLE001 - a mistake in a model must not end the bench
                logger.error("model_failed instrument=%s error=%r", self.name, error)  # noqa: TRY400
                self.instrument.status.push(-300, "Device-specific error")

    async def _do(self, connection: _Connection, message: bytes) -> None:
        if self.faults.is_under(FaultKind.FREEZE):
            return
        answer = await self._execute(message)
        if answer is None:
            return
        for step in deliver(answer, self.faults.take(), self.instrument.random):
            match step:
                case Send(data):
                    self._send(connection, data)
                    await connection.writer.drain()
                case Wait(seconds):
                    await self._clock.sleep(seconds)
                case Close():
                    connection.writer.close()
                case Reset():
                    _reset(connection.writer)

    async def _execute(self, message: bytes) -> bytes | None:
        steps = self.instrument.execute(message, self._clock.monotonic())
        try:
            pause_s = next(steps)
            while True:
                await self._clock.sleep(pause_s)
                pause_s = steps.send(self._clock.monotonic())
        except StopIteration as end:
            answer: bytes | None = end.value
            return answer

    def _send(self, connection: _Connection, data: bytes) -> None:
        if data and not connection.writer.is_closing():
            self._log.record(self.name, connection.number, "out", data)
            connection.writer.write(data)


def _bind(port: int) -> socket.socket:
    """A bound socket that does not listen yet: it holds the port and connections are refused."""
    reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":  # there it would let another process take the port
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind((LOOPBACK, port))
    except OSError:
        reserved.close()
        raise
    return reserved


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST: lingering zero seconds tells the kernel to throw away what is left."""
    linger = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)
    raw = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()
