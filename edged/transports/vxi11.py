"""``TCPIP::host[,port]::inst0::INSTR``: VXI-11 over ONC RPC.

The connection and the calls are ours. pyvisa-py's calls cannot be woken, wait a second longer than
the time limit, at 100 % of a core once the peer has closed, and leave the socket of a failed
handshake open. A read that is pre-empted leaves its call open: it is ended over the abort channel,
its connection is closed and a new link is created. Otherwise ``device_clear`` makes the line clean.
"""

from __future__ import annotations

import contextlib
import struct
from typing import Final

from edged.clock import Clock
from edged.transports.link import (
    LinkError,
    LinkGarbled,
    LinkLost,
    LinkTimeout,
    Wake,
)
from edged.transports.message import MessageLinkBase
from edged.transports.tcp import SocketStream, TcpChannel, rpc_refusal, vxi11_error

CORE_PROGRAM: Final = 0x0607AF
ASYNC_PROGRAM: Final = 0x0607B0
DEVICE_ABORT: Final = 1
PORT_MAPPER: Final = 100_000
PORT_MAPPER_PORT: Final = 111
GET_PORT: Final = 3
TCP: Final = 6
CREATE_LINK: Final = 10
DEVICE_WRITE: Final = 11
DEVICE_READ: Final = 12
DEVICE_READSTB: Final = 13
DEVICE_CLEAR: Final = 15
DESTROY_LINK: Final = 23

READ_HEAD_BYTES: Final = 36
"""Of a reply to ``DEVICE_READ``, in front of the data of the answer."""
FLAG_END: Final = 8
REASON_END: Final = 4
IO_TIMEOUT: Final = 15
LINK_LOST: Final = frozenset({3, 4, 6, 11})
"""Device not accessible, invalid link identifier, channel not established, locked by another."""
LAST_FRAGMENT: Final = 0x8000_0000
READ_BYTES: Final = 1024 * 1024
MAX_RECORD_BYTES: Final = 64 * 1024 * 1024
SMALLEST_WRITE_BYTES: Final = 64
"""Of a device that does not say how much it takes at once."""
MARGIN_S: Final = 0.1
"""So much before our own limit the device is asked to give up, and says so in step."""
CLEAR_WITHIN_S: Final = 0.3
FAREWELL_S: Final = 0.1
CLIENT_ID: Final = 0x6564


class Vxi11Denied(LinkGarbled):
    """The whole reply is that this procedure is not done; the connection is in step."""


