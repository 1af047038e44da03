"""One TCP connection of a HiSLIP client: bytes to messages and back, and who may send how much."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, Protocol

from edged.http.accepting import keep_alive, limit_reads
from edged.protocol.hislip import (
    FatalCode,
    HislipFatal,
    HislipMessage,
    MessageReader,
    TooLarge,
    fatal,
)

HIGH_WATER: Final = 256 * 1024
LINGER_S: Final = 1.0
"""Closing at once with something unread would reset the last words away."""


class Ears(Protocol):
    """Who hears what comes on a connection: the server first, then a session."""

    def heard(self, connection: HislipConnection, received: HislipMessage | TooLarge) -> None:
        """A message.

        Raises:
            HislipFatal: it ends the session.
        """
        ...

    def lost(self, connection: HislipConnection) -> None:
        """The connection is gone, or is about to be."""
        ...


class HislipConnection(asyncio.Protocol):
    """One connection.

    Args:
        ears: who hears it; is changed once it is known what it is for.

    Attributes:
        remote: whose it is; the supervisor's word where it was carried.
        peer_port: the port that it comes from.
        is_carried: the supervisor has said whose it is.
    """

    def __init__(self, ears: Ears) -> None:
        self.ears = ears
        self.remote = ""
        self.peer_port = 0
        self.is_carried = False
        self._reader = MessageReader()
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        # Nothing that comes is heard any more.
        self._is_deaf = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._closing: asyncio.TimerHandle | None = None

    # from asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - narrows the stub's type
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER)
        name = transport.get_extra_info("peername") or ("", 0)
        self.remote, self.peer_port = str(name[0]), int(name[1])
        keep_alive(transport.get_extra_info("socket"))
        limit_reads(transport)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if self._is_deaf:
            return
        self._reader.receive(data)
        self._hear()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Called by the loop."""
        self._transport = None
        self._is_deaf = True
        self._writable.set()
        if self._closing is not None:
            self._closing.cancel()
        self.ears.lost(self)

    def pause_writing(self) -> None:
        """Called by the loop: the client reads too slowly."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Called by the loop."""
        self._writable.set()

    # from its ears

    @property
    def is_open(self) -> bool:
        """Something can be said on it."""
        return self._transport is not None and not self._is_deaf

    def say(self, data: bytes) -> None:
        """Send; what a closed connection is told is lost."""
        if self._transport is not None and not self._is_deaf:
            self._transport.write(data)

    async def writable(self, within_s: float) -> None:
        """Wait until the client has read enough to be told more.

        Raises:
            TimeoutError: it has not, in that time.
        """
        if not self._writable.is_set():
            async with asyncio.timeout(within_s):
                await self._writable.wait()

    def pause(self) -> None:
        """Hear no more for now; what comes waits with the client."""
        if not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Hear again."""
        if self._is_paused:
            self._is_paused = False
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()
            self._hear()

    def end(self, code: FatalCode, text: str) -> None:
        """Say why the session ends, and close when the client has had time to read it."""
        self.say(fatal(code, text))
        self.close()

    def close(self) -> None:
        """Close, soon; nothing more is heard."""
        if self._is_deaf:
            return
        self._is_deaf = True
        if self._transport is None or self._transport.is_closing():
            return
        with contextlib.suppress(OSError):  # who has reset it hears nothing of its end
            self._transport.write_eof()
        self._transport.resume_reading()
        self._closing = asyncio.get_running_loop().call_later(LINGER_S, self.abort)

    def abort(self) -> None:
        """Close now."""
        self._is_deaf = True
        if self._transport is not None:
            self._transport.abort()

    def _hear(self) -> None:
        try:
            while not self._is_paused and not self._is_deaf:
                received = self._reader.next()
                if received is None:
                    return
                self.ears.heard(self, received)
        except HislipFatal as wrong:
            self.end(wrong.code, wrong.text)
            self.ears.lost(self)
