"""Make the apps of edged/tools/apps: each one HTML file, of its own source and the page's parts.

``python packaging/apps.py`` writes them; ``--check`` ends with status 1 where one is not as it
would be written. The modules are ours and are written for this: every import is
``import { a, b as c } from "./module.js";`` on one line, every export ``export const``,
``export function``, ``export async function`` or ``export class`` at the start of a line.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "edged" / "surfaces" / "page" / "static"
APPS = ROOT / "edged" / "tools" / "apps"
SOURCES = (APPS / "src", PAGE)
NAMES = ("bench", "run")
MAX_BYTES = 150_000
IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.-]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?(?:const|function\*?|class)) (\w+)", re.MULTILINE)
COMMENT = re.compile(r"^\s*//.*\n", re.MULTILINE)


class NotOurs(SystemExit):
    """A module is not written as it must be; ends with status 1."""


def find(name: str) -> Path:
    """A part of the app's own before one of the page's."""
    for source in SOURCES:
        if (source / name).is_file():
            return source / name
    raise NotOurs(f"there is no module {name} in {' or '.join(map(str, SOURCES))}")


def bundle(entry: str) -> str:
    """A module and all that it imports as one script; each keeps its names to itself."""
    order: list[str] = []
    _visit(entry, order, ())
    return "const modules = {};\n" + "".join(map(_wrapped, order[:-1])) + _plain(order[-1])


def _visit(name: str, order: list[str], above: tuple[str, ...]) -> None:
    if name in above:
        raise NotOurs(f"modules import each other: {' -> '.join((*above, name))}")
    if name in order:
        return
    for _, needed in IMPORT.findall(find(name).read_text(encoding="utf-8")):
        _visit(needed, order, (*above, name))
    order.append(name)


def _wrapped(name: str) -> str:
    exported = EXPORT.findall(find(name).read_text(encoding="utf-8"))
    told = ", ".join(found[1] for found in exported)
    return f'modules["{name}"] = (() => {{\n{_plain(name)}return {{ {told} }};\n}})();\n'


def _plain(name: str) -> str:
    """A module without its imports' and exports' own words; the last may wait at its top."""
    text = find(name).read_text(encoding="utf-8")
    text = IMPORT.sub(_taken, text)
    text = EXPORT.sub(r"\1 \2", text)
    if found := re.findall(r"^\s*(?:import|export)\b.*", text, re.MULTILINE):
        raise NotOurs(f"{name}: not understood: {found[0]!r}")
    return COMMENT.sub("", text)


def _taken(found: re.Match[str]) -> str:
    names = found[1].replace(" as ", ": ").strip().rstrip(",")
    return f'const {{ {names} }} = modules["{found[2]}"];\n'


def page(name: str) -> str:
    """The whole file of one app."""
    script = bundle(f"{name}-app.js")
    style = "".join(find(part).read_text(encoding="utf-8") for part in STYLES)
    style = style.replace("color-scheme: light dark;", "") + _themes(style)
    if "</script" in script.lower() or "</style" in style.lower():
        raise NotOurs(f"{name}: a module holds the end of its own element")
    shell = find("shell.html").read_text(encoding="utf-8")
    plot = find(PLOT).read_text(encoding="utf-8")
    made = shell.replace("{{title}}", TITLES[name]).replace("{{style}}", style)
    made = made.replace("{{plot}}", plot).replace("{{script}}", script)
    if len(made.encode()) > MAX_BYTES:
        raise NotOurs(f"{name}: {len(made.encode())} bytes are more than {MAX_BYTES}")
    return made


def _themes(style: str) -> str:
    """The colours of the page's two schemes by the host's word instead of the browser's."""
    light = re.search(r"^:root \{\n(.*?)^\}", style, re.MULTILINE | re.DOTALL)
    dark = re.search(r"dark\) \{\n  :root \{\n(.*?)^  \}", style, re.MULTILINE | re.DOTALL)
    if light is None or dark is None:
        raise NotOurs("style.css has not both schemes in its first lines")
    return "".join(
        f'html[data-theme="{name}"] {{ color-scheme: {name};\n'
        f"{found[1].replace('color-scheme: light dark;', '')}}}\n"
        for name, found in (("light", light), ("dark", dark))
    )


STYLES = ("style.css", "uPlot.min.css", "app.css")
PLOT = "uPlot.iife.min.js"
TITLES = {"bench": "The bench", "run": "A run"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, say what differs")
    options = parser.parse_args()
    stale = 0
    for name in NAMES:
        target, made = APPS / f"{name}.html", page(name)
        if options.check:
            if not target.is_file() or target.read_text(encoding="utf-8") != made:
                sys.stderr.write(f"{target.name} is not what packaging/apps.py makes\n")
                stale = 1
        else:
            target.write_text(made, encoding="utf-8")
            sys.stdout.write(f"{target.name}: {len(made.encode())} bytes\n")
    return stale


if __name__ == "__main__":
    sys.exit(main())
