"""``TCPIP::host::port::SOCKET``: a plain stream of bytes over TCP.

PyVISA opens and closes the session; the bytes are moved here, over that session's socket.
pyvisa-py's own read and write of a raw socket lose the bytes read so far at a timeout, wait out the
whole timeout after the peer has closed, cannot be woken, wait without bound when the peer does not
take what is written, and fail with descriptors over 1,023 (``select``). This becomes needless when
pyvisa-py's SOCKET session can be woken and keeps its bytes.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from edged.clock import Clock
from edged.instruments.link import (
    LinkError,
    LinkGarbled,
    LinkLost,
    LinkTimeout,
    translated,
)
from edged.instruments.wake import SELECTOR_CLASS, Wake, wait_readable

__all__ = ["RawSocketLink"]

MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024
"""Longer than any answer in text (a deep waveform in ASCII); garbage without line ends is cut."""
RECEIVE_BYTES: Final = 64 * 1024
MAX_PENDING_READS: Final = 64
"""A peer that floods is not read for ever before a write."""
CONNECT_SLICE_S: Final = 1.5
"""pyvisa-py's connect cannot be woken; tried in slices, a stop waits for one of them. A slice
outlasts the first repetition of a lost SYN (1 s)."""
KEEPALIVE: Final = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3))
"""Seconds, seconds, times: a peer that vanished without a word is noticed after about 11 s."""
TCP_OPTIONS: Final[Mapping[str, int]] = MappingProxyType(
    {name: value for name, value in vars(socket).items() if name.startswith("TCP_KEEP")}
)


class RawSocketLink:
    """See ``Link``; messages are split here, by the terminator that the reader names."""

    def __init__(
        self, address: str, open_resource: Callable[[str, float], Any], clock: Clock
    ) -> None:
        self._address = address
        self._open_resource = open_resource
        self._clock = clock
        self._wake = Wake()
        # PyVISA's resource, and the socket inside of it; None while closed.
        self._resource: Any = None
        self._socket: socket.socket | None = None
        # Waits for the socket and the wake; made with each connection.
        self._selector: selectors.BaseSelector | None = None
        # Came in and was not asked for yet; emptied with each connection.
        self._buffer = bytearray()

    def open(self, timeout_s: float) -> None:
        """See ``Link``. Tries in slices, between which a pre-emption is heard."""
        self.close()
        deadline = self._clock.monotonic() + timeout_s
        while self._resource is None:
            self._wake.check()
            began = self._clock.monotonic()
            slice_s = max(0.001, min(deadline - began, CONNECT_SLICE_S))
            try:
                self._resource = self._open_resource(self._address, slice_s)
            except LinkError as error:
                now = self._clock.monotonic()
                if now - began < slice_s * 0.9:
                    raise
                if now >= deadline:
                    raise LinkLost(f"{self._address} cannot be reached") from error
        try:
            with translated(f"connecting to {self._address}"):
                self._adopt()
        except LinkError:
            self.close()
            raise

    def begin(self, ticket: int) -> None:
        """See ``Link``."""
        self._wake.begin(ticket)

    def write(self, data: bytes, timeout_s: float) -> None:
        """See ``Link``."""
        deadline = self._clock.monotonic() + timeout_s
        rest = memoryview(data)
        connection = self._connected()
        self._wake.check()
        while rest:
            try:
                rest = rest[connection.send(rest) :]
            except BlockingIOError:
                self._wait(selectors.EVENT_WRITE, deadline)
            except OSError as error:
                raise LinkLost(f"writing failed: {error}") from error

    def read_message(self, terminator: bytes, timeout_s: float) -> bytes:
        """See ``Link``."""
        deadline = self._clock.monotonic() + timeout_s
        buffer = self._buffer
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
            self._receive(deadline)

    def read_exactly(self, count: int, timeout_s: float) -> bytes:
        """See ``Link``."""
        deadline = self._clock.monotonic() + timeout_s
        while len(self._buffer) < count:
            self._receive(deadline)
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    def pending(self) -> bytes:
        """See ``Link``."""
        connection = self._connected()
        for _ in range(MAX_PENDING_READS):
            try:
                data = connection.recv(RECEIVE_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                raise LinkLost(f"the connection broke: {error}") from error
            if not data:
                raise LinkLost("the instrument closed the connection")
            self._buffer += data
        unasked = bytes(self._buffer)
        self._buffer.clear()
        return unasked

    def pause(self, seconds: float) -> None:
        """See ``Link``."""
        deadline = self._clock.monotonic() + seconds
        self._wake.check()
        while (left_s := deadline - self._clock.monotonic()) > 0:
            if wait_readable(self._wake.fileno(), left_s):
                self._wake.heard()

    def clear(self, timeout_s: float) -> bool:
        """See ``Link``: raw sockets have none (pyvisa-py's spins for ever after a FIN)."""
        del timeout_s
        return False

    def preempt(self, ticket: int) -> None:
        """See ``Link``."""
        self._wake.preempt(ticket)

    def close(self) -> None:
        """See ``Link``."""
        resource, self._resource = self._resource, None
        selector, self._selector = self._selector, None
        self._socket = None
        self._buffer.clear()
        if selector is not None:
            selector.close()
        if resource is not None:
            with contextlib.suppress(LinkError), translated("closing"):
                resource.close()

    def release(self) -> None:
        """See ``Link``."""
        self.close()
        self._wake.release()

    def _adopt(self) -> None:
        """Take the session's socket over and make sure that it is connected.

        pyvisa-py reports success for a refused port: its ``select`` finds the socket "ready".
        """
        session = self._resource.visalib.sessions[self._resource.session]
        connection: socket.socket = session.interface
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
        self._selector = SELECTOR_CLASS()
        self._selector.register(self._wake.fileno(), selectors.EVENT_READ)
        self._selector.register(connection, selectors.EVENT_READ)
        self._socket = connection

    def _connected(self) -> socket.socket:
        if self._socket is None:
            raise LinkLost("not connected")
        return self._socket

    def _receive(self, deadline: float) -> None:
        """Wait for bytes and add them to the buffer."""
        self._wait(selectors.EVENT_READ, deadline)
        try:
            data = self._connected().recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise LinkLost(f"reading failed: {error}") from error
        if not data:
            raise LinkLost("the instrument closed the connection")
        self._buffer += data

    def _wait(self, events: int, deadline: float) -> None:
        """Wait until the socket is ready for ``events``.

        Raises:
            LinkTimeout, LinkPreempted: it was not, before that.
        """
        connection, selector = self._connected(), self._selector
        if selector is None:
            raise LinkLost("not connected")
        if selector.get_key(connection).events != events:
            selector.modify(connection, events)
        while True:
            left_s = deadline - self._clock.monotonic()
            if left_s <= 0:
                raise LinkTimeout("nothing came before the time limit")
            is_ready = False
            for key, _ in selector.select(left_s):
                if key.fileobj is connection:
                    is_ready = True
                else:
                    self._wake.heard()
            if is_ready:
                return
