"""What the record costs a caller: a real engine with it and without it, by turns.

Off is the same engine whose record does nothing. Cached calls are list_profiles over MCP on one
connection, in CPU time of all the engine's threads as the kernel's scheduler counts it; hardware
queries go to the simulated supply. A third engine has a slow disk: each commit takes 30 ms more, as
with an SD card's fsync (and a read's rows, which are not synced, suffer it here too).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from benchmarks.figures import Figure, parse_json_flag, tell
from tests.bench.engine_process import EngineProcess, running_engine

CACHED_CALLS = 600
QUERIES = 60
ROUNDS = 15
START = "import sys; from edged.cli.main import main; "
END = "sys.exit(main())"
VARIANTS = {
    "on": "",
    "off": (
        "from edged.commands.audit_record import AuditRecord as R; "
        "R.conclude = lambda *a: None; R.refuse = lambda *a: None; "
    ),
    "slow": (
        "import time; from edged.store.writer import Writer as W; commit = W._commit; "
        "W._commit = lambda *a, **k: (commit(*a, **k), time.sleep(0.03))[0]; "
    ),
}
QUERY = {
    "instrument_id": "psu1",
    "command_name": "measure_voltage",
    "parameters": {"channel": 1},
}
WRITE = {
    "instrument_id": "psu1",
    "command_name": "set_voltage",
    "parameters": {"channel": 1, "voltage": 1},
}


def main() -> int:
    as_json = parse_json_flag(__doc__)
    cpu_us: dict[str, list[float]] = {name: [] for name in VARIANTS}
    query_ms: dict[str, list[float]] = {name: [] for name in VARIANTS}
    write_ms: dict[str, list[float]] = {name: [] for name in VARIANTS}
    with contextlib.ExitStack() as parts:
        engines = {name: parts.enter_context(_engine(what)) for name, what in VARIANTS.items()}
        for engine in engines.values():
            _cached(engine)
        for turn in range(ROUNDS):
            names = list(engines) if turn % 2 else list(reversed(engines))
            for name in names:
                cpu_us[name].append(_cached(engines[name]))
                query_ms[name] += _times(engines[name], QUERY, QUERIES)
                write_ms[name] += _times(engines[name], WRITE, 5)
    shares = [100 * (on / off - 1) for on, off in zip(cpu_us["on"], cpu_us["off"], strict=True)]
    off_ms = statistics.median(query_ms["off"])
    figures = (
        Figure(name="CPU of a cached call, record on", value=_mid(cpu_us["on"]), unit="us"),
        Figure(name="CPU of a cached call, record off", value=_mid(cpu_us["off"]), unit="us"),
        Figure(name="the record's share", value=_mid(shares), unit="%", bound=15.0),
        Figure(name="a hardware query, record off, median", value=off_ms, unit="ms"),
        Figure(
            name="added to it by the record",
            value=_mid(query_ms["on"]) - off_ms,
            unit="ms",
            bound=1.0,
        ),
        Figure(
            name="added to it, each commit 30 ms slower",
            value=_mid(query_ms["slow"]) - off_ms,
            unit="ms",
            bound=1.0,
        ),
        Figure(
            name="a write (its intent is synced), median", value=_mid(write_ms["on"]), unit="ms"
        ),
        Figure(name="a write, each commit 30 ms slower", value=_mid(write_ms["slow"]), unit="ms"),
    )
    return tell("the record, on against off", figures, as_json=as_json)


def _mid(values: list[float]) -> float:
    return statistics.median(values)


@contextlib.contextmanager
def _engine(variant: str) -> Iterator[EngineProcess]:
    command = (sys.executable, "-c", START + variant + END)
    with (
        tempfile.TemporaryDirectory() as directory,
        running_engine(Path(directory), command=command) as engine,
    ):
        yield engine


def _cpu_us(pid: int) -> float:
    """CPU time of all its threads; finer than the 10 ms of getrusage where the kernel tells."""
    tasks = Path(f"/proc/{pid}/task")
    if not tasks.is_dir():
        times = psutil.Process(pid).cpu_times()
        return float(times.user + times.system) * 1e6
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1000


def _cached(engine: EngineProcess) -> float:
    """CPU of the engine, microseconds a call."""
    line = http.client.HTTPConnection("127.0.0.1", engine.ports["mcp_port"])
    _call(line, "list_profiles", {}, CACHED_CALLS // 10)
    before = _cpu_us(engine.process.pid)
    _call(line, "list_profiles", {}, CACHED_CALLS)
    # The rows of the last calls are written a moment later.
    time.sleep(0.15)  # noqa: TID251
    after = _cpu_us(engine.process.pid)
    line.close()
    return (after - before) / CACHED_CALLS


def _times(engine: EngineProcess, arguments: dict[str, Any], count: int) -> list[float]:
    line = http.client.HTTPConnection("127.0.0.1", engine.ports["mcp_port"])
    times = _call(line, "execute_command", arguments, count)
    line.close()
    return times


def _call(
    line: http.client.HTTPConnection, tool: str, arguments: dict[str, Any], count: int
) -> list[float]:
    """Milliseconds of each call."""
    params = {"name": tool, "arguments": arguments}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    times = []
    for _ in range(count):
        began = time.perf_counter()
        line.request("POST", "/mcp", body, headers)
        answer = line.getresponse()
        answer.read()
        times.append((time.perf_counter() - began) * 1000)
        assert answer.status == 200
    return times


if __name__ == "__main__":
    sys.exit(main())
