"""Where the requests of one connection begin and end: bytes in, the same bytes out plus one header.

A proxy that adds a header to each request must know each request's head, and must never see
another request in the same bytes than the engine does. So whatever two readers could understand in
two ways is refused: two lengths, a length and a chunked body, bare line ends, folded lines. Pure.

Source: RFC 9112 sections 2.2, 5, 6.3, 7.1, 11.2.
"""

from __future__ import annotations

import enum
import re
from typing import Final

MAX_HEAD_BYTES: Final = 40 * 1024
MAX_CHUNK_LINE: Final = 4 * 1024
MAX_TRAILER: Final = 8 * 1024

REQUEST_LINE: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64} [!-~]{1,16384} HTTP/1\.[01]")
FRAMING: Final = re.compile(
    rb"\r\n(content-length|transfer-encoding):[ \t]*([^\r\n]*?)[ \t]*(?=\r\n)", re.IGNORECASE
)
# A header line that is none: folded, without a name, or with a blank before its colon.
ODD_LINE: Final = re.compile(rb"\r\n(?![!#$%&'*+.^_`|~0-9A-Za-z-]+:)(?!\r\n|\Z)")
LENGTH: Final = re.compile(rb"[0-9]{1,15}")
OFFER: Final = re.compile(rb"\r\nupgrade:[ \t]*websocket[ \t]*\r\n", re.IGNORECASE)
TAKEN: Final = b"HTTP/1.1 101 "
CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n")


class BadFramingError(Exception):
    """Bytes that are no request, or could be two different ones.

    Attributes:
        passed: what to pass on of the bytes before them.
    """

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status
        self.passed = b""


class _Part(enum.Enum):
    HEAD = enum.auto()
    BODY = enum.auto()
    CHUNK_LINE = enum.auto()
    TRAILER = enum.auto()
    OFFER = enum.auto()
    TUNNEL = enum.auto()


