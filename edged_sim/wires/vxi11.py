"""A VXI-11 server for one instrument: core and abort channel, ONC RPC over TCP, no portmapper."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Final

from edged.record import record
from edged_sim.faults import FaultKind
from edged_sim.output import HeldOutput
from edged_sim.wires.stream import LOOPBACK, Host, TcpListener, Visit, reset

LAST_FRAGMENT: Final = 0x8000_0000
LONGEST_RECORD: Final = 4 * 1024 * 1024
TAKES_BYTES: Final = 64 * 1024
"""What one device_write may carry, as create_link says."""

NO_ERROR, BAD_LINK, NOT_SUPPORTED, OUT_OF_RESOURCES = 0, 4, 8, 9
IO_TIMEOUT, ABORTED = 15, 23
FLAG_END: Final = 8
REASON_COUNT, REASON_END = 1, 4
DEVICE_ABORT: Final = 1
ABORT_PROGRAM: Final = 0x0607B0


class Hangup(Exception):
    """The connection ends now, by a reset or after these bytes of a reply."""

    def __init__(self, *, is_reset: bool, rest: bytes = b"") -> None:
        super().__init__(is_reset)
        self.is_reset = is_reset
        self.rest = rest


@record(frozen=False, kw_only=False, eq=False)
class CreatedLink:
    """One created link: its reader, what is said to it, and a message that is not whole yet."""

    visit: Visit
    output: HeldOutput
    incoming: bytearray = field(default_factory=bytearray)
    is_aborted: bool = False


class Arguments:
    """XDR, as far as VXI-11 uses it."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def integer(self) -> int:
        """An unsigned integer."""
        (value,) = struct.unpack_from(">I", self._data, self._place)
        self._place += 4
        return int(value)

    def opaque(self) -> bytes:
        """Bytes with their length in front, padded to four."""
        length = self.integer()
        data = self._data[self._place : self._place + length]
        self._place += (length + 3) & ~3
        return data


def integers(*values: int) -> bytes:
    """Unsigned integers as XDR."""
    return struct.pack(f">{len(values)}I", *values)


