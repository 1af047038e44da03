"""data.nc: every cell in its place, whatever the shape; the same file live and made again."""

import json
import math
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import Invalid
from edged.runs.recordings.data_nc import begin, netcdf_bytes, put
from edged.runs.recordings.netcdf import MOST_BYTES, grid_layout, layout_of, rows_layout
from edged.runs.run_head import Column, Dimension
from tests.unit.work.test_experiment_recording import killed, map_head, place
from tests.unit.work.test_runs import Bench
from tests.unit.work.test_runs_full_disk import FullBench


@dataclass
class Read:
    """A netCDF-3 file, read by nothing but its specification."""

    data: bytes
    at: int = 4
    variables: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.data.startswith(b"CDF\x02")
        self.records = self._int()
        self.sizes = [(self._name(), self._int()) for _ in range(self._list(0x0A))]
        self.whole = self._attributes()
        places = []
        for _ in range(self._list(0x0B)):
            name = self._name()
            dimensions = [self._int() for _ in range(self._int())]
            self.attributes[name] = self._attributes()
            kind, length, begins = struct.unpack_from(">iIq", self.data, self.at)
            assert kind == 6
            self.at += 16
            places.append((name, dimensions, length, begins))
        step = sum(length for _, dimensions, length, _ in places if self._is_record(dimensions))
        for name, dimensions, length, begins in places:
            if self._is_record(dimensions):
                at = [begins + number * step for number in range(self.records)]
            else:
                at = list(range(begins, begins + length, 8))
                count = math.prod(self.sizes[one][1] for one in dimensions)
                assert length == 8 * count
            assert begins >= self.at
            assert name not in self.variables
            self.variables[name] = [struct.unpack_from(">d", self.data, one)[0] for one in at]

    def _is_record(self, dimensions: list[int]) -> bool:
        return bool(dimensions) and self.sizes[dimensions[0]][1] == 0

    def _int(self) -> int:
        (value,) = struct.unpack_from(">i", self.data, self.at)
        self.at += 4
        return int(value)

    def _list(self, tag: int) -> int:
        found, count = self._int(), self._int()
        assert found == (tag if count else 0)
        return count

    def _name(self) -> str:
        length = self._int()
        text = self.data[self.at : self.at + length].decode()
        self.at += length + -length % 4
        return text

    def _attributes(self) -> dict[str, str]:
        found = {}
        for _ in range(self._list(0x0C)):
            name = self._name()
            assert self._int() == 2
            found[name] = self._name()
        return found


def same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


names = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=6)
cells = st.floats() | st.integers() | st.none() | st.text(max_size=3)


@st.composite
def grids(draw: st.DrawFn) -> tuple[list[Dimension], list[Column]]:
    loops = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    values = st.lists(st.floats(allow_nan=False), min_size=1, max_size=4)
    dimensions = [Dimension(name=one, unit="V", values=tuple(draw(values))) for one in loops]
    others = draw(st.lists(names, max_size=4, unique=True))
    taken = {*loops, *(f"n_{one}" for one in loops), "attempt", "elapsed_s"}
    columns = [
        Column(
            name=one,
            unit="A",
            dimensions=tuple(loops[: draw(st.integers(0, len(loops)))]),
            is_text=draw(st.booleans()),
        )
        for one in others
        if one not in taken
    ]
    return dimensions, [*(one.place for one in dimensions), *columns]


@given(grids(), st.data())
def test_each_cell_of_a_grid_is_where_a_reader_looks_for_it(
    grid: tuple[list[Dimension], list[Column]], data: st.DataObject
) -> None:
    dimensions, columns = grid
    layout = grid_layout(columns, dimensions, {"title": "Ω", "empty": ""})
    made = bytearray()

    def write_at(offset: int, some: bytes) -> None:
        assert offset <= len(made)
        made[offset : offset + len(some)] = some

    begin(layout, write_at)
    size = len(made)
    assert size == layout.size
    expected: dict[tuple[str, tuple[int, ...]], float] = {}
    every = list(product(*(range(len(one.values or ())) for one in dimensions)))
    for places in data.draw(st.lists(st.sampled_from(every), max_size=8)):
        row = [*places, *(data.draw(cells) for _ in columns[len(dimensions) :])]
        put(layout, [row], 0, write_at)
        for column, cell in zip(columns, row, strict=True):
            if isinstance(cell, int | float) and column not in columns[: len(dimensions)]:
                expected[column.name, places[: len(column.dimensions)]] = float(cell)
    assert len(made) == size
    read = Read(bytes(made))
    assert read.whole["title"] == "Ω"
    shown = [column for column in columns[len(dimensions) :] if not column.is_text]
    assert len(read.variables) == len(dimensions) + len(shown)
    found = list(read.variables.values())
    for dimension, values in zip(dimensions, found, strict=False):
        assert values == list(dimension.values or ())
    for column, values in zip(shown, found[len(dimensions) :], strict=True):
        shape = [range(len(one.values or ())) for one in dimensions[: len(column.dimensions)]]
        for value, index in zip(values, product(*shape), strict=True):
            assert same(value, expected.get((column.name, index), math.nan))


