"""Reading recordings back: the list, one of them, and its data in the form that somebody wants.

Everything here reads files and belongs on a thread (``RunRegistry.read``). A recording that is
still being written can be read too: its last whole second is there.
"""

from __future__ import annotations

import contextlib
import csv
import difflib
import functools
import io
import json
import math
import os
import re
import sys
from array import array
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from edged.actions.caller import Caller, Route
from edged.csv_cells import unguarded
from edged.errors import ErrorCode, Failed, Invalid, NotFound
from edged.files import open_bytes, read_text
from edged.record import record
from edged.runs.points import as_base64
from edged.runs.recordings.checks import (
    Check,
    UnitResult,
    UnitVerdict,
    check_of,
    unit_results,
    valid_checks,
    worst,
)
from edged.runs.recordings.data_nc import netcdf_bytes
from edged.runs.recordings.files import (
    CHECKS_FILE,
    META_FILE,
    NC_FILE,
    ROWS_FILE,
    read_dimensions,
    table_file,
)
from edged.runs.recordings.formats import (
    archive_bytes,
    archives_in,
    member_bytes,
    missing_end,
    npy_bytes,
    text_npy_bytes,
)
from edged.runs.recordings.table import (
    PageWish,
    cell_value,
    check_size,
    read_page,
    reading,
    rows_of,
    stats_of,
)
from edged.runs.run_head import ELAPSED, RunKind
from edged.yaml.tree import Scalar

