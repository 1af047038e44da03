"""A report as paper, for the program that draws: lines of one width, and figures. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from edged.plot.paper import LINE_CHARS, Block, Heading, Lines, Paper, PaperFigure
from edged.runs.report.parts import FactList, FactTable, Note, Part, Plot, Report

__all__ = ["paper_of"]

WIDEST_NAME: Final = 24
LEAST: Final = 6
BETWEEN: Final = 2


def paper_of(report: Report) -> Paper:
    """The same as the page says."""
    blocks: list[Block] = [Heading(report.title), Lines(tuple(_wrapped(report.subtitle)))]
    for section in report.sections:
        blocks.append(Heading(section.heading))
        for part in section.parts:
            blocks += _blocks(part)
    blocks.append(Lines(tuple(_wrapped(report.foot))))
    return Paper(title=report.title, blocks=tuple(blocks))


def _blocks(part: Part) -> Iterator[Block]:
    match part:
        case FactList():
            yield Lines(tuple(_fields(part)))
        case FactTable():
            yield Lines(tuple(_table(part)))
        case Note():
            yield Lines(tuple(_wrapped(("! " if part.is_warning else "- ") + part.text, "  ")))
        case Plot():
            yield PaperFigure(part.figure)
            yield Lines(tuple(_wrapped(part.caption)))


def _fields(fields: FactList) -> Iterator[str]:
    wide = min(WIDEST_NAME, max((len(name) for name, _ in fields.rows), default=0))
    for name, value in fields.rows:
        head = f"{_clean(name)[:WIDEST_NAME]:<{wide}}  "
        lines = _wrapped(value, width=LINE_CHARS - len(head)) or [""]
        yield head + lines[0]
        for line in lines[1:]:
            yield " " * len(head) + line


def _table(table: FactTable) -> Iterator[str]:
    if table.caption:
        yield from _wrapped(table.caption)
    rows = [table.columns, *table.rows]
    widths = _widths(rows, len(table.columns))
    yield from _row(table.columns, widths, table)
    yield "  ".join("-" * width for width in widths)
    for number, row in enumerate(table.rows):
        if number == table.gap:
            yield "…"
        yield from _row(row, widths, table)


def _widths(rows: Sequence[Sequence[str]], count: int) -> list[int]:
    """As wide as their cells; where that is too much, the widest give way."""
    widths = [max(1, *(len(row[i]) for row in rows if i < len(row))) for i in range(count)]
    least = [
        max(
            LEAST,
            *(len(word) for row in rows if i < len(row) for word in row[i].split() or [""]),
        )
        for i in range(count)
    ]
    room = LINE_CHARS - BETWEEN * (count - 1)
    for floor in (least, [LEAST] * count, [1] * count):
        while sum(widths) > room:
            able = [i for i in range(count) if widths[i] > floor[i]]
            if not able:
                break
            widths[max(able, key=lambda i: widths[i])] -= 1
    return widths


def _row(row: Sequence[str], widths: Sequence[int], table: FactTable) -> Iterator[str]:
    cells = [_wrapped(cell, width=width) or [""] for cell, width in zip(row, widths, strict=False)]
    for number in range(max(map(len, cells), default=0)):
        line = "  ".join(
            _placed(cell[number] if number < len(cell) else "", width, place in table.numbers)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=False))
        )
        yield line.rstrip()[:LINE_CHARS]


def _placed(text: str, width: int, is_number: bool) -> str:
    return text.rjust(width) if is_number else text.ljust(width)


def _wrapped(text: str, indent: str = "", width: int = LINE_CHARS) -> list[str]:
    return textwrap.wrap(_clean(text), max(1, width), subsequent_indent=indent)


def _clean(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)
