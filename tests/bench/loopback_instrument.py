"""A small SCPI instrument on a loopback socket, driven by the test's own loop.

Each connection is served by itself, line by line. ``DELAY? seconds`` answers ``late`` after that
long, ``HOLD?`` once ``let_go`` is set; ``ECHO? text`` answers the text; whatever ends in ``?`` and
is unknown is never answered.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from types import TracebackType

from tests.bench.accepting import Accepting
from tests.bench.waiting import HANGS_S

IDN = "ACME,PSU1,A001,1.0"

TURNS = 10
"""Turns of the loop after which whoever was accepted a moment ago is being served."""


class LoopbackInstrument:
    """``async with LoopbackInstrument() as instrument``, then ``instrument.address``."""

    def __init__(self, idn: str = IDN, *, port: int = 0, host: str = "127.0.0.1") -> None:
        self.idn = idn
        self.host = host
        self.port = port
        self.received: list[str] = []
        self.connections = 0
        self.is_silent = False
        self.errors: list[str] = []
        # line → bytes to send for it, before anything else is looked at
        self.special: dict[str, Callable[[], bytes]] = {}
        # sent at the beginning of each connection, and around each answer
        self.banner = self.before = self.after = b""
        self.line_came = asyncio.Condition()
        self.let_go = asyncio.Event()
        self._accepting: Accepting | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def address(self) -> str:
        return f"TCPIP::{self.host}::{self.port}::SOCKET"

    @property
    def open_connections(self) -> int:
        return len(self._writers)

    async def __aenter__(self) -> LoopbackInstrument:
        await self.plug_in()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.unplug()

    async def plug_in(self) -> None:
        if self._accepting is None:
            self._accepting = Accepting(self._serve, self.host, self.port)
            self.port = self._accepting.port

    async def unplug(self) -> None:
        """Refuse, and end every connection."""
        if self._accepting is not None:
            self._accepting.close()
            self._accepting = None
            for _ in range(TURNS):
                await asyncio.sleep(0)
        writers = tuple(self._writers)
        for writer in writers:
            writer.transport.abort()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in writers:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(HANGS_S):
                    await writer.wait_closed()
        for _ in range(TURNS):
            # What was broken off is told so at the loop's next turn.
            await asyncio.sleep(0)

    async def say(self, data: bytes) -> None:
        """Send something that nobody asked for to every connection."""
        for writer in tuple(self._writers):
            writer.write(data)
            await writer.drain()

    def say_to_all(self, data: bytes) -> None:
        """The same from another thread, once the instrument's own loop is at it."""
        asyncio.run_coroutine_threadsafe(self.say(data), self._loop()).result(5)

    def _loop(self) -> asyncio.AbstractEventLoop:
        return next(iter(self._tasks)).get_loop()

    async def heard(self, line: str, times: int = 1) -> None:
        """Wait until a line has come that often."""
        async with asyncio.timeout(HANGS_S), self.line_came:
            await self.line_came.wait_for(lambda: self.received.count(line) >= times)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        self.connections += 1
        writer.write(self.banner)
        try:
            # A ValueError: a line longer than the reader takes ends the connection.
            with contextlib.suppress(OSError, asyncio.CancelledError, ValueError):
                while data := await reader.readline():
                    await self._answer(data.decode("latin-1").strip(), writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                # ``unplug`` waits for the same, and must not be cancelled with this.
                await asyncio.shield(writer.wait_closed())
            self._tasks.discard(task)
            self._writers.discard(writer)

    async def _answer(self, line: str, writer: asyncio.StreamWriter) -> None:
        self.received.append(line)
        async with self.line_came:
            self.line_came.notify_all()
        if self.is_silent:
            return
        answer = await self._answer_to(line)
        if answer:
            writer.write(self.before + answer + self.after)
        await writer.drain()

    async def _answer_to(self, line: str) -> bytes:
        head, _, rest = line.partition(" ")
        special = self.special.get(line)
        if special is not None:
            return special()
        if line == "*IDN?":
            return self.idn.encode() + b"\n"
        if line == "SYST:ERR?":
            return (self.errors.pop(0) if self.errors else '0,"No error"').encode() + b"\n"
        if head == "ECHO?":
            return rest.encode() + b"\n"
        if head == "DELAY?":
            await asyncio.sleep(float(rest))
            return b"late\n"
        if line == "HOLD?":
            await self.let_go.wait()
            return b"late\n"
        return b""
