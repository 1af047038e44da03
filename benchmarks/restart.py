"""kill -9 of the engine under a supervisor: how soon it is answered for, made safe, and back.

A real supervisor with its engine, and a simulated bench that outlives both; the engine is killed in
the middle of a sweep, once a supervisor. Seven rounds on the machine as it is, seven beside four
programs that take all the processor time they get. Runs in a network namespace of its own, where
10.77.0.1 is the machine's address on the private network.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, parse_json_flag, tell
from benchmarks.supervised import supervised
from tests.bench.sim_bench import SimBench, running_bench

ROUNDS = 7
SPINNERS = 4
PORT = 8767
LOOPBACK, PRIVATE = "127.0.0.1", "10.77.0.1"
INSIDE = "RESTART_BENCHMARK_NAMESPACE"
GIVE_UP_S = 30.0
SPIN = "while True: pass"
LOOK_S = 0.005


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds from the kill to each of these; of two addresses the later one."""

    away: float
    aborted: float
    back: float


def main() -> int:
    as_json = parse_json_flag(__doc__)
    if INSIDE not in os.environ:
        again = [sys.executable, "-m", "benchmarks.restart", *(["--json"] if as_json else [])]
        return subprocess.run(
            ["unshare", "-rn", *again], env={**os.environ, INSIDE: "1"}, check=False
        ).returncode
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "addr", "add", f"{PRIVATE}/32", "dev", "lo"], check=True)
    with running_bench("--instruments", "psu1") as bench, tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        quiet = [_round(directory, bench) for _ in range(ROUNDS)]
        with _busy():
            loaded = [_round(directory, bench) for _ in range(ROUNDS)]
    figures = (*_figures("", quiet), *_figures(", busy machine", loaded))
    return tell("kill -9 of the engine under the supervisor", figures, as_json=as_json)


def _figures(where: str, rounds: list[Round]) -> tuple[Figure, ...]:
    away, aborted, back = (
        sorted(column)
        for column in zip(*((r.away, r.aborted, r.back) for r in rounds), strict=True)
    )
    middle = len(rounds) // 2
    return (
        Figure(name=f"first 503{where}, worst", value=away[-1], unit="s", bound=1.0),
        Figure(name=f"abort at the instrument{where}, median", value=aborted[middle], unit="s"),
        Figure(name=f"the same{where}, worst", value=aborted[-1], unit="s", bound=3.0),
        Figure(name=f"back at both addresses{where}, median", value=back[middle], unit="s"),
        Figure(name=f"the same{where}, worst", value=back[-1], unit="s", bound=5.0),
    )


def _settings(directory: Path, bench: SimBench) -> dict[str, Any]:
    return {
        "STATE_DIR": str(directory),
        "RPC_PORT": 0,
        "BENCH_FILE": str(directory / "bench.yaml"),
        "DISCOVERY": [],
        "INSTRUMENTS": [{"address": bench.address("psu1"), "name": "psu1"}],
    }


@contextlib.contextmanager
def _busy() -> Iterator[None]:
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(SPINNERS)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def _round(directory: Path, bench: SimBench) -> Round:
    with supervised(directory, _settings(directory, bench)):
        return _killed_in_a_sweep(directory, bench)


def _killed_in_a_sweep(directory: Path, bench: SimBench) -> Round:
    _until(lambda: _status(LOOPBACK) == 200 and _status(PRIVATE) == 200 and _is_connected())
    mark = bench.mark()
    _call(
        "start_sweep",
        instrument_id="psu1",
        command_name="set_voltage",
        parameters={"channel": 1},
        target_value=5.0,
        sweep_rate=0.5,
    )
    _until(lambda: any("VOLT 0." in text for text in bench.received("psu1", since=mark)))
    mark = bench.mark()
    engine = json.loads((directory / "engine.json").read_text())["pid"]
    killed = time.perf_counter()
    os.kill(engine, signal.SIGKILL)
    away: dict[str, float] = {}
    back: dict[str, float] = {}
    aborted = 0.0

    def is_over() -> bool:
        nonlocal aborted
        for host in (LOOPBACK, PRIVATE):
            status = _status(host)
            seen = away if status == 503 else back if status == 200 and host in away else {}
            seen.setdefault(host, time.perf_counter() - killed)
        if not aborted and any(":OUTP CH1,OFF" in t for t in bench.received("psu1", since=mark)):
            aborted = time.perf_counter() - killed
        return bool(aborted) and len(back) == 2

    _until(is_over)
    return Round(max(away.values()), aborted, max(back.values()))


def _until(holds: Callable[[], bool]) -> None:
    give_up = time.perf_counter() + GIVE_UP_S
    while not holds():
        if time.perf_counter() > give_up:
            raise SystemExit("it did not happen in time")
        time.sleep(LOOK_S)  # noqa: TID251 - another process has no event to wait for


def _is_connected() -> bool:
    listed = json.loads(_call("list_instruments")["result"]["content"][0]["text"])
    return bool(listed) and all(entry["is_connected"] for entry in listed)


def _status(host: str) -> int:
    """Of a ping; 0 where nothing answered."""
    try:
        return _post(host, "ping", {})[0]
    except (OSError, http.client.HTTPException):
        return 0


def _call(tool: str, **arguments: object) -> dict[str, Any]:
    return _post(LOOPBACK, "tools/call", {"name": tool, "arguments": arguments})[1]


def _post(host: str, method: str, params: dict[str, object]) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(host, PORT, timeout=5)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    try:
        connection.request("POST", "/mcp", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(main())
