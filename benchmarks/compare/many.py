"""Many slow instruments at once, and one of several that hangs."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.compare.clients import call, load
from benchmarks.compare.measures import SCPI, Figures
from benchmarks.compare.servers import Server, Simulator, engine, sdk, simulator

MANY = 32
ANSWER_MS = 5
EIGHT = 8


def _ours(name: str) -> dict[str, Any]:
    arguments = {
        "instrument_id": name,
        "command_name": "measure_voltage",
        "parameters": {"channel": 1},
    }
    return call("execute_command", arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """Both servers over the same slow instruments."""

    bench: Simulator
    ours: Server
    sdk: Server


@contextlib.contextmanager
def slow_bench() -> Iterator[Slow]:
    """32 supplies that take 5 ms for each answer."""
    words = ("--instruments", f"psu*{MANY}=rigol_dp832")
    # An engine greets them at their own pace, so they become slow by name.
    slow = [word for n in range(1, MANY + 1) for word in ("--latency-ms", f"psu{n}={ANSWER_MS}")]
    with (
        simulator(*words, *slow) as bench,
        engine(bench) as (ours, _),
        sdk(bench.ports) as theirs,
    ):
        yield Slow(bench=bench, ours=ours, sdk=theirs)


def at_once(both: Slow, seconds: float) -> Figures:
    """Calls a second: one client with one instrument, 32 with 32."""
    names = [str(entry["name"]) for entry in both.bench.instruments]
    theirs = [call("query", {"instrument": n, "command": SCPI}) for n in range(MANY)]
    one = load(both.ours, [_ours(names[0])], clients=1, seconds=seconds)
    all_ours = load(both.ours, [_ours(name) for name in names], clients=MANY, seconds=seconds)
    all_theirs = load(both.sdk, theirs, clients=MANY, seconds=seconds)
    return {
        "many.one_per_s": one["calls_per_s"],
        "many.ours_per_s": all_ours["calls_per_s"],
        "many.ours_cpu_us": all_ours["cpu_us"],
        "many.sdk_per_s": all_theirs["calls_per_s"],
    }


@contextlib.contextmanager
def eight() -> Iterator[tuple[Simulator, Server]]:
    """Eight quick supplies."""
    with (
        simulator("--instruments", f"psu*{EIGHT}=rigol_dp832") as bench,
        engine(bench) as (ours, _),
    ):
        yield bench, ours


def hung(bench: Simulator, ours: Server, seconds: float) -> Figures:
    """p99 of seven instruments' clients, while all are well and while the eighth hangs."""
    names = [str(entry["name"]) for entry in bench.instruments]
    others = [_ours(name) for name in names[:-1]]
    well = load(ours, others, clients=EIGHT - 1, seconds=seconds)["p99_us"]
    order(bench, "fault", instrument=names[-1], kind="hang", seconds=60)
    waiting = threading.Thread(target=_ask_and_wait, args=(ours, names[-1]), daemon=True)
    waiting.start()
    ill = load(ours, others, clients=EIGHT - 1, seconds=seconds)["p99_us"]
    order(bench, "clear", instrument=names[-1])
    waiting.join(60)
    return {"hung.well_us": well, "hung.ill_us": ill}


def _ask_and_wait(ours: Server, name: str) -> None:
    """A client who asks the one that hangs, and takes whatever comes of it."""
    from benchmarks.compare.clients import Line

    with contextlib.suppress(SystemExit, OSError):
        Line(ours).post(_ours(name))


def order(bench: Simulator, method: str, **params: Any) -> None:
    """Tell the simulated bench something."""
    with socket.create_connection(("127.0.0.1", bench.control), 5) as line:
        order = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        line.sendall(json.dumps(order).encode() + b"\n")
        with line.makefile("rb") as answers:
            reply = json.loads(answers.readline())
    if "error" in reply:
        raise SystemExit(f"the simulated bench refused {method}: {reply['error']}")
