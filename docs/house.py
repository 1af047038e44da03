"""Draws how edged is built, in docs/pictures: the house, and the way of one call through it.

Both are drawn from docs/architecture.md: ``architecture.svg`` has its floors and chapters,
``call.svg`` the steps of the one path. ``make docs`` runs it; ``--check`` changes nothing and ends
with 1 where a drawing is out of date. That page itself is held against the package by
``tests/unit/test_docs.py``. One drawing serves by day and by night: it follows the page that
shows it.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).resolve().parent
ROW: Final = re.compile(r"^\| (\d[abc]?) \| (`[a-z/]+`|single modules) \|", re.MULTILINE)
STEPS: Final = re.compile(
    r"^\| 4a \| `commands` \| \*\*the command path\*\*: ([a-z, ]+) \|", re.MULTILINE
)
FLOORS: Final[Mapping[str, str]] = {
    "9": "the command line",
    "8": "the engine's parts, the doctor",
    "7": "the supervisor",
    "6": "ports for clients and people",
    "5": "tools and resources",
    "4b": "the operations",
    "4a": "the path of every command",
    "3": "sweeps, streams, sequences",
    "2c": "finding instruments",
    "2b": "units and their connections",
    "2a": "transports, storage, processes",
    "1a": "interlocks, budgets, timers",
    "1": "values and rules, no I/O",
    "0": "configuration, SCPI, YAML",
}
"""What each floor is for, in a few words; the upper first."""
THE_PATH: Final = "4a"
DOORS: Final[Mapping[str, str]] = {
    "AI agents": "MCP",
    "scripts": "MCP, RPC",
    "LabVIEW, PyVISA": "HiSLIP, VISA",
    "people": "page, shell",
}
"""Who calls → how."""
WORDS: Final[Mapping[str, str]] = {
    "authorize": "may you?",
    "resolve": "which unit",
    "check": "limits, guards",
    "intent": "written down",
    "run": "sent, read back",
    "record": "what came of it",
}
"""What a step of the path means to a caller."""
KEPT: Final[Mapping[str, str]] = dict.fromkeys(
    ("sweeps, streams, sequences go on in here", "recordings, reports, audit stay here"), ""
)
WIRES: Final[Mapping[str, str]] = {
    "LAN": "sockets, VXI-11, HiSLIP",
    "USB": "USB-TMC",
    "GPIB": "by VISA, Prologix",
    "serial, SDK": "ports, vendors' code",
}
"""Over what instruments are reached."""

MARGIN: Final = 20
GAP: Final = 8
BOX_HEIGHT: Final = 30
HOUSE_WIDTH: Final = 1000
LABEL: Final = 304
BOXES_IN_A_ROW: Final = 5
CHAPTER_WIDTH: Final = 124
CALL_WIDTH: Final = 760
ARROW: Final = 26
STYLE: Final = """\
<style>
  svg {
    --back: #f4f6f8; --line: #c3cbd5; --floor: #fff; --box: #eaf1f9; --ink: #15191f;
    --soft: #545d6b; --path: #0b57a8; --on-path: #fff; --number: #0b57a8;
    font: 14px system-ui, "DejaVu Sans", sans-serif;
  }
  @media (prefers-color-scheme: dark) {
    svg {
      --back: #12161b; --line: #39424d; --floor: #1a2027; --box: #24303d; --ink: #e9edf2;
      --soft: #a3adba; --path: #1f5f9f; --on-path: #fff; --number: #7ab8ff;
    }
  }
  .back { fill: var(--back); }
  .floor { fill: var(--floor); stroke: var(--line); }
  .box { fill: var(--box); }
  .path { fill: var(--path); }
  text { fill: var(--ink); }
  .soft { fill: var(--soft); }
  .small { font-size: 12px; }
  .middle { text-anchor: middle; }
  .name { font: 13px ui-monospace, "DejaVu Sans Mono", monospace; text-anchor: middle; }
  .number { font-weight: 700; fill: var(--number); }
  .on-path { font-weight: 700; fill: var(--on-path); }
  .arrow { fill: none; stroke: var(--soft); stroke-width: 1.5; }
</style>"""


def main() -> int:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    is_right = True
    for name, text in (("architecture", house(page)), ("call", call(page))):
        path = DOCS / "pictures" / f"{name}.svg"
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8", newline="\n")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"docs/pictures/{name}.svg is out of date: run `make docs`.\n")
            is_right = False
    return 0 if is_right else 1


def house(page: str) -> str:
    """Floor upon floor, each with its chapters."""
    chapters = chapters_by_floor(page)
    parts: list[str] = []
    y = MARGIN
    for number, words in FLOORS.items():
        height, floor = _floor(number, words, chapters[number], y)
        parts += floor
        y += height + GAP // 2
    title = "The floors of edged, each above those that it may import"
    return _drawing(title, HOUSE_WIDTH, y + MARGIN - GAP // 2, parts)


def chapters_by_floor(page: str) -> Mapping[str, list[str]]:
    """The chapters of each floor as the page has them.

    Raises:
        ValueError: the page has a floor for which there are no words here, or the other way round.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for number, chapter in ROW.findall(page):
        found[number].append(chapter.strip("`"))
    if found.keys() != FLOORS.keys():
        message = f"docs/architecture.md has the floors {sorted(found)}, this {sorted(FLOORS)}"
        raise ValueError(message)
    return found


