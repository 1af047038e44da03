"""A USBTMC device with USB488, for one instrument: over usbip, where the kernel has its vhci_hcd.

The kernel is handed one end of a socket pair and takes the other for a USB device on another
machine; what it wants of the device (URBs) comes over it. Nothing listens on the network. Written
from USBTMC 1.0, USB488 1.0 and the kernel's Documentation/usb/usbip_protocol.rst. Where there is no
vhci_hcd, ``why_not`` says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import struct
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from edged.errors import Invalid
from edged_sim.faults import FaultKind
from edged_sim.output import HeldOutput
from edged_sim.wires.stream import Host, Visit

VENDOR: Final = 0x1209
PRODUCT: Final = 0x0001
"""pid.codes' vendor, and its product for what is tried and never sold."""
PACKET_BYTES: Final = 64
BULK_OUT: Final = 1
BULK_IN: Final = 2
FULL_SPEED: Final = 2
HEADER: Final = struct.Struct(">5I28s")
SUBMIT: Final = struct.Struct(">IiIii8s")
RET_SUBMIT: Final = struct.Struct(">5I5i8x")
RET_UNLINK: Final = struct.Struct(">5Ii24x")
CMD_SUBMIT, CMD_UNLINK, RETURN_SUBMIT, RETURN_UNLINK = 1, 2, 3, 4
TO_HOST: Final = 1
STALLED: Final = -32
UNLINKED: Final = -104
LONGEST_TRANSFER: Final = 4 * 1024 * 1024

GET_DESCRIPTOR: Final = 6
STANDARD: Final[Mapping[int, bytes]] = MappingProxyType(
    {0: bytes(2), 1: b"", 5: b"", 8: b"\x01", 9: b"", 10: b"\x00", 11: b""}
)
"""Answers to GET_STATUS, CLEAR_FEATURE, SET_ADDRESS, GET_ and SET_CONFIGURATION, GET_ and
SET_INTERFACE: there is one of each, and it is never halted."""
INITIATE_ABORT_OUT, CHECK_ABORT_OUT, INITIATE_ABORT_IN, CHECK_ABORT_IN = 1, 2, 3, 4
INITIATE_CLEAR, CHECK_CLEAR, GET_CAPABILITIES, READ_STATUS = 5, 6, 7, 128
REN_CONTROL, GO_TO_LOCAL, LOCAL_LOCKOUT = 160, 161, 162
SUCCESS, FAILED = 1, 0x80
MESSAGE_OUT, REQUEST_IN, MESSAGE_IN = 1, 2, 2
END_OF_MESSAGE: Final = 1
CLASS_REQUEST: Final = 0x20
PATIENCE_S: Final = 3600.0

DEVICE: Final = struct.pack(
    "<BBHBBBBHHHBBBB", 18, 1, 0x0200, 0, 0, 0, PACKET_BYTES, VENDOR, PRODUCT, 0x0100, 1, 2, 3, 1
)
CONFIGURATION: Final = (
    struct.pack("<BBHBBBBB", 9, 2, 32, 1, 1, 0, 0xC0, 0)
    + bytes((9, 4, 0, 0, 2, 0xFE, 3, 1, 0))
    + struct.pack("<BBBBHB", 7, 5, BULK_OUT, 2, PACKET_BYTES, 0)
    + struct.pack("<BBBBHB", 7, 5, 0x80 | BULK_IN, 2, PACKET_BYTES, 0)
)
"""One interface: class 0xFE, subclass 3 (USBTMC), protocol 1 (USB488), a bulk endpoint each way."""
CAPABILITIES: Final = bytes((SUCCESS, 0, 0, 1, 0, 0, *bytes(6), 0, 1, 4, 0, *bytes(8)))
LANGUAGES: Final = bytes((4, 3, 0x09, 0x04))


class UsbBus(Protocol):
    """Where a device is plugged in."""

    def why_not(self) -> str:
        """Why nothing can be plugged in; empty where it can."""
        ...

    def plug(self, connection: socket.socket) -> int:
        """Plug in what speaks at the other end of ``connection``; the port's number."""
        ...

    def unplug(self, port: int) -> None:
        """Take it out."""
        ...


