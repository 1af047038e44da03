"""``USB::vendor::product::serial::INSTR``: USBTMC 1.0 with USB488, through pyusb.

PyVISA finds and opens the device; transfers are made here, on that session's device and endpoints.
pyvisa-py's own read waits inside one transfer for the whole time limit, and has no ``clear``. Here
an answer is asked for once and then waited for in slices, between which a pre-emption is heard; a
dirty line is made clean by INITIATE_CLEAR, and where the device does not do that, by one reset of
its port and by opening it anew.
"""

from __future__ import annotations

import contextlib
import errno
import re
import struct
from collections.abc import Iterator
from typing import Any, Final

from edged.clock import Clock
from edged.profiles.model import Connection
from edged.transports.link import (
    LinkError,
    LinkGarbled,
    LinkLost,
    LinkTimeout,
    OpenResource,
    translated,
)
from edged.transports.message import MessageLinkBase
from edged.transports.tcp import Opener

SLICE_MS: Final = 100
"""How long one transfer waits before a pre-emption is heard."""
HEADER_BYTES: Final = 12
MESSAGE_OUT: Final = 1
MESSAGE_IN: Final = 2
END_OF_MESSAGE: Final = 1
ALIGNMENT_BYTES: Final = 3
"""A transfer has a multiple of four bytes."""
TEXT: Final = re.compile(rb"[\t\r\n\x20-\x7e]+")
READ_BYTES: Final = 64 * 1024

CLASS_REQUEST_IN: Final = 0xA1
"""bmRequestType: device to host, class, interface."""
ENDPOINT_REQUEST_IN: Final = 0xA2
"""The same to an endpoint."""
INITIATE_ABORT_IN: Final = 3
CHECK_ABORT_IN: Final = 4
INITIATE_CLEAR: Final = 5
CHECK_CLEAR: Final = 6
READ_STATUS_BYTE: Final = 128
USB488: Final = 1
"""bInterfaceProtocol of an instrument that has a status byte at all."""
STATUS_TAGS: Final = (2, 127)
INTERRUPT_BUSY: Final = 0x20
INTERRUPT_WITHIN_S: Final = 0.5
"""A device that has an interrupt endpoint tells its status by it, and at once."""
SUCCESS: Final = 1
PENDING: Final = 2
CLEAR_WITHIN_S: Final = 1.0
CLEAR_POLL_S: Final = 0.02
TIMED_OUT: Final = frozenset({errno.ETIMEDOUT, -errno.ETIMEDOUT, 110, 10060})


