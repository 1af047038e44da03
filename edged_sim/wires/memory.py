"""A wire in memory: an instrument of the bench and an engine's line to it on one event loop.

The engine's end is ``edged/transports/in_memory.py``, of which nothing is known here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from edged_sim.wires.stream import Host, LineFramer, Visit

FIRST_PORT: Final = 5025


class MemoryWire:
    """One way to one instrument; see ``SimWire``.

    Args:
        host: the instrument's place.
        number: tells it from the others; from 0.
    """

    def __init__(self, host: Host, number: int) -> None:
        self._host = host
        self.port = FIRST_PORT + number
        self.address = f"TCPIP::127.0.0.1::{self.port}::SOCKET"
        self.is_listening = True

    async def open(self, port: int) -> None:
        """See ``SimWire``: it is there."""

    async def power_on(self) -> None:
        self.is_listening = True

    def power_off(self) -> None:
        self.is_listening = False

    async def close(self) -> None:
        self.is_listening = False

    def join(
        self, say: Callable[[bytes], None], end: Callable[[], None]
    ) -> MemoryConnection | None:
        """Connect; ``None``: not now.

        Args:
            say: takes what the instrument says.
            end: called when the instrument closes the connection.
        """
        visit = self._host.join(_Mouth(say, end)) if self.is_listening else None
        return (
            None if visit is None else MemoryConnection(visit, LineFramer(self._host.message_end))
        )


class MemoryConnection:
    """One reader at the instrument."""

    def __init__(self, visit: Visit, framer: LineFramer) -> None:
        self._visit = visit
        self._framer = framer
        self._leaving: asyncio.Task[None] | None = None

    def hear(self, data: bytes) -> bool:
        """Bytes for the instrument; False: it takes no more now, and some of them are lost."""
        self._visit.arrived(data)
        return all(self._visit.hear_at_once(message) for message in self._framer.feed(data))

    def leave(self) -> None:
        """The reader is gone; what it had sent is still done."""
        self._leaving = asyncio.get_running_loop().create_task(self._visit.finish())


class _Mouth:
    """See ``Mouth``."""

    is_stream = True

    def __init__(self, say: Callable[[bytes], None], end: Callable[[], None]) -> None:
        self._say = say
        self.end = end
        self.reset = end

    async def say(self, data: bytes, *, is_end: bool, tag: int) -> None:  # noqa: ARG002 - the seam's
        self._say(data)
