"""``TCPIP::host::port::SOCKET``: a plain stream of bytes over TCP.

PyVISA opens and closes the session; the bytes are moved here, over that session's socket.
pyvisa-py's own read and write of a raw socket lose the bytes read so far at a timeout, wait out the
whole timeout after the peer has closed, cannot be woken, wait without bound when the peer does not
take what is written, and fail with descriptors over 1,023 (``select``). This becomes needless when
pyvisa-py's SOCKET session can be woken and keeps its bytes.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

from edged.clock import Clock
from edged.instruments.link import LinkError, LinkLost, OpenResource, translated
from edged.instruments.socket_stream import SocketStream
from edged.instruments.wake import Wake
from edged.profiles.model import Connection

__all__ = ["RawSocketLink", "connect_in_slices"]

CONNECT_SLICE_S: Final = 1.5
"""pyvisa-py's connect cannot be woken; tried in slices, a stop waits for one of them. A slice
outlasts the first repetition of a lost SYN (1 s)."""


class RawSocketLink:
    """See ``Link``; messages are split here, by the terminator that the reader names."""

    def __init__(self, address: str, open_resource: OpenResource, clock: Clock) -> None:
        self._address = address
        self._open_resource = open_resource
        self._clock = clock
        self._wake = Wake()
        # PyVISA's resource, and its socket; None while closed.
        self._resource: Any = None
        self._stream: SocketStream | None = None

    def tune(self, connection: Connection) -> None:
        """See ``Link``: nothing of a socket can be tuned."""

    def open(self, timeout_s: float) -> None:
        """See ``Link``. Tries in slices, between which a pre-emption is heard."""
        self.close()
        self._resource = connect_in_slices(
            self._address, self._open_resource, self._wake, self._clock, timeout_s
        )
        try:
            with translated(f"connecting to {self._address}"):
                # pyvisa-py reports success for a refused port: its `select` finds it "ready".
                session = self._resource.visalib.sessions[self._resource.session]
                self._stream = SocketStream(session.interface, self._wake, self._clock)
        except LinkError:
            self.close()
            raise

    def begin(self, ticket: int) -> None:
        """See ``Link``."""
        self._wake.begin(ticket)

    def write(self, data: bytes, timeout_s: float) -> None:
        """See ``Link``."""
        self._connected().send(data, self._clock.monotonic() + timeout_s)

    def read_message(self, terminator: bytes, timeout_s: float) -> bytes:
        """See ``Link``."""
        return self._connected().take_until(terminator, self._clock.monotonic() + timeout_s)

    def read_exactly(self, count: int, timeout_s: float) -> bytes:
        """See ``Link``."""
        return self._connected().take(count, self._clock.monotonic() + timeout_s)

    def pending(self) -> bytes:
        """See ``Link``."""
        return self._connected().drain()

    def pause(self, seconds: float) -> None:
        """See ``Link``."""
        self._wake.pause(seconds, self._clock)

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
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
        if resource is not None:
            with contextlib.suppress(LinkError), translated("closing"):
                resource.close()

    def release(self) -> None:
        """See ``Link``."""
        self.close()
        self._wake.release()

    def _connected(self) -> SocketStream:
        if self._stream is None:
            raise LinkLost("not connected")
        return self._stream


def connect_in_slices(
    address: str, open_resource: OpenResource, wake: Wake, clock: Clock, timeout_s: float
) -> Any:
    """A PyVISA resource for a raw socket.

    Raises:
        LinkError: it cannot be had; ``LinkPreempted`` between two slices.
    """
    deadline = clock.monotonic() + timeout_s
    while True:
        wake.check()
        began = clock.monotonic()
        slice_s = max(0.001, min(deadline - began, CONNECT_SLICE_S))
        try:
            return open_resource(address, slice_s)
        except LinkError as error:
            now = clock.monotonic()
            if now - began < slice_s * 0.9:
                raise
            if now >= deadline:
                raise LinkLost(f"{address} cannot be reached") from error
