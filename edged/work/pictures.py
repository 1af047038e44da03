"""Measured data as figures to draw: a waveform, the rows of a sweep, a recording. Pure.

What has more points than a picture has columns is drawn as the outline of each stretch, so that no
spike is lost.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from edged.plot.figure import Figure, Line, Panel
from edged.work.points import Waveform
from edged.work.trace_figures import outline_of, short

__all__ = ["table_figure", "waveform_figure"]

MOST_STRETCHES: Final = 1_500
MOST_PANELS: Final = 5
MOST_LINES: Final = 6
TIME_COLUMNS: Final = ("t", "timestamp_ms", "elapsed_s")
MILLISECONDS: Final = 1_000.0
IN_HOURS_FROM_S: Final = 2 * 3600.0


def waveform_figure(waveform: Waveform, title: str) -> Figure:
    """A trace over its own axis."""
    values = waveform.values()
    size, (lows, highs) = outline_of(values, MOST_STRETCHES)
    step = waveform.x_increment * size
    line = Line(
        label="",
        x=[short(index * step) for index in range(len(lows))],
        low=lows,
        high=highs if size > 1 else None,
    )
    return Figure(
        title=f"{title}: {_counted(waveform.length, 'sample')}",
        x_label="time" if waveform.x_unit == "s" else "x",
        x_unit=waveform.x_unit,
        panels=(Panel(label="", unit=waveform.y_unit, lines=(line,)),),
    )


def table_figure(
    title: str, columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[Any]]
) -> Figure:
    """Rows over what was set (a sweep that measures), else over time, else over their number.

    Columns of one unit share a panel; columns without a number in them are left out.

    Args:
        columns: (name, unit) of each.
        rows: their cells; what is no number makes a gap.
    """
    table = [array("d") for _ in columns]
    count = 0
    for row in rows:
        count += 1
        for column, cell in zip(table, row, strict=False):
            column.append(_number(cell))
    known = {
        name: (unit, column)
        for (name, unit), column in zip(columns, table, strict=True)
        if any(map(math.isfinite, column))
    }
    x_label, x_unit, xs = _axis(known, count)
    drawn = {
        name: found for name, found in known.items() if name != x_label and name not in TIME_COLUMNS
    }
    by_unit: dict[str, list[Line]] = {}
    for name, (unit, column) in drawn.items():
        by_unit.setdefault(unit, []).append(_line(name, xs, column))
    panels = [
        Panel(
            label=", ".join(line.label for line in lines[:MOST_LINES]),
            unit=unit,
            lines=tuple(lines[:MOST_LINES]),
        )
        for unit, lines in by_unit.items()
    ][:MOST_PANELS]
    panels = panels or [Panel(label="", unit="", lines=())]
    left_out = len(drawn) - sum(len(panel.lines) for panel in panels)
    more = f" ({left_out} columns left out)" if left_out else ""
    return Figure(
        title=f"{title}: {_counted(count, 'row')}{more}",
        x_label="time" if x_label in TIME_COLUMNS else x_label,
        x_unit=x_unit,
        panels=tuple(panels),
    )


def _axis(
    known: Mapping[str, tuple[str, array[float]]], count: int
) -> tuple[str, str, list[float]]:
    """What the rows are drawn over: name, unit, one number a row."""
    is_iv_curve = "set" in known and set(known) - {"set", *TIME_COLUMNS}
    if is_iv_curve:
        unit, column = known["set"]
        return "set", unit, list(column)
    # Wall time may jump; the monotonic clock's column, where a recording has it, does not.
    for name in ("t", "elapsed_s"):
        if name in known:
            unit, column = known[name]
            return name, *_time(column, unit or "s")
    if "timestamp_ms" in known:
        column = known["timestamp_ms"][1]
        first = next(filter(math.isfinite, column))
        return "timestamp_ms", *_time([(value - first) / MILLISECONDS for value in column], "s")
    return "row", "", [float(number) for number in range(1, count + 1)]


def _time(seconds: Sequence[float], unit: str) -> tuple[str, list[float]]:
    """Long times are read in hours."""
    if unit != "s" or max(filter(math.isfinite, seconds), default=0.0) < IN_HOURS_FROM_S:
        return unit, list(seconds)
    return "h", [value / 3600 for value in seconds]


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _line(name: str, xs: Sequence[float], column: Sequence[float]) -> Line:
    size, (lows, highs) = outline_of(column, MOST_STRETCHES)
    places = [short(x) for x in xs[::size]]
    return Line(label=name, x=places, low=lows, high=highs if size > 1 else None)


def _number(cell: Any) -> float:
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        return math.nan
    return float(cell)
