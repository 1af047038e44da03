"""What one warm call makes the engine do, in counts that are the same on every machine.

``python -m benchmarks.cost [--names]`` (`make cost`) starts engines with three simulated
instruments and prints, beside the bound of each: Python functions called on the loop's thread
(asyncio's and aiohttp's included) and on other threads, files of ``edged`` entered, and system
calls of all threads (by strace; named as not counted where it is missing). What is done up to
0.1 s later belongs to a call. Functions and files are the smallest of several counts, since what
the engine does by itself meanwhile is not the call's; of more where a bound is exceeded, as on a
busy machine. System calls are the mean of many calls,
without those of an idle engine. Exits 1 where a bound is exceeded. The bounds are a ratchet: a
change that needs more says why in its commit and raises the bound there. They hold for Python
3.11; newer ones call fewer functions.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.compare.clients import WRITTEN_WITHIN_S, Line, call
from benchmarks.compare.price import QUERY, WRITE
from benchmarks.compare.servers import Server, Simulator, engine, simulator
from benchmarks.figures import Figure, tell

BENCH: Final = "psu1=rigol_dp832,dmm1=keysight_34461a,load1=rigol_dl3021"
PROFILED: Final = "benchmarks.peers.profiled_engine"
SLOWNESS: Final = 10
"""A profiler makes the start slow."""
FEWEST_COUNTS: Final = 6
COUNTS: Final = 15
MOST_COUNTS: Final = 45
WITHIN_S: Final = 0.1
"""The end row of a write follows its answer by 50 ms."""
WARM_CALLS: Final = 30
TRACED_CALLS: Final = 60
TRACES: Final = 2
TRACED_EVERY_S: Final = 0.02


def new_values() -> Iterator[dict[str, Any]]:
    """The same write, each time with a voltage that has not come before."""
    params = WRITE["params"]
    for step in itertools.count():
        values = {"channel": 1, "voltage": 2 + step / 1000}
        arguments = {**params["arguments"], "parameters": values}
        yield {**WRITE, "params": {**params, "arguments": arguments}}


WORKS: Final[dict[str, Iterator[dict[str, Any]]]] = {
    "list_instruments": itertools.repeat(call("list_instruments", {})),
    "get_status": itertools.repeat(call("get_status", {})),
    "query": itertools.repeat(QUERY),
    "write": itertools.repeat(WRITE),
    "write, a new value": new_values(),
}
"""A write has its intent on disk, its error query and its verify query. The first one comes in the
same words each time."""
THREADS: Final = ("loop", "others")
Count = dict[str, dict[str, int]]
"""By thread (``loop``, ``others``) and function."""
NAMES: Final = {
    "loop": "functions on the loop",
    "others": "functions on other threads",
    "files": "files of edged entered",
    "system calls": "system calls",
}
BOUNDS: Final = {
    "list_instruments": {"loop": 42, "others": 6, "files": 18, "system calls": 18},
    "get_status": {"loop": 150, "others": 6, "files": 54, "system calls": 18},
    "query": {"loop": 168, "others": 6, "files": 44, "system calls": 30},
    "write": {"loop": 365, "others": 145, "files": 67, "system calls": 90},
    "write, a new value": {"loop": 475, "others": 150, "files": 83, "system calls": 90},
}
"""With 4 % of room: where the disk or the machine is slow, the loop takes more turns for one call
(457 for a new value, and 450 on a quiet machine), and system calls are divided.

What is wanted on the loop: at most 60 functions for list_instruments, 160 for a query, 400 for a
write."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost", description=__doc__)
    parser.add_argument("--names", action="store_true", help="name the functions")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args()
    with simulator("--instruments", BENCH) as bench:
        functions = counted_functions(bench)
        try:
            calls = counted_system_calls(bench)
        except PermissionError as refused:
            # As in a container whose owner allows no tracing.
            sys.stderr.write(f"System calls were not counted: {refused}\n")
            calls = {}
    figures = []
    for work, counts in functions.items():
        measured: dict[str, float] = {
            "loop": _total(counts["loop"]),
            "others": _total(counts["others"]),
            "files": len(_files(counts)),
        }
        if work in calls:
            measured["system calls"] = calls[work]
        figures += [
            Figure(name=f"{work}: {NAMES[what]}", value=value, unit="", bound=BOUNDS[work][what])
            for what, value in measured.items()
        ]
        for thread, calls_of in counts.items() if options.names else ():
            for name, count in sorted(calls_of.items()):
                sys.stdout.write(f"{work:<18}{thread:<8}{count:>5} {_in_edged(name) or name}\n")
    return tell("What one warm call costs, three instruments", figures, as_json=options.json)


