"""A USB bus with USBTMC instruments on it, as a pyusb backend: no hardware, no libusb.

``with usb_bus() as bus``, then ``bus.plug(device)`` and ``bus.unplug(device)``; every layer above
(pyusb, pyvisa-py, ours) is the real one. Devices run on the threads of whoever talks to them, but
for what takes time, which a timer of their own brings.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import struct
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import usb.backend
import usb.backend.libusb1
import usb.core

from tests.bench.waiting import HANGS_S

PACKET_BYTES = 64
HEADER_BYTES = 12
BULK_OUT, BULK_IN, INTERRUPT_IN = 0x01, 0x82, 0x83
STRING_DESCRIPTOR = 0x0300
GET_DESCRIPTOR = 6
LANGUAGES = bytes((4, 3, 0x09, 0x04))

INITIATE_CLEAR, CHECK_CLEAR, GET_CAPABILITIES, READ_STATUS = 5, 6, 7, 128
INITIATE_ABORT_IN, CHECK_ABORT_IN = 3, 4
SUCCESS, PENDING, FAILED = 1, 2, 0x80


def usb_error(number: int, text: str) -> usb.core.USBError:
    kind = usb.core.USBTimeoutError if number == errno.ETIMEDOUT else usb.core.USBError
    return kind(text, error_code=-number, errno=number)


class UsbInstrument:
    """A small SCPI instrument with USBTMC. ``faults`` befall the next answers, one each.

    Faults: ``lose``, ``late`` (0.3 s), ``garbage``, ``short`` (cut in the middle, announced whole),
    ``stall``, ``wrong_tag``, ``double``, ``stray``, ``pieces`` (transfers of 16 bytes), ``unplug``,
    ``extra`` (another message after it), ``second_line`` (another line in it).
    ``keeps_output``: unread answers stay and come before new ones. ``is_deaf_to_clear``: it says
    that it was cleared, and what is under way is answered all the same. ``acknowledges``: what asks
    nothing is answered by ``OK``.
    """

    def __init__(
        self,
        serial: str = "U001",
        *,
        vendor: int = 0x1AB1,
        product: int = 0x0E11,
        idn: str = "",
        can_clear: bool = True,
        has_status: bool = True,
        has_interrupt: bool = False,
    ) -> None:
        self.vendor = vendor
        self.product = product
        self.serial = serial
        self.idn = idn or f"ACME,USB1,{serial},1.0"
        self.can_clear = can_clear
        self.has_status = has_status
        self.has_interrupt = has_interrupt
        self.faults: deque[str] = deque()
        self.received: list[str] = []
        self.special: dict[str, Callable[[], bytes]] = {}
        self.is_plugged = False
        self.takes_nothing = False
        self.keeps_output = False
        self.is_deaf_to_clear = False
        self.acknowledges = False
        # So many bytes of the next transfer are more than it announces.
        self.unannounced = 0
        # It fills its transfers up to a multiple of four bytes.
        self.aligns = True
        self.aborts = 0
        self.clears = 0
        self.resets = 0
        self.opened = 0
        self._news = threading.Condition()
        self._output: deque[bytes] = deque()  # whole messages
        self.notices: deque[bytes] = deque()  # of the interrupt endpoint
        self._asked: tuple[int, int] | None = None  # tag and size of the request in hand
        self._transfer = b""
        self._ends_short = False  # an aborted transfer ends by an empty packet
        self._fate = ""
        self._epoch = 0
        self._timers: list[threading.Timer] = []

    @property
    def address(self) -> str:
        return f"USB0::{self.vendor}::{self.product}::{self.serial}::0::INSTR"

    def heard(self, line: str, within_s: float = HANGS_S) -> bool:
        with self._news:
            return self._news.wait_for(lambda: line in self.received, within_s)

    # What the bus brings

    def bulk_out(self, data: bytes, timeout_ms: int) -> int:
        self._check()
        if self.takes_nothing:
            with self._news:
                self._news.wait(timeout_ms / 1000)
            raise usb_error(errno.ETIMEDOUT, "Operation timed out")
        kind, tag = data[0], data[1]
        (size,) = struct.unpack_from("<L", data, 4)
        if kind == 1:
            self._message(data[12 : 12 + size].decode("latin-1"))
        elif kind == 2:
            with self._news:
                self._asked = (tag, size)
                self._transfer = b""
        return len(data)

    def bulk_in(self, count: int, timeout_ms: int) -> bytes:
        with self._news:
            has_come = self._news.wait_for(
                lambda: (
                    not self.is_plugged
                    or self._ends_short
                    or bool(self._transfer or (self._asked and self._output))
                ),
                timeout_ms / 1000,
            )
            self._check()
            if not has_come:
                raise usb_error(errno.ETIMEDOUT, "Operation timed out")
            if self._ends_short:
                self._ends_short = False
                return b""
            if not self._transfer:
                self._transfer = self._next_transfer()
            if self._fate == "stall":
                self._fate = ""
                raise usb_error(errno.EPIPE, "Pipe error")
            # A short packet ends a transfer; full ones go on as long as the reader has room.
            data, self._transfer = self._transfer[:count], self._transfer[count:]
            return data

    def interrupt_in(self, timeout_ms: int) -> bytes:
        with self._news:
            self._news.wait_for(
                lambda: not self.is_plugged or bool(self.notices), timeout_ms / 1000
            )
            self._check()
            if not self.notices:
                raise usb_error(errno.ETIMEDOUT, "Operation timed out")
            return self.notices.popleft()

    def status(self) -> int:
        with self._news:
            return 0x10 if self._output or self._transfer else 0

    def control_in(self, request: int, value: int) -> bytes:
        self._check()
        if request == READ_STATUS and self.has_status:
            if not self.has_interrupt:
                return bytes((SUCCESS, value, self.status()))
            self.notices.append(bytes((0x80 | value, self.status())))
            return bytes((SUCCESS, value, 0))
        if request == GET_CAPABILITIES:
            return bytes((SUCCESS, 0, 0, 1, 0, 0)) + bytes(8) + bytes((4,)) + bytes(9)
        if request == INITIATE_CLEAR:
            if not self.can_clear:
                return bytes((FAILED,))
            self.clears += 1
            if self.is_deaf_to_clear:
                with self._news:
                    self._output.clear()
                    self._asked = None
                    self._transfer = b""
            else:
                self.forget()
            return bytes((SUCCESS,))
        if request == INITIATE_ABORT_IN:
            with self._news:
                is_in_hand = self._asked is not None and self._asked[0] == value
                if is_in_hand:
                    self._asked, self._transfer, self._ends_short = None, b"", True
                self.aborts += is_in_hand
                return bytes((SUCCESS if is_in_hand else FAILED, value))
        if request in {CHECK_CLEAR, CHECK_ABORT_IN}:
            return bytes((SUCCESS,)) + bytes(7)
        raise usb_error(errno.EPIPE, "Pipe error")

    def forget(self) -> None:
        with self._news:
            self._epoch += 1
            self._output.clear()
            self._asked = None
            self._transfer = b""
            self._fate = ""

    def notify(self) -> None:
        with self._news:
            self._news.notify_all()

    def stop(self) -> None:
        for timer in self._timers:
            timer.cancel()
            timer.join()

    # What the instrument does

    def _check(self) -> None:
        if not self.is_plugged:
            raise usb_error(errno.ENODEV, "No such device (it may have been disconnected)")

    def _message(self, text: str) -> None:
        line = text.strip()
        with self._news:
            self.received.append(line)
            # An answer that was not read is interrupted by the next message (IEEE 488.2).
            if not self.keeps_output:
                self._output.clear()
            self._news.notify_all()
        head, _, rest = line.partition(" ")
        if line in self.special:
            self._answer(self.special[line]())
        elif line == "*IDN?":
            self._answer(self.idn.encode() + b"\n")
        elif head == "ECHO?":
            self._answer(rest.encode() + b"\n")
        elif head == "DELAY?":
            delay, _, text = rest.partition(",")
            self._later(float(delay), (text.strip() or "late").encode() + b"\n")
        elif self.acknowledges and "?" not in line:
            self._answer(b"OK\n")

    def _answer(self, data: bytes) -> None:
        fault = self.faults.popleft() if self.faults else ""
        if fault == "unplug":
            self.is_plugged = False
            self.notify()
            return
        with self._news:
            self._fate = fault
            if fault == "late":
                self._later(0.3, data)
            elif fault == "garbage":
                self._output.append(bytes(byte | 0x80 for byte in data))
            elif fault == "double":
                self._output.extend((data, data))
            elif fault == "stray":
                self._output.append(b"\n" + data)
            elif fault == "extra":
                self._output.extend((data, b"8.888\n"))
            elif fault == "second_line":
                self._output.append(data + b"8.888\n")
            elif fault != "lose":
                self._output.append(data)
            self._news.notify_all()

    def _later(self, seconds: float, data: bytes) -> None:
        epoch = self._epoch

        def bring() -> None:
            with self._news:
                if self._epoch == epoch:
                    self._output.append(data)
                    self._news.notify_all()

        timer = threading.Timer(seconds, bring)
        timer.daemon = True
        self._timers.append(timer)
        timer.start()

    def _next_transfer(self) -> bytes:
        assert self._asked is not None
        tag, size = self._asked
        self._asked = None
        message = self._output.popleft()
        most = min(size, 16) if self._fate == "pieces" else size
        unannounced = self.unannounced
        if unannounced:
            # The Siglent SDG1062X, once: a packet, and the rest in another transfer.
            most, self.unannounced = PACKET_BYTES - HEADER_BYTES + unannounced, 0
        body, rest = message[:most], message[most:]
        if rest:
            self._output.appendleft(rest)
        if self._fate == "wrong_tag":
            tag = tag % 255 + 1
            self._fate = ""
        announced = len(body) - unannounced
        if self._fate == "short":
            body = body[: len(body) // 2]
            self._fate = ""
        head = struct.pack("<BBBxLBxxx", 2, tag, ~tag & 0xFF, announced, 0 if rest else 1)
        return head + body + (bytes(-len(body) % 4) if self.aligns else b"")


class FakeBackend(usb.backend.IBackend):
    """What pyusb needs of a bus."""

    def __init__(self, bus: UsbBus) -> None:
        self._bus = bus

    def enumerate_devices(self) -> Iterator[UsbInstrument]:
        return iter(tuple(self._bus.devices))

    def get_parent(self, _device: UsbInstrument) -> None:
        return None

    def get_device_descriptor(self, device: UsbInstrument) -> Any:
        return SimpleNamespace(
            bLength=18, bDescriptorType=1, bcdUSB=0x200, bDeviceClass=0, bDeviceSubClass=0,
            bDeviceProtocol=0, bMaxPacketSize0=64, idVendor=device.vendor,
            idProduct=device.product, bcdDevice=0x100, iManufacturer=1, iProduct=2,
            iSerialNumber=3, bNumConfigurations=1, bus=1,
            address=self._bus.devices.index(device) + 1 if device in self._bus.devices else 99,
            port_number=1, port_numbers=(1,), speed=3,
        )  # fmt: skip

    def get_configuration_descriptor(self, _device: UsbInstrument, config: int) -> Any:
        if config:
            raise IndexError(config)
        return SimpleNamespace(
            bLength=9, bDescriptorType=2, wTotalLength=32, bNumInterfaces=1, bConfigurationValue=1,
            iConfiguration=0, bmAttributes=0xC0, bMaxPower=0, extra_descriptors=[],
        )  # fmt: skip

    def get_interface_descriptor(
        self, device: UsbInstrument, intf: int, alt: int, _config: int
    ) -> Any:
        if intf or alt:
            raise IndexError(intf)
        return SimpleNamespace(
            bLength=9, bDescriptorType=4, bInterfaceNumber=0, bAlternateSetting=0,
            bNumEndpoints=2 + device.has_interrupt,
            bInterfaceClass=0xFE, bInterfaceSubClass=3, bInterfaceProtocol=1, iInterface=0,
            extra_descriptors=[],
        )  # fmt: skip

    def get_endpoint_descriptor(
        self, _d: UsbInstrument, endpoint: int, _intf: int, _alt: int, _config: int
    ) -> Any:
        return SimpleNamespace(
            bLength=7, bDescriptorType=5,
            bEndpointAddress=(BULK_OUT, BULK_IN, INTERRUPT_IN)[endpoint],
            bmAttributes=(2, 2, 3)[endpoint], wMaxPacketSize=PACKET_BYTES, bInterval=0,
            bRefresh=0, bSynchAddress=0, extra_descriptors=[],
        )  # fmt: skip

    def open_device(self, device: UsbInstrument) -> UsbInstrument:
        if not device.is_plugged:
            raise usb_error(errno.ENODEV, "No such device")
        device.opened += 1
        return device

    def close_device(self, _handle: UsbInstrument) -> None: ...

    def set_configuration(self, _handle: UsbInstrument, _value: int) -> None: ...

    def get_configuration(self, handle: UsbInstrument) -> int:
        if not handle.is_plugged:
            raise usb_error(errno.ENODEV, "No such device")
        return 1

    def set_interface_altsetting(self, _handle: UsbInstrument, _intf: int, _alt: int) -> None: ...

    def claim_interface(self, _handle: UsbInstrument, _intf: int) -> None: ...

    def release_interface(self, _handle: UsbInstrument, _intf: int) -> None: ...

    def is_kernel_driver_active(self, _handle: UsbInstrument, _intf: int) -> bool:
        return False

    def bulk_write(
        self, handle: UsbInstrument, _endpoint: int, _intf: int, data: Any, timeout: int
    ) -> int:
        return handle.bulk_out(data.tobytes(), timeout)

    def bulk_read(
        self, handle: UsbInstrument, _endpoint: int, _intf: int, buff: Any, timeout: int
    ) -> int:
        data = handle.bulk_in(len(buff), timeout)
        for place, byte in enumerate(data):
            buff[place] = byte
        return len(data)

    def intr_read(
        self, handle: UsbInstrument, _endpoint: int, _intf: int, buff: Any, timeout: int
    ) -> int:
        data = handle.interrupt_in(timeout)
        for place, byte in enumerate(data):
            buff[place] = byte
        return len(data)

    def ctrl_transfer(
        self,
        handle: UsbInstrument,
        _kind: int,
        request: int,
        value: int,
        _index: int,
        data: Any,
        _timeout: int,
    ) -> int:
        if request == GET_DESCRIPTOR and value & 0xFF00 == STRING_DESCRIPTOR:
            answer = self._string(handle, value & 0xFF)
        else:
            answer = handle.control_in(request, value)
        answer = answer[: len(data)]
        for place, byte in enumerate(answer):
            data[place] = byte
        return len(answer)

    def clear_halt(self, _handle: UsbInstrument, _endpoint: int) -> None: ...

    def reset_device(self, handle: UsbInstrument) -> None:
        handle.resets += 1
        handle.forget()

    @staticmethod
    def _string(device: UsbInstrument, number: int) -> bytes:
        if number == 0:
            return LANGUAGES
        if not device.is_plugged:
            raise usb_error(errno.ENODEV, "No such device")
        text = ("", "ACME", "USB1", device.serial)[number].encode("utf-16-le")
        return bytes((2 + len(text), 3)) + text


class UsbBus:
    """Where devices are plugged in."""

    def __init__(self) -> None:
        self.devices: list[UsbInstrument] = []

    def plug(self, device: UsbInstrument) -> UsbInstrument:
        device.is_plugged = True
        self.devices.append(device)
        return device

    def unplug(self, device: UsbInstrument) -> None:
        device.is_plugged = False
        self.devices.remove(device)
        device.notify()


@contextlib.contextmanager
def usb_bus() -> Iterator[UsbBus]:
    """A bus that pyusb takes for the machine's own while the context lasts."""
    bus = UsbBus()
    backend = FakeBackend(bus)
    real = usb.backend.libusb1.get_backend
    usb.backend.libusb1.get_backend = lambda *_a, **_k: backend
    try:
        # pyvisa-py gives USB up for the life of the process where it was imported without libusb.
        import pyvisa_py  # noqa: F401 - registers the other sessions first

        if "pyvisa_py.usb" not in sys.modules:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                importlib.import_module("pyvisa_py.usb")
        yield bus
    finally:
        usb.backend.libusb1.get_backend = real
        for device in bus.devices:
            device.stop()
