"""NumPy's files, written with the standard library: ``.npy`` arrays inside a ``.npz`` archive.

An archive grows by whole members, and its directory is written once, at the end, from what stands
in the file. A writer that was killed leaves an archive without a directory; the same function makes
it whole. Members are stored, not packed; no part needs zip64 (``MAX_ARCHIVE``).

Source: numpy.lib.format (version 1.0 of the format); PKWARE APPNOTE 6.3.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from edged.files import open_bytes, open_update
from edged.record import record

ARRAYS_FILE: Final = "data.npz"
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


def archive_name(number: int) -> str:
    """Archives are data.npz, then data-2.npz, data-3.npz and so on."""
    return ARRAYS_FILE if number == 1 else f"data-{number}.npz"


def archives_in(directory: Path) -> list[Path]:
    """The archives of a recording, in their order."""
    return sorted(directory.glob("data*.npz"), key=_archive_number)


def _archive_number(path: Path) -> int:
    digits = path.stem.removeprefix("data").removeprefix("-")
    return int(digits) if digits.isdigit() else 1


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
    fixed = (b"PK\x01\x02", _VERSION, _VERSION, 0, 0, 0, _DAY, member.crc, member.size, member.size)
    return _CENTRAL.pack(*fixed, len(member.name), 0, 0, 0, 0, 0, member.offset) + member.name
