"""What is known of a run, as the sections of its report: plainly, and what is missing, too. Pure.

A recording's meta.json is the user's own file: whatever stands there, or does not, is told so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, date, datetime, tzinfo
from pathlib import Path
from typing import Any, Final

from edged.plot.figure import Figure
from edged.record import record
from edged.runs.report.parts import (
    FactList,
    FactTable,
    Note,
    Part,
    PlottedFigure,
    ReportDocument,
    Section,
)
from edged.store.audit.run_row import RunRow, RunRows

MOST_TEXT: Final = 2_000
"""Of one cell or value; a longer one is cut, and says so."""
MOST_COLUMNS: Final = 9
"""Of the recorded table, side by side on a page; more stand in further tables."""
MOST_ROWS: Final = 2_000
"""Of one table: settings, limits."""
MOST_MS: Final = 1 << 53
UNKNOWN: Final = "not known"
INTRODUCED: Final = {
    "client": "client", "subject": "subject", "remote": "from", "route": "by way of",
    "session": "session", "tool": "tool",
}  # fmt: skip
"""Of a caller, what is told, and how it is introduced."""
SWEPT: Final = ("start_value", "target_value", "sweep_rate")


@record(frozen=False)
class DataFile:
    """One file of the recording's data, as it is on the disk while the report is made.

    Attributes:
        size: bytes of it that are hashed.
        sha256: of these, in hexadecimal.
    """

    path: Path
    size: int = 0
    sha256: str = ""
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)


@record
class Extract:
    """The ends of the recorded table; cells as they stand in the file."""

    columns: tuple[str, ...] = ()
    first: tuple[tuple[str, ...], ...] = ()
    last: tuple[tuple[str, ...], ...] = ()
    total: int = 0


@record
class Standing:
    """When and by what the report is made.

    Attributes:
        now_ms: Unix epoch milliseconds.
        zone: of the bench's computer; ``None`` asks the machine.
        dues: instrument id → the day its calibration is due, as the bench file says now.
        is_open: the run is still being recorded.
    """

    now_ms: int
    version: str
    zone: tzinfo | None = None
    dues: Mapping[str, date] = field(default_factory=dict)
    is_open: bool = False


@record
class Material:
    """Everything that a report is made from.

    Attributes:
        meta: its meta.json.
        figures: its pictures; ``undrawn``: why there is none.
        record: its rows in the audit log; ``unread``: why they could not be read.
    """

    run_id: str
    meta: Mapping[str, Any]
    path: str
    figures: tuple[Figure, ...] = ()
    undrawn: str = ""
    extract: Extract = Extract()
    files: tuple[DataFile, ...] = ()
    record: RunRows = RunRows()
    unread: str = ""


def report_of(material: Material, standing: Standing) -> ReportDocument:
    """The report, in the order in which it is read."""
    meta = material.meta
    units = _dicts(meta.get("instruments"))
    sections: dict[str, Iterable[Part]] = {
        "Run": _run(material, standing),
        "Plots": _plots(material),
        "Instruments": _units(units, meta, standing),
        "Parameters": _parameters(meta),
        "Data": _data(material),
        "Settings read from the instruments": _settings(units),
        "Limits in force": _limits(units, meta),
        "Evidence": _evidence(material, standing),
        "What is not known": (Note(text=text) for text in _missing(material, units, standing)),
    }
    made = _utc(standing.now_ms)
    return ReportDocument(
        title=f"Report of {material.run_id}",
        subtitle=f"{_text(meta.get('command_name')) or 'A run'} of {_called(units, meta)}",
        sections=tuple(
            Section(heading=heading, parts=parts)
            for heading, found in sections.items()
            if (parts := tuple(found))
        ),
        foot=f"Made by edged {standing.version} on {made}.",
    )


def span_of(meta: Mapping[str, Any]) -> tuple[int, int | None]:
    """When a run began and ended, Unix epoch ms; 0 and ``None`` where that is not told."""
    return _ms(meta.get("started_ms")) or 0, _ms(meta.get("ended_ms"))


def unit_ids(meta: Mapping[str, Any]) -> tuple[str, ...]:
    """The units that a run was measured with."""
    return tuple(_text(unit.get("id")) for unit in _dicts(meta.get("instruments")))


def _run(material: Material, standing: Standing) -> Iterator[Part]:
    meta = material.meta
    summary = _dict(meta.get("summary"))
    units = _dicts(meta.get("instruments"))
    begun, ended = _ms(meta.get("started_ms")), _ms(meta.get("ended_ms"))
    rows = [
        ("Run", material.run_id),
        ("Kind", _text(meta.get("kind")) or UNKNOWN),
        ("What", f"{_text(meta.get('command_name')) or UNKNOWN} of {_called(units, meta)}"),
        ("Started by", _who(_dict(meta.get("caller")))),
        ("Began", _both(begun, standing.zone)),
        ("Ended", _both(ended, standing.zone) if ended else _no_end(standing)),
    ]
    if begun and ended and ended >= begun:
        rows.append(("Took", _duration((ended - begun) / 1000)))
    rows += [
        ("State", _state(meta, standing)),
        ("Why it ended", _text(summary.get("reason")) or _text(summary.get("error"))),
        ("Rows", f"{material.extract.total:,}"),
    ]
    yield FactList(rows=tuple((name, value) for name, value in rows if value))
    errors = dict.fromkeys(filter(None, map(_text, (summary.get("error"), meta.get("error")))))
    for error in errors:
        yield Note(text=error, is_warning=True)
    if standing.is_open:
        yield Note(text="It was still under way when this was made.", is_warning=True)
    for note in _list(summary.get("notes")):
        yield Note(text=_text(note))


def _state(meta: Mapping[str, Any], standing: Standing) -> str:
    state = _text(meta.get("status")) or UNKNOWN
    # As a run that is found after a crash.
    return "failed" if state == "running" and not standing.is_open else state


def _no_end(standing: Standing) -> str:
    return "it was still under way" if standing.is_open else UNKNOWN


def _plots(material: Material) -> Iterator[Part]:
    for figure in material.figures:
        count = max((len(line.low) for panel in figure.panels for line in panel.lines), default=0)
        is_outline = any(line.high is not None for panel in figure.panels for line in panel.lines)
        drawn = f"{count:,} points a curve"
        if is_outline:
            drawn = f"{count:,} stretches a curve, each from its lowest to its highest value"
        yield PlottedFigure(figure=figure, caption=f"{figure.title}. Drawn: {drawn}.")
    if material.undrawn:
        yield Note(text=f"Not drawn: {material.undrawn}")


def _units(
    units: Sequence[Mapping[str, Any]], meta: Mapping[str, Any], standing: Standing
) -> Iterator[Part]:
    if not units:
        return
    measured = _day(_ms(meta.get("ended_ms")) or _ms(meta.get("started_ms")) or standing.now_ms)
    today = _day(standing.now_ms)
    rows = []
    overdue = []
    for unit in units:
        due, remark = _due(unit, standing, measured, today)
        rows.append(
            (
                _name(unit),
                _joined(unit, "manufacturer", "model"),
                _text(unit.get("serial")) or UNKNOWN,
                _text(unit.get("firmware")) or UNKNOWN,
                f"{due} {remark}".strip(),
                _text(unit.get("location")),
                _joined(_dict(unit.get("profile")), "key", "version"),
            )
        )
        if remark.startswith("overdue"):
            overdue.append(
                f"{_name(unit)} was due for calibration on {due}, before this run ended."
            )
    columns = (
        "unit", "model", "serial number", "firmware", "calibration due", "place", "profile",
    )  # fmt: skip
    kept = [i for i in range(len(columns)) if any(row[i] for row in rows)]
    yield FactTable(
        columns=tuple(columns[i] for i in kept),
        rows=tuple(tuple(row[i] for i in kept) for row in rows),
    )
    for text in overdue:
        yield Note(text=text, is_warning=True)
    addresses = (
        (_name(unit), f"{_text(unit.get('id'))} ({_text(unit.get('idn'))})") for unit in units
    )
    yield FactList(rows=tuple(addresses))


def _due(
    unit: Mapping[str, Any], standing: Standing, measured: date, today: date
) -> tuple[str, str]:
    """The day, and what is to be said of it."""
    due = _due_of(unit, standing)
    if due is None:
        return UNKNOWN, ""
    said = "" if _date(unit.get("calibration_due")) else "(said after the run)"
    if due < measured:
        said = f"overdue {said}"
    elif due < today:
        said = f"in time; past by now {said}"
    return due.isoformat(), said.strip()


def _due_of(unit: Mapping[str, Any], standing: Standing) -> date | None:
    """As the recording says, or the bench file now."""
    return _date(unit.get("calibration_due")) or standing.dues.get(_text(unit.get("id")))


def _parameters(meta: Mapping[str, Any]) -> Iterator[Part]:
    details = _dict(meta.get("details"))
    measures = _dicts(details.get("measure"))
    units = _dicts(meta.get("instruments"))
    swept = next((_text(c.get("unit")) for c in _columns(meta) if c.get("name") == "set"), "")
    rows = [(name, _text(value)) for name, value in _dict(meta.get("parameters")).items()]
    rows += [
        (name, f"{_text(value)} {_of_sweep(name, swept)}".strip())
        for name, value in details.items()
        if value is not None and not (name == "measure" and measures)
    ]
    rows += [("measured", _measure(measure, units)) for measure in measures]
    if rows:
        yield FactList(rows=tuple(rows))


def _of_sweep(name: str, unit: str) -> str:
    """The unit of what a sweep was asked for."""
    if not unit or name not in SWEPT:
        return ""
    return f"{unit}/s" if name == "sweep_rate" else unit


def _measure(measure: Mapping[str, Any], units: Sequence[Mapping[str, Any]]) -> str:
    named = measure.get("instrument_id")
    name = _called(units, {"instrument_id": named})
    told = ", ".join(f"{k} {_text(v)}" for k, v in _dict(measure.get("parameters")).items())
    return f"{_text(measure.get('command_name'))} of {name}" + (f" ({told})" if told else "")


def _data(material: Material) -> Iterator[Part]:
    extract, meta = material.extract, material.meta
    units = {_text(c.get("name")): _text(c.get("unit")) for c in _columns(meta)}
    heads = tuple(_with_unit(name, units.get(name, "")) for name in extract.columns)
    if extract.columns:
        shown = (*extract.first, *extract.last)
        which, gap = _ends(extract)
        caption = "The one row." if extract.total == 1 else f"{which} rows."
        for begin in range(0, len(heads), MOST_COLUMNS):
            part = slice(begin, begin + MOST_COLUMNS)
            yield FactTable(
                columns=heads[part],
                rows=tuple(tuple(map(_clipped, row[part])) for row in shown),
                caption=caption if begin == 0 else "Further columns of the same rows.",
                numbers=frozenset(range(len(heads[part]))),
                gap=gap,
            )
    told = _dict(meta.get("statistics"))
    rows = tuple(
        (
            _with_unit(name, units.get(name, "")),
            *(_number(_dict(found).get(key)) for key in ("n", "mean", "std", "min", "max")),
        )
        for name, found in told.items()
        if _dict(found) and name != "timestamp_ms"
    )
    if rows:
        yield FactTable(
            columns=("column", "numbers", "mean", "standard deviation", "lowest", "highest"),
            rows=rows,
            caption="Over all rows.",
            numbers=frozenset(range(1, 6)),
        )


def _settings(units: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    for unit in units:
        by_name: dict[str, list[str]] = {}
        for row in _dicts(unit.get("settings"))[:MOST_ROWS]:
            which = ", ".join(f"{k} {_text(v)}" for k, v in _dict(row.get("for")).items())
            value = row.get("value")
            value = ("on" if value else "off") if isinstance(value, bool) else _text(value)
            value = f"{value} {_text(row.get('unit'))}".strip()
            if "value" not in row:
                value = f"not read ({_text(row.get('error'))})"
            told = f"{which}: {value}" if which else value
            by_name.setdefault(_text(row.get("name")), []).append(told)
        if by_name:
            rows = tuple((name, _clipped("; ".join(told))) for name, told in by_name.items())
            yield FactTable(columns=("setting", "value"), rows=rows, caption=_name(unit))


def _limits(units: Sequence[Mapping[str, Any]], meta: Mapping[str, Any]) -> Iterator[Part]:
    """Those of what the run used first."""
    measures = _dicts(_dict(meta.get("details")).get("measure"))
    used = {_text(meta.get("command_name")), *(_text(m.get("command_name")) for m in measures)}
    for unit in units:
        commands = _dict(unit.get("limits"))
        names = sorted(commands, key=lambda name: name not in used)[:MOST_ROWS]
        rows = tuple(
            (name, "; ".join(f"{p}: {_bounds(_dict(b))}" for p, b in _dict(commands[name]).items()))
            for name in names
        )
        if rows:
            yield FactTable(
                columns=("command", "allowed"),
                rows=rows,
                caption=f"{_name(unit)}: what the profile allows and its owner narrowed",
            )


def _bounds(bounds: Mapping[str, Any]) -> str:
    if "options" in bounds:
        return _clipped(", ".join(map(_text, _list(bounds["options"]))))
    low, high = bounds.get("min"), bounds.get("max")
    if low is None:
        return f"up to {_number(high)}"
    return f"from {_number(low)}" if high is None else f"{_number(low)} to {_number(high)}"


def _evidence(material: Material, standing: Standing) -> Iterator[Part]:
    meta, record = material.meta, material.record
    yield FactTable(
        columns=("file", "bytes", "SHA-256"),
        rows=tuple((f.path.name, f"{f.size:,}", f.sha256) for f in material.files),
        caption=f"The recorded data in {material.path}, as it was when this was made",
        numbers=frozenset({1}),
        codes=frozenset({2}),
    )
    yield FactList(
        rows=(
            ("Recorded by", f"edged {_text(meta.get('edged_version')) or UNKNOWN}"),
            ("Reported by", f"edged {standing.version}"),
            ("Computer", _text(meta.get("host")) or UNKNOWN),
            ("Its clock", _clock(_dict(meta.get("clock")))),
        )
    )
    if record.total:
        yield from _record(record)


def _record(record: RunRows) -> Iterator[Part]:
    which, gap = _ends(record)
    yield FactTable(
        columns=("row", "when (UTC)", "what", "outcome", "hash (SHA-256)"),
        rows=tuple(
            (str(row.seq), _utc(row.time_ms), _what(row), row.outcome, row.hash)
            for row in (*record.first, *record.last)
        ),
        caption=f"{which} rows of the audit log that belong to the run",
        numbers=frozenset({0}),
        codes=frozenset({1, 4}),
        gap=gap,
    )
    yield FactList(
        rows=(
            ("All of these rows", f"{record.digest} (SHA-256 over their hashes, a line each)"),
            ("Newest row then", f"{record.head_seq:,}: {record.head_hash}"),
        )
    )
    yield Note(
        text="Each hash is over its row and the hash before it: `edged audit verify` walks the "
        "chain, and `edged audit list` shows the rows. `sha256sum` tells the hash of a file."
    )


def _what(row: RunRow) -> str:
    what = " ".join(filter(None, (row.tool, row.command if row.command != row.tool else "")))
    return f"{what} (intent)" if row.phase == "intent" else what


def _ends(rows: Extract | RunRows) -> tuple[str, int]:
    """Which rows of a table stand in the report, in words; and before which some are left out."""
    if rows.total <= len(rows.first) + len(rows.last):
        return f"All {rows.total:,}", -1
    first, last = len(rows.first), len(rows.last)
    return f"The first {first} and the last {last} of {rows.total:,}", first


def _missing(
    material: Material, units: Sequence[Mapping[str, Any]], standing: Standing
) -> Iterator[str]:
    """Plainly, what somebody would look for in vain."""
    meta, record = material.meta, material.record
    if not meta:
        yield "Its meta.json cannot be read: who measured, when, and with what is lost."
        return
    begun, ended = span_of(meta)
    if _text(meta.get("status")) == "running" and not standing.is_open:
        yield (
            "The daemon that recorded it ended before it did: what is here is what was on the "
            "disk by then."
        )
    if not ended and not standing.is_open:
        yield "When it ended."
    if ended is not None and ended < begun:
        yield "How long it took: the computer's clock was set back during the run."
    if not units:
        yield "Which units it was measured with."
    for unit in units:
        yield from _missing_of(unit, standing)
    if not _dict(meta.get("statistics")) and material.extract.total:
        yield "Statistics of its columns: none were written down."
    if _dict(meta.get("clock")).get("is_synchronized") is None:
        yield "Whether the computer's clock was kept right."
    if material.unread:
        yield f"The rows of the audit log: {material.unread}"
    elif not record.is_whole:
        yield "Whether the audit log has more rows of it: it is too long to be searched whole."
    elif not record.total:
        yield "The rows of the audit log: there are none of it (any more)."


def _missing_of(unit: Mapping[str, Any], standing: Standing) -> Iterator[str]:
    name = _name(unit)
    for key in ("serial number", "firmware"):
        if not _text(unit.get(key.split()[0])):
            yield f"The {key} of {name}: it has none."
    if _due_of(unit, standing) is None:
        yield f"When {name} is due for calibration: bench.yaml has no calibration_due for it."
    if unit.get("settings") is None:
        yield f"The settings of {name}: they were not read while the run lasted."


def _who(caller: Mapping[str, Any]) -> str:
    who = _text(caller.get("who")) or UNKNOWN
    more = [
        f"{name} {said}"
        for key, name in INTRODUCED.items()
        if (said := _text(caller.get(key))) and said not in who
    ]
    return f"{who} ({', '.join(more)})" if more else who


def _clock(clock: Mapping[str, Any]) -> str:
    source = _text(clock.get("source"))
    match clock.get("is_synchronized"):
        case True:
            return f"synchronized when the run began ({source})"
        case False:
            return f"NOT synchronized when the run began ({source}): times may be wrong"
        case _:
            return "not known whether it was synchronized"


def _called(units: Sequence[Mapping[str, Any]], meta: Mapping[str, Any]) -> str:
    named = _text(meta.get("instrument_id"))
    found = next((unit for unit in units if _text(unit.get("id")) == named), None)
    return _name(found) if found is not None else named or UNKNOWN


def _joined(told: Mapping[str, Any], *keys: str) -> str:
    return " ".join(filter(None, (_text(told.get(key)) for key in keys)))


def _name(unit: Mapping[str, Any]) -> str:
    return _text(unit.get("alias")) or _text(unit.get("id")) or UNKNOWN


def _both(wall_ms: int | None, zone: tzinfo | None) -> str:
    """In UTC, and as the clock on the wall showed it."""
    at = _at(wall_ms)
    if at is None:
        return UNKNOWN
    local = at.astimezone(zone)
    offset = local.strftime("%z")
    wall = f"{local.isoformat(sep=' ', timespec='seconds')[:19]} {local.tzname() or ''}".strip()
    return f"{_utc(wall_ms)} UTC · {wall} (UTC{offset[:3]}:{offset[3:5]})"


def _utc(wall_ms: int | None) -> str:
    at = _at(wall_ms)
    return UNKNOWN if at is None else at.isoformat(sep=" ", timespec="milliseconds")[:23]


def _day(wall_ms: int) -> date:
    at = _at(wall_ms)
    return date.min if at is None else at.date()


def _at(wall_ms: int | None) -> datetime | None:
    """``None`` where no calendar has it."""
    try:
        return None if wall_ms is None else datetime.fromtimestamp(wall_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min {rest:02} s" if hours else f"{minutes} min {rest:02} s"


def _columns(meta: Mapping[str, Any]) -> list[dict[str, Any]]:
    return _dicts(meta.get("columns"))


def _with_unit(name: str, unit: str) -> str:
    return f"{name} ({unit})" if unit else name


def _text(value: Any) -> str:
    """Whatever JSON holds, for people; what is not there is empty."""
    match value:
        case None:
            return ""
        case str():
            return _clipped(value)
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return _number(value)
        case _:
            return _clipped(json.dumps(value, ensure_ascii=False))


def _number(value: Any) -> str:
    """A number; whatever else it is, as ``_text``."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _text(value)
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _clipped(text: str) -> str:
    if len(text) <= MOST_TEXT:
        return text
    return f"{text[:MOST_TEXT]}… ({len(text):,} characters, cut)"


def _ms(value: Any) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 < value < MOST_MS else None


def _date(value: Any) -> date | None:
    try:
        return date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in _list(value) if isinstance(item, dict)]


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
