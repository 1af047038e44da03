"""docs/add-your-instrument.md, followed literally: its commands are run as they stand."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bench.engine_process import REPOSITORY

pytestmark = pytest.mark.timeout(600)

PAGE = (REPOSITORY / "docs" / "add-your-instrument.md").read_text(encoding="utf-8")
OWN_TERMINAL = "<!-- a terminal of its own -->\n"
FENCE = re.compile(r"(<!-- a terminal of its own -->\n)?```(sh|yaml)\n(.*?)```\n", re.DOTALL)
PORT = "50250"
WITHIN_S = 30.0
MINUTES = 15.0


@dataclass(slots=True)
class Reader:
    """Somebody who does what the page says, in a home of their own."""

    home: Path
    port: int
    terminals: list[subprocess.Popen[bytes]]

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
        config = self.home / ".config" / "edged"
        return {
            **kept,
            "HOME": str(self.home),
            "PATH": f"{self.home / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY),
            # Free ports and nothing of this machine, which the page need not mention.
            "EDGED_MCP_PORT": "0",
            "EDGED_RPC_PORT": "0",
            "EDGED_DISCOVERY": "[]",
            # Where a user has them; whoever runs the tests may be root, who has the system's.
            "EDGED_PROFILE_DIRS": f"[{REPOSITORY / 'profiles'}, {config / 'profiles'}]",
            "EDGED_BENCH_FILE": str(config / "bench.yaml"),
            "EDGED_STATE_DIR": str(self.home / ".local/state/edged"),
            "EDGED_DATA_DIR": str(self.home / ".local/share/edged"),
        }

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", line], cwd=self.home, env=self.environment,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    def open_terminal(self, line: str) -> None:
        words = shlex.split(line)
        with (self.home / f"terminal-{len(self.terminals)}.log").open("wb") as log:
            self.terminals.append(
                subprocess.Popen(
                    [sys.executable, "-m", *words],
                    cwd=self.home,
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                ),
            )

    def until_works(self, line: str) -> None:
        """What a person does who waits for a program to be ready."""
        deadline = time.monotonic() + WITHIN_S
        while self.run(line).returncode != 0:
            assert time.monotonic() < deadline, (line, self.run(line))


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    tools = tmp_path / "bin"
    tools.mkdir()
    program = tools / "edged"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m edged "$@"\n')
    program.chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    reader = Reader(tmp_path, port, [])
    yield reader
    for process in reversed(reader.terminals):
        process.terminate()
        process.wait(10)


@pytest.mark.timeout(240)
def test_the_page_works_as_it_stands_and_within_its_fifteen_minutes(reader: Reader) -> None:
    began = time.monotonic()
    profile = reader.home / ".config/edged/profiles/example_gx100.yaml"
    for own_terminal, kind, text in FENCE.findall(PAGE.replace(PORT, str(reader.port))):
        if kind == "yaml":
            draft = profile.read_text(encoding="utf-8")
            profile.write_text(draft.split("commands:\n")[0] + text, encoding="utf-8")
        elif own_terminal:
            reader.open_terminal(text.strip())
            is_engine = " engine " in text
            reader.until_works(
                "edged instruments | grep -q ready" if is_engine
                else f"exec 3<>/dev/tcp/127.0.0.1/{reader.port}"
            )  # fmt: skip
        else:
            for line in text.splitlines():
                is_refused = "# refused" in line
                done = reader.run(line)
                # A machine at work on other things takes a changed file in later.
                deadline = time.monotonic() + WITHIN_S
                while is_refused and done.returncode == 0 and time.monotonic() < deadline:
                    done = reader.run(line)
                assert (done.returncode == 1) is is_refused, (line, done.stdout, done.stderr)
                assert "Traceback" not in done.stderr, done.stderr
    assert (time.monotonic() - began) / 60 < MINUTES
    assert "all clean" in reader.run("edged profile lint example_gx100").stderr
    listed = reader.run("edged call list_profiles --json").stdout
    assert '"is_simulated": true' in listed
    assert '"model": "GX100"' in listed
