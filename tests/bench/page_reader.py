"""Somebody who does what a page of the documentation says, literally, in a home of their own."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.engine_process import REPOSITORY
from tests.bench.pages import is_alike

PAGE = (REPOSITORY / "docs" / "add-your-instrument.md").read_text(encoding="utf-8")
FENCE = re.compile(r"(<!-- a terminal of its own -->\n)?```(sh|yaml|text)\n(.*?)```\n", re.DOTALL)
WITHIN_S = 60.0
LOOKS_EVERY_S = 0.3
"""A command costs a seventh of a second of a processor, which what is waited for may need."""


@dataclass(slots=True)
class Reader:
    """Somebody who does what the page says, in a home of their own."""

    home: Path
    terminals: list[subprocess.Popen[bytes]] = field(default_factory=list)
    commands: int = 0
    compared: int = 0
    _profile: Path | None = None
    _engine: subprocess.Popen[bytes] | None = None

    @classmethod
    @contextlib.contextmanager
    def at_home(cls, home: Path) -> Iterator[Reader]:
        """A reader, whose terminals are closed when the context ends."""
        program = home / "bin" / "edged"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m edged "$@"\n')
        program.chmod(0o755)
        reader = cls(home)
        try:
            yield reader
        finally:
            for process in reversed(reader.terminals):
                process.terminate()
                process.wait(10)

    def follow(self, text: str, *, listens: str = "") -> None:
        """Do everything that a part of a page says, in its order.

        Args:
            text: the part.
            listens: the port at which what a terminal of its own starts listens, but for an engine.
        """
        said = ""
        for own_terminal, kind, block in FENCE.findall(text):
            if kind == "yaml":
                self._write(block)
            elif kind == "text":
                shown = block.replace("~", str(self.home))
                assert is_alike(said, shown), f"shown:\n{shown}\nsaid:\n{said}"
                self.compared += 1
            elif own_terminal:
                self._start(block.strip(), listens)
            else:
                said = "".join(self._do(line) for line in block.splitlines())

    def _write(self, block: str) -> None:
        """Put the block in the place of everything from its first key on."""
        assert self._profile is not None
        draft = self._profile.read_text(encoding="utf-8")
        first = block.splitlines()[0]
        before, found, _ = draft.partition("commands:\n")
        assert found, draft
        assert first
        self._profile.write_text(before + block, encoding="utf-8")

    def _start(self, line: str, listens: str) -> None:
        is_engine = " engine " in line
        if is_engine and self._engine is not None:
            # A terminal with Ctrl-C.
            self._engine.terminate()
            self._engine.wait(20)
            self.terminals.remove(self._engine)
        self.open_terminal(line)
        if is_engine:
            self._engine = self.terminals[-1]
        self.until_works(
            "edged instruments | grep -q ready" if is_engine
            else f"exec 3<>/dev/tcp/127.0.0.1/{listens}"
        )  # fmt: skip

    def _do(self, line: str) -> str:
        """What it says, as a terminal shows it: complaints first, as edged writes them."""
        is_refused = "# refused" in line
        self.commands += 1
        done = self.run(line)
        # A machine at work on other things takes a changed file in later.
        deadline = time.monotonic() + WITHIN_S
        while is_refused and done.returncode == 0 and time.monotonic() < deadline:
            done = self.run(line)
        assert (done.returncode == 1) is is_refused, (line, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr, done.stderr
        if line.startswith("mv "):
            _, name, place = line.split()
            self._profile = Path(place.replace("~", str(self.home), 1)) / name
        return done.stderr + done.stdout

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
        self.commands += 1
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
            time.sleep(LOOKS_EVERY_S)  # noqa: TID251 - a program in a terminal has no event
