"""Two hundred simulated instruments in one engine: how soon, what it costs, and what one hang does.

They are 100 supplies, 60 multimeters and 40 oscilloscopes, so that most tool names need suffixes.
Calls go over the RPC interface from four threads, first with all well, then while one instrument
hangs in a query that it never answers.
"""

from __future__ import annotations

import concurrent.futures
import json
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.figures import Figure, parse_json_flag, percentile, tell
from tests.bench.engine_process import EngineProcess, engine_process

COUNT = 200
ORDER = "psu*100=rigol_dp832,dmm*60=keysight_34461a,scope*40=rigol_ds1054z"
REGISTERED_WITHIN_S = 10.0
GIVE_UP_S = 60.0
ROUNDS = 5
CALLERS = 4


def main() -> int:
    as_json = parse_json_flag(__doc__ or "")
    with tempfile.TemporaryDirectory() as directory:
        began = time.perf_counter()
        with engine_process(
            Path(directory), "--instruments", ORDER, config={"RESCAN_INTERVAL_SEC": 3600}
        ) as engine:
            registered_s = _until_registered(engine, began)
            figures = [
                Figure(
                    name="start to 200 registered", value=registered_s, unit="s",
                    bound=REGISTERED_WITHIN_S,
                ),
                *_cost(engine),
            ]  # fmt: skip
            ids = [i["id"] for i in engine.tool("list_instruments")["result"]]
            quiet = _calls(engine, ids)
            hung = _while_one_hangs(engine, ids)
            began = time.perf_counter()
            engine.tool("scan_instruments")
            scan_s = time.perf_counter() - began
    figures += [
        Figure(name="call, all well, median", value=percentile(quiet, 0.5) * 1e3, unit="ms"),
        Figure(name="call, all well, p99", value=percentile(quiet, 0.99) * 1e3, unit="ms"),
        Figure(name="call to 199 while one hangs, median", value=percentile(hung, 0.5) * 1e3,
               unit="ms"),
        Figure(name="call to 199 while one hangs, p99", value=percentile(hung, 0.99) * 1e3,
               unit="ms", bound=3 * percentile(quiet, 0.99) * 1e3 + 50),
        Figure(name="scan_instruments with nothing new", value=scan_s, unit="s"),
    ]  # fmt: skip
    return tell("200 simulated instruments in one engine", figures, as_json=as_json)


def _until_registered(engine: EngineProcess, began: float) -> float:
    while time.perf_counter() - began < GIVE_UP_S:
        status = engine.tool("get_status")["result"]
        if status["instrument_count"] >= COUNT:
            return time.perf_counter() - began
        threading.Event().wait(0.05)
    sys.exit(f"only {json.dumps(engine.tool('get_status')['result']['instrument_count'])} came")


def _cost(engine: EngineProcess) -> list[Figure]:
    status = dict(
        line.split(":\t", 1)
        for line in Path(f"/proc/{engine.process.pid}/status").read_text().splitlines()
        if ":\t" in line
    )
    tools = len(engine.rpc("tools/list")["tools"])
    return [
        Figure(name="resident memory", value=int(status["VmRSS"].split()[0]) / 1024, unit="MB"),
        Figure(name="threads", value=int(status["Threads"]), unit=""),
        Figure(name="tools listed", value=tools, unit=""),
    ]


def _calls(engine: EngineProcess, ids: list[str]) -> list[float]:
    def call(instrument_id: str) -> float:
        began = time.perf_counter()
        reply = engine.tool("send_scpi", instrument_id=instrument_id, scpi_command="*IDN?")
        if not reply["result"]["response"]:
            sys.exit(f"{instrument_id}: {reply}")
        return time.perf_counter() - began

    with concurrent.futures.ThreadPoolExecutor(CALLERS) as callers:
        return list(callers.map(call, ids * ROUNDS))


def _while_one_hangs(engine: EngineProcess, ids: list[str]) -> list[float]:
    instruments = engine.tool("list_instruments")["result"]
    victim = next(i for i in instruments if i["alias"].startswith("dmm"))
    engine.sim("fault", instrument=victim["alias"], kind="hang")
    stop = threading.Event()

    def keep_asking() -> None:
        while not stop.is_set():
            engine.tool("send_scpi", instrument_id=victim["id"], scpi_command="READ?")

    asking = threading.Thread(target=keep_asking)
    asking.start()
    try:
        return _calls(engine, [name for name in ids if name != victim["id"]])
    finally:
        stop.set()
        asking.join()
        engine.sim("clear", instrument=victim["alias"])


if __name__ == "__main__":
    sys.exit(main())
