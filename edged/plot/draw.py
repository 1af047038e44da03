"""The program that draws: a figure on standard input, a PNG on standard output.

A process of its own, because drawing takes long, takes memory, and is done by a library that is
large: nothing of it is loaded into the daemon. The only module that knows that library.
"""

from __future__ import annotations

import io
import math
import os
import sys
from typing import Final

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure as Sheet
from matplotlib.figure import SubFigure
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullFormatter

from edged.plot.figure import (
    COLOURS,
    LINEAR_UNITS,
    MARKED_POINTS,
    Curve,
    Figure,
    Panel,
    has_prefixes,
    read_figure,
)

WIDTH_IN: Final = 9.0
FINENESS: Final = (100, 80, 60, 40)
"""Dots an inch that are tried, one after the other."""
MOST_BYTES: Final = 200_000
PANEL_IN: Final = 2.6
HEAD_IN: Final = 1.6
NICER: Final = 5
DECADE: Final = 10
FLAT: Final = 1e-4
"""Of its largest value: then what all ticks share is written once, above the axis."""


def draw(figure: Figure) -> bytes:
    """The picture as PNG."""
    _take_text_as_text()
    count = max(1, len(figure.panels))
    sheet = Sheet(figsize=(WIDTH_IN, HEAD_IN + PANEL_IN * count), layout="constrained")
    _fill(sheet, figure)
    return _png(sheet)


def _fill(sheet: Sheet | SubFigure, figure: Figure) -> None:
    """All panels, one below the other."""
    count = max(1, len(figure.panels))
    axes: list[Axes] = list(sheet.subplots(count, 1, sharex=True, squeeze=False)[:, 0])
    sheet.suptitle(figure.title, fontsize=11)
    for area, panel in zip(axes, figure.panels, strict=False):
        _draw_panel(area, panel, is_log=figure.log_y)
    axes[-1].set_xlabel(_label(figure.x_label, figure.x_unit))
    if figure.log_x:
        axes[-1].set_xscale("log", nonpositive="mask")
        _name_ticks(axes[-1].xaxis)
    else:
        axes[-1].xaxis.set_major_locator(MaxNLocator(8))
    if has_prefixes(figure.x_unit):
        axes[-1].xaxis.set_major_formatter(EngFormatter(unit=figure.x_unit))


def _take_text_as_text() -> None:
    """What instruments and profiles call things is never a formula."""
    matplotlib.rcParams["text.parse_math"] = False


def _png(sheet: Sheet) -> bytes:
    """As fine as fits into ``MOST_BYTES``; what is full of noise is large."""
    picture = b""
    for dpi in FINENESS:
        file = io.BytesIO()
        sheet.savefig(file, format="png", dpi=dpi)
        picture = file.getvalue()
        if len(picture) <= MOST_BYTES:
            break
    return picture


def _draw_panel(area: Axes, panel: Panel, *, is_log: bool) -> None:
    area.grid(visible=True, color="#d7dbe0", linewidth=0.6)
    area.set_axisbelow(True)
    area.margins(x=0.01, y=0.08)
    is_empty = True
    for number, line in enumerate(panel.lines):
        xs, ys = _points(line)
        is_empty &= not any(math.isfinite(y) for y in ys)
        is_marked = len(ys) <= MARKED_POINTS
        area.plot(
            xs,
            ys,
            color=COLOURS[number % len(COLOURS)],
            linewidth=1.0,
            marker="o" if is_marked else "",
            markersize=3.5,
            label=line.label,
        )
    if is_empty:
        area.text(0.5, 0.5, "no numbers here", ha="center", va="center", transform=area.transAxes)
    if is_log and panel.unit not in LINEAR_UNITS:
        area.set_yscale("log", nonpositive="mask")
        _name_ticks(area.yaxis)
    if has_prefixes(panel.unit) and not _is_flat(area):
        area.set_ylabel(panel.label)
        area.yaxis.set_major_formatter(EngFormatter(unit=panel.unit))
    else:
        area.set_ylabel(_with_unit(panel.label, panel.unit))
    if len(panel.lines) > 1:
        area.legend(loc="best", fontsize=8, framealpha=0.85)


def _name_ticks(axis: Axis) -> None:
    """As numbers: matplotlib's own are formulas, also between the decades of a short axis."""
    axis.set_major_formatter(EngFormatter())
    axis.set_minor_formatter(NullFormatter())
    low, high = axis.get_view_interval()
    if high < DECADE * low:
        # No power of ten may lie on it.
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))


def _is_flat(area: Axes) -> bool:
    """Whether it varies by so little that the six digits of a tick would all be the same."""
    low, high = area.get_ylim()
    return high - low < FLAT * max(abs(low), abs(high))


def _label(label: str, unit: str) -> str:
    return label if has_prefixes(unit) else _with_unit(label, unit)


def _with_unit(label: str, unit: str) -> str:
    if not unit:
        return label
    return f"{label} ({unit})" if label else unit


def _points(line: Curve) -> tuple[list[float], list[float]]:
    """The points to join; where each stands for many, up and down between their extremes."""
    if line.high is None:
        return [_number(x) for x in line.x], [_number(y) for y in line.low]
    xs: list[float] = []
    ys: list[float] = []
    for x, low, high in zip(line.x, line.low, line.high, strict=True):
        xs += [_number(x), _number(x)]
        ys += [_number(low), _number(high)]
    return xs, ys


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def main() -> int:
    """Read, draw, write."""
    if hasattr(os, "nice"):
        os.nice(NICER)
    sys.stdout.buffer.write(draw(read_figure(sys.stdin.buffer.read())))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
