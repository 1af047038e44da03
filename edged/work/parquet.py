"""One Parquet file of a table, written with the standard library: plain pages, one row group.

What pandas, Polars, DuckDB and pyarrow read; nothing is packed. Every column may have gaps. Types
come from the cells: whole numbers, numbers, truth values, else text.

Source: the Apache Parquet format (parquet.thrift, Encodings.md); Thrift's compact protocol.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, TypeVar

__all__ = ["parquet_bytes"]

MAGIC: Final = b"PAR1"
BOOLEAN, INT64, DOUBLE, BYTE_ARRAY = 0, 2, 5, 6
OPTIONAL, UTF8, PLAIN, RLE, UNCOMPRESSED, DATA_PAGE = 1, 0, 0, 3, 0, 0
# Thrift compact protocol: the types of fields.
I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
LONGEST_SHORT_LIST: Final = 14
NUMERAL: Final = frozenset("0123456789+-.eEinfaNtyIFATY")
"""What a number may be written with; Python would take underscores, blanks and other digits too."""
WHOLE_RANGE: Final = range(-(1 << 63), 1 << 63)
T = TypeVar("T")
TRUTHS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunk:
    """One column, encoded: its type, and where its page stands in the file."""

    name: str
    physical: int
    rows: int
    offset: int
    size: int


def parquet_bytes(columns: Sequence[tuple[str, Sequence[str]]]) -> bytes:
    """A whole file of named columns of equal length; an empty cell is a gap."""
    out = bytearray(MAGIC)
    chunks = []
    for name, cells in columns:
        physical, values = _encoded(cells)
        levels = _levels([cell != "" for cell in cells])
        page = struct.pack("<I", len(levels)) + levels + values
        head = _page_head(len(cells), len(page))
        chunks.append(
            _Chunk(
                name=name,
                physical=physical,
                rows=len(cells),
                offset=len(out),
                size=len(head) + len(page),
            )
        )
        out += head + page
    foot = _foot(chunks)
    return bytes(out + foot + struct.pack("<I", len(foot)) + MAGIC)


def _encoded(cells: Sequence[str]) -> tuple[int, bytes]:
    """The type that every cell of a column fits, and its cells that are there."""
    there = [cell for cell in cells if cell != ""]
    if there and all(cell in TRUTHS for cell in there):
        bits = [TRUTHS[cell] for cell in there]
        octets = (bits[start : start + 8] for start in range(0, len(bits), 8))
        return BOOLEAN, bytes(sum(bit << n for n, bit in enumerate(octet)) for octet in octets)
    whole = _converted(there, int)
    if whole and all(number in WHOLE_RANGE for number in whole):
        return INT64, struct.pack(f"<{len(whole)}q", *whole)
    numbers = _converted(there, float)
    if numbers:
        return DOUBLE, struct.pack(f"<{len(numbers)}d", *numbers)
    texts = (cell.encode("utf-8", "replace") for cell in there)
    return BYTE_ARRAY, b"".join(struct.pack("<I", len(text)) + text for text in texts)


def _converted(cells: Sequence[str], convert: Callable[[str], T]) -> list[T] | None:
    if any(not NUMERAL.issuperset(cell) for cell in cells):
        return None
    try:
        return [convert(cell) for cell in cells]
    except ValueError:
        return None


def _levels(is_there: Iterable[bool]) -> bytes:
    """Definition levels, one bit wide, as runs."""
    return b"".join(
        _varint(sum(1 for _ in run) << 1) + bytes((is_set,)) for is_set, run in groupby(is_there)
    )


def _page_head(rows: int, size: int) -> bytes:
    data = _struct({1: _i32(rows), 2: _i32(PLAIN), 3: _i32(RLE), 4: _i32(RLE)})
    return _struct(
        {1: _i32(DATA_PAGE), 2: _i32(size), 3: _i32(size), 5: (STRUCT, data)},
    )


def _foot(chunks: Sequence[_Chunk]) -> bytes:
    root = _struct({4: _text("schema"), 5: _i32(len(chunks))})
    rows = chunks[0].rows if chunks else 0
    group = _struct(
        {
            1: _list(STRUCT, [_column_chunk(chunk) for chunk in chunks]),
            2: _i64(sum(chunk.size for chunk in chunks)),
            3: _i64(rows),
        }
    )
    return _struct(
        {
            1: _i32(1),
            2: _list(STRUCT, [root, *map(_schema_element, chunks)]),
            3: _i64(rows),
            4: _list(STRUCT, [group]),
            6: _text("edged"),
        }
    )


def _schema_element(chunk: _Chunk) -> bytes:
    fields = {1: _i32(chunk.physical), 3: _i32(OPTIONAL), 4: _text(chunk.name)}
    if chunk.physical == BYTE_ARRAY:
        fields[6] = _i32(UTF8)
    return _struct(fields)


def _column_chunk(chunk: _Chunk) -> bytes:
    about = _struct(
        {
            1: _i32(chunk.physical),
            2: _list(I32, [_zigzag(PLAIN), _zigzag(RLE)]),
            3: _list(BINARY, [_bytes(chunk.name.encode())]),
            4: _i32(UNCOMPRESSED),
            5: _i64(chunk.rows),
            6: _i64(chunk.size),
            7: _i64(chunk.size),
            9: _i64(chunk.offset),
        }
    )
    return _struct({2: _i64(chunk.offset), 3: (STRUCT, about)})


# Thrift's compact protocol: a field is its type and its bytes.

Field = tuple[int, bytes]


def _struct(fields: dict[int, Field]) -> bytes:
    """Fields by number, ascending, each less than 16 after the one before."""
    out, last = bytearray(), 0
    for number, (kind, value) in fields.items():
        out += bytes(((number - last) << 4 | kind,)) + value
        last = number
    return bytes(out) + b"\x00"


def _list(kind: int, items: Sequence[bytes]) -> Field:
    if len(items) <= LONGEST_SHORT_LIST:
        head = bytes((len(items) << 4 | kind,))
    else:
        head = bytes((0xF0 | kind,)) + _varint(len(items))
    return LIST, head + b"".join(items)


def _i32(value: int) -> Field:
    return I32, _zigzag(value)


def _i64(value: int) -> Field:
    return I64, _zigzag(value)


def _text(value: str) -> Field:
    return BINARY, _bytes(value.encode())


def _bytes(value: bytes) -> bytes:
    return _varint(len(value)) + value


def _zigzag(value: int) -> bytes:
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