@given(
    st.lists(names, min_size=1, max_size=4, unique=True),
    st.lists(st.lists(cells, min_size=4, max_size=4), max_size=6),
)
def test_rows_of_an_unknown_shape_are_records_of_which_the_header_knows_the_number(
    columns: list[str], rows: list[list[Any]]
) -> None:
    layout = rows_layout([Column(name=name) for name in columns], {})
    made = bytearray()

    def write_at(offset: int, some: bytes) -> None:
        made[offset : offset + len(some)] = some

    begin(layout, write_at)
    for number, row in enumerate(rows):
        put(layout, [row], number, write_at)
        read = Read(bytes(made))
        assert read.records == number + 1
        assert read.sizes == [("point", 0)]
        for index, values in enumerate(read.variables.values()):
            cell = row[index]
            is_number = isinstance(cell, int | float)
            assert same(values[-1], float(cell) if is_number else math.nan)


LONG = tuple(float(number) for number in range(5_000))


@pytest.mark.parametrize(
    ("dimensions", "says"),
    [
        (
            (Dimension(name="a", values=LONG), Dimension(name="b", values=LONG)),
            "takes over 128 MiB",
        ),
        ((Dimension(name="a"),), "not known"),
        ((Dimension(name="a", values=()),), "it has none"),
    ],
)
def test_a_grid_that_is_too_large_or_not_known_is_refused_and_written_by_rows(
    dimensions: tuple[Dimension, ...], says: str
) -> None:
    columns = [Column(name="v", dimensions=tuple(one.name for one in dimensions))]
    with pytest.raises(Invalid) as refused:
        grid_layout(columns, dimensions, {})
    assert says in str(refused.value)
    assert layout_of(columns, dimensions, {}) == rows_layout(columns, {})
    assert MOST_BYTES < 8 * 5_000**2


def test_texts_among_the_values_of_a_loop_are_numbered_and_named() -> None:
    loop = Dimension(name="range", values=("low", "high"))
    read = Read(grid_layout([loop.place], [loop], {}).head)
    assert read.variables["range"] == [0.0, 1.0]
    assert json.loads(read.attributes["range"]["labels"]) == ["low", "high"]


def test_names_that_a_reader_may_refuse_are_replaced_and_kept_beside() -> None:
    columns = [Column(name="U/Ω"), Column(name="U_Ω"), Column(name="u__")]
    read = Read(rows_layout(columns, {}).head)
    assert list(read.variables) == ["U__", "U___2", "u___3"]
    assert read.attributes["U__"]["long_name"] == "U/Ω"


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    await bench.book.stop()


async def test_a_grid_is_readable_while_it_is_written_and_equal_when_it_is_made_again(
    bench: Bench,
) -> None:
    sink = await bench.book.open(map_head())
    here = place(bench)
    assert all(map(math.isnan, Read((here / "data.nc").read_bytes()).variables["i_d"]))
    sink.append((0.5, 1.0, 1e-3, None, "late"), (1, 1))
    sink.append((0.5, None, None, 77.2, None), (1, None))
    sink.append((9.0, 9.0, 9.0, 9.0, None), (3, 1))
    await sink.written()
    read = Read((here / "data.nc").read_bytes())
    assert [value for value in read.variables["i_d"] if not math.isnan(value)] == [1e-3]
    assert read.variables["i_d"][1 * 4 + 1] == 1e-3
    assert read.variables["T"][1] == 77.2
    assert read.variables["v_d"] == [0.0, 1.0, 2.0, 3.0]
    assert read.attributes["i_d"] == {"units": "A"}
    assert read.whole["left_out"] == "flags"
    await sink.close("completed")
    size = (here / "data.csv").stat().st_size
    assert netcdf_bytes(here, size) == (here / "data.nc").read_bytes()


async def test_rows_of_a_pass_that_was_repeated_are_not_in_it(tmp_path: Path) -> None:
    bench = await killed(tmp_path)
    here = place(bench)
    assert Read((here / "data.nc").read_bytes()).variables["i_d"][5] == 0.005
    sink = await bench.book.open(replace(map_head(), resumed_at={"v_g": 1}))
    found = Read((here / "data.nc").read_bytes()).variables["i_d"]
    assert found[:4] == [0.0, 0.001, 0.002, 0.003]
    assert all(map(math.isnan, found[4:]))
    sink.append((0.5, 0.0, 0.4, None, None), (1, 0))
    await sink.close("completed")
    found = Read((here / "data.nc").read_bytes()).variables["i_d"]
    assert found[4] == 0.4
    assert all(map(math.isnan, found[5:]))
    assert netcdf_bytes(here, 0) == (here / "data.nc").read_bytes()
    await bench.book.stop()


async def test_a_disk_that_refuses_it_loses_no_row(tmp_path: Path) -> None:
    bench = FullBench(tmp_path)
    sink = await bench.book.open(map_head())
    sink.append((0.0, 0.0, 1.0, None, None), (0, 0))
    await sink.written()
    sink.append((0.0, 0.0, 2.0, None, None), (0, 1))
    bench.disk.room = len("0,1,1,0.0,0.0,2.0,,,0.0\n")
    await sink.written()
    assert not (place(bench) / "data.nc").exists()
    bench.disk.room = None
    sink.append((0.0, 0.0, 3.0, None, None), (0, 2))
    await sink.close("completed")
    assert (bench.meta("exp-1")["rows"], bench.meta("exp-1")["error"]) == (3, "")
    assert Read(netcdf_bytes(place(bench), 1)).variables["i_d"][:3] == [1.0, 2.0, 3.0]
    await bench.book.stop()
