"""What is measured: each function is one round of one piece of work, side by side.

A round gives figures by name; ``__main__`` takes the medians of some rounds and makes ratios.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyvisa

from benchmarks.compare.clients import (
    LIST,
    Line,
    call,
    load,
    median_us,
    medians_us,
    p99_beside_load_us,
    paced_us,
)
from benchmarks.compare.price import idle_share, prices_us
from benchmarks.compare.progress import progress_rates
from benchmarks.compare.servers import (
    Server,
    Simulator,
    echo,
    engine,
    fastmcp,
    nodes,
    sdk,
    simulator,
    typescript,
)
from benchmarks.figures import percentile
from benchmarks.peers.visa_bench import VisaBench
from tests.bench.engine_process import EngineProcess

THREE = "psu1=rigol_dp832,dmm1=keysight_34461a,scope1=rigol_ds1054z"
MANY = 32
TOOLS = 500
FOR_TOOLS = 13
"""Supplies that make about 500 tools."""
ANSWER_MS = 5
WARMING_S = 2.0
MOST_WARMING = 10
STEADY_TIMES = 2
STEADY = 0.93
"""A server is warm when two seconds leave this share of a call's cost, twice running."""
Figures = dict[str, float]

STATUS = call("get_status", {})
INSTRUMENTS = call("list_instruments", {})
EVERY_S = 0.008
OUR_QUERY = call(
    "execute_command",
    {"instrument_id": "psu1", "command_name": "measure_voltage", "parameters": {"channel": 1}},
)
SCPI = ":MEAS:VOLT? CH1"
CALLS_PER_S = 200
THEIR_QUERY = call("query", {"instrument": 0, "command": SCPI})
SCOPE = 2
POINTS = 4_096
OUR_CAPTURE = call(
    "execute_command",
    {
        "instrument_id": "scope1",
        "command_name": "capture_memory",
        "parameters": {"channel": 1, "first": 1, "last": POINTS},
    },
)
THEIR_WAVEFORM = (
    call("capture_waveform", {"instrument": SCOPE, "points": POINTS}),
    call("fetch_waveform", {}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Everybody on one simulated bench of three instruments."""

    bench: Simulator
    ours: Server
    engine: EngineProcess
    echo: Server
    sdk: Server
    fastmcp: Server
    ts: Server | None
    ts_too: Server | None
    """On another Node, where there are two."""


@contextlib.contextmanager
def field() -> Iterator[Field]:
    """Start everybody."""
    with contextlib.ExitStack() as parts:
        bench = parts.enter_context(simulator("--instruments", THREE))
        ours, process = parts.enter_context(engine(bench))
        # The memory of this scope is only given while it stands still.
        process.tool("execute_command", instrument_id="scope1", command_name="stop", parameters={})
        typescripts = [parts.enter_context(typescript(node, bench.ports)) for node in nodes()]
        yield Field(
            bench=bench,
            ours=ours,
            engine=process,
            echo=parts.enter_context(echo()),
            sdk=parts.enter_context(sdk(bench.ports)),
            fastmcp=parts.enter_context(fastmcp(bench.ports)),
            ts=typescripts[0] if typescripts else None,
            ts_too=typescripts[1] if len(typescripts) > 1 else None,
        )


def servers_of(everybody: Field) -> dict[str, Server]:
    """By the names under which figures are kept."""
    servers = {
        "ours": everybody.ours,
        "echo": everybody.echo,
        "sdk": everybody.sdk,
        "fastmcp": everybody.fastmcp,
        "ts": everybody.ts,
        "ts_too": everybody.ts_too,
    }
    return {key: server for key, server in servers.items() if server is not None}


def warm_up(everybody: Field, share: float) -> None:
    """Call each until it has become no cheaper: compilers at run time take tens of thousands."""
    for server in servers_of(everybody).values():
        spent = [math.inf]
        steady = 0
        while steady < STEADY_TIMES and len(spent) <= MOST_WARMING:
            told = load(server, [STATUS], clients=16, seconds=WARMING_S * share)
            steady = steady + 1 if told["cpu_us"] > STEADY * spent[-1] else 0
            spent.append(told["cpu_us"])


def cached(everybody: Field, seconds: float) -> Figures:
    """Calls a second of a tool that tells what is known, and what one costs."""
    found: Figures = {}
    for key, server in servers_of(everybody).items():
        told = load(server, [STATUS], clients=16, seconds=seconds)
        found[f"cached.{key}.per_s"] = told["calls_per_s"]
        found[f"cached.{key}.cpu_us"] = told["cpu_us"]
        found[f"cached.{key}.p99_us"] = told["p99_us"]
    told = load(everybody.ours, [INSTRUMENTS], clients=16, seconds=seconds)
    found["cached.list.cpu_us"] = told["cpu_us"]
    for name, server in (("list", everybody.ours), ("echo", everybody.echo)):
        told = load(server, [INSTRUMENTS], clients=1, seconds=seconds)
        found[f"one.{name}.cpu_us"] = told["cpu_us"]
    return found


def paced(everybody: Field, seconds: float) -> Figures:
    """Processor time of a call of one client that calls every 8 ms, as people and agents do."""
    work = (("list", everybody.ours, INSTRUMENTS), ("echo", everybody.echo, STATUS))
    return {
        f"paced.{name}_us": paced_us(
            server, message, every_s=EVERY_S, seconds=seconds, idle=idle_share(server)
        )
        for name, server, message in work
    }


def hardware(everybody: Field, seconds: float) -> Figures:
    """Median of a query: bare, and through each server."""
    found = {
        "hardware.bare_us": _bare_us(everybody.bench.ports[0], seconds),
        "hardware.ours_us": median_us(everybody.ours, [OUR_QUERY], seconds),
        "hardware.sdk_us": median_us(everybody.sdk, [THEIR_QUERY], seconds),
        "hardware.fastmcp_us": median_us(everybody.fastmcp, [THEIR_QUERY], seconds),
    }
    if everybody.ts is not None:
        found["hardware.ts_us"] = median_us(everybody.ts, [THEIR_QUERY], seconds)
    return found


def _bare_us(port: int, seconds: float) -> float:
    manager = pyvisa.ResourceManager("@py")
    line: Any = manager.open_resource(f"TCPIP::127.0.0.1::{port}::SOCKET")
    line.read_termination = line.write_termination = "\n"
    found = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        line.query(SCPI)
        found.append((time.perf_counter() - began) * 1e6)
    line.close()
    manager.close()
    return percentile(found, 0.5)


def price(everybody: Field, seconds: float) -> Figures:
    """Processor time of a query, and of what it is made of; one client, one call after another."""
    calls = round(CALLS_PER_S * seconds)
    found = prices_us(everybody.ours, everybody.echo, everybody.bench.ports[0], calls, turns=1)
    return {f"price.{name}_us": value for name, value in found.items()}


def beside(everybody: Field, seconds: float) -> Figures:
    """A hardware query's p99 beside 16 clients that read what is known, flat out; and alone."""
    line = Line(everybody.ours)
    alone_us = percentile(line.latencies_us([OUR_QUERY], seconds), 0.99)
    line.close()
    return {
        "beside.alone_us": alone_us,
        "beside.ours_us": p99_beside_load_us(everybody.ours, OUR_QUERY, STATUS, seconds=seconds),
        "beside.sdk_us": p99_beside_load_us(everybody.sdk, THEIR_QUERY, STATUS, seconds=seconds),
    }


def waveform(everybody: Field, seconds: float) -> Figures:
    """4,096 points from the scope to the client, by two calls; and to a bare PyVISA program."""
    return {
        "waveform.bare_us": _bare_waveform_us(everybody.bench.ports, seconds),
        "waveform.ours_us": _our_waveform_us(everybody.ours, seconds),
        "waveform.sdk_us": median_us(everybody.sdk, THEIR_WAVEFORM, seconds),
    }


def _our_waveform_us(server: Server, seconds: float) -> float:
    line = Line(server)
    found = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        answer = line.post(OUR_CAPTURE)
        told = json.loads(answer.partition(b"\r\n\r\n")[2])["result"]["structuredContent"]["data"]
        where = {key: told[key] for key in ("stream_id", "point_index")}
        fetched = line.post(call("fetch_waveform", where))
        found.append((time.perf_counter() - began) * 1e6)
        assert len(fetched) > 4 * told["y_length"]
    line.close()
    return percentile(found, 0.5)


def _bare_waveform_us(ports: list[int], seconds: float) -> float:
    bench = VisaBench(ports)
    found = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        bench.capture(SCOPE, POINTS)
        bench.fetch()
        found.append((time.perf_counter() - began) * 1e6)
    bench.close()
    return percentile(found, 0.5)


def progress(everybody: Field, seconds: float) -> Figures:
    """Progress events a second of one stream."""
    ours_per_s, sdk_per_s = progress_rates(everybody.sdk, seconds)
    return {"progress.ours_per_s": ours_per_s, "progress.sdk_per_s": sdk_per_s}


Measure = Callable[[Field, float], Figures]


@contextlib.contextmanager
def listers() -> Iterator[tuple[Server, Server, int]]:
    """Both servers with about 500 tools, and how many."""
    supplies = f"psu*{FOR_TOOLS}=rigol_dp832"
    with simulator("--instruments", supplies) as bench, engine(bench) as (ours, process):
        count = process.rpc("tools/list")["tools"]
        with sdk(more_tools=len(count) - 5) as theirs:
            yield ours, theirs, len(count)


def listing(ours: Server, theirs: Server, seconds: float) -> Figures:
    """Median of tools/list, by turns."""
    ours_us, theirs_us = medians_us(((ours, [LIST]), (theirs, [LIST])), seconds)
    return {"list.ours_us": ours_us, "list.sdk_us": theirs_us}
