"""From the start of the process to the first answered initialize, and to three listed instruments;
what ``edged status`` takes that asks such an engine, and what a large library adds to each.

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
import re
import resource
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
PACKAGES = [Path(__file__).parent.parent / name for name in ("edged", "edged_sim")]
GIVE_UP_S = 20.0
MORE = 300
"""Profiles of a large library beside the shipped ones."""


def main() -> int:
    as_json = parse_json_flag(__doc__)
    warm(PROFILES)
    for package in PACKAGES:
        compileall.compile_dir(package, quiet=1)
    initialize, listed, idle_mb, status, start_cpu, status_cpu = _medians(PROFILES)
    with tempfile.TemporaryDirectory() as place:
        cold = Path(place) / "profiles"
        shutil.copytree(PROFILES, cold, ignore=shutil.ignore_patterns(".*"))
        cold_initialize, *_ = _medians(cold)
        large = Path(place) / "large"
        _make_library(large)
        with_library = _medians(large)
    figures = (
        Figure(name="start to first initialize, median", value=initialize, unit="s", bound=0.9),
        Figure(name="start to three listed instruments, median", value=listed, unit="s"),
        Figure(name="start to first initialize, profiles cold", value=cold_initialize, unit="s"),
        Figure(name="resident memory of the engine", value=idle_mb, unit="MB", bound=49),
        Figure(name="edged status, median", value=status, unit="s", bound=0.12),
        Figure(name=f"processor time of a start, {MORE} profiles more",
               value=with_library[4] - start_cpu, unit="s", bound=0.05),
        Figure(name=f"resident memory, {MORE} profiles more", value=with_library[2] - idle_mb,
               unit="MB", bound=1.5),
        Figure(name=f"processor time of edged status, {MORE} profiles more",
               value=with_library[5] - status_cpu, unit="s", bound=0.02),
        Figure(name="python alone, median", value=_python_alone(), unit="s"),
    )  # fmt: skip
    return tell("start with three simulated instruments", figures, as_json=as_json)


def _make_library(directory: Path) -> None:
    """The shipped profiles, and as many again under other names as a large library has."""
    shutil.copytree(PROFILES, directory, ignore=shutil.ignore_patterns(".*"))
    shipped = [
        path for path in sorted(directory.glob("*.yaml")) if "extends:" not in path.read_text()
    ]
    for number in range(MORE):
        source = shipped[number % len(shipped)].read_text()
        key = f"more_{number:03d}"
        named = re.sub(r"(?m)^profile_key: .*$", f"profile_key: {key}", source, count=1)
        matched = named.replace("idn: '", f"idn: 'maker {number}, ", 1)
        (directory / f"{key}.yaml").write_text(matched)
    warm(directory)


def _medians(profiles: Path) -> tuple[float, ...]:
    rounds = [_measure(profiles) for _ in range(ROUNDS)]
    return tuple(statistics.median(column) for column in zip(*rounds, strict=True))


def _measure(profiles: Path) -> tuple[float, ...]:
    port = _free_port()
    with tempfile.TemporaryDirectory() as state:
        began = time.perf_counter()
        engine = subprocess.Popen(
            [sys.executable, "-m", "edged.cli.main", "engine", "--sim", "--state-dir", state,
             "--mcp-port", str(port), "--rpc-port", "0"],
            stdout=subprocess.DEVNULL,
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
            used = _processor_s(engine.pid)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            asking = statistics.median(_status(state) for _ in range(ROUNDS))
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            asked = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            idle_mb = int(memory.split()[1]) / 1024
            return initialize, listed, idle_mb, asking, used, asked / ROUNDS
        finally:
            engine.send_signal(signal.SIGTERM)
            engine.wait(10)


def _processor_s(pid: int) -> float:
    """What a process has used so far; on a busy machine that varies less than time does."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


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
