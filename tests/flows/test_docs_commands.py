"""The commands on the pages for people are run, in order, against one simulated bench.

A block marked ``sh`` is run; ``sh fails`` must fail; ``sh skip`` is what the fixture has done.
"""

from __future__ import annotations

import gc
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from edged.cli.main import main
from tests.bench.engine_process import EngineProcess, running_engine

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```sh( \w+)?\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
# Doctor has its own verdict: a test machine may well have something that FAILs.
MAY_FAIL = ("edged doctor",)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    with running_engine(tmp_path_factory.mktemp("pages")) as running:
        yield running


# A verb is a program: what it has open at its end the system closes.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("page", ["tutorial.md", "expose.md", "troubleshoot.md"])
def test_every_command_of_a_page_does_what_the_page_says(
    engine: EngineProcess, page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    ran = 0
    for how, commands in BLOCK.findall(text):
        for command in commands.strip().splitlines():
            if how == " skip":
                continue
            state = shlex.quote(str(engine.state_dir))
            words = shlex.split(command.replace("--state-dir var", f"--state-dir {state}"))
            assert words[0] == "edged"
            status = main(words[1:])
            said = capsys.readouterr()
            if not command.startswith(MAY_FAIL):
                assert (status != 0) is (how == " fails"), (command, said)
            assert said.out or said.err, command
            ran += 1
    gc.collect()  # here, and not in the middle of somebody else's test
    assert ran >= 2
