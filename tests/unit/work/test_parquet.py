from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.runs.recordings.formats import parquet_bytes
from edged.runs.recordings.reader import FORMATS, export_run
from tests.bench.parquet_reader import read_parquet

CELLS = st.lists(
    st.one_of(
        st.just(""), st.integers().map(str), st.floats().map(repr), st.text(), st.just("true")
    ),
    max_size=80,
)


def test_each_column_has_the_type_that_its_cells_fit() -> None:
    columns = {
        "whole": ["1", "", "-3"],
        "number": ["1.5", "", "nan"],
        "truth": ["true", "false", ""],
        "text": ["overload", "", "Ω"],
        "no number": ["1_000", " 2", "٣"],
        "nothing": ["", "", ""],
        "too whole": [str(1 << 70), "1", "2"],
    }
    read = read_parquet(parquet_bytes(list(columns.items())))
    assert read["whole"] == [1, None, -3]
    assert read["number"][:2] == [1.5, None]
    assert math.isnan(read["number"][2])
    assert read["truth"] == [True, False, None]
    assert read["text"] == ["overload", None, "Ω"]
    assert read["no number"] == ["1_000", " 2", "٣"]
    assert read["nothing"] == [None, None, None]
    assert read["too whole"] == [float(1 << 70), 1.0, 2.0]


@given(CELLS)
def test_whatever_stands_in_the_cells_comes_back(cells: list[str]) -> None:
    (read,) = read_parquet(parquet_bytes([("c", cells)])).values()
    assert [value is None for value in read] == [cell == "" for cell in cells]
    for cell, value in zip(cells, read, strict=True):
        if isinstance(value, str):
            assert value == cell
        elif isinstance(value, bool):
            assert value is (cell == "true")
        elif isinstance(value, int):
            assert value == int(cell)
        elif value is not None and not math.isnan(value):
            assert value == float(cell)


def test_many_columns_and_long_runs_are_written_as_well() -> None:
    columns = [(f"c{n}", [str(n)] * 5_000) for n in range(20)]
    read = read_parquet(parquet_bytes(columns))
    assert len(read) == 20
    assert read["c7"] == [7] * 5_000
    assert read_parquet(parquet_bytes([("a", [])])) == {"a": []}


@pytest.mark.parametrize("form", FORMATS)
def test_a_recording_that_is_being_written_is_exported_in_every_format(
    tmp_path: Path, form: str
) -> None:
    directory = tmp_path / "2026-11-21" / "mcp-1"
    directory.mkdir(parents=True)
    (directory / "data.csv").write_text("timestamp_ms,value,flag\n1,1.5,\n2,,overload\n3,")
    (directory / "meta.json").write_text("{}")
    piece = export_run(tmp_path, "mcp-1", form)
    assert piece["name"] == f"mcp-1.{form}"
    assert piece["encoding"] == ("utf-8" if form in ("csv", "jsonl") else "base64")
    assert piece["content"]