def counted_functions(bench: Simulator) -> dict[str, Count]:
    """Of each work, how often each function (``FILE:FUNCTION``) is called, by thread."""
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory) / "count"
        with engine(bench, run_by=counted_by(target), slowness=SLOWNESS) as (ours, _):
            line = Line(ours)
            # What the signals that begin and end a count cost.
            counting = smallest(ours, target, lambda: None)
            found = {}
            for work, messages in WORKS.items():
                bounds = {
                    thread: BOUNDS[work][thread] + _total(counting[thread]) for thread in THREADS
                }
                found[work] = smallest(ours, target, partial(_post, line, messages), bounds)
            line.close()
    return {
        work: {
            thread: dict(Counter(calls) - Counter(counting[thread]))
            for thread, calls in count.items()
        }
        for work, count in found.items()
    }


def _post(line: Line, messages: Iterator[dict[str, Any]]) -> None:
    line.post(next(messages))


def counted_by(target: Path) -> tuple[str, ...]:
    """The words that run an engine so that ``smallest`` can count it by way of that file."""
    return ("env", f"COUNT_FILE={target}", sys.executable, "-m", PROFILED)


def smallest(
    server: Server, target: Path, do: Callable[[], object], bounds: Mapping[str, int] | None = None
) -> Count:
    """The smallest of several counts of what one warm call makes that engine do.

    Args:
        bounds: functions by thread. A few counts do where the smallest keeps them; where it does
            not, more are taken than without any.
    """
    for _ in range(WARM_CALLS):
        do()
    least: Count = {}
    for taken in range(MOST_COUNTS if bounds else COUNTS):
        if (
            bounds
            and taken >= FEWEST_COUNTS
            and all(_total(least[thread]) <= bound for thread, bound in bounds.items())
        ):
            break
        time.sleep(WRITTEN_WITHIN_S)  # noqa: TID251 - another process's threads
        os.kill(server.pid, signal.SIGUSR1)
        time.sleep(0.02)  # noqa: TID251 - as above
        do()
        time.sleep(WITHIN_S)  # noqa: TID251 - as above
        os.kill(server.pid, signal.SIGUSR2)
        count = _written(target)
        least = {
            thread: min(least.get(thread, count[thread]), count[thread], key=_total)
            for thread in THREADS
        }
    return least


def _total(calls: Mapping[str, int]) -> int:
    return sum(calls.values())


def _written(target: Path) -> Count:
    until = time.monotonic() + 5
    while not target.exists() and time.monotonic() < until:
        time.sleep(0.01)  # noqa: TID251 - as above
    count: Count = json.loads(target.read_text())
    target.unlink()
    return count


def _files(count: Count) -> set[str]:
    """The files of ``edged`` among those of all functions that were called."""
    names = {name for calls in count.values() for name in calls}
    return {_in_edged(name).partition(":")[0] for name in names} - {""}


def _in_edged(name: str) -> str:
    _, found, rest = name.rpartition("/edged/")
    return rest if found and "site-packages" not in name else ""


def counted_system_calls(bench: Simulator) -> dict[str, float]:
    """Of each work, the mean of many calls without those of an idle engine.

    Raises:
        PermissionError: strace is missing, or may not attach.
    """
    if shutil.which("strace") is None:
        raise PermissionError("strace is not installed")
    with engine(bench) as (ours, _):
        line = Line(ours)
        found = {}
        for work, messages in WORKS.items():
            for _ in range(WARM_CALLS):
                _post(line, messages)
            found[work] = min(_traced(ours, partial(_post, line, messages)) for _ in range(TRACES))
        line.close()
        idle, idle_s = min(_traced(ours, lambda: None) for _ in range(TRACES))
    return {
        work: (count - idle * seconds / idle_s) / TRACED_CALLS
        for work, (count, seconds) in found.items()
    }


def _traced(server: Server, do: Callable[[], object]) -> tuple[int, float]:
    """System calls of all threads in TRACED_CALLS times, and how long those took (s)."""
    began = time.monotonic()
    with _strace(server.pid) as lines:
        for _ in range(TRACED_CALLS):
            do()
            time.sleep(TRACED_EVERY_S)  # noqa: TID251 - another process's threads
        time.sleep(WRITTEN_WITHIN_S)  # noqa: TID251 - as above
        took_s = time.monotonic() - began
    return int(lines[-1]), took_s


@contextlib.contextmanager
def _strace(pid: int) -> Iterator[list[str]]:
    """Attached to all threads of the process; afterwards the list ends with the number of calls."""
    summary: list[str] = []
    with tempfile.NamedTemporaryFile("r") as told:
        process = subprocess.Popen(
            ["strace", "-f", "-c", "-U", "calls", "-o", told.name, "-p", str(pid)],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        if "attached" not in (said := process.stderr.readline()):
            process.wait()
            raise PermissionError(said.strip())
        try:
            yield summary
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=20)
            summary.append(re.findall(r"^\s*(\d+)", told.read(), re.M)[-1])


if __name__ == "__main__":
    raise SystemExit(main())
