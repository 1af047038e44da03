"""The README's commands are run, and what it shows is what they say.

Blocks marked ``sh`` are run in order against one engine, the one that ``make run`` would start but
on free ports; a ``text`` block after one is its output (``tests/bench/pages.py``).
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from edged.cli.config import configuration_page
from edged.cli.main import VERBS
from tests.bench.engine import Engine, running_engine
from tests.bench.pages import is_alike

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def blocks() -> list[tuple[str, str]]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return [(found[1], found[2]) for found in FENCE.finditer(text)]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(tmp_path_factory.mktemp("readme")) as running:
        yield running


def run(command: str, engine: Engine) -> str:
    command = (
        command.replace("http://127.0.0.1:8767/mcp", engine.mcp_url)
        .replace("--state-dir var", f"--state-dir {shlex.quote(str(engine.state_dir))}")
        .replace(".venv/bin/edged", f"{shlex.quote(sys.executable)} -m edged")
    )
    if command.startswith("curl") and shutil.which("curl") is None:
        return _without_curl(command)
    done = subprocess.run(
        ["bash", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=30,
        check=False,
        cwd=ROOT,
    )
    return done.stdout


def _without_curl(command: str) -> str:
    words = shlex.split(command.replace("\\\n", " "))
    url = next(word for word in words if word.startswith("http"))
    pairs = list(itertools.pairwise(words))
    headers = dict(value.split(": ", 1) for flag, value in pairs if flag == "-H")
    body = next(value for flag, value in pairs if flag == "-d")
    request = urllib.request.Request(url, body.encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return str(answer.read().decode())


def test_every_command_says_what_the_readme_shows(
    blocks: list[tuple[str, str]], engine: Engine
) -> None:
    compared = 0
    for (kind, command), (next_kind, shown) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if kind != "sh" or command.startswith("make"):
            continue
        said = run(command, engine)
        is_shown = next_kind == "text"
        assert is_alike(said, shown if is_shown else ""), said
        compared += is_shown
    assert compared >= 5


def test_make_run_starts_the_engine_that_the_readme_means(blocks: list[tuple[str, str]]) -> None:
    assert ("sh", "make run\n") in blocks
    done = subprocess.run(
        ["make", "-n", "run"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        cwd=ROOT,
        env={**os.environ, "MAKEFLAGS": ""},
    )
    assert "edged engine --sim --state-dir var" in done.stdout


def test_every_key_that_the_readme_names_is_one(blocks: list[tuple[str, str]]) -> None:
    page = configuration_page()
    for kind, text in blocks:
        if kind == "yaml":
            assert all(f"| {key} |" in page for key in re.findall(r"^([A-Z_]+):", text, re.M))


def test_every_document_that_is_pointed_to_is_there() -> None:
    for name in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
            assert (ROOT / target).exists(), target


def test_the_cli_page_has_every_verb() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert [verb for verb in VERBS if f"| `{verb}" not in page] == []
