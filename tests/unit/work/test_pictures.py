from __future__ import annotations

import csv
import json
from array import array
from pathlib import Path

import pytest

from edged.errors import Failed, Invalid, NotFound
from edged.runs.points import Waveform
from edged.runs.recordings.figures import (
    MOST_LINES,
    MOST_STRETCHES,
    PlotWish,
    run_figure,
    table_figure,
    waveform_figure,
)
from edged.runs.recordings.formats import archive_bytes, member_bytes, npy_bytes, read_npy


def test_a_sweep_that_measures_is_drawn_over_what_was_set() -> None:
    columns = [("t", "s"), ("set", "V"), ("voltage", "V"), ("current", "A"), ("on", "")]
    rows = [(n, n * 0.1, n * 0.1, None if n == 2 else n * 0.01, True) for n in range(5)]
    figure = table_figure("sweep-1", columns, rows)
    assert (figure.x_label, figure.x_unit) == ("set", "V")
    assert [(panel.label, panel.unit) for panel in figure.panels] == [
        ("voltage", "V"),
        ("current", "A"),
    ]
    (current,) = figure.panels[1].lines
    assert current.low == [0.0, 0.01, None, 0.03, 0.04]
    assert current.high is None
    assert figure.title == "sweep-1: 5 rows"


def test_a_sweep_that_only_sets_is_drawn_over_time_and_a_day_in_hours() -> None:
    figure = table_figure("s", [("t", "s"), ("set", "V")], [(0, 1.0), (1, 2.0)])
    assert (figure.x_label, figure.x_unit) == ("time", "s")
    stamps = [(1_790_000_000_000 + n * 3_600_000, 5.0) for n in range(5)]
    figure = table_figure("s", [("timestamp_ms", "ms"), ("value", "V")], stamps)
    assert figure.x_unit == "h"
    assert figure.panels[0].lines[0].x == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("preamble", "increment", "places"),
    [
        ({"x_origin": -0.006}, 1e-5, [-0.006, -0.00599]),
        ({"start": 2.4e9, "stop": 2.4e9 + 1}, 1.0, [2_400_000_000.0, 2_400_000_001.0]),
        ({"x_origin": "none"}, 0.5, [0.0, 0.5]),
        ({}, 0.5, [0.0, 0.5]),
    ],
)
def test_a_waveform_is_drawn_from_where_its_instrument_says_that_it_begins(
    preamble: dict[str, float | str], increment: float, places: list[float]
) -> None:
    waveform = Waveform(
        type_code="f",
        samples=array("f", [1.0, 2.0]).tobytes(),
        x_unit="s",
        y_unit="V",
        x_increment=increment,
        preamble=preamble,
    )
    (line,) = waveform_figure(waveform, "trace").panels[0].lines
    assert line.x == places


def test_long_tables_keep_their_extremes_and_wide_ones_say_what_is_left_out() -> None:
    rows = [(n, 9.0 if n == 7_777 else 0.0) for n in range(50_000)]
    (line,) = table_figure("s", [("t", "s"), ("v", "V")], rows).panels[0].lines
    assert len(line.low) <= MOST_STRETCHES
    assert line.high is not None
    assert max(value or 0.0 for value in line.high) == 9.0
    assert len(line.x) == len(line.low) == len(line.high)
    names = [("t", "s"), *((f"c{n}", "V") for n in range(MOST_LINES + 3))]
    figure = table_figure("s", names, [range(len(names))])
    assert "3 columns left out" in figure.title


def test_where_a_recording_has_the_monotonic_clock_wall_time_is_no_axis() -> None:
    columns = [("timestamp_ms", "ms"), ("value", "V"), ("elapsed_s", "s")]
    figure = table_figure("s", columns, [(9_000, 1.0, 0.0), (1_000, 2.0, 1.5)])
    (line,) = figure.panels[0].lines
    assert (figure.x_label, figure.x_unit, line.label) == ("time", "s", "value")
    assert list(line.x) == [0.0, 1.5]


@pytest.mark.parametrize(
    ("wish", "parameter"), [(PlotWish(x="voltage"), "x"), (PlotWish(y=("current",)), "y")]
)
def test_a_column_that_is_not_there_is_told_by_the_parameter_that_named_it(
    wish: PlotWish, parameter: str
) -> None:
    with pytest.raises(Invalid, match="There is no column") as unknown:
        table_figure("s", [("t", "s"), ("v", "V")], [], wish)
    assert unknown.value.data["parameter"] == parameter


