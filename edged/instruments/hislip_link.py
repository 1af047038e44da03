"""``TCPIP::host::hislip0[,port]::INSTR``: HiSLIP 1.0 (IVI-6.1), synchronized mode.

PyVISA opens and closes the two connections, as socket sessions; the protocol is spoken here.
pyvisa-py's own cannot be woken, loses its place in the stream at a time limit in the middle of a
message, waits five seconds for a port that accepts and stays silent, and leaves the sockets of a
failed handshake open. Answers are told apart by message id, so a late or doubled one is dropped.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from edged.clock import Clock
from edged.instruments.link import (
    LinkError,
    LinkGarbled,
    LinkLost,
    LinkTimeout,
    OpenResource,
)
from edged.instruments.message_answer import MessageAnswer
from edged.instruments.socket_stream import MAX_MESSAGE_BYTES, SocketStream
from edged.instruments.tcp_channel import TcpChannel
from edged.instruments.wake import Wake
from edged.profiles.model import Connection

__all__ = ["HislipLink"]

HEADER: Final = struct.Struct("!2sBBIQ")
INITIALIZE: Final = 0
INITIALIZE_RESPONSE: Final = 1
FATAL_ERROR: Final = 2
ERROR: Final = 3
DATA: Final = 6
DATA_END: Final = 7
CLEAR_COMPLETE: Final = 8
CLEAR_ACKNOWLEDGE: Final = 9
MAX_SIZE: Final = 15
MAX_SIZE_RESPONSE: Final = 16
ASYNC_INITIALIZE: Final = 17
ASYNC_INITIALIZE_RESPONSE: Final = 18
ASYNC_CLEAR: Final = 19
ASYNC_CLEAR_ACKNOWLEDGE: Final = 23

VERSION_1_0: Final = 0x0100
VENDOR: Final = int.from_bytes(b"ED", "big")
DEFAULT_PORT: Final = 4880
SYNCHRONIZED: Final = 0
"""What is asked for at a clear: the mode in which one question has one answer."""
PREFERS_OVERLAP: Final = 1
FIRST_MESSAGE_ID: Final = 0xFFFF_FF00
ANY_MESSAGE_ID: Final = 0xFFFF_FFFF
OUR_LARGEST_BYTES: Final = 1024 * 1024
SMALLEST_LARGEST_BYTES: Final = 256
"""What a server says it takes at most is believed down to here."""
MAX_CONTROL_BYTES: Final = 64 * 1024
"""Payload of a message that carries no answer: an error text."""
CLEAR_WITHIN_S: Final = 0.3
"""A device that does not acknowledge a clear by then is quicker reopened."""


@dataclass(frozen=True, slots=True)
class Header:
    """The 16 bytes in front of every message; ``parameter`` is the message id of data."""

    kind: int
    control: int
    parameter: int
    length: int


class HislipLink:
    """See ``Link``."""

    def __init__(self, address: str, open_resource: OpenResource, clock: Clock) -> None:
        self._clock = clock
        self._open_resource = open_resource
        self._wake = Wake()
        self._socket_address, self._sub_address = _taken_apart(address)
        # None while closed.
        self._sync_channel: TcpChannel | None = None
        self._async_channel: TcpChannel | None = None
        self._server_takes = OUR_LARGEST_BYTES
        self._next_id = FIRST_MESSAGE_ID
        self._last_id = ANY_MESSAGE_ID
        # The header that has been read and whose payload has not, all of it.
        self._header: Header | None = None
        # What has come of the present answer, and whether that was its end.
        self._answer = MessageAnswer(self._more, clock)

    def tune(self, connection: Connection) -> None:
        """See ``Link``: nothing of it can be tuned."""

    def open(self, timeout_s: float) -> None:
        """See ``Link``."""
        self.close()
        deadline = self._clock.monotonic() + timeout_s
        try:
            self._sync_channel = self._connect(deadline)
            parameter = VERSION_1_0 << 16 | VENDOR
            answer = self._handshake(self._sync, INITIALIZE, parameter, deadline, self._sub_address)
            self._async_channel = self._connect(deadline)
            self._handshake(self._async, ASYNC_INITIALIZE, answer.parameter & 0xFFFF, deadline)
            self._agree_on_size(deadline)
            if answer.control & PREFERS_OVERLAP and not self.clear(CLEAR_WITHIN_S):
                raise LinkLost("the instrument does not leave HiSLIP's overlapped mode")
        except LinkError:
            self.close()
            raise
        self._next_id = FIRST_MESSAGE_ID

    def begin(self, ticket: int) -> None:
        """See ``Link``."""
        self._wake.begin(ticket)

    def write(self, data: bytes, timeout_s: float) -> None:
        """See ``Link``."""
        deadline = self._clock.monotonic() + timeout_s
        has_read_all = int(self._answer.has_end)
        self._answer.forget()
        largest = self._server_takes - HEADER.size
        pieces = [data[start : start + largest] for start in range(0, len(data), largest)] or [b""]
        for number, piece in enumerate(pieces, 1):
            kind = DATA_END if number == len(pieces) else DATA
            header = HEADER.pack(b"HS", kind, has_read_all, self._next_id, len(piece))
            self._last_id = self._next_id
            self._next_id = (self._next_id + 2) & 0xFFFF_FFFF
            self._sync.send(header + piece, deadline)

    def read_message(self, terminator: bytes, timeout_s: float) -> bytes:
        """See ``Link``."""
        return self._answer.take_message(terminator, timeout_s)

    def read_exactly(self, count: int, timeout_s: float) -> bytes:
        """See ``Link``."""
        return self._answer.take_exactly(count, timeout_s)

    def pending(self) -> bytes:
        """See ``Link``. What belongs to an earlier question is dropped by its message id."""
        self._sync.fill()
        # Service requests and notices of interruption; nobody waits for them.
        self._async.drain()
        return self._answer.take_rest()

    def is_quiet(self) -> bool:
        """See ``Link``: only the line's own thread can tell."""
        return False

    def pause(self, seconds: float) -> None:
        """See ``Link``."""
        self._wake.pause(seconds, self._clock)

    def clear(self, timeout_s: float) -> bool:
        """See ``Link``: the device clear of both channels."""
        deadline = self._clock.monotonic() + min(timeout_s, CLEAR_WITHIN_S)
        try:
            asynchronous = self._async
            asynchronous.drain()
            asynchronous.send(HEADER.pack(b"HS", ASYNC_CLEAR, 0, 0, 0), deadline)
            self._skip_to(asynchronous, ASYNC_CLEAR_ACKNOWLEDGE, deadline)
            synchronous = self._sync
            synchronous.send(HEADER.pack(b"HS", CLEAR_COMPLETE, SYNCHRONIZED, 0, 0), deadline)
            self._skip_to(synchronous, CLEAR_ACKNOWLEDGE, deadline)
        except (LinkLost, LinkTimeout, LinkGarbled):
            return False
        self._next_id = FIRST_MESSAGE_ID
        self._answer.forget()
        return True

    def preempt(self, ticket: int) -> None:
        """See ``Link``."""
        self._wake.preempt(ticket)

    def close(self) -> None:
        """See ``Link``."""
        channels = (self._sync_channel, self._async_channel)
        self._sync_channel = self._async_channel = self._header = None
        self._answer.forget()
        for channel in channels:
            if channel is not None:
                channel.close()

    def release(self) -> None:
        """See ``Link``."""
        self.close()
        self._wake.release()

    def _agree_on_size(self, deadline: float) -> None:
        channel = self._async
        payload = struct.pack("!Q", OUR_LARGEST_BYTES)
        channel.send(HEADER.pack(b"HS", MAX_SIZE, 0, 0, len(payload)) + payload, deadline)
        answer = self._skip_to(channel, MAX_SIZE_RESPONSE, deadline)
        if answer.length != len(payload):
            raise LinkGarbled("the server names no message size")
        (takes,) = struct.unpack("!Q", channel.take(answer.length, deadline))
        self._server_takes = max(SMALLEST_LARGEST_BYTES, min(takes, OUR_LARGEST_BYTES))

    def _more(self, deadline: float) -> None:
        """Add the next message of this answer to it; others are dropped."""
        stream = self._sync
        header = self._header or _header(stream.take(HEADER.size, deadline))
        self._header = header
        if header.kind not in {DATA, DATA_END}:
            text = self._control_text(stream, header, deadline)
            if header.kind == FATAL_ERROR:
                raise LinkLost(f"the instrument ended the session: {text}")
            if header.kind == ERROR:
                raise LinkGarbled(f"the instrument reports a HiSLIP error: {text}")
            return
        if header.length > MAX_MESSAGE_BYTES * 32:
            raise LinkGarbled(f"a message announces {header.length} bytes")
        payload = stream.take(header.length, deadline)
        self._header = None
        if header.parameter in {ANY_MESSAGE_ID, self._last_id}:
            self._answer.add(payload, has_end=header.kind == DATA_END)

    def _control_text(self, stream: SocketStream, header: Header, deadline: float) -> str:
        if header.length > MAX_CONTROL_BYTES:
            raise LinkGarbled("the instrument is out of step")
        payload = stream.take(header.length, deadline)
        self._header = None
        return payload[:200].decode("ascii", errors="replace")

    def _skip_to(self, stream: SocketStream, kind: int, deadline: float) -> Header:
        """The next message of this kind; those before it, and a half-read one, are dropped."""
        while True:
            header = self._header if stream is self._sync else None
            header = header or _header(stream.take(HEADER.size, deadline))
            self._header = None
            if header.kind == kind:
                return header
            if header.length > MAX_MESSAGE_BYTES * 32:
                raise LinkGarbled("the instrument is out of step")
            stream.take(header.length, deadline)

    def _connect(self, deadline: float) -> TcpChannel:
        return TcpChannel(
            self._socket_address,
            self._open_resource,
            wake=self._wake,
            clock=self._clock,
            timeout_s=deadline - self._clock.monotonic(),
        )

    def _handshake(
        self, stream: SocketStream, kind: int, parameter: int, deadline: float, payload: bytes = b""
    ) -> Header:
        stream.send(HEADER.pack(b"HS", kind, 0, parameter, len(payload)) + payload, deadline)
        answer = _header(stream.take(HEADER.size, deadline))
        stream.take(min(answer.length, MAX_CONTROL_BYTES), deadline)
        if answer.kind not in {INITIALIZE_RESPONSE, ASYNC_INITIALIZE_RESPONSE}:
            raise LinkLost("the instrument refused the session")
        return answer

    @property
    def _sync(self) -> SocketStream:
        if self._sync_channel is None:
            raise LinkLost("not connected")
        return self._sync_channel.stream

    @property
    def _async(self) -> SocketStream:
        if self._async_channel is None:
            raise LinkLost("not connected")
        return self._async_channel.stream


def _taken_apart(address: str) -> tuple[str, bytes]:
    """The socket's address, and the sub-address (``hislip0``)."""
    _, host, device, *_ = address.split("::")
    sub_address, _, port = device.partition(",")
    return f"TCPIP::{host}::{port or DEFAULT_PORT}::SOCKET", sub_address.encode("ascii", "replace")


def _header(data: bytes) -> Header:
    prologue, kind, control, parameter, length = HEADER.unpack(data)
    if prologue != b"HS":
        raise LinkGarbled("what came is no HiSLIP")
    return Header(kind, control, parameter, length)
