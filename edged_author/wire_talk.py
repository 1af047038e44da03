"""Holding a talk over a wire that no engine has: for ``edged probe`` and ``edged profile new``.

What is said, and when a talk is over, is the talk's own (``profiles.authoring``). Here are the link
and the time: a talk that has none left hears nothing more, and ends by that.
"""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Final, Self, TypeVar

from edged.clock import Clock
from edged.errors import ErrorCode, Failed
from edged.profiles.model import Connection
from edged.scpi.blocks import whole_length
from edged.transports.address import parse_address
from edged.transports.link import Link, LinkError, LinkGarbled, LinkTimeout
from edged.transports.message import MESSAGE_AVAILABLE
from edged.transports.reach import knock
from edged.transports.visa import VisaLibrary
from edged_author.probing import Heard, Say, Talk, held

T = TypeVar("T")

FRAME: Final = ("baud_rate", "data_bits", "parity", "stop_bits")
OPEN_WITHIN_S: Final = 3.0
TAKEN_S: Final = 1.0
WRITE_WITHIN_S: Final = 1.0
QUIET_S: Final = 0.15
"""An answer has ended when nothing more came for so long."""
MOST_BYTES: Final = 1024 * 1024
MOST_LOSSES: Final = 8
"""Connections that a peer may end; one that does it again and again is no instrument."""


