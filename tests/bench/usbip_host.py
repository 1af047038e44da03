"""The kernel's side of usbip, for a simulated USB device: what is plugged in, pyusb finds.

``UsbipBus`` takes the place of ``KernelBus`` on the bench. What it is handed is spoken to as
vhci_hcd does, in URBs; above that everything is the real one (pyusb, pyvisa-py, our link).
"""

from __future__ import annotations

import errno
import socket
import struct
import threading
from typing import Any

from tests.bench.usb_backend import UsbBus, usb_error
from tests.bench.waiting import HANGS_S

SUBMIT = struct.Struct(">5IIiIii8s")
HEAD = struct.Struct(">5I28s")
OUT, IN = 0, 1
STALLED = -32


class UsbipDevice:
    """One device; what ``FakeBackend`` needs of one, by URBs."""

    vendor, product = 0x1209, 0x0001
    has_interrupt = False

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._number = 0
        self.is_plugged = True
        self.opened = 0
        self.resets = 0
        self.serial = self.text(3)

    def text(self, index: int) -> str:
        """A string descriptor."""
        data = self.control(0x80, 6, 0x0300 | index, 255)
        assert (data[0], data[1]) == (len(data), 3)
        return data[2:].decode("utf-16-le")

    def control(self, kind: int, request: int, value: int, length: int) -> bytes:
        """A control transfer to the host."""
        setup = struct.pack("<BBHHH", kind, request, value, 0, length)
        status, data = self._transfer(0, IN, length, setup=setup)
        if status == STALLED:
            raise usb_error(errno.EPIPE, "Pipe error")
        assert status == 0
        return data

    def control_in(self, request: int, value: int) -> bytes:
        return self.control(0xA1, request, value, 64)

    def bulk_out(self, data: bytes, _timeout_ms: int) -> int:
        # As libusb does, which makes small ones of a large transfer.
        for start in range(0, len(data), 16_384):
            piece = data[start : start + 16_384]
            status, _ = self._transfer(1, OUT, len(piece), data=piece)
            assert status == 0
        return len(data)

    def bulk_in(self, count: int, timeout_ms: int) -> bytes:
        status, data = self._transfer(2, IN, count, within_s=timeout_ms / 1000)
        if status:
            raise usb_error(errno.ETIMEDOUT, "Operation timed out")
        return data

    def forget(self) -> None:
        """Its port was reset."""

    def notify(self) -> None:
        self._connection.close()

    def stop(self) -> None:
        self._connection.close()

    def _transfer(
        self,
        endpoint: int,
        direction: int,
        length: int,
        *,
        setup: bytes = bytes(8),
        data: bytes = b"",
        within_s: float = HANGS_S,
    ) -> tuple[int, bytes]:
        """One URB; one that is not done in time is unlinked."""
        with self._lock:
            try:
                number = self._put(1, direction, endpoint, struct.pack(
                    ">IiIii8s", 0, length, 0, 0, 0, setup
                ), data)  # fmt: skip
                self._connection.settimeout(within_s)
                try:
                    return self._returned(number, direction)
                except TimeoutError:
                    self._connection.settimeout(HANGS_S)
                    unlinking = self._put(2, 0, 0, struct.pack(">I24x", number))
                    return self._unlinked(unlinking, number, direction)
            except OSError as error:
                raise usb_error(errno.ENODEV, "No such device") from error

    def _put(
        self, command: int, direction: int, endpoint: int, rest: bytes, data: bytes = b""
    ) -> int:
        self._number += 1
        head = struct.pack(">5I", command, self._number, 0x10001, direction, endpoint)
        self._connection.sendall(head + rest + data)
        return self._number

    def _returned(self, number: int, direction: int) -> tuple[int, bytes]:
        command, told, *_, rest = HEAD.unpack(self._exactly(HEAD.size))
        assert (command, told) == (3, number)
        status, length = struct.unpack_from(">ii", rest)
        self._connection.settimeout(HANGS_S)
        return status, self._exactly(length) if direction == IN else b""

    def _unlinked(self, unlinking: int, number: int, direction: int) -> tuple[int, bytes]:
        done: tuple[int, bytes] | None = None
        while True:
            command, told, *_, rest = HEAD.unpack(self._exactly(HEAD.size))
            if command == 3:
                # It was done in the same moment.
                assert told == number
                status, length = struct.unpack_from(">ii", rest)
                done = status, self._exactly(length) if direction == IN else b""
                continue
            assert (command, told) == (4, unlinking)
            (status,) = struct.unpack_from(">i", rest)
            return done or (status, b"")

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self._connection.recv(count - len(data))
            if not piece:
                raise usb_error(errno.ENODEV, "No such device")
            data += piece
        return data


class UsbipBus:
    """See ``edged_sim.wires.usbtmc.UsbBus``; what is plugged in waits to be enumerated."""

    def __init__(self, bus: UsbBus, *, why_not: str = "") -> None:
        self._bus = bus
        self._why_not = why_not
        self._connections: dict[int, socket.socket] = {}
        self.devices: dict[int, UsbipDevice] = {}
        self._ports = 0

    def why_not(self) -> str:
        return self._why_not

    def plug(self, connection: socket.socket) -> int:
        self._ports += 1
        self._connections[self._ports] = connection.dup()
        return self._ports

    def enumerate(self) -> None:
        """What the kernel does as soon as something is plugged in."""
        for port, connection in self._connections.items():
            if port not in self.devices:
                device: Any = UsbipDevice(connection)
                self.devices[port] = device
                self._bus.devices.append(device)

    def unplug(self, port: int) -> None:
        connection = self._connections.pop(port)
        device: Any = self.devices.pop(port, None)
        if device is not None:
            self._bus.unplug(device)
        connection.close()
