"""Pages of recorded tables, and what they are drawn as."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import Invalid
from edged.plot.draw import MOST_BYTES, draw
from edged.plot.figure import read_figure
from edged.runs.recordings import table
from edged.runs.recordings.figures import PlotWish, described, table_figure
from edged.runs.recordings.table import PageWish, read_page, stats_of
from edged.runs.running_stats import TableStats
from tests.promises import promise


def written(path: Path, rows: list[list[Any]], columns: tuple[str, ...] = ("n", "text")) -> Path:
    file = path / "data.csv"
    with file.open("w", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows([columns, *rows])
    return file


@promise("runs.pages")
@given(
    count=st.integers(0, 60),
    first=st.integers(0, 70),
    most=st.integers(0, 30),
    every=st.integers(1, 20),
    text=st.sampled_from(["plain", "two\nlines", 'a "word"', "a,b"]),
    piece=st.sampled_from([7, 64, 1 << 20]),
)
def test_a_page_is_a_slice_of_all_rows(
    tmp_path_factory: pytest.TempPathFactory,
    count: int,
    first: int,
    most: int,
    every: int,
    text: str,
    piece: int,
) -> None:
    rows = [[number, text] for number in range(count)]
    file = written(tmp_path_factory.mktemp("table"), rows)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(table, "PIECE_BYTES", piece)
        page = read_page(file, PageWish(first=first, most=most, every=every))
    assert page.rows == rows[first::every][:most]
    assert page.total == count


def test_a_row_that_is_being_written_is_none_yet(tmp_path: Path) -> None:
    file = written(tmp_path, [[1, "a"], [2, "b"]])
    with file.open("a") as out:
        out.write("3,")
    page = read_page(file, PageWish(first=0, most=10, columns=("text",)))
    assert (page.rows, page.total) == ([["a"], ["b"]], 2)
    assert stats_of(file)["n"]["n"] == 2
    with pytest.raises(Invalid, match="there are n, text"):
        read_page(file, PageWish(first=0, most=10, columns=("volts",)))


@promise("runs.statistics")
def test_statistics_pass_over_what_is_no_number() -> None:
    stats = TableStats(["a", "b", "c"])
    for row in ((1.0, True, "x"), (3, None, "2"), (float("nan"), False, None), (10**400, 0, 1)):
        stats.add(row)
    assert stats.told() == {
        "a": {"mean": 2.0, "std": pytest.approx(2**0.5), "min": 1.0, "max": 3, "n": 2},
        "b": {"mean": 0.0, "std": None, "min": 0, "max": 0, "n": 1},
        "c": {"mean": 1.0, "std": None, "min": 1, "max": 1, "n": 1},
    }


BODE = [("set", "Hz"), ("r", "V"), ("theta", "deg")]


def test_a_bode_plot_has_logarithmic_axes_and_a_line() -> None:
    rows = [(10.0, 1.0, -1.0), (100.0, 0.1, -45.0), (1000.0, 0.01, -89.0)]
    wish = PlotWish(x="set", y=("r", "theta"), log_x=True, log_y=True, title="RC")
    figure = table_figure("run", BODE, rows, wish)
    assert read_figure(figure.encode()) == figure
    assert described(figure) == "RC; over set (Hz): r 0.01 to 1 V, theta -89 to -1 deg."
    assert draw(figure).startswith(b"\x89PNG")


@pytest.mark.parametrize("parameter", ["log_x", "log_y"])
def test_a_logarithmic_axis_needs_a_number_above_0(parameter: str) -> None:
    wish = PlotWish(x="set", y=("r",), **{parameter: True})
    with pytest.raises(Invalid, match=f"{parameter} needs numbers above 0"):
        table_figure("run", BODE, [(-1.0, -1.0, 0.0)], wish)


@promise("runs.plot")
def test_a_picture_full_of_noise_is_small_enough() -> None:
    noise = random.Random(1)
    columns = [("t", "s"), *((f"c{n}", f"u{n}") for n in range(5))]
    rows = [(float(n), *(noise.random() for _ in range(5))) for n in range(20_000)]
    assert len(draw(table_figure("run", columns, rows))) <= MOST_BYTES
