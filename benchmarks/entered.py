"""How many files of ``edged`` one warm call enters: functions called, all threads.

``python -m benchmarks.entered [--files]``; `make shape` tells it too. What is done up to 150 ms
later (the row of the record) counts. Of several counts the smallest: what the engine does by itself
meanwhile is not the call's.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.compare.clients import Line, call
from benchmarks.compare.price import QUERY, WRITE
from benchmarks.compare.servers import Server, engine, simulator

WITHIN_S = 0.15
COUNTS = 5
WARM_CALLS = 5
AIMS = {"list_instruments": 25, "a plain query": 40, "set_voltage with verify": 55}
WORKS: dict[str, dict[str, Any]] = {
    "list_instruments": call("list_instruments", {}),
    "a plain query": QUERY,
    "set_voltage with verify": WRITE,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.entered", description=__doc__)
    parser.add_argument("--files", action="store_true", help="name them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory) / "entered"
        words = ("env", f"ENTERED_FILE={target}", sys.executable, "-m")
        with (
            simulator("--instruments", "psu1=rigol_dp832") as bench,
            engine(bench, run_by=(*words, "benchmarks.peers.profiled_engine")) as (ours, _),
        ):
            line = Line(ours)
            for name, message in WORKS.items():
                files = _entered(ours, target, lambda message=message: line.post(message))
                sys.stdout.write(f"told: files entered by {name:<26}{len(files):>6}")
                sys.stdout.write(f"  aim {AIMS[name]}\n")
                for file in sorted(files) if options.files else ():
                    sys.stdout.write(f"    {file}\n")
            line.close()
    return 0


def _entered(server: Server, target: Path, do: Callable[[], object]) -> set[str]:
    for _ in range(WARM_CALLS):
        do()
    counts = []
    for _ in range(COUNTS):
        time.sleep(0.3)  # noqa: TID251 - another process's threads
        os.kill(server.pid, signal.SIGUSR1)
        time.sleep(0.02)  # noqa: TID251 - as above
        do()
        time.sleep(WITHIN_S)  # noqa: TID251 - as above
        os.kill(server.pid, signal.SIGUSR2)
        counts.append(_written(target))
    return min(counts, key=len)


def _written(target: Path) -> set[str]:
    until = time.monotonic() + 5
    while not target.exists() and time.monotonic() < until:
        time.sleep(0.01)  # noqa: TID251 - as above
    files = {_in_edged(line) for line in target.read_text().splitlines()}
    target.unlink()
    return {file for file in files if file}


def _in_edged(file: str) -> str:
    _, found, rest = file.rpartition("/edged/")
    return rest if found and "site-packages" not in file else ""


if __name__ == "__main__":
    raise SystemExit(main())
