"""A real engine in a process of its own, for tests of what only a process has; see ``engine.py``.

The process is always gone when the context ends; what it wrote to standard error stays in
``engine.log``.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.engine import (
    ANSWERED_WITHIN_S,
    POLL_S,
    Engine,
    command_line,
    wait_answered,
    write_config,
)
from tests.bench.prepared import PreparedProcess, prepared_process
from tests.bench.waiting import HANGS_S

READY_WITHIN_S = 60.0
ENDED_WITHIN_S = HANGS_S
EDGED = (sys.executable, "-m", "edged.cli.main")
# Variables that the interpreter and the linker read before the engine does.
INTERPRETERS = ("PYTHON", "LD_")
REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(slots=True, kw_only=True)
class EngineProcess(Engine):
    process: subprocess.Popen[bytes] | PreparedProcess

    def stop(self, within_s: float = ENDED_WITHIN_S) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within_s)


@contextlib.contextmanager
def engine_process(
    directory: Path,
    *arguments: str,
    sim: bool = True,
    config: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    command: Sequence[str] = EDGED,
    slowness: float = 1.0,
) -> Iterator[EngineProcess]:
    """Start an engine with free ports and its state in ``directory``.

    Args:
        slowness: how many times the usual it may take to start and to end.
    """
    settings = write_config(directory, config)
    state_dir = directory / "state"
    log = directory / "engine.log"
    with log.open("ab") as errors:
        begins_at = errors.tell()
        words = ["engine", *command_line(directory, *arguments, sim=sim)]
        process: subprocess.Popen[bytes] | PreparedProcess | None = None
        variables = environment or {}
        if command == EDGED and not any(name.startswith(INTERPRETERS) for name in variables):
            with Path(os.devnull).open("rb") as nothing:
                process = prepared_process(words, variables, nothing.fileno(), errors.fileno())
        process = process or subprocess.Popen(
            [*command, *words],
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            cwd=REPOSITORY,
            env={**os.environ, **variables},
        )
        try:
            engine = EngineProcess(
                process=process,
                state_dir=state_dir,
                log=log,
                ports=_wait_ready(process, state_dir, log, READY_WITHIN_S * slowness),
            )
            if process.poll() is None:
                within_s = ANSWERED_WITHIN_S * slowness
                wait_answered(engine, begins_at, len(settings["INSTRUMENTS"]), within_s)
            yield engine
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(ENDED_WITHIN_S * slowness)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _wait_ready(
    process: subprocess.Popen[bytes] | PreparedProcess, state_dir: Path, log: Path, within_s: float
) -> dict[str, Any]:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError, ValueError):
            ports: dict[str, Any] = json.loads((state_dir / "engine.json").read_text())
            if ports["pid"] == process.pid:
                return ports
        time.sleep(POLL_S)  # noqa: TID251 - a real process has no event to wait for
    raise AssertionError(f"the engine did not get ready:\n{log.read_text(errors='replace')}")
