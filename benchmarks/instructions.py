"""Instructions that an engine executes, counted by Valgrind's callgrind.

They are the same on a busy machine as on a quiet one, so two engines can be told apart by a few per
cent. What the kernel does for the engine and what a cache misses is not in them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SLOWNESS", "Counter", "counted_by"]

SLOWNESS = 30.0
"""How many times the usual an engine may take to start while it is counted."""
QUIET_S = 3.0
TRAILING_S = 1.0
"""Rows of reads are written up to a quarter of a second behind their answers, at a counted pace."""


def counted_by(directory: Path) -> tuple[str, ...]:
    """The words that run an engine so that it can be counted; counts go into ``directory``.

    Raises:
        SystemExit: Valgrind is not installed.
    """
    if shutil.which("valgrind") is None:
        raise SystemExit(
            "valgrind counts the instructions: apt-get install valgrind, or say --time"
        )
    file = f"--callgrind-out-file={directory}/callgrind.%p"
    return ("valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no", file)


@dataclass(frozen=True, slots=True)
class Counter:
    """Counts what one process of `counted_by` executes, all its threads."""

    pid: int
    directory: Path

    def per_call(self, call: Callable[[], object], calls: int) -> float:
        """Instructions of one call, without what the process executes while nobody calls."""
        idle, idle_s = self._executed(lambda: time.sleep(QUIET_S))  # noqa: TID251 - another process
        spent, spent_s = self._executed(lambda: [call() for _ in range(calls)])
        return (spent - idle / idle_s * spent_s) / calls

    def _executed(self, work: Callable[[], object]) -> tuple[int, float]:
        """Instructions, and the seconds they were counted for."""
        self._tell("--zero")
        self._tell("--instr=on")
        began = time.perf_counter()
        work()
        time.sleep(TRAILING_S)  # noqa: TID251 - another process's threads
        taken_s = time.perf_counter() - began
        self._tell("--instr=off")
        return self._dumped(), taken_s

    def _dumped(self) -> int:
        before = self._dumps()
        self._tell("--dump")
        (dump,) = self._dumps() - before
        found = re.search(r"^totals: (\d+)", dump.read_text(errors="replace"), re.MULTILINE)
        dump.unlink()
        if found is None:
            raise SystemExit(f"callgrind wrote no totals into {dump.name}")
        return int(found[1])

    def _dumps(self) -> set[Path]:
        return set(self.directory.glob(f"callgrind.{self.pid}.*"))

    def _tell(self, order: str) -> None:
        words = ["callgrind_control", order, str(self.pid)]
        subprocess.run(words, check=True, capture_output=True, timeout=60)
