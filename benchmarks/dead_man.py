"""Ordinary work on a supply with a dead-man, engines ending and beginning anew: does it ever trip?

``python -m benchmarks.dead_man [--minutes 100] [--limit 10]`` runs in real time. Every half minute
the engine ends, in turn in order and by SIGKILL, and another begins. It ends with status 1 at the
first trip.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.guarded_supply import command, done, engine_on, is_on, switch_on
from tests.bench.sim_bench import SimBench, running_bench

LIFE_S = 30.0


def live(directory: Path, bench: SimBench, limit_s: float, life: int) -> int:
    """One life of an engine; gives how many calls it answered."""
    calls = 0
    with engine_on(directory, bench, limit_s) as engine:
        if life == 0:
            switch_on(engine)
        until = time.monotonic() + LIFE_S
        while time.monotonic() < until:
            done(command(engine, "measure_voltage"))
            done(command(engine, "set_voltage", voltage=1 + calls % 5))
            calls += 2
            if calls % 100 == 0:
                # As whoever thinks between two calls.
                time.sleep(limit_s)  # noqa: TID251
        if life % 2:
            os.kill(engine.process.pid, signal.SIGKILL)
            engine.process.wait()
        else:
            engine.stop()
    return calls


def main() -> int:
    """Run it, and tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=100.0)
    parser.add_argument("--limit", type=float, default=10.0)
    options = parser.parse_args()
    began, lives, calls = time.monotonic(), 0, 0
    with (
        tempfile.TemporaryDirectory() as directory,
        running_bench("--instruments", "psu1=keysight_n6700") as bench,
    ):
        while time.monotonic() - began < options.minutes * 60:
            calls += live(Path(directory), bench, options.limit, lives)
            lives += 1
            if not is_on(bench) or bench.state("psu1")["watchdog"]["is_tripped"]:
                sys.stdout.write(f"tripped after {lives} lives: {bench.state('psu1')}\n")
                return 1
    minutes = (time.monotonic() - began) / 60
    sys.stdout.write(f"{minutes:.1f} min, {lives} engines, {calls} calls: it never tripped\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
