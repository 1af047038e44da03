"""What a call to an instrument costs now, beside what it cost at another commit, in instructions.

``python -m benchmarks.query_cost --since COMMIT`` starts an engine from each of the two trees under
Valgrind (`benchmarks.instructions`), with one supply on a raw socket, and counts what one call
executes: a cached one, a typed query, the same line by send_scpi, a write with its error check. The
simulated bench and the client are this tree's both times. The same write is counted last by this
tree alone: under a lease, beside an interlock about something else, and guarded by one. Exits 1
where a query grew by more than the bound, or one of the first two costs a write more than a tenth;
a cached call is counted to some per cent only, since it costs little beside what trails it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.compare.clients import Line, call
from benchmarks.compare.measures import OUR_QUERY, SCPI
from benchmarks.compare.servers import engine, simulator
from benchmarks.instructions import SLOWNESS, Counter, counted_by
from tests.bench.engine_process import REPOSITORY

COUNTS = 3
CALLS = 80
"""In a count."""
WARM_CALLS = 30
PATIENT_MS = 120_000
"""Under Valgrind, on a machine that has other work too, an answer may be taken in late."""
BOUND = 0.02
"""Growth of a query that is still called none: runs of one tree differ by about one per cent."""
TAKEN_WITHIN_S = 300.0
SUPPLY = "rigol_dp832"
STATUS = call("get_status", {})
WORKS = {
    "cached call": STATUS,
    "typed query": OUR_QUERY,
    "raw query": call("send_scpi", {"instrument_id": "psu1", "scpi_command": SCPI}),
    "write, with its error check": call(
        "execute_command",
        {
            "instrument_id": "psu1",
            "command_name": "set_voltage",
            "parameters": {"channel": 1, "voltage": 1.5},
        },
    ),
}
WRITE = "write, with its error check"
UNDER_LEASE = "the same, under a lease"
WORKS[UNDER_LEASE] = WORKS[WRITE]
RESERVE = call("bench__reserve", {"instruments": ["psu1"], "ttl_s": 43_200, "purpose": "counting"})
BESIDE = "the same, beside an interlock"
GUARDED = "the same, guarded by an interlock"
WORKS[BESIDE] = WORKS[GUARDED] = WORKS[WRITE]
INTERLOCKS = {BESIDE: "psu1.output_on", GUARDED: "psu1"}
"""What is guarded then; the supply itself is the meter."""
GUARD_BOUND = 0.10
"""What a lease, or an interlock about something else, may cost a write."""
BOUNDED = ("typed query",)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.query_cost", description=__doc__)
    parser.add_argument("--since", default="HEAD", help="the other commit")
    parser.add_argument("--work", action="append", choices=tuple(WORKS), help="these alone")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        known = [name for name in options.work or WORKS if name not in (UNDER_LEASE, *INTERLOCKS)]
        before = costs_of(_tree_of(options.since, Path(directory)), known)
    now = costs_of(REPOSITORY, options.work or WORKS)
    if options.json:
        sys.stdout.write(json.dumps({"before": before, "now": now}, indent=1) + "\n")
    else:
        sys.stdout.write(f"Thousand instructions of a call: at {options.since}, and now\n")
        for name, cost in now.items():
            was = before.get(name, now.get(WRITE, cost))
            sys.stdout.write(f"  {name:<32}{was:>9.1f}{cost:>9.1f}{cost / was - 1:>+8.1%}\n")
    is_bounded = all(now[name] <= before[name] * (1 + BOUND) for name in BOUNDED if name in now)
    for name in {UNDER_LEASE, BESIDE} & now.keys():
        is_bounded &= WRITE in now and now[name] <= now[WRITE] * (1 + GUARD_BOUND)
    return 0 if is_bounded else 1


def costs_of(tree: Path, works: Iterable[str]) -> dict[str, float]:
    """Thousands of instructions of each call, by an engine whose code is that tree's."""
    with _counted(tree) as (counter, line, bench_file):
        costs, lease_id = {}, ""
        for name in works:
            sys.stderr.write(f"{tree}: counting a {name}\n")
            if name == UNDER_LEASE:
                lease_id = _lease_id(line.post(RESERVE))
            if name in INTERLOCKS:
                _guard(bench_file, line, INTERLOCKS[name])
            post = partial(line.post, WORKS[name])
            for _ in range(WARM_CALLS):
                post()
            counts = [counter.per_call(post, CALLS) for _ in range(COUNTS)]
            costs[name] = statistics.median(counts) / 1e3
            if name == UNDER_LEASE:
                # What is counted after it is counted without one.
                line.post(call("bench__release", {"lease_id": lease_id}))
            told = ", ".join(f"{count / 1e3:.1f}" for count in counts)
            sys.stderr.write(f"  thousand instructions: {told}\n")
        return costs


@contextlib.contextmanager
def _counted(tree: Path) -> Iterator[tuple[Counter, Line, Path]]:
    words = ("env", f"PYTHONPATH={tree}", "PYTHONSAFEPATH=1", "PYTHONHASHSEED=0")
    _check_runs(words, tree)
    with (
        tempfile.TemporaryDirectory() as directory,
        simulator("--instruments", f"psu1={SUPPLY}") as bench,
        engine(
            bench,
            run_by=(*words, *counted_by(Path(directory))),
            slowness=SLOWNESS,
            RESCAN_INTERVAL_SEC=3600,
            INSTRUMENTS=[_patient(entry) for entry in bench.instruments],
        ) as (server, process),
        contextlib.closing(Line(server)) as line,
    ):
        bench_file = process.state_dir.parent / "bench.yaml"
        yield Counter(server.pid, Path(directory)), line, bench_file


def _lease_id(answer: bytes) -> str:
    found = re.search(rb'lease_id[\\": ]+([^\\"]+)', answer)
    if found is None:
        raise SystemExit(f"the engine gave no lease: {answer.decode()}")
    return found[1].decode()


def _guard(bench_file: Path, line: Line, what: str) -> None:
    """Have the owner guard something from now on."""
    interlock = {
        "name": what,
        "when": {
            "instrument": "psu1", "command": "measure_voltage", "parameters": {"channel": 1},
        },
        "must": "value < 99",
        "guards": [what],
        "poll_s": 60,
        "max_age_s": 3_600,
    }  # fmt: skip
    bench_file.write_text(json.dumps({"format": 1, "interlocks": [interlock]}))
    deadline = time.monotonic() + TAKEN_WITHIN_S
    while what not in line.post(STATUS).decode():
        if time.monotonic() > deadline:
            raise SystemExit("the engine did not take the interlock into use")
        time.sleep(1.0)  # noqa: TID251 - another process has no event to wait for


def _patient(entry: dict[str, Any]) -> dict[str, Any]:
    address = f"TCPIP0::127.0.0.1::{entry['port']}::SOCKET"
    return {"address": address, "name": entry["name"], "timeout_ms": PATIENT_MS}


def _tree_of(commit: str, directory: Path) -> Path:
    """The files of a commit."""
    packed = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=REPOSITORY, check=True, capture_output=True
    )
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(directory, filter="data")
    return directory


def _check_runs(words: tuple[str, ...], tree: Path) -> None:
    """An engine of another tree than the one that is meant would measure nothing."""
    told = subprocess.run(
        [*words, sys.executable, "-c", "import edged; print(edged.__file__)"],
        check=True,
        capture_output=True,
        text=True,
    )
    if not Path(told.stdout.strip()).is_relative_to(tree):
        raise SystemExit(f"the code of {tree} would not run, but {told.stdout.strip()}")


if __name__ == "__main__":
    raise SystemExit(main())
