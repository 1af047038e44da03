"""A connected socket whose waits can be woken: what every network transport moves its bytes by.

The socket is made and closed by a PyVISA session; here it is only read and written. Nothing that
has come is ever lost at a time limit: it stays in the buffer.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from edged.clock import Clock
from edged.instruments.link import LinkGarbled, LinkLost, LinkTimeout
from edged.instruments.wake import SocketWatch, Wake

__all__ = ["MAX_MESSAGE_BYTES", "SocketStream"]

MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024
"""Longer than any answer in text (a deep waveform in ASCII); garbage without line ends is cut."""
RECEIVE_BYTES: Final = 64 * 1024
PEEK: Final = socket.MSG_PEEK
MAX_PENDING_READS: Final = 64
"""A peer that floods is not read for ever before a write."""
KEEPALIVE: Final = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3))
"""Seconds, seconds, times: a peer that vanished without a word is noticed after about 11 s."""
TCP_OPTIONS: Final[Mapping[str, int]] = MappingProxyType(
    {name: value for name, value in vars(socket).items() if name.startswith("TCP_KEEP")}
)


class SocketStream:
    """Bytes in and out of one connection; used by the line's own thread.

    Raises:
        OSError: when made over a socket that is not connected after all.
    """

    def __init__(self, connection: socket.socket, wake: Wake, clock: Clock) -> None:
        self._connection = connection
        self._wake = wake
        self._clock = clock
        # Came in and was not asked for yet.
        self.buffer = bytearray()
        failure = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failure:
            raise OSError(failure, "connection refused or unreachable")
        connection.getpeername()
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE:
            option = TCP_OPTIONS.get(name)
            if option is not None:
                connection.setsockopt(socket.IPPROTO_TCP, option, value)
        self._watch = SocketWatch(wake, connection)

    def send(self, data: bytes, deadline: float) -> None:
        """Send all of it; raises ``LinkTimeout``, ``LinkPreempted`` or ``LinkLost`` half-way."""
        rest = memoryview(data)
        self._wake.check()
        while rest:
            try:
                rest = rest[self._connection.send(rest) :]
            except BlockingIOError:
                self._wait(selectors.EVENT_WRITE, deadline)
            except OSError as error:
                raise LinkLost(f"writing failed: {error}") from error

    def receive(self, deadline: float) -> None:
        """Wait for bytes and add them to the buffer."""
        self._wait(selectors.EVENT_READ, deadline)
        try:
            data = self._connection.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise LinkLost(f"reading failed: {error}") from error
        if not data:
            raise LinkLost("the instrument closed the connection")
        self.buffer += data

    def take(self, count: int, deadline: float) -> bytes:
        """Exactly ``count`` bytes."""
        while len(self.buffer) < count:
            self.receive(deadline)
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        return data

    def take_until(self, terminator: bytes, deadline: float) -> bytes:
        """What comes before ``terminator``, which is dropped."""
        buffer = self.buffer
        searched = 0
        while True:
            end = buffer.find(terminator, searched)
            if end >= 0:
                message = bytes(buffer[:end])
                del buffer[: end + len(terminator)]
                return message
            if len(buffer) > MAX_MESSAGE_BYTES:
                raise LinkGarbled(f"{len(buffer)} bytes came without a line end")
            searched = max(0, len(buffer) - len(terminator) + 1)
            self.receive(deadline)

    def fill(self) -> None:
        """Take in what has come already; never waits.

        Raises:
            LinkLost: the peer has closed or reset the connection.
        """
        for _ in range(MAX_PENDING_READS):
            try:
                data = self._connection.recv(RECEIVE_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                raise LinkLost(f"the connection broke: {error}") from error
            if not data:
                raise LinkLost("the instrument closed the connection")
            self.buffer += data

    def is_quiet(self) -> bool:
        """Whether ``fill`` would find nothing, not even an end; any thread may ask."""
        try:
            self._connection.recv(1, PEEK)
        except BlockingIOError:
            return not self.buffer
        except OSError:
            return False
        return False

    def drain(self) -> bytes:
        """What has come unasked, taken out; never waits. Raises like ``fill``."""
        self.fill()
        unasked = bytes(self.buffer)
        self.buffer.clear()
        return unasked

    def close(self) -> None:
        """Stop watching; the socket itself is the session's to close."""
        self._watch.close()

    def _wait(self, events: int, deadline: float) -> None:
        """Wait until the socket is ready for ``events``.

        Raises:
            LinkTimeout, LinkPreempted: it was not, before that.
        """
        while True:
            left_s = deadline - self._clock.monotonic()
            if left_s <= 0:
                raise LinkTimeout("nothing came before the time limit")
            is_ready, is_called = self._watch.wait(events, left_s)
            if is_called:
                self._wake.heard()
            if is_ready:
                return
