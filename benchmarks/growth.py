"""How the cost of a call grows with the work around it: instruments, tools, sessions, audit rows.

Along each axis a real engine for every size stands side by side, and they take turns; what counts
is processor time of the whole engine a call, the median of five rounds, less what the same engine
takes while nobody calls (it looks after its instruments). ``--plot FILE`` draws it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sqlite3
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.compare.clients import WRITTEN_WITHIN_S, Line, load
from benchmarks.compare.measures import OUR_QUERY, STATUS
from benchmarks.compare.servers import Server, Simulator, engine, simulator
from benchmarks.load_generator import open_session
from edged.store.audit_chain import Chain
from edged.store.audit_texts import Shelf
from edged.store.migrations import MIGRATIONS, migrate
from tests.bench.store_bench import entry

ROUNDS = 5
SECONDS = 0.8
CLIENTS = 8
QUIET_S = 1.5
BOUND = 0.25
"""Growth over a whole axis that is still called flat."""
SUPPLY = "rigol_dp832"
ROWS_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One thing that grows.

    Attributes:
        place: starts an engine at one size.
        has_queries: hardware is asked too.
    """

    name: str
    sizes: tuple[int, ...]
    place: Callable[[int], Any]
    has_queries: bool = False


@contextlib.contextmanager
def supplies(count: int, **settings: Any) -> Iterator[Server]:
    """An engine with so many instruments, and their tools."""
    words = f"psu*{count}={SUPPLY}" if count > 1 else f"psu1={SUPPLY}"
    with simulator("--instruments", words) as bench:
        known = bench if count else Simulator(instruments=(), control=bench.control)
        with engine(known, RESCAN_INTERVAL_SEC=3600, **settings) as (server, _):
            yield server


@contextlib.contextmanager
def sessions(count: int) -> Iterator[Server]:
    """An engine in which so many sessions are open, most of them idle."""
    with supplies(1) as server:
        for _ in range(count - CLIENTS):
            open_session(server.url)
        yield server


@contextlib.contextmanager
def audit_rows(count: int) -> Iterator[Server]:
    """An engine whose record holds so many rows already."""
    with simulator("--instruments", f"psu1={SUPPLY}") as bench:

        def fill(state_dir: Path) -> None:
            state_dir.mkdir(parents=True, exist_ok=True)
            with contextlib.closing(sqlite3.connect(state_dir / "edged.db")) as connection:
                connection.isolation_level = None
                connection.execute("PRAGMA journal_mode = WAL")
                migrate(connection, MIGRATIONS)
                chain, shelf = Chain(), Shelf()
                for start in range(0, count, ROWS_AT_ONCE):
                    connection.execute("BEGIN")
                    some = range(start, min(start + ROWS_AT_ONCE, count))
                    chain.append(connection, [shelf.row(entry(f"a{number}")) for number in some])
                    connection.execute("COMMIT")

        with engine(bench, before=fill) as (server, _):
            yield server


AXES = (
    Axis(name="instruments", sizes=(1, 50, 100, 200), place=supplies, has_queries=True),
    Axis(name="tools", sizes=(0, 14, 28, 57), place=supplies),
    Axis(name="sessions", sizes=(CLIENTS, 100, 300, 1_000), place=sessions),
    Axis(
        name="audit rows",
        sizes=(0, 10_000, 100_000, 1_000_000),
        place=audit_rows,
        has_queries=True,
    ),
)

Growth = dict[str, dict[int, float]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--plot", type=Path, help="draw it into this file")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args()
    grown: dict[str, Growth] = {axis.name: _along(axis) for axis in AXES}
    if options.plot:
        _draw(grown, options.plot)
    if options.json:
        sys.stdout.write(json.dumps(grown, indent=1) + "\n")
    else:
        _tell(grown)
    kept = all(_growth(line) <= BOUND for axis in grown.values() for line in axis.values())
    return 0 if kept else 1


def _along(axis: Axis) -> Growth:
    """Work → size → microseconds a call."""
    works = {"cached call": STATUS} | ({"hardware query": OUR_QUERY} if axis.has_queries else {})
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    with contextlib.ExitStack() as parts:
        servers = {size: parts.enter_context(axis.place(size)) for size in axis.sizes}
        sizes = {size: _shown(axis, server, size) for size, server in servers.items()}
        quiet = {size: _quiet_share(server) for size, server in servers.items()}
        for _ in range(ROUNDS):
            for name, message in works.items():
                clients = 1 if message is OUR_QUERY else CLIENTS
                for size, server in servers.items():
                    cost_us = _cost_us(server, message, clients, quiet[size])
                    found[name][sizes[size]].append(cost_us)
    return {
        name: {size: statistics.median(values) for size, values in line.items()}
        for name, line in found.items()
    }


def _quiet_share(server: Server) -> float:
    """Seconds of processor a second while nobody calls."""
    before = server.cpu_s()
    time.sleep(QUIET_S)  # noqa: TID251 - time is what is measured
    return (server.cpu_s() - before) / QUIET_S


def _cost_us(server: Server, message: dict[str, Any], clients: int, quiet_share: float) -> float:
    told = load(server, [message], clients=clients, seconds=SECONDS)
    quiet_s = quiet_share * (SECONDS + WRITTEN_WITHIN_S)
    return told["cpu_us"] - quiet_s / told["calls"] * 1e6


def _shown(axis: Axis, server: Server, size: int) -> int:
    """How many of the axis's things there are; tools are counted, not chosen."""
    if axis.name != "tools":
        return size
    line = Line(server)
    answer = json.loads(line.post(STATUS).partition(b"\r\n\r\n")[2])
    line.close()
    return int(answer["result"]["structuredContent"]["mcp"]["tools"])


def _growth(line: dict[int, float]) -> float:
    """From the smallest size to the largest, as a share."""
    return line[max(line)] / line[min(line)] - 1


def _tell(grown: dict[str, Growth]) -> None:
    sys.stdout.write(f"CPU of a call, microseconds; at most {BOUND:.0%} more over each range\n")
    for axis, lines in grown.items():
        for name, line in lines.items():
            values = "  ".join(f"{size:,}: {value:.0f}" for size, value in line.items())
            growth = _growth(line)
            verdict = "kept" if growth <= BOUND else "EXCEEDED"
            sys.stdout.write(f"  {axis + ', ' + name:<30}{values:<60}{growth:>+7.0%}  {verdict}\n")


def _draw(grown: dict[str, Growth], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "growth"
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(grown), figsize=(12, 3.2), sharey=True)
    for panel, (axis, lines) in zip(panels, grown.items(), strict=True):
        for name, line in lines.items():
            first = line[min(line)]
            shares = [100 * value / first for value in line.values()]
            panel.plot(list(line), shares, marker="o", label=f"{name} ({first:.0f} µs)")
        panel.axhline(100 * (1 + BOUND), color="grey", linestyle="--", linewidth=0.8)
        panel.set_xlabel(axis)
        panel.set_ylim(0, 150)
        if axis == "audit rows":
            panel.set_xscale("symlog", linthresh=10_000)
            panel.set_xlim(left=-1_000)
        panel.legend(loc="lower right", fontsize=7, frameon=False)
    panels[0].set_ylabel("CPU of a call, % of the smallest")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    raise SystemExit(main())
