"""Pages of the documentation, run: each command against a simulated bench, beside what is shown.

A block of ``sh`` is run, line after line in one shell, each of which must succeed; a block of
``text`` that follows it is its output. Before a block of ``sh`` may stand, where no reader of the
rendered page sees it:

- ``<!-- a terminal of its own -->``: it starts what runs on; the engine of the test stands for it,
- ``<!-- refused -->``: it must fail,
- ``<!-- may fail: REASON -->``: what it says depends on the machine,
- ``<!-- not run: REASON -->``: it cannot be run here.

Of what is shown numbers, times, ids of runs, the place of recordings and white space may differ; a
line "…" stands for any lines, and "…" at the end of a line for the rest of it.

``python -m tests.bench.pages docs/tutorial.md`` writes the outputs of a page anew.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.engine_process import REPOSITORY, EngineProcess, running_engine

__all__ = [
    "MAY_FAIL",
    "NOT_RUN",
    "Block",
    "Differs",
    "arguments_of",
    "blocks_of",
    "is_alike",
    "run_page",
]

BLOCK: Final = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]+) -->\n)?```sh\n(?P<commands>.*?)^```\n"
    r"(?:\n```text\n(?P<shown>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
OWN_TERMINAL: Final = "a terminal of its own"
REFUSED: Final = "refused"
MAY_FAIL: Final = "may fail: "
NOT_RUN: Final = "not run: "
WITHIN_S: Final = 60.0
VARYING: Final = re.compile(
    r"""\S*/(?=runs/\d{4}-)   # where recordings lie
    | \b(?:sweep|seq|stream|mcp|run|lease|act)-[0-9a-f]{4,}(?:-\d+)?\b   # an id of a run
    | \b\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?)?   # a date or time
    | \b\d{1,2}:\d\d(?::\d\d)?(?:\.\d+)?\b
    | [-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?   # a number
    """,
    re.VERBOSE,
)
SPACE: Final = re.compile(r"[\s─-]+")
"""White space, and the lines that tables are ruled with."""
ANY_LINES: Final = "…"
RECORDINGS: Final = "/home/ada/edged/var/data"
"""Where they lie after `make run` in the clone of somebody called ada."""


class Differs(AssertionError):
    """What a page shows is not what its command says, or the command does not do as it is told."""


@dataclass(frozen=True, slots=True)
class Block:
    """Commands of a page.

    Attributes:
        mark: what stands before it; empty for nothing.
        shown: its output as the page has it; ``None``: none is shown.
    """

    mark: str
    commands: str
    shown: str | None


def blocks_of(text: str) -> list[Block]:
    """The blocks of ``sh`` of a page, in order."""
    found = (match.groupdict() for match in BLOCK.finditer(text))
    return [Block(one["mark"] or "", one["commands"], one["shown"]) for one in found]


def is_alike(said: str, shown: str) -> bool:
    """Whether an output is what a page shows, by the rule of this module."""
    pattern = "".join(map(_line_pattern, shown.strip("\n").splitlines()))
    return re.fullmatch(pattern, _essence(said), re.DOTALL) is not None


def _line_pattern(line: str) -> str:
    """What the essence of a shown line has to match."""
    text = line.strip()
    if text == ANY_LINES:
        return ".*"
    cut = text.removesuffix(ANY_LINES)
    return re.escape(_essence(cut)) + ("" if cut == text else ".*?")


def _essence(text: str) -> str:
    return SPACE.sub("", VARYING.sub("#", text))


def run_page(text: str, engine: EngineProcess, home: Path) -> Iterator[tuple[Block, str]]:
    """Run the blocks of a page; each with what it said.

    Args:
        engine: the page's bench.
        home: an empty directory, in which the commands run.

    Raises:
        Differs: a command failed, or one that must be refused did not.
    """
    environment = _environment(engine, home)
    for block in blocks_of(text):
        if block.mark == OWN_TERMINAL or block.mark.startswith(NOT_RUN):
            continue
        may_fail = block.mark.startswith(MAY_FAIL)
        if block.mark not in ("", REFUSED) and not may_fail:
            raise Differs(f"<!-- {block.mark} --> means nothing here")
        done = subprocess.run(
            ["bash", "-ec", block.commands.replace("http://127.0.0.1:8767", _base(engine))],
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        both = done.stdout + done.stderr
        is_as_told = may_fail or (done.returncode != 0) is (block.mark == REFUSED)
        if not is_as_told or "Traceback" in both:
            raise Differs(f"{block.commands}exited with {done.returncode}: {both}")
        # How far something long has come is told on standard error, as often as time allows.
        yield block, both if block.mark == REFUSED else done.stdout


def _base(engine: EngineProcess) -> str:
    return engine.mcp_url.removesuffix("/mcp")


def _environment(engine: EngineProcess, home: Path) -> Mapping[str, str]:
    program = home / "bin" / "edged"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m edged "$@"\n')
    program.chmod(0o755)
    # The page says `export EDGED_STATE_DIR=var` of the directory that its reader is in.
    var = home / "var"
    if not var.exists():
        var.symlink_to(engine.state_dir)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EDGED_")}
    return {
        **kept,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "EDGED_STATE_DIR": "var",
        "COLUMNS": "110",
        "NO_COLOR": "1",
    }


def _written_anew(text: str, engine: EngineProcess, home: Path) -> str:
    """A page with the outputs as they are now; what is cut by "…" stays as it is while it fits."""
    said = {
        (block.commands, block.shown): told.replace(str(home.parent / "data"), RECORDINGS)
        for block, told in run_page(text, engine, home)
    }

    def renewed(match: re.Match[str]) -> str:
        told = said.get((match["commands"], match["shown"]))
        if told is None or match["shown"] is None:
            return match[0]
        if ANY_LINES in match["shown"] and is_alike(told, match["shown"]):
            return match[0]
        return match[0].replace(f"```text\n{match['shown']}```", f"```text\n{told}```")

    return BLOCK.sub(renewed, text)


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the outputs that pages show anew.")
    parser.add_argument("pages", nargs="+", type=Path)
    for page in parser.parse_args().pages:
        with tempfile.TemporaryDirectory() as place:
            home = Path(place) / "home"
            home.mkdir()
            with running_engine(Path(place), *arguments_of(page.name)) as engine:
                page.write_text(_written_anew(page.read_text("utf-8"), engine, home), "utf-8")
            for made, shown in PICTURES.get(page.name, {}).items():
                shutil.copyfile(home / made, page.parent / "pictures" / shown)
    return 0


def arguments_of(page: str) -> tuple[str, ...]:
    """What the engine of a page is started with besides ``--sim``."""
    return ENGINES.get(page, ())


ENGINES: Final[Mapping[str, tuple[str, ...]]] = {
    "experiment.md": ("--instruments", "psu1,dmm1,scope1,load1=rigol_dl3021"),
}
"""Pages that tell their reader to start another bench than ``edged engine --sim`` has."""


PICTURES: Final[Mapping[str, Mapping[str, str]]] = {
    "experiment.md": {"knee.png": "experiment.png"},
    "tutorial.md": {"iv.png": "tutorial-iv.png"},
}
"""Pictures that a page's commands make → as which the page shows them."""


if __name__ == "__main__":
    raise SystemExit(main())
