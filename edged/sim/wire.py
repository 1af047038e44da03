"""The seam between an instrument of the bench and what leads to it, and the plainest wire."""

from __future__ import annotations

import asyncio
import enum
from typing import Final, Protocol

from edged.sim.framing import Framer
from edged.sim.listener import LOOPBACK, TcpListener, reset
from edged.sim.visit import Mouth, Visit

__all__ = ["Host", "SocketWire", "Wire", "WireKind"]

READ_BYTES: Final = 65_536


class WireKind(enum.StrEnum):
    """What can lead to an instrument; the text is what ``--transport`` calls it."""

    SOCKET = "socket"
    VXI11 = "vxi11"
    HISLIP = "hislip"
    SERIAL = "serial"
    PROLOGIX = "prologix"


class Host(Protocol):
    """The instrument's place, as its wire sees it."""

    @property
    def name(self) -> str:
        """The instrument's name on the bench."""
        ...

    def join(self, mouth: Mouth) -> Visit | None:
        """A reader has come; None: not now."""
        ...


class Wire(Protocol):
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
        """See ``Mouth``."""
        if not self._writer.is_closing():
            self._writer.write(data)
            await self._writer.drain()

    def end(self) -> None:
        """See ``Mouth``."""
        self._writer.close()

    def reset(self) -> None:
        """See ``Mouth``."""
        reset(self._writer)


class SocketWire:
    """A raw TCP socket; see ``Wire``."""

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
        """See ``Wire``."""
        return f"TCPIP::{self._at}::{self.port}::SOCKET"

    @property
    def port(self) -> int:
        """See ``Wire``."""
        return self._listener.port

    @property
    def is_listening(self) -> bool:
        """See ``Wire``."""
        return self._listener.is_listening

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visit = self._host.join(StreamMouth(writer))
        if visit is None:
            reset(writer)
            return
        framer = Framer()
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
