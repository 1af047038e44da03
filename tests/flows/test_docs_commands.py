"""The commands on the pages for people are run, in order, against one simulated bench.

Every block of ``sh`` is run, but those that say ``a terminal of its own`` before them (what they
start runs for ever); one that says ``refused`` must fail. Readers of the rendered page see neither.
"""

from __future__ import annotations

import gc
import itertools
import json
import re
import shlex
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from edged.cli.main import main
from tests.bench.engine_process import EngineProcess, running_engine

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^(?:<!-- ([a-z ]+) -->\n)?```sh\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
MARKS = {"", "a terminal of its own", "refused"}
# Doctor has its own verdict: a test machine may well have something that FAILs.
MAY_FAIL = ("edged doctor",)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    with running_engine(tmp_path_factory.mktemp("pages")) as running:
        yield running


# A verb is a program: what it has open at its end the system closes.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("page", "least"),
    [
        ("expose.md", 2),
        ("troubleshoot.md", 3),
        ("relay.md", 1),
        ("hislip.md", 2),
    ],
)
def test_every_command_of_a_page_does_what_the_page_says(
    engine: EngineProcess,
    page: str,
    least: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    ran = 0
    for mark, commands in BLOCK.findall(text):
        assert mark in MARKS
        for command in commands.strip().splitlines():
            if mark == "a terminal of its own":
                continue
            state = shlex.quote(str(engine.state_dir))
            words = shlex.split(command.replace("--state-dir var", f"--state-dir {state}"))
            assert words[0] == "edged"
            status = main(words[1:])
            said = capsys.readouterr()
            if not command.startswith(MAY_FAIL):
                assert (status != 0) is (mark == "refused"), (command, said)
            assert said.out or said.err, command
            ran += 1
    gc.collect()  # here, and not in the middle of somebody else's test
    assert ran >= least


def test_the_call_on_the_page_of_the_rpc_interface_is_answered(engine: EngineProcess) -> None:
    ((_, command),) = BLOCK.findall((ROOT / "docs" / "rpc.md").read_text(encoding="utf-8"))
    words = shlex.split(command.replace("\\\n", " "))
    pairs = list(itertools.pairwise(words))
    (url,) = (word for word in words if word.startswith("http"))
    (body,) = (value.encode() for flag, value in pairs if flag == "-d")
    headers = dict(value.split(": ", 1) for flag, value in pairs if flag == "-H")
    here = url.replace(":8766/", f":{engine.ports['rpc_port']}/")
    assert here != url
    with urllib.request.urlopen(urllib.request.Request(here, body, headers), timeout=30) as answer:
        assert json.load(answer)["result"]["result"]["edge_id"]
