"""How long a safe command takes to reach an instrument whose line hangs in a 30 s query.

Fifty tries on a real engine and a simulated supply on a raw socket: the time from the call to the
moment at which the bytes reached the instrument, by the simulator's own log (on the same clock).
"""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.figures import Figure, parse_json_flag, percentile, tell
from tests.bench.engine_process import EngineProcess, engine_process

TRIES = 50


def main() -> int:
    as_json = parse_json_flag(__doc__)
    with (
        tempfile.TemporaryDirectory() as directory,
        engine_process(Path(directory), "--instruments", "psu1=rigol_dp832") as engine,
    ):
        hung = [_try(engine, is_hung=True) for _ in range(TRIES)]
        idle = [_try(engine, is_hung=False) for _ in range(TRIES)]
    figures = (
        Figure(name="idle line, p50", value=percentile(idle, 0.5), unit="ms"),
        Figure(name="idle line, p99", value=percentile(idle, 0.99), unit="ms", bound=100),
        Figure(name="hung line, p50", value=percentile(hung, 0.5), unit="ms"),
        Figure(name="hung line, p99", value=percentile(hung, 0.99), unit="ms", bound=500),
    )
    return tell("a safe command reaches its instrument", figures, as_json=as_json)


def _try(engine: EngineProcess, *, is_hung: bool) -> float:
    """Milliseconds from the call to the bytes at the instrument."""
    since = engine.sim("log", limit=1)["last"]
    with ThreadPoolExecutor(1) as other:
        if is_hung:
            other.submit(
                engine.tool, "send_scpi", instrument_id="psu1", scpi_command="DIAG:DELAY? 30"
            )
            while _arrival_ms(engine, since, "DELAY") is None:
                time.sleep(0.002)  # noqa: TID251 - another process has no event to wait for
        called_ms = time.time_ns() / 1e6
        engine.tool("rigol_dp832__output_off", channel=1)
        arrived_ms = _arrival_ms(engine, since, "OFF")
    if arrived_ms is None:
        raise SystemExit("the safe command never arrived")
    return arrived_ms - called_ms


def _arrival_ms(engine: EngineProcess, since: int, word: str) -> float | None:
    for entry in engine.sim("log", instrument="psu1", since=since)["entries"]:
        if entry["direction"] == "in" and word in entry["text"]:
            return float(entry["wall_ms"])
    return None


if __name__ == "__main__":
    raise SystemExit(main())
