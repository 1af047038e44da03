"""Measured data as figures to draw: a waveform, the rows of a sweep, a recording. Pure.

What has more points than a picture has columns is drawn as the outline of each stretch, so that no
spike is lost.

A recording as a figure to draw: its rows, or the newest of its waveforms.

Reads files, and belongs on a thread (``RunRegistry.read``).
"""

from __future__ import annotations

import contextlib
import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

from edged.errors import ErrorCode, Failed, Invalid
from edged.files import open_bytes
from edged.plot.figure import Curve, Figure, Panel
from edged.record import record
from edged.runs.points import Waveform, outline_of, short
from edged.runs.recordings.data_nc import counted_rows
from edged.runs.recordings.files import ROWS_FILE
from edged.runs.recordings.formats import archives_in, read_npy
from edged.runs.recordings.reader import find_run, read_meta
from edged.runs.recordings.table import (
    MAX_TABLE_BYTES,
    no_column,
    number_of,
    reading,
    rows_of,
)
from edged.runs.run_head import ATTEMPT, RunKind

MOST_STRETCHES: Final = 1_500
MOST_PANELS: Final = 5
MOST_LINES: Final = 6
TIME_COLUMNS: Final = ("t", "timestamp_ms", "elapsed_s")
SET: Final = "set_"
"""So begins the name of a sequence's column that says what was set: set_V."""
MILLISECONDS: Final = 1_000.0
IN_HOURS_FROM_S: Final = 2 * 3600.0


def waveform_figure(waveform: Waveform, title: str) -> Figure:
    """A trace over its own axis."""
    values = waveform.values()
    size, (lows, highs) = outline_of(values, MOST_STRETCHES)
    step = waveform.x_increment * size
    line = Curve(
        label="",
        x=[_place(waveform.x_first + index * step) for index in range(len(lows))],
        low=lows,
        high=highs if size > 1 else None,
    )
    return Figure(
        title=f"{title}: {_counted(waveform.length, 'sample')}",
        x_label="time" if waveform.x_unit == "s" else "x",
        x_unit=waveform.x_unit,
        panels=(Panel(label="", unit=waveform.y_unit, lines=(line,)),),
    )


def _place(x: float) -> float | None:
    """With more digits than ``short``: a narrow span may begin far from 0."""
    return float(f"{x:.12g}") if math.isfinite(x) else None


@record
class PlotWish:
    """How a table is to be drawn; what is empty is chosen by what there is.

    Attributes:
        x, y: names of columns.
    """

    x: str = ""
    y: tuple[str, ...] = ()
    log_x: bool = False
    log_y: bool = False
    title: str = ""


AS_IT_COMES: Final = PlotWish()


def plot_wish(asked: Mapping[str, Any]) -> PlotWish:
    """What somebody asks for: {x?, y?: a name or names, log_x?, log_y?, title?}, checked before."""
    y = asked.get("y") or ()
    return PlotWish(
        x=str(asked.get("x", "")),
        y=(y,) if isinstance(y, str) else tuple(y),
        log_x=asked.get("log_x") is True,
        log_y=asked.get("log_y") is True,
        title=str(asked.get("title", "")),
    )


def table_figure(
    title: str,
    columns: Sequence[tuple[str, str]],
    rows: Iterable[Sequence[Any]],
    wish: PlotWish = AS_IT_COMES,
    over: str = "",
) -> Figure:
    """Rows over what was set (a sweep that measures), else over time, else over their number.

    Columns of one unit share a panel; columns without a number in them are left out.

    Args:
        columns: (name, unit) of each.
        rows: their cells; what is no number makes a gap.
        over: the column over which they are drawn where nobody wishes another.

    Raises:
        Invalid: no such column; none with a number above 0 where the axis is to be logarithmic.
    """
    asked = [("x", wish.x)] if wish.x else []
    for parameter, name in (*asked, *(("y", name) for name in wish.y)):
        if name not in dict(columns):
            raise no_column(name, [name for name, _ in columns], parameter)
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
    if set(known) <= {over, *TIME_COLUMNS} or over in wish.y:
        over = ""
    x_label, x_unit, xs = _axis(known, count, wish.x or over)
    drawn = {
        name: found
        for name, found in known.items()
        if (name in wish.y if wish.y else name != x_label and name not in TIME_COLUMNS)
    }
    if wish.log_x:
        _check_log("log_x", x_label, xs)
    if wish.log_y and drawn:
        _check_log("log_y", " and ".join(drawn), chain(*(column for _, column in drawn.values())))
    by_unit: dict[str, list[Curve]] = {}
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
        title=wish.title or f"{title}: {_counted(count, 'row')}{more}",
        x_label="time" if x_label in TIME_COLUMNS else x_label,
        x_unit=x_unit,
        panels=tuple(panels),
        log_x=wish.log_x,
        log_y=wish.log_y,
    )


def described(figure: Figure) -> str:
    """One line of what a figure shows: each curve with its ends."""
    over = figure.x_label + (f" ({figure.x_unit})" if figure.x_unit else "")
    told = [
        f"{line.label or 'value'} {_ends((*line.low, *(line.high or ())), panel.unit)}"
        for panel in figure.panels
        for line in panel.lines
    ]
    return f"{figure.title}; over {over}: {', '.join(told) or 'no numbers yet'}.".replace("\n", " ")


def _ends(values: Sequence[float | None], unit: str) -> str:
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return "without a number"
    return f"{min(known):.9g} to {max(known):.9g}{f' {unit}' if unit else ''}"


