"""One HTTP request's way back: a whole answer, or the head of an event stream.

Both are written straight to the transport in one piece, because aiohttp's response objects cost
more than the rest of a cached call.

One open event stream on a connection: chunks out, with a bound on what a slow reader may hold.

Written straight to the transport, so that a list_changed to a thousand readers costs a thousand
writes and no task; the transport's own buffer is the only one, and its size is looked at before
each write. Keep-alive comments come from one task for all streams and silent calls.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Final, Protocol

from aiohttp.http_writer import HttpVersion11

from edged.clock import Clock
from edged.http.connection import GO_ON, HttpConnection
from edged.protocol.http_rules import HeaderList
from edged.protocol.sse import KEEP_ALIVE

MAX_BUFFERED_BYTES: Final = 1024 * 1024
"""Of one reader; a point of a stream is 150 bytes, so it is minutes behind by then."""
GATHERED_BYTES: Final = 64 * 1024
"""What goes out within a turn of the loop, too."""
LAST_CHUNK: Final = b"0\r\n\r\n"
TICKS_PER_INTERVAL: Final = 3


class StreamReply:
    """An event stream whose head has gone out.

    Args:
        is_chunked: false for HTTP/1.0, where the end of the connection ends the stream.

    Attributes:
        last_write_s: monotonic time of the latest bytes.
        is_open: false once ended, cut or lost; writing then does nothing.
    """

    __slots__ = ("_clock", "_gathered", "_is_chunked", "_transport", "is_open", "last_write_s")

    def __init__(
        self, transport: asyncio.WriteTransport, *, is_chunked: bool, clock: Clock
    ) -> None:
        self._transport = transport
        self._is_chunked = is_chunked
        self._clock = clock
        # What waits for the end of the loop's turn; None in a turn in which nothing has gone soon.
        self._gathered: bytearray | None = None
        self.is_open = True
        self.last_write_s = clock.monotonic()

    @property
    def is_full(self) -> bool:
        """Whether the reader is so far behind that nothing more should be put on top."""
        return self._transport.get_write_buffer_size() > MAX_BUFFERED_BYTES

    def write(self, data: bytes) -> None:
        """Send bytes of the stream; the caller asks ``is_full`` before what may be left out."""
        if self.is_open and data:
            self._send_gathered()
            self._transport.write(self._framed(data))

    def write_soon(self, data: bytes) -> None:
        """``write`` for what may come in bursts.

        The first of a turn of the loop goes at once, the others together at its end: a send for
        each costs more than all else about an event.
        """
        if not self.is_open or not data:
            return
        if self._gathered is None:
            self._gathered = bytearray()
            asyncio.get_running_loop().call_soon(self._end_turn)
            self._transport.write(self._framed(data))
            return
        self._gathered += self._framed(data)
        if len(self._gathered) > GATHERED_BYTES:
            self._send_gathered()

    def keep_alive(self) -> None:
        """Show that the stream is alive, unless bytes wait to be read anyway."""
        if self._transport.get_write_buffer_size() == 0:
            self.write(KEEP_ALIVE)

    def end(self) -> None:
        """Say that nothing more will come."""
        if self.is_open:
            self._send_gathered()
            if self._is_chunked:
                self._transport.write(LAST_CHUNK)
        self.is_open = False

    def cut(self) -> None:
        """Break the connection off; what the reader has not read is lost."""
        self.is_open = False
        self._transport.abort()

    def lost(self) -> None:
        """The connection is gone by itself."""
        self.is_open = False

    def _framed(self, data: bytes) -> bytes:
        self.last_write_s = self._clock.monotonic()
        return b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data

    def _send_gathered(self) -> None:
        if self._gathered:
            self._transport.write(bytes(self._gathered))
            self._gathered.clear()

    def _end_turn(self) -> None:
        if self.is_open:
            self._send_gathered()
        self._gathered = None


class Quiet(Protocol):
    """What may be silent for long: an open stream, or a call that has said nothing yet.

    Attributes:
        last_write_s: monotonic time of the latest bytes to the client, or of the beginning.
    """

    last_write_s: float

    def keep_alive(self) -> None:
        """Send a sign of life."""
        ...


class KeepAlives:
    """Signs of life for everything quiet, from one task.

    Args:
        interval_s: nothing added here stays silent for longer than this.

    Attributes:
        add: gives one that it is quiet signs of life from now on.
        discard: gives it none any longer.
    """

    def __init__(self, *, clock: Clock, interval_s: float) -> None:
        self._clock = clock
        self._interval_s = interval_s
        self._tick_s = interval_s / TICKS_PER_INTERVAL
        self._quiet: set[Quiet] = set()
        self.add: Callable[[Quiet], None] = self._quiet.add
        self.discard: Callable[[Quiet], None] = self._quiet.discard

    def is_due(self, last_s: float) -> bool:
        """Whether what was last done then would be too long ago at the next look."""
        return last_s <= self._clock.monotonic() - self._interval_s + self._tick_s

    async def run(self) -> None:
        """Until cancelled; owned by the surface."""
        while True:
            await self._clock.sleep(self._tick_s)
            for quiet in tuple(self._quiet):
                if self.is_due(quiet.last_write_s):
                    quiet.keep_alive()


CLOSE_LINE: Final = b"Connection: close\r\n"
KEEP_LINE: Final = b"Connection: keep-alive\r\n"


class DateLine:
    """The ``Date`` header, made once a second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # When it is to be made again, on the monotonic scale.
        self._until_s = float("-inf")
        self._line = b""

    def now(self) -> bytes:
        """The whole line."""
        now_s = self._clock.monotonic()
        if now_s >= self._until_s:
            second, over_ns = divmod(self._clock.wall_ns(), 1_000_000_000)
            self._until_s = now_s + 1 - over_ns / 1_000_000_000
            self._line = b"Date: %b\r\n" % formatdate(second, usegmt=True).encode("ascii")
        return self._line


