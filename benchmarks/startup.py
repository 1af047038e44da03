"""From the start of the process to the first answered initialize, and to three listed instruments;
and what ``edged status`` takes that asks such an engine.

Five starts of a real engine on a simulated bench of three instruments, each with a state directory
of its own; the bound is on the median. The profiles were read once before, as `make run` and the
package do it; the cold figure is that of an engine which has to read all of them. So was Python's
bytecode, whatever the environment says.
"""

from __future__ import annotations

import compileall
import http.client
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, parse_json_flag, tell
from edged.profiles.library_cache import warm

ROUNDS = 5
PROFILES = Path(__file__).parent.parent / "profiles"
PACKAGE = Path(__file__).parent.parent / "edged"
GIVE_UP_S = 20.0


def main() -> int:
    as_json = parse_json_flag(__doc__)
    warm(PROFILES)
    compileall.compile_dir(PACKAGE, quiet=1)
    initialize, listed, idle_mb, status = _medians(PROFILES)
    with tempfile.TemporaryDirectory() as place:
        cold = Path(place) / "profiles"
        shutil.copytree(PROFILES, cold, ignore=shutil.ignore_patterns(".*"))
        cold_initialize, _, _, _ = _medians(cold)
    figures = (
        Figure(name="start to first initialize, median", value=initialize, unit="s", bound=0.9),
        Figure(name="start to three listed instruments, median", value=listed, unit="s"),
        Figure(name="start to first initialize, profiles cold", value=cold_initialize, unit="s"),
        Figure(name="resident memory of the engine", value=idle_mb, unit="MB", bound=62),
        Figure(name="edged status, median", value=status, unit="s", bound=0.12),
        Figure(name="python alone, median", value=_python_alone(), unit="s"),
    )
    return tell("start with three simulated instruments", figures, as_json=as_json)


def _medians(profiles: Path) -> tuple[float, ...]:
    rounds = [_measure(profiles) for _ in range(ROUNDS)]
    return tuple(statistics.median(column) for column in zip(*rounds, strict=True))


def _measure(profiles: Path) -> tuple[float, float, float, float]:
    port = _free_port()
    with tempfile.TemporaryDirectory() as state:
        began = time.perf_counter()
        engine = subprocess.Popen(
            [sys.executable, "-m", "edged.cli.main", "engine", "--sim", "--state-dir", state,
             "--mcp-port", str(port), "--rpc-port", "0"],
            stderr=subprocess.DEVNULL,
            env=os.environ | {"EDGED_PROFILE_DIRS": f"[{profiles}]"},
        )  # fmt: skip
        try:
            _until(lambda: "result" in _post(port, "initialize", _INITIALIZE))
            initialize = time.perf_counter() - began
            _until(lambda: _instruments(port) == 3)
            listed = time.perf_counter() - began
            status = Path(f"/proc/{engine.pid}/status").read_text()
            memory = next(line for line in status.splitlines() if line.startswith("VmRSS"))
            # What a verb looks for; it is written last.
            _until(lambda: Path(state, "engine.json").exists())
            asking = statistics.median(_status(state) for _ in range(ROUNDS))
            return initialize, listed, int(memory.split()[1]) / 1024, asking
        finally:
            engine.send_signal(signal.SIGTERM)
            engine.wait(10)


def _status(state: str) -> float:
    words = [sys.executable, "-m", "edged.cli.main", "status", "--state-dir", state]
    return _seconds(words)


def _python_alone() -> float:
    return statistics.median(_seconds([sys.executable, "-c", ""]) for _ in range(ROUNDS))


def _seconds(words: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


_INITIALIZE = {
    "protocolVersion": "2025-03-26",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "0"},
}


def _instruments(port: int) -> int:
    reply = _post(port, "tools/call", {"name": "list_instruments", "arguments": {}})
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


def _post(port: int, method: str, params: dict[str, object]) -> dict[str, object]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    connection.request("POST", "/mcp", body, {"Content-Type": "application/json"})
    reply = json.loads(connection.getresponse().read())
    connection.close()
    return reply


if __name__ == "__main__":
    raise SystemExit(main())
