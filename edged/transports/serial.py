"""``ASRL…::INSTR``: a serial port, through the pyserial port inside of PyVISA's session.

A reopened serial port is no new connection: what the instrument still had to say comes after it.
Lines are therefore taken for answers only after the unit has said who it is (``line.py`` skips what
is not that). Waits go in slices short enough for a stop, on Windows as on Linux. A byte with a
parity or framing error is no part of an answer, where the kernel tells of it (``serial.py``).

Bytes that came spoiled over a serial line: how the kernel marks them, and how they are told.

Linux alone says which byte had a parity or framing error: it puts 0xff 0x00 in front of it, and a
0xff that came as it is comes twice (termios, PARMRK). Elsewhere such a byte passes as it came.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from edged.clock import Clock
from edged.profiles.model import Connection
from edged.transports.address import parse_address
from edged.transports.link import (
    SAME_PORT,
    LinkError,
    LinkGarbled,
    LinkLost,
    LinkTimeout,
    OpenResource,
    translated,
)
from edged.transports.message import MessageLinkBase
from edged.transports.tcp import Opener

SPOILED: Final = 0x1A
"""SUB of ASCII, which stands for a character that is in error."""
MARK: Final = 0xFF


def mark_errors(port: Any) -> bool:
    """Have the kernel mark spoiled bytes of pyserial's port from here on; False where it cannot.

    To be asked for again after each change of the port's settings: pyserial switches it off.
    """
    if sys.platform == "linux":
        import termios

        wanted = termios.INPCK | termios.PARMRK
        unwanted = termios.IGNPAR | termios.ISTRIP | termios.IGNBRK | termios.BRKINT
        with contextlib.suppress(termios.error, OSError, ValueError, AttributeError):
            settings = termios.tcgetattr(port.fileno())
            settings[0] = (settings[0] | wanted) & ~unwanted
            termios.tcsetattr(port.fileno(), termios.TCSANOW, settings)
            return bool(termios.tcgetattr(port.fileno())[0] & termios.PARMRK)
    return False


def is_pseudo_terminal(address: str) -> bool:
    """Whether a port is one end of a pty, as programs make that carry a serial line elsewhere.

    Its driver takes 8 bits without parity alone (Linux ``pty_set_termios``): what the line itself
    has is set at the other end.
    """
    path = address[len("ASRL") :].partition("::")[0]
    return sys.platform == "linux" and os.path.realpath(path).startswith("/dev/pts/")


class Unmarker:
    """Takes the marks out of what is read; a mark may lie between two reads."""

    def __init__(self) -> None:
        # What has come of a mark that is not whole.
        self._begun = b""

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """The bytes as they came over the line, and whether one was spoiled (``SPOILED``)."""
        if not self._begun and MARK not in data:
            return data, False
        data = self._begun + data
        plain = bytearray()
        is_spoiled = False
        place = 0
        while place < len(data):
            byte = data[place]
            rest = len(data) - place
            if byte != MARK:
                plain.append(byte)
                place += 1
            elif rest < 2 or (data[place + 1] == 0 and rest < 3):
                break
            elif data[place + 1] == 0:
                is_spoiled = True
                plain.append(SPOILED)
                place += 3
            else:
                plain.append(MARK)
                place += 2
        self._begun = data[place:]
        return bytes(plain), is_spoiled


SLICE_S: Final = 0.05
"""How long a wait lasts before a pre-emption is heard."""
PARITIES: Final[Mapping[str, str]] = MappingProxyType(
    {"none": "N", "even": "E", "odd": "O", "mark": "M", "space": "S"}
)
FLOWS: Final = ("xonxoff", "rtscts", "dsrdtr")
FLOW_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"xon_xoff": "xonxoff", "rts_cts": "rtscts", "dtr_dsr": "dsrdtr"}
)
WRITE_BYTES: Final = 256
WRITE_SLICE_S: Final = 0.5
"""How long a piece may take to go out; it is as long as the baud rate lets it be. Set once: with
each change of a time limit pyserial sets the whole port anew."""
SPOILED_BYTE: Final = (
    "a byte came with a parity or framing error: compare baud rate, parity, data and stop bits "
    "with the instrument's, and look at the cable"
)


_USING: Final = threading.Lock()
_USED: Final[dict[str, SerialLink]] = {}
"""The devices that are open, links followed."""


class SerialLink(MessageLinkBase):
    """See ``Link``."""

    ends_at_terminator = True

    def __init__(self, address: str, open_resource: OpenResource, clock: Clock) -> None:
        super().__init__(clock)
        self._address = address
        self._opener = Opener(address, open_resource, self._wake, clock)
        self._resource: Any = None
        # pyserial's port; None while closed.
        self._port: Any = None
        self._connection = Connection()
        self._piece_bytes = 1
        # The device behind the path by which it was opened.
        self._device = ""
        # None where nobody tells which bytes were spoiled.
        self._unmarker: Unmarker | None = None

    def tune(self, connection: Connection) -> None:
        if connection is self._connection:
            return
        self._connection = connection
        if self._port is not None:
            with translated("setting the serial port"):
                self._set_up()

    def open(self, timeout_s: float) -> None:
        self.close()
        self._have_to_itself()
        try:
            self._resource = self._opener.open(timeout_s)
            with translated(f"opening {self._address}"):
                self._port = self._resource.visalib.sessions[self._resource.session].interface
                self._port.timeout = SLICE_S
                self._port.write_timeout = WRITE_SLICE_S
                self._set_up()
        except LinkError:
            self.close()
            raise

    def _have_to_itself(self) -> None:
        """Raise where another line has this device open, under another of its paths.

        Raises:
            LinkLost: the other path.
        """
        device = parse_address(self._address).device
        with _USING:
            holder = _USED.get(device)
            if holder is not None and holder._address != self._address:  # noqa: SLF001 - its own
                other = holder._address  # noqa: SLF001
                raise LinkLost(f"{self._address} is another path to {other}", SAME_PORT)
            _USED[device] = self
            self._device = device

    def write(self, data: bytes, timeout_s: float) -> None:
        """See ``Link``. In pieces, between which a pre-emption is heard."""
        deadline = self._clock.monotonic() + timeout_s
        port = self._opened()
        for start in range(0, len(data), self._piece_bytes):
            self._wake.check()
            if self._clock.monotonic() >= deadline:
                raise LinkTimeout("the instrument takes nothing")
            with _serial("writing"):
                port.write(data[start : start + self._piece_bytes])

    def pending(self) -> bytes:
        port = self._opened()
        with _serial("reading"):
            waiting = port.in_waiting
            if waiting:
                self._take(port.read(waiting))
        return self._answer.take_rest()

    def close(self) -> None:
        resource, self._resource = self._resource, None
        self._port = None
        self._answer.forget()
        if resource is not None:
            with contextlib.suppress(LinkError), translated("closing"):
                resource.close()
        with _USING:
            if _USED.get(self._device) is self:
                del _USED[self._device]

    def _set_up(self) -> None:
        """Give the port what the profile or INSTRUMENTS says; the rest stays as it is."""
        port, wanted = self._port, self._connection
        settings = {
            "baudrate": wanted.baud_rate,
            "bytesize": wanted.data_bits,
            "parity": PARITIES.get(wanted.parity or ""),
            "stopbits": wanted.stop_bits,
        }
        if is_pseudo_terminal(self._address):
            settings = {name: settings[name] for name in ("baudrate", "stopbits")}
        for name, value in settings.items():
            if value is not None and getattr(port, name) != value:
                setattr(port, name, value)
        if wanted.flow is not None:
            chosen = FLOW_NAMES.get(wanted.flow, wanted.flow)
            for name in FLOWS:
                setattr(port, name, name == chosen)
        # Ten bits a byte, four times over.
        most = int((WRITE_SLICE_S - SLICE_S) * max(50, port.baudrate) / 40)
        self._piece_bytes = max(1, min(WRITE_BYTES, most))
        self._unmarker = Unmarker() if mark_errors(port) else None

    def _more(self, deadline: float) -> None:
        """Wait for bytes and add them to the answer."""
        port = self._opened()
        while True:
            self._wake.check()
            if self._clock.monotonic() >= deadline:
                raise LinkTimeout("nothing came before the time limit")
            with _serial("reading"):
                data = port.read(1)
                if data:
                    if self._take(data + port.read(port.in_waiting)):
                        raise LinkGarbled(SPOILED_BYTE)
                    return

    def _take(self, data: bytes) -> bool:
        """Add what was read; True where one of its bytes was spoiled on the way."""
        is_spoiled = False
        if self._unmarker is not None:
            data, is_spoiled = self._unmarker.feed(data)
        self._answer.add(data)
        return is_spoiled

    def _opened(self) -> Any:
        if self._port is None:
            raise LinkLost("not connected")
        return self._port


@contextlib.contextmanager
def _serial(doing: str) -> Any:
    """Pyserial's time limit on writing is an ``OSError`` without a number."""
    with translated(doing):
        try:
            yield
        except OSError as error:
            if type(error).__name__ == "SerialTimeoutException":
                raise LinkTimeout(f"{doing} took too long") from error
            raise
