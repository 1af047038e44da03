"""IEEE 488.2 blocks: where they begin and end, and what is inside.

``#<n><length><data>`` is definite, ``#0<data>`` lasts to the end of the message. Old screens send a
bare BMP file, whose length stands in its own head (Siglent SDS1000X-E ``SCDP``). What an instrument
says before a block (``C1:WF DAT2,#9…``) is passed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from edged.errors import ErrorCode, Failed

__all__ = ["BlockHead", "find_block_head", "parse_block"]

MAX_HEADER: Final = 64
"""Bytes that may stand before the ``#``: a response header, stray line ends."""

MAX_BLOCK: Final = 1 << 28
"""More bytes than any oscilloscope sends at once; a larger length is a broken head."""

_BMP_HEAD: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockHead:
    """Where the data of a block starts; ``length`` ``None``: it lasts to the message's end."""

    start: int
    length: int | None

    @property
    def total(self) -> int | None:
        """Bytes from the beginning of the answer to the last of the data."""
        return None if self.length is None else self.start + self.length


def find_block_head(data: bytes) -> BlockHead | None:
    """Find the head in the first bytes of an answer, so that exactly the rest can be read.

    Returns:
        ``None`` while more bytes are needed to tell.

    Raises:
        Failed: BAD_ANSWER when there can be no block any more.
    """
    if data[:1] == b"B":
        if len(data) < _BMP_HEAD:
            return None
        if data[:2] == b"BM":
            return BlockHead(start=0, length=int.from_bytes(data[2:_BMP_HEAD], "little"))
    mark = data.find(b"#", 0, MAX_HEADER)
    while 0 <= mark < len(data) - 1 and not data[mark + 1 : mark + 2].isdigit():
        mark = data.find(b"#", mark + 1, MAX_HEADER)
    if mark < 0:
        if len(data) >= MAX_HEADER or b"\n" in data.lstrip(b"\r\n"):
            raise _bad("no block", data)
        return None
    if mark + 1 >= len(data):
        return None
    width = data[mark + 1] - ord("0")
    if width == 0:
        return BlockHead(start=mark + 2, length=None)
    digits = data[mark + 2 : mark + 2 + width]
    if len(digits) < width:
        return None
    if not digits.isdigit() or int(digits) > MAX_BLOCK:
        raise _bad("a block with a broken head", data)
    return BlockHead(start=mark + 2 + width, length=int(digits))


def parse_block(data: bytes) -> bytes:
    """The data of a block; what follows its end is passed over.

    Raises:
        Failed: BAD_ANSWER when there is no block, or fewer bytes than it announces.
    """
    head = find_block_head(data)
    if head is None:
        raise _bad("no whole block", data)
    if head.length is None:
        return data[head.start :].removesuffix(b"\n")
    block = data[head.start : head.start + head.length]
    if len(block) < head.length:
        raise _bad(f"{len(block)} bytes of a block that announces {head.length}", data)
    return block


def _bad(what: str, data: bytes) -> Failed:
    shown = ascii(bytes(data[:24]))[1:]
    return Failed(
        f"The instrument sent {what}; the answer begins with {shown}.", code=ErrorCode.BAD_ANSWER
    )
