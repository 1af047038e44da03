"""``edged runs list | show | export | report``: what sweeps, streams and tables have recorded."""

from __future__ import annotations

import argparse
import base64
import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

from edged.cli.shared import output
from edged.cli.shared.options import add_engine_options, connect
from edged.csv_cells import unguarded
from edged.errors import ErrorCode, Failed, Invalid, NotFound
from edged.host import ExitStatus
from edged.surfaces.rpc.client import RpcClient

COLUMNS: Final = {
    "run_id": "run",
    "status": "status",
    "started": "started",
    "command_name": "command",
    "instrument": "instrument",
    "rows": "rows",
    "who": "who",
}
STATISTICS: Final = {name: name for name in ("column", "unit", "mean", "std", "min", "max")}
TIME_COLUMNS: Final = ("t", "timestamp_ms", "elapsed_s")
"""As in ``runs.recordings.figures``, which a light verb does not load."""
PARQUET: Final = "parquet"
FORMATS: Final = ("csv", "jsonl", "npz", "nc", "junit", "openhtf", PARQUET)
LAST: Final = "last"
WHICH: Final = "its id, or: last, for the newest"
READ_TIMEOUT_S: Final = 120.0
REPORT_TIMEOUT_S: Final = 330.0


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged runs", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    listing = verbs.add_parser("list", help="the newest recordings first")
    listing.add_argument("--limit", type=int, default=50, help="at most this many (50)")
    listing.add_argument(
        "--kind", choices=("sweep", "stream", "sequence", "experiment"), default=""
    )
    listing.add_argument("--instrument", default="", help="a part of its id or alias")
    showing = verbs.add_parser("show", help="one recording and its last rows")
    showing.add_argument("run_id", help=WHICH)
    showing.add_argument("--rows", type=int, default=10, help="at most this many rows (10)")
    showing.add_argument("--all", action="store_true", help="everything that was noted of it")
    showing.add_argument(
        "--png", type=Path, metavar="FILE", help="draw it into FILE (needs the extra edged[plot])"
    )
    showing.add_argument("--x", metavar="COLUMN", default="", help="with --png: along the bottom")
    showing.add_argument(
        "--y", metavar="COLUMN", action="append", default=[], help="with --png: draw this; repeat"
    )
    export = verbs.add_parser("export", help="its data as a file")
    export.add_argument("run_id", help=WHICH)
    export.add_argument("--format", choices=FORMATS, default="csv")
    export.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="the file to write (default, or -: standard output)",
    )
    report = verbs.add_parser(
        "report", help="a report of one recording: all that is known, in one file"
    )
    report.add_argument("run_id", help=WHICH)
    report.add_argument("--html", action="store_true", help="as HTML, which is the only format")
    report.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default="",
        help="the file to write (RUN.html; - prints it)",
    )
    report.add_argument("--force", action="store_true", help="overwrite an existing file")
    for verb in (listing, showing, export, report):
        add_engine_options(verb)
    options = parser.parse_args(arguments)
    client = connect(options)
    if options.verb != "list" and options.run_id == LAST:
        options.run_id = _last(client)
    match options.verb:
        case "list":
            return _list(client, options)
        case "show":
            return _show(client, options)
        case "report":
            return _report(client, options)
        case _:
            return _export(client, options)


def _list(client: RpcClient, options: argparse.Namespace) -> int:
    wanted = {"limit": options.limit, "kind": options.kind, "instrument": options.instrument}
    found = client.call("runs.list", wanted)["runs"]
    return output.put_rows(client, options, found, COLUMNS, _row, "nothing recorded yet")


def _last(client: RpcClient) -> str:
    """The id of the newest recording.

    Raises:
        NotFound: UNKNOWN_RUN, there is none.
    """
    found = client.call("runs.list", {"limit": 1, "kind": "", "instrument": ""})["runs"]
    if not found:
        raise NotFound("Nothing is recorded yet.", code=ErrorCode.UNKNOWN_RUN)
    return str(found[0]["run_id"])