def _floor(number: str, words: str, chapters: Sequence[str], y: int) -> tuple[int, list[str]]:
    """Its height, and what is drawn."""
    height = -(-len(chapters) // BOXES_IN_A_ROW) * (BOX_HEIGHT + GAP) + GAP
    is_path = number == THE_PATH
    middle = y + height // 2 + 5
    parts = [
        _frame("path" if is_path else "floor", MARGIN, y, HOUSE_WIDTH - 2 * MARGIN, height),
        _text("on-path" if is_path else "number", MARGIN + 14, middle, number),
        _text("on-path" if is_path else "soft", MARGIN + 44, middle, words),
    ]
    for place, name in enumerate(chapters):
        row, column = divmod(place, BOXES_IN_A_ROW)
        x = MARGIN + LABEL + column * (CHAPTER_WIDTH + GAP)
        top = y + GAP + row * (BOX_HEIGHT + GAP)
        parts.append(_frame("box", x, top, CHAPTER_WIDTH, BOX_HEIGHT))
        parts.append(_text("name", x + CHAPTER_WIDTH / 2, top + BOX_HEIGHT // 2 + 5, name))
    return height, parts


def call(page: str) -> str:
    """Who calls, the one path, and what is reached.

    Raises:
        ValueError: the page has a step for which there is no word here, or the other way round.
    """
    found = STEPS.search(page)
    steps = found[1].split(", ") if found else []
    if steps != list(WORDS):
        message = f"docs/architecture.md has the steps {steps}, this {list(WORDS)}"
        raise ValueError(message)
    tall = 46
    parts = list(_pairs("floor", "", DOORS.items(), MARGIN, MARGIN, CALL_WIDTH, tall))
    y = MARGIN + tall
    parts += _arrows(len(DOORS), y)
    y += ARROW
    inside = 32 + tall + GAP + BOX_HEIGHT + 2 * GAP
    parts.append(_frame("path", MARGIN, y, CALL_WIDTH - 2 * MARGIN, inside))
    parts.append(_text("on-path", MARGIN + 14, y + 22, "edged: one path for every command"))
    y += 32
    edge = MARGIN + 12
    parts += _pairs("box", "", WORDS.items(), edge, y, CALL_WIDTH, tall)
    y += tall + GAP
    runs = (
        "sweeps, streams and sequences go on in here",
        "recordings, reports and audit stay here",
    )
    parts += _pairs("box", "small ", [(one, "") for one in runs], edge, y, CALL_WIDTH, BOX_HEIGHT)
    y += BOX_HEIGHT + 2 * GAP
    parts += _arrows(len(WIRES), y)
    y += ARROW
    parts += _pairs("floor", "", WIRES.items(), MARGIN, y, CALL_WIDTH, tall)
    title = "Every caller, by one path, to every instrument"
    return _drawing(title, CALL_WIDTH, y + tall + MARGIN, parts)


def _pairs(
    kind: str, size: str, pairs: Iterable[tuple[str, str]], edge: int, y: int, width: int, tall: int
) -> Iterator[str]:
    """A row of boxes from edge to edge, each with a word and what it means."""
    row = list(pairs)
    each = (width - 2 * edge - GAP * (len(row) - 1)) / len(row)
    for place, (word, meaning) in enumerate(row):
        x = edge + place * (each + GAP)
        yield _frame(kind, x, y, each, tall)
        yield _text(f"{size}middle", x + each / 2, y + (20 if meaning else tall // 2 + 5), word)
        if meaning:
            yield _text("small soft middle", x + each / 2, y + 37, meaning)


def _arrows(number: int, y: int) -> Iterator[str]:
    each = (CALL_WIDTH - 2 * MARGIN - GAP * (number - 1)) / number
    for place in range(number):
        x = MARGIN + place * (each + GAP) + each / 2
        yield f'<path class="arrow" d="M{x:g} {y + 3}v{ARROW - 6}m-5-6 5 6 5-6"/>'


def _frame(kind: str, x: float, y: int, width: float, height: int) -> str:
    return f'<rect class="{kind}" x="{x:g}" y="{y}" width="{width:g}" height="{height}" rx="7"/>'


def _text(kind: str, x: float, y: int, words: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y}">{escape(words)}</text>'


def _drawing(title: str, width: int, height: int, parts: Sequence[str]) -> str:
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img">',
            f"<title>{escape(title)}</title>",
            STYLE,
            _frame("back", 0, 0, width, height),
            *parts,
            "</svg>\n",
        )
    )


if __name__ == "__main__":
    sys.exit(main())
