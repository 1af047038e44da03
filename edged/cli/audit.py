"""``edged audit list | follow | verify | export``: the record of every attempt."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from edged.actions.caller import Route, who_of
from edged.actions.outcome import OutcomeStatus
from edged.cli.shared import output
from edged.cli.shared.options import WHEN, add_engine_options, connect, load, moment
from edged.errors import EdgedError, ErrorCode
from edged.host import ExitStatus
from edged.surfaces.rpc.client import RpcClient, open_events

COLUMNS: Final = {
    "seq": "no",
    "time": "time",
    "phase": "phase",
    "who": "who",
    "tool": "tool",
    "instrument": "instrument",
    "scpi": "scpi",
    "outcome": "outcome",
}
FOLLOWED: Final = {
    "seq": (5, 0),
    "time": (8, 0),
    "phase": (7, 0),
    "who": (8, 2),
    "tool": (6, 2),
    "instrument": (6, 2),
    "scpi": (3, 2),
    "outcome": (2, 2),
}
"""Of a column of ``follow``: how wide it is at least, and its tenths of what is spare."""
GAP: Final = 2
NARROWEST: Final = sum(least for least, _ in FOLLOWED.values()) + GAP * (len(FOLLOWED) - 1)
DATABASE_FILE: Final = "edged.db"
VERIFY_TIMEOUT_S: Final = 600.0


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    options = _parser().parse_args(arguments)
    match options.verb:
        case "list":
            return _list(options)
        case "follow":
            return _follow(options)
        case "verify":
            return _verify(options)
        case _:
            return _export(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="edged audit", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    listing = verbs.add_parser("list", help="the newest rows that match")
    listing.add_argument("--limit", type=int, default=50, help="at most this many (50)")
    following = verbs.add_parser("follow", help="rows as they come, until Ctrl-C")
    verify = verbs.add_parser(
        "verify", help="check the whole hash chain; exit status 1 if it is broken"
    )
    verify.add_argument(
        "--file", type=Path, help="a database, without an engine (default: the state directory's)"
    )
    export = verbs.add_parser("export", help="all matching rows, as text")
    export.add_argument("--format", choices=("jsonl", "csv"), default="jsonl")
    export.add_argument("--output", type=Path, metavar="FILE", help="(standard output)")
    for verb in (listing, export):
        verb.add_argument("--instrument", default="", help="its id or alias")
        verb.add_argument(
            "--caller", default="", help="client, session, address, subject, route or run"
        )
        verb.add_argument("--tool", default="", help="only this tool or method")
        verb.add_argument(
            "--outcome", choices=[status.value for status in OutcomeStatus], default=""
        )
        for flag in ("--since", "--until"):
            verb.add_argument(flag, metavar="WHEN", help=WHEN)
    for verb in (listing, following, verify, export):
        add_engine_options(verb)
    return parser


def _list(options: argparse.Namespace) -> int:
    client = connect(options)
    wanted = _filter(client, options)
    rows = client.call("audit.list", {**wanted, "limit": options.limit})["rows"]
    if not options.json:
        rows = sorted(rows, key=_moment_of)
    return output.put_rows(client, options, rows, COLUMNS, _shown, "no rows match")


def _follow(options: argparse.Namespace) -> int:
    client = connect(options)
    show = output.print_json if options.json else _line_printer(client)
    with open_events(client, ["audit"]) as messages:
        for kind, params in messages:
            if kind == "missed":
                print(f"edged: {params['count']} rows were missed.", file=sys.stderr)
            else:
                show(params["data"])
            sys.stdout.flush()
    return ExitStatus.OK


def _line_printer(client: RpcClient) -> Callable[[Mapping[str, Any]], None]:
    """Prints the heading now, and a row as a line each time it is called; in a pipe none is cut."""
    name = output.namer(client)
    widths = _follow_widths() if sys.stdout.isatty() else None
    print(_line(list(COLUMNS.values()), widths).upper())

    def show(row: Mapping[str, Any]) -> None:
        shown = _shown(row, name)
        print(_line([output.cell(shown[field]) for field in COLUMNS], widths))

    return show


def _line(texts: Sequence[str], widths: Sequence[int] | None) -> str:
    return "  ".join(texts) if widths is None else output.aligned(texts, widths)


def _follow_widths() -> list[int]:
    """Rows come one by one, so the columns are as wide as the screen lets them be from the start.

    What is spare goes to the columns whose texts are long; what does not fit is cut.
    """
    spare = max(0, shutil.get_terminal_size().columns - NARROWEST)
    return [least + spare * share // 10 for least, share in FOLLOWED.values()]


def _verify(options: argparse.Namespace) -> int:
    report = _report(options)
    if options.json:
        output.print_json(report)
    else:
        output.print_fields({name: value for name, value in report.items() if name != "problems"})
        for problem in report["problems"]:
            print(f"row {problem['seq']}: {problem['kind']}: {output.cell(problem['message'])}")
    return ExitStatus.OK if report["is_intact"] else ExitStatus.FAILED


def _report(options: argparse.Namespace) -> Mapping[str, Any]:
    """By the engine while one runs, else from the file."""
    if options.file is None:
        try:
            client = connect(options)
            report: Mapping[str, Any] = client.call("audit.verify", timeout_s=VERIFY_TIMEOUT_S)
        except EdgedError as error:
            if error.code is not ErrorCode.NO_ENGINE:
                raise
        else:
            return report
    # Late: the store is nothing that `edged audit list` needs.
    from edged.store.audit.verify import verify_file

    path = (
        options.file.resolve() if options.file else load(options).config.state_dir / DATABASE_FILE
    )
    return {"file": str(path), **verify_file(path).to_json()}


def _export(options: argparse.Namespace) -> int:
    client = connect(options)
    wanted = {**_filter(client, options), "format": options.format}
    if options.output is None:
        with open(sys.stdout.fileno(), "w", encoding="utf-8", newline="", closefd=False) as file:
            _write_pages(file, client, wanted)
        return ExitStatus.OK
    try:
        with options.output.open("w", encoding="utf-8", newline="") as file:
            _write_pages(file, client, wanted)
    except OSError as refused:
        raise output.unwritable(options.output, refused) from refused
    return ExitStatus.OK


def _write_pages(file: TextIO, client: RpcClient, wanted: Mapping[str, Any]) -> None:
    after: int | None = 0
    while after is not None:
        page = client.call("audit.export", {**wanted, "after": after}, timeout_s=60.0)
        file.write(page["text"])
        after = page["next_after"]


def _filter(client: RpcClient, options: argparse.Namespace) -> dict[str, Any]:
    given = {
        "instrument": _instrument_id(client, options.instrument),
        "caller": options.caller,
        "tool": options.tool,
        "outcome": options.outcome,
        "since_ms": moment(options.since),
        "until_ms": moment(options.until),
    }
    return {name: value for name, value in given.items() if value not in ("", None)}


def _instrument_id(client: RpcClient, name: str) -> str:
    """Rows have ids; people have aliases. What is not here now may be in old rows."""
    if not name:
        return ""
    for row in client.call_tool("instruments").value:
        if name in {row["id"], row["alias"], row["serial"]}:
            return str(row["id"])
    return name


def _moment_of(row: Mapping[str, Any]) -> tuple[float, int]:
    """Rows stand in the chain as they were written, and a person reads what happened after what.

    The intent of a write is on the disk before the write; other rows wait to be written together.
    """
    time_ms = row["time_ms"]
    return (time_ms if isinstance(time_ms, int | float) else 0, row["seq"])


def _who(row: Mapping[str, Any]) -> str:
    route = str(row["route"])
    who = who_of(row["client"], row["remote"], row["subject"], route=route)
    return who if route == Route.INTERNAL.value else f"{route} {who}"


def _shown(row: Mapping[str, Any], name: output.Name) -> dict[str, Any]:
    """The cells of a row, also of one that somebody has been at: ``verify`` judges, not we."""
    error = f": {row['error']}" if row["error"] else ""
    return {
        **row,
        "time": output.local_time(row["time_ms"]),
        "who": _who(row),
        "instrument": name(row["instrument"]),
        "scpi": str(row["scpi"] or "").replace("\n", " | "),
        "outcome": f"{row['outcome']}{error}",
    }
