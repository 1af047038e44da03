"""How long list_instruments keeps the event loop of an engine with two hundred instruments.

Processor time of the loop's thread around one call over MCP, as the scheduler counts it, so that
other work on the machine adds nothing: the least of several calls while nothing has changed, and of
several calls after every instrument has been heard again. While the loop lists, it hears none.
"""

from __future__ import annotations

import concurrent.futures
import time
from pathlib import Path

from benchmarks.compare.clients import Line, call
from benchmarks.compare.servers import Server, engine, simulator
from benchmarks.figures import Figure, parse_json_flag, tell
from benchmarks.memory import BENCH
from tests.bench.engine_process import EngineProcess

COUNT = 200
GIVE_UP_S = 90.0
UNCHANGED_CALLS = 30
CHANGES = 5
CALLERS = 4
SETTLED_S = 1.0
"""Rows of the queries are written, and news of them sent, behind their answers."""
LIST = call("list_instruments", {})


def main() -> int:
    as_json = parse_json_flag(__doc__)
    with simulator("--instruments", BENCH) as bench, engine(bench) as (server, process):
        ids = _all_instruments(process)
        line = Line(server)
        line.post(LIST)
        unchanged_ms = min(_kept_ms(server, line) for _ in range(UNCHANGED_CALLS))
        changed_ms = min(_kept_ms(server, line, process, ids) for _ in range(CHANGES))
        line.close()
    figures = (
        Figure(name="nothing has changed", value=unchanged_ms, unit="ms", bound=0.5),
        Figure(name="all instruments have been heard", value=changed_ms, unit="ms", bound=3),
    )
    return tell(f"list_instruments of {COUNT}: time of the loop", figures, as_json=as_json)


def _all_instruments(process: EngineProcess) -> list[str]:
    give_up = time.monotonic() + GIVE_UP_S
    while time.monotonic() < give_up:
        known = process.tool("list_instruments")["result"]
        if len(known) == COUNT:
            return [one["id"] for one in known]
        time.sleep(0.2)  # noqa: TID251 - another process
    raise SystemExit("not all instruments came")


def _kept_ms(
    server: Server, line: Line, process: EngineProcess | None = None, ids: list[str] | None = None
) -> float:
    """What the loop spends on one call; given ids, after all of these were asked something."""
    if process is not None:
        with concurrent.futures.ThreadPoolExecutor(CALLERS) as callers:
            list(callers.map(lambda one: _ask(process, one), ids or ()))
        time.sleep(SETTLED_S)  # noqa: TID251 - another process's threads
    before = _loop_ns(server)
    line.post(LIST)
    return (_loop_ns(server) - before) / 1e6


def _ask(process: EngineProcess, instrument_id: str) -> None:
    reply = process.tool("send_scpi", instrument_id=instrument_id, scpi_command="*IDN?")
    if reply["is_error"]:
        raise SystemExit(f"{instrument_id}: {reply}")


def _loop_ns(server: Server) -> int:
    """Processor time of the thread that the process began with, on which its loop runs."""
    told = Path(f"/proc/{server.pid}/task/{server.pid}/schedstat").read_text()
    return int(told.split()[0])


if __name__ == "__main__":
    raise SystemExit(main())
