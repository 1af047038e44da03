"""One HiSLIP connection through the proxy: bytes, and before them whose they are.

A session has two connections, and each comes through here by itself. The engine hears the peer's
address in a vendor's message of HiSLIP with the secret that both processes know
(``peer_header.py``); the rest is passed on as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from edged.http.accepting import keep_alive
from edged.protocol.hislip import FatalCode, fatal, message
from edged.supervisor.peer_header import PEER_MESSAGE
from edged.supervisor.proxied import HIGH_WATER, LINGER_S, EngineSide, Switchboard, peer_of

__all__ = ["CarriedSide"]

MAX_WAITING: Final = 64 * 1024
"""Of a client's first bytes, while the engine's side is being opened."""
AWAY: Final = "The engine is not running; it is being started again."


class CarriedSide(asyncio.Protocol):
    """The side that was connected to; see ``NearSide``."""

    def __init__(self, board: Switchboard) -> None:
        self._board = board
        self._transport: asyncio.Transport | None = None
        self._engine: EngineSide | None = None
        self._connecting: asyncio.Task[bool] | None = None
        self._waiting = bytearray()
        self._is_refused = False
        self.head_since_s: float | None = None
        self.asked_s: float | None = None

    # from asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - narrows the stub's type
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER)
        keep_alive(transport.get_extra_info("socket"))
        host, port = peer_of(transport)
        refused = self._board.opened(self, host, port)
        self.head_since_s = self._board.now()
        if refused is not None:
            is_full = refused.status == 503
            code = FatalCode.TOO_MANY_CLIENTS if is_full else FatalCode.UNIDENTIFIED
            self._refuse(code, refused.text)
        whose = self._board.peer_value(host).encode("ascii", "replace")
        self._waiting += message(PEER_MESSAGE, payload=whose)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if self._is_refused:
            return
        self.head_since_s = None
        if self._engine is not None:
            self._engine.write(data)
            return
        self._waiting += data
        if self._connecting is None:
            self._connecting = self._board.connect(lambda: EngineSide(self))
            if self._connecting is None:
                self._refuse(FatalCode.UNIDENTIFIED, AWAY)
                return
            self._connecting.add_done_callback(self._connected)
        if len(self._waiting) >= MAX_WAITING:
            self.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Called by the loop."""
        self._transport = None
        self._board.closed(self)
        if self._engine is not None:
            self._engine.drop()

    def pause_writing(self) -> None:
        """Called by the loop: the client reads too slowly."""
        if self._engine is not None:
            self._engine.pause_reading()

    def resume_writing(self) -> None:
        """Called by the loop."""
        if self._engine is not None:
            self._engine.resume_reading()

    # see ``NearSide``

    def engine_made(self, engine: EngineSide) -> None:
        """See ``NearSide``."""
        self._engine, self._connecting = engine, None
        if self._transport is None or self._is_refused:
            engine.drop()
            return
        engine.write(bytes(self._waiting))
        self._waiting.clear()
        self._transport.resume_reading()

    def answer(self, data: bytes) -> None:
        """See ``NearSide``."""
        self._board.pulse.heard()
        if self._transport is not None and not self._is_refused:
            self._transport.write(data)

    def engine_ended(self) -> None:
        """See ``NearSide``."""
        if self._transport is not None and not self._is_refused:
            self._transport.close()

    def pause_reading(self) -> None:
        """See ``NearSide``."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """See ``NearSide``."""
        if self._transport is not None:
            self._transport.resume_reading()

    def cut_slow(self) -> None:
        """It has never said anything."""
        self.abort()

    def refuse_unanswered(self) -> None:
        """Not asked of it: what waits for an instrument is not told from what waits for us."""

    def abort(self) -> None:
        """See ``NearSide``."""
        if self._transport is not None:
            self._transport.abort()

    def _connected(self, task: asyncio.Task[bool]) -> None:
        self._connecting = None
        if (task.cancelled() or not task.result()) and not self._is_refused:
            self._refuse(FatalCode.UNIDENTIFIED, AWAY)

    def _refuse(self, code: FatalCode, text: str) -> None:
        """Say why, and close when the client has had time to read it."""
        self._is_refused = True
        self.head_since_s = None
        self._waiting.clear()
        if self._engine is not None:
            self._engine.drop()
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(fatal(code, text))
        with contextlib.suppress(OSError):  # who has reset it hears nothing of its end
            self._transport.write_eof()
        self._transport.resume_reading()
        asyncio.get_running_loop().call_later(LINGER_S, self.abort)