@pytest.mark.parametrize(
    ("names", "over"),
    [
        (("set_V", "current_A", "limited"), "set_V"),
        (("number", "set_V", "current_A"), "set_V"),
        (("frequency_Hz", "r_V"), "frequency_Hz"),
        (("channel",), "time"),
    ],
)
def test_a_sequence_is_drawn_over_what_it_set_else_over_its_first_column(
    tmp_path: Path, names: tuple[str, ...], over: str
) -> None:
    columns = [*((name, "") for name in names), ("elapsed_s", "s")]
    rows: list[list[object]] = [[float(n) for n in range(len(columns))]]
    recording(tmp_path, columns, rows, kind="sequence")
    assert run_figure(tmp_path, "mcp-1").x_label == over
    assert run_figure(tmp_path, "mcp-1", PlotWish(y=(names[0],))).x_label in {"time", "set_V"}
    assert run_figure(tmp_path, "mcp-1", PlotWish(x="elapsed_s")).x_label == "time"


def test_a_recording_without_rows_is_refused(tmp_path: Path) -> None:
    recording(tmp_path, [("set_V", "")], [], kind="sequence")
    with pytest.raises(Invalid, match="mcp-1 has no rows, so there is nothing to draw"):
        run_figure(tmp_path, "mcp-1")


def recording(
    root: Path, columns: list[tuple[str, str]], rows: list[list[object]], kind: str = "stream"
) -> Path:
    directory = root / "2026-11-21" / "mcp-1"
    directory.mkdir(parents=True)
    told = [{"name": name, "unit": unit} for name, unit in columns]
    meta = {"run_id": "mcp-1", "command_name": "m", "instrument_id": "i", "columns": told}
    meta["kind"] = kind
    (directory / "meta.json").write_text(json.dumps(meta))
    with (directory / "data.csv").open("w", newline="") as file:
        csv.writer(file).writerows([[name for name, _ in columns], *rows])
    return directory


def test_a_recording_of_rows_is_drawn_with_the_units_of_its_meta(tmp_path: Path) -> None:
    columns = [("timestamp_ms", "ms"), ("value", "V"), ("flag", "")]
    recording(tmp_path, columns, [[0, 1.5, ""], [500, "", "overload"], [1000, 2.5, ""]])
    figure = run_figure(tmp_path, "mcp-1")
    (panel,) = figure.panels
    assert panel.unit == "V"
    assert (panel.lines[0].x, panel.lines[0].low) == ([0.0, 0.5, 1.0], [1.5, None, 2.5])
    with pytest.raises(NotFound):
        run_figure(tmp_path, "mcp-2")


def test_a_recording_of_waveforms_is_drawn_by_its_newest_whole_one(tmp_path: Path) -> None:
    names = ["timestamp_ms", "point_index", "x_unit", "y_unit", "x_increment", "array"]
    rows: list[list[object]] = [[n, n, "s", "V", 0.5, f"y_{n:06d}"] for n in range(2)]
    directory = recording(tmp_path, [(name, "") for name in names], rows)
    (directory / "data-2.npz").write_bytes(b"PK\x03\x04 still being written")
    with pytest.raises(Failed, match="still being written"):
        run_figure(tmp_path, "mcp-1")
    members = [
        member_bytes(f"y_{n:06d}.npy", npy_bytes("f", array("f", [n, n + 1.0]).tobytes()))
        for n in range(2)
    ]
    (directory / "data.npz").write_bytes(archive_bytes(members))
    figure = run_figure(tmp_path, "mcp-1")
    (line,) = figure.panels[0].lines
    assert (line.x, line.low) == ([0.0, 0.5], [1.0, 2.0])
    assert "y_000001" in figure.title


@pytest.mark.parametrize("type_code", ["f", "d", "q"])
def test_arrays_are_read_as_they_were_written(type_code: str) -> None:
    numbers = array(type_code, [1, 2, 3]).tobytes()
    assert read_npy(npy_bytes(type_code, numbers)) == (type_code, numbers)
    with pytest.raises(ValueError, match="not an array"):
        read_npy(b"\x93NUMPY\x01\x00\x10\x00{'descr': '|O'}")
