"""A report as one HTML file that needs nothing besides, now and in years. Pure.

No script, no reference; what others wrote stands in it as text alone.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final

from edged.files import read_text
from edged.runs.report.parts import (
    FactList,
    FactTable,
    Note,
    Part,
    PlottedFigure,
    ReportDocument,
    Section,
)
from edged.runs.report.svg import draw_figure

LONG_WORD: Final = 26
"""A longer one is broken rather than that its table grows out of the page."""
STYLE: Final = "\n" + read_text(Path(__file__).with_name("report.css"))
STYLE_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY: Final = f"default-src 'none'; style-src 'sha256-{STYLE_HASH}'"
"""The Content-Security-Policy under which it shows all that it has; who serves it says the same."""


def document_of(report: ReportDocument) -> bytes:
    """The file, in UTF-8."""
    return "\n".join(_document(report)).encode("utf-8", "replace")


def _document(report: ReportDocument) -> Iterator[str]:
    yield "<!DOCTYPE html>"
    yield '<html lang="en">'
    yield '<head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_text(POLICY)}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="generator" content="edged">'
    yield f"<title>{_text(report.title)}</title>"
    yield f"<style>{STYLE}</style></head>"
    yield "<body>"
    yield f"<header><h1>{_text(report.title)}</h1><p>{_text(report.subtitle)}</p></header>"
    yield "<main>"
    for section in report.sections:
        yield from _section(section)
    yield "</main>"
    yield f"<footer>{_text(report.foot)}</footer>"
    yield "</body></html>"
    yield ""


def _section(section: Section) -> Iterator[str]:
    yield f"<section><h2>{_text(section.heading)}</h2>"
    for part in section.parts:
        yield from _part(part)
    yield "</section>"


def _part(part: Part) -> Iterator[str]:
    match part:
        case FactList():
            yield "<dl>"
            for name, value in part.rows:
                yield f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>"
            yield "</dl>"
        case FactTable():
            yield from _table(part)
        case Note():
            kind = "note warning" if part.is_warning else "note"
            yield f'<p class="{kind}">{_text(part.text)}</p>'
        case PlottedFigure():
            yield f"<figure>{draw_figure(part.figure)}"
            yield f"<figcaption>{_text(part.caption)}</figcaption></figure>"


def _table(table: FactTable) -> Iterator[str]:
    yield '<div class="s" tabindex="0"><table>'
    if table.caption:
        yield f"<caption>{_text(table.caption)}</caption>"
    heads = "".join(_cell("th", i, name, table) for i, name in enumerate(table.columns))
    yield f"<thead><tr>{heads}</tr></thead><tbody>"
    for number, row in enumerate(table.rows):
        if number == table.gap:
            yield f'<tr class="gap"><td colspan="{len(table.columns)}">…</td></tr>'
        yield f"<tr>{''.join(_cell('td', i, cell, table) for i, cell in enumerate(row))}</tr>"
    yield "</tbody></table></div>"


def _cell(tag: str, place: int, text: str, table: FactTable) -> str:
    kinds: list[str] = []
    if place in table.numbers:
        kinds.append("n")
    if place in table.codes and tag == "td":
        kinds.append("c")
    elif max(map(len, text.split()), default=0) > LONG_WORD:
        kinds.append("w")
    kind = f' class="{" ".join(kinds)}"' if kinds else ""
    return f"<{tag}{kind}>{_text(text)}</{tag}>"


def _text(text: str) -> str:
    """Escaped; of control characters only line ends are left."""
    return escape("".join(c if c.isprintable() or c == "\n" else " " for c in text))