class Framer:
    """Follows the requests of one connection.

    Args:
        name: the header that is added to each head, ``Name``; a client's own is taken out.
        value: its value.

    Attributes:
        heads: how many request heads have been passed on.

    The first request may offer to become a WebSocket; what follows is held until ``answered`` says
    whether it was taken, and passes as it is from then on. The first alone: before it no answer is
    on its way in which something could look like that.
    """

    def __init__(self, name: str, value: str) -> None:
        self._added = f"\r\n{name}: {value}".encode("latin-1")
        self._forged = re.compile(
            rb"\r\n" + re.escape(name.encode("ascii")) + rb":[^\r\n]*", re.IGNORECASE
        )
        self._part = _Part.HEAD
        self._held = bytearray()
        self._left = 0
        self._trailer = 0
        self.heads = 0

    @property
    def is_between(self) -> bool:
        """Whether no request has begun that is not complete."""
        return self._part is _Part.HEAD and not self._held

    @property
    def awaits_answer(self) -> bool:
        """Whether what follows hangs on the engine's answer; see ``answered``."""
        return self._part is _Part.OFFER

    @property
    def is_in_head(self) -> bool:
        """Whether a head has begun and is not complete."""
        return self._part is _Part.HEAD and bool(self._held)

    def feed(self, data: bytes) -> bytes:
        """What to pass on of these bytes and those held before.

        Raises:
            BadFramingError: the connection cannot be followed any more.
        """
        if self._part is _Part.TUNNEL:
            return data
        if self._part is _Part.BODY and self._left > len(data):
            self._left -= len(data)  # the most common case by bytes, and the cheapest
            return data
        self._held += data
        out = bytearray()
        while self._held:
            before = len(self._held)
            try:
                self._step(out)
            except BadFramingError as bad:
                bad.passed = bytes(out)
                raise
            if len(self._held) == before:
                break
        return bytes(out)

    def answered(self, data: bytes) -> bytes:
        """Bytes came from the engine; gives what to pass on of those that were held for them.

        Raises:
            BadFramingError: as ``feed``.
        """
        if not data.startswith(TAKEN):
            self._part = _Part.HEAD
            return self.feed(b"")
        self._part = _Part.TUNNEL
        held = bytes(self._held)
        self._held.clear()
        return held

    def _step(self, out: bytearray) -> None:
        match self._part:
            case _Part.HEAD:
                self._head(out)
            case _Part.BODY:
                self._body(out)
            case _Part.CHUNK_LINE:
                self._chunk_line(out)
            case _Part.TRAILER:
                self._trailer_line(out)
            case _Part.OFFER:
                if len(self._held) > MAX_HEAD_BYTES:
                    raise BadFramingError("A WebSocket is not spoken before it was agreed on.")

    def _head(self, out: bytearray) -> None:
        while self._held.startswith(b"\r\n"):
            del self._held[:2]
        end = self._held.find(b"\r\n\r\n")
        if end < 0 or end > MAX_HEAD_BYTES:
            if len(self._held) > MAX_HEAD_BYTES:
                raise BadFramingError("The head of the request is too long.", 431)
            return
        head = bytes(self._held[: end + 2])
        del self._held[: end + 4]
        self._begin_body(head)
        line_end = head.index(b"\r\n")
        rest = self._forged.sub(b"", head[line_end:])
        out += head[:line_end] + self._added + rest + b"\r\n"
        if self.heads == 0 and self._part is _Part.HEAD and OFFER.search(head):
            self._part = _Part.OFFER
        self.heads += 1

    def _begin_body(self, head: bytes) -> None:
        """Set the part that follows a head; ``head`` ends with its last line's end."""
        if head.count(b"\n") != head.count(b"\r\n") or head.count(b"\r") != head.count(b"\r\n"):
            raise BadFramingError("The head has a bare line end.")
        if not REQUEST_LINE.fullmatch(head[: head.index(b"\r\n")]):
            raise BadFramingError("This is not an HTTP request.")
        if b"\0" in head or ODD_LINE.search(head):
            raise BadFramingError("The head has a line that is not a header.")
        framing = FRAMING.findall(head)
        if not framing:
            return
        if len(framing) > 1:
            raise BadFramingError("The request says twice how long it is.")
        name, value = framing[0]
        if name.lower() == b"content-length":
            if not LENGTH.fullmatch(value):
                raise BadFramingError("Its length is not a number.")
            self._left = int(value)
            self._part = _Part.BODY if self._left else _Part.HEAD
        elif value.lower() == b"chunked":
            self._part = _Part.CHUNK_LINE
        else:
            raise BadFramingError("Its transfer coding is not known.", 501)

    def _body(self, out: bytearray) -> None:
        taken = self._held[: self._left]
        del self._held[: len(taken)]
        out += taken
        self._left -= len(taken)
        if not self._left:
            self._part = _Part.CHUNK_LINE if self._trailer < 0 else _Part.HEAD

    def _chunk_line(self, out: bytearray) -> None:
        end = self._held.find(b"\r\n")
        if end < 0 or end > MAX_CHUNK_LINE:
            if len(self._held) > MAX_CHUNK_LINE:
                raise BadFramingError("A chunk's size is too long.")
            return
        line = bytes(self._held[: end + 2])
        size = CHUNK_SIZE.fullmatch(line)
        if size is None:
            raise BadFramingError("A chunk has no size.")
        del self._held[: end + 2]
        out += line
        length = int(size[1], 16)
        if length:
            # Its data and the line end behind it, which the engine holds to be one.
            self._left, self._trailer, self._part = length + 2, -1, _Part.BODY
        else:
            self._trailer, self._part = 0, _Part.TRAILER

    def _trailer_line(self, out: bytearray) -> None:
        end = self._held.find(b"\r\n")
        self._trailer += len(self._held) if end < 0 else end + 2
        if self._trailer > MAX_TRAILER:
            raise BadFramingError("The trailer is too long.")
        if b"\n" in self._held[: end if end >= 0 else None]:
            raise BadFramingError("The trailer has a bare line end.")
        if end < 0:
            self._trailer -= len(self._held)
            return
        out += self._held[: end + 2]
        del self._held[: end + 2]
        if end == 0:
            self._trailer, self._part = 0, _Part.HEAD
