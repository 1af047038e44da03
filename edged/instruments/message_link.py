"""Any other resource, and all of them under a vendor's VISA: whole messages through PyVISA itself.

Nothing here knows what carries them (GPIB by a driver, a vendor's USBTMC or LAN). VISA's read is
one call that cannot be woken: it is made in slices, and where one that ended at a time limit has
left the answer half-way, the line is cleared by ``viClear`` or opened anew. Not tried on hardware.
"""

from __future__ import annotations

import contextlib
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
from edged.instruments.status_query import StatusQuery
from edged.instruments.wake import Wake
from edged.profiles.model import Connection

__all__ = ["MessageLink"]

SLICE_S: Final = 0.25
"""How long one call waits before a pre-emption is heard."""
READ_BYTES: Final = 64 * 1024
MORE_TO_COME: Final = 0x3FFF0006
"""VI_SUCCESS_MAX_CNT: the message goes on."""

NO_STATUS: Final = ("VI_ERROR_NSUP", "VI_ERROR_INV_SETUP", "NotImplementedError")
"""What VISA says where a resource has no status byte: a serial port, a raw socket."""
SPOILED: Final = ("VI_ERROR_ASRL_PARITY", "VI_ERROR_ASRL_FRAMING", "VI_ERROR_ASRL_OVERRUN")
"""What it says of bytes that came, and not as they were sent."""


class MessageLink:
    """See ``Link``."""

    def __init__(self, address: str, open_resource: OpenResource, clock: Clock) -> None:
        self._address = address
        self._clock = clock
        self._wake = Wake()
        self._opener = Opener(address, open_resource, self._wake, clock)
        self._resource: Any = None
        self._answer = MessageAnswer(self._more, clock)
        self._connection = Connection()
        self._status = StatusQuery()

    def tune(self, connection: Connection) -> None:
        """See ``Link``: serial settings by VISA's attributes."""
        if connection is not self._connection:
            self._connection = connection
            self._set_up()

    def open(self, timeout_s: float) -> None:
        """See ``Link``."""
        self.close()
        self._resource = self._opener.open(timeout_s)
        self._set_up()
        self._status.opened()

    def begin(self, ticket: int) -> None:
        """See ``Link``."""
        self._wake.begin(ticket)

    def write(self, data: bytes, timeout_s: float) -> None:
        """See ``Link``."""
        self._wake.check()
        self._answer.forget()
        with translated("writing"):
            resource = self._opened()
            resource.timeout = max(1, int(timeout_s * 1000))
            resource.visalib.write(resource.session, data)

    def read_message(self, terminator: bytes, timeout_s: float) -> bytes:
        """See ``Link``."""
        return self._answer.take_message(terminator, timeout_s, ends_at_terminator=True)

    def read_exactly(self, count: int, timeout_s: float) -> bytes:
        """See ``Link``."""
        return self._answer.take_exactly(count, timeout_s)

    def pending(self) -> bytes:
        """See ``Link``: what VISA may hold cannot be asked for without waiting."""
        self._opened()
        return self._answer.take_rest()

    def is_quiet(self) -> bool:
        """See ``Link``: only the line's own thread can tell."""
        return False

    def pause(self, seconds: float) -> None:
        """See ``Link``."""
        self._wake.pause(seconds, self._clock)

    def clear(self, timeout_s: float) -> bool:
        """See ``Link``: viClear."""
        try:
            with translated("clearing"):
                resource = self._opened()
                resource.timeout = max(1, int(timeout_s * 1000))
                resource.clear()
        except (LinkTimeout, LinkLost):
            return False
        self._answer.forget()
        return True

    def marks_answers(self) -> bool:
        """See ``Link``: VISA tells of none."""
        return False

    def status_byte(self, timeout_s: float) -> int | None:
        """See ``Link``: viReadSTB."""
        deadline = self._clock.monotonic() + timeout_s
        return self._status.ask(lambda: self._read_status(deadline))

    def preempt(self, ticket: int) -> None:
        """See ``Link``."""
        self._wake.preempt(ticket)

    def close(self) -> None:
        """See ``Link``."""
        resource, self._resource = self._resource, None
        self._answer.forget()
        if resource is not None:
            with contextlib.suppress(LinkError), translated("closing"):
                resource.close()

    def release(self) -> None:
        """See ``Link``."""
        self.close()
        self._wake.release()

    def _more(self, deadline: float) -> None:
        resource = self._opened()
        while True:
            self._wake.check()
            left_s = deadline - self._clock.monotonic()
            if left_s <= 0:
                raise LinkTimeout("nothing came before the time limit")
            try:
                with contextlib.suppress(LinkTimeout), translated("reading"):
                    resource.timeout = max(1, int(min(left_s, SLICE_S) * 1000))
                    data, status = resource.visalib.read(resource.session, READ_BYTES)
                    self._answer.add(data, has_end=int(status) != MORE_TO_COME)
                    return
            except LinkLost as error:
                if any(word in str(error) for word in SPOILED):
                    raise LinkGarbled(str(error)) from error
                raise

    def _read_status(self, deadline: float) -> int | None:
        resource = self._opened()
        while True:
            self._wake.check()
            left_s = deadline - self._clock.monotonic()
            if left_s <= 0:
                raise LinkTimeout("the instrument does not tell its status byte")
            try:
                with contextlib.suppress(LinkTimeout), translated("reading the status byte"):
                    resource.timeout = max(1, int(min(left_s, SLICE_S) * 1000))
                    return int(resource.read_stb()) & 0xFF
            except LinkLost as error:
                if any(word in str(error) for word in NO_STATUS):
                    return None
                raise

    def _set_up(self) -> None:
        resource, wanted = self._resource, self._connection
        if resource is None or not hasattr(type(resource), "baud_rate"):
            return
        with translated("setting the serial port"):
            if wanted.baud_rate is not None:
                resource.baud_rate = wanted.baud_rate
            if wanted.data_bits is not None:
                resource.data_bits = wanted.data_bits

    def _opened(self) -> Any:
        if self._resource is None:
            raise LinkLost("not connected")
        return self._resource
