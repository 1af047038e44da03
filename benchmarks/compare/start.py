"""From the start of a process to its first answered initialize, and what it has in memory then."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.compare.measures import THREE, Figures
from benchmarks.compare.servers import SDK_PYTHON, Simulator, simulator
from benchmarks.compare.sessions import free_port
from benchmarks.load_generator import open_session
from tests.bench.engine_process import REPOSITORY

GIVE_UP_S = 30.0
STATUS_RUNS = 7
SETTLED_S = 2.0
"""An engine looks at its bench, and gives back what starting took, behind the first answer."""


def starts() -> Figures:
    """One start of each, beside a simulated bench that runs already."""
    with simulator("--instruments", THREE) as bench:
        ours_ms, ours_mb, status_ms = _ours(bench)
        sdk_ms, sdk_mb, _ = _sdk(bench)
    return {
        "start.ours_ms": ours_ms,
        "start.sdk_ms": sdk_ms,
        "idle.ours_mb": ours_mb,
        "idle.sdk_mb": sdk_mb,
        "status.ours_ms": status_ms,
        "status.python_ms": _least_cpu_ms([sys.executable, "-c", "pass"]),
    }


def _ours(bench: Simulator) -> tuple[float, float, float]:
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "edged.yaml"
        entries = [
            {"address": f"TCPIP0::127.0.0.1::{entry['port']}::SOCKET", "name": entry["name"]}
            for entry in bench.instruments
        ]
        settings = {
            "MCP_PORT": port,
            "RPC_PORT": 0,
            "STATE_DIR": f"{directory}/state",
            "DISCOVERY": [],
            "INSTRUMENTS": entries,
        }
        config.write_text("\n".join(f"{key}: {json.dumps(v)}" for key, v in settings.items()))
        command = [sys.executable, "-m", "edged.cli.main", "engine", "--config", str(config)]
        status = ["status", "--state-dir", f"{directory}/state"]
        return _first_initialize(command, port, [*command[:3], *status])


def _sdk(bench: Simulator) -> tuple[float, float, float]:
    command = [str(SDK_PYTHON), "-m", "benchmarks.peers.sdk2_server", *map(str, bench.ports)]
    return _first_initialize(command, None)


def _least_cpu_ms(command: list[str]) -> float:
    """User and system time of the cheapest of some runs: other work only ever adds to it."""
    spent = []
    for _ in range(STATUS_RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent) * 1e3


def _first_initialize(
    command: list[str], port: int | None, then: list[str] | None = None
) -> tuple[float, float, float]:
    """Milliseconds to the answer, megabytes a moment later, and what ``then`` costs after that.

    A peer tells its port itself.
    """
    began = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=REPOSITORY,
        env=dict(os.environ),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        known = port if port is not None else int(process.stdout.readline())
        _wait_for_listener(known)
        open_session(f"http://127.0.0.1:{known}/mcp")
        spent_ms = (time.perf_counter() - began) * 1e3
        time.sleep(SETTLED_S)  # noqa: TID251 - another process
        status = Path(f"/proc/{process.pid}/status").read_text()
        rss = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return spent_ms, int(rss.split()[1]) / 1024, _least_cpu_ms(then) if then else 0.0
    finally:
        process.send_signal(signal.SIGTERM)
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


def _wait_for_listener(port: int) -> None:
    give_up = time.monotonic() + GIVE_UP_S
    while time.monotonic() < give_up:
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
        except OSError:
            time.sleep(0.005)  # noqa: TID251 - a starting process has no event to wait for
        else:
            return
    raise SystemExit("a server did not get ready")