FORMATS: Final = ("csv", "jsonl", "npz", "nc", "junit", "openhtf")
MAX_ROWS: Final = 10_000
MOST_VALUES: Final = 2_000
"""Of a loop in a view: a picture has no more columns."""
MOST_LOGGED: Final = 500
MOST_TESTED: Final = 200
MOST_NAMES: Final = 1_000
"""Recordings among which one is looked for that somebody may have meant."""
CHUNK_BYTES: Final = 1024 * 1024
"""Of one answer of ``export_run``; a longer recording comes in several."""
MOST_PLACES: Final = 16_384
"""Recordings whose places in the list are remembered, in some 8 MB; a day of 2,000 costs a page of
20 no more than 20 files then. Of a day with more than this each is read for every list."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
DATE: Final = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"
SHOWN: Final = (
    "run_id", "kind", "status", "started", "ended", "instrument_id", "command_name", "rows",
    "arrays", "error", "started_ms", "columns", "caller",
)  # fmt: skip


def list_runs(
    root: Path,
    limit: int,
    kind: str = "",
    instrument: str = "",
    only_subject: str | None = None,
) -> list[dict[str, Any]]:
    """The newest recordings first: {run_id, kind, status, started, …, path}.

    Args:
        kind: sweep, stream or sequence; empty: all.
        instrument: a part of an instrument's id or alias; empty: all.
        only_subject: the subject of the relay that began them; ``None``: all.
    """
    found: list[dict[str, Any]] = []
    for date in sorted(root.glob(DATE), reverse=True):
        for directory in _newest_first(date, kind, instrument, only_subject):
            if len(found) >= limit:
                return found
            if meta := read_meta(directory):
                shown = {name: meta.get(name) for name in SHOWN}
                found.append({**shown, "who": _who(meta), "path": str(directory)})
    return found


def _newest_first(date: Path, kind: str, instrument: str, only_subject: str | None) -> list[Path]:
    """The recordings of a day that fit."""
    text = instrument.casefold()
    fitting: list[tuple[int, str]] = []
    with contextlib.suppress(OSError), os.scandir(date) as entries:
        for entry in entries:
            with contextlib.suppress(OSError, ValueError):
                place = _place_of(entry.path)
                is_wanted = only_subject is None or (only_subject and only_subject == place.subject)
                if (
                    is_wanted
                    and kind in ("", place.kind)
                    and any(text in name for name in place.names)
                ):
                    fitting.append((place.started_ms, entry.name))
    fitting.sort(key=lambda item: item[0], reverse=True)
    return [date / name for _, name in fitting]


@record(kw_only=False)
class _Place:
    """What decides whether and where a recording stands in a list.

    Attributes:
        names: of its units.
        subject: of who began it over the relay, else empty.
    """

    started_ms: int
    kind: str
    names: tuple[str, ...]
    subject: str


@functools.lru_cache(maxsize=MOST_PLACES)
def _place_of(directory: str) -> _Place:
    """Remembered, for it stands in meta.json from the beginning on and never changes.

    Raises:
        OSError, ValueError: there is no meta.json, or it is none; asked anew the next time.
    """
    meta = json.loads(read_text(Path(directory, META_FILE)))
    if not isinstance(meta, dict):
        raise ValueError(directory)  # noqa: TRY004 - caught here, with what json itself raises
    units = meta.get("instruments") or [{"id": meta.get("instrument_id")}]
    names = [str(unit.get(key, "")) for unit in units for key in ("id", "alias")]
    return _Place(
        started_ms=meta.get("started_ms") or 0,
        kind=str(meta.get("kind")),
        names=tuple(sys.intern(name.casefold()) for name in names),
        subject=sys.intern(_subject_of(meta)),
    )


def _subject_of(meta: Mapping[str, Any]) -> str:
    """The subject of who began a recording over the relay, else empty."""
    caller = Caller.from_json(meta.get("caller"))
    return caller.subject if caller.route is Route.RELAY else ""


def check_own_run(root: Path, run_id: str, only_subject: str) -> None:
    """Let a caller of the relay read a recording of its own subject.

    Raises:
        NotFound: UNKNOWN_RUN; there is none, or it is somebody else's, which is not said.
    """
    if NAME.fullmatch(run_id) and only_subject:
        for meta in root.glob(f"{DATE}/{run_id}/{META_FILE}"):
            if _subject_of(read_meta(meta.parent)) == only_subject:
                return
    raise _unknown_run(run_id)


def _who(meta: Mapping[str, Any]) -> str | None:
    """Who started it; of a recording of an older edged its address, where there is one."""
    caller = meta.get("caller")
    told = caller.get("who") or caller.get("remote") if isinstance(caller, dict) else None
    return str(told) if told else None


def show_run(root: Path, run_id: str, rows: int) -> dict[str, Any]:
    """{meta, path, columns, rows}: a recording's meta.json and its last rows.

    Raises:
        NotFound: UNKNOWN_RUN.
    """
    directory = find_run(root, run_id)
    meta = read_meta(directory)
    columns, table = rows_of(directory / ROWS_FILE)
    last = deque(table, maxlen=rows) if rows else ()
    return {
        "meta": meta,
        "path": str(directory),
        "columns": columns,
        "rows": [[cell_value(cell) for cell in row] for row in last],
        "archives": sorted(path.name for path in archives_in(directory)),
    }


def page_of_run(root: Path, run_id: str, wish: PageWish) -> dict[str, Any]:
    """{meta, path, columns, units, rows, total_rows, statistics}: some rows of a recording.

    ``statistics`` are those of all rows, as meta.json has them; ``None`` while it is written.

    Raises:
        NotFound: UNKNOWN_RUN.
        Invalid: no such column, or no such table.
        Failed: RECORDING_FAILED, it cannot be read.
    """
    directory = find_run(root, run_id)
    meta = read_meta(directory)
    tables = meta.get("tables") or {}
    statistics = meta.get("statistics")
    if wish.table:
        path = _table(directory, wish.table, tables)
        columns, statistics = tables.get(wish.table) or (), {}
    else:
        path, columns = directory / ROWS_FILE, meta.get("columns", ())
    page = read_page(path, wish)
    units = {column.get("name"): column.get("unit", "") for column in columns}
    if statistics is None and meta.get("status") != "running":
        # Recorded by a version that did not write them down.
        statistics = stats_of(path)
    return {
        "meta": meta,
        "path": str(directory),
        "columns": list(page.columns),
        "units": [units.get(name, "") for name in page.columns],
        "rows": page.rows,
        "total_rows": page.total,
        "statistics": statistics,
    }


def tables_of(meta: Mapping[str, Any]) -> list[str]:
    """The names of the further tables of an experiment: its logs, and its checks."""
    is_experiment = meta.get("kind") == RunKind.EXPERIMENT
    return [*(meta.get("tables") or {}), *["checks"] * is_experiment]


def _table(directory: Path, name: str, tables: Mapping[str, Any]) -> Path:
    path = directory / table_file(name)
    if name not in (*tables, "checks") or not path.exists():
        known = [one for one in (*tables, "checks") if (directory / table_file(one)).exists()]
        raise Invalid(
            f"The run has no table {name[:100]!r}; it has {', '.join(known) or 'none'}.",
            data={"parameter": "table", "value": name[:100]},
            remedy="Leave table out for the rows of the run.",
        )
    return path


def view_of_run(root: Path, run_id: str) -> dict[str, Any]:
    """What a view of an experiment shows beside its rows.

    Returns {verdict, dimensions, plots, logs, tested}. ``dimensions`` are the loops, the outermost
    first: {name, unit, values}. ``logs`` are the tables of ``log`` that a plot draws: {columns,
    units, rows}, each so many-th row where there are many.
    ``tested`` are the units under test, the newest ones: {unit, try, verdict, failed}. All are
    empty for other runs.

    Raises:
        NotFound: UNKNOWN_RUN.
        Failed: RECORDING_FAILED, it cannot be read.
    """
    directory = find_run(root, run_id)
    meta = read_meta(directory)
    plots = (meta.get("details") or {}).get("plots") or []
    tables = meta.get("tables") or {}
    with reading(directory):
        dimensions = read_dimensions(directory)
    found = _results(directory, meta)
    results = [one for one in found if one.unit]
    # Of a unit at its last try, as far as it has come to one.
    so_far = worst(tuple({one.unit: one.verdict for one in found}.values()))
    return {
        "verdict": (meta.get("summary") or {}).get("verdict")
        or (so_far.value if so_far is not UnitVerdict.NONE else None),
        "dimensions": [
            {"name": one.name, "unit": one.unit, "values": _few(one.values)} for one in dimensions
        ],
        "plots": plots,
        "logs": {
            name: _sparse(directory / table_file(name), columns)
            for name, columns in tables.items()
            if any(plot.get("line") == name for plot in plots)
        },
        "tested": [
            {
                "unit": one.unit,
                "try": one.try_number,
                "verdict": one.verdict.value,
                "failed": [
                    check.name
                    for check in one.checks
                    if check.verdict in {UnitVerdict.FAIL, UnitVerdict.ERROR}
                ],
            }
            for one in results[-MOST_TESTED:]
        ],
    }


def _few(values: tuple[Scalar, ...] | None) -> tuple[Scalar, ...] | None:
    return values if values is not None and len(values) <= MOST_VALUES else None


def _sparse(path: Path, columns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows of a table, evenly spaced; none of one that has not begun."""
    if not path.exists():
        return {"columns": [], "units": [], "rows": []}
    total = read_page(path, PageWish(first=0, most=0)).total
    every = max(1, math.ceil(total / MOST_LOGGED))
    page = read_page(path, PageWish(first=0, most=MOST_LOGGED, every=every))
    units = {column["name"]: column["unit"] for column in columns} | {ELAPSED.name: ELAPSED.unit}
    return {
        "columns": list(page.columns),
        "units": [units.get(name, "") for name in page.columns],
        "rows": page.rows,
    }