class Vxi11Link(MessageLinkBase):
    """See ``Link``."""

    def __init__(self, address: str, clock: Clock, wake: Wake | None = None) -> None:
        super().__init__(clock, wake)
        self._address = address
        self._host, self._port, self._device = _taken_apart(address)
        # None while closed.
        self._channel: TcpChannel | None = None
        self._link_id = 0
        # Where a call in progress can be ended; 0 while nothing is known of it.
        self._abort_port = 0
        self._takes_bytes = 1024
        self._call_id = 0
        # A call has been sent whose reply has not come: this connection can only be closed.
        self._is_waiting = False

    def open(self, timeout_s: float) -> None:
        self.close()
        deadline = self._clock.monotonic() + timeout_s
        try:
            port = self._port or self._mapped_port(deadline)
            self._channel = self._connect(port, deadline, self._address)
            name = self._device
            head = struct.pack(">iIII", CLIENT_ID, 0, 0, len(name))
            reply = self._call(CREATE_LINK, head + name + bytes(-len(name) % 4), deadline)
            if _integer(reply, 0):
                raise LinkLost(f"no link was created: {vxi11_error(_integer(reply, 0))}")
            self._link_id = _integer(reply, 4)
            self._abort_port = _integer(reply, 8)
            self._takes_bytes = min(_integer(reply, 12), READ_BYTES) or SMALLEST_WRITE_BYTES
            self._status.opened()
        except LinkError:
            self._hang_up()
            raise

    def write(self, data: bytes, timeout_s: float) -> None:
        deadline = self._clock.monotonic() + timeout_s
        self._answer.forget()
        while data:
            piece = data[: self._takes_bytes]
            flags = FLAG_END * (len(piece) == len(data))
            patience_ms = self._patience_ms(deadline)
            head = struct.pack(">iIIii", self._link_id, patience_ms, 0, flags, len(piece))
            reply = self._call(DEVICE_WRITE, head + piece + bytes(-len(piece) % 4), deadline)
            _judge(_integer(reply, 0), "writing")
            taken = _integer(reply, 4)
            if not 0 < taken <= len(piece):
                raise LinkGarbled(f"the instrument took {taken} bytes of {len(piece)}")
            data = data[taken:]

    def pending(self) -> bytes:
        """See ``Link``. A reply to no call means that the connection is out of step."""
        if self._connected().drain():
            raise LinkLost("the instrument is out of step")
        return self._answer.take_rest()

    def clear(self, timeout_s: float) -> bool:
        """See ``Link``: ``device_clear``, unless a call is still open on this connection."""
        if self._is_waiting or self._channel is None:
            return False
        deadline = self._clock.monotonic() + min(timeout_s, CLEAR_WITHIN_S)
        try:
            reply = self._call(DEVICE_CLEAR, self._generic(deadline), deadline)
            _judge(_integer(reply, 0), "clearing")
        except (LinkTimeout, LinkLost, LinkGarbled):
            return False
        self._answer.forget()
        return True

    def close(self) -> None:
        """See ``Link``. Says farewell where nobody has to be waited for."""
        if self._channel is not None:
            deadline = self._clock.monotonic() + FAREWELL_S
            arguments = struct.pack(">i", self._link_id)
            with contextlib.suppress(LinkError):
                if not self._is_waiting:
                    self._call(DESTROY_LINK, arguments, deadline)
                elif 0 < self._abort_port < 65_536:
                    self._abort(arguments, deadline)
        self._hang_up()

    def _connect(self, port: int, deadline: float, called: str) -> TcpChannel:
        return TcpChannel(
            f"TCPIP::{self._host}::{port}::SOCKET",
            wake=self._wake,
            clock=self._clock,
            timeout_s=deadline - self._clock.monotonic(),
            called=called,
        )

    def _mapped_port(self, deadline: float) -> int:
        """Where the instrument's port mapper says that it listens."""
        called = f"the port mapper of {self._address}"
        self._channel = self._connect(PORT_MAPPER_PORT, deadline, called)
        arguments = struct.pack(">IIII", CORE_PROGRAM, 1, TCP, 0)
        reply = self._call(GET_PORT, arguments, deadline, program=PORT_MAPPER, version=2)
        self._hang_up()
        port = _integer(reply, 0)
        if not 0 < port < 65_536:
            raise LinkLost(
                "the instrument offers no VXI-11: try a raw socket (port 5025) or hislip0"
            )
        return port

    def _abort(self, arguments: bytes, deadline: float) -> None:
        """End the call in progress: some instruments take no new link before it has ended."""
        abandoned, self._channel = self._channel, None
        try:
            self._channel = self._connect(
                self._abort_port, deadline, f"the abort channel of {self._address}"
            )
            self._call(DEVICE_ABORT, arguments, deadline, program=ASYNC_PROGRAM)
        finally:
            if abandoned is not None:
                abandoned.close()

    def _hang_up(self) -> None:
        channel, self._channel = self._channel, None
        self._is_waiting = False
        self._answer.forget()
        if channel is not None:
            channel.close()

    def _more(self, deadline: float) -> None:
        """Add what the device has of its answer to it."""
        arguments = struct.pack(
            ">iIIIii", self._link_id, READ_BYTES, self._patience_ms(deadline), 0, 0, 0
        )
        try:
            reply = self._call(DEVICE_READ, arguments, deadline)
        except (LinkTimeout, LinkLost) as ended:
            if self._is_waiting:
                ended.came = bytes(self._connected().buffer[READ_HEAD_BYTES:])
            raise
        size = _integer(reply, 8) if len(reply) >= 12 else 0
        data = reply[12 : 12 + size]
        if len(data) < size:
            raise LinkGarbled(f"a reply announces {size} bytes and brings {len(data)}", came=data)
        try:
            _judge(_integer(reply, 0), "reading")
        except (LinkTimeout, LinkLost, LinkGarbled) as ended:
            ended.came = data
            raise
        has_end = bool(_integer(reply, 4) & REASON_END)
        self._answer.add(data, has_end=has_end)

    def _read_status(self, deadline: float) -> int | None:
        try:
            reply = self._call(DEVICE_READSTB, self._generic(deadline), deadline)
        except Vxi11Denied:
            return None
        if _integer(reply, 0):
            # Whatever it has against telling its status, its answers may be well.
            return None
        return _integer(reply, 4) & 0xFF

    def _generic(self, deadline: float) -> bytes:
        """The arguments of a call that has none of its own."""
        return struct.pack(">iiII", self._link_id, 0, 0, self._patience_ms(deadline))

    def _call(
        self,
        procedure: int,
        arguments: bytes,
        deadline: float,
        *,
        program: int = CORE_PROGRAM,
        version: int = 1,
    ) -> bytes:
        """One remote procedure; gives what follows the head of its reply."""
        stream = self._connected()
        self._call_id = (self._call_id + 1) & 0xFFFF_FFFF
        head = struct.pack(">IIIIII", self._call_id, 0, 2, program, version, procedure)
        record = head + bytes(16) + arguments
        self._is_waiting = True
        stream.send(struct.pack(">I", LAST_FRAGMENT | len(record)) + record, deadline)
        while True:
            reply = self._record(stream, deadline)
            if _integer(reply, 0) == self._call_id:
                break
        self._is_waiting = False
        if _integer(reply, 4) != 1 or _integer(reply, 8) != 0:
            raise Vxi11Denied("the instrument denied the call")
        after_verifier = 20 + (_integer(reply, 16) + 3 & ~3)
        accepted = _integer(reply, after_verifier)
        if accepted:
            raise Vxi11Denied(f"the call was not taken: {rpc_refusal(accepted)}")
        return reply[after_verifier + 4 :]

    @staticmethod
    def _record(stream: SocketStream, deadline: float) -> bytes:
        """One reply, put together from its fragments."""
        record = b""
        while True:
            mark = _integer(stream.take(4, deadline), 0)
            length = mark & ~LAST_FRAGMENT
            if len(record) + length > MAX_RECORD_BYTES:
                raise LinkLost("what came is no VXI-11")
            record += stream.take(length, deadline)
            if mark & LAST_FRAGMENT:
                return record

    def _patience_ms(self, deadline: float) -> int:
        left_s = max(0.0, deadline - self._clock.monotonic())
        return max(1, int(1000 * (left_s - min(MARGIN_S, left_s / 4))))

    def _connected(self) -> SocketStream:
        if self._channel is None:
            raise LinkLost("not connected")
        return self._channel.stream


def _taken_apart(address: str) -> tuple[str, int, bytes]:
    """Host, port (0: ask the port mapper) and device name (``inst0``)."""
    _, place, *rest = address.split("::")
    host, _, port = place.partition(",")
    device = rest[0] if rest and rest[0].upper() != "INSTR" else "inst0"
    return host, int(port) if port.isdigit() else 0, device.encode("ascii", "replace")


def _integer(data: bytes, place: int) -> int:
    if len(data) < place + 4:
        raise LinkGarbled("a reply is too short")
    return int.from_bytes(data[place : place + 4], "big")


def _judge(error: int, doing: str) -> None:
    """Raise what a device error number means."""
    if error == IO_TIMEOUT:
        raise LinkTimeout(f"{doing} took too long")
    if error in LINK_LOST:
        raise LinkLost(f"{doing} failed: {vxi11_error(error)}")
    if error:
        raise LinkGarbled(f"{doing} failed: {vxi11_error(error)}")
