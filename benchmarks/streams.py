"""Streams under load: how much of their grid is measured, how punctually, and where that ends.

Twenty simulated supplies on raw sockets, each with a stream of its own at 20 ms for a minute; then
shorter runs at closer grids until less than 99 % of the points are measured. Jitter is how far the
distance of a point from the first one of its stream is from a multiple of the interval, by the
recordings. Loop lag is what the engine's own watch says twice a second.
"""

from __future__ import annotations

import argparse
import csv
import io
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, percentile, tell
from tests.bench.engine_process import EngineProcess, engine_process

UNITS = 20
LOOK_EVERY_S = 0.25


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--seconds", type=int, default=60, help="length of the main run")
    options = parser.parse_args()
    figures: list[Figure] = []
    with (
        tempfile.TemporaryDirectory() as directory,
        engine_process(Path(directory), "--instruments", f"psu*{UNITS}=rigol_dp832") as engine,
    ):
        while len(engine.tool("list_instruments")["result"]) < UNITS:
            time.sleep(0.1)  # noqa: TID251 - another process has no event to wait for
        figures += _run(engine, 20, options.seconds, bound=True)
        for interval_ms in (18, 16, 14, 12, 10):
            more = _run(engine, interval_ms, max(5, options.seconds // 6), bound=False)
            figures += more
            if more[0].value > 1.0:
                break
    return tell(f"{UNITS} streams on {UNITS} instruments", figures, as_json=options.json)


def _run(engine: EngineProcess, interval_ms: int, seconds: int, *, bound: bool) -> list[Figure]:
    streams = [
        engine.tool(
            "start_stream",
            instrument_id=f"psu{number}",
            command_name="measure_voltage",
            parameters={"channel": 1},
            interval_ms=interval_ms,
            duration_ms=seconds * 1000,
            detach=True,
        )["result"]["stream_id"]
        for number in range(1, UNITS + 1)
    ]
    lags = []
    while engine.tool("get_status")["result"]["streams"]:
        lags.append(engine.tool("get_status")["result"]["loop"]["last_lag_ms"])
        time.sleep(LOOK_EVERY_S)  # noqa: TID251 - another process has no event to wait for
    shown = [engine.rpc("streams.show", stream_id=stream) for stream in streams]
    wanted = UNITS * seconds * 1000 // interval_ms
    jitter = [off for stream in streams for off in _jitter(engine, stream, interval_ms)]
    name = f"{interval_ms} ms"
    failed = sum(entry["status"] != "ended" for entry in shown)
    share = 100 * sum(entry["count"] for entry in shown) / wanted
    return [
        Figure(
            name=f"{name}: grid points lost",
            value=max(0.0, 100 - share),
            unit="%",
            bound=1.0 if bound else None,
        ),
        Figure(name=f"{name}: streams that failed", value=failed, unit="", bound=0),
        Figure(name=f"{name}: points per second", value=share * wanted / seconds / 100, unit="/s"),
        Figure(name=f"{name}: jitter p50", value=percentile(jitter, 0.5), unit="ms"),
        Figure(name=f"{name}: jitter p99", value=percentile(jitter, 0.99), unit="ms"),
        Figure(
            name=f"{name}: event loop lag p99",
            value=percentile(lags, 0.99),
            unit="ms",
            bound=20 if bound else None,
        ),
    ]


def _jitter(engine: EngineProcess, stream: str, interval_ms: int) -> list[float]:
    times: list[int] = []
    offset: Any = 0
    while offset is not None:
        piece = engine.rpc("runs.export", run_id=stream, format="csv", offset=offset)
        rows = csv.reader(io.StringIO(piece["content"]))
        times += [int(row[0]) for row in rows if row and row[0].isdigit()]
        offset = piece["next_offset"]
    offsets = [(moment - times[0] + interval_ms / 2) % interval_ms for moment in times]
    return [abs(off - interval_ms / 2) for off in offsets]


if __name__ == "__main__":
    raise SystemExit(main())