def _check_log(parameter: str, name: str, values: Iterable[float]) -> None:
    if not any(value > 0 for value in values):
        raise Invalid(
            f"{parameter} needs numbers above 0, and {name} has none.",
            data={"parameter": parameter, "column": name},
        )


def _axis(
    known: Mapping[str, tuple[str, array[float]]], count: int, wanted: str
) -> tuple[str, str, list[float]]:
    """What the rows are drawn over: name, unit, one number a row."""
    if wanted in known and wanted not in TIME_COLUMNS:
        unit, column = known[wanted]
        return wanted, unit, list(column)
    if wanted in known:
        known = {wanted: known[wanted]}
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


def _line(name: str, xs: Sequence[float], column: Sequence[float]) -> Curve:
    size, (lows, highs) = outline_of(column, MOST_STRETCHES)
    places = [short(x) for x in xs[::size]]
    return Curve(label=name, x=places, low=lows, high=highs if size > 1 else None)


def _number(cell: Any) -> float:
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        return math.nan
    return float(cell)


MAX_ARRAY_BYTES: Final = 256 * 1024 * 1024


def run_figure(root: Path, run_id: str, wish: PlotWish = AS_IT_COMES) -> Figure:
    """What a picture of a recording shows.

    Raises:
        NotFound: UNKNOWN_RUN.
        Invalid: it has no rows; or see ``table_figure``.
        Failed: RECORDING_FAILED, it cannot be read, or is too long to draw.
    """
    directory = find_run(root, run_id)
    meta = read_meta(directory)
    title = f"{run_id}: {meta.get('command_name')} of {_called(meta)}"
    with reading(directory):
        archives = archives_in(directory)
        if archives and not (wish.x or wish.y):
            return waveform_figure(*_newest_waveform(directory, archives, title))
        rows_file = directory / ROWS_FILE
        if rows_file.stat().st_size > MAX_TABLE_BYTES:
            raise _too_long()
        names, lines = rows_of(rows_file)
        table = counted_rows(lines, names, meta)
        first = next(table, None)
        if first is None:
            raise Invalid(
                f"{run_id} has no rows, so there is nothing to draw.",
                data={"run_id": run_id},
                remedy="bench__runs tells its state and result.",
            )
        units = {str(c.get("name")): str(c.get("unit", "")) for c in meta.get("columns", [])}
        over, hidden = _axis_of(meta, names)
        shown = [
            index
            for index, name in enumerate(names)
            if name not in hidden or name in (wish.x, *wish.y)
        ]
        columns = [(names[index], units.get(names[index], "")) for index in shown]
        rows = ([number_of(cells[at]) for at in shown] for cells in chain([first], table))
        return table_figure(title, columns, rows, wish, over)


def _axis_of(meta: Mapping[str, Any], names: Sequence[str]) -> tuple[str, frozenset[str]]:
    """The column that a table is drawn over, and those that are drawn only where they are named."""
    match meta.get("kind"):
        case RunKind.SEQUENCE:
            return _set_first(names), frozenset()
        case RunKind.EXPERIMENT:
            loops = [str(loop.get("name")) for loop in meta.get("dimensions") or ()]
            over = next((name for name in reversed(loops) if name in names), "")
            return over, frozenset({ATTEMPT.name, *(f"n_{name}" for name in loops)})
        case _:
            return "", frozenset()


def _set_first(names: Sequence[str]) -> str:
    """The column of a sequence's table that says what was set; else the first."""
    return next((name for name in names if name.startswith(SET)), next(iter(names), ""))


def _called(meta: Mapping[str, Any]) -> str:
    """The instrument of a run: its alias, where it had one."""
    asked = meta.get("instrument_id")
    for unit in meta.get("instruments") or ():
        if unit.get("id") == asked and unit.get("alias"):
            return str(unit["alias"])
    return str(asked)


def _newest_waveform(directory: Path, archives: Sequence[Path], title: str) -> tuple[Waveform, str]:
    """The last array that is whole, with what its row says of it."""
    import zipfile  # with what compresses; for those who draw a waveform

    names, rows = rows_of(directory / ROWS_FILE)
    told = (dict(zip(names, row, strict=False)) for row in rows)
    about = {row["array"]: row for row in told if row.get("array")}
    for path in reversed(archives):
        # The archive that is being written has no directory yet; the one before has.
        with (
            contextlib.suppress(zipfile.BadZipFile),
            open_bytes(path) as file,
            zipfile.ZipFile(file) as archive,
        ):
            for member in reversed(archive.infolist()):
                if member.file_size > MAX_ARRAY_BYTES:
                    raise _too_long()
                name = member.filename.removesuffix(".npy")
                type_code, samples = read_npy(archive.read(member))
                row = about.get(name, {})
                step = number_of(row.get("x_increment"))
                waveform = Waveform(
                    type_code=type_code,
                    samples=samples,
                    x_unit=row.get("x_unit") or "",
                    y_unit=row.get("y_unit") or "",
                    x_increment=1.0 if step is None else step,
                    # Recordings of old versions do not say where their traces begin.
                    preamble={"x_origin": number_of(row.get("x_first")) or 0.0},
                )
                return waveform, f"{title}, {name}"
    raise Failed(
        "This recording's waveforms are still being written.",
        code=ErrorCode.RECORDING_FAILED,
        remedy="Draw it when it has ended; fetch_waveform draws those in memory.",
    )


def _too_long() -> Failed:
    return Failed(
        "This recording is too long to draw.",
        code=ErrorCode.RECORDING_FAILED,
        remedy="Export it, and draw a part of it.",
    )
