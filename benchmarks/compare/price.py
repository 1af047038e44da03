"""What a hardware call costs in processor time, beside what it is made of.

``python -m benchmarks.compare.price [--tree PATH]`` measures it alone, of this tree's engine or
another's. One client asks, one call after the other, so the instrument's answer is waited for each
time. The kinds of call take turns, since the machine's speed comes and goes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyvisa

from benchmarks.compare.clients import WRITTEN_WITHIN_S, Line, call
from benchmarks.compare.ratios import price_ratios
from benchmarks.compare.servers import Server, echo, engine, simulator
from tests.bench.engine_process import REPOSITORY

SCPI = ":MEAS:VOLT? CH1"
CALLS = 400
TURNS = 5
QUIET_S = 1.0
STATUS = call("get_status", {})
QUERY = call(
    "execute_command",
    {"instrument_id": "psu1", "command_name": "measure_voltage", "parameters": {"channel": 1}},
)
WRITE = call(
    "execute_command",
    {
        "instrument_id": "psu1",
        "command_name": "set_voltage",
        "parameters": {"channel": 1, "voltage": 1.5},
    },
)
"""With its intent on disk, its error query and its verify query."""
WORKS = {"cached": STATUS, "query": QUERY, "write": WRITE}


def prices_us(
    server: Server, echo: Server, port: int, calls: int = CALLS, turns: int = TURNS
) -> dict[str, float]:
    """Microseconds of processor time of one call of each kind, all threads, medians of turns.

    Args:
        echo: answers with what it is sent.
        port: of the same instrument, for the query by bare PyVISA.
    """
    found: dict[str, list[float]] = defaultdict(list)
    line, floor = Line(server), Line(echo)
    try:
        for message in WORKS.values():
            for _ in range(calls // 4):
                line.post(message)
        for _ in range(turns):
            idle = idle_share(server)
            for name, message in WORKS.items():
                found[name].append(_cpu_us(server, line, message, calls, idle=idle))
            found["echo"].append(_cpu_us(echo, floor, STATUS, calls, idle=0.0))
            found["bare"].append(_bare_us(port, calls))
    finally:
        line.close()
        floor.close()
    return {name: statistics.median(each) for name, each in found.items()}


def _cpu_us(
    server: Server, line: Line, message: dict[str, Any], calls: int, *, idle: float
) -> float:
    before, began = server.cpu_s(), time.perf_counter()
    for _ in range(calls):
        line.post(message)
    time.sleep(WRITTEN_WITHIN_S)  # noqa: TID251 - another process's threads
    spent_s = server.cpu_s() - before - idle * (time.perf_counter() - began)
    return spent_s / calls * 1e6


def idle_share(server: Server) -> float:
    before = server.cpu_s()
    time.sleep(QUIET_S)  # noqa: TID251 - another process's threads
    return (server.cpu_s() - before) / QUIET_S


def _bare_us(port: int, calls: int) -> float:
    manager = pyvisa.ResourceManager("@py")
    line: Any = manager.open_resource(f"TCPIP::127.0.0.1::{port}::SOCKET")
    line.read_termination = line.write_termination = "\n"
    line.query(SCPI)
    before = time.process_time()
    for _ in range(calls):
        line.query(SCPI)
    spent_s = time.process_time() - before
    line.close()
    manager.close()
    return spent_s / calls * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare.price", description=__doc__)
    parser.add_argument("--tree", type=Path, default=REPOSITORY, help="whose engine")
    options = parser.parse_args()
    words = ("env", f"PYTHONPATH={options.tree}", "PYTHONSAFEPATH=1")
    with (
        simulator("--instruments", "psu1=rigol_dp832") as bench,
        engine(bench, run_by=words) as (ours, _),
        echo() as floor,
    ):
        prices = prices_us(ours, floor, bench.ports[0])
    ratios = price_ratios({f"price.{name}_us": value for name, value in prices.items()})
    for name, value in (prices | ratios).items():
        sys.stdout.write(f"  {name:<16}{value:>10.2f}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
