"""``make bench``: this server beside what a user would pick instead.

Everybody does the same work in one run, by turns; what counts are ratios of medians over the
rounds, since the machine's speed comes and goes. Prints a table against what must hold and what is
wished for, and writes JSON. A full run also adds a line to the history in docs/ and puts its table
into docs/benchmarks.md; ``--quick`` is one short round and leaves both alone.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.compare import many, measures, sessions, start
from benchmarks.compare.history import add_entry, fallen, last_entry, write_json, write_table
from benchmarks.compare.ratios import ratios_of
from benchmarks.compare.rows import ROWS, Row
from benchmarks.compare.servers import FASTMCP_PYTHON, SDK_PYTHON, nodes
from edged.profiles.library_cache import warm
from tests.bench.engine_process import REPOSITORY

Figures = dict[str, float]
Round = Callable[[], Figures]
ROUNDS = 3
FIELD: tuple[tuple[measures.Measure, float], ...] = (
    (measures.cached, 2.0),
    (measures.paced, 3.0),
    (measures.hardware, 1.5),
    (measures.price, 1.5),
    (measures.beside, 3.0),
    (measures.waveform, 1.5),
    (measures.progress, 4.0),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round: a look, no verdict")
    parser.add_argument("--json", type=Path, default=REPOSITORY / "var" / "bench.json")
    options = parser.parse_args()
    for program in (SDK_PYTHON, FASTMCP_PYTHON):
        if not program.exists():
            raise SystemExit(f"{program} is not there; `make bench` makes it.")
    if not nodes():
        _say("The TypeScript SDK is left out: `make conformance` brings Node and it.")
    for node in nodes():
        _say(f"Node {node.version}, {node.origin}: {node.program}")
    # As `make run` and the package do it.
    warm(REPOSITORY / "profiles")
    rounds, share = (1, 0.5) if options.quick else (ROUNDS, 1.0)
    figures = {name: statistics.median(values) for name, values in _measure(rounds, share).items()}
    ratios = ratios_of(figures)
    before = last_entry()
    _tell(ratios, figures)
    for sentence in fallen(ratios, before):
        _say(sentence)
    write_json(options.json, ratios, figures, rounds=rounds)
    if not options.quick:
        add_entry(ratios, rounds=rounds)
        write_table(ratios)
    return 0 if all(row.holds(ratios[row.key]) for row in ROWS if row.key in ratios) else 1


def _measure(rounds: int, share: float) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for name, one_round, times in _work(rounds, share):
        for number in range(times):
            _say(f"{name}, round {number + 1} of {times}")
            for figure, value in one_round().items():
                found[figure].append(value)
    return found


def _work(rounds: int, share: float) -> Iterator[tuple[str, Round, int]]:
    """Each piece of work, and how often; what it needs is started before and ended after it."""
    with measures.field() as everybody:
        _say("warming everybody up")
        measures.warm_up(everybody, share)

        def one_round() -> Figures:
            told: Figures = {}
            for measure, seconds in FIELD:
                told |= measure(everybody, seconds * share)
            return told

        yield "side by side", one_round, rounds
    with measures.listers() as (ours, theirs, count):
        yield f"{count} tools", lambda: measures.listing(ours, theirs, 2 * share), rounds
    with many.slow_bench() as both:
        yield "32 slow instruments", lambda: many.at_once(both, 3 * share), rounds
    with many.eight() as (bench, ours):
        yield "one that hangs", lambda: many.hung(bench, ours, 3 * share), rounds
    # One start is a second, and nothing swings as much.
    yield "start", start.starts, rounds * 2 - 1
    yield "1,100 streams", sessions.streams, rounds
    yield "10,000 sessions", lambda: sessions.churn(round(10_000 * share**3)), 1


def _tell(ratios: Figures, figures: Figures) -> None:
    sys.stdout.write("\n")
    for name in sorted(figures):
        sys.stdout.write(f"  {name:<28}{figures[name]:>14,.2f}\n")
    sys.stdout.write(f"\n  {'':<60}{'':>10} {'must':>8} {'goal':>8}\n")
    for row in ROWS:
        if row.key not in ratios:
            sys.stdout.write(f"  {row.text:<60}{'not measured':>13}\n")
            continue
        value = ratios[row.key]
        verdict = _verdict(row, value)
        sign = "≥" if row.at_least else "≤"
        shown = f"{value:.2f} {row.unit}"
        bounds = f"{sign}{row.must:>6g}  {sign}{row.goal:>6g}" if row.is_bounded else " " * 16
        sys.stdout.write(f"  {row.text:<60}{shown:>10} {bounds}  {verdict}\n")
    sys.stdout.flush()


def _verdict(row: Row, value: float) -> str:
    if not row.is_bounded:
        return ""
    return "goal" if row.reaches(value) else "kept" if row.holds(value) else "NOT KEPT"


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    raise SystemExit(main())
