"""Whether the engine lives: by a real request to its RPC listener and one to its MCP listener.

An answer, whatever it says, shows that the engine's event loop turns; so it is a heartbeat too. One
missed answer means little (a machine that is busy, a breakpoint); several in a row mean a hang. But
long before that an engine that does not answer counts as silent, so that nobody waits for it
(``http/pulse.py``). No look leaves a row in the record, which grows by what people and agents do,
not by time (docs/promises.md section 14).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from edged.clock import Clock
from edged.http.pulse import Pulse
from edged.protocol.http_rules import FULL_HEADER
from edged.record import record

EVERY_S: Final = 1.0
ANSWER_WITHIN_S: Final = 2.0
SILENT_AFTER_S: Final = 0.6
"""With the time until a request is in doubt less than the second that its client may wait."""
OWN_DELAY_S: Final = 0.25
"""When we ourselves were held up for longer, an answer may be there that we have not seen yet."""
MISSES_ALLOWED: Final = 3
MAX_ANSWER: Final = 64 * 1024
FULL: Final = f"\r\n{FULL_HEADER}:".encode("ascii")
PING: Final = json.dumps({"jsonrpc": "2.0", "id": "health", "method": "ping"}).encode("ascii")

Ask = Callable[[int, bytes], Awaitable[bool]]
"""Port on loopback and a whole request → whether something answered HTTP there in time."""


@record
class Health:
    """Where to ask.

    Attributes:
        rpc_port: ``None`` while the RPC listener could not be bound.
        mcp_port: ``None`` while the MCP listener is off, or could not be bound.
        hislip_port: the same of the HiSLIP server.
    """

    rpc_port: int | None
    mcp_port: int | None
    mcp_path: str
    hislip_port: int | None = None


def look_at_rpc(port: int) -> bytes:
    """The request to the RPC listener: what it serves there needs no token and leaves no row."""
    return f"GET /alive HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()


def look_at_mcp(port: int, path: str) -> bytes:
    """The request to the MCP listener: a ping without a session."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
        "Content-Type: application/json\r\nAccept: application/json\r\n"
        f"Content-Length: {len(PING)}\r\n\r\n"
    )
    return head.encode("ascii") + PING


async def ask(port: int, request: bytes) -> bool:
    """One request on a connection of its own.

    An engine with as many connections as it takes lives, and must not be ended for that: it says so
    in a header, or closes the connection without a word. A 503 without it is the port proxy's, on
    whose socket a connection lands while the engine's own is gone.
    """
    writer: asyncio.StreamWriter | None = None
    rest = b""
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=MAX_ANSWER)
            writer.write(request)
            line = await reader.readline()
            if line.startswith(b"HTTP/1.1 503"):
                rest = await reader.read(MAX_ANSWER)
    except ConnectionResetError:
        return True
    except (OSError, TimeoutError, ValueError):
        return False
    finally:
        if writer is not None:
            writer.transport.abort()
    if not line or FULL in b"\r\n" + rest:
        return True
    return line.startswith(b"HTTP/1.1 ") and not line.startswith(b"HTTP/1.1 5")


class Watchdog:
    """Watches one life of the engine.

    Args:
        health: where to ask.
        pulse: hears what comes of each look, and may want one sooner.
        clock: for the pauses.
        ask: asks; tests give another.

    Attributes:
        health: where to ask; another may be given when the engine listens in more places.
    """

    def __init__(self, health: Health, *, pulse: Pulse, clock: Clock, ask: Ask = ask) -> None:
        self.health = health
        self._pulse = pulse
        self._clock = clock
        self._ask = ask
        self.misses = 0

    async def until_hung(self) -> str:
        """Return when the engine has not answered several times in a row; says what was silent."""
        self.misses = 0
        while self.misses < MISSES_ALLOWED:
            await self._pause()
            silent = await self._look()
            self.misses = self.misses + 1 if silent else 0
            if self.misses >= MISSES_ALLOWED:
                return silent
        return ""

    async def is_well(self) -> bool:
        """Whether it answers now."""
        return not await self._look()

    async def _pause(self) -> None:
        """Until the next look: shorter where somebody waits in vain, but not once it has missed."""
        if self.misses:
            await self._clock.sleep(EVERY_S)
            return
        await self._first_of(self._clock.sleep(EVERY_S), self._pulse.doubted.wait())

    async def _look(self) -> str:
        """The listener that does not answer, or empty."""
        began_s = self._clock.monotonic()
        self._pulse.doubted.clear()
        looking = asyncio.create_task(self._silent(), name="look at the engine")
        try:
            await self._first_of(self._clock.sleep(SILENT_AFTER_S), asyncio.wait({looking}))
            took_s = self._clock.monotonic() - began_s
            was_heard = looking.done() or self._pulse.heard_s > began_s
            if not was_heard and took_s < SILENT_AFTER_S + OWN_DELAY_S:
                self._pulse.fall_silent()
            silent = await looking
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
        if not silent:
            self._pulse.lived(began_s)
        return silent

    async def _first_of(self, *waits: Coroutine[Any, Any, object]) -> None:
        tasks = [asyncio.create_task(wait) for wait in waits]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _silent(self) -> str:
        """The listener that does not answer, or empty."""
        health = self.health
        rpc, mcp = health.rpc_port, health.mcp_port
        if rpc and not await self._ask(rpc, look_at_rpc(rpc)):
            return "RPC"
        if mcp and not await self._ask(mcp, look_at_mcp(mcp, health.mcp_path)):
            return "MCP"
        return ""
