"""One POST being answered: carries the exchange's effects to whoever reads them.

That is the connection by which it came; or, if that broke after an event stream with ids had begun,
the GET by which the client resumed the stream. What to send is decided by ``protocol.exchange``.
"""

from __future__ import annotations

import asyncio
from typing import assert_never

from edged.clock import Clock
from edged.protocol.exchange import Effects, EndStream, Exchange, OpenStream, Respond, Write
from edged.protocol.sse import EventLog
from edged.surfaces.mcp.reply import KeepAlives, StreamReply, Wire
from edged.surfaces.mcp.sessions import CallEnd, CallEndedError, RunningCall, Session

__all__ = ["Post"]


class Post:
    """The answer to one POST, on its way.

    Args:
        wire: the way back.
        exchange: what to send.
        session: whose it is; ``None`` for a request that stands alone.
        log: keeps the events of a resumable stream.
        keep_alives: where silent calls are listed.

    Attributes:
        last_write_s: see ``stream_reply.Quiet``.
        calls: the calls of this POST that can be ended.
    """

    __slots__ = (
        "_keep_alives",
        "_log",
        "_over",
        "_own_stream",
        "_session",
        "_stream",
        "_wire",
        "calls",
        "exchange",
        "last_write_s",
    )

    def __init__(
        self,
        *,
        wire: Wire,
        exchange: Exchange,
        session: Session | None,
        log: EventLog | None,
        keep_alives: KeepAlives,
        clock: Clock,
    ) -> None:
        self._wire = wire
        self._session = session
        self._log = log
        self._keep_alives = keep_alives
        # Where to write now; and the stream of this POST's own connection, which may be another.
        self._stream: StreamReply | None = None
        self._own_stream: StreamReply | None = None
        self._over: asyncio.Event | None = None
        self.exchange = exchange
        self.calls: list[RunningCall] = []
        self.last_write_s = clock.monotonic()

    @property
    def is_lagging(self) -> bool:
        """Whether the reader of the stream is so far behind that progress should be left out."""
        return self._stream is not None and self._stream.is_full

    def begin(self) -> None:
        """Calls are about to be served: watch the client, show it signs of life."""
        self._keep_alives.add(self)
        self._wire.connection.on_gone = self.client_gone
        if self._wire.is_lost:
            self.client_gone()

    def tie(self, call: RunningCall) -> None:
        """From now on the client's going ends this call.

        Raises:
            CallEndedError: it has gone already.
        """
        call.is_cut_by_disconnect = True
        self._wire.connection.probe_by(self.probe)
        if self._wire.is_lost:
            call.end(CallEnd.CLIENT_GONE)
            raise CallEndedError(CallEnd.CLIENT_GONE)

    def carry_out(self, effects: Effects, *, in_bursts: bool = False) -> None:
        """Do what the exchange says, in its order.

        Args:
            in_bursts: more of the kind may follow in this turn of the loop.
        """
        for effect in effects:
            match effect:
                case Respond(status=status, headers=headers, body=body):
                    self._wire.respond(status, headers, body)
                case OpenStream(status=status, headers=headers):
                    self._stream = self._own_stream = self._wire.open_stream(headers, status)
                    if self._session is not None and self._log is not None:
                        self._session.resumable[self._log.stream] = self
                case Write(data=data):
                    if self._stream is not None:
                        (self._stream.write_soon if in_bursts else self._stream.write)(data)
                case EndStream():
                    if self._stream is not None:
                        self._stream.end()
                case _:
                    assert_never(effect)

    def notify(self, slot: int, payload: bytes) -> None:
        """Send a notification of a call."""
        self.carry_out(self.exchange.notify(slot, payload), in_bursts=True)
        if self._stream is not None:
            self.last_write_s = self._stream.last_write_s

    def keep_alive(self) -> None:
        """See ``stream_reply.Quiet``."""
        if self._stream is not None:
            self._stream.keep_alive()
            self.last_write_s = self._stream.last_write_s
        else:
            self.carry_out(self.exchange.keep_alive())

    def probe(self) -> bool:
        """See ``HttpConnection.probe_by``."""
        self.keep_alive()
        return self._stream is not None or self._wire.go_on()

    def cut(self) -> None:
        """Break the stream off."""
        if self._stream is not None:
            self._stream.cut()

    def resume(self, stream: StreamReply) -> asyncio.Event:
        """Write on there from now on; the event is set when the stream is over."""
        if self._stream is not None:
            self._stream.end()
        self._stream = stream
        self._over = asyncio.Event()
        return self._over

    def lost(self, stream: StreamReply) -> None:
        """A stream that resumed this one is gone."""
        stream.lost()
        if self._stream is stream:
            self._stream = None

    def client_gone(self) -> None:
        """The connection is lost: end what is only worth it for a listener."""
        self.exchange.abandon()
        if self._own_stream is not None:
            self.lost(self._own_stream)
        for call in self.calls:
            if call.is_cut_by_disconnect:
                call.end(CallEnd.CLIENT_GONE)

    def finish(self) -> None:
        """Every call is settled, or never will be."""
        self._wire.connection.on_gone = None
        self._wire.connection.end_probing()
        self._keep_alives.discard(self)
        if self._log is not None:
            self._log.finish()
            if self._session is not None:
                self._session.resumable.pop(self._log.stream, None)
        if self._over is not None:
            self._over.set()
