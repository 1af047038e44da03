"""What the record costs a caller: a real engine with it and without it, by turns.

Off is the same engine whose record does nothing. Cached calls are list_profiles over MCP, on one
connection and on sixteen, and get_status, the cheapest call there is; in CPU time of all the
engine's threads as the kernel's scheduler counts it, a second a turn, with what is written behind
the answers and without what the same engine takes while nobody calls. Hardware queries go to the
simulated supply. A third engine has a slow disk: each commit takes 30 ms more, as with an SD card's
fsync (and a read's rows, which are not synced, suffer it here too).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from benchmarks.compare.clients import WRITTEN_WITHIN_S
from benchmarks.figures import Figure, parse_json_flag, tell
from tests.bench.engine_process import EngineProcess, engine_process

LOADS = (("list_profiles", 1), ("list_profiles", 16), ("get_status", 1), ("get_status", 16))
"""Tools of cached calls, and on how many connections."""
SECONDS = 1.0
QUIET_S = 2.0
QUERIES = 60
ROUNDS = 17
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
    cpu_us: dict[tuple[str, int], dict[str, list[float]]] = {
        load: {"on": [], "off": []} for load in LOADS
    }
    query_ms: dict[str, list[float]] = {name: [] for name in VARIANTS}
    write_ms: dict[str, list[float]] = {name: [] for name in VARIANTS}
    with contextlib.ExitStack() as parts:
        engines = {name: parts.enter_context(_engine(what)) for name, what in VARIANTS.items()}
        quiet = {name: _quiet_share(engine) for name, engine in engines.items()}
        for turn in range(ROUNDS):
            names = list(engines) if turn % 2 else list(reversed(engines))
            for tool, connections in LOADS:
                for name in names:
                    if name in (found := cpu_us[tool, connections]):
                        found[name].append(_cached(engines[name], tool, connections, quiet[name]))
            for name in names:
                query_ms[name] += _times(engines[name], QUERY, QUERIES)
                write_ms[name] += _times(engines[name], WRITE, 5)
    figures = [figure for load, found in cpu_us.items() for figure in _shares(load, found)]
    return tell("the record, on against off", figures + _waits(query_ms, write_ms), as_json=as_json)


def _shares(load: tuple[str, int], found: dict[str, list[float]]) -> list[Figure]:
    # Of medians, not the median of pairs: turns side by side lie as far apart as any two.
    share = 100 * (_mid(found["on"]) / _mid(found["off"]) - 1)
    told = f"{load[0]}, {load[1]} connection{'s' if load[1] > 1 else ''}"
    return [
        Figure(name=f"{told}: record on", value=_mid(found["on"]), unit="us"),
        Figure(name=f"{told}: record off", value=_mid(found["off"]), unit="us"),
        Figure(name="  the record's share", value=share, unit="%", bound=15.0),
    ]


def _waits(query_ms: dict[str, list[float]], write_ms: dict[str, list[float]]) -> list[Figure]:
    off_ms = _mid(query_ms["off"])
    return [
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
    ]


def _mid(values: list[float]) -> float:
    return statistics.median(values)


@contextlib.contextmanager
def _engine(variant: str) -> Iterator[EngineProcess]:
    command = (sys.executable, "-c", START + variant + END)
    with (
        tempfile.TemporaryDirectory() as directory,
        engine_process(Path(directory), command=command) as engine,
    ):
        yield engine


def _cpu_us(pid: int) -> float:
    """CPU time of all its threads; finer than the 10 ms of getrusage where the kernel tells."""
    tasks = Path(f"/proc/{pid}/task")
    if not tasks.is_dir():
        times = psutil.Process(pid).cpu_times()
        return float(times.user + times.system) * 1e6
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1000


def _quiet_share(engine: EngineProcess) -> float:
    """CPU that it takes while nobody calls, microseconds a second."""
    before = _cpu_us(engine.process.pid)
    time.sleep(QUIET_S)  # noqa: TID251
    return (_cpu_us(engine.process.pid) - before) / QUIET_S


def _cached(engine: EngineProcess, tool: str, connections: int, quiet_share: float) -> float:
    """CPU of the engine, microseconds a call."""
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 0,
            "method": "tools/call",
            "params": {"name": tool, "arguments": {}},
        },
        separators=(",", ":"),
    )
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(body)
        file.flush()
        words = [engine.mcp_url, "--session", "--staged", "--body", file.name]
        words += ["--clients", str(connections), "--seconds", str(SECONDS)]
        load = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.load_generator", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert load.stdout is not None
        assert load.stdout.readline() == b"ready\n"
        # Rows of getting ready are written in their own time.
        time.sleep(WRITTEN_WITHIN_S)  # noqa: TID251
        before = _cpu_us(engine.process.pid)
        output, _ = load.communicate(b"\n")
        # The rows of the last calls are written a moment later.
        time.sleep(WRITTEN_WITHIN_S)  # noqa: TID251
        spent_us = _cpu_us(engine.process.pid) - before
    found = json.loads(output)
    assert found["calls"]
    assert not found["errors"]
    return float((spent_us - quiet_share * (SECONDS + WRITTEN_WITHIN_S)) / found["calls"])


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
