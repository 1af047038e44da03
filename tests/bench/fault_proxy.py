"""A TCP proxy between a client and an instrument that spoils the way on command.

It runs on the test's event loop: ``async with FaultProxy(port) as proxy``, then ``proxy.port`` is
what a client connects to. ``proxy.next(Spoil(...))`` spoils the next chunks from the instrument;
``proxy.always`` spoils all that no ``next`` is waiting for. Requests towards the instrument pass
as they are but for ``refuse``, ``black_hole`` and ``delay_requests_s``.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import socket
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from tests.bench.accepting import Accepting

CHUNK_BYTES = 65_536


class How(enum.Enum):
    """What becomes of one chunk that comes from the instrument."""

    PASS = "pass"
    DELAY = "delay"  # comes whole, `seconds` later
    LOSE = "lose"  # never comes
    CUT = "cut"  # the first `part` of it, then the connection ends in order
    DROP = "drop"  # nothing of it, and the connection ends in order
    RESET = "reset"  # nothing of it, and the connection is reset
    DOUBLE = "double"  # twice
    GARBLE = "garble"  # every byte but line ends has its highest bit set
    SPLIT = "split"  # byte by byte, `seconds` between them
    STRAY = "stray"  # with a line end in front
    HANG = "hang"  # neither it nor anything after it, until `heal`


@dataclass(frozen=True, slots=True)
class Spoil:
    """One chunk's fate; ``seconds`` and ``part`` (0 to 1) where ``how`` uses them."""

    how: How
    seconds: float = 0.2
    part: float = 0.5


@dataclass(eq=False, slots=True)
class _Pair:
    client: asyncio.StreamWriter
    server: asyncio.StreamWriter


def _no_time() -> float:
    return 0.0


class FaultProxy:
    """Forwards connections of ``port`` to ``target_port`` on loopback."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.port = 0  # known inside the context
        self.always = Spoil(How.PASS)
        self.delay_requests_s = 0.0
        self.held_back_s: Callable[[], float] = _no_time  # by each request, besides
        self.is_black_hole = False  # connections are taken, and nothing passes either way
        self.connections = 0  # taken so far
        self._next: deque[Spoil] = deque()
        self._healed = asyncio.Event()
        self._healed.set()
        self._pairs: set[_Pair] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting: Accepting | None = None
        self._flapping: asyncio.Task[None] | None = None

    async def __aenter__(self) -> FaultProxy:
        await self.listen()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.refuse()
        tasks = [*self._tasks, *([self._flapping] if self._flapping else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def listen(self) -> None:
        """Take connections (again), at the same port."""
        if self._accepting is None:
            self._accepting = Accepting(self._serve, "127.0.0.1", self.port)
            self.port = self._accepting.port

    def refuse(self) -> None:
        """Reset what is open and refuse new connections, as a device without power does."""
        if self._accepting is not None:
            self._accepting.close()
            self._accepting = None
        self.reset_all()

    def next(self, *spoils: Spoil) -> None:
        """Spoil the next chunks from the instrument, one each."""
        self._next.extend(spoils)

    def reset_spoils(self) -> None:
        """Forget spoils of ``next`` that nothing has come for."""
        self._next.clear()

    def hang(self) -> None:
        """Nothing comes from the instrument any more until ``heal``; connections stay."""
        self._healed.clear()

    async def heal(self) -> None:
        """Be a plain wire again; what was held back by a hang comes now."""
        self._next.clear()
        self.always = Spoil(How.PASS)
        self.is_black_hole = False
        self.delay_requests_s = 0.0
        self.held_back_s = _no_time
        self._healed.set()
        await self.listen()

    def reset_all(self) -> None:
        """Reset every open connection."""
        for pair in tuple(self._pairs):
            reset(pair.client)
            pair.server.close()

    def close_all(self) -> None:
        """End every open connection in order."""
        for pair in tuple(self._pairs):
            pair.client.close()
            pair.server.close()

    def half_open(self) -> None:
        """The instrument's side ends and the client is told nothing."""
        self.is_black_hole = True
        for pair in tuple(self._pairs):
            pair.server.close()

    def flap(self, *, up_s: float, down_s: float, times: int) -> None:
        """Go away and come back several times."""
        self._flapping = asyncio.get_running_loop().create_task(self._flap(up_s, down_s, times))

    async def _flap(self, up_s: float, down_s: float, times: int) -> None:
        for _ in range(times):
            self.refuse()
            await asyncio.sleep(down_s)
            await self.listen()
            await asyncio.sleep(up_s)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        try:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                server_reader, server = await asyncio.open_connection("127.0.0.1", self.target_port)
                pair = _Pair(writer, server)
                self._pairs.add(pair)
                try:
                    await self._join(reader, server_reader, pair)
                finally:
                    self._pairs.discard(pair)
                    server.close()
        finally:
            writer.close()

    async def _join(
        self, reader: asyncio.StreamReader, server_reader: asyncio.StreamReader, pair: _Pair
    ) -> None:
        """Both ways at once, until the client is gone or the answers have ended."""
        loop = asyncio.get_running_loop()
        ways = [
            loop.create_task(self._requests(reader, pair.server)),
            loop.create_task(self._answers(server_reader, pair.client)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            if self.is_black_hole and ways[1].done():
                await asyncio.wait(ways)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _requests(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK_BYTES):
            if self.is_black_hole:
                continue
            delay_s = self.delay_requests_s + self.held_back_s()
            if delay_s:
                await asyncio.sleep(delay_s)
            server.write(data)
            await server.drain()

    async def _answers(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK_BYTES):
            if self.is_black_hole:
                continue
            spoil = self._next.popleft() if self._next else self.always
            if spoil.how is How.HANG:
                self.hang()
            await self._healed.wait()
            if not await _spoil(data, spoil, client):
                return

    @property
    def waiting(self) -> int:
        """Spoils of ``next`` that have not happened yet."""
        return len(self._next)


async def _spoil(data: bytes, spoil: Spoil, client: asyncio.StreamWriter) -> bool:
    """Deliver one chunk; False where the connection has ended with it."""
    goes_on = True
    match spoil.how:
        case How.PASS | How.HANG:
            client.write(data)
        case How.DELAY:
            await asyncio.sleep(spoil.seconds)
            client.write(data)
        case How.LOSE:
            pass
        case How.CUT:
            client.write(data[: int(len(data) * spoil.part)])
            goes_on = False
        case How.DROP:
            goes_on = False
        case How.RESET:
            reset(client)
            return False
        case How.DOUBLE:
            client.write(data + data)
        case How.GARBLE:
            client.write(bytes(byte if byte in b"\r\n" else byte | 0x80 for byte in data))
        case How.SPLIT:
            for place in range(len(data)):
                client.write(data[place : place + 1])
                await client.drain()
                await asyncio.sleep(spoil.seconds)
        case How.STRAY:
            client.write(b"\n" + data)
    await client.drain()
    return goes_on


def reset(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
