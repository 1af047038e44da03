"""The panels that hosts of MCP Apps show inside a chat: one HTML file each, made when it is read.

A panel is made of its own source (``apps``) and of the parts of the bench page (``static``), so
that both show the same thing in the same way. The modules are ours and are written for this: every
import is ``import { a, b as c } from "./module.js";`` on one line, every export ``export const``,
``export function``, ``export async function`` or ``export class`` at the start of a line.
"""

from __future__ import annotations

import re
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from edged.errors import ErrorCode, NotFound

PANELS: Final = MappingProxyType({"bench": "The bench", "run": "A run"})
"""Name → title."""
FOLDERS: Final = ("apps", "static")
STYLES: Final = ("style.css", "uPlot.min.css", "app.css")
PLOT: Final = "uPlot.iife.min.js"
IMPORT: Final = re.compile(r'^import \{([^}]*)\} from "\./([\w.-]+)";\n', re.MULTILINE)
EXPORT: Final = re.compile(r"^export ((?:async )?(?:const|function\*?|class)) (\w+)", re.MULTILINE)
COMMENT: Final = re.compile(r"^\s*//.*\n", re.MULTILINE)
BY_BROWSER: Final = "color-scheme: light dark;"
SCHEMES: Final = {
    "light": re.compile(r"^:root \{\n(.*?)^\}", re.MULTILINE | re.DOTALL),
    "dark": re.compile(r"dark\) \{\n  :root \{\n(.*?)^  \}", re.MULTILINE | re.DOTALL),
}


def read_panel(name: str) -> str:
    """The file of a panel. From the disk: not on the event loop.

    Raises:
        NotFound: UNKNOWN_RESOURCE, there is no such panel.
    """
    if name not in PANELS:
        raise NotFound(
            f"There is no app {name[:100]!r}.",
            code=ErrorCode.UNKNOWN_RESOURCE,
            remedy=f"The apps are {' and '.join(PANELS)}.",
        )
    style = "".join(map(_read, STYLES))
    parts = {
        "title": PANELS[name],
        "style": style.replace(BY_BROWSER, "") + _themes(style),
        "plot": _read(PLOT),
        "script": _bundle(f"{name}-app.js"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _read("shell.html"))


def _read(name: str) -> str:
    """A part: the panels' own before the page's."""
    for folder in FOLDERS:
        part = files(__package__).joinpath(folder, name)
        if part.is_file():
            return part.read_text(encoding="utf-8")
    raise FileNotFoundError(name)


def _bundle(entry: str) -> str:
    """A module and all that it imports as one script; each keeps its names to itself."""
    modules: dict[str, str] = {}
    _collect(entry, modules)
    *needed, last = modules.items()
    wrapped = "".join(
        f'modules["{name}"] = (() => {{\n{_plain(text)}'
        f"return {{ {', '.join(found[1] for found in EXPORT.findall(text))} }};\n}})();\n"
        for name, text in needed
    )
    return f"const modules = {{}};\n{wrapped}{_plain(last[1])}"


def _collect(name: str, modules: dict[str, str]) -> None:
    """Put a module behind those that it imports; none imports itself, by whatever way."""
    text = _read(name)
    for _, needed in IMPORT.findall(text):
        if needed not in modules:
            _collect(needed, modules)
    modules[name] = text


def _plain(text: str) -> str:
    """A module without its imports' and exports' own words; the last may wait at its top."""
    text = EXPORT.sub(r"\1 \2", IMPORT.sub(_taken, text))
    return COMMENT.sub("", text)


def _taken(found: re.Match[str]) -> str:
    names = found[1].replace(" as ", ": ").strip().rstrip(",")
    return f'const {{ {names} }} = modules["{found[2]}"];\n'


def _themes(style: str) -> str:
    """The colours of the page's two schemes by the host's word instead of the browser's."""
    return "".join(
        f'html[data-theme="{name}"] {{ color-scheme: {name};\n'
        f"{scheme.findall(style)[0].replace(BY_BROWSER, '')}}}\n"
        for name, scheme in SCHEMES.items()
    )