class Vxi11Wire:
    """See ``Wire``. The core channel is the port of the address."""

    def __init__(self, host: Host, at: str = LOOPBACK) -> None:
        self._host = host
        self._at = at
        self._core = TcpListener(self._serve, at)
        self._abort = TcpListener(self._serve_abort, at)
        self._links: dict[int, CreatedLink] = {}
        self._made = 0

    @property
    def address(self) -> str:
        return f"TCPIP::{self._at},{self.port}::inst0::INSTR"

    @property
    def port(self) -> int:
        return self._core.port

    @property
    def is_listening(self) -> bool:
        return self._core.is_listening

    async def open(self, port: int) -> None:
        await self._core.open(port)
        await self._abort.open()

    async def power_on(self) -> None:
        await self._core.power_on()
        await self._abort.power_on()

    def power_off(self) -> None:
        self._core.power_off()
        self._abort.power_off()

    async def close(self) -> None:
        await self._core.close()
        await self._abort.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine: list[int] = []
        is_over = False
        try:
            while True:
                record = await _record(reader)
                head = Arguments(record)
                call_id, _, _, _, _, procedure = (head.integer() for _ in range(6))
                for _ in range(2):  # credentials and verifier
                    head.integer()
                    head.opaque()
                perform = PROCEDURES.get(procedure)
                if perform is None:
                    writer.write(_reply(call_id, b"", status=3))
                else:
                    writer.write(_reply(call_id, await perform(self, head, mine)))
                await writer.drain()
        except Hangup as hangup:
            writer.write(hangup.rest)
            if hangup.is_reset:
                reset(writer)
        except struct.error:
            reset(writer)
        except (OSError, EOFError):
            pass  # the reader is gone, in order or not
        except asyncio.CancelledError:
            is_over = True
            raise
        finally:
            writer.close()
            for link in [link for number in mine if (link := self._links.pop(number, None))]:
                await (link.visit.stop() if is_over else link.visit.finish())

    async def _serve_abort(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            head = Arguments(await _record(reader))
            call_id, _, _, program, _, procedure = (head.integer() for _ in range(6))
            for _ in range(2):
                head.integer()
                head.opaque()
            if (program, procedure) != (ABORT_PROGRAM, DEVICE_ABORT):
                writer.write(_reply(call_id, b"", status=3))
                continue
            link = self._links.get(head.integer())
            if link is not None:
                link.is_aborted = True
                link.output.wake()
            writer.write(_reply(call_id, integers(BAD_LINK if link is None else NO_ERROR)))
            await writer.drain()

    # The procedures: arguments in, result out

    async def create_link(self, _given: Arguments, mine: list[int]) -> bytes:
        """A new link, or out of resources where one reader at a time is taken."""
        output = HeldOutput()
        visit = self._host.join(output)
        if visit is None:
            return integers(OUT_OF_RESOURCES, 0, 0, 0)
        self._made += 1
        self._links[self._made] = CreatedLink(visit, output)
        mine.append(self._made)
        return integers(NO_ERROR, self._made, self._abort.port, TAKES_BYTES)

    async def device_write(self, given: Arguments, _mine: list[int]) -> bytes:
        """A message or a part of one; its last part has END."""
        link = self._links.get(given.integer())
        given.integer(), given.integer()  # time limits
        flags, data = given.integer(), given.opaque()
        if link is None:
            return integers(BAD_LINK, 0)
        link.visit.arrived(data)
        link.incoming += data
        if flags & FLAG_END:
            whole = bytes(link.incoming)
            link.incoming.clear()
            if not link.visit.is_under(FaultKind.KEEP_OUTPUT):
                link.output.clear()
            for message in whole.splitlines():
                if message.strip():
                    await link.visit.hear(message)
        return integers(NO_ERROR, len(data))

    async def device_read(self, given: Arguments, _mine: list[int]) -> bytes:
        """What the instrument says, waited for as long as the caller wants."""
        link = self._links.get(given.integer())
        most, limit_ms = given.integer(), given.integer()
        if link is None:
            return integers(BAD_LINK, 0, 0)
        link.is_aborted = False
        has_come = await link.output.wait(limit_ms / 1000)
        if link.is_aborted:
            return integers(ABORTED, 0, 0)
        if not has_come:
            return integers(IO_TIMEOUT, 0, 0)
        if link.output.was_reset:
            raise Hangup(is_reset=True)
        data, is_end = link.output.fetch(max(1, most))
        reason = REASON_END if is_end else REASON_COUNT if len(data) >= most else 0
        result = integers(NO_ERROR, reason, len(data)) + data + bytes(-len(data) % 4)
        if link.output.has_ended:
            whole = _reply(0, result)
            raise Hangup(is_reset=False, rest=whole[: len(whole) // 2])
        return result

    async def device_clear(self, given: Arguments, _mine: list[int]) -> bytes:
        """Forget what came, what runs and what was said."""
        link = self._links.get(given.integer())
        if link is None:
            return integers(BAD_LINK)
        link.incoming.clear()
        await link.visit.forget()
        link.output.clear()
        return integers(NO_ERROR)

    async def read_status(self, given: Arguments, _mine: list[int]) -> bytes:
        """The status byte, with MAV while something waits to be read."""
        link = self._links.get(given.integer())
        if link is None:
            return integers(BAD_LINK, 0)
        return integers(NO_ERROR, link.visit.status_byte(is_unread=link.output.is_waiting))

    async def nothing(self, given: Arguments, _mine: list[int]) -> bytes:
        """Accepted, and without any effect here."""
        return integers(NO_ERROR if given.integer() in self._links else BAD_LINK)

    async def unsupported(self, _given: Arguments, _mine: list[int]) -> bytes:
        """Not offered by this instrument."""
        return integers(NOT_SUPPORTED)

    async def destroy_link(self, given: Arguments, mine: list[int]) -> bytes:
        """The reader leaves."""
        number = given.integer()
        link = self._links.pop(number, None)
        if link is None:
            return integers(BAD_LINK)
        mine.remove(number)
        await link.visit.finish()
        return integers(NO_ERROR)


Procedure = Callable[[Vxi11Wire, Arguments, list[int]], Awaitable[bytes]]

PROCEDURES: Final[Mapping[int, Procedure]] = MappingProxyType(
    {
        10: Vxi11Wire.create_link,
        11: Vxi11Wire.device_write,
        12: Vxi11Wire.device_read,
        13: Vxi11Wire.read_status,
        14: Vxi11Wire.nothing,  # trigger
        15: Vxi11Wire.device_clear,
        16: Vxi11Wire.nothing,  # remote
        17: Vxi11Wire.nothing,  # local
        18: Vxi11Wire.unsupported,  # lock
        19: Vxi11Wire.unsupported,  # unlock
        20: Vxi11Wire.unsupported,  # enable_srq
        22: Vxi11Wire.unsupported,  # docmd
        23: Vxi11Wire.destroy_link,
        25: Vxi11Wire.unsupported,  # create_intr_chan
        26: Vxi11Wire.unsupported,  # destroy_intr_chan
    }
)


async def _record(reader: asyncio.StreamReader) -> bytes:
    """One call, put together from its fragments; EOFError at the end."""
    record = b""
    while True:
        (mark,) = struct.unpack(">I", await reader.readexactly(4))
        length = mark & ~LAST_FRAGMENT
        if len(record) + length > LONGEST_RECORD:
            raise Hangup(is_reset=True)
        record += await reader.readexactly(length)
        if mark & LAST_FRAGMENT:
            return record


def _reply(call_id: int, result: bytes, status: int = 0) -> bytes:
    """An accepted reply; ``status`` 3 is an unknown procedure."""
    body = integers(call_id, 1, 0, 0, 0, status) + result
    return integers(LAST_FRAGMENT | len(body)) + body
