"""The program that draws: a figure on standard input, a PNG on standard output.

With ``--paper`` a paper on standard input, a PDF on standard output.

A process of its own, because drawing takes long, takes memory, and is done by a library that is
large: nothing of it is loaded into the daemon. The only module that knows that library.
"""

from __future__ import annotations

import io
import math
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_pdf import PdfPages
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
from edged.plot.paper import PAPER, Heading, Lines, Paper, PaperFigure, read_paper

__all__ = ["draw", "print_paper"]

WIDTH_IN: Final = 9.0
FINENESS: Final = (100, 80, 60, 40)
"""Dots an inch that are tried, one after the other."""
MOST_BYTES: Final = 200_000
PANEL_IN: Final = 2.6
HEAD_IN: Final = 1.6
PAGE_IN: Final = (8.27, 11.69)
"""A4."""
MARGIN_IN: Final = 0.6
TEXT_POINTS: Final = 7.0
LINE_IN: Final = 0.135
HEADING_IN: Final = 0.3
TOGETHER: Final = 6
HEADED_IN: Final = 0.9
PICTURE_IN: Final = 2.3
PICTURE_HEAD_IN: Final = 0.9
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


def print_paper(paper: Paper) -> bytes:
    """The paper as PDF: A4, its blocks one below the other."""
    _take_text_as_text()
    # Whole fonts, so that a reader can search and copy the text.
    matplotlib.rcParams["pdf.fonttype"] = 42
    file = io.BytesIO()
    with PdfPages(file, metadata={"Title": paper.title, "Creator": "edged"}) as pages:
        printer = _Printer(paper.title, pages)
        for block in paper.blocks:
            match block:
                case Heading():
                    printer.head(block.text)
                case Lines():
                    printer.write(block.lines)
                case PaperFigure():
                    printer.place(block.figure)
        printer.turn()
    return file.getvalue()


class _Printer:
    """Fills one page after the other, from the top.

    Args:
        title: stands at the foot of each, with the number of the page.
    """

    def __init__(self, title: str, pages: PdfPages) -> None:
        self._title = title
        self._pages = pages
        self._number = 0
        self._page: Sheet | None = None
        self._at_in = 0.0

    def head(self, text: str) -> None:
        """A heading, and room below it for some of what it heads."""
        page = self._room(HEADED_IN)
        self._at_in += HEADING_IN
        self._text(page, text, size=11, weight="bold")

    def write(self, lines: Sequence[str]) -> None:
        """Lines of one width."""
        # The head of a table is no foot of a page.
        self._room(LINE_IN * min(len(lines), TOGETHER))
        for line in lines:
            page = self._room(LINE_IN)
            self._at_in += LINE_IN
            self._text(page, line, size=TEXT_POINTS, family="monospace")
        self._at_in += LINE_IN

    def place(self, figure: Figure) -> None:
        """A figure, as large as it is and a page lets it be."""
        most = PAGE_IN[1] - 2 * MARGIN_IN
        height = min(most, PICTURE_HEAD_IN + PICTURE_IN * max(1, len(figure.panels)))
        page = self._room(height)
        # A subfigure lies in a grid: the others are the white above, below and beside it.
        above, below = self._at_in, PAGE_IN[1] - self._at_in - height
        grid = page.add_gridspec(
            3,
            3,
            height_ratios=(above, height, below),
            width_ratios=(MARGIN_IN, PAGE_IN[0] - 2 * MARGIN_IN, MARGIN_IN),
            left=0,
            right=1,
            bottom=0,
            top=1,
            hspace=0,
            wspace=0,
        )
        _fill(page.add_subfigure(grid[1, 1]), figure)
        self._at_in += height + LINE_IN

    def turn(self) -> None:
        """The page is full."""
        if self._page is None:
            return
        self._number += 1
        foot = 0.5 * MARGIN_IN / PAGE_IN[1]
        self._page.text(MARGIN_IN / PAGE_IN[0], foot, self._title, fontsize=TEXT_POINTS)
        self._page.text(
            1 - MARGIN_IN / PAGE_IN[0], foot, str(self._number), fontsize=TEXT_POINTS, ha="right"
        )
        self._pages.savefig(self._page)  # type: ignore[no-untyped-call]
        self._page = None

    def _room(self, height_in: float) -> Sheet:
        """A page with so much room left."""
        if self._at_in + height_in > PAGE_IN[1] - MARGIN_IN:
            self.turn()
        if self._page is None:
            self._page = Sheet(figsize=PAGE_IN, layout="constrained")
            self._at_in = MARGIN_IN
        return self._page

    def _text(self, page: Sheet, text: str, *, size: float, **style: Any) -> None:
        page.text(
            MARGIN_IN / PAGE_IN[0],
            1 - self._at_in / PAGE_IN[1],
            text,
            fontsize=size,
            va="bottom",
            **style,
        )


def main(arguments: Sequence[str]) -> int:
    """Read, draw, write."""
    if hasattr(os, "nice"):
        os.nice(NICER)
    wanted = sys.stdin.buffer.read()
    is_paper = PAPER in arguments
    sys.stdout.buffer.write(
        print_paper(read_paper(wanted)) if is_paper else draw(read_figure(wanted))
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
