"""From the start of the process to the first answered initialize, and to three listed instruments.

Five starts of a real engine on a simulated bench of three instruments; the bound is on the median.
"""

from __future__ import annotations

import http.client
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, parse_json_flag, tell

ROUNDS = 5
PORT = 18_767
GIVE_UP_S = 20.0


def main() -> int:
    as_json = parse_json_flag(__doc__)
    rounds = [_measure() for _ in range(ROUNDS)]
    initialize, listed, idle_mb = (
        statistics.median(column) for column in zip(*rounds, strict=True)
    )
    figures = (
        Figure(name="start to first initialize, median", value=initialize, unit="s", bound=1.0),
        Figure(name="start to three listed instruments, median", value=listed, unit="s"),
        Figure(name="resident memory of the engine", value=idle_mb, unit="MB"),
    )
    return tell("start with three simulated instruments", figures, as_json=as_json)


def _measure() -> tuple[float, float, float]:
    with tempfile.TemporaryDirectory() as state:
        began = time.perf_counter()
        engine = subprocess.Popen(
            [sys.executable, "-m", "edged.cli.main", "engine", "--sim", "--state-dir", state,
             "--mcp-port", str(PORT), "--rpc-port", "0"],
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            _until(lambda: "result" in _post("initialize", _INITIALIZE))
            initialize = time.perf_counter() - began
            _until(lambda: _instruments() == 3)
            listed = time.perf_counter() - began
            status = Path(f"/proc/{engine.pid}/status").read_text()
            memory = next(line for line in status.splitlines() if line.startswith("VmRSS"))
            return initialize, listed, int(memory.split()[1]) / 1024
        finally:
            engine.send_signal(signal.SIGTERM)
            engine.wait(10)


_INITIALIZE = {
    "protocolVersion": "2025-03-26",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "0"},
}


def _instruments() -> int:
    reply = _post("tools/call", {"name": "list_instruments", "arguments": {}})
    return len(json.loads(reply["result"]["content"][0]["text"]))


def _until(holds) -> None:
    give_up = time.perf_counter() + GIVE_UP_S
    while time.perf_counter() < give_up:
        try:
            if holds():
                return
        except OSError:
            pass
        time.sleep(0.005)  # noqa: TID251 - a starting process has no event to wait for
    raise SystemExit("the engine did not get ready")


def _post(method: str, params: dict[str, object]) -> dict[str, object]:
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=5)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    connection.request("POST", "/mcp", body, {"Content-Type": "application/json"})
    reply = json.loads(connection.getresponse().read())
    connection.close()
    return reply


if __name__ == "__main__":
    raise SystemExit(main())
