"""A report as one HTML file that needs nothing besides, now and in years. Pure.

No script, no reference; what others wrote stands in it as text alone.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from html import escape
from typing import Final

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
STYLE: Final = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 28px 24px 40px; max-width: 860px; background: #fff; color: #16191d;
  font: 14px/1.45 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", Arial, sans-serif; }
header { border-bottom: 2px solid #16191d; padding-bottom: 10px; margin-bottom: 6px; }
h1 { font-size: 22px; line-height: 1.2; margin: 0 0 4px; overflow-wrap: anywhere; }
header p { margin: 0; color: #4b5563; overflow-wrap: anywhere; }
h2 { font-size: 15px; margin: 26px 0 8px; padding-bottom: 3px; border-bottom: 1px solid #c3c9d1; }
dl { display: grid; grid-template-columns: minmax(110px, max-content) 1fr; gap: 3px 18px;
  margin: 0 0 10px; }
dt { color: #4b5563; overflow-wrap: anywhere; }
dd { margin: 0; overflow-wrap: anywhere; white-space: pre-line; }
.s { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin: 4px 0 14px; font-size: 12.5px; }
caption { text-align: left; color: #4b5563; padding: 2px 0 4px; overflow-wrap: anywhere; }
th { text-align: left; font-weight: 600; border-bottom: 1px solid #7a828d; vertical-align: bottom; }
th, td { padding: 3px 12px 3px 0; overflow-wrap: break-word; }
th:last-child, td:last-child { padding-right: 0; }
td { border-bottom: 1px solid #e4e7eb; vertical-align: top; }
.n { text-align: right; font-variant-numeric: tabular-nums; }
.c { font-family: "DejaVu Sans Mono", Consolas, Menlo, monospace; font-size: 10px; }
td.c { white-space: nowrap; }
.w { overflow-wrap: anywhere; }
.gap td { color: #4b5563; text-align: center; }
.note { margin: 0 0 8px; padding: 5px 10px; border-left: 3px solid #7a828d; background: #f4f5f7;
  overflow-wrap: anywhere; }
.warning { border-left-color: #b3261e; background: #fdf0ee; font-weight: 600; }
figure { margin: 4px 0 16px; }
figcaption { color: #4b5563; font-size: 12.5px; overflow-wrap: anywhere; }
svg { display: block; width: 100%; height: auto;
  font: 11px system-ui, "DejaVu Sans", Arial, sans-serif; }
.frame { fill: none; stroke: #7a828d; }
.grid { stroke: #e4e7eb; fill: none; }
.curve { fill: none; stroke-width: 1.4; stroke-linejoin: round; }
.tick { fill: #4b5563; }
.axis { fill: #16191d; }
footer { margin-top: 28px; padding-top: 8px; border-top: 1px solid #c3c9d1; color: #4b5563;
  font-size: 12px; }
@page { size: A4; margin: 16mm 15mm 18mm;
  @bottom-right { content: counter(page) " / " counter(pages); font: 8pt sans-serif; } }
@media print {
  body { padding: 0; max-width: none; font-size: 9pt; } .s { overflow: visible; }
  h1 { font-size: 16pt; } h2 { font-size: 11.5pt; break-after: avoid; }
  table { font-size: 8pt; } .c { font-size: 6.5pt; } svg { width: 92%; }
  caption { break-after: avoid; }
  thead { display: table-header-group; } tr, figure, .note { break-inside: avoid; }
  footer { break-before: avoid; margin-top: 10px; }
  .note, .gap td { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""

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
