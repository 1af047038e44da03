"""What the supervisor's port proxy adds to a direct call, in time and in CPU.

A real supervisor with its engine on a simulated bench; ``list_profiles`` over MCP, to the engine's
own listener on 127.0.0.1 and through the proxy on 127.0.0.2, by turns.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.figures import Figure, parse_json_flag, percentile, tell

ROUNDS = 5
SECONDS = 2
BODY = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "list_profiles", "arguments": {}},
    }
)


def main() -> int:
    as_json = parse_json_flag(__doc__)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        words = ["--state-dir", name, "--mcp-port", str(port), "--rpc-port", "0"]
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "edged", "supervisor", *words, "--", "--sim"],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            figures = _measure(directory, port, supervisor.pid)
        finally:
            supervisor.send_signal(signal.SIGTERM)
            supervisor.wait(15)
    return tell("the port proxy", figures, as_json=as_json)


def _measure(directory: Path, port: int, supervisor_pid: int) -> tuple[Figure, ...]:
    while not (directory / "engine.json").exists():
        time.sleep(0.05)  # noqa: TID251 - another process has no event to wait for
    engine = psutil.Process(json.loads((directory / "engine.json").read_text())["pid"])
    supervisor = psutil.Process(supervisor_pid)
    direct, proxied, rates = [], [], []
    engine_us, proxy_us = [], []
    for _ in range(ROUNDS):
        direct.append(_load(directory, "127.0.0.1", port, clients=1)["p50_us"])
        proxied.append(_load(directory, "127.0.0.2", port, clients=1)["p50_us"])
        before = _cpu(engine), _cpu(supervisor)
        loaded = _load(directory, "127.0.0.2", port, clients=16)
        rates.append(loaded["calls_per_s"])
        engine_us.append((_cpu(engine) - before[0]) / loaded["calls"] * 1e6)
        proxy_us.append((_cpu(supervisor) - before[1]) / loaded["calls"] * 1e6)
    engine_cost, proxy_cost = percentile(engine_us, 0.5), percentile(proxy_us, 0.5)
    added_ms = (percentile(proxied, 0.5) - percentile(direct, 0.5)) / 1e3
    return (
        Figure(name="direct call, p50", value=percentile(direct, 0.5) / 1e3, unit="ms"),
        Figure(name="proxied call, p50", value=percentile(proxied, 0.5) / 1e3, unit="ms"),
        Figure(name="added at the median", value=added_ms, unit="ms", bound=0.3),
        Figure(name="16 clients through the proxy", value=percentile(rates, 0.5), unit="1/s"),
        Figure(name="CPU of the engine, a call", value=engine_cost, unit="us"),
        Figure(name="CPU of the proxy, a call", value=proxy_cost, unit="us", bound=engine_cost),
    )


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _load(directory: Path, host: str, port: int, *, clients: int) -> dict[str, Any]:
    body = directory / "body.json"
    body.write_text(BODY)
    words = [f"http://{host}:{port}/mcp", "--clients", str(clients), "--seconds", str(SECONDS)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load_generator", *words, "--body", str(body)],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ),
    )
    found: dict[str, Any] = json.loads(done.stdout)
    if found["errors"]:
        raise SystemExit(f"{found['errors']} calls failed")
    return found


if __name__ == "__main__":
    sys.exit(main())