def export_run(root: Path, run_id: str, form: str, offset: int = 0) -> dict[str, Any]:
    """A piece of a recording: {run_id, format, name, encoding, content, next_offset}.

    Args:
        form: csv and jsonl give the rows as text; npz the waveforms, or the table if there are
            none, in base64; nc the rows as netCDF, in base64; junit and openhtf the verdicts of
            an experiment, as one XML file and one JSON object for each unit under test.
        offset: ``next_offset`` of the piece before; 0 for the first.

    Raises:
        NotFound: UNKNOWN_RUN.
        Invalid: no such format, or no checks that it could have.
        Failed: RECORDING_FAILED, it cannot be read.
    """
    directory = find_run(root, run_id)
    match form:
        case "csv" | "jsonl":
            content, following = _text(directory / ROWS_FILE, form, offset)
            name, encoding = f"{run_id}.{form}", "utf-8"
        case "npz":
            with reading(directory):
                name, raw, following = _archive(directory, run_id, offset)
            content, encoding = as_base64(raw), "base64"
        case "nc":
            raw, following = _netcdf(directory, offset)
            name, content, encoding = f"{run_id}.nc", as_base64(raw), "base64"
        case "junit":
            from edged.runs.recordings.unit_reports import junit  # with xml; for those who export

            text = junit(*_units(root, run_id))
            content, encoding = text[offset : offset + CHUNK_BYTES], "utf-8"
            following = offset + len(content) if offset + len(content) < len(text) else None
            name = f"{run_id}.xml"
        case "openhtf":
            from edged.runs.recordings.unit_reports import openhtf

            meta, results = _units(root, run_id)
            if offset >= len(results):
                raise Invalid(f"{run_id} has {len(results)} units.", data={"offset": offset})
            content = f"{json.dumps(openhtf(meta, results[offset]))}\n"
            number, encoding = offset + 1, "utf-8"
            following = number if number < len(results) else None
            name = f"{run_id}.json" if number == 1 else f"{run_id}-{number}.json"
        case _:
            raise Invalid(
                f"There is no format {form[:40]!r}; there are {', '.join(FORMATS)}.",
                data={"parameter": "format", "value": form[:40]},
            )
    return {
        "run_id": run_id,
        "format": form,
        "name": name,
        "encoding": encoding,
        "content": content,
        "next_offset": following,
    }