class UsbtmcLink(MessageLinkBase):
    """See ``Link``."""

    def __init__(self, address: str, open_resource: OpenResource, clock: Clock) -> None:
        super().__init__(clock)
        self._address = address
        self._opener = Opener(address, open_resource, self._wake, clock)
        self._resource: Any = None
        # pyvisa-py's USBTMC object with its pyusb device; None while closed.
        self._device: Any = None
        self._tag = 0
        # One message is asked for at a time at most; True while its transfer has not come.
        self._is_asked = False
        self._chunk_bytes = READ_BYTES
        self._was_reset = False
        self._status_tag = STATUS_TAGS[0]

    def tune(self, connection: Connection) -> None:
        """See ``Link``: how much is asked for in one transfer."""
        self._chunk_bytes = connection.chunk_bytes or READ_BYTES

    def open(self, timeout_s: float) -> None:
        self.close()
        self._resource = self._opener.open(timeout_s)
        try:
            with translated(f"opening {self._address}"):
                self._device = self._resource.visalib.sessions[self._resource.session].interface
        except LinkError:
            self.close()
            raise
        self._status.opened()

    def write(self, data: bytes, timeout_s: float) -> None:
        """See ``Link``. A device that is busy refuses to take it until it is not."""
        deadline = self._clock.monotonic() + timeout_s
        if self._is_asked:
            self._abort_asked(deadline)
        self._forget_answer()
        head = struct.pack("<BBBxLBxxx", MESSAGE_OUT, *self._next_tag(), len(data), END_OF_MESSAGE)
        self._put(head + data + bytes(-len(data) % 4), deadline)

    def pending(self) -> bytes:
        """See ``Link``: a device says nothing that it was not asked for."""
        self._opened()
        return self._answer.take_rest()

    def clear(self, timeout_s: float) -> bool:
        """See ``Link``: INITIATE_CLEAR, which also ends a transfer that is under way."""
        deadline = self._clock.monotonic() + min(timeout_s, CLEAR_WITHIN_S)
        try:
            with translated("clearing"):
                is_clear = self._cleared(deadline)
        except (LinkTimeout, LinkLost):
            is_clear = False
        if is_clear:
            self._forget_answer()
            self._was_reset = False
        else:
            self._reset_once()
        return is_clear

    def close(self) -> None:
        resource, self._resource = self._resource, None
        self._device = None
        self._forget_answer()
        if resource is not None:
            with contextlib.suppress(LinkError), translated("closing"):
                resource.close()

    def _more(self, deadline: float) -> None:
        """Add the next transfer of this answer to it."""
        if not self._is_asked:
            head = struct.pack("<BBBxLBBxx", MESSAGE_IN, *self._next_tag(), self._chunk_bytes, 0, 0)
            self._put(head, deadline)
            self._is_asked = True
        packet = int(self._opened().usb_recv_ep.wMaxPacketSize)
        asked = (self._chunk_bytes + HEADER_BYTES) // packet * packet + packet
        data = self._get(asked, deadline)
        if len(data) < HEADER_BYTES:
            raise LinkGarbled("a transfer is shorter than its head", came=data)
        kind, tag, inverse, size, attributes = struct.unpack("<BBBxLB", data[:9])
        if (kind, tag, inverse) != (MESSAGE_IN, self._tag, ~self._tag & 0xFF):
            raise LinkGarbled("a transfer belongs to another question", came=data)
        if size > self._chunk_bytes:
            raise LinkGarbled(f"a transfer announces {size} bytes", came=data)
        body = data[HEADER_BYTES:]
        try:
            while len(body) < size:
                body += self._get(asked, deadline)
        except (LinkTimeout, LinkLost, LinkGarbled) as ended:
            ended.came = body
            raise
        self._is_asked = False
        has_end = bool(attributes & END_OF_MESSAGE)
        self._answer.add(_without_padding(body, size, has_end=has_end), has_end=has_end)

    def _put(self, data: bytes, deadline: float) -> None:
        """Write one transfer, in slices while the device does not take it."""
        endpoint = self._opened().usb_send_ep
        while data:
            self._wake.check()
            if self._clock.monotonic() >= deadline:
                raise LinkTimeout("the instrument takes nothing")
            with contextlib.suppress(LinkTimeout), _usb("writing"):
                data = data[int(endpoint.write(data, SLICE_MS)) :]

    def _get(self, count: int, deadline: float) -> bytes:
        """What the next transfer brings, at most ``count`` bytes."""
        endpoint = self._opened().usb_recv_ep
        while True:
            self._wake.check()
            if self._clock.monotonic() >= deadline:
                raise LinkTimeout("nothing came before the time limit")
            with contextlib.suppress(LinkTimeout), _usb("reading"):
                data = bytes(endpoint.read(count, SLICE_MS))
                if data:
                    return data

    def _abort_asked(self, deadline: float) -> None:
        """Take back what was asked for in vain: its answer would come to the next question."""
        device = self._opened()
        usb, endpoint = device.usb_dev, device.usb_recv_ep
        with contextlib.suppress(LinkTimeout, LinkGarbled), _usb("aborting a read"):
            answer = usb.ctrl_transfer(
                ENDPOINT_REQUEST_IN,
                INITIATE_ABORT_IN,
                self._tag,
                endpoint.bEndpointAddress,
                2,
                SLICE_MS,
            )
            while answer[0] in {SUCCESS, PENDING} and self._clock.monotonic() < deadline:
                with contextlib.suppress(LinkTimeout), _usb("reading"):
                    endpoint.read(READ_BYTES, SLICE_MS)
                answer = usb.ctrl_transfer(
                    ENDPOINT_REQUEST_IN, CHECK_ABORT_IN, 0, endpoint.bEndpointAddress, 8, SLICE_MS
                )
                if answer[0] == SUCCESS:
                    break
                self._wake.pause(CLEAR_POLL_S, self._clock)

    def _cleared(self, deadline: float) -> bool:
        device = self._opened()
        number = device.usb_intf.bInterfaceNumber
        usb = device.usb_dev
        answer = usb.ctrl_transfer(CLASS_REQUEST_IN, INITIATE_CLEAR, 0, number, 1, SLICE_MS)
        if answer[0] != SUCCESS:
            return False
        while self._clock.monotonic() < deadline:
            answer = usb.ctrl_transfer(CLASS_REQUEST_IN, CHECK_CLEAR, 0, number, 2, SLICE_MS)
            if answer[0] == SUCCESS:
                usb.clear_halt(device.usb_send_ep.bEndpointAddress)
                return True
            if answer[0] != PENDING:
                return False
            if answer[1] & 1:
                # The device wants what it has sent already to be read away first.
                with contextlib.suppress(LinkTimeout), _usb("reading"):
                    device.usb_recv_ep.read(READ_BYTES, SLICE_MS)
            self._wake.pause(CLEAR_POLL_S, self._clock)
        return False

    def _read_status(self, deadline: float) -> int | None:
        device = self._opened()
        interface = device.usb_intf
        if interface.bInterfaceProtocol != USB488:
            return None
        while True:
            self._wake.check()
            if self._clock.monotonic() >= deadline:
                raise LinkTimeout("the instrument does not tell its status byte")
            lowest, highest = STATUS_TAGS
            self._status_tag = self._status_tag + 1 if self._status_tag < highest else lowest
            try:
                answer = self._status_answer(device, interface.bInterfaceNumber)
            except LinkGarbled:  # a stall: the request is not known
                return None
            if answer and answer[0] == INTERRUPT_BUSY:
                self._notified(device.usb_intr_in, deadline)
            elif answer:
                is_told = len(answer) == 3 and (answer[0], answer[1]) == (SUCCESS, self._status_tag)
                if not is_told or device.usb_intr_in is None:
                    return answer[2] if is_told else None
                return self._notified(device.usb_intr_in, deadline)

    def _status_answer(self, device: Any, interface: int) -> bytes:
        """The answer to READ_STATUS_BYTE; empty where none came within a slice."""
        with contextlib.suppress(LinkTimeout), _usb("asking for the status byte"):
            return bytes(
                device.usb_dev.ctrl_transfer(
                    CLASS_REQUEST_IN, READ_STATUS_BYTE, self._status_tag, interface, 3, SLICE_MS
                )
            )
        return b""

    def _notified(self, endpoint: Any, deadline: float) -> int | None:
        """The status byte by the interrupt endpoint; service requests before it are dropped."""
        until = min(deadline, self._clock.monotonic() + INTERRUPT_WITHIN_S)
        while self._clock.monotonic() < until:
            self._wake.check()
            with contextlib.suppress(LinkTimeout), _usb("reading the status byte"):
                data = bytes(endpoint.read(int(endpoint.wMaxPacketSize), SLICE_MS))
                if len(data) >= 2 and data[0] == 0x80 | self._status_tag:
                    return data[1]
        return None

    def _reset_once(self) -> None:
        """Reset the device's port, once for each time it got stuck: more never helped anybody."""
        if self._was_reset or self._device is None:
            return
        self._was_reset = True
        with contextlib.suppress(LinkError), translated("resetting"):
            self._device.usb_dev.reset()

    def _next_tag(self) -> tuple[int, int]:
        self._tag = self._tag % 255 + 1
        return self._tag, ~self._tag & 0xFF

    def _forget_answer(self) -> None:
        self._answer.forget()
        self._is_asked = False

    def _opened(self) -> Any:
        if self._device is None:
            raise LinkLost("not connected")
        return self._device


