"""How results look: tables and fields for people, JSON for scripts.

Text may come from an instrument, so control characters never reach the terminal. On a terminal
tables are drawn by rich, which is loaded only then; in a pipe they are plain aligned columns. Where
a terminal is so narrow that ids would be cut in pieces, each row is a block of lines instead.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

__all__ = ["cell", "print_fields", "print_json", "print_result", "print_table"]

MAX_CELL: Final = 200
MAX_COLUMNS: Final = 7
COLUMN_GAP: Final = 3
"""What rich puts between two columns of such a table."""
Row = Mapping[str, Any]


def print_json(value: Any) -> None:
    """One JSON document."""
    print(json.dumps(value, indent=2))


def print_table(rows: Sequence[Row], columns: Mapping[str, str]) -> None:
    """Rows as a table.

    Args:
        rows: what to show; a field that is missing is an empty cell.
        columns: field → heading, in order.
    """
    lines = [[cell(row.get(field)) for field in columns] for row in rows]
    if sys.stdout.isatty():
        titles = list(columns.values())
        widths = _widths(titles, lines, shutil.get_terminal_size().columns)
        if widths:
            _draw(titles, lines, widths)
        else:
            _print_blocks([dict(zip(titles, line, strict=True)) for line in lines])
        return
    for line in _aligned([[title.upper() for title in columns.values()], *lines]):
        print(line)


def print_fields(value: Row) -> None:
    """A mapping as ``name  value`` lines, inner mappings by dotted names."""
    fields = list(_flat(value, ""))
    width = max((len(name) for name, _ in fields), default=0)
    for name, text in fields:
        print(f"{name:<{width}}  {text}".rstrip())


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
    spare = room - sum(widths) - COLUMN_GAP * len(titles)
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
            case {} if item:
                yield from _flat(item, f"{prefix}{cell(name)}.")
            case {} | []:
                yield f"{prefix}{cell(name)}", "(none)"
            case _:
                yield f"{prefix}{cell(name)}", cell(item, limit=10_000)


def _aligned(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(text) for text in column) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (f"{text:<{width}}" for text, width in zip(line, widths, strict=True))
        yield "  ".join(padded).rstrip()


def _draw(titles: Sequence[str], lines: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title, width in zip(titles, widths, strict=True):
        table.add_column(title, overflow="fold", width=width)
    for line in lines:
        # Text, not str: a label from an instrument must not be read as markup.
        table.add_row(*(Text(text) for text in line))
    Console().print(table)
