"""Pictures as the drawing program makes them.

Each worker of pytest collects this file and one runs it: matplotlib is imported there alone.
"""

from __future__ import annotations

import io
import math
from array import array
from typing import TYPE_CHECKING, Any

import pytest

from edged.plot.figure import Figure, read_figure
from edged.runs.points import Waveform
from edged.runs.recordings.figures import table_figure, waveform_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet


def draw(figure: Figure) -> bytes:
    from edged.plot.draw import draw as drawn

    return drawn(figure)


def trace(values: list[float], y_unit: str = "V") -> Waveform:
    samples = array("f", values).tobytes()
    return Waveform(type_code="f", samples=samples, x_unit="s", y_unit=y_unit, x_increment=1e-6)


def inked(figure: Figure) -> Any:
    """Draws it as the program would, and gives where the first line's colour is: row, column."""
    from matplotlib import image

    pixels = image.imread(io.BytesIO(draw(read_figure(figure.encode()))), format="png")
    red, green, blue = (pixels[:, :, n] for n in range(3))
    return (blue > 0.55) & (red < 0.35) & (green < 0.55)


@pytest.mark.parametrize(
    "values",
    [
        [math.sin(n / 50) for n in range(1_000)],
        [5.0] * 1_000,
        [1.5],
        [math.nan, 1.0, math.inf, 2.0, -math.inf, 3.0],
    ],
    ids=["wave", "constant", "one point", "not all finite"],
)
def test_any_trace_makes_a_picture_with_a_line_in_it(values: list[float]) -> None:
    ink = inked(waveform_figure(trace(values), "A trace of $x_{ and %"))
    assert ink.shape == (420, 900)
    assert ink.sum() > 10


def test_a_spike_in_a_million_samples_is_seen() -> None:
    values = array("f", [0.0]) * 1_000_000
    values[700_000] = 3.0
    waveform = Waveform(
        type_code="f", samples=values.tobytes(), x_unit="s", y_unit="V", x_increment=1e-9
    )
    ink = inked(waveform_figure(waveform, "spike"))
    columns = ink[60:200].any(axis=0).nonzero()[0]
    assert 0 < len(columns) < 10
    assert 0.6 < columns.mean() / 900 < 0.8


def test_a_table_has_a_panel_for_each_unit_and_one_without_numbers_says_so() -> None:
    rows = [(n / 10, n * 0.05, n * 0.05, n * 0.001, "CV") for n in range(50)]
    columns = [("t", "s"), ("set", "V"), ("v", "V"), ("i", "A"), ("mode", "")]
    assert inked(table_figure("iv", columns, rows)).shape == (680, 900)
    assert inked(table_figure("none", columns, [])).sum() == 0


def test_ticks_of_what_hardly_varies_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[list[str]] = []

    def keep(sheet: Sheet) -> bytes:
        sheet.canvas.draw()
        drawn.append([label.get_text() for label in sheet.axes[0].get_yticklabels()])
        return b""

    monkeypatch.setattr("edged.plot.draw._png", keep)
    rows = [(n, 3.28367 + n * 2e-6) for n in range(6)]
    draw(table_figure("steady", [("t", "s"), ("v", "V")], rows))
    [labels] = drawn
    assert len(labels) > 2
    assert len(set(labels)) == len(labels)