def _netcdf(directory: Path, offset: int) -> tuple[bytes, int | None]:
    """A piece of data.nc: as it is on the disk, or made from data.csv."""
    path = directory / NC_FILE
    if path.exists():
        with reading(path), open_bytes(path) as file:
            file.seek(offset)
            piece = file.read(CHUNK_BYTES)
    else:
        with reading(directory):
            size = (directory / ROWS_FILE).stat().st_size
        piece = netcdf_bytes(directory, size)[offset : offset + CHUNK_BYTES]
    return piece, offset + len(piece) if len(piece) == CHUNK_BYTES else None


def verdicts_of_run(root: Path, run_id: str) -> tuple[dict[str, Any], tuple[UnitResult, ...]]:
    """meta.json, and the units under test with their checks; none where it has no checks.

    Raises:
        NotFound: UNKNOWN_RUN.
        Failed: RECORDING_FAILED, they cannot be read.
    """
    directory = find_run(root, run_id)
    meta = read_meta(directory)
    return meta, _results(directory, meta)


def _units(root: Path, run_id: str) -> tuple[dict[str, Any], tuple[UnitResult, ...]]:
    meta, results = verdicts_of_run(root, run_id)
    if not any(result.checks for result in results):
        raise Invalid(
            f"{run_id} has no checks, so it has no verdicts.",
            data={"run_id": run_id},
            remedy="Export csv, jsonl, npz or nc.",
        )
    return meta, results


def _results(directory: Path, meta: Mapping[str, Any]) -> tuple[UnitResult, ...]:
    checks = valid_checks_of(checks_of_run(directory), meta)
    return unit_results(checks, meta.get("checks") or ())


def valid_checks_of(checks: Sequence[Check], meta: Mapping[str, Any]) -> tuple[Check, ...]:
    """Of the checks of an experiment those that count; see ``valid_checks``."""
    repeated = [resume["checks"] for resume in meta.get("resumes", ()) if "checks" in resume]
    return valid_checks(checks, repeated)


def checks_of_run(directory: Path) -> tuple[Check, ...]:
    """The rows of an experiment's checks.csv.

    Raises:
        Failed: RECORDING_FAILED, they cannot be read.
    """
    path = directory / CHECKS_FILE
    checks: list[Check] = []
    if path.exists():
        names, rows = rows_of(path)
        try:
            checks = [check_of(dict(zip(names, row, strict=True))) for row in rows]
        except (ValueError, KeyError) as strange:
            raise Failed(
                f"{path} has a row that edged has not written: {strange}.",
                code=ErrorCode.RECORDING_FAILED,
            ) from strange
    return tuple(checks)


def find_run(root: Path, run_id: str) -> Path:
    """The directory of a recording.

    Raises:
        NotFound: UNKNOWN_RUN.
    """
    if NAME.fullmatch(run_id):
        # meta.json is written last of what begins a recording: without it there is none yet.
        for meta in root.glob(f"{DATE}/{run_id}/{META_FILE}"):
            return meta.parent
    raise _unknown_run(run_id, _nearest(root, run_id))


