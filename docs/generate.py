"""Writes what is generated in docs/ from the code: the map of modules. Run by ``make docs``.

``python docs/generate.py --check`` changes nothing and ends with 1 where the page is out of date.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- generated: modules -->", "<!-- end of generated -->"
FLOORS = (
    ("8", ("cli",)),
    ("7", ("processes", "doctor")),
    ("6", ("surfaces", "relay")),
    ("5", ("tools",)),
    ("4", ("commands",)),
    ("3", ("work",)),
    ("2", ("instruments", "sdk", "sim", "auth", "store", "plot", "http")),
    ("1", ("protocol", "profiles", "actions")),
    ("0", ("yaml", "")),
)


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    made = f"{before}{BEGIN}\n{_map()}{END}{after}"
    if "--check" in sys.argv:
        if made != page:
            sys.stderr.write("docs/architecture.md is out of date: run `make docs`.\n")
        return 0 if made == page else 1
    PAGE.write_text(made, encoding="utf-8", newline="\n")
    return 0


def _map() -> str:
    lines = []
    for floor, rooms in FLOORS:
        for room in rooms:
            folder = ROOT / "edged" / room
            if not folder.is_dir():
                continue
            found = sorted(folder.rglob("*.py") if room else folder.glob("*.py"))
            lines.append(f"\n### Floor {floor}: {room or 'ground'}\n")
            lines.append("| module | lives there |\n|---|---|")
            lines += [row for path in found if (row := _row(path))]
    return "\n".join(lines) + "\n"


def _row(path: Path) -> str:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    sentence = (ast.get_docstring(tree) or "").split("\n\n")[0].replace("\n", " ")
    name = path.relative_to(ROOT / "edged").as_posix()
    if path.name == "__init__.py" or not sentence:
        return ""
    return f"| {name} | {sentence.replace('|', chr(92) + '|')} |"


if __name__ == "__main__":
    raise SystemExit(main())
