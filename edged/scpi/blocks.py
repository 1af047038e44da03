"""IEEE 488.2 blocks: where they begin and end, and what is inside.

``#<n><length><data>`` is definite, ``#0<data>`` lasts to the end of the message. ``#(<length>)``
is Rohde & Schwarz's for a length of ten digits and more. Old screens send a bare BMP file, whose
length stands in its own head (Siglent SDS1000X-E ``SCDP``). What an instrument says before a block
(``C1:WF DAT2,#9…``) is passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from edged.errors import ErrorCode, Failed
from edged.record import record

MAX_HEADER: Final = 64
"""Bytes that may stand before the ``#``: a response header, stray line ends."""

UNLIKE_PROFILE: Final = (
    "Compare these bytes with what the command's returns in the profile says of them: header, "
    "count, prefix, length, skip_bytes, packets."
)
HEAD_BEGINS: Final = frozenset(b"0123456789(")
"""What stands behind the ``#`` of a block."""
_SHOWN: Final = 40
_BMP_HEAD: Final = 6
MOST_HEAD: Final = 1024
"""Bytes in which the head of any answer with binary data is found, a prefix before it included."""


@record
class BlockHead:
    """Where the data of a block starts; ``length`` ``None``: it lasts to the message's end."""

    start: int
    length: int | None

    @property
    def total(self) -> int | None:
        """Bytes from the beginning of the answer to the last of the data."""
        return None if self.length is None else self.start + self.length


MOST_BRACKETED: Final = 16
"""Bytes of the head of a block whose length stands in brackets."""
IN_FRONT: Final = frozenset({b"", b" ", b",", b";", b"\n", b'"'})
"""What stands in front of a block that is behind text."""

FindHead = Callable[[bytes], BlockHead | None]
"""Like ``find_block_head``, of data in whatever form they come."""


def definite_head(data: bytes) -> BlockHead | None:
    """The head of the definite block that an answer begins with; ``None``: it begins with none."""
    if data[:1] != b"#":
        return None
    if data[1:2] == b"(":
        end = data.find(b")", 2, MOST_BRACKETED)
        digits, start = data[2:end] if end > 0 else b"", end + 1
    else:
        count = data[1] - ord("0") if data[1:2].isdigit() else 0
        digits, start = data[2 : 2 + count], 2 + count
    if not digits.isdigit() or len(data) < start:
        return None
    return BlockHead(start=start, length=int(digits))


def whole_length(data: bytes) -> int | None:
    """How long an answer is that begins with a definite block; ``None``: it begins with none."""
    head = definite_head(data)
    return None if head is None else head.total


def digits_lacking(data: bytes) -> int:
    """How many bytes a definite block's head lacks at least; 0 where it begins with none."""
    if data[:2] == b"#(":
        has_digits = data[2:].isdigit() or len(data) == 2
        return 1 if has_digits and len(data) < MOST_BRACKETED else 0
    if data[:1] != b"#" or not data[1:2].isdigit():
        return 0
    return max(0, data[1] - ord("0") + 2 - len(data))


def bytes_lacking(begun: bytes, length: int) -> int:
    """How many bytes the blocks lack that stand in an answer, behind text too; 0: none is cut.

    Args:
        begun: its first ``MOST_HEAD`` bytes.
        length: of what has come.
    """
    lacking, mark = 0, -1
    while (mark := begun.find(b"#", mark + 1)) >= 0:
        total = whole_length(begun[mark : mark + MOST_BRACKETED])
        if total is not None and begun[max(0, mark - 1) : mark] in IN_FRONT:
            lacking = max(lacking, mark + total - length)
            mark += total - 1
    return lacking


def find_block_head(data: bytes) -> BlockHead | None:
    """Find the head in the first bytes of an answer, so that exactly the rest can be read.

    Returns:
        ``None`` while more bytes are needed.

    Raises:
        Failed: BAD_ANSWER when there can be no block any more.
    """
    if data[:2] == b"BM":
        if len(data) < _BMP_HEAD:
            return None
        return BlockHead(start=0, length=int.from_bytes(data[2:_BMP_HEAD], "little"))
    mark = data.find(b"#", 0, MAX_HEADER)
    is_first = not data[: max(mark, 0)].strip(b"\r\n")
    while 0 <= mark < len(data) - 1 and data[mark + 1] not in HEAD_BEGINS:
        if is_first:
            # ``#A`` of HP, or a number; what looks like a head behind it is data.
            raise bad_block("a block of another kind", data)
        mark = data.find(b"#", mark + 1, MAX_HEADER)
    if mark < 0:
        if len(data) >= MAX_HEADER or b"\n" in data.lstrip(b"\r\n"):
            raise bad_block("no block", data)
        return None
    if mark + 1 >= len(data):
        return None
    if data[mark + 1 : mark + 2] == b"0":
        return BlockHead(start=mark + 2, length=None)
    found = definite_head(data[mark : mark + MOST_BRACKETED])
    if found is not None:
        return BlockHead(start=mark + found.start, length=found.length)
    if digits_lacking(data[mark : mark + MOST_BRACKETED]):
        return None
    raise bad_block("a block with a broken head", data)


def parse_block(data: bytes | bytearray, find: FindHead = find_block_head) -> memoryview:
    """The data of a block, not copied; what follows its end is passed over.

    Raises:
        Failed: BAD_ANSWER when there is no block, or fewer bytes than it announces.
    """
    head = find(bytes(data[:MOST_HEAD]))
    if head is None:
        raise bad_block("no whole block", data)
    if head.length is None:
        return memoryview(data)[head.start : len(data) - data.endswith(b"\n", head.start)]
    length = min(head.length, len(data) - head.start)
    if length < head.length:
        raise bad_block(f"{length} bytes of a block that announces {head.length}", data)
    return memoryview(data)[head.start : head.start + length]


def bad_block(what: str, data: bytes | bytearray | memoryview) -> Failed:
    """The error for binary data that are not what the profile says."""
    shown = ascii(bytes(data[:_SHOWN]))[1:]
    return Failed(
        f"The instrument sent {what}; the answer begins with {shown}.",
        code=ErrorCode.BAD_ANSWER,
        remedy=UNLIKE_PROFILE,
    )
