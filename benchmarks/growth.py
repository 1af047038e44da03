"""How the cost of a call grows with the work around it: instruments, tools, sessions, audit rows.

Along each axis there is a real engine for every size. Processor time: the engines stand side by
side and take turns, in another order each round; the median of five rounds counts. Of hardware
queries, whose processor time differs from turn to turn by more than what is looked for, the
functions on the loop are counted too (`benchmarks.cost`), and these are held against the bound.
What the same engine takes while nobody calls is subtracted. ``--plot FILE`` draws it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.compare.clients import WRITTEN_WITHIN_S, Line, load
from benchmarks.compare.measures import OUR_QUERY, STATUS
from benchmarks.compare.servers import Server, Simulator, engine, simulator
from benchmarks.cost import SLOWNESS, counted_by, smallest
from benchmarks.load_generator import open_session
from edged.store.audit.chain import Chain, Shelf
from edged.store.file import MIGRATIONS, migrate
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
        place: starts an engine at one size; further words go to `engine`.
        has_queries: hardware is asked too.
    """

    name: str
    sizes: tuple[int, ...]
    place: Callable[..., Any]
    has_queries: bool = False


@contextlib.contextmanager
def supplies(count: int, **engine_words: Any) -> Iterator[Server]:
    """An engine with so many instruments, and their tools."""
    words = f"psu*{count}={SUPPLY}" if count > 1 else f"psu1={SUPPLY}"
    with simulator("--instruments", words) as bench:
        known = bench if count else Simulator(instruments=(), control=bench.control)
        with engine(known, RESCAN_INTERVAL_SEC=3600, **engine_words) as (server, _):
            yield server


@contextlib.contextmanager
def sessions(count: int, **engine_words: Any) -> Iterator[Server]:
    """An engine in which so many sessions are open, most of them idle."""
    with supplies(1, **engine_words) as server:
        for _ in range(count - CLIENTS):
            open_session(server.url)
        yield server


@contextlib.contextmanager
def audit_rows(count: int, **engine_words: Any) -> Iterator[Server]:
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

        with engine(bench, before=fill, **engine_words) as (server, _):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What a call costs beside each size of one thing.

    Attributes:
        is_bounded: it must not grow by more than the bound.
    """

    axis: str
    work: str
    unit: str
    is_bounded: bool
    costs: dict[int, float]

    @property
    def share(self) -> float:
        """From the smallest size to the largest."""
        return self.costs[max(self.costs)] / self.costs[min(self.costs)] - 1

    @property
    def is_kept(self) -> bool:
        return not self.is_bounded or self.share <= BOUND


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--plot", type=Path, help="draw it into this file")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args()
    grown = [line for axis in AXES for line in (*_timed_along(axis), *_counted_along(axis))]
    if options.json:
        sys.stdout.write(json.dumps([asdict(line) for line in grown], indent=1) + "\n")
    else:
        _tell(grown)
    if options.plot:
        _draw(grown, options.plot)
    return 0 if all(line.is_kept for line in grown) else 1


def _timed_along(axis: Axis) -> Iterator[Growth]:
    works = {"cached call": STATUS} | ({"hardware query": OUR_QUERY} if axis.has_queries else {})
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    with contextlib.ExitStack() as parts:
        servers = {size: parts.enter_context(axis.place(size)) for size in axis.sizes}
        sizes = {size: _shown(axis, server, size) for size, server in servers.items()}
        quiet = {size: _quiet_share(server) for size, server in servers.items()}
        order = list(servers)
        for turn in range(ROUNDS):
            _progress(f"{axis.name}: round {turn + 1} of {ROUNDS}")
            for name, message in works.items():
                clients = 1 if message is OUR_QUERY else CLIENTS
                for size in order:
                    cost_us = _cost_us(servers[size], message, clients, quiet[size])
                    found[name][sizes[size]].append(cost_us)
            # Whoever comes first in a round finds another machine than whoever comes last.
            order = [*order[1:], order[0]]
    for name, line in found.items():
        yield Growth(
            axis=axis.name,
            work=name,
            unit="µs",
            is_bounded=name == "cached call",
            costs={size: statistics.median(line[size]) for size in sizes.values()},
        )


def _counted_along(axis: Axis) -> Iterator[Growth]:
    if not axis.has_queries:
        return
    costs = {}
    for size in axis.sizes:
        _progress(f"{axis.name}: counting functions beside {size:,}")
        with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as parts:
            target = Path(directory) / "count"
            words = {"run_by": counted_by(target), "slowness": SLOWNESS}
            server = parts.enter_context(axis.place(size, **words))
            line = Line(server)
            parts.callback(line.close)
            count = smallest(server, target, partial(line.post, OUR_QUERY))
            costs[size] = float(sum(count["loop"].values()))
    yield Growth(
        axis=axis.name,
        work="hardware query",
        unit="functions on the loop",
        is_bounded=True,
        costs=costs,
    )


def _progress(words: str) -> None:
    sys.stderr.write(f"{words}\n")


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


def _tell(grown: Sequence[Growth]) -> None:
    sys.stdout.write(f"What a call costs; at most {BOUND:.0%} more over each range\n")
    for line in grown:
        values = "  ".join(f"{size:,}: {cost:.0f}" for size, cost in line.costs.items())
        name = f"{line.axis}, {line.work}, {line.unit}"
        verdict = ("kept" if line.is_kept else "EXCEEDED") if line.is_bounded else ""
        sys.stdout.write(f"  {name:<52}{values:<48}{line.share:>+6.0%}  {verdict}\n")


def _draw(grown: Sequence[Growth], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "growth"
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(AXES), figsize=(13, 3.4), sharey=True)
    for panel, axis in zip(panels, AXES, strict=True):
        for line in grown:
            if line.axis != axis.name:
                continue
            first = line.costs[min(line.costs)]
            shares = [100 * cost / first for cost in line.costs.values()]
            style = "-" if line.is_bounded else ":"
            label = f"{line.work} ({first:.0f} {line.unit})"
            panel.plot(list(line.costs), shares, marker="o", linestyle=style, label=label)
        panel.axhline(100 * (1 + BOUND), color="grey", linestyle="--", linewidth=0.8)
        panel.set_xlabel(axis.name)
        panel.set_ylim(0, 150)
        if axis.name == "audit rows":
            panel.set_xscale("symlog", linthresh=10_000)
            panel.set_xlim(left=-1_000)
        panel.legend(loc="lower right", fontsize=7, frameon=False)
    panels[0].set_ylabel("a call, % of the first")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    raise SystemExit(main())
