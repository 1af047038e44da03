"""Reads back the Parquet that ``edged.runs.recordings.formats`` writes.

Plain pages, one row group, every column optional.

Written from the format's own description, and held against pyarrow, DuckDB and Polars by hand when
the writer was made; those are too large to be installed for a test.
"""

from __future__ import annotations

import struct
from typing import Any


class _Thrift:
    """The compact protocol, read into dictionaries by field number."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def value(self, kind: int) -> Any:
        match kind:
            case 5 | 6:
                number = self.varint()
                return number >> 1 if number % 2 == 0 else -(number >> 1) - 1
            case 8:
                size = self.varint()
                self.at += size
                return self.data[self.at - size : self.at]
            case 9:
                head = self.data[self.at]
                self.at += 1
                size = head >> 4 if head >> 4 < 15 else self.varint()
                return [self.value(head & 15) for _ in range(size)]
            case 12:
                return self.struct()
        raise ValueError(f"type {kind}")

    def struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while head := self.data[self.at]:
            self.at += 1
            assert head >> 4, "a field number that is no small step"
            number += head >> 4
            fields[number] = self.value(head & 15)
        self.at += 1
        return fields


def read_parquet(data: bytes) -> dict[str, list[Any]]:
    """Every column by name; a gap is ``None``."""
    assert data[:4] == data[-4:] == b"PAR1"
    (size,) = struct.unpack("<I", data[-8:-4])
    foot = _Thrift(data, len(data) - 8 - size).struct()
    root, *schema = foot[2]
    assert root[5] == len(schema)
    (group,) = foot[4]
    assert foot[3] == group[3]
    columns = {}
    for element, chunk in zip(schema, group[1], strict=True):
        about = chunk[3]
        assert about[3] == [element[4]]
        columns[element[4].decode()] = _column(data, about, foot[3])
    return columns


def _column(data: bytes, about: dict[int, Any], rows: int) -> list[Any]:
    page = _Thrift(data, about[9])
    head = page.struct()
    assert (head[1], head[5][1], about[5]) == (0, rows, rows)
    assert page.at + head[2] == about[9] + about[6]
    body = data[page.at : page.at + head[2]]
    (size,) = struct.unpack_from("<I", body)
    is_there: list[bool] = []
    runs = _Thrift(body, 4)
    while runs.at < 4 + size:
        length = runs.varint() >> 1
        is_there += [bool(body[runs.at])] * length
        runs.at += 1
    values = iter(_values(body[4 + size :], about[1], sum(is_there)))
    return [next(values) if there else None for there in is_there]


def _values(body: bytes, physical: int, count: int) -> list[Any]:
    match physical:
        case 0:
            return [bool(body[n // 8] >> n % 8 & 1) for n in range(count)]
        case 2:
            return list(struct.unpack(f"<{count}q", body))
        case 5:
            return list(struct.unpack(f"<{count}d", body))
    texts, at = [], 0
    for _ in range(count):
        (size,) = struct.unpack_from("<I", body, at)
        texts.append(body[at + 4 : at + 4 + size].decode())
        at += 4 + size
    return texts
