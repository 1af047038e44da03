"""``ASRL…::INSTR@6``: one of several units behind one port, each with an address of its own.

Each unit has a line of its own, and all of them use the port's one connection in turns. A turn is a
whole conversation, so that no line of another unit comes between a question and its answer. What
is more urgent has the next turn, and a stop of one unit ends the turn of another. After a turn that
broke off, an answer may still come that is nobody's: the next unit waits until the port is quiet,
and is told so, because such an answer can also come later, instead of its own.

Which lines address a unit is its profile's to say (``connection.before``); the line says them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import field
from typing import Final

from edged.clock import Clock
from edged.profiles.model import Connection
from edged.record import record
from edged.transports.link import (
    Link,
    LinkBase,
    LinkError,
    LinkLost,
    LinkPreempted,
    LinkTimeout,
    Since,
    Urgency,
)

LISTEN_S: Final = 0.02
"""How long one wait for the turn lasts before a pre-emption is noticed."""
QUIET_S: Final = 0.1
"""After a turn that broke off, the port is quiet when nothing came for so long."""
MOST_QUIET_S: Final = 0.5
"""A unit that talks without end may delay a stop by no more than this."""
LATEST_S: Final = 60.0
"""An answer that is later than this does not come any more."""


@record(frozen=False, eq=False)
class Turn:
    """One use of the port, from the wait for it on.

    Attributes:
        ticket: of the link's work, and ``port_ticket`` the same on the port's own link.
    """

    link: SharedLink
    urgency: Urgency
    ticket: int
    port_ticket: int


@record(frozen=False, kw_only=False, eq=False)
class SharedPort:
    """The connection that several units use; only the unit that has the turn touches it."""

    link: Link
    clock: Clock
    free: threading.Condition = field(default_factory=threading.Condition)
    # All below but the last two are read and written with ``free`` held.
    turn: Turn | None = None
    waiting: list[Turn] = field(default_factory=list)
    tickets: int = 0
    links: set[SharedLink] = field(default_factory=set)
    is_over: bool = False
    # Who has sent the last line.
    speaker: SharedLink | None = None
    # An answer of a turn that broke off may still come.
    is_dirty: bool = False
    # Grows with every connection, so that each link notices that its own is over; 0 while closed.
    opening: int = 0
    openings: int = 0
    # When the last turn of a unit broke off; until one ends in which it has answered.
    broken_off: dict[SharedLink, float] = field(default_factory=dict)
    # The links that were given up since anything was received from anybody.
    unheard: set[SharedLink] = field(default_factory=set)

    def place_of(self, turn: Turn) -> tuple[int, bool, int]:
        """The lowest is first: what is urgent, and then a unit that has answered last."""
        return -turn.urgency, turn.link in self.broken_off, turn.port_ticket

    def goes_first(self, wanted: Turn, held: Turn) -> bool:
        """Whether a turn is ended for another; a stop of a silent unit is for one that answers."""
        if wanted.urgency is held.urgency is Urgency.SAFE:
            return held.link in self.broken_off and wanted.link not in self.broken_off
        return held.urgency < wanted.urgency

    def drop(self) -> None:
        """End the connection for all."""
        self.opening = 0
        self.unheard.clear()
        self.link.close()

    def awaits_others(self, link: SharedLink) -> bool:
        """Whether an answer of another unit may still come."""
        since = self.clock.monotonic() - LATEST_S
        return any(at > since for other, at in self.broken_off.items() if other is not link)

    def settle(self) -> None:
        """Wait until nothing comes any more of a turn that broke off."""
        self.is_dirty = False
        end = self.clock.monotonic() + MOST_QUIET_S
        while self.opening and self.clock.monotonic() < end:
            self.link.pause(QUIET_S)
            if not self.link.pending():
                return


class SharedLink(LinkBase):
    """See ``Link``."""

    def __init__(self, port: SharedPort, clock: Clock) -> None:
        super().__init__(clock)
        self.is_shared = True
        self._port = port
        self._ticket = 0
        # The connection of the port on which this unit was opened; 0 while it is not.
        self._opening = 0
        # Something was read in this turn.
        self._is_heard = False
        port.links.add(self)

    def begin(self, ticket: int) -> None:
        super().begin(ticket)
        self._ticket = ticket

    def take_turn(self, timeout_s: float, urgency: Urgency) -> Since:
        port = self._port
        deadline = self._clock.monotonic() + timeout_s
        with port.free:
            port.tickets += 1
            mine = Turn(link=self, urgency=urgency, ticket=self._ticket, port_ticket=port.tickets)
            port.waiting.append(mine)
            try:
                self._await(mine, deadline)
            finally:
                port.waiting.remove(mine)
            # The number of the work in hand grows from turn to turn.
            port.tickets += 1
            mine.port_ticket = port.tickets
            port.turn = mine
            self._is_heard = False
        port.link.begin(mine.port_ticket)
        try:
            if port.is_dirty:
                port.settle()
        except LinkLost:
            # Opening it is the line's next step.
            port.drop()
        except LinkError:
            port.is_dirty = True
            self.end_turn(is_clean=False)
            raise
        since = Since.NOTHING if port.speaker is self else Since.ANOTHER
        return since | (Since.UNANSWERED if port.awaits_others(self) else Since.NOTHING)

    def _await(self, mine: Turn, deadline: float) -> None:
        """Wait for the turn; ``port.free`` is held."""
        port = self._port
        while port.turn is not None or min(port.waiting, key=port.place_of) is not mine:
            self._wake.check()
            if self._clock.monotonic() >= deadline:
                raise LinkTimeout("other units of the port kept it busy")
            if port.turn is not None and port.goes_first(mine, port.turn):
                port.link.preempt(port.turn.port_ticket)
            port.free.wait(LISTEN_S)
        self._wake.check()

    def end_turn(self, *, is_clean: bool) -> None:
        port = self._port
        with port.free:
            if port.turn is not None and port.turn.link is self:
                port.is_dirty = port.is_dirty or not is_clean
                if not is_clean:
                    port.broken_off[self] = self._clock.monotonic()
                elif self._is_heard:
                    port.broken_off.pop(self, None)
                port.turn = None
                port.free.notify_all()

    def preempt(self, ticket: int) -> None:
        super().preempt(ticket)
        port = self._port
        with port.free:
            turn = port.turn
            if turn is not None and turn.link is self and turn.ticket <= ticket:
                port.link.preempt(turn.port_ticket)

    def tune(self, connection: Connection) -> None:
        """See ``Link``: it holds until another unit has the turn."""
        with self._minded():
            self._port.link.tune(connection)

    def open(self, timeout_s: float) -> None:
        """See ``Link``. The first unit that needs the port opens it."""
        port = self._port
        with self._minded():
            if port.opening:
                port.link.pending()
            else:
                port.link.open(timeout_s)
                port.openings += 1
                port.opening = port.openings
        self._opening = port.opening

    def write(self, data: bytes, timeout_s: float) -> None:
        with self._minded():
            link = self._opened()
            self._port.speaker = self
            link.write(data, timeout_s)

    def read_message(self, terminator: bytes, timeout_s: float) -> bytes:
        with self._minded():
            message = self._opened().read_message(terminator, timeout_s)
        self._hear()
        return message

    def read_exactly(self, count: int, timeout_s: float) -> bytes:
        with self._minded():
            data = self._opened().read_exactly(count, timeout_s)
        self._hear()
        return data

    def pending(self) -> bytes:
        with self._minded():
            return self._opened().pending()

    def pause(self, seconds: float) -> None:
        with self._minded():
            self._port.link.pause(seconds)

    def close(self) -> None:
        """See ``Link``. The port stays open for the others, unless none of them is heard."""
        self._opening = 0
        port = self._port
        with port.free:
            port.unheard.add(self)
            is_ours = port.turn is None or port.turn.link is self
            if is_ours and port.opening and port.unheard >= port.links:
                port.drop()

    def release(self) -> None:
        """See ``Link``. The last one closes the port."""
        super().release()
        port = self._port
        with port.free:
            port.links.discard(self)
            port.unheard.discard(self)
            port.broken_off.pop(self, None)
            if not port.links and not port.is_over:
                port.is_over = True
                port.drop()
                port.link.release()

    def _hear(self) -> None:
        self._is_heard = True
        self._port.unheard.clear()

    def _opened(self) -> Link:
        if self._opening == 0 or self._opening != self._port.opening:
            raise LinkLost("the port was closed")
        return self._port.link

    @contextlib.contextmanager
    def _minded(self) -> Iterator[None]:
        """Use the port: where it is lost, it is lost for all of its units."""
        try:
            yield
        except LinkPreempted:
            self._wake.check()
            raise LinkPreempted("another unit of its port goes first") from None
        except LinkLost:
            if self._opening == self._port.opening:
                self._port.drop()
            raise
