"""How results look: tables and fields for people, JSON for scripts.

Text may come from an instrument, so control characters never reach the terminal. On a terminal
tables are drawn by rich, which is loaded only then; in a pipe they are plain aligned columns. Where
a terminal is so narrow that ids would be cut in pieces, each row is a block of lines instead.

A tool's answer on a terminal: the result, or the error and what to do about it.

``--watch``: the same again every few seconds, until Ctrl-C.

Files that verbs write: whole or not at all, and with a sentence where that cannot be done.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from edged.cli.shared.options import seconds
from edged.clock import SystemClock, ago
from edged.errors import EdgedError, ErrorCode, Failed
from edged.files import resolved, write_atomically
from edged.host import ExitStatus
from edged.surfaces.rpc.client import RpcClient, ToolAnswer

if TYPE_CHECKING:
    from datetime import datetime

MAX_CELL: Final = 200
LONGEST_LINE: Final = 1_000
MAX_COLUMNS: Final = 7
COLUMN_GAP: Final = 2
"""What ``_draw`` puts between two columns."""
Row = Mapping[str, Any]
Name = Callable[[Any], Any]
"""Gives what people call the instrument of an id."""


def print_json(value: Any) -> None:
    """One JSON document."""
    print(json.dumps(value, indent=2))


def print_schema(schema: Mapping[str, Any], path: Path | None) -> None:
    """A JSON Schema, printed or written to a file."""
    if path is None:
        print_json(schema)
    else:
        write_text(path, json.dumps(schema, indent=1) + "\n")


def put(value: Any, options: argparse.Namespace, draw: Callable[[Any], object]) -> int:
    """Print a value as JSON where that is asked for, else as ``draw`` does; returns OK."""
    if options.json:
        print_json(value)
    else:
        draw(value)
    return ExitStatus.OK


def put_rows(
    client: RpcClient,
    options: argparse.Namespace,
    rows: Sequence[Row],
    columns: Mapping[str, str],
    shown: Callable[[Row, Name], Row],
    nothing: str,
) -> int:
    """Print rows as JSON, or as a table of what ``shown`` makes of each; returns OK.

    Args:
        nothing: what is printed where there are none.
    """
    if options.json or not rows:
        return put(rows, options, lambda _: print(nothing))
    name = namer(client)
    print_table([shown(row, name) for row in rows], columns)
    return ExitStatus.OK


def print_table(rows: Sequence[Row], columns: Mapping[str, str]) -> None:
    """Rows as a table.

    Args:
        rows: what to show; a field that is missing is an empty cell.
        columns: field → heading, in order.
    """
    lines = [[cell(row.get(field)) for field in columns] for row in rows]
    titles = list(columns.values())
    if sys.stdout.isatty():
        widths = _widths(titles, lines, _screen_width())
        if widths:
            _draw(titles, lines, widths)
        else:
            _print_blocks([dict(zip(titles, line, strict=True)) for line in lines])
        return
    widths = [max(map(len, texts)) for texts in zip(titles, *lines, strict=True)]
    for line in ([title.upper() for title in titles], *lines):
        print(aligned(line, widths))


def print_lines(lines: Iterable[str], *, limit: int = LONGEST_LINE) -> None:
    """Lines of a list, each wrapped to the terminal's width; in a pipe each stays one line.

    What stands between blanks is never cut: an address or a command that was cut cannot be copied.

    Args:
        limit: characters of a line.
    """
    width = _screen_width() if sys.stdout.isatty() else 0
    for line in lines:
        for part in _wrapped(cell(line, limit=limit), width):
            print(part)


def _wrapped(line: str, width: int) -> list[str]:
    """One line as several of at most ``width``, of which the later ones stand further in."""
    if not 0 < width < len(line):
        return [line]
    import textwrap  # for terminals that are narrow

    margin = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(
        line.strip(),
        width,
        initial_indent=margin,
        subsequent_indent=f"{margin}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _screen_width() -> int:
    import shutil  # with three libraries that compress: nothing in a pipe asks

    return shutil.get_terminal_size().columns


def print_fields(value: Row) -> None:
    """A mapping as ``name  value`` lines, inner ones by dotted names; what is empty has none."""
    fields = list(_flat(value, "")) or [("(none)", "")]
    width = max(len(name) for name, _ in fields)
    for name, text in fields:
        print(f"{name:<{width}}  {text}".rstrip())


IS_OK: Final[Mapping[bool | None, str]] = {True: "yes", False: "NO", None: "later"}
"""Of a check: ``later`` is what only the run can tell."""


def print_dry_run(told: Row) -> None:
    """What a call would send, and what was judged of it."""
    more = told.get("more", 0)
    _print_list("would send", told["would_send"], f"and {more} lines more" if more else "")
    checks = [
        f"{IS_OK[check['is_ok']]:<5}  {cell(check['what'])}"
        + (f" ({cell(check['bound'])})" if check["bound"] else "")
        for check in told["checks"]
    ]
    _print_list("checked", checks)
    for title, kind in (("in the way", "refusal"), ("to know", "information")):
        held = [one["message"] for one in told["conflicts"] if one["kind"] == kind]
        _print_list(title, held)
    _print_list("needs", told["needs"])
    if told["steps"] is not None:
        steps = "1 step" if told["steps"] == 1 else f"{told['steps']} steps"
        waits = f"; its waits alone take {told['duration_s']:g} s" if told["duration_s"] else ""
        print(f"{steps}{waits}")
    print("nothing was sent")


def _print_list(title: str, lines: Sequence[object], last: str = "") -> None:
    if not lines:
        return
    print(f"{title}:")
    for line in (*lines, *filter(None, [last])):
        print(f"  {cell(line, limit=1_000)}")


def print_result(value: Any) -> None:
    """Whatever a tool answered, in the form that fits it."""
    match value:
        case {}:
            print_fields(value)
        case [{}, *_] if all(isinstance(row, Mapping) for row in value):
            _print_rows(value)
        case []:
            print("(nothing)")
        case _:
            print(cell(value, limit=1_000_000))


def cell(value: Any, *, limit: int = MAX_CELL) -> str:
    """A value as one line of printable text, at most ``limit`` characters."""
    match value:
        case None:
            text = ""
        case bool():
            text = "yes" if value else "no"
        case str():
            text = value
        case _:
            text = json.dumps(value, default=str)
    if not text.isprintable():
        text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _print_rows(rows: Sequence[Row]) -> None:
    """A table where one fits a screen, else a block of fields for each row."""
    names = dict.fromkeys(name for row in rows for name in row)
    has_inner = any(isinstance(item, dict | list) for row in rows for item in row.values())
    if len(names) <= MAX_COLUMNS and not has_inner:
        print_table(rows, {name: name for name in names})
        return
    _print_blocks(rows)


def _print_blocks(rows: Sequence[Row]) -> None:
    for number, row in enumerate(rows):
        if number:
            print()
        print_fields(row)


def _widths(titles: Sequence[str], lines: Sequence[Sequence[str]], room: int) -> list[int]:
    """How wide each column is to be; empty where words would have to be cut.

    What stands between blanks is a word: an id that was cut cannot be copied.
    """
    columns = list(zip(titles, *lines, strict=True))
    widths = [max(len(word) for text in texts for word in text.split()) for texts in columns]
    spare = room - sum(widths) - COLUMN_GAP * (len(titles) - 1)
    if spare < 0:
        return []
    for number, texts in enumerate(columns):
        more = min(spare, max(map(len, texts)) - widths[number])
        widths[number] += more
        spare -= more
    return widths


def _flat(value: Row, prefix: str) -> Iterator[tuple[str, str]]:
    for name, item in value.items():
        match item:
            case {}:
                yield from _flat(item, f"{prefix}{cell(name)}.")
            case None | "" | []:
                continue
            case _:
                yield f"{prefix}{cell(name)}", cell(item, limit=10_000)


def aligned(texts: Sequence[str], widths: Sequence[int]) -> str:
    """One line of a table without a frame; what is wider than its column is cut."""
    padded = (
        f"{text if len(text) <= width else text[: width - 1] + '…':<{width}}"
        for text, width in zip(texts, widths, strict=True)
    )
    return "  ".join(padded).rstrip()


def _draw(titles: Sequence[str], lines: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # A blank of padding, and one that the box draws.
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for title, width in zip(titles, widths, strict=True):
        table.add_column(title, overflow="fold", width=width)
    for line in lines:
        # Text, not str: a label from an instrument must not be read as markup.
        table.add_row(*(Text(text) for text in line))
    Console().print(table)


IN_A_SHELL: Final[Mapping[str, str]] = {
    "bench__reserve": "`edged lease reserve`",
    "bench__renew": "`edged lease renew`",
    "bench__release": "`edged lease release`",
    "as the argument `lease`": "with --lease or EDGED_LEASE",
    "the argument `lease`": "--lease and EDGED_LEASE",
}
"""What the engine says of what is to be done, and how that is done in a shell."""


def _in_shell_words(text: str) -> str:
    for tool, verb in IN_A_SHELL.items():
        text = text.replace(tool, verb)
    return text


def show(answer: ToolAnswer, options: argparse.Namespace, draw: Callable[[Any], None]) -> int:
    """Print an answer; FAILED where the tool did.

    Args:
        answer: what the engine said.
        options: with ``json``: the result goes out as it is, or ``{"error": …, "result": …}``.
        draw: prints the result for people.
    """
    error = answer.error
    if options.json:
        print_json(answer.result if error is None else {"error": error, "result": answer.result})
    elif answer.result is not None:
        draw(answer.result)
    if error is None:
        return ExitStatus.OK
    words = f"{cell(error.get('message'))} {_in_shell_words(cell(error.get('remedy')))}"
    print(f"edged: {words.strip()}", file=sys.stderr)
    return ExitStatus.FAILED


EVERY_S: Final = 2.0
SHORTEST_S: Final = 0.1
CLEAR: Final = "\x1b[2J\x1b[H"


def add_watch_option(parser: argparse.ArgumentParser) -> None:
    """``--watch [SECONDS]``."""
    parser.add_argument(
        "--watch",
        nargs="?",
        type=seconds,
        const=EVERY_S,
        metavar="SECONDS",
        help=f"show it again every SECONDS seconds ({EVERY_S:g}), until Ctrl-C",
    )


def watched(options: argparse.Namespace, show: Callable[[], int]) -> int:
    """Show once, or again and again; an engine that is away is waited for."""
    if options.watch is None:
        return show()
    import threading  # for those who watch

    pause = threading.Event()
    try:
        while True:
            if sys.stdout.isatty():
                print(CLEAR, end="")
            try:
                show()
            except EdgedError as error:
                print(f"edged: {error}", file=sys.stderr)
            sys.stdout.flush()
            pause.wait(max(SHORTEST_S, options.watch))
    except KeyboardInterrupt:
        return ExitStatus.OK


def write_text(path: Path, text: str, remedy: str = "") -> None:
    """Write a file.

    Raises:
        Failed: STORE_FAILED, it cannot be written there.
    """
    try:
        # The owner's own file: its directory may lie behind a link.
        write_atomically(resolved(path.absolute().parent) / path.name, text)
    except OSError as refused:
        raise unwritable(path, refused, remedy) from refused


def unwritable(path: Path, refused: OSError, remedy: str = "") -> Failed:
    """STORE_FAILED: why a file could not be written."""
    return Failed(
        f"{path} cannot be written: {refused.strerror or refused}.",
        code=ErrorCode.STORE_FAILED,
        data={"path": str(path)},
        remedy=remedy,
    )


def namer(client: RpcClient) -> Name:
    """``aliased``, by what the engine tells of its instruments."""
    return aliased(client.call_tool("list_instruments").value)


def aliased(instruments: Iterable[Mapping[str, Any]]) -> Name:
    """What gives an instrument's alias for its id, and the id itself where there is none."""
    aliases = {one["id"]: one["alias"] for one in instruments if one.get("alias")}
    # Old rows may hold anything, also what cannot be looked up.
    return lambda name: aliases.get(name, name) if isinstance(name, str) else name


