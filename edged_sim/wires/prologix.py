"""A Prologix GPIB-ETHERNET adapter with the instruments of the bench that are put behind it.

Lines that begin with ``++`` are for the adapter, everything else goes to the addressed instrument.
ESC takes the meaning from CR, LF, ESC and + in data. The adapter does one thing after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from edged_sim.faults import FaultKind
from edged_sim.output import HeldOutput
from edged_sim.wires.stream import LOOPBACK, Host, TcpListener, Visit

VERSION: Final = b"Prologix GPIB-ETHERNET Controller version 1.6.6.0\r\n"
READ_BYTES: Final = 65_536
ESCAPE: Final = 0x1B
ENDS: Final = b"\r\n"
QUIET: Final = frozenset({"mode", "savecfg", "eos", "eoi", "ifc", "loc"})
"""Orders that are taken note of and change nothing here."""
HIGHEST_ADDRESS: Final = 30


class PrologixWire:
    """One instrument's place on the bus; see ``Wire``."""

    def __init__(self, host: Host, adapter: SimulatedAdapter) -> None:
        self._adapter = adapter
        self._host = host
        self._output = HeldOutput()
        self._visit: Visit | None = None
        self.gpib = 0
        self._is_on = False

    @property
    def address(self) -> str:
        return f"PRLGX-TCPIP::{LOOPBACK}::{self.port}::{self.gpib}::INSTR"

    @property
    def port(self) -> int:
        """See ``Wire``: the adapter's."""
        return self._adapter.port

    @property
    def is_listening(self) -> bool:
        return self._is_on

    async def open(self, port: int) -> None:
        await self._adapter.attach(self, port)
        await self.power_on()

    async def power_on(self) -> None:
        if not self._is_on:
            self._is_on = True
            self._output = HeldOutput()
            self._visit = self._host.join(self._output)

    def power_off(self) -> None:
        """See ``Wire``: the adapter stays, this instrument talks no more."""
        self._is_on = False
        visit, self._visit = self._visit, None
        if visit is not None:
            asyncio.get_running_loop().create_task(visit.stop())

    async def close(self) -> None:
        if self._visit is not None:
            await self._visit.stop()
        await self._adapter.detach(self)

    async def hear(self, data: bytes) -> None:
        """Data for this instrument; new ones interrupt an answer that was not fetched."""
        if self._visit is None:
            return
        self._visit.arrived(data)
        if not self._visit.is_under(FaultKind.KEEP_OUTPUT):
            self._output.clear()
        for message in data.splitlines():
            if message.strip():
                await self._visit.hear(message)

    async def talk(self, seconds: float, mark: bytes) -> bytes:
        """What it says until it asserts EOI, or nothing more comes for so long.

        Args:
            mark: what the adapter puts behind EOI.
        """
        said = b""
        is_end = False
        while not is_end and await self._output.wait(seconds):
            data, is_end = self._output.fetch(READ_BYTES)
            if self._output.has_ended or self._output.was_reset:
                self._output.has_ended = self._output.was_reset = False
                return said + data
            said += data
        return said + mark if is_end else said

    def poll(self) -> bytes:
        """What a serial poll brings: the status byte in digits; nothing of who is switched off."""
        if self._visit is None:
            return b""
        return b"%d\r\n" % self._visit.status_byte(is_unread=self._output.is_waiting)

    async def clear(self) -> None:
        """Selected device clear."""
        if self._visit is not None:
            await self._visit.forget()
            self._output.clear()


