"""Renders docs/ as a site: its pages, and one for each profile that ships. ``make docs`` runs it.

``python docs/render.py [FOLDER]`` writes to site/, or into the folder. Zensical makes the pages and
looks after links between them; what it does not look after (pictures, files) is looked for here in
what it has made.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from edged.profiles.authoring.checking import class_title  # noqa: E402
from edged.profiles.library_cache import read_library  # noqa: E402

NAV_ROW: Final = re.compile(r"^( +)- (Profiles that ship): library\.md\n", re.MULTILINE)
OWN_PAGE: Final = re.compile(r"\]\(\.\./profiles/(\w+)\.yaml\)")
LIST_IN_A_LIST: Final = re.compile(r"^  - ", re.MULTILINE)
SECTION: Final = re.compile(
    r'(<nav class="md-nav" data-md-level="\d+") aria-labelledby="\w+"( aria-expanded="\w+">\s*'
    r'<label class="md-nav__title"[^>]*>\s*<span class="md-nav__icon md-icon"></span>)([^<]+)<'
)
"""A section of the navigation, named by a label that has no words where it also has a page."""
PATH: Final = '<nav class="md-path" aria-label="Navigation"'
NOT_PAGES: Final = ("*.py", "theme", "__pycache__")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "site")
    site: Path = parser.parse_args().folder.resolve()
    with tempfile.TemporaryDirectory(prefix="edged-site-") as directory:
        work = Path(directory)
        lay_out(work)
        done = subprocess.run(
            [sys.executable, "-m", "zensical", "build", "--strict"], cwd=work, check=False
        )
        if done.returncode:
            return 1
        give_worker(work / "site")
        for page in (work / "site").rglob("*.html"):
            text = page.read_text(encoding="utf-8")
            page.write_text(for_everybody(text), encoding="utf-8", newline="\n")
        lost = sorted(lost_links(work / "site"))
        for page, target in lost:
            sys.stderr.write(f"{page} names {target}, which is not in the site.\n")
        if lost:
            return 1
        shutil.rmtree(site, ignore_errors=True)
        shutil.copytree(work / "site", site)
    return 0


def lay_out(work: Path) -> None:
    """What Zensical reads: docs/ with the pages of profiles, and a navigation that has them."""
    docs = work / "docs"
    shutil.copytree(ROOT / "docs", docs, ignore=shutil.ignore_patterns(*NOT_PAGES))
    shutil.copytree(ROOT / "docs" / "theme", docs / "theme")
    gallery = docs / "library"
    subprocess.run(
        [sys.executable, "-m", "edged", "profile", "docs", "--output", str(gallery),
         "--state-dir", str(work / "state"), str(ROOT / "profiles")],
        stdout=subprocess.DEVNULL,
        check=True,
    )  # fmt: skip
    (gallery / "index.md").unlink()
    for page in gallery.glob("*.md"):
        # Python's Markdown wants four spaces where all others are content with two.
        text = LIST_IN_A_LIST.sub("    - ", page.read_text(encoding="utf-8"))
        page.write_text(text, encoding="utf-8")
    library = docs / "library.md"
    text = library.read_text(encoding="utf-8")
    library.write_text(OWN_PAGE.sub(r"](library/\1.md)", text), encoding="utf-8")
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    filled, found = NAV_ROW.subn(_gallery_rows, config)
    if found != 1:
        message = "mkdocs.yml has no row 'Profiles that ship: library.md', or several"
        raise ValueError(message)
    (work / "mkdocs.yml").write_text(filled, encoding="utf-8")


def _gallery_rows(row: re.Match[str]) -> str:
    """The library's row, with a page for each profile below it, by class."""
    by_class: dict[str, list[tuple[str, str]]] = defaultdict(list)
    library = read_library([ROOT / "profiles"], ROOT / "var")
    for key, profile in library.profiles.items():
        name = f"{profile.manufacturer} {profile.model}".strip() or key
        by_class[class_title(profile.instrument_class)].append((name, key))
    indent, title = row.groups()
    rows = [f"{indent}- {title}:", f"{indent}    - library.md"]
    for kind in sorted(by_class):
        rows.append(f"{indent}    - {kind}:")
        pages = sorted(by_class[kind], key=lambda one: (one[0].lower(), one[1]))
        rows += [f"{indent}        - {json.dumps(name)}: library/{key}.md" for name, key in pages]
    return "\n".join(rows) + "\n"


def for_everybody(page: str) -> str:
    """A page with what the theme leaves out for those who listen to it.

    Each landmark has a name of its own, and no column is announced by an empty heading.
    ``tests/browser/test_site.py`` says when the theme has changed, or does this itself.
    """
    page = SECTION.sub(_named_section, page)
    page = page.replace(PATH, PATH.replace("Navigation", "Path"))
    return page.replace("<th></th>", "<td></td>")


def _named_section(nav: re.Match[str]) -> str:
    begin, title, words = nav.groups()
    return f'{begin} aria-label="{words.strip()}"{title}{words}<'


def give_worker(site: Path) -> None:
    """The program of the search as a script, for pages that are read from a directory."""
    (worker,) = site.glob("assets/javascripts/workers/search.*.js")
    program = json.dumps(worker.read_text(encoding="utf-8"))
    (site / "assets" / "worker.js").write_text(
        "(() => {\n"
        f"  const program = new Blob([{program}], {{type: 'text/javascript'}});\n"
        "  const Plain = Worker;\n"
        "  window.Worker = function () { return new Plain(URL.createObjectURL(program)); };\n"
        "})();\n",
        encoding="utf-8",
    )


class _Links(HTMLParser):
    """What a page names."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del tag
        self.found += [value for name, value in attrs if name in {"href", "src"} and value]


def lost_links(site: Path) -> Iterator[tuple[str, str]]:
    """What the pages name that is not there."""
    for page in site.rglob("*.html"):
        links = _Links()
        links.feed(page.read_text(encoding="utf-8"))
        for target in set(links.found):
            parts = urlsplit(target)
            # The page for what is not found is shown anywhere, and names all from the root.
            if parts.scheme or parts.netloc or not parts.path or page.name == "404.html":
                continue
            if not (page.parent / unquote(parts.path)).exists():
                yield str(page.relative_to(site)), target


if __name__ == "__main__":
    sys.exit(main())
