"""Puts what a benchmark measures into docs/benchmarks.md.

``python -m benchmarks.page NAME …`` runs ``benchmarks.NAME --json`` for each name and replaces its
table, which stands between ``<!-- generated: benchmarks.NAME -->`` and its end; then the list of
bounds that are not kept is made again from all tables. `make bench` does the same with its own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.bench.engine_process import REPOSITORY

PAGE = REPOSITORY / "docs" / "benchmarks.md"
NOT_KEPT = "**not kept**"
LIST = "bounds that are not kept"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", help="such as cost or startup")
    statuses = [_measure(name) for name in parser.parse_args().names]
    return max(statuses)


def _measure(name: str) -> int:
    module = f"benchmarks.{name}"
    words = [sys.executable, "-m", module, "--json"]
    done = subprocess.run(words, cwd=REPOSITORY, stdout=subprocess.PIPE, check=False)
    told = json.loads(done.stdout)
    head = f"{told['title']}, {commit()}, {datetime.now(UTC):%Y-%m-%d}, {machine()}:"
    put(module, [head, "", "| what | measured | bound |", "|---|---|---|", *_rows(told["figures"])])
    return done.returncode


def machine() -> str:
    """What it was measured on; a load above the number of cores means that others were at work."""
    named = re.search(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.M)
    kind = named[1] if named else platform.machine()
    load = f"{os.cpu_count()} cores under a load of {os.getloadavg()[0]:.1f}"
    return f"Python {platform.python_version()} on {kind}, {load}"


def _rows(figures: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for one in figures:
        bound, unit = one["bound"], one["unit"]
        verdict = "" if bound is None or one["value"] <= bound else f" {NOT_KEPT}"
        value = f"{one['value']:.3g}" if one["value"] < 1_000 else f"{one['value']:,.0f}"
        limit = "" if bound is None else f"≤ {bound:g} {unit}".strip()
        yield f"| {one['name']} | {value} {unit}".rstrip() + f"{verdict} | {limit} |"


def put(name: str, lines: Sequence[str]) -> None:
    """Replace the table of that name, and the list of what is not kept."""
    text = replaced(PAGE.read_text(), name, lines)
    PAGE.write_text(replaced(text, LIST, list(not_kept(text))))


def replaced(text: str, name: str, lines: Sequence[str]) -> str:
    """The page with that table in the place of the one before.

    Raises:
        SystemExit: it has no place there.
    """
    begin, end = f"<!-- generated: {name} -->", f"<!-- end of {name} -->"
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise SystemExit(f"{PAGE.name} has no place for {name}: {begin} … {end}")
    table = "\n".join(lines)
    return f"{before}{begin}\n{table}\n{end}{after}"


def not_kept(text: str) -> Iterator[str]:
    """A table of the rows that say so, with what each is a row of."""
    rows = []
    section = ""
    for line in text.partition(f"<!-- end of {LIST} -->")[2].splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        if line.startswith("| ") and NOT_KEPT in line:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            at = next(number for number, cell in enumerate(cells) if NOT_KEPT in cell)
            measured = cells[at].replace(NOT_KEPT, "").strip()
            rows.append(f"| {': '.join((section, *cells[:at]))} | {measured} | {cells[at + 1]} |")
    yield from ["| what | measured | bound |", "|---|---|---|", *rows] if rows else ["None."]


def commit() -> str:
    """Which tree this is."""
    return subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()


if __name__ == "__main__":
    raise SystemExit(main())