class WireTalk:
    """One connection for talks; a context, at whose end it is closed.

    Args:
        address: VISA resource string.
        library: what PyVISA is to use.
        within_s: how long all talks may take together, opening included.

    Attributes:
        is_late: a talk was cut short by that.
        said: how many lines went out.
        losses: how often the other side ended the connection.
    """

    def __init__(self, address: str, *, library: str, clock: Clock, within_s: float) -> None:
        self._address = address
        self._transport = parse_address(address).transport
        self._visa = VisaLibrary(library=library, clock=clock, is_on_loop=False)
        self._clock = clock
        self._deadline = clock.monotonic() + within_s
        self._link: Link | None = None
        # How it was spoken to when it was addressed.
        self._addressed: Connection | None = None
        self._tuned = Connection()
        self.losses = 0
        self._ended = 0.0
        self.is_late = False
        self.said = 0

    def __enter__(self) -> Self:
        """Connect.

        Raises:
            Failed: DISCONNECTED, nobody is there; what to try instead.
        """
        knock(self._address, self._clock)
        self._link = self._visa.open_link(self._address)
        try:
            self._open(self._link)
        except LinkError as error:
            self._close()
            raise self._gone(
                f"No instrument answered at {self._address}: {error}.",
                "Check the address, the cable, and whether another program holds it.",
            ) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go of the instrument."""
        self._close()

    def hold(self, talk: Talk[T]) -> T:
        """Hold a talk to its end, and give what it comes to.

        Raises:
            Failed: as the talk says; DISCONNECTED, the connection was lost again and again.
        """
        return held(talk, self._hear)

    def _hear(self, say: Say) -> Heard:
        if self._clock.monotonic() + say.within_s > self._deadline:
            self.is_late = True
            return Heard(was_said=False)
        link = self._opened()
        if not self._is_tuned(link, say.connection):
            return Heard(was_said=False)
        try:
            return self._exchanged(link, say)
        except LinkGarbled:
            # Not as it was sent: a wrong speed or parity, as far as a port can tell.
            return Heard()
        except LinkTimeout:
            if self._transport.has_messages and not link.clear(WRITE_WITHIN_S):
                self._reopen(link)
            return Heard()
        except LinkError as error:
            self.losses += 1
            if self.losses >= MOST_LOSSES:
                raise self._gone(
                    f"{self._address} was lost: {error}.",
                    "The device closes the connection after a query that it does not know, "
                    "or is not an instrument: give a query from its manual, such as --ask VERSION.",
                ) from error
            self._reopen(link)
            return Heard(was_lost=True)

    def _is_tuned(self, link: Link, connection: Connection) -> bool:
        """Whether the wire can be so; many a port has not every speed or frame."""
        before, self._tuned = self._tuned, connection
        is_left = any(
            getattr(connection, key) is None and getattr(before, key) is not None for key in FRAME
        )
        try:
            if is_left:
                # What is not said any more is as the port is by itself.
                link.close()
                link.tune(Connection())
                self._reopen(link)
            link.tune(connection)
        except LinkError:
            # Half of it may have been taken: anew, as the port is by itself.
            link.close()
            link.tune(Connection())
            self._reopen(link)
            return False
        return True

    def _exchanged(self, link: Link, say: Say) -> Heard:
        end = say.connection.write_termination.encode("ascii")
        if say.pause_s:
            link.pause(say.pause_s)
        elif say.leads and not self._transport.has_messages:
            link.write(end, WRITE_WITHIN_S)
            link.pause(QUIET_S)
        self._address_unit(link, say.connection)
        link.pending()
        if say.line:
            self.said += 1
            line = say.line.encode("ascii", "replace") + end
            link.write(line, WRITE_WITHIN_S)
        began = self._clock.monotonic()
        if not say.line and self._transport.has_messages:
            return Heard()
        if not say.asks and self._transport.has_messages and not self._has_answer(link, say):
            return Heard(was_said=self._tells_status(link))
        data = self._read(link, say)
        return Heard(data=data, came=True, after_ms=(self._ended - began) * 1000)

    def _address_unit(self, link: Link, connection: Connection) -> None:
        """Say what the unit wants to hear before it listens, once for each way of speaking."""
        if not connection.before or connection == self._addressed:
            return
        end = connection.write_termination.encode("ascii")
        for line in connection.before:
            self.said += 1
            link.write(line.encode("ascii", "replace") + end, WRITE_WITHIN_S)
            link.pause(QUIET_S)
        self._addressed = connection

    def _read(self, link: Link, say: Say) -> bytes:
        end = say.connection.read_termination.encode("ascii") or b"\n"
        self._ended = self._clock.monotonic()
        if self._transport.has_messages or say.is_quick:
            data = link.read_message(end, say.within_s)
            # Below an adapter a line end may stand within a block.
            whole = min(whole_length(data) or 0, MOST_BYTES)
            while len(data) < whole:
                data += end + link.read_message(end, say.within_s)
            self._ended = self._clock.monotonic()
            # The end of a message is the end of its line.
            return data.removesuffix(end) + end
        # Who sends by himself may never be quiet.
        until_s = self._clock.monotonic() + 2 * say.within_s
        gathered = bytearray(link.read_exactly(1, say.within_s))
        while len(gathered) < MOST_BYTES and self._clock.monotonic() < self._deadline:
            self._ended = self._clock.monotonic()
            link.pause(QUIET_S)
            more = link.pending()
            if not more or (not say.line and self._clock.monotonic() > until_s):
                break
            gathered += more
        return bytes(gathered)

    def _has_answer(self, link: Link, say: Say) -> bool:
        """Whether an answer waits to which nothing is owed: by the status byte, never by a read.

        An instrument that is read without having been asked notes an error, and some hang.
        """
        link.pause(say.within_s)
        status = link.status_byte(say.within_s)
        return status is not None and bool(status & MESSAGE_AVAILABLE)

    def _tells_status(self, link: Link) -> bool:
        return link.status_byte(WRITE_WITHIN_S) is not None

    def _opened(self) -> Link:
        if self._link is None:
            raise self._gone(f"{self._address} is not connected.", "Report this as a bug.")
        return self._link

    def _open(self, link: Link) -> None:
        """Connect; again for a moment where that is refused at once.

        An adapter that takes one connection at a time may not have seen the end of the last one.
        """
        until_s = self._clock.monotonic() + TAKEN_S
        while True:
            try:
                link.open(OPEN_WITHIN_S)
            except LinkTimeout:
                raise
            except LinkError:
                if self._clock.monotonic() > until_s:
                    raise
                link.pause(TAKEN_S / 10)
            else:
                return

    def _reopen(self, link: Link) -> None:
        self._addressed = None
        try:
            self._open(link)
        except LinkError as error:
            raise self._gone(
                f"{self._address} was lost, and could not be opened again: {error}.",
                "Switch the instrument off and on again.",
            ) from error

    def _gone(self, sentence: str, remedy: str) -> Failed:
        data = {"address": self._address}
        return Failed(sentence, code=ErrorCode.DISCONNECTED, data=data, remedy=remedy)

    def _close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            with contextlib.suppress(LinkError):
                link.release()
        self._visa.close()