def _unknown_run(run_id: str, near: str = "") -> NotFound:
    meant = f"Did you mean {near}? " if near else ""
    return NotFound(
        f"There is no recording {run_id[:100]!r}.",
        code=ErrorCode.UNKNOWN_RUN,
        data={"run_id": run_id[:100], **({"nearest": near} if near else {})},
        remedy=f"{meant}The list of runs has them all: bench__runs without run_id.",
    )


def _nearest(root: Path, run_id: str) -> str:
    """The recording of the newest whose id is most like this one; empty where none is."""
    names: list[str] = []
    for date in sorted(root.glob(DATE), reverse=True):
        with contextlib.suppress(OSError):
            names += islice((path.name for path in date.iterdir()), MOST_NAMES - len(names))
        if len(names) >= MOST_NAMES:
            break
    close = difflib.get_close_matches(run_id[:64], names, n=1, cutoff=0.6)
    return close[0] if close else ""


def read_meta(directory: Path) -> dict[str, Any]:
    """A recording's meta.json; empty where it cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        meta = json.loads(read_text(directory / META_FILE))
        return meta if isinstance(meta, dict) else {}
    return {}


def _text(path: Path, form: str, offset: int) -> tuple[str, int | None]:
    """Whole lines from ``offset``, and where the next ones begin."""
    with reading(path), open_bytes(path) as file:
        head = file.readline()
        start = max(offset, 0 if form == "csv" else len(head))
        file.seek(start)
        data = file.read(CHUNK_BYTES)
        if data and not data.endswith(b"\n"):
            data += file.readline()
    following = start + len(data) if data else None
    text = data[: data.rfind(b"\n") + 1].decode("utf-8", "replace")
    if form == "csv":
        return text, following
    names = next(csv.reader([head.decode("utf-8", "replace")]), [])
    rows = csv.reader(io.StringIO(text))
    lines = (
        json.dumps(dict(zip(names, map(cell_value, row), strict=False)), separators=(",", ":"))
        for row in rows
    )
    return "".join(f"{line}\n" for line in lines), following


def archives_of(root: Path, run_id: str) -> int:
    """In how many archives the waveforms of a recording lie.

    Raises:
        NotFound: UNKNOWN_RUN.
    """
    return len(archives_in(find_run(root, run_id)))


def _archive(directory: Path, run_id: str, offset: int) -> tuple[str, bytes, int | None]:
    """A piece of the recording's archives: ``offset`` counts through all of them."""
    archives = archives_in(directory)
    if not archives:
        data = _table_archive(directory)
        return f"{run_id}.npz", data, None
    begins = ends = 0
    for number, path in enumerate(archives, 1):
        begins, ends = ends, ends + path.stat().st_size
        if offset < ends:
            with open_bytes(path) as file:
                file.seek(offset - begins)
                piece = file.read(CHUNK_BYTES)
            return _archive_name(run_id, number), piece, offset + len(piece)
    # The copy of one that is being written ends here, as if its run had.
    if end := missing_end(archives[-1], offset - begins):
        return _archive_name(run_id, len(archives)), end, None
    return f"{run_id}.npz", b"", None


def _archive_name(run_id: str, number: int) -> str:
    return f"{run_id}.npz" if number == 1 else f"{run_id}-{number}.npz"


def _table_archive(directory: Path) -> bytes:
    """The rows as one array a column: numbers where every cell is one (empty is NaN), else text."""
    return archive_bytes(
        member_bytes(f"{_ascii(name)}.npy", _column(cells)) for name, cells in _columns(directory)
    )


def _columns(directory: Path) -> list[tuple[str, list[str]]]:
    """Every column with its name and all its cells.

    Raises:
        Failed: RECORDING_FAILED, there are too many, or they cannot be read.
    """
    check_size((directory / ROWS_FILE).stat().st_size)
    names, rows = rows_of(directory / ROWS_FILE)
    columns: list[list[str]] = [[] for _ in names]
    for row in rows:
        if len(row) == len(names):
            for column, cell in zip(columns, row, strict=True):
                column.append(unguarded(cell))
    return list(zip(names, columns, strict=True))


def _column(cells: list[str]) -> bytes:
    try:
        numbers = array("d", [float(cell) if cell else math.nan for cell in cells])
    except ValueError:
        return text_npy_bytes(cells)
    if sys.byteorder != "little":
        numbers.byteswap()
    return npy_bytes("d", numbers.tobytes())


def _ascii(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name) or "column"
