"""A real supervisor with its engine, each a process, on a simulated bench that outlives both."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.bench.engine_process import REPOSITORY, EngineProcess
from tests.bench.sim_bench import SimBench
from tests.bench.waiting import HANGS_S, wait_for

EDGED = (sys.executable, "-m", "edged")


@dataclass
class Supervised:
    process: subprocess.Popen[bytes]
    directory: Path
    token: str = ""

    def facts(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads((self.directory / "engine.json").read_text())
            if psutil.pid_exists(found["pid"]):
                return found
        return {}

    def engine(self) -> EngineProcess:
        """The engine as it is now."""
        wait_for(self.facts)
        log = self.directory / "log"
        return EngineProcess(
            process=self.process,
            state_dir=self.directory,
            log=log,
            ports=self.facts(),
            token=self.token,
        )

    def connected(self) -> bool:
        listed = self.engine().tool("list_instruments")["result"]
        return bool(listed) and all(entry["is_connected"] for entry in listed)


@contextlib.contextmanager
def supervised(
    directory: Path,
    bench: SimBench,
    *,
    stderr: Any = subprocess.DEVNULL,
    config: Mapping[str, Any] | None = None,
) -> Iterator[Supervised]:
    """A supervisor whose engine has met every instrument of the bench."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config_file = directory / "edged.yaml"
    settings: dict[str, Any] = {
        "MCP_PORT": port,
        "RPC_PORT": 0,
        "STATE_DIR": str(directory),
        "BENCH_FILE": str(directory / "bench.yaml"),
        "DISCOVERY": [],
        "INSTRUMENTS": [{"address": bench.address(n), "name": n} for n in bench.instruments],
        **(config or {}),
    }
    config_file.write_text(
        "\n".join(f"{key}: {json.dumps(value)}" for key, value in settings.items())
    )
    process = subprocess.Popen(
        [*EDGED, "supervisor", "--config", str(config_file)],
        stdin=subprocess.DEVNULL,
        stderr=stderr,
        cwd=REPOSITORY,
    )
    try:
        made = Supervised(process, directory, settings.get("INBOUND_AUTH_TOKEN", ""))
        wait_for(made.connected)
        yield made
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(HANGS_S)