class KernelBus:
    """The machine's own, by usbip's vhci_hcd.

    Args:
        place: where the kernel has it.
    """

    def __init__(self, place: Path = Path("/sys/devices/platform/vhci_hcd.0")) -> None:
        self._place = place

    def why_not(self) -> str:
        if not (self._place / "attach").exists():
            return (
                "This kernel has no vhci_hcd (usbip, of Linux alone), by which a simulated USB "
                "device is plugged in: load it with `modprobe vhci-hcd` as root, if it was built."
            )
        if not os.access(self._place / "attach", os.W_OK):
            return "Only root may plug in a simulated USB device (usbip's vhci_hcd)."
        return ""

    def plug(self, connection: socket.socket) -> int:
        for status in sorted(self._place.glob("status*")):
            # hub, port, status (4: free), …; super speed has hubs of its own.
            for line in status.read_text(encoding="ascii").splitlines():
                found = re.match(r"hs\s+(\d+)\s+0*4\s", line)
                if found is not None:
                    port = int(found[1])
                    order = f"{port} {connection.fileno()} {port + 1} {FULL_SPEED}"
                    (self._place / "attach").write_text(order, encoding="ascii")
                    return port
        raise Invalid("No port of usbip's vhci_hcd is free.", remedy="`usbip port` lists them.")

    def unplug(self, port: int) -> None:
        with contextlib.suppress(OSError):
            (self._place / "detach").write_text(f"{port}", encoding="ascii")


class UsbtmcWire:
    """See ``Wire``: one device, whose serial number is the instrument's name on the bench."""

    def __init__(self, host: Host, bus: UsbBus) -> None:
        self._host = host
        self._bus = bus
        self._plugged = -1
        self._serving: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        return f"USB0::0x{VENDOR:04X}::0x{PRODUCT:04X}::{self._host.name}::INSTR"

    @property
    def port(self) -> int:
        return 0

    @property
    def is_listening(self) -> bool:
        return self._plugged >= 0

    async def open(self, port: int) -> None:
        if port:
            raise Invalid("A USB device has no TCP port.")
        why_not = self._bus.why_not()
        if why_not:
            raise Invalid(why_not, remedy="The other transports need nothing of the kernel.")
        await self.power_on()

    async def power_on(self) -> None:
        if self.is_listening:
            return
        ours, theirs = socket.socketpair()
        with theirs:
            self._plugged = self._bus.plug(theirs)
        reader, writer = await asyncio.open_connection(sock=ours)
        self._serving = asyncio.get_running_loop().create_task(self._serve(reader, writer))

    def power_off(self) -> None:
        """See ``Wire``: pulled out."""
        if self.is_listening:
            self._bus.unplug(self._plugged)
            self._plugged = -1
        if self._serving is not None:
            self._serving.cancel()
            self._tasks.add(self._serving)
            self._serving.add_done_callback(self._tasks.discard)
            self._serving = None

    async def close(self) -> None:
        self.power_off()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        output = HeldOutput()
        visit = self._host.join(output)
        if visit is None:
            return
        device = UsbtmcDevice(visit, output, self._host.name, writer)
        try:
            await device.serve(reader)
        except (OSError, EOFError, struct.error):
            pass  # the kernel has let go of it
        finally:
            writer.close()
            device.stop()
            await visit.stop()


