"""The layout of a netCDF-3 file with 64-bit offsets, which grows in place. Pure.

A file of a known shape is a grid: fixed dimensions, and one variable for each column, filled with
NaN. Every cell has its place from the beginning, so the file can be opened by any reader while it
is written and after a crash. A file of an unknown shape has one record for each row, along the
dimension ``point``; the number of records stands in the header and is written after its record.

All numbers are doubles: the format has no 64-bit integers. Attributes are texts only. Columns of
text are left out, and named by the attribute ``left_out``.

Source: the netCDF classic format specification (NetCDF Users Guide, appendix B), CDF-2; text
attributes: xarray issue 3743.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from edged.errors import Invalid
from edged.record import record
from edged.runs.run_head import ELAPSED, Column, Dimension
from edged.yaml.tree import Scalar

MOST_BYTES: Final = 128 * 1024 * 1024
"""Of a grid: 16 million cells, written when the run begins. What is larger is written by rows."""
POINT: Final = "point"
NAN: Final = struct.pack(">d", math.nan)
RECORDS_AT: Final = 4
"""Where the number of records stands."""

_CHAR: Final = 2
_DOUBLE: Final = 6
_DIMENSIONS: Final = 0x0A
_VARIABLES: Final = 0x0B
_ATTRIBUTES: Final = 0x0C
_NOT_OF_A_NAME: Final = re.compile(r"[^A-Za-z0-9_]")


@record
class Variable:
    """The cells of a column.

    Attributes:
        place: of the column in a row.
        begin: of the first cell in the file, in bytes; of a record: of the first record.
        strides: for each of its dimensions: the place of its number in a row, its size, and the
            bytes from one cell to the next.
    """

    place: int
    begin: int
    strides: tuple[tuple[int, int, int], ...] = ()


@record
class Layout:
    """Where everything of a file stands.

    Attributes:
        head: the first bytes: the header and the coordinates.
        size: of the file before it has a row; behind the head everything is NaN.
        variables: of the columns that it has.
        record_bytes: of one row; 0 in a grid.
    """

    head: bytes
    size: int
    variables: tuple[Variable, ...]
    record_bytes: int = 0

    def writes(self, row: Sequence[Any], records: int) -> Iterator[tuple[int, bytes]]:
        """What a row writes, as (offset, bytes), in this order.

        A cell that is no number is not written. Neither is one outside of the grid.

        Args:
            row: in the order of the columns.
            records: in the file before this row.
        """
        if self.record_bytes:
            cells = (_number(row[variable.place]) for variable in self.variables)
            whole = b"".join(NAN if cell is None else struct.pack(">d", cell) for cell in cells)
            yield len(self.head) + records * self.record_bytes, whole
            yield RECORDS_AT, struct.pack(">i", records + 1)
            return
        for variable in self.variables:
            number = _number(row[variable.place])
            at = variable.begin
            for place, size, stride in variable.strides:
                index = row[place]
                if index is None or not 0 <= index < size:
                    break
                at += int(index) * stride
            else:
                if number is not None:
                    yield at, struct.pack(">d", number)


def layout_of(
    columns: Sequence[Column], dimensions: Sequence[Dimension], attributes: Mapping[str, str]
) -> Layout:
    """The layout of a recording: a grid if its shape is known and small enough, else rows.

    Args:
        columns: of data.csv, in their order.
        attributes: of the whole file; those without text are left out.
    """
    if not dimensions:
        return rows_layout(columns, attributes)
    try:
        return grid_layout(columns, dimensions, attributes)
    except Invalid:
        return rows_layout(columns, attributes)


def grid_layout(
    columns: Sequence[Column], dimensions: Sequence[Dimension], attributes: Mapping[str, str]
) -> Layout:
    """The layout of a grid.

    A column lies along its ``dimensions``, ``elapsed_s`` along those of the column that has most of
    them. The columns of what was set are the coordinates; their texts are numbered.

    Raises:
        Invalid: the number of values of a loop is not known or 0; or it is over ``MOST_BYTES``.
    """
    sizes = {dimension.name: len(_values(dimension)) for dimension in dimensions}
    places = {column.name: place for place, column in enumerate(columns)}
    deepest = max((column.dimensions for column in columns), key=len, default=())
    besides = {*sizes, *(dimension.place.name for dimension in dimensions)}
    data = [
        Column(name=column.name, unit=column.unit, dimensions=deepest)
        if column.name == ELAPSED.name and not column.dimensions
        else column
        for column in columns
        if column.name not in besides and column.name != "attempt" and not column.is_text
    ]
    lengths = [8 * math.prod(sizes[name] for name in column.dimensions) for column in data]
    if sum(lengths) + 8 * sum(sizes.values()) > MOST_BYTES:
        raise Invalid(
            f"A grid of {' x '.join(map(str, sizes.values()))} points with {len(data)} columns "
            f"takes over {MOST_BYTES // 1024 // 1024} MiB.",
            remedy="Record it by rows, or make the loops shorter.",
        )
    names = _names([*sizes, *(column.name for column in data)])
    numbers = {name: number for number, name in enumerate(sizes)}
    heads = [
        _variable_head(names[dimension.name], (number,), _coordinate_attributes(dimension))
        for number, dimension in enumerate(dimensions)
    ]
    heads += [
        _variable_head(
            names[column.name],
            [numbers[name] for name in column.dimensions],
            _attributes_of(column, names[column.name]),
        )
        for column in data
    ]
    coordinates = b"".join(map(_coordinates, dimensions))
    lengths = [*(8 * size for size in sizes.values()), *lengths]
    listed = [(names[name], size) for name, size in sizes.items()]
    header, begins = _header(0, listed, _whole(attributes, columns), heads, lengths)
    variables = []
    for column, begin in zip(data, begins[len(sizes) :], strict=True):
        shape = [sizes[name] for name in column.dimensions]
        strides = [8 * math.prod(shape[index + 1 :]) for index in range(len(shape))]
        of_places = [places[f"n_{name}"] for name in column.dimensions]
        variables.append(
            Variable(
                place=places[column.name],
                begin=begin,
                strides=tuple(zip(of_places, shape, strides, strict=True)),
            )
        )
    return Layout(
        head=header + coordinates,
        size=len(header) + sum(lengths),
        variables=tuple(variables),
    )


def rows_layout(columns: Sequence[Column], attributes: Mapping[str, str]) -> Layout:
    """The layout of a file with one record for each row."""
    data = [(place, column) for place, column in enumerate(columns) if not column.is_text]
    names = _names([column.name for _, column in data])
    heads = [
        _variable_head(names[column.name], (0,), _attributes_of(column, names[column.name]))
        for _, column in data
    ]
    lengths = [8] * len(data)
    header, begins = _header(0, [(POINT, 0)], _whole(attributes, columns), heads, lengths)
    return Layout(
        head=header,
        size=len(header),
        variables=tuple(
            Variable(place=place, begin=begin)
            for (place, _), begin in zip(data, begins, strict=True)
        ),
        record_bytes=8 * len(data),
    )


def _values(dimension: Dimension) -> tuple[Scalar, ...]:
    if not dimension.values:
        raise Invalid(f"How many values {dimension.name} has is not known, or it has none.")
    return dimension.values


def _coordinates(dimension: Dimension) -> bytes:
    values = _values(dimension)
    numbers = [_number(value) for value in values]
    if None in numbers:
        numbers = [float(number) for number in range(len(values))]
    return struct.pack(f">{len(numbers)}d", *numbers)


def _coordinate_attributes(dimension: Dimension) -> dict[str, str]:
    values = _values(dimension)
    labels = json.dumps(values) if any(_number(value) is None for value in values) else ""
    return {"units": dimension.unit, "long_name": dimension.name, "labels": labels}


def _attributes_of(column: Column, name: str) -> dict[str, str]:
    return {"units": column.unit, "long_name": column.name if column.name != name else ""}


def _whole(attributes: Mapping[str, str], columns: Sequence[Column]) -> dict[str, str]:
    return {**attributes, "left_out": ", ".join(one.name for one in columns if one.is_text)}


def _names(wanted: Sequence[str]) -> dict[str, str]:
    """Names that every reader takes, each once."""
    taken: dict[str, str] = {}
    used: set[str] = set()
    for name in wanted:
        plain = made = _NOT_OF_A_NAME.sub("_", name) or "_"
        number = 1
        while made.lower() in used:
            number += 1
            made = f"{plain}_{number}"
        used.add(made.lower())
        taken[name] = made
    return taken


def _number(cell: Any) -> float | None:
    """A cell as a double; ``None`` for what is none."""
    if not isinstance(cell, int | float):
        return None
    try:
        return float(cell)
    except OverflowError:
        return None


def _header(
    records: int,
    dimensions: Sequence[tuple[str, int]],
    attributes: Mapping[str, str],
    variables: Sequence[bytes],
    lengths: Sequence[int],
) -> tuple[bytes, list[int]]:
    """The header, and where each variable begins behind it."""
    before = (
        b"CDF\x02"
        + struct.pack(">i", records)
        + _list(_DIMENSIONS, [_name(name) + struct.pack(">i", size) for name, size in dimensions])
        + _attribute_list(attributes)
        + _list(_VARIABLES, variables)
    )
    # Each variable has its type, its length and where it begins behind its own head.
    begins = list(accumulate(lengths, initial=len(before) + 16 * len(variables)))[:-1]
    ends = [
        struct.pack(">iIq", _DOUBLE, length, begin)
        for length, begin in zip(lengths, begins, strict=True)
    ]
    listed = [head + end for head, end in zip(variables, ends, strict=True)]
    start = before[: len(before) - len(_list(_VARIABLES, variables))]
    return start + _list(_VARIABLES, listed), begins


def _variable_head(name: str, dimensions: Sequence[int], attributes: Mapping[str, str]) -> bytes:
    """A variable's entry but for its type, its length and where it begins."""
    ids = struct.pack(f">{len(dimensions) + 1}i", len(dimensions), *dimensions)
    return _name(name) + ids + _attribute_list(attributes)


def _attribute_list(attributes: Mapping[str, str]) -> bytes:
    return _list(
        _ATTRIBUTES,
        [
            _name(name) + struct.pack(">i", _CHAR) + _name(text.replace("\0", " "))
            for name, text in attributes.items()
            if text
        ],
    )


def _list(tag: int, entries: Sequence[bytes]) -> bytes:
    if not entries:
        return bytes(8)
    return struct.pack(">ii", tag, len(entries)) + b"".join(entries)


def _name(text: str) -> bytes:
    """A counted text, filled up to four bytes."""
    data = text.encode("utf-8", "replace")
    return struct.pack(">i", len(data)) + data + bytes(-len(data) % 4)