class SimulatedAdapter:
    """The adapter itself; takes one connection at a time, as the real one does."""

    def __init__(self) -> None:
        self._listener = TcpListener(self._serve)
        self._places: dict[int, PrologixWire] = {}
        self._is_taken = False

    @property
    def port(self) -> int:
        """Its TCP port; known once an instrument is attached."""
        return self._listener.port

    async def attach(self, wire: PrologixWire, port: int) -> None:
        """Put an instrument on the bus; the first opens the adapter's port."""
        if not self._places:
            await self._listener.open(port)
        wire.gpib = next(n for n in range(1, HIGHEST_ADDRESS + 1) if n not in self._places)
        self._places[wire.gpib] = wire

    async def detach(self, wire: PrologixWire) -> None:
        """Take it off; with the last the port closes."""
        self._places.pop(wire.gpib, None)
        if not self._places:
            await self._listener.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_taken:
            return
        self._is_taken = True
        try:
            controller = Controller(self._places, writer)
            while data := await reader.read(READ_BYTES):
                for line in controller.split(data):
                    await controller.do(line)
                    await writer.drain()
        finally:
            self._is_taken = False


class Controller:
    """One connection's state: who is addressed, how reads are done."""

    def __init__(self, places: Mapping[int, PrologixWire], writer: asyncio.StreamWriter) -> None:
        self._places = places
        self._writer = writer
        self._rest = bytearray()
        self._is_escaped = False
        self._starts_escaped = False
        self._gpib = 0
        self._is_auto = True  # as the adapter comes out of its box
        self._read_s = 0.5
        self._eot_char = 0
        self._marks_ends = False

    def split(self, data: bytes) -> list[tuple[bytes, bool]]:
        """Whole lines, unescaped, and whether each is an order to the adapter."""
        lines = []
        for byte in data:
            if self._is_escaped:
                self._starts_escaped = self._starts_escaped or not self._rest
                self._rest.append(byte)
                self._is_escaped = False
            elif byte == ESCAPE:
                self._is_escaped = True
            elif byte in ENDS:
                if self._rest:
                    is_order = self._rest.startswith(b"++") and not self._starts_escaped
                    lines.append((bytes(self._rest), is_order))
                self._rest.clear()
                self._starts_escaped = False
            else:
                self._rest.append(byte)
        return lines

    async def do(self, line: tuple[bytes, bool]) -> None:
        """One line, to its end."""
        data, is_order = line
        place = self._places.get(self._gpib)
        if not is_order:
            if place is not None:
                await place.hear(data)
                if self._is_auto and b"?" in data:
                    self._writer.write(await place.talk(self._read_s, self._eot))
            return
        word, *values = data[2:].decode("ascii", "replace").split()
        if word == "read":
            if place is not None:
                self._writer.write(await place.talk(self._read_s, self._eot))
        elif word == "spoll":
            if place is not None:
                self._writer.write(place.poll())
        elif word == "clr":
            if place is not None:
                await place.clear()
        elif word in SETTINGS:
            self._writer.write(SETTINGS[word](self, values))
        elif word not in QUIET:
            self._writer.write(b"Unrecognized command\r\n")

    def address(self, values: list[str]) -> bytes:
        if not values:
            return b"%d\r\n" % self._gpib
        self._gpib = int(values[0])
        return b""

    def auto(self, values: list[str]) -> bytes:
        if not values:
            return b"%d\r\n" % self._is_auto
        self._is_auto = values[0] == "1"
        return b""

    def read_limit(self, values: list[str]) -> bytes:
        if not values:
            return b"%d\r\n" % int(self._read_s * 1000)
        self._read_s = min(3000, max(1, int(values[0]))) / 1000
        return b""

    def mark(self, values: list[str]) -> bytes:
        if not values:
            return b"%d\r\n" % self._eot_char
        self._eot_char = int(values[0]) & 0xFF
        return b""

    def mark_ends(self, values: list[str]) -> bytes:
        if not values:
            return b"%d\r\n" % self._marks_ends
        self._marks_ends = values[0] == "1"
        return b""

    @property
    def _eot(self) -> bytes:
        return bytes([self._eot_char]) if self._marks_ends else b""

    def version(self, _values: list[str]) -> bytes:
        return VERSION


SETTINGS: Final[Mapping[str, Callable[[Controller, list[str]], bytes]]] = MappingProxyType(
    {
        "addr": Controller.address,
        "auto": Controller.auto,
        "eot_char": Controller.mark,
        "eot_enable": Controller.mark_ends,
        "read_tmo_ms": Controller.read_limit,
        "ver": Controller.version,
    }
)