class UsbtmcDevice:
    """What the kernel sees, for as long as it is plugged in.

    Args:
        visit: the reader of the instrument that it carries the messages of.
        output: what the instrument says, until it is asked for.
        serial: what the device calls itself by.
        writer: to the kernel.
    """

    def __init__(
        self, visit: Visit, output: HeldOutput, serial: str, writer: asyncio.StreamWriter
    ) -> None:
        self._visit = visit
        self._output = output
        self._serial = serial
        self._writer = writer
        self._incoming = bytearray()
        self._message = bytearray()
        # Of the transfer that was asked for: its tag, who waits for the answer, what is to be sent.
        self._asked = 0
        self._asking: asyncio.Task[None] | None = None
        self._transfer = b""
        self._ends_short = False
        # Transfers that the kernel holds ready: number and length.
        self._ready: deque[tuple[int, int]] = deque()

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Do what the kernel wants, until it lets go."""
        while True:
            head = await reader.readexactly(HEADER.size)
            command, number, _, direction, endpoint, rest = HEADER.unpack(head)
            if command == CMD_UNLINK:
                self._unlink(number, int.from_bytes(rest[:4], "big"))
            elif command == CMD_SUBMIT:
                _, length, _, _, _, setup = SUBMIT.unpack(rest)
                if not 0 <= length <= LONGEST_TRANSFER:
                    return
                data = b"" if direction == TO_HOST else await reader.readexactly(length)
                await self._submitted(number, endpoint, length, setup, data)
            else:
                return
            await self._writer.drain()

    def stop(self) -> None:
        """It is pulled out."""
        self._forget_request()

    async def _submitted(
        self, number: int, endpoint: int, length: int, setup: bytes, data: bytes
    ) -> None:
        if endpoint == 0:
            answer = await self._control(setup)
            if answer is None:
                self._done(number, STALLED)
            else:
                self._done(number, 0, answer[:length], taken=len(data))
        elif endpoint == BULK_OUT:
            await self._bulk_out(data)
            self._done(number, 0, taken=len(data))
        else:
            self._ready.append((number, length))
            self._feed()

    def _done(self, number: int, status: int, data: bytes = b"", *, taken: int = 0) -> None:
        head = RET_SUBMIT.pack(RETURN_SUBMIT, number, 0, 0, 0, status, len(data) or taken, 0, 0, 0)
        self._writer.write(head + data)

    def _unlink(self, number: int, wanted: int) -> None:
        waiting = [entry for entry in self._ready if entry[0] == wanted]
        for entry in waiting:
            self._ready.remove(entry)
        status = UNLINKED if waiting else 0
        self._writer.write(RET_UNLINK.pack(RETURN_UNLINK, number, 0, 0, 0, status))

    async def _bulk_out(self, data: bytes) -> None:
        """A transfer, or a part of one: the header says how long it is."""
        self._incoming += data
        while len(self._incoming) >= 12:
            kind, tag, _, size, attributes = struct.unpack_from("<BBBxLB", self._incoming)
            if kind == REQUEST_IN:
                del self._incoming[:12]
                self._ask(tag, size)
                continue
            whole = 12 + size + -size % 4
            if kind != MESSAGE_OUT or len(self._incoming) < whole:
                if kind != MESSAGE_OUT:
                    self._incoming.clear()
                return
            body = bytes(self._incoming[12 : 12 + size])
            del self._incoming[:whole]
            self._visit.arrived(body)
            self._message += body
            if attributes & END_OF_MESSAGE:
                await self._hear()

    async def _hear(self) -> None:
        whole = bytes(self._message)
        self._message.clear()
        if not self._visit.is_under(FaultKind.KEEP_OUTPUT):
            self._output.clear()
        for message in whole.splitlines():
            if message.strip():
                await self._visit.hear(message)

    def _ask(self, tag: int, size: int) -> None:
        self._forget_request()
        self._asked = tag
        self._asking = asyncio.get_running_loop().create_task(self._answer(tag, size))

    async def _answer(self, tag: int, size: int) -> None:
        while not await self._output.wait(PATIENCE_S):
            pass
        if self._output.was_reset or self._output.has_ended:
            # As one that browns out: the kernel sees it go.
            self._writer.close()
            return
        data, is_end = self._output.fetch(max(1, size))
        head = struct.pack("<BBBxLBxxx", MESSAGE_IN, tag, ~tag & 0xFF, len(data), int(is_end))
        self._transfer = head + data + bytes(-len(data) % 4)
        self._asked = 0
        self._feed()

    def _feed(self) -> None:
        """Hand what is to be sent to the transfers that wait for it."""
        while self._ready and (self._transfer or self._ends_short):
            number, length = self._ready.popleft()
            data, self._transfer = self._transfer[:length], self._transfer[length:]
            self._ends_short = False
            self._done(number, 0, data)

    def _forget_request(self) -> None:
        self._asked = 0
        self._transfer = b""
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.cancel()

    async def _control(self, setup: bytes) -> bytes | None:
        """A control request's answer; ``None`` stalls it."""
        kind, request, value = struct.unpack_from("<BBH", setup)
        if kind & CLASS_REQUEST:
            return await self._class_request(request, value)
        if request == GET_DESCRIPTOR:
            return self._descriptor(value >> 8, value & 0xFF)
        return STANDARD.get(request)

    def _descriptor(self, kind: int, index: int) -> bytes | None:
        match kind:
            case 1:
                return DEVICE
            case 2:
                return CONFIGURATION
            case 3 if index == 0:
                return LANGUAGES
            case 3 if index <= 3:
                text = ("edged", "simulated instrument", self._serial)[index - 1]
                words = text.encode("utf-16-le")
                return bytes((2 + len(words), 3)) + words
            case _:
                return None

    async def _class_request(self, request: int, value: int) -> bytes | None:
        if request == GET_CAPABILITIES:
            return CAPABILITIES
        if request == READ_STATUS:
            waits = self._output.is_waiting or bool(self._transfer)
            return bytes((SUCCESS, value & 0xFF, self._visit.status_byte(is_unread=waits)))
        if request == INITIATE_CLEAR:
            self._incoming.clear()
            self._message.clear()
            self._forget_request()
            await self._visit.forget()
            self._output.clear()
            return bytes((SUCCESS,))
        if request in (INITIATE_ABORT_IN, INITIATE_ABORT_OUT):
            is_in_hand = request == INITIATE_ABORT_IN and self._asked == value & 0xFF
            if is_in_hand:
                self._forget_request()
                self._ends_short = True
                self._feed()
            return bytes((SUCCESS if is_in_hand else FAILED, value & 0xFF))
        if request in (CHECK_ABORT_IN, CHECK_ABORT_OUT):
            return bytes((SUCCESS, *bytes(7)))
        if request == CHECK_CLEAR:
            return bytes((SUCCESS, 0))
        if request in (REN_CONTROL, GO_TO_LOCAL, LOCAL_LOCKOUT):
            return bytes((SUCCESS,))
        return None
