"""What the worst raw lines of the longest length cost, over every shipped profile.

First the processor time of one judgement, the tree of headers made before; and the longest of the
steps in which the messages of a piece of 4 MiB are found. Then a storm: an engine
with a unit of every profile whose simulation needs no other transport, eight clients that send such
lines to all units as fast as they can, and a stop of one more unit beside it.
"""

from __future__ import annotations

import gc
import itertools
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.figures import Figure, parse_json_flag, percentile, tell
from edged.profiles.model import Profile
from edged.profiles.raw import identify
from edged.scpi.program import Incoming
from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.shipped import shipped_library
from tests.bench.waiting import wait_for
from tests.unit.profiles.test_raw_classes import WORST

ROUNDS = 5
BOUND_MS = 5.0
CLIENTS = 8
STOPS = 20
STOP_BOUND_MS = 500.0
LONG = "DATA " + ",".join(["0.123456"] * 7_200)
"""A message of a VISA program of nearly 64 KiB."""
PIECE = b"".join([b" #a" * 21_000 + b"\n"] * 63)
"""Many messages of nearly 64 KiB, with much that might begin a block."""


def main() -> int:
    as_json = parse_json_flag(__doc__ or "")
    profiles = shipped_library().profiles
    worst = {
        f"line {number}": max(map(_cost_ms, [line] * len(profiles), profiles.values()))
        for number, line in enumerate((*WORST, LONG))
    }
    figures = tuple(
        Figure(name=f"{name}, costliest profile", value=value, unit="ms", bound=BOUND_MS)
        for name, value in worst.items()
    )
    step = min(_longest_step_ms(PIECE) for _ in range(ROUNDS))
    figures += (
        Figure(name="finding one of 63 long messages", value=step, unit="ms", bound=BOUND_MS),
    )
    stops = _storm()
    figures += (
        Figure(name="a stop beside the storm, p50", value=percentile(stops, 0.5), unit="ms"),
        Figure(
            name="a stop beside the storm, worst", value=max(stops), unit="ms", bound=STOP_BOUND_MS
        ),
    )
    return tell("raw lines", figures, as_json=as_json)


def _storm() -> list[float]:
    """Milliseconds from the call of a safe command to its bytes at the instrument."""
    units = [key for key, one in shipped_library().profiles.items() if one.connection.asks_idn]
    named = ",".join(["calm=rigol_dp832", *(f"u{n}={key}" for n, key in enumerate(units))])
    ended = threading.Event()
    with (
        tempfile.TemporaryDirectory() as directory,
        engine_process(Path(directory), "--instruments", named) as engine,
    ):
        wait_for(lambda: len(engine.tool("list_instruments")["result"]) > len(units))
        lines = itertools.cycle(
            itertools.product([line[:4_096] for line in WORST], range(len(units)))
        )
        clients = [
            threading.Thread(target=_send, args=(engine, lines, ended)) for _ in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        try:
            return [_stop(engine) for _ in range(STOPS)]
        finally:
            ended.set()
            for client in clients:
                client.join()


def _send(
    engine: EngineProcess, lines: itertools.cycle[tuple[str, int]], ended: threading.Event
) -> None:
    while not ended.is_set():
        line, number = next(lines)
        engine.tool("send_scpi", instrument_id=f"u{number}", scpi_command=line)


def _stop(engine: EngineProcess) -> float:
    since = engine.sim("log", limit=1)["last"]
    called_ms = time.time_ns() // 1_000_000  # the log counts whole milliseconds
    engine.tool(
        "execute_command",
        instrument_id="calm",
        command_name="output_off",
        parameters={"channel": 1},
    )
    page = engine.sim("log", instrument="calm", since=since)
    arrived = (e["wall_ms"] for e in page["entries"] if ":OUTP CH1,OFF" in e["text"])
    return float(next(arrived) - called_ms)


def _longest_step_ms(piece: bytes) -> float:
    """What the event loop is blocked at most while the messages of a piece are found."""
    begun = [time.process_time()]
    begun += [time.process_time() for _ in Incoming().feed(piece, is_end=True)]
    return max(after - before for before, after in itertools.pairwise(begun)) * 1_000


def _cost_ms(line: str, profile: Profile) -> float:
    """The least of some rounds: a judgement is pure, and what disturbs it is not its own."""
    identify(profile, "*IDN?;FOO 1")
    gc.disable()
    try:
        return min(_once_ms(line, profile) for _ in range(ROUNDS))
    finally:
        gc.enable()


def _once_ms(line: str, profile: Profile) -> float:
    identify.found.clear()
    before = time.process_time()
    identify(profile, line)
    return (time.process_time() - before) * 1_000


if __name__ == "__main__":
    sys.exit(main())
