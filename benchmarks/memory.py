"""What an engine has in memory: idle, and for each session, open stream, instrument and hour.

Resident memory as the kernel counts it, of real engines over a simulated bench. The hour is the
slope over a minute in which four streams measure every 50 ms, once caches have filled.
"""

from __future__ import annotations

import sys
import time

from benchmarks.compare.measures import THREE
from benchmarks.compare.servers import Server, engine, simulator
from benchmarks.compare.sessions import open_stream
from benchmarks.figures import Figure, parse_json_flag, tell
from benchmarks.load_generator import open_session
from edged.profiles.library_cache import warm
from tests.bench.engine_process import REPOSITORY, EngineProcess

SESSIONS = 2_000
STREAMS = 500
SUPPLIES = 101
BENCH = "psu*100=rigol_dp832,dmm*60=keysight_34461a,scope*40=rigol_ds1054z"
"""Two hundred; as in ``benchmarks.many_instruments``."""
SETTLED_S = 2.0
WARM_S = 260.0
"""SQLite's cache takes four minutes to fill."""
WATCHED_S = 60.0
MEASURED = 4
INTERVAL_MS = 50


def main() -> int:
    as_json = parse_json_flag(__doc__)
    # As `make run` and the package do it.
    warm(REPOSITORY / "profiles")
    figures = [*_idle_and_sessions(), _instruments(), _two_hundred(), _streaming()]
    return tell("resident memory of an engine", figures, as_json=as_json)


def _idle_and_sessions() -> list[Figure]:
    with simulator("--instruments", THREE) as bench, engine(bench) as (server, _):
        # Somebody has called it: list_instruments was what told that they are there.
        idle_kb = _settled_kb(server)
        for _ in range(SESSIONS):
            open_session(server.url)
        with_sessions_kb = _settled_kb(server)
        readers = [open_stream(server) for _ in range(STREAMS)]
        with_streams_kb = _settled_kb(server)
        for reader in readers:
            reader.close()
    per_session = (with_sessions_kb - idle_kb) / SESSIONS
    per_stream = (with_streams_kb - with_sessions_kb) / STREAMS
    return [
        Figure(name="three instruments, after a first call", value=idle_kb / 1024, unit="MB"),
        Figure(name="a session", value=per_session, unit="KB"),
        Figure(name="a session with its open stream", value=per_stream, unit="KB", bound=20),
    ]


def _instruments() -> Figure:
    found = []
    for words in ("psu1=rigol_dp832", f"psu*{SUPPLIES}=rigol_dp832"):
        with simulator("--instruments", words) as bench, engine(bench) as (server, _):
            found.append(_settled_kb(server))
    return Figure(
        name="an instrument and its tools", value=(found[1] - found[0]) / (SUPPLIES - 1), unit="KB"
    )


def _two_hundred() -> Figure:
    with simulator("--instruments", BENCH) as bench, engine(bench) as (server, _):
        settled_kb = _settled_kb(server)
    return Figure(name="200 instruments", value=settled_kb / 1024, unit="MB", bound=100)


def _streaming() -> Figure:
    words = f"psu*{MEASURED}=rigol_dp832"
    with simulator("--instruments", words) as bench, engine(bench) as (server, process):
        for entry in bench.instruments:
            _stream(process, str(entry["name"]))
        time.sleep(WARM_S)  # noqa: TID251 - time is what is measured
        before_kb = server.rss_kb()
        time.sleep(WATCHED_S)  # noqa: TID251 - as above
        grown_kb = server.rss_kb() - before_kb
    per_hour_mb = grown_kb / 1024 * 3_600 / WATCHED_S
    return Figure(name=f"an hour of {MEASURED} streams", value=per_hour_mb, unit="MB")


def _stream(process: EngineProcess, name: str) -> None:
    started = process.tool(
        "start_stream",
        instrument_id=name,
        command_name="measure_voltage",
        parameters={"channel": 1},
        interval_ms=INTERVAL_MS,
        duration_ms=600_000,
        detach=True,
    )
    if started["is_error"]:
        sys.exit(f"{name} cannot be measured: {started}")


def _settled_kb(server: Server) -> int:
    time.sleep(SETTLED_S)  # noqa: TID251 - what was queued is written meanwhile
    return server.rss_kb()


if __name__ == "__main__":
    raise SystemExit(main())
