"""Program messages as a controller sends them: bytes, in pieces, with blocks among them.

A message ends with a line end or with the END of its transport, but a line end inside of a block is
data: blocks are passed over by the length that they announce (IEEE 488.2, 7.7.6). Quotes that are
not closed quote nothing, so that no block is seen where an instrument sees commands. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NoReturn

from edged.errors import ErrorCode, Invalid
from edged.record import record

MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of one message; waveforms for a generator are the longest there are."""
MAX_TEXT_BYTES: Final = 64 * 1024
"""Bytes of a message outside of its blocks."""
MAX_MESSAGES: Final = 256
"""Messages that come in one piece, empty ones too."""

MAX_BLOCKS: Final = 64
"""Places in a message where a block may begin."""

_NO_MARK: Final = re.compile(
    rb"(?:[^#\"'\n]++|\"[^\"\n]*+\"|'[^'\n]*+'|(?<![ \t,])#|#(?=[^0-9]))*+"
)
"""Up to a line end, a quote that nothing closes, or where a block may begin."""
_QUOTES: Final = b"\"'"
_BEFORE_BLOCK: Final = b" \t,"
_LINE_END: Final = ord("\n")
_BLOCK_MARK: Final = ord("#")


@record
class ProgramMessage:
    """One message.

    Attributes:
        data: as it goes out, without its line end.
        text: the same for judges and people: blocks are told by their length alone.
    """

    data: bytes
    text: str

    @property
    def is_plain(self) -> bool:
        """There is no block in it: its text is all of it."""
        return len(self.data) == len(self.text) and self.data == self.text.encode("latin-1")


@record(kw_only=False)
class _Seen:
    """Where a message ends (its line end; -1: not yet), and where the data of its blocks is.

    Attributes:
        lacks: a block is not whole yet.
        has_too_many: there are more than ``MAX_BLOCKS``, and it was not looked further.
    """

    end: int
    blocks: tuple[tuple[int, int], ...]
    lacks: bool = False
    has_too_many: bool = False


class Incoming:
    """Messages out of the pieces in which they come."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def clear(self) -> None:
        """Forget what has begun and not ended."""
        self._bytes.clear()

    def feed(self, data: bytes, *, is_end: bool) -> Iterator[ProgramMessage]:
        """Take a piece; nothing of it may be sent before all is found, for it may be refused.

        Args:
            is_end: the transport marks the end of a message after it.

        Yields:
            What is whole by now, without empty messages; each is looked for when it is asked for.

        Raises:
            Invalid: BAD_SCPI, a block that ends before the length it announces, a message beyond
                the bounds above, or too many; all that had come is forgotten.
        """
        self._bytes += data
        count = 0
        while self._bytes:
            seen = _look(self._bytes)
            if seen.has_too_many:
                self._refuse(f"A message has at most {MAX_BLOCKS} blocks")
            if seen.lacks and (is_end or len(self._bytes) > MAX_MESSAGE_BYTES):
                self._refuse("A block ends before the length that it announces")
            in_blocks = sum(end - begin for begin, end in seen.blocks)
            end = len(self._bytes) if seen.end < 0 else seen.end
            if end - in_blocks > MAX_TEXT_BYTES and not seen.lacks:
                self._refuse(f"A message has at most {MAX_TEXT_BYTES} bytes outside of its blocks")
            if seen.end < 0 and not is_end:
                break
            message = _message(bytes(self._bytes[:end]), seen.blocks)
            del self._bytes[: end + 1]
            if message.text:
                yield message
            count += 1
            if count > MAX_MESSAGES:
                self._refuse(f"At most {MAX_MESSAGES} messages are taken at once")
        if len(self._bytes) > MAX_MESSAGE_BYTES:
            self._refuse(f"A message of more than {MAX_MESSAGE_BYTES} bytes cannot be sent")

    def _refuse(self, why: str) -> NoReturn:
        self.clear()
        raise Invalid(f"{why}. Nothing of it was sent.", code=ErrorCode.BAD_SCPI)


def _look(data: bytearray) -> _Seen:
    """One message, as far as it has come; not further than it may be long."""
    blocks: list[tuple[int, int]] = []
    at = tried = in_blocks = 0
    while True:
        found = _NO_MARK.match(data, at, at + MAX_TEXT_BYTES + 1)
        at = at if found is None else found.end()
        if at == len(data) or at - in_blocks > MAX_TEXT_BYTES or _is_cut(data, at):
            return _Seen(-1, tuple(blocks))
        if data[at] == _LINE_END:
            return _Seen(at, tuple(blocks))
        block = _block(data, at) if data[at] == _BLOCK_MARK else None
        tried += data[at] == _BLOCK_MARK
        if tried > MAX_BLOCKS:
            return _Seen(-1, tuple(blocks), has_too_many=True)
        if block is None:
            at += 1
            continue
        begin, end = block
        if end > len(data):
            return _Seen(-1, tuple(blocks), lacks=True)
        if end < 0:
            # ``#0``: to the END of the message, which is the transport's to tell.
            return _Seen(-1, (*blocks, (begin, len(data))))
        blocks.append(block)
        in_blocks += end - begin
        at = end


def _is_cut(data: bytearray, at: int) -> bool:
    """Whether a quote is closed, but further away than a message may be long."""
    if data[at] not in _QUOTES:
        return False
    line_end = data.find(_LINE_END, at)
    return data.find(data[at], at + 1, line_end if line_end >= 0 else len(data)) >= 0


def _block(data: bytearray, at: int) -> tuple[int, int] | None:
    """Where the data of the block begins and ends whose ``#`` stands here, if it is one.

    An end of -1 is that of the message; one behind what has come says that it is not whole yet.
    """
    if at == 0 or data[at - 1] not in _BEFORE_BLOCK:
        return None
    if at + 1 >= len(data):
        return None
    width = data[at + 1] - ord("0")
    if width == 0:
        return at + 2, -1
    if not 1 <= width <= 9:  # ``#H1F`` is a number
        return None
    digits = data[at + 2 : at + 2 + width]
    if not digits.isdigit():
        return None
    begin = at + 2 + width
    if len(digits) < width:
        return begin, len(data) + 1
    return begin, begin + int(digits)


def _message(data: bytes, blocks: tuple[tuple[int, int], ...]) -> ProgramMessage:
    text, at = "", 0
    for begin, end in blocks:
        text += data[at:begin].decode("latin-1") + f"<{end - begin} bytes>"
        at = end
    rest = data[at:].rstrip(b"\r\x00 \t")
    text = (text + rest.decode("latin-1")).lstrip("\r\x00 \t")
    return ProgramMessage(
        data=data[:at] + rest if blocks else text.encode("latin-1"),
        text=text,
    )
