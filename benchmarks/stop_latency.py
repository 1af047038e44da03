"""How long a stop takes to reach the instruments: one sweep by transport, and fifty at once.

From the call to the moment at which the abort reached the instrument, by the simulator's own log
(on the same clock): stop_sweep on an idle line and beside a hung 30 s query, on the raw socket,
HiSLIP and serial; bench__stop_all on fifty simulated supplies, five of which hang in such a query.
A serial line has nothing to end a query with, and the instrument is deaf until it is over: what
counts is when the bytes are on the line, and each of those tries has a bench of its own.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.figures import Figure, parse_json_flag, percentile, tell
from tests.bench.engine_process import EngineProcess, engine_process

TRIES = 40
WIRES = ("socket", "hislip", "serial")
STAYS_DEAF = frozenset({"serial"})
DEAF_TRIES = 20
SUPPLIES = 50
HUNG = 5
ROUNDS = 4
WAIT_S = 0.005


def main() -> int:
    as_json = parse_json_flag(__doc__)
    figures: list[Figure] = []
    for wire in WIRES:
        figures += _by_wire(wire)
    with _engine(f"psu*{SUPPLIES}=rigol_dp832", SUPPLIES) as engine:
        rounds = [_stop_all(engine) for _ in range(ROUNDS)]
    healthy = [ms for one in rounds for name, ms in one.items() if not _is_hung(name)]
    stuck = [ms for one in rounds for name, ms in one.items() if _is_hung(name)]
    figures += [
        Figure(name="all, 45 idle of 50, p50", value=percentile(healthy, 0.5), unit="ms"),
        Figure(name="all, 45 idle of 50, worst", value=max(healthy), unit="ms", bound=500),
        Figure(name="all, 5 hung of 50, worst", value=max(stuck), unit="ms", bound=500),
    ]
    return tell("a stop reaches its instruments", figures, as_json=as_json)


@contextlib.contextmanager
def _engine(instruments: str, count: int, *flags: str) -> Iterator[EngineProcess]:
    """An engine on simulated supplies, all of them connected."""
    with (
        tempfile.TemporaryDirectory() as directory,
        engine_process(Path(directory), "--instruments", instruments, *flags) as engine,
    ):
        _wait(lambda: _connected(engine) == count)
        yield engine


def _one_on(wire: str) -> contextlib.AbstractContextManager[EngineProcess]:
    return _engine(f"{wire}=rigol_dp832", 1, "--transport", f"{wire}={wire}")


def _by_wire(wire: str) -> list[Figure]:
    tries = 0 if wire in STAYS_DEAF else TRIES
    with _one_on(wire) as engine:
        idle = [_stop_sweep(engine, wire, is_hung=False) for _ in range(TRIES)]
        hung = [_stop_sweep(engine, wire, is_hung=True) for _ in range(tries)]
    for _ in range(DEAF_TRIES - tries):
        with _one_on(wire) as engine:
            hung.append(_stop_sweep(engine, wire, is_hung=True))
    cases = (("idle", idle, 100), ("hung", hung, 500))
    return [
        Figure(
            name=f"stop_sweep, {wire}, {case}, {name}",
            value=percentile(times, share),
            unit="ms",
            bound=bound if share > 0.5 else None,
        )
        for case, times, bound in cases
        for name, share in (("p50", 0.5), ("p99", 0.99))
    ]


def _stop_sweep(engine: EngineProcess, name: str, *, is_hung: bool) -> float:
    """Milliseconds from the call of stop_sweep to the abort at the instrument."""
    _wait(lambda: _connected(engine) == 1)
    since = _mark(engine)
    sweep_id = engine.tool(
        "start_sweep",
        instrument_id=name,
        command_name="set_voltage",
        target_value=30,
        sweep_rate=0.1,
    )["result"]["sweep_id"]
    with ThreadPoolExecutor(1) as other:
        if is_hung:
            other.submit(_hang, engine, name)
            _wait(lambda: name in _arrivals(engine, since, "DELAY"))
        called_ms = time.time_ns() // 1_000_000  # the log counts whole milliseconds
        engine.tool("stop_sweep", sweep_id=sweep_id)
        arrived = _arrivals(engine, since, ":OUTP CH1,OFF")
    if not (is_hung and name in STAYS_DEAF):
        engine.tool("execute_command", instrument_id=name, command_name="clear_status")
    return arrived[name] - called_ms


def _stop_all(engine: EngineProcess) -> dict[str, float]:
    """Milliseconds from the call of bench__stop_all to each instrument's abort."""
    _wait(lambda: _connected(engine) == SUPPLIES, 60)
    since = _mark(engine)
    with ThreadPoolExecutor(HUNG) as others:
        names = [f"psu{n}" for n in range(1, HUNG + 1)]
        for name in names:
            others.submit(_hang, engine, name)
        _wait(lambda: set(names) <= set(_arrivals(engine, since, "DELAY")))
        called_ms = time.time_ns() // 1_000_000  # the log counts whole milliseconds
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
