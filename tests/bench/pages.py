"""Pages of the documentation, run: each command against a simulated bench, beside what is shown.

A block of ``sh`` is run, line after line in one shell, each of which must succeed; a block of
``text`` that follows it is its output. Before a block of ``sh`` may stand, where no reader of the
rendered page sees it:

- ``<!-- a terminal of its own -->``: it starts what runs on; the engine of the test stands for it,
- ``<!-- refused -->``: it must fail,
- ``<!-- may fail: REASON -->``: what it says depends on the machine,
- ``<!-- not run: REASON -->``: it cannot be run here.

A block of ``json`` is a call of an agent, made through the official client for Python, where one of
these stands before it; a block of ``text`` that follows is the answer:

- ``<!-- a call -->``: the next block waits for its answer,
- ``<!-- a call that waits -->``: it does not, a person is asked first; ``<!-- its answer -->``
  stands before that.

A block of ``yaml`` after ``<!-- file: NAME -->`` is a file that the page's engine is started with.

Of what is shown numbers, times, ids of runs, the place of recordings and white space may differ; a
line "…" stands for any lines, and "…" at the end of a line for the rest of it. An id in a command
or call stands for the last one of its kind that was told.

``python -m tests.bench.pages docs/tutorial.md`` writes the outputs of a page anew.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.bench.engine_process import REPOSITORY, EngineProcess, engine_process
from tests.bench.sdk_session import SdkSession, sdk_session

BLOCK: Final = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]+) -->\n)?```(?P<kind>sh|json|text)\n(?P<commands>.*?)^```\n"
    r"(?:\n```text\n(?P<shown>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
FILE: Final = re.compile(
    r"^<!-- file: (?P<name>\S+) -->\n```yaml\n(?P<text>.*?)^```\n", re.MULTILINE | re.DOTALL
)
OWN_TERMINAL: Final = "a terminal of its own"
REFUSED: Final = "refused"
MAY_FAIL: Final = "may fail: "
NOT_RUN: Final = "not run: "
CALL: Final = "a call"
WAITING_CALL: Final = "a call that waits"
ITS_ANSWER: Final = "its answer"
OF_AN_AGENT: Final = {CALL: "json", WAITING_CALL: "json", ITS_ANSWER: "text"}
"""What an agent does → the kind of its block; without such a mark these kinds are only shown."""
AGENT: Final = "python-sdk-2-legacy"
WITHIN_S: Final = 60.0
POLL_S: Final = 0.02
WIDTH: Final = 88
"""Characters of a line that a page of the site shows."""
VARYING: Final = re.compile(
    r"""\S*/(?=runs/\d{4}-)   # where recordings lie
    | \blease-[\w-]{22}(?![\w-])   # an id
    | \b(?:ask|exp|plan|sweep|seq|stream|mcp|run|lease|act)-[0-9a-f]{4,}(?:-\d+)?\b
    | \b\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?)?   # a date or time
    | \b\d{1,2}:\d\d(?::\d\d)?(?:\.\d+)?\b
    | [-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?   # a number
    """,
    re.VERBOSE,
)
ID: Final = re.compile(
    r"\b(ask|exp|lease|sweep|seq|stream|mcp)-(?:[\w-]{22}(?![\w-])|[0-9a-f]{4,}(?:-\d+)?\b)"
)
SPACE: Final = re.compile(r"[\s─-]+")
"""White space, and the lines that tables are ruled with."""
ANY_LINES: Final = "…"
USUAL: Final = "http://127.0.0.1:8767"
"""Where a page's reader has the engine; that of a test has a free port."""
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
    """What is done on a page, in order."""
    return [block for match in BLOCK.finditer(text) if (block := _block(match)) is not None]


def _block(match: re.Match[str]) -> Block | None:
    """``None``: it is shown, and nothing is done."""
    mark, kind, body = match["mark"] or "", match["kind"], match["commands"]
    if kind != "sh" and not mark:
        return None
    if (kind != "sh" or mark in OF_AN_AGENT) and OF_AN_AGENT.get(mark) != kind:
        raise Differs(f"<!-- {mark} --> means nothing before {kind}")
    return Block(mark, "", body) if mark == ITS_ANSWER else Block(mark, body, match["shown"])


def files_of(text: str) -> dict[str, str]:
    """Name → text of the files that a page's engine is started with."""
    return {match["name"]: match["text"] for match in FILE.finditer(text)}


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
    ids = Ids()
    with Reader(engine, home) as reader:
        for block in blocks_of(text):
            if block.mark == OWN_TERMINAL or block.mark.startswith(NOT_RUN):
                continue
            asked = ids.replaced(block.commands)
            agent = block.mark in OF_AN_AGENT
            said = reader.call(block, asked) if agent else reader.type(block, asked)
            ids.hear(said)
            if said or not agent:
                yield block, said


class Ids:
    """The ids that a page's reader has in mind: of each kind the last that was told."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def hear(self, said: str) -> None:
        self._last |= {match[1]: match[0] for match in ID.finditer(said)}

    def replaced(self, commands: str) -> str:
        return ID.sub(lambda match: self._last.get(match[1], match[0]), commands)


class Reader:
    """Who follows a page: types its commands, and has an agent make its calls."""

    def __init__(self, engine: EngineProcess, home: Path) -> None:
        self._engine = engine
        self._home = home
        self._environment = _environment(engine, home)
        self._stack = contextlib.ExitStack()
        self._agent: SdkSession | None = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def type(self, block: Block, commands: str) -> str:
        """Run a block of ``sh``; what it says."""
        may_fail = block.mark.startswith(MAY_FAIL)
        if block.mark not in ("", REFUSED) and not may_fail:
            raise Differs(f"<!-- {block.mark} --> means nothing here")
        done = subprocess.run(
            ["bash", "-ec", commands.replace(USUAL, _base(self._engine))],
            cwd=self._home,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        both = done.stdout + done.stderr
        is_as_told = may_fail or (done.returncode != 0) is (block.mark == REFUSED)
        if not is_as_told or "Traceback" in both:
            raise Differs(f"{commands}exited with {done.returncode}: {both}")
        # How far something long has come is told on standard error, as often as time allows.
        return both if block.mark == REFUSED else done.stdout

    def call(self, block: Block, asked: str) -> str:
        """Let the agent call, or take the answer that it waits for; empty while it waits."""
        if self._agent is None:
            session = sdk_session(AGENT, self._engine.mcp_url)
            self._agent = self._stack.enter_context(session)
        if asked:
            told = json.loads(asked)
            self._agent.begin("answer", name=told["name"], arguments=told["arguments"])
        if block.mark == WAITING_CALL:
            self._wait_for_question()
            return ""
        return _laid_out(self._agent.ended()["ok"])

    def _wait_for_question(self) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not self._engine.rpc("approvals.list")["approvals"]:
            if time.monotonic() > deadline:
                raise Differs("nobody is asked about a call that waits")
            time.sleep(POLL_S)  # noqa: TID251 - another process asks


def _laid_out(answer: str) -> str:
    """An answer as a page shows it: JSON in lines that a page has room for."""
    with contextlib.suppress(ValueError):
        return _lines(json.loads(answer), 0) + "\n"
    return answer + "\n"


def _lines(value: Any, depth: int) -> str:
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + 2 * depth <= WIDTH or not value or not isinstance(value, dict | list):
        return flat
    inner = "\n" + "  " * (depth + 1)
    outer = "\n" + "  " * depth
    if isinstance(value, dict):
        rows = [f"{json.dumps(key)}: {_lines(one, depth + 1)}" for key, one in value.items()]
        return "{" + inner + f",{inner}".join(rows) + outer + "}"
    return "[" + inner + f",{inner}".join(_lines(one, depth + 1) for one in value) + outer + "]"


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
    done = deque(
        (block, told.replace(str(home.parent / "data"), RECORDINGS).replace(_base(engine), USUAL))
        for block, told in run_page(text, engine, home)
    )
    ids = Ids()

    def renewed(match: re.Match[str]) -> str:
        block = _block(match)
        if block is None:
            return match[0]
        asked = ids.replaced(block.commands)
        whole = match[0].replace(block.commands, asked, 1)
        if not done or done[0][0] != block:
            return whole
        (_, told), shown = done.popleft(), block.shown
        if shown is None:
            return whole
        if not (ANY_LINES in shown and is_alike(told, shown)):
            whole, shown = whole.replace(f"```text\n{shown}```", f"```text\n{told}```"), told
        ids.hear(shown)
        return whole

    return BLOCK.sub(renewed, text)


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the outputs that pages show anew.")
    parser.add_argument("pages", nargs="+", type=Path)
    for page in parser.parse_args().pages:
        with tempfile.TemporaryDirectory() as place:
            text = page.read_text("utf-8")
            with running_page(page.name, text, Path(place)) as (engine, home):
                page.write_text(_written_anew(text, engine, home), "utf-8")
            for made, shown in PICTURES.get(page.name, {}).items():
                shutil.copyfile(home / made, page.parent / "pictures" / shown)
    return 0


@contextlib.contextmanager
def running_page(
    page: str, text: str, place: Path, **config: Any
) -> Iterator[tuple[EngineProcess, Path]]:
    """The engine that a page tells its reader to start, and the directory of the reader."""
    for name, content in files_of(text).items():
        (place / name).write_text(content, encoding="utf-8")
    home = place / "home"
    home.mkdir()
    with engine_process(place, *arguments_of(page), config=config) as engine:
        yield engine, home


def arguments_of(page: str) -> tuple[str, ...]:
    """What the engine of a page is started with besides ``--sim``."""
    return ENGINES.get(page, ())


ENGINES: Final[Mapping[str, tuple[str, ...]]] = {
    "experiment.md": ("--instruments", "psu1,dmm1,scope1,load1=rigol_dl3021"),
    "experiments.md": (
        "--instruments",
        "smu1=keithley_2400,smu2=keithley_2400",
        "--transistor",
        "smu1=smu2",
    ),
}
"""Pages that tell their reader to start another bench than ``edged engine --sim`` has."""


PICTURES: Final[Mapping[str, Mapping[str, str]]] = {
    "experiment.md": {"knee.png": "experiment.png"},
    "tutorial.md": {"iv.png": "tutorial-iv.png"},
}
"""Pictures that a page's commands make → as which the page shows them."""


if __name__ == "__main__":
    raise SystemExit(main())