def _show(client: RpcClient, options: argparse.Namespace) -> int:
    if options.png is not None:
        return _draw(client, options)
    shown = client.call("runs.show", {"run_id": options.run_id, "rows": options.rows})
    if options.json:
        output.print_json(shown)
        return ExitStatus.OK
    meta, name = shown["meta"], output.namer(client)
    if options.all:
        output.print_fields({**_meta(meta, name), "path": shown["path"]})
    else:
        output.print_fields({**_head(meta, name), "path": shown["path"]})
        if statistics := _statistics(meta):
            print()
            output.print_table(statistics, STATISTICS)
    if shown["rows"]:
        print()
        columns = shown["columns"]
        rows = [dict(zip(columns, row, strict=False)) for row in shown["rows"]]
        output.print_table(rows, {name: name for name in columns})
    return ExitStatus.OK


def _row(run: Mapping[str, Any], name: output.Name) -> dict[str, Any]:
    started = output.local_time(run["started_ms"])
    return {**run, "instrument": name(run["instrument_id"]), "started": started}


def _head(meta: Mapping[str, Any], name: output.Name) -> dict[str, Any]:
    """What a person asks of a recording first: what it was, when, by whom, how it ended."""
    summary = meta.get("summary", {})
    given = (f"{key}={value}" for key, value in meta["parameters"].items())
    reason = summary.get("reason") or summary.get("error") or meta.get("error")
    told = {
        "run": meta["run_id"],
        "status": f"{meta['status']} ({reason})" if reason else meta["status"],
        "started": output.local_time(meta["started_ms"]),
        "ended": output.local_time(meta.get("ended_ms")),
        "instrument": name(meta["instrument_id"]),
        "command": " ".join((meta["command_name"], *given)),
        "who": meta["caller"]["who"],
        "rows": meta["rows"],
        "notes": "; ".join(summary.get("notes") or ()),
    }
    return {key: value for key, value in told.items() if value not in ("", None)}


