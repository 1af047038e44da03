"""The commands of each page are run, and say what it shows (``tests/bench/pages.py``)."""

from __future__ import annotations

import itertools
import json
import shlex
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edged.experiments.examples import EXAMPLES
from tests.bench.engine import running_engine
from tests.bench.engine_process import REPOSITORY
from tests.bench.pages import (
    NOT_RUN,
    Differs,
    blocks_of,
    is_alike,
    run_page,
    running_page,
)

DOCS = REPOSITORY / "docs"
RUN_HERE = {
    "agent.md": 18,
    "audit.md": 0,
    "cli.md": 0,
    "discovery.md": 0,
    "doctor.md": 0,
    "experiment.md": 3,
    "experiments.md": 3,
    "expose.md": 0,
    "hislip.md": 0,
    "import.md": 0,
    "index.md": 3,
    "instruments.md": 0,
    "notebooks.md": 0,
    "page.md": 0,
    "relay.md": 0,
    "sharing.md": 6,
    "streams.md": 0,
    "sweeps.md": 0,
    "troubleshoot.md": 0,
    "tutorial.md": 6,
}
"""Page → how many outputs it shows at least; each has a bench of its own."""
RUN_ELSEWHERE = {
    "add-your-instrument.md": "tests/docs/test_add_your_instrument.py",
    "fleet.md": "tests/docs/test_fleet_page.py",
    "raw-scpi.md": "tests/docs/test_raw_scpi_page.py",
    "rpc.md": "tests/docs/test_docs_pages.py",
}


@pytest.mark.parametrize("page", RUN_HERE)
def test_every_command_of_a_page_says_what_the_page_shows(page: str, tmp_path: Path) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    compared = 0
    with running_page(page, text, tmp_path) as (engine, home):
        for block, said in run_page(text, engine, home):
            if block.shown is not None:
                assert is_alike(said, block.shown), f"{block.commands}says:\n{said}"
                compared += 1
    assert compared >= RUN_HERE[page]


def test_the_plan_on_the_page_of_experiments_is_the_one_to_begin_with() -> None:
    page = (DOCS / "experiments.md").read_text(encoding="utf-8")
    assert f"```yaml\n{EXAMPLES['map']}```" in page


def test_the_call_on_the_page_of_the_rpc_interface_is_answered(tmp_path: Path) -> None:
    (block,) = blocks_of((DOCS / "rpc.md").read_text(encoding="utf-8"))
    words = shlex.split(block.commands.replace("\\\n", " "))
    pairs = list(itertools.pairwise(words))
    (url,) = (word for word in words if word.startswith("http"))
    (body,) = (value.encode() for flag, value in pairs if flag == "-d")
    headers = dict(value.split(": ", 1) for flag, value in pairs if flag == "-H")
    with running_engine(tmp_path) as engine:
        here = url.replace(":8766/", f":{engine.ports['rpc_port']}/")
        assert here != url
        request = urllib.request.Request(here, body, headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert json.load(answer)["result"]["result"]["edge_id"]


def test_every_page_with_commands_is_run_by_a_test() -> None:
    with_commands = {
        path.name for path in DOCS.glob("*.md") if "```sh\n" in path.read_text(encoding="utf-8")
    }
    assert with_commands == {*RUN_HERE, *RUN_ELSEWHERE}
    for page, test in RUN_ELSEWHERE.items():
        assert page in (REPOSITORY / test).read_text(encoding="utf-8")


def test_a_block_that_is_not_run_says_why() -> None:
    reasons = [
        block.mark.removeprefix(NOT_RUN)
        for path in DOCS.glob("*.md")
        for block in blocks_of(path.read_text(encoding="utf-8"))
        if block.mark.startswith(NOT_RUN)
    ]
    assert [reason for reason in reasons if len(reason) < 10] == []


@pytest.mark.parametrize(
    "page",
    [
        "```sh\nfalse\ntrue\n```\n",
        "<!-- refused -->\n```sh\ntrue\n```\n",
        "<!-- may fail -->\n```sh\ntrue\n```\n",
        "```sh\necho Traceback\n```\n",
        "<!-- a cal -->\n```json\n{}\n```\n",
        "<!-- a call -->\n```sh\ntrue\n```\n",
    ],
)
def test_a_block_that_does_not_do_as_its_page_says_is_told(page: str, tmp_path: Path) -> None:
    engine: Any = SimpleNamespace(mcp_url="http://127.0.0.1:1/mcp", state_dir=tmp_path)
    with pytest.raises(Differs):
        list(run_page(page, engine, tmp_path))


def test_an_id_in_a_command_is_the_last_of_its_kind_that_was_told(tmp_path: Path) -> None:
    engine: Any = SimpleNamespace(mcp_url="http://127.0.0.1:1/mcp", state_dir=tmp_path)
    page = (
        "```sh\necho sweep-$((1111)) seq-$((4444))\n```\n"
        "```sh\necho sweep-$((2222))\n```\n"
        "```sh\necho show sweep-0a1b2c3d seq-99999999 ask-33333333\n```\n"
    )
    *_, (_, said) = run_page(page, engine, tmp_path)
    assert said == "show sweep-2222 seq-4444 ask-33333333\n"


def test_what_an_agent_is_not_told_to_call_is_only_shown() -> None:
    assert blocks_of('```json\n{"name": "stop"}\n```\n\n```text\nno\n```\n') == []
    assert blocks_of("```text\nno\n```\n") == []


def test_numbers_ids_times_and_places_of_an_output_may_differ() -> None:
    assert is_alike("run  sweep-0a1b2c3d at 12:01:02  1.5e-3 V", "run sweep-99999999 at 9:00 2 V")
    assert is_alike("in /a/b/runs/2026-01-02/seq-aa11bb-2\n", "in ~/x/runs/2025-01-01/seq-1234-1")


def test_words_of_an_output_may_not_differ() -> None:
    assert not is_alike("completed 5 rows", "failed 5 rows")
    assert not is_alike("completed", "")
    assert not is_alike("one\ntwo", "one")


def test_what_a_page_cuts_may_be_anything() -> None:
    assert is_alike("a\nb\nc\nd", "a\n…\nd")
    assert is_alike("a long line\nd", "a …\nd")
    assert not is_alike("a\nb\nc", "a\n…\nd")
