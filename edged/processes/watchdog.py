"""Whether the engine lives: by a real request to its RPC listener and one to its MCP listener.

An answer, whatever it says, shows that the engine's event loop turns; so it is a heartbeat too. One
missed answer means little (a machine that is busy, a breakpoint); several in a row mean a hang.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from edged.clock import Clock

__all__ = ["Health", "Watchdog", "ask"]

EVERY_S: Final = 1.0
ANSWER_WITHIN_S: Final = 2.0
MISSES_ALLOWED: Final = 3
MAX_ANSWER: Final = 64 * 1024
PING: Final = json.dumps({"jsonrpc": "2.0", "id": "health", "method": "ping"}).encode("ascii")

Ask = Callable[[int, str], Awaitable[bool]]
"""Port and path on loopback → whether something answered HTTP there in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Where to ask.

    Attributes:
        mcp_port: ``None`` while the MCP listener is off, or could not be bound.
    """

    rpc_port: int
    mcp_port: int | None
    mcp_path: str


async def ask(port: int, path: str) -> bool:
    """One POST on a connection of its own."""
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=MAX_ANSWER)
            writer.write(
                (
                    f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
                    "Content-Type: application/json\r\nAccept: application/json\r\n"
                    f"Content-Length: {len(PING)}\r\n\r\n"
                ).encode("ascii")
                + PING
            )
            line = await reader.readline()
    except (OSError, TimeoutError, ValueError):
        return False
    finally:
        if writer is not None:
            writer.transport.abort()
    return line.startswith(b"HTTP/1.1 ") and not line.startswith(b"HTTP/1.1 5")


class Watchdog:
    """Watches one life of the engine.

    Args:
        health: where to ask.
        clock: for the pauses.
        ask: asks; tests give another.
    """

    def __init__(self, health: Health, *, clock: Clock, ask: Ask = ask) -> None:
        self._health = health
        self._clock = clock
        self._ask = ask
        self.misses = 0

    async def until_hung(self) -> str:
        """Return when the engine has not answered several times in a row; says what was silent."""
        self.misses = 0
        while self.misses < MISSES_ALLOWED:
            await self._clock.sleep(EVERY_S)
            silent = await self._silent()
            self.misses = self.misses + 1 if silent else 0
            if self.misses >= MISSES_ALLOWED:
                return silent
        return ""

    async def is_well(self) -> bool:
        """Whether it answers now."""
        return not await self._silent()

    async def _silent(self) -> str:
        """The listener that does not answer, or empty."""
        if not await self._ask(self._health.rpc_port, "/rpc"):
            return "RPC"
        if self._health.mcp_port and not await self._ask(
            self._health.mcp_port, self._health.mcp_path
        ):
            return "MCP"
        return ""