def _statistics(meta: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of each column that is no time; none yet while it runs."""
    units = {column["name"]: column["unit"] for column in meta["columns"]}
    return [
        {
            "column": column,
            "unit": units.get(column, ""),
            **{key: _rounded(found)[key] for key in ("mean", "std", "min", "max")},
        }
        for column, found in meta.get("statistics", {}).items()
        if column not in TIME_COLUMNS
    ]


def _rounded(found: Mapping[str, Any]) -> dict[str, Any]:
    """What is computed of a column, with as many digits as people read."""
    return {
        key: f"{value:.6g}" if isinstance(value, float) else value for key, value in found.items()
    }


def _meta(meta: Mapping[str, Any], name: output.Name) -> dict[str, Any]:
    """The head of a recording in a person's words: each time once, the instrument by its name."""
    told: dict[str, Any] = {}
    for key, value in meta.items():
        match key:
            case "instruments" | "started_ms" | "ended_ms":
                continue
            case "started" | "ended":
                told[key] = output.local_time(meta.get(f"{key}_ms"))
            case "instrument_id":
                told["instrument"] = name(value)
            case "statistics":
                told[key] = {column: _rounded(found) for column, found in value.items()}
            case _:
                told[key] = value
    return told


def _export(client: RpcClient, options: argparse.Namespace) -> int:
    path = options.output if options.output and str(options.output) != "-" else None
    pieces = _pieces(client, options.run_id, options.format)
    if path is None:
        for _, piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return ExitStatus.OK
    files: dict[str, BinaryIO] = {}
    try:
        for name, piece in pieces:
            if name not in files:
                files[name] = _place(path, options.run_id, name).open("wb")
            files[name].write(piece)
    except OSError as refused:
        raise _unwritable(path, refused) from refused
    finally:
        for file in files.values():
            file.close()
    print(f"{options.run_id} → {', '.join(file.name for file in files.values())}", file=sys.stderr)
    return ExitStatus.OK


def _draw(client: RpcClient, options: argparse.Namespace) -> int:
    run_id, path = options.run_id, options.png
    wanted = {"run_id": run_id, "x": options.x, "y": options.y}
    picture = client.call("runs.draw", wanted, timeout_s=READ_TIMEOUT_S)
    try:
        path.write_bytes(base64.b64decode(picture["content"]))
    except OSError as refused:
        raise _unwritable(path, refused) from refused
    print(f"{run_id} → {path}", file=sys.stderr)
    return ExitStatus.OK


def _report(client: RpcClient, options: argparse.Namespace) -> int:
    run_id = options.run_id
    is_printed = options.output == "-"
    path = Path(options.output or f"{Path(run_id).name}.html")
    if not is_printed and not options.force:
        # Before anything is made that nobody could have.
        _check_free(path)
    made = client.call("runs.report", {"run_id": run_id}, timeout_s=REPORT_TIMEOUT_S)
    data = base64.b64decode(made["content"])
    if is_printed:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return ExitStatus.OK
    try:
        with path.open("wb" if options.force else "xb") as file:
            file.write(data)
    except FileExistsError:
        _check_free(path)
    except OSError as refused:
        raise _unwritable(path, refused) from refused
    told = {"run_id": run_id, "path": str(path)}
    return output.put(told, options, lambda _: print(f"{run_id} → {path}", file=sys.stderr))


def _check_free(path: Path) -> None:
    if path.exists():
        raise Invalid(
            f"{path} exists already; it was not changed.",
            remedy="Give --force to overwrite it, or -o another file.",
        )


def _place(path: Path, run_id: str, name: str) -> Path:
    """Where a piece goes: a long recording of waveforms has several archives."""
    return path.with_name(path.stem + Path(name).stem.removeprefix(run_id) + path.suffix)


def _pieces(client: RpcClient, run_id: str, form: str) -> Iterator[tuple[str, bytes]]:
    """(name of the file, a piece of it), in their order."""
    if form == PARQUET:
        table = b"".join(piece for _, piece in _pieces(client, run_id, "csv"))
        yield f"{run_id}.{PARQUET}", _parquet(table)
        return
    offset: int | None = 0
    while offset is not None:
        wanted = {"run_id": run_id, "format": form, "offset": offset}
        piece = client.call("runs.export", wanted, timeout_s=READ_TIMEOUT_S)
        content: str = piece["content"]
        is_text = piece["encoding"] != "base64"
        data = content.encode() if is_text else base64.b64decode(content)
        offset = piece["next_offset"]
        if data or offset is None:
            yield piece["name"], data


def _parquet(table: bytes) -> bytes:
    """A CSV file as a Parquet file, with the types that pyarrow finds in the cells.

    Raises:
        Failed: RECORDING_FAILED, pyarrow is not installed, or takes no such table.
    """
    try:
        # Here: an extra, and large.
        import pyarrow
        from pyarrow import csv, parquet
    except ImportError:
        raise Failed(
            "Parquet files are written by pyarrow, which is not installed beside edged.",
            code=ErrorCode.RECORDING_FAILED,
            remedy="Install the extra edged[parquet], or export csv, jsonl or npz.",
        ) from None
    out = io.BytesIO()
    try:
        found = csv.read_csv(
            io.BytesIO(table),
            # One block: the types are those that fit every row. A worker of pyarrow that is still
            # at its end when the program exits would abort it, once in 240 times.
            read_options=csv.ReadOptions(block_size=len(table) + 1, use_threads=False),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(strings_can_be_null=True, null_values=[""]),
        )
        for number, field in enumerate(found.schema):
            if pyarrow.types.is_string(field.type):
                texts = [text and unguarded(text) for text in found.column(number).to_pylist()]
                found = found.set_column(number, field, [texts])
        parquet.write_table(found, out)
    except (pyarrow.ArrowException, OverflowError) as error:
        raise Failed(
            f"This table was not written as Parquet: {error}",
            code=ErrorCode.RECORDING_FAILED,
            remedy="Export csv, jsonl or npz.",
        ) from error
    return out.getvalue()


def _unwritable(path: Path, refused: OSError) -> Failed:
    return Failed(f"{path} cannot be written: {refused.strerror}.", code=ErrorCode.RECORDING_FAILED)
