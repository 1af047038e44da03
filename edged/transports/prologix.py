"""``PRLGX-TCPIP::host::port::<GPIB address>::INSTR``: an instrument behind a Prologix adapter.

Several instruments share the adapter's one connection, each with an actor of its own; they take
turns at it. The adapter works strictly in order, so every read is followed by a question to the
adapter itself (``++ver``): when that is answered, nothing of this read can come any more, and the
turn can pass to another instrument without a moment's doubt whose bytes come next. An instrument
that is slow to answer gives up its turn every ``READ_SLICE_MS``.

EOI ends a message, whatever line ends are in it. The adapter marks it by a byte behind the message
(``++eot_enable``), which no text has, and takes the next order at once. A look-alike that has no
such byte shows it by its haste: it takes the next order at once after EOI, and else only after
``READ_SLICE_MS`` of silence. An instrument that asserts no EOI ends its message by its line end
and that silence.

A connection begins with a mark that was not used before: what comes ahead of it is a greeting of a
look-alike, or what the adapter kept from an earlier connection. So does one on which something has
come that nobody asked for: the adapter may have started anew and forgotten its settings.

The form of the address is ours: PyVISA spells an adapter and its instruments as two resources.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from dataclasses import field
from typing import Final

from edged.clock import Clock
from edged.errors import ErrorCode, Invalid
from edged.profiles.model import Connection
from edged.record import record
from edged.transports.link import (
    LinkError,
    LinkGarbled,
    LinkLost,
    LinkPreempted,
    LinkTimeout,
    ThreadWake,
    Wake,
)
from edged.transports.message import MessageLinkBase
from edged.transports.tcp import MAX_MESSAGE_BYTES, SocketStream, TcpChannel

READ_SLICE_MS: Final = 100
"""How long the adapter waits for an instrument to talk before it takes the next order."""
MOST_BYTES: Final = 4 * MAX_MESSAGE_BYTES
"""Of one turn: an instrument that talks for ever would fill the memory."""
ADAPTER_ANSWERS_S: Final = 1.0
"""The adapter itself answers in milliseconds, after its read has ended."""
TALKS_ON_S: Final = 0.2
"""An exchange that lasts longer than this can be interrupted."""
LISTEN_S: Final = 0.05
"""How long one wait lasts before it is looked whether somebody wants to interrupt."""
FIRST_MARK: Final = 128
MARKS: Final = 128
"""``++eot_char`` takes any byte, says it when asked, and puts it behind EOI. These are no text."""
HASTE_S: Final = 0.8 * READ_SLICE_MS / 1000
"""An adapter that takes the next order sooner than this after a byte has seen EOI."""
MOST_GREETING_LINES: Final = 100
SHORTEST_VERSION: Final = 4
"""A word at least: fewer bytes could be the end of any answer."""
SETUP: Final = (
    "++savecfg 0",
    "++mode 1",
    "++auto 0",
    "++eos 3",
    "++eoi 1",
    "++eot_enable 1",
    f"++read_tmo_ms {READ_SLICE_MS}",
)
ESCAPED: Final = re.compile(rb"[\r\n\x1b+]")

_ADDRESS: Final = re.compile(
    r"PRLGX-TCPIP\d*::(?P<host>[^:]+)::(?P<port>\d+)::(?P<pad>\d+)(?::(?P<sad>\d+))?::INSTR", re.I
)


@record(kw_only=False)
class AdapterPlace:
    """Where an instrument is: its adapter's socket, and its GPIB address (``5`` or ``5 96``)."""

    adapter: str
    gpib: str


def adapter_place(address: str) -> AdapterPlace:
    """Take an address apart.

    Raises:
        Invalid: BAD_CONFIG.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 <= int(found["pad"]) <= 30:
        raise Invalid(
            f"{address} is not the address of an instrument behind a Prologix adapter.",
            code=ErrorCode.BAD_CONFIG,
            remedy="Write it like PRLGX-TCPIP::192.168.1.30::1234::5::INSTR.",
        )
    gpib = found["pad"] + (f" {found['sad']}" if found["sad"] else "")
    return AdapterPlace(f"TCPIP::{found['host']}::{found['port']}::SOCKET", gpib)


@record(frozen=False, kw_only=False)
class PrologixAdapter:
    """The connection that the instruments behind one adapter share.

    ``turn`` is held by whoever talks to the adapter. Nobody holds it longer than one exchange.
    """

    address: str
    clock: Clock
    turn: threading.Lock = field(default_factory=threading.Lock)
    # Belongs to the link whose turn it is; None while not connected.
    channel: TcpChannel | None = None
    # Of nobody: an exchange that is cut short costs everybody the connection, see ``_heard``.
    deaf: Wake = field(default_factory=ThreadWake)
    version: bytes = b""
    # Of the last beginning; the one before is another.
    mark: int = FIRST_MARK
    # It puts the mark behind each message that ended by EOI.
    marks_ends: bool = False
    # Grows with every connection, so that each link notices that its own is over.
    openings: int = 0

    def drop(self) -> None:
        """End the connection: what it still brings belongs to nobody. In one's turn only."""
        channel, self.channel = self.channel, None
        if channel is not None:
            channel.close()


