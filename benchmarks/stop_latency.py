"""How long a stop takes to reach the instruments: one sweep, and fifty instruments at once.

From the call to the moment at which the abort reached the instrument, by the simulator's own log
(on the same clock): stop_sweep on an idle line and beside a hung 30 s query; bench__stop_all on
fifty simulated supplies, five of which hang in such a query.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.figures import Figure, parse_json_flag, percentile, tell
from tests.bench.engine_process import EngineProcess, running_engine

TRIES = 40
SUPPLIES = 50
HUNG = 5
ROUNDS = 4
WAIT_S = 0.005


def main() -> int:
    as_json = parse_json_flag(__doc__)
    with _engine("psu1=rigol_dp832") as engine:
        idle = [_stop_sweep(engine, is_hung=False) for _ in range(TRIES)]
        hung = [_stop_sweep(engine, is_hung=True) for _ in range(TRIES)]
    with _engine(f"psu*{SUPPLIES}=rigol_dp832", SUPPLIES) as engine:
        rounds = [_stop_all(engine) for _ in range(ROUNDS)]
    healthy = [ms for one in rounds for name, ms in one.items() if not _is_hung(name)]
    stuck = [ms for one in rounds for name, ms in one.items() if _is_hung(name)]
    figures = (
        Figure(name="sweep, idle line, p50", value=percentile(idle, 0.5), unit="ms"),
        Figure(
            name="stop_sweep, idle line, p99", value=percentile(idle, 0.99), unit="ms", bound=100
        ),
        Figure(name="sweep, hung line, p50", value=percentile(hung, 0.5), unit="ms"),
        Figure(
            name="stop_sweep, hung line, p99", value=percentile(hung, 0.99), unit="ms", bound=500
        ),
        Figure(name="all, 45 idle of 50, p50", value=percentile(healthy, 0.5), unit="ms"),
        Figure(name="all, 45 idle of 50, worst", value=max(healthy), unit="ms", bound=500),
        Figure(name="all, 5 hung of 50, worst", value=max(stuck), unit="ms", bound=500),
    )
    return tell("a stop reaches its instruments", figures, as_json=as_json)


@contextlib.contextmanager
def _engine(instruments: str, count: int = 1) -> Iterator[EngineProcess]:
    """An engine on simulated supplies, all of them connected."""
    with (
        tempfile.TemporaryDirectory() as directory,
        running_engine(Path(directory), "--instruments", instruments) as engine,
    ):
        _wait(lambda: _connected(engine) == count)
        yield engine


def _stop_sweep(engine: EngineProcess, *, is_hung: bool) -> float:
    """Milliseconds from the call of stop_sweep to the abort at the instrument."""
    _wait(lambda: _connected(engine) == 1)
    since = _mark(engine)
    sweep_id = engine.tool(
        "start_sweep",
        instrument_id="psu1",
        command_name="set_voltage",
        target_value=30,
        sweep_rate=0.1,
    )["result"]["sweep_id"]
    with ThreadPoolExecutor(1) as other:
        if is_hung:
            other.submit(_hang, engine, "psu1")
            _wait(lambda: "psu1" in _arrivals(engine, since, "DELAY"))
        called_ms = time.time_ns() / 1e6
        engine.tool("stop_sweep", sweep_id=sweep_id)
        arrived = _arrivals(engine, since, ":OUTP CH1,OFF")
    engine.tool("execute_command", instrument_id="psu1", command_name="clear_status")
    return arrived["psu1"] - called_ms


def _stop_all(engine: EngineProcess) -> dict[str, float]:
    """Milliseconds from the call of bench__stop_all to each instrument's abort."""
    _wait(lambda: _connected(engine) == SUPPLIES, 60)
    since = _mark(engine)
    with ThreadPoolExecutor(HUNG) as others:
        names = [f"psu{n}" for n in range(1, HUNG + 1)]
        for name in names:
            others.submit(_hang, engine, name)
        _wait(lambda: set(names) <= set(_arrivals(engine, since, "DELAY")))
        called_ms = time.time_ns() / 1e6
        engine.tool("bench__stop_all")
        arrived = _arrivals(engine, since, ":OUTP CH1,OFF")
    if len(arrived) != SUPPLIES:
        raise SystemExit(f"only {len(arrived)} of {SUPPLIES} got their abort")
    return {name: ms - called_ms for name, ms in arrived.items()}


def _hang(engine: EngineProcess, name: str) -> None:
    engine.tool("send_scpi", instrument_id=name, scpi_command="DIAG:DELAY? 30")


def _mark(engine: EngineProcess) -> int:
    last: int = engine.sim("log", limit=1)["last"]
    return last


def _arrivals(engine: EngineProcess, since: int, word: str) -> dict[str, float]:
    """Instrument → wall ms of the first message with this word in it."""
    found: dict[str, float] = {}
    while True:
        page = engine.sim("log", since=since)
        if not page["entries"]:
            return found
        for entry in page["entries"]:
            if entry["direction"] == "in" and word in entry["text"]:
                found.setdefault(entry["instrument"], float(entry["wall_ms"]))
        since = page["next"]


def _connected(engine: EngineProcess) -> int:
    return sum(1 for i in engine.tool("list_instruments")["result"] if i["is_connected"])


def _is_hung(name: str) -> bool:
    return int(name.removeprefix("psu")) <= HUNG


def _wait(condition: Callable[[], bool], within_s: float = 20.0) -> None:
    give_up = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > give_up:
            raise SystemExit("it did not come to pass")
        time.sleep(WAIT_S)  # noqa: TID251 - another process has no event to wait for


if __name__ == "__main__":
    raise SystemExit(main())
