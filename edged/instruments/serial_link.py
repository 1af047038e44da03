"""``ASRL…::INSTR``: a serial port, through the pyserial port inside of PyVISA's session.

A reopened serial port is no new connection: what the instrument still had to say comes after it.
Lines are therefore taken for answers only after the unit has said who it is (``line.py`` skips what
is not that). Waits go in slices short enough for a stop, on Windows as on Linux. A byte with a
parity or framing error is no part of an answer, where the kernel tells of it (``serial_marks.py``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from edged.clock import Clock
from edged.instruments.link import (
    LinkError,
    LinkGarbled,
    LinkLost,
    LinkTimeout,
    OpenResource,
    translated,
)
from edged.instruments.message_answer import MessageAnswer
from edged.instruments.opening import Opener
from edged.instruments.serial_marks import Unmarker, mark_errors
from edged.instruments.wake import Wake
from edged.profiles.model import Connection

__all__ = ["SerialLink"]

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


class SerialLink:
    """See ``Link``."""

    def __init__(self, address: str, open_resource: OpenResource, clock: Clock) -> None:
        self._address = address
        self._clock = clock
        self._wake = Wake()
        self._opener = Opener(address, open_resource, self._wake, clock)
        self._resource: Any = None
        # pyserial's port; None while closed.
        self._port: Any = None
        self._answer = MessageAnswer(self._receive, clock)
        self._connection = Connection()
        self._piece_bytes = 1
        # None where nobody tells which bytes were spoiled.
        self._unmarker: Unmarker | None = None

    def tune(self, connection: Connection) -> None:
        """See ``Link``."""
        if connection is self._connection:
            return
        self._connection = connection
        if self._port is not None:
            with translated("setting the serial port"):
                self._set_up()

    def open(self, timeout_s: float) -> None:
        """See ``Link``."""
        self.close()
        self._resource = self._opener.open(timeout_s)
        try:
            with translated(f"opening {self._address}"):
                self._port = self._resource.visalib.sessions[self._resource.session].interface
                self._port.timeout = SLICE_S
                self._port.write_timeout = WRITE_SLICE_S
                self._set_up()
        except LinkError:
            self.close()
            raise

    def begin(self, ticket: int) -> None:
        """See ``Link``."""
        self._wake.begin(ticket)

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

    def read_message(self, terminator: bytes, timeout_s: float) -> bytes:
        """See ``Link``."""
        return self._answer.take_message(terminator, timeout_s, ends_at_terminator=True)

    def read_exactly(self, count: int, timeout_s: float) -> bytes:
        """See ``Link``."""
        return self._answer.take_exactly(count, timeout_s)

    def pending(self) -> bytes:
        """See ``Link``."""
        port = self._opened()
        with _serial("reading"):
            waiting = port.in_waiting
            if waiting:
                self._take(port.read(waiting))
        return self._answer.take_rest()

    def is_quiet(self) -> bool:
        """See ``Link``: only the line's own thread can tell."""
        return False

    def pause(self, seconds: float) -> None:
        """See ``Link``."""
        self._wake.pause(seconds, self._clock)

    def clear(self, timeout_s: float) -> bool:
        """See ``Link``: a serial line has none."""
        del timeout_s
        return False

    def marks_answers(self) -> bool:
        """See ``Link``: a stream of bytes has no marks."""
        return False

    def status_byte(self, timeout_s: float) -> int | None:
        """See ``Link``: a serial line has no way to ask."""
        del timeout_s
        return None

    def preempt(self, ticket: int) -> None:
        """See ``Link``."""
        self._wake.preempt(ticket)

    def close(self) -> None:
        """See ``Link``."""
        resource, self._resource = self._resource, None
        self._port = None
        self._answer.forget()
        if resource is not None:
            with contextlib.suppress(LinkError), translated("closing"):
                resource.close()

    def release(self) -> None:
        """See ``Link``."""
        self.close()
        self._wake.release()

    def _set_up(self) -> None:
        """Give the port what the profile or INSTRUMENTS says; the rest stays as it is."""
        port, wanted = self._port, self._connection
        settings = {
            "baudrate": wanted.baud_rate,
            "bytesize": wanted.data_bits,
            "parity": PARITIES.get(wanted.parity or ""),
            "stopbits": wanted.stop_bits,
        }
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

    def _receive(self, deadline: float) -> None:
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
