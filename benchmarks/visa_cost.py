"""What a program that knows VISA pays for the guard: a query and a waveform, beside bare pyvisa-py.

``python -m benchmarks.visa_cost [--seconds S] [--json]``: an engine on two simulated instruments;
the same program by turns straight to the instrument, through the HiSLIP server (pyvisa-py's client)
and through ``@edged``, and the same query as an MCP call. What is bounded: what a road adds to a
bare query, in shares of what the MCP call adds; and its rate of 4,096-point waveforms, in shares of
the bare one. Exits 1 where a bound does not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyvisa

from benchmarks.compare.clients import Line
from benchmarks.compare.measures import OUR_QUERY, SCPI
from benchmarks.compare.servers import Server, engine, simulator
from benchmarks.figures import Figure, percentile, tell

TURNS = 40
"""The machine's speed comes and goes within a second; the roads share it by short turns."""
WARM = 200
POINTS = 4_096
SETUP = (":WAV:SOUR CHAN1", ":WAV:MODE RAW", ":WAV:FORM BYTE", ":STOP", ":WAV:STAR 1")
BARE, HISLIP, MODULE = "bare pyvisa-py", "HiSLIP server", "@edged"
ADDED_AT_MOST = {HISLIP: 1.0, MODULE: 1.3}
"""Of what an MCP call adds."""
RATE_AT_LEAST = 0.5
"""Of bare pyvisa-py's."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.visa_cost", description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each road in all")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args()
    instruments = "psu1=rigol_dp832,scope1=rigol_ds1054z"
    settings = {"VISA_SERVER": ["hislip"], "HISLIP_PORT": 0}
    with (
        simulator("--instruments", instruments) as bench,
        engine(bench, **settings) as (server, process),
        contextlib.ExitStack() as opened,
    ):
        port = process.ports["hislip_port"]
        roads = {
            BARE: [f"TCPIP::127.0.0.1::{one}::SOCKET" for one in bench.ports],
            HISLIP: [f"TCPIP::127.0.0.1::hislip_{n},{port}::INSTR" for n in ("psu1", "scope1")],
            MODULE: ["psu1", "scope1"],
        }
        pairs = {
            road: opened.enter_context(instruments_of(road, names, server))
            for road, names in roads.items()
        }
        queries = {road: asking(pair[0]) for road, pair in pairs.items()}
        queries["MCP call"] = calling(opened.enter_context(contextlib.closing(Line(server))))
        queried = medians_us(queries, options.seconds)
        captured = medians_us(
            {road: reading(pair[1], is_marked=road != BARE) for road, pair in pairs.items()},
            options.seconds,
        )
    return tell("A program that knows VISA", figures(queried, captured), as_json=options.json)


@contextlib.contextmanager
def instruments_of(road: str, names: list[str], server: Server) -> Iterator[list[Any]]:
    """A program's supply and oscilloscope, by that road."""
    manager = pyvisa.ResourceManager(f"{server.url}@edged" if road == MODULE else "@py")
    found = []
    for name in names:
        instrument: Any = manager.open_resource(name)
        instrument.read_termination = instrument.write_termination = "\n"
        instrument.timeout = 5_000
        found.append(instrument)
    try:
        yield found
    finally:
        for instrument in found:
            instrument.close()
        manager.close()


def asking(supply: Any) -> Callable[[], object]:
    return lambda: supply.query(SCPI)


def calling(line: Line) -> Callable[[], object]:
    return lambda: line.post(OUR_QUERY)


def reading(scope: Any, *, is_marked: bool) -> Callable[[], object]:
    """One waveform; what it is to be was set before, as a program does that wants many.

    Args:
        is_marked: the road marks the ends of messages.
    """
    for command in (*SETUP, f":WAV:STOP {POINTS}"):
        scope.write(command)
    scope.query("*OPC?")

    def read() -> None:
        if is_marked:
            points = scope.query_binary_values(":WAV:DATA?", datatype="B", container=bytes)
        else:
            # A raw socket marks no ends: a program reads the block by the length that it tells.
            scope.write(":WAV:DATA?")
            digits = scope.read_bytes(2, break_on_termchar=False)[1:]
            size = int(scope.read_bytes(int(digits), break_on_termchar=False))
            points = scope.read_bytes(size + 1, break_on_termchar=False)[:size]
        assert len(points) == POINTS, len(points)

    return read


def medians_us(works: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Of each its median in microseconds."""
    took: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        for _ in range(WARM):
            work()
    for _ in range(TURNS):
        for name, work in works.items():
            until = time.perf_counter() + seconds / TURNS
            while (began := time.perf_counter()) < until:
                work()
                took[name].append((time.perf_counter() - began) * 1e6)
    return {name: percentile(found, 0.5) for name, found in took.items()}


def figures(queried: dict[str, float], captured: dict[str, float]) -> list[Figure]:
    told = [Figure(name=f"query, {name}", value=us, unit="us") for name, us in queried.items()]
    mcp_adds = queried["MCP call"] - queried[BARE]
    told += [
        Figure(
            name=f"query: {road} adds, of what an MCP call adds",
            value=(queried[road] - queried[BARE]) / mcp_adds,
            unit="x",
            bound=bound,
        )
        for road, bound in ADDED_AT_MOST.items()
    ]
    told += [
        Figure(name=f"4,096 points, {name}", value=us, unit="us") for name, us in captured.items()
    ]
    told += [
        Figure(
            name=f"4,096 points: {road}'s time, of bare pyvisa-py's",
            value=captured[road] / captured[BARE],
            unit="x",
            bound=1 / RATE_AT_LEAST,
        )
        for road in ADDED_AT_MOST
    ]
    return told


if __name__ == "__main__":
    sys.exit(main())
