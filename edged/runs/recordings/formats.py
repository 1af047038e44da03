"""NumPy's files, written with the standard library: ``.npy`` arrays inside a ``.npz`` archive.

An archive grows by whole members, and its directory is written once, at the end, from what stands
in the file. A writer that was killed leaves an archive without a directory; the same function makes
it whole. Members are stored, not packed; no part needs zip64 (``MAX_ARCHIVE``).

Source: numpy.lib.format (version 1.0 of the format); PKWARE APPNOTE 6.3.

One Parquet file of a table, written with the standard library: plain pages, one row group.

What pandas, Polars, DuckDB and pyarrow read; nothing is packed. Every column may have gaps. Types
come from the cells: whole numbers, numbers, truth values, else text.

Source: the Apache Parquet format (parquet.thrift, Encodings.md); Thrift's compact protocol.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from edged.files import open_bytes, open_update
from edged.record import record

__all__ = [
    "MAX_ARCHIVE",
    "MAX_MEMBERS",
    "Member",
    "archive_bytes",
    "directory_bytes",
    "finish_archive",
    "member_bytes",
    "member_of",
    "missing_end",
    "npy_bytes",
    "parquet_bytes",
    "read_npy",
    "text_npy_bytes",
]

MAX_ARCHIVE: Final = 1 << 30
"""Bytes after which a writer begins another archive."""
MAX_MEMBERS: Final = 1_000
DESCRIPTIONS: Final = {"f": "<f4", "d": "<f8", "q": "<i8"}
"""Type code of ``array`` → what NumPy calls it."""

_LOCAL: Final = struct.Struct("<4s5H3L2H")
_CENTRAL: Final = struct.Struct("<4s6H3L5H2L")
_END: Final = struct.Struct("<4s4H2LH")
_END_MARK: Final = b"PK\x05\x06"
_LOCAL_MARK: Final = b"PK\x03\x04"
_VERSION: Final = 20
_DAY: Final = (1 << 5) | 1
"""1980-01-01, the first day of MS-DOS: when a member was made stands in meta.json."""
_READ: Final = 1 << 20


@record
class Member:
    """One member of an archive, as its local header tells it."""

    name: bytes
    crc: int
    size: int
    offset: int

    @property
    def end(self) -> int:
        """Where the next one begins."""
        return self.offset + _LOCAL.size + len(self.name) + self.size


def npy_bytes(type_code: str, samples: bytes | bytearray) -> bytes:
    """A one-dimensional ``.npy`` file of little-endian numbers.

    Args:
        type_code: ``f``, ``d`` or ``q``, as in ``array``.
        samples: the numbers' bytes.
    """
    return _npy(DESCRIPTIONS[type_code], len(samples) // (4 if type_code == "f" else 8), samples)


def read_npy(data: bytes) -> tuple[str, bytes]:
    """Type code and little-endian samples of a file that ``npy_bytes`` has made.

    Raises:
        ValueError: it is another file.
    """
    size = int.from_bytes(data[8:10], "little")
    head = data[10 : 10 + size].decode("latin-1")
    for type_code, description in DESCRIPTIONS.items():
        if data.startswith(b"\x93NUMPY\x01") and f"'{description}'" in head:
            return type_code, data[10 + size :]
    raise ValueError("this is not an array of numbers that was recorded here")


def text_npy_bytes(texts: list[str]) -> bytes:
    """A one-dimensional ``.npy`` file of texts."""
    width = max((len(text) for text in texts), default=1) or 1
    data = b"".join(text.ljust(width, "\0").encode("utf-32-le") for text in texts)
    return _npy(f"<U{width}", len(texts), data)


def member_bytes(name: str, data: bytes) -> bytes:
    """A member with its local header, to be put at the end of an archive."""
    raw = name.encode("ascii")
    header = _LOCAL.pack(
        _LOCAL_MARK, _VERSION, 0, 0, 0, _DAY, zlib.crc32(data), len(data), len(data), len(raw), 0
    )
    return header + raw + data


def member_of(data: bytes, offset: int) -> Member:
    """What the directory says of a member that ``member_bytes`` has made, put at ``offset``."""
    _, _, _, _, _, _, crc, size, _, name_length, _ = _LOCAL.unpack_from(data)
    name = data[_LOCAL.size : _LOCAL.size + name_length]
    return Member(name=name, crc=crc, size=size, offset=offset)


def directory_bytes(members: Sequence[Member], end: int) -> bytes:
    """The directory of an archive whose members end at ``end``; it belongs there."""
    directory = b"".join(map(_central, members))
    count = len(members)
    return directory + _END.pack(_END_MARK, 0, 0, count, count, len(directory), end, 0)


def finish_archive(path: Path) -> int:
    """Write the directory behind the whole members; a torn last one is cut off.

    Returns:
        The number of members.

    Raises:
        OSError: the file cannot be read or written.
    """
    with open_update(path) as file:
        return _finish(file)


def missing_end(path: Path, end: int) -> bytes:
    """The directory that an archive under way has not yet, for a copy of its first ``end`` bytes.

    Empty where it has one. What stands behind the whole members is no harm: no directory names it.

    Raises:
        OSError: the file cannot be read.
    """
    with open_bytes(path) as file:
        file.seek(max(0, end - _END.size))
        if file.read(len(_END_MARK)) == _END_MARK:
            return b""
        members = [one for one in _members(file) if one.end <= end]
    return directory_bytes(members, end)


def archive_bytes(members: Iterable[bytes]) -> bytes:
    """A whole archive of ``member_bytes``."""
    file = io.BytesIO(b"".join(members))
    _finish(file)
    return file.getvalue()


def _finish(file: BinaryIO) -> int:
    members = list(_members(file))
    end = members[-1].end if members else 0
    file.seek(end)
    file.truncate()
    file.write(directory_bytes(members, end))
    return len(members)


def _npy(description: str, length: int, data: bytes | bytearray) -> bytes:
    head = f"{{'descr': '{description}', 'fortran_order': False, 'shape': ({length},), }}"
    padded = head.ljust((len(head) + 1 + 10 + 63) // 64 * 64 - 10 - 1) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded.encode("ascii") + data


def _members(file: BinaryIO) -> Iterator[Member]:
    """The members that are whole, in order."""
    offset = 0
    while True:
        file.seek(offset)
        raw = file.read(_LOCAL.size)
        if len(raw) < _LOCAL.size:
            return
        mark, _, _, _, _, _, crc, size, _, name_length, _ = _LOCAL.unpack(raw)
        name = file.read(name_length)
        if mark != _LOCAL_MARK or _crc(file, size) != crc:
            return
        yield Member(name=name, crc=crc, size=size, offset=offset)
        offset += _LOCAL.size + name_length + size


def _crc(file: BinaryIO, size: int) -> int:
    """The checksum of the next bytes; -1 when there are fewer."""
    crc = 0
    while size > 0:
        part = file.read(min(size, _READ))
        if not part:
            return -1
        crc = zlib.crc32(part, crc)
        size -= len(part)
    return crc


def _central(member: Member) -> bytes:
    return (
        _CENTRAL.pack(
            b"PK\x01\x02",
            _VERSION,
            _VERSION,
            0,
            0,
            0,
            _DAY,
            member.crc,
            member.size,
            member.size,
            len(member.name),
            0,
            0,
            0,
            0,
            0,
            member.offset,
        )
        + member.name
    )


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


@record
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
