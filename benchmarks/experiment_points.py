"""An experiment of many points: its check, what a point costs beside the instruments, its memory.

A map over two set-points of one simulated supply that answers at once, with a reading at each. A
bare PyVISA loop sends the same lines and reads the same answers, by turns; its socket does not wait
for acknowledgements, which would cost it 40 ms a point. ``--points`` is how many
points the long run has; the memory is that of the engine's process at a tenth of them and at all.
"""

from __future__ import annotations

import argparse
import re
import socket
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pyvisa

from benchmarks.figures import Figure, tell
from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.sim_bench import SimBench, running_bench

POINTS = 100_000
COMPARED = 1_000
"""Points of each of the runs that are compared."""
ROUNDS = 3
INNER = 100
MB = 1024 * 1024
ENDED = frozenset({"completed", "stopped", "failed"})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--points", type=int, default=POINTS, help=f"default {POINTS:,}")
    options = parser.parse_args()
    with (
        running_bench("--instruments", "psu1", "--latency-ms", "psu1=0") as bench,
        tempfile.TemporaryDirectory() as directory,
        engine_process(
            Path(directory),
            sim=False,
            config={"INSTRUMENTS": [{"address": bench.address("psu1"), "name": "psu1"}]},
        ) as engine,
    ):
        ours, bare, used = [], [], []
        for _ in range(ROUNDS):
            mark = bench.mark()
            before_s = _processor_s(engine)
            ours.append(_run(engine, COMPARED))
            used.append(_processor_s(engine) - before_s)
            lines = _lines(bench, mark)
            bare.append(_bare(bench, lines))
        added = [1000 * (mine - its) / COMPARED for mine, its in zip(ours, bare, strict=True)]
        check_s = _check(engine, options.points)
        before, after = _memory(engine, options.points)
    figures = (
        Figure(name=f"check of {options.points:,} points", value=check_s, unit="s", bound=1.0),
        Figure(name="lines a point", value=len(lines) / COMPARED, unit=""),
        Figure(name="bare PyVISA, a point", value=_each_ms(bare), unit="ms"),
        Figure(name="experiment, a point", value=_each_ms(ours), unit="ms"),
        Figure(name="processor time of the engine, a point", value=_each_ms(used), unit="ms"),
        Figure(name="added to a point", value=statistics.median(added), unit="ms", bound=2.0),
        Figure(name="memory at a tenth of the points", value=before, unit="MB"),
        Figure(name="growth from there to all", value=after - before, unit="MB", bound=2.0),
    )
    return tell("an experiment of many points", figures, as_json=options.json)


def _each_ms(took: list[float]) -> float:
    return 1000 * statistics.median(took) / COMPARED


def plan(points: int) -> dict[str, Any]:
    """The map: ``points`` in lines of INNER."""
    return {
        "format": 1,
        "experiment": "many_points",
        "roles": {"supply": "psu1"},
        "with": {"supply": {"channel": 1}},
        "at_most_h": 12,
        "steps": [
            {"for": "i", "in": {"lin": [0.1, 1, points // INNER]}, "set": "supply.set_current",
             "steps": [
                {"for": "v", "in": {"lin": [0, 5, INNER]}, "set": "supply.set_voltage",
                 "steps": [{"measure": {"volts": "supply.measure_voltage"}}]}]},
        ],
    }  # fmt: skip


def _check(engine: EngineProcess, points: int) -> float:
    took = []
    for _ in range(ROUNDS):
        began = time.monotonic()
        told = engine.tool("bench__check_experiment", plan=plan(points))["result"]
        took.append(time.monotonic() - began)
        if not told["ok"] or told["points"] != points:
            raise SystemExit(f"the check did not do it: {told}")
    return statistics.median(took)


def _start(engine: EngineProcess, points: int) -> str:
    told = engine.tool("bench__start_experiment", plan=plan(points))
    if told["is_error"]:
        raise SystemExit(f"it did not start: {told}")
    return str(told["result"]["run_id"])


def _status(engine: EngineProcess, run_id: str) -> dict[str, Any]:
    told: dict[str, Any] = engine.tool("bench__control_run", run_id=run_id)["result"]
    return told


def _run(engine: EngineProcess, points: int) -> float:
    """Seconds of a run."""
    run_id = _start(engine, points)
    while (told := _status(engine, run_id))["state"] not in ENDED:
        time.sleep(0.2)  # noqa: TID251 - another process has no event to wait for
    if told["state"] != "completed" or told["done"] != points:
        raise SystemExit(f"the run did not do it: {told}")
    return float(told["elapsed_s"])


def _processor_s(engine: EngineProcess) -> float:
    used = psutil.Process(engine.process.pid).cpu_times()
    return float(used.user + used.system)


def _memory(engine: EngineProcess, points: int) -> tuple[float, float]:
    """MB of the engine's process at a tenth of the points and at all of them."""
    process = psutil.Process(engine.process.pid)
    run_id = _start(engine, points)
    at_a_tenth = 0.0
    while True:
        told = _status(engine, run_id)
        resident = process.memory_info().rss / MB
        if not at_a_tenth and told["done"] >= points / 10:
            at_a_tenth = resident
        if told["state"] in ENDED:
            break
        time.sleep(0.5)  # noqa: TID251 - another process has no event to wait for
    if told["state"] != "completed" or told["done"] != points:
        raise SystemExit(f"the run did not do it: {told}")
    return at_a_tenth, resident


def _lines(bench: SimBench, mark: int) -> list[str]:
    """What the run sent, from its first set-point on."""
    lines = bench.received("psu1", since=mark)
    begin = next(n for n, line in enumerate(lines) if re.match(r":SOUR1:CURR ", line))
    return lines[begin:]


def _bare(bench: SimBench, lines: list[str]) -> float:
    """Seconds of a loop that sends these lines and reads their answers."""
    manager = pyvisa.ResourceManager("@py")
    supply = manager.open_resource(
        bench.address("psu1"), read_termination="\n", write_termination="\n", timeout=5000
    )
    socket_of(supply).setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    began = time.monotonic()
    for line in lines:
        if "?" in line:
            supply.query(line)
        else:
            supply.write(line)
    took = time.monotonic() - began
    supply.close()
    manager.close()
    return took


def socket_of(resource: Any) -> socket.socket:
    """The socket below a resource of pyvisa-py."""
    found: socket.socket = resource.visalib.sessions[resource.session].interface
    return found


if __name__ == "__main__":
    raise SystemExit(main())