class Wire:
    """The way back of one request.

    Args:
        connection: what it came by, which is serving it.
        more: headers of every answer to it.

    Attributes:
        connection: see there.
    """

    __slots__ = (
        "_clock",
        "_date",
        "_is_1_1",
        "_is_head",
        "_more",
        "_transport",
        "connection",
    )

    def __init__(
        self,
        connection: HttpConnection,
        *,
        clock: Clock,
        date: DateLine,
        more: HeaderList = (),
    ) -> None:
        message = connection.message
        self._more = more
        self._clock = clock
        self._date = date
        self._transport = connection.transport
        self._is_1_1 = message is not None and message.version >= HttpVersion11
        self._is_head = message is not None and message.method == "HEAD"
        self.connection = connection

    @property
    def is_lost(self) -> bool:
        """Whether the client is gone."""
        return self._transport is None or self._transport.is_closing()

    def respond(
        self, status: int, headers: HeaderList, body: bytes, *, closes: bool = False
    ) -> None:
        """Send a whole answer.

        Args:
            closes: the rest of the request was not read, so the connection cannot go on.
        """
        if closes:
            self.connection.keeps_alive = False
        framing = b"Content-Length: %d\r\n" % len(body)
        self._send(self._head(status, headers, framing) + (b"" if self._is_head else body))

    def open_stream(self, headers: HeaderList, status: int = 200) -> StreamReply | None:
        """Send the head of an event stream; ``None`` when nobody is there to read it."""
        if self.is_lost or self._transport is None:
            return None
        if not self._is_1_1:
            self.connection.keeps_alive = False
        framing = b"Transfer-Encoding: chunked\r\n" if self._is_1_1 else b""
        self._send(self._head(status, headers, framing))
        return StreamReply(self._transport, is_chunked=self._is_1_1, clock=self._clock)

    def go_on(self) -> bool:
        """Send ``100 Continue``: the head is fine, and the body wanted, or the answer on its way.

        Returns:
            Whether that can be said: not to HTTP/1.0, nor in the middle of an answer.
        """
        if not self._is_1_1 or self.connection.has_begun_answer or self._transport is None:
            return False
        self._transport.write(GO_ON)
        return True

    def _head(self, status: int, headers: HeaderList, framing: bytes) -> bytes:
        if not self.connection.keeps_alive:
            connection = CLOSE_LINE
        elif not self._is_1_1:
            connection = KEEP_LINE
        else:
            connection = b""
        return b"".join(
            (
                _first_lines(status, headers + self._more),
                self._date.now(),
                framing,
                connection,
                b"\r\n",
            )
        )

    def _send(self, data: bytes) -> None:
        self.connection.has_begun_answer = True
        if not self.is_lost and self._transport is not None:
            self._transport.write(data)


def whole_answer(status: int, headers: HeaderList, body: bytes, date: DateLine) -> bytes:
    """A whole answer on a connection that goes on."""
    return b"%b%bContent-Length: %d\r\n\r\n%b" % (
        _first_lines(status, headers),
        date.now(),
        len(body),
        body,
    )


@functools.lru_cache(maxsize=64)
def _first_lines(status: int, headers: HeaderList) -> bytes:
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    lines.extend(f"{name}: {value}" for name, value in headers)
    return "\r\n".join(lines).encode("latin-1") + b"\r\n"