def _without_padding(body: bytes, size: int, *, has_end: bool) -> bytes:
    """The data of a transfer that announces ``size`` bytes; three more may be padding.

    Some devices announce fewer bytes of a text than they send (Siglent SDG1000X, pyvisa-py issues
    449 and 465).

    Raises:
        LinkGarbled: there are more, and no text goes on in them.
    """
    data, more = body[:size], body[size:]
    text = more.rstrip(b"\x00")
    is_text = bool(text) and not TEXT.sub(b"", data + text)
    is_whole = has_end and data.endswith(b"\n")
    if len(more) <= ALIGNMENT_BYTES:
        # As many bytes as alignment takes may hold anything at the end of a message.
        is_aligned = has_end and len(more) <= -size % 4 and not text.endswith(b"\n")
        return data + text if is_text and not is_aligned and not is_whole else data
    if not text and is_whole:
        return data
    if is_text and len(more) - len(text) <= ALIGNMENT_BYTES:
        return data + text
    raise LinkGarbled(f"a transfer announces {size} bytes and brings {len(body)}", came=body)


@contextlib.contextmanager
def _usb(doing: str) -> Iterator[None]:
    """Pyusb's errors by number: a time limit, a stall, anything else is an unplugged cable."""
    with translated(doing):
        try:
            yield
        except OSError as error:
            if error.errno in TIMED_OUT or type(error).__name__ == "USBTimeoutError":
                raise LinkTimeout(f"{doing} took too long") from error
            if error.errno == errno.EPIPE:
                raise LinkGarbled(f"{doing} failed: the instrument stalled") from error
            raise
