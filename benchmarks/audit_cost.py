"""What the record costs a caller: a real engine with it and without it, by turns.

Off is the same engine whose record does nothing. Cached calls are list_profiles over MCP on one
connection, in CPU time of the whole engine process; hardware queries go to the simulated supply.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.figures import Figure, parse_json_flag, tell
from tests.bench.engine_process import EngineProcess, running_engine

CACHED_CALLS = 3_000
QUERIES = 300
ROUNDS = 3
START = "import sys; from edged.cli.main import main; "
OFF = (
    "from edged.commands.audit_record import AuditRecord as R; "
    "R.conclude = lambda *a: None; R.refuse = lambda *a: None; "
)
END = "sys.exit(main())"
QUERY = {
    "instrument_id": "psu1",
    "command_name": "measure_voltage",
    "parameters": {"channel": 1},
}


def main() -> int:
    as_json = parse_json_flag(__doc__)
    cpu_us: dict[bool, list[float]] = {True: [], False: []}
    query_ms: dict[bool, list[float]] = {True: [], False: []}
    with contextlib.ExitStack() as parts:
        engines = {is_on: parts.enter_context(_engine(is_on=is_on)) for is_on in (True, False)}
        for _ in range(ROUNDS):
            for is_on, engine in engines.items():
                cpu_us[is_on].append(_cached(engine))
                query_ms[is_on].append(_queries(engine))
    on, off = statistics.median(cpu_us[True]), statistics.median(cpu_us[False])
    slower = statistics.median(query_ms[True]) - statistics.median(query_ms[False])
    figures = (
        Figure(name="CPU of a cached call, record on", value=on, unit="us"),
        Figure(name="CPU of a cached call, record off", value=off, unit="us"),
        Figure(name="the record's share", value=100 * (on / off - 1), unit="%", bound=15.0),
        Figure(name="added to a hardware query, median", value=slower, unit="ms", bound=1.0),
    )
    return tell("the record, on against off", figures, as_json=as_json)


@contextlib.contextmanager
def _engine(*, is_on: bool) -> Any:
    command = (sys.executable, "-c", START + ("" if is_on else OFF) + END)
    with (
        tempfile.TemporaryDirectory() as directory,
        running_engine(Path(directory), command=command) as engine,
    ):
        yield engine


def _cached(engine: EngineProcess) -> float:
    """CPU of the engine, microseconds a call."""
    process = psutil.Process(engine.process.pid)
    line = http.client.HTTPConnection("127.0.0.1", engine.ports["mcp_port"])
    _call(line, "list_profiles", {}, CACHED_CALLS // 10)
    before = process.cpu_times()
    _call(line, "list_profiles", {}, CACHED_CALLS)
    after = process.cpu_times()
    line.close()
    spent_s = after.user + after.system - before.user - before.system
    return spent_s / CACHED_CALLS * 1e6


def _queries(engine: EngineProcess) -> float:
    line = http.client.HTTPConnection("127.0.0.1", engine.ports["mcp_port"])
    times = _call(line, "execute_command", QUERY, QUERIES)
    line.close()
    return statistics.median(times)


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
