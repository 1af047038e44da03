"""``TCPIP::host::hislip0[,port]::INSTR``: HiSLIP 1.0 (IVI-6.1), synchronized mode.

Both connections and the protocol are ours. pyvisa-py's session cannot be woken, loses its place in
the stream at a time limit in the middle of a message, waits five seconds for a port that accepts
and stays silent, and leaves the sockets of a failed handshake open. Answers are told apart by
message id, so a late or doubled one is dropped.
Ids go on after a device clear, where IVI-6.1 (6.12) has them begin anew: a server copies what it is
sent, and one that was deaf to the clear would mark an old answer as the new one's. A server that
marks its answers by no such id is found out, and then used as one of a transport without ids.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import Final

from edged.clock import Clock
from edged.protocol.hislip import (
    ANY_MESSAGE_ID,
    DATA_TYPES,
    DEFAULT_PORT,
    FIRST_MESSAGE_ID,
    HEADER,
    LARGEST_MESSAGE,
    MAX_CONTROL_BYTES,
    SIZE,
    VERSION_1_0,
    Header,
    HislipFatal,
    MessageType,
    message,
    next_message_id,
    read_header,
)
from edged.transports.link import (
    LinkError,
    LinkGarbled,
    LinkLost,
    LinkTimeout,
    Wake,
)
from edged.transports.message import MESSAGE_AVAILABLE, MessageLinkBase
from edged.transports.tcp import MAX_MESSAGE_BYTES, SocketStream, TcpChannel, hislip_error

VENDOR: Final = int.from_bytes(b"ED", "big")
SYNCHRONIZED: Final = 0
"""What is asked for at a clear: the mode in which one question has one answer."""
PREFERS_OVERLAP: Final = 1
NO_MESSAGE_ID: Final = FIRST_MESSAGE_ID - 2
"""Of the message before the first."""
MOST_DOUBTS: Final = 2
"""Questions in a row for which nothing but a repeated old id came: ids mean nothing here."""
HELD_BACK_S: Final = 2.0
"""Data whose id is told later may take so long from one message to the next."""
MOST_UNPROVED_CLEARS: Final = 2
"""After so many clears in a row without an answer a new session is made."""
SMALLEST_LARGEST_BYTES: Final = 256
"""What a server says it takes at most is believed down to here."""
MOST_BYTES: Final = 32 * MAX_MESSAGE_BYTES
"""Of one message of data, and of data that are held back."""
CLEAR_WITHIN_S: Final = 0.3
"""A device that does not acknowledge a clear by then is quicker reopened."""


class HislipLink(MessageLinkBase):
    """See ``Link``."""

    def __init__(self, address: str, clock: Clock, wake: Wake | None = None) -> None:
        super().__init__(clock, wake)
        self._address = address
        self._socket_address, self._sub_address = _taken_apart(address)
        # None while closed.
        self._sync_channel: TcpChannel | None = None
        self._async_channel: TcpChannel | None = None
        self._server_takes = LARGEST_MESSAGE
        self._next_id = FIRST_MESSAGE_ID
        self._last_id = NO_MESSAGE_ID
        # The header that has been read and whose payload has not, all of it.
        self._header: Header | None = None
        # What has come of the present answer, and whether that was its end.
        # The end of an answer was read, and the server has not been told so (RMT-delivered).
        self._has_read_all = False
        # Data whose id their last message will tell; the id which the last message bore that did.
        self._held = bytearray()
        self._ended_id: int | None = None
        # This server copies the ids of questions. Kept over sessions: it is the same server.
        self._marks = True
        self._doubts = 0
        self._is_repeated = False
        self._unproved_clears = 0

    def open(self, timeout_s: float) -> None:
        self.close()
        self._next_id = FIRST_MESSAGE_ID
        self._last_id = NO_MESSAGE_ID
        self._ended_id = None
        self._has_read_all = False
        self._unproved_clears = 0
        deadline = self._clock.monotonic() + timeout_s
        try:
            self._sync_channel = self._connect(deadline)
            parameter = VERSION_1_0 << 16 | VENDOR
            answer = self._handshake(
                self._sync, MessageType.INITIALIZE, parameter, deadline, self._sub_address
            )
            self._async_channel = self._connect(deadline)
            self._handshake(
                self._async, MessageType.ASYNC_INITIALIZE, answer.parameter & 0xFFFF, deadline
            )
            self._agree_on_size(deadline)
            if answer.control & PREFERS_OVERLAP and not self.clear(CLEAR_WITHIN_S):
                raise LinkLost("the instrument does not leave HiSLIP's overlapped mode")
        except LinkError:
            self.close()
            raise
        self._status.opened()

    def write(self, data: bytes, timeout_s: float) -> None:
        deadline = self._clock.monotonic() + timeout_s
        has_read_all, self._has_read_all = int(self._has_read_all), False
        self._answer.forget()
        self._is_repeated = False
        largest = self._server_takes - HEADER.size
        pieces = [data[start : start + largest] for start in range(0, len(data), largest)] or [b""]
        for number, piece in enumerate(pieces, 1):
            kind = MessageType.DATA_END if number == len(pieces) else MessageType.DATA
            framed = message(kind, has_read_all, self._next_id, piece)
            self._last_id = self._next_id
            self._next_id = next_message_id(self._next_id)
            self._sync.send(framed, deadline)

    def pending(self) -> bytes:
        """See ``Link``. What belongs to an earlier question is dropped by its message id."""
        stream = self._sync
        stream.fill()
        # Service requests and notices of interruption; nobody waits for them.
        self._async.drain()
        if not self._marks:
            with contextlib.suppress(LinkTimeout):
                while stream.buffer or self._header:
                    self._more(self._clock.monotonic())
        return self._answer.take_rest()

    def marks_answers(self) -> bool:
        """See ``Link``: by message ids, unless this server has none that mean anything."""
        return self._marks

    def clear(self, timeout_s: float) -> bool:
        """See ``Link``: the device clear of both channels."""
        if self._unproved_clears >= MOST_UNPROVED_CLEARS:
            return False
        deadline = self._clock.monotonic() + min(timeout_s, CLEAR_WITHIN_S)
        try:
            asynchronous = self._async
            asynchronous.drain()
            asynchronous.send(message(MessageType.ASYNC_DEVICE_CLEAR), deadline)
            self._skip_to(asynchronous, {MessageType.ASYNC_DEVICE_CLEAR_ACKNOWLEDGE}, deadline)
            synchronous = self._sync
            synchronous.send(message(MessageType.DEVICE_CLEAR_COMPLETE, SYNCHRONIZED), deadline)
            acknowledged = self._skip_to(
                synchronous, {MessageType.DEVICE_CLEAR_ACKNOWLEDGE}, deadline
            )
        except (LinkLost, LinkTimeout, LinkGarbled):
            return False
        if acknowledged.control & PREFERS_OVERLAP:
            # It stays in the mode in which it counts its answers by itself.
            self._marks = False
        self._unproved_clears += 1
        self._answer.forget()
        self._held.clear()
        return True

    def close(self) -> None:
        channels = (self._sync_channel, self._async_channel)
        self._sync_channel = self._async_channel = self._header = None
        self._answer.forget()
        self._held.clear()
        for channel in channels:
            if channel is not None:
                channel.close()

    def _agree_on_size(self, deadline: float) -> None:
        channel = self._async
        payload = SIZE.pack(LARGEST_MESSAGE)
        channel.send(message(MessageType.ASYNC_MAXIMUM_MESSAGE_SIZE, payload=payload), deadline)
        answer = self._skip_to(channel, {MessageType.ASYNC_MAXIMUM_MESSAGE_SIZE_RESPONSE}, deadline)
        if answer.length != len(payload):
            raise LinkGarbled("the server names no message size")
        (takes,) = SIZE.unpack(channel.take(answer.length, deadline))
        self._server_takes = max(SMALLEST_LARGEST_BYTES, min(takes, LARGEST_MESSAGE))

    def _more(self, deadline: float) -> None:
        """Add the next message of this answer to it; others are dropped.

        Some servers say only with the last of an answer's messages whose it is. What came before
        is held back until then, as long as it moves.
        """
        try:
            header, payload = self._message(deadline)
            while header.parameter == ANY_MESSAGE_ID and header.kind == MessageType.DATA:
                self._held += payload
                if len(self._held) > MOST_BYTES:
                    raise LinkGarbled(f"{len(self._held)} bytes came without an end")
                deadline = max(deadline, self._clock.monotonic() + HELD_BACK_S)
                header, payload = self._message(deadline)
        except LinkTimeout as late:
            is_data = self._header is not None and self._header.kind in DATA_TYPES
            late.came = bytes(self._held + self._sync.buffer if is_data else self._held)
            self._doubt()
            raise
        if header.kind not in DATA_TYPES:
            _judge(header, payload)
            return
        has_end = header.kind == MessageType.DATA_END
        if header.parameter == self._last_id or self._is_ours(
            header.parameter, payload, has_end=has_end
        ):
            self._answer.add(self._held + payload if self._held else payload, has_end=has_end)
            self._has_read_all = has_end
            self._unproved_clears = 0
            if has_end and self._last_id != FIRST_MESSAGE_ID:
                self._doubts = 0
        if has_end:
            self._ended_id = header.parameter
        if self._held:
            self._held.clear()

    def _message(self, deadline: float) -> tuple[Header, bytes]:
        """The next message, whole; at a time limit nothing of it is lost."""
        stream = self._sync
        header = self._header = self._header or _header(stream.take(HEADER.size, deadline))
        if header.length > (MOST_BYTES if header.kind in DATA_TYPES else MAX_CONTROL_BYTES):
            raise LinkGarbled(f"a message announces {header.length} bytes")
        payload = stream.take(header.length, deadline)
        self._header = None
        return header, payload

    def _is_ours(self, message_id: int, payload: bytes, *, has_end: bool) -> bool:
        """Whether a message that bears another id belongs to the question that was sent last."""
        if not self._marks:
            return True
        age = (self._last_id - message_id) & 0xFFFF_FFFF
        if age & 1 or age > (self._last_id - FIRST_MESSAGE_ID) & 0xFFFF_FFFF:
            # No id that this session has had.
            self._marks = False
            if self._last_id == FIRST_MESSAGE_ID:
                return True
            raise LinkGarbled("an answer bears the mark of no question asked", came=payload)
        self._is_repeated = self._is_repeated or (has_end and message_id == self._ended_id)
        return False

    def _doubt(self) -> None:
        """No answer came. An id that comes again and again is no mark, but the only one it has."""
        if self._is_repeated:
            self._is_repeated = False
            self._doubts += 1
            self._marks = self._marks and self._doubts < MOST_DOUBTS

    def _read_status(self, deadline: float) -> int | None:
        channel = self._async
        # Answers to queries that were cut short, service requests.
        channel.drain()
        has_read_all, self._has_read_all = int(self._has_read_all), False
        query = message(MessageType.ASYNC_STATUS_QUERY, has_read_all, self._last_id)
        channel.send(query, deadline)
        answer = self._skip_to(
            channel, {MessageType.ASYNC_STATUS_RESPONSE, MessageType.ERROR}, deadline
        )
        channel.take(answer.length, deadline)
        if answer.kind != MessageType.ASYNC_STATUS_RESPONSE:
            return None
        if self._marks:
            return answer.control
        # What was sent is not in the server's output any more, and yet unread here.
        self._sync.fill()
        has_come = self._sync.buffer or self._header
        return answer.control | (MESSAGE_AVAILABLE if has_come else 0)

    def _skip_to(
        self, stream: SocketStream, kinds: Collection[MessageType], deadline: float
    ) -> Header:
        """The next message of these kinds; those before it, and a half-read one, are dropped."""
        while True:
            header = self._header if stream is self._sync else None
            header = header or _header(stream.take(HEADER.size, deadline))
            self._header = None
            if header.kind in kinds:
                return header
            if header.length > MOST_BYTES:
                raise LinkGarbled("the instrument is out of step")
            stream.take(header.length, deadline)

    def _connect(self, deadline: float) -> TcpChannel:
        return TcpChannel(
            self._socket_address,
            wake=self._wake,
            clock=self._clock,
            timeout_s=deadline - self._clock.monotonic(),
            called=self._address,
        )

    def _handshake(
        self, stream: SocketStream, kind: int, parameter: int, deadline: float, payload: bytes = b""
    ) -> Header:
        stream.send(message(kind, 0, parameter, payload), deadline)
        answer = _header(stream.take(HEADER.size, deadline))
        text = stream.take(min(answer.length, MAX_CONTROL_BYTES), deadline)
        if answer.kind not in {
            MessageType.INITIALIZE_RESPONSE,
            MessageType.ASYNC_INITIALIZE_RESPONSE,
        }:
            _judge(answer, text)
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
    try:
        return read_header(data)
    except HislipFatal as bad:
        raise LinkGarbled(bad.text) from None


def _judge(header: Header, payload: bytes) -> None:
    """Raise what a message that is no data means, if it is an error."""
    text = payload[:200].decode("ascii", errors="replace")
    if header.kind == MessageType.FATAL_ERROR:
        why = hislip_error(header.control, text, is_fatal=True)
        raise LinkLost(f"the instrument ended the session: {why}")
    if header.kind == MessageType.ERROR:
        why = hislip_error(header.control, text, is_fatal=False)
        raise LinkGarbled(f"the instrument reports an error: {why}")