class PrologixLink(MessageLinkBase):
    """See ``Link``."""

    def __init__(self, adapter: PrologixAdapter, gpib: str, clock: Clock) -> None:
        super().__init__(clock)
        self._adapter = adapter
        self._gpib = gpib
        self._terminator = b"\n"
        # This instrument has ended a message by EOI: it ends all of them so.
        self._asserts_eoi = False
        # Bytes came, and the adapter was at its next order before its time of silence was over.
        self._is_hasty = False
        # The adapter's connection on which this instrument was opened; 0 while closed.
        self._opening = 0

    def tune(self, connection: Connection) -> None:
        """See ``Link``: the line end of an instrument that asserts no EOI."""
        self._terminator = (connection.read_termination or "\n").encode("ascii")

    def open(self, timeout_s: float) -> None:
        """See ``Link``. The adapter is connected by whoever needs it first."""
        self.close()
        deadline = self._clock.monotonic() + timeout_s
        with self._turn(deadline):
            if self._adapter.channel is None:
                self._connect(deadline)
            self._opening = self._adapter.openings
        self._status.opened()

    def write(self, data: bytes, timeout_s: float) -> None:
        deadline = self._clock.monotonic() + timeout_s
        self._answer.forget()
        escaped = ESCAPED.sub(lambda found: b"\x1b" + found[0], data)
        with self._exchange(deadline) as stream:
            self._order(stream, escaped)

    def pending(self) -> bytes:
        """See ``Link``: an instrument on this bus talks only when it is asked to."""
        if self._opening == 0 or self._opening != self._adapter.openings:
            raise LinkLost("the connection to the adapter was lost")
        return self._answer.take_rest()

    def clear(self, timeout_s: float) -> bool:
        """See ``Link``: the bus's selected device clear, for this instrument alone."""
        deadline = self._clock.monotonic() + timeout_s
        try:
            with self._exchange(deadline) as stream:
                self._order(stream, b"++clr")
                self._settle(stream, deadline)
        except (LinkLost, LinkTimeout, LinkGarbled):
            return False
        self._answer.forget()
        return True

    def close(self) -> None:
        """See ``Link``. The adapter's connection stays for the others."""
        self._opening = 0
        self._asserts_eoi = False
        self._answer.forget()

    def _more(self, deadline: float) -> None:
        """Have the instrument talk for one slice at most, and keep what it says."""
        if self._clock.monotonic() >= deadline:
            raise LinkTimeout("nothing came before the time limit")
        with self._exchange(deadline) as stream:
            self._order(stream, b"++read eoi")
            try:
                said = self._settle(stream, deadline)
            except (LinkTimeout, LinkGarbled, LinkLost) as ended:
                ended.came = bytes(stream.buffer)
                raise
            mark = bytes([self._adapter.mark]) if self._adapter.marks_ends else b""
        # A byte of data may be the same; behind that, the adapter waits for more.
        is_marked = bool(mark) and said.endswith(mark)
        if is_marked and (self._is_hasty or said[:-1].endswith(self._terminator)):
            self._asserts_eoi = True
            self._answer.add(said[:-1], has_end=True)
        elif said:
            is_end = said.endswith(self._terminator) or (self._is_hasty and not mark)
            self._answer.add(said, has_end=is_end and not self._asserts_eoi)

    def _read_status(self, deadline: float) -> int | None:
        with self._exchange(deadline) as stream:
            self._order(stream, b"++spoll")
            told = self._settle(stream, deadline).strip()
        return int(told) & 0xFF if told.isdigit() and len(told) <= 3 else None

    def _order(self, stream: SocketStream, line: bytes) -> None:
        """Address the instrument, and one line after it."""
        data = b"++addr " + self._gpib.encode() + b"\n" + line + b"\n"
        stream.send(data, self._clock.monotonic() + ADAPTER_ANSWERS_S)

    def _settle(self, stream: SocketStream, deadline: float) -> bytes:
        """What came before the adapter's answer to ``++ver``, which ends every exchange."""
        begun = heard = last = self._clock.monotonic()
        stream.send(b"++ver\n", begun + ADAPTER_ANSWERS_S)
        version = self._adapter.version
        while not stream.buffer.endswith(version):
            now = self._clock.monotonic()
            if len(stream.buffer) > MOST_BYTES:
                raise LinkGarbled(f"{len(stream.buffer)} bytes came without an end")
            if now > heard + ADAPTER_ANSWERS_S:
                raise LinkTimeout("it does not answer")
            if now > max(deadline, begun + ADAPTER_ANSWERS_S):
                raise LinkTimeout("it still talks after the time limit")
            if now > begun + TALKS_ON_S:
                # Cutting an exchange short costs everybody behind the adapter the connection, so
                # only one that a stop would wait too long for.
                self._wake.check()
            if self._has_heard(stream):
                last, heard = heard, self._clock.monotonic()
        self._is_hasty = heard - last < HASTE_S
        data = bytes(stream.buffer[: -len(version)])
        stream.buffer.clear()
        return data

    def _has_heard(self, stream: SocketStream) -> bool:
        """Whether something came within a slice."""
        try:
            stream.receive(self._clock.monotonic() + LISTEN_S)
        except LinkTimeout:
            return False
        return True

    @contextlib.contextmanager
    def _exchange(self, deadline: float) -> Iterator[SocketStream]:
        """One turn at the adapter. What goes wrong in it ends the connection, for all."""
        self._wake.check()
        with self._turn(deadline):
            channel = self._adapter.channel
            if channel is None or self._opening != self._adapter.openings:
                raise LinkLost("the connection to the adapter was lost")
            try:
                if channel.stream.drain():
                    self._agree(channel.stream, deadline)
                yield channel.stream
            except LinkError as error:
                self._adapter.openings += 1
                self._adapter.drop()
                if isinstance(error, LinkPreempted):
                    raise
                lost = LinkLost(f"the adapter: {error}")
                lost.came = error.came
                raise lost from error

    @contextlib.contextmanager
    def _turn(self, deadline: float) -> Iterator[None]:
        turn = self._adapter.turn
        while not turn.acquire(timeout=LISTEN_S):
            self._wake.check()
            if self._clock.monotonic() >= deadline:
                raise LinkTimeout("the adapter was taken by other instruments")
        try:
            yield
        finally:
            turn.release()

    def _connect(self, deadline: float) -> None:
        adapter = self._adapter
        adapter.channel = channel = TcpChannel(
            adapter.address,
            wake=self._wake,
            clock=self._clock,
            timeout_s=deadline - self._clock.monotonic(),
            waits_by=adapter.deaf,
        )
        try:
            self._agree(channel.stream, deadline)
            adapter.openings += 1
        except LinkError:
            adapter.drop()
            raise

    def _agree(self, stream: SocketStream, deadline: float) -> None:
        """Set the adapter up, and learn its version; what comes before is nobody's."""
        adapter = self._adapter
        adapter.mark = FIRST_MARK + (adapter.mark + 1) % MARKS
        mark = b"%d" % adapter.mark
        orders = (*SETUP, f"++eot_char {adapter.mark}", "++eot_enable", "++eot_char", "++ver")
        limit = min(deadline, self._clock.monotonic() + ADAPTER_ANSWERS_S)
        stream.send("".join(f"{line}\n" for line in orders).encode(), limit)
        before = line = b""
        for _ in range(MOST_GREETING_LINES):
            earlier, before, line = before, line, self._line(stream, limit)
            if before.strip() == mark or not line:
                break
        else:
            raise LinkGarbled("it greets without an end")
        adapter.marks_ends = before.strip() == mark and earlier.strip() == b"1"
        # One that does not know the order for a mark has said its version last.
        version = line or before
        if len(version.strip()) < SHORTEST_VERSION:
            raise LinkTimeout("it does not say its version")
        adapter.version = version

    def _line(self, stream: SocketStream, limit: float) -> bytes:
        """The adapter's next line with its end; nothing where none comes until ``limit``."""
        while b"\n" not in stream.buffer:
            self._wake.check()
            if self._clock.monotonic() >= limit:
                return b""
            self._has_heard(stream)
        return stream.read_message(b"\n", limit - self._clock.monotonic()) + b"\n"
