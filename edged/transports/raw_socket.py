"""``TCPIP::host::port::SOCKET``: a plain stream of bytes over TCP.

Not by PyVISA: pyvisa-py's read and write of a raw socket lose the bytes read so far at a timeout,
wait out the whole timeout after the peer has closed, cannot be woken, wait without bound when the
peer does not take what is written, and fail with descriptors over 1,023 (``select``). This becomes
needless when pyvisa-py's SOCKET session can be woken and keeps its bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from edged.clock import Clock
from edged.transports.link import LinkBase, LinkLost, LinkTimeout, Wake
from edged.transports.tcp import SocketStream, TcpChannel


class RawSocketLink(LinkBase):
    """See ``Link``; messages are split here, by the terminator that the reader names.

    Attributes:
        channel_class: what connects.
    """

    channel_class = TcpChannel

    def __init__(self, address: str, clock: Clock, wake: Wake | None = None) -> None:
        super().__init__(clock, wake)
        self._address = address
        # None while closed.
        self._channel: TcpChannel | None = None
        self._stream: SocketStream | None = None
        # See ``Link``; the stream's own methods while it is open. A call sees three to five times
        # whether anything came, and writes and reads as often.
        self.pending: Callable[[], bytes] = _nothing_open
        self.write: Callable[[bytes, float], None] = _nothing_open
        self.read_message: Callable[[bytes, float], bytes] = _nothing_open

    def open(self, timeout_s: float) -> None:
        self.close()
        self._channel = self.channel_class(
            self._address,
            wake=self._wake,
            clock=self._clock,
            timeout_s=timeout_s,
        )
        self._stream = self._channel.stream
        self.pending = self._stream.drain
        self.write = self._stream.write
        self.read_message = self._stream.read_message

    def read_exactly(self, count: int, timeout_s: float) -> bytes:
        stream = self._stream or _nothing_open()
        try:
            return stream.take(count, self._clock.monotonic() + timeout_s)
        except (LinkTimeout, LinkLost) as ended:
            ended.came = bytes(stream.buffer)
            raise

    def is_quiet(self) -> bool:
        return self._stream is not None and self._stream.is_quiet()

    def close(self) -> None:
        channel, self._channel, self._stream = self._channel, None, None
        self.pending = self.write = self.read_message = _nothing_open
        if channel is not None:
            channel.close()


def _nothing_open(*_: object) -> NoReturn:
    raise LinkLost("not connected")
