"""GPIB by a driver, and all transports under a vendor's VISA: whole messages, by PyVISA itself.

Nothing here knows what carries them (GPIB by a driver, a vendor's USBTMC or LAN). VISA's read is
one call that cannot be woken: it is made in slices, and where one that ended at a time limit has
left the answer half-way, the line is cleared by ``viClear`` or opened anew. Not tried on hardware.

Beside it what others use too: an answer gathered in pieces and taken in parts, whether or not the
wire marks where it ends.

And whether a peer tells its status byte, so that none is asked in vain again and again.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable
from typing import Any, Final

from edged.clock import Clock
from edged.profiles.model import Connection
from edged.transports.address import parse_address
from edged.transports.link import (
    LinkBase,
    LinkError,
    LinkGarbled,
    LinkLost,
    LinkOverlong,
    LinkShort,
    LinkTimeout,
    OpenResource,
    Wake,
    translated,
)
from edged.transports.tcp import MAX_MESSAGE_BYTES, Opener, line_end_by

More = Callable[[float], None]
"""Fetches the next piece and adds it; takes the monotonic deadline, and raises a ``LinkError``."""


class MessageAnswer:
    """What has arrived of one answer; once it was taken whole, of the one after it.

    Args:
        more: fetches the next piece.
        clock: the time.

    Attributes:
        has_end: the last piece said that nothing follows.
    """

    def __init__(self, more: More, clock: Clock) -> None:
        self._more = more
        self._clock = clock
        self._bytes = bytearray()
        self.has_end = False
        # Up to its end: whoever takes on wants the message after it, where one comes.
        self._is_taken = False

    def add(self, data: bytes | bytearray | memoryview, *, has_end: bool = False) -> None:
        """A piece has arrived."""
        self._bytes += data
        self.has_end = has_end
        self._is_taken = False

    def forget(self) -> None:
        """Another message is written; what came belongs to no question any more."""
        self._bytes.clear()
        self.has_end = self._is_taken = False

    def take_rest(self) -> bytes:
        """What is here and was not asked for."""
        rest = bytes(self._bytes)
        self._bytes.clear()
        self._is_taken = self.has_end
        return rest

    def take_message(
        self, terminator: bytes, timeout_s: float, *, ends_at_terminator: bool = False
    ) -> bytes:
        """The rest of the message, or the next one after an end; without its terminator.

        Args:
            terminator: what an instrument puts at its end; empty: nothing is taken off.
            timeout_s: how long pieces may take to come, together.
            ends_at_terminator: the wire below marks no end.

        Raises:
            LinkError: as ``more`` does; ``LinkOverlong`` when it does not end.
        """
        deadline = self._clock.monotonic() + timeout_s
        if self._is_taken:
            self.forget()
        while not self.has_end and not (ends_at_terminator and terminator in self._bytes):
            until = deadline
            if ends_at_terminator:
                until = line_end_by(self._bytes, deadline, self._clock)
            self._wait_for_more(until)
            if len(self._bytes) > MAX_MESSAGE_BYTES:
                raise LinkOverlong(f"{len(self._bytes)} bytes came without an end")
        if not self.has_end:
            end = self._bytes.index(terminator)
            message = bytes(self._bytes[:end])
            del self._bytes[: end + len(terminator)]
            return message
        return self.take_rest().removesuffix(terminator)

    def take_exactly(self, count: int, timeout_s: float) -> bytes:
        """The next ``count`` bytes, for blocks.

        Raises:
            LinkError: as ``more`` does; ``LinkShort`` when the message ends before.
        """
        deadline = self._clock.monotonic() + timeout_s
        while len(self._bytes) < count:
            if self.has_end:
                raise LinkShort("the answer ended before it was whole")
            self._wait_for_more(deadline)
        data = bytes(self._bytes[:count])
        del self._bytes[:count]
        return data

    def _wait_for_more(self, deadline: float) -> None:
        try:
            self._more(deadline)
        except (LinkTimeout, LinkLost, LinkGarbled) as ended:
            ended.came = bytes(self._bytes) + ended.came
            raise


MESSAGE_AVAILABLE: Final = 0x10
"""MAV of IEEE 488.2: an answer waits to be read."""


class StatusQuery:
    """Asks by way of a link, and remembers who does not know the question.

    Who refused is asked again on the next connection, which may be to another instrument. Who was
    silent has cost a time limit, and maybe the connection: the next one is spared the question,
    the one after that is not.
    """

    def __init__(self) -> None:
        self._is_refused = False
        self._was_silent = False

    def opened(self) -> None:
        """Another connection."""
        self._is_refused, self._was_silent = self._was_silent, False

    def ask(self, query: Callable[[], int | None]) -> int | None:
        """What ``query`` gives, unless it was refused before; its None is a refusal.

        Raises:
            LinkError: as ``query`` does.
        """
        if self._is_refused:
            return None
        try:
            status = query()
        except LinkTimeout:
            self._is_refused = self._was_silent = True
            raise
        self._is_refused = status is None
        return status


class MessageLinkBase(LinkBase):
    """A link whose answers are gathered in pieces, and whose peer may tell its status.

    Attributes:
        ends_at_terminator: the wire below marks no end.
    """

    ends_at_terminator = False

    def __init__(self, clock: Clock, wake: Wake | None = None) -> None:
        super().__init__(clock, wake)
        self._answer = MessageAnswer(self._more, clock)
        self._status = StatusQuery()

    def read_message(self, terminator: bytes, timeout_s: float) -> bytes:
        return self._answer.take_message(
            terminator, timeout_s, ends_at_terminator=self.ends_at_terminator
        )

    def read_exactly(self, count: int, timeout_s: float) -> bytes:
        return self._answer.take_exactly(count, timeout_s)

    def status_byte(self, timeout_s: float) -> int | None:
        deadline = self._clock.monotonic() + timeout_s
        return self._status.ask(lambda: self._read_status(deadline))

    @abc.abstractmethod
    def _more(self, deadline: float) -> None:
        """Add the next piece of the answer to it."""

    def _read_status(self, _deadline: float) -> int | None:
        """The status byte; ``None`` where the peer has no way to tell."""
        return None


SLICE_S: Final = 0.25
"""How long one call waits before a pre-emption is heard."""
READ_BYTES: Final = 64 * 1024
MORE_TO_COME: Final = 0x3FFF0006
"""VI_SUCCESS_MAX_CNT: the message goes on."""

NO_STATUS: Final = ("VI_ERROR_NSUP", "VI_ERROR_INV_SETUP", "NotImplementedError")
"""What VISA says where a resource has no status byte: a serial port, a raw socket."""
SPOILED: Final = ("VI_ERROR_ASRL_PARITY", "VI_ERROR_ASRL_FRAMING", "VI_ERROR_ASRL_OVERRUN")
"""What it says of bytes that came, and not as they were sent."""


class MessageLink(MessageLinkBase):
    """See ``Link``."""

    def __init__(self, address: str, open_resource: OpenResource, clock: Clock) -> None:
        super().__init__(clock)
        self.ends_at_terminator = not parse_address(address).transport.has_messages
        self._address = address
        self._opener = Opener(address, open_resource, self._wake, clock)
        self._resource: Any = None
        self._connection = Connection()

    def tune(self, connection: Connection) -> None:
        """See ``Link``: serial settings by VISA's attributes."""
        if connection is not self._connection:
            self._connection = connection
            self._set_up()

    def open(self, timeout_s: float) -> None:
        self.close()
        self._resource = self._opener.open(timeout_s)
        self._set_up()
        self._status.opened()

    def write(self, data: bytes, timeout_s: float) -> None:
        self._wake.check()
        self._answer.forget()
        with translated("writing"):
            resource = self._opened()
            resource.timeout = max(1, int(timeout_s * 1000))
            resource.visalib.write(resource.session, data)

    def pending(self) -> bytes:
        """See ``Link``: what VISA may hold cannot be asked for without waiting."""
        self._opened()
        return self._answer.take_rest()

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

    def close(self) -> None:
        resource, self._resource = self._resource, None
        self._answer.forget()
        if resource is not None:
            with contextlib.suppress(LinkError), translated("closing"):
                resource.close()

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