def under_way(client: RpcClient, runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Runs of get_status, or lockouts, with the name of their ``instrument`` and ``since`` when."""
    name = namer(client)
    return [told_since(run, name) for run in runs]


def told_since(run: Row, name: Name) -> dict[str, Any]:
    """One of them."""
    return {**run, "instrument": name(run["instrument_id"]), "since": since(run)}


def show_under_way(
    client: RpcClient, options: argparse.Namespace, kind: str, columns: Mapping[str, str]
) -> int:
    """Show the runs of one kind that are under way; returns the exit status.

    Args:
        kind: as get_status calls them: ``sweeps``.
    """

    def draw(status: Mapping[str, Any]) -> None:
        if status[kind]:
            print_table(under_way(client, status[kind]), columns)
        else:
            print(f"no {kind.removesuffix('s')} runs")

    answer = client.call_tool("status")
    if options.json and answer.error is None:
        print_json(answer.result[kind])
        return ExitStatus.OK
    return show(answer, options, draw)


def local_time(time_ms: Any, now_ms: int | None = None) -> str:
    """A time of Unix epoch milliseconds; what is none is shown as it is.

    Args:
        now_ms: what "today" goes by; the clock of this machine unless it is given.
    """
    try:
        time = _local(time_ms)
    except (TypeError, ValueError, OverflowError, OSError):
        return "" if time_ms is None else str(time_ms)
    today = _local(SystemClock().wall_ms() if now_ms is None else now_ms).date()
    if time.date() == today:
        return f"{time:%H:%M:%S}"
    if (today - time.date()).days == 1:
        return f"yesterday {time:%H:%M}"
    return f"{time:%Y-%m-%d %H:%M}"


def since(row: Mapping[str, Any]) -> str:
    """``15:18:44 (3 min ago)``: since when something is so; empty where nobody knows."""
    began_ms = row.get("started_ms", row.get("since_ms"))
    if not isinstance(began_ms, int):
        return ""
    now_ms = SystemClock().wall_ms()
    return f"{local_time(began_ms, now_ms)} ({ago((now_ms - began_ms) / 1_000)})"


def _local(time_ms: float) -> datetime:
    from datetime import UTC, datetime  # for rows that have times

    return datetime.fromtimestamp(time_ms / 1000, UTC).astimezone()
