"""Sweeps as their users meet them: real engines, a real bench, and what reached the instrument."""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import engine_process
from tests.bench.sim_bench import SimBench, running_bench
from tests.bench.waiting import wait_for
from tests.promises import promise

SUPPLY = "psu1"
OFF = ":OUTP CH1,OFF"
SLACK_S = 0.03
"""What the simulated bench's own clock may be late in noting an arrival, on a loaded machine."""


@pytest.fixture(scope="module")
def bench() -> Iterator[SimBench]:
    with running_bench("--instruments", "psu1,psu2=rigol_dp832,dmm1") as running:
        yield running


@pytest.fixture
def own_bench() -> Iterator[SimBench]:
    """For who looks at everything that is sent: no other engine heals its lines there."""
    with running_bench("--instruments", "psu1,psu2=rigol_dp832,dmm1") as running:
        yield running


@pytest.fixture(autouse=True)
def healthy_bench(bench: SimBench, request: pytest.FixtureRequest) -> None:
    bench.clear()
    for name in ("psu1", "psu2"):
        bench.tell(name, ":SOUR1:VOLT 0", ":OUTP CH1,OFF")
    if "engine" in request.fixturenames:
        # What the test before did to a line may still be healing.
        engine = request.getfixturevalue("engine")
        for name in ("psu1", "psu2", "dmm1"):
            wait_for(lambda name=name: answers(engine, name))
        # A failed sweep keeps its parameter until the instrument has taken the abort.
        engine.tool("bench__stop_all")
        wait_for(lambda: not engine.tool("get_status")["result"]["sweeps"])
        for name in ("psu1", "psu2"):
            bench.tell(name, ":SOUR1:VOLT 0", ":OUTP CH1,OFF")


def answers(engine: Engine, name: str) -> bool:
    told = engine.tool("send_scpi", instrument_id=name, scpi_command="*IDN?")
    return bool(told["result"] and told["result"]["response"])


@contextlib.contextmanager
def engine_on(
    bench: SimBench,
    directory: Path,
    start: Callable[..., AbstractContextManager[Any]] = running_engine,
    **config: Any,
) -> Iterator[Any]:
    instruments = [{"address": bench.address(n), "name": n} for n in bench.instruments]
    with start(directory, sim=False, config={"INSTRUMENTS": instruments, **config}) as engine:
        wait_for(lambda: connected(engine) == len(instruments))
        yield engine


@pytest.fixture(scope="module")
def engine(bench: SimBench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    # This comes before healthy_bench where a test without it has left a line hung.
    bench.clear()
    with engine_on(bench, tmp_path_factory.mktemp("sweeps")) as running:
        yield running


def connected(engine: Engine) -> int:
    listed = engine.tool("list_instruments")["result"]
    return sum(1 for entry in listed if entry["is_connected"])


def start(engine: Engine, target: float = 3.0, rate: float = 1.0, **more: Any) -> str:
    answer = engine.tool(
        "start_sweep",
        instrument_id=SUPPLY,
        command_name="set_voltage",
        target_value=target,
        sweep_rate=rate,
        **more,
    )
    assert not answer["is_error"], answer
    sweep_id: str = answer["result"]["sweep_id"]
    return sweep_id


def status(engine: Engine, sweep_id: str, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = engine.tool("get_sweep_status", sweep_id=sweep_id, **more)["result"]
    return told


def messages(bench: SimBench, name: str, since: int) -> list[tuple[float, str]]:
    """(arrival, message) of what reached an instrument."""
    return [
        (entry["t"], line)
        for entry in bench.log(name, since)
        if entry["direction"] == "in"
        for line in entry["text"].splitlines()
    ]


def writes(bench: SimBench, since: int) -> list[tuple[float, float]]:
    return [
        (at, float(line.rpartition(" ")[2]))
        for at, line in messages(bench, SUPPLY, since)
        if line.startswith(":SOUR1:VOLT ")
    ]


def assert_within_the_rate(
    written: list[tuple[float, float]], rate: float, slack_s: float = SLACK_S
) -> None:
    for (before, from_value), (after, to_value) in itertools.pairwise(written):
        assert abs(to_value - from_value) <= rate * 0.1 + 1e-6
        assert abs(to_value - from_value) <= rate * (after - before + slack_s)


@promise("sweep.outlives-client")
def test_a_client_that_is_cut_off_leaves_the_sweep_to_complete(
    engine: Engine, bench: SimBench
) -> None:
    mark = bench.mark()
    arguments = {
        "instrument_id": SUPPLY,
        "command_name": "set_voltage",
        "target_value": 0.5,
        "sweep_rate": 1.0,
    }
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "start_sweep", "arguments": arguments},
        }
    ).encode()
    head = (
        f"POST {engine.ports['mcp_path']} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", engine.ports["mcp_port"]), 5) as client:
        client.sendall(head.encode() + body)
        wait_for(lambda: engine.tool("get_status")["result"]["sweeps"])
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    wait_for(lambda: not engine.tool("get_status")["result"]["sweeps"])
    written = writes(bench, mark)
    assert [value for _, value in written] == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert_within_the_rate(written, 1.0)


@promise("sweep.never-a-jump")
def test_a_slow_meter_makes_a_sweep_late_and_no_step_larger(
    engine: Engine, bench: SimBench
) -> None:
    mark = bench.mark()
    sweep_id = start(
        engine,
        0.3,
        1.0,
        measure=[{"instrument_id": "dmm1", "command_name": "measure_dc_voltage"}],
    )
    wait_for(lambda: status(engine, sweep_id)["status"] != "running")
    told = status(engine, sweep_id, points=10)
    assert told["status"] == "completed", told
    assert told["behind_s"] > 0.4
    assert len(told["points"]) == 3
    assert_within_the_rate(writes(bench, mark), 1.0)


@promise("sweep.never-a-jump")
@pytest.mark.parametrize("kind", ["late", "timeout", "drop", "double", "garbage", "reset"])
def test_under_every_fault_of_the_instrument_no_write_comes_too_far_or_too_fast(
    engine: Engine, bench: SimBench, kind: str
) -> None:
    mark = bench.mark()
    sweep_id = start(engine, 1.0, 2.0)
    wait_for(lambda: len(writes(bench, mark)) >= 2)
    bench.fault(SUPPLY, kind, count=1)
    wait_for(lambda: status(engine, sweep_id)["status"] != "running")
    told = status(engine, sweep_id)
    assert_within_the_rate(writes(bench, mark), 2.0)
    if told["status"] == "failed":
        wait_for(lambda: status(engine, sweep_id)["abort"]["state"] == "done")
        sent = [line for _, line in messages(bench, SUPPLY, mark)]
        last_write = max(i for i, line in enumerate(sent) if line.startswith(":SOUR1:VOLT "))
        assert OFF in sent[last_write:]
    else:
        assert told["set_value"] == 1.0
    bench.clear(SUPPLY)
    wait_for(lambda: connected(engine) == 3)


@promise("sweep.abort-first")
def test_a_stop_reaches_an_instrument_beside_a_query_that_hangs(
    engine: Engine, bench: SimBench
) -> None:
    mark = bench.mark()
    sweep_id = start(engine)
    wait_for(lambda: len(writes(bench, mark)) >= 1)
    bench.fault(SUPPLY, "timeout", count=1)
    # The next exchange hangs; the stop does not wait for it.
    answer = engine.tool("stop_sweep", sweep_id=sweep_id)["result"]
    assert answer["status"] in {"stopped", "failed"}
    assert OFF in [line for _, line in messages(bench, SUPPLY, mark)]
    wait_for(lambda: connected(engine) == 3)


@promise("engine.sigterm")
@promise("shutdown.sweeps-aborted")
@pytest.mark.parametrize("hung", [False, True])
def test_sigterm_aborts_what_is_swept_and_exits_whatever_hangs(
    bench: SimBench, tmp_path: Path, *, hung: bool
) -> None:
    with engine_on(bench, tmp_path, engine_process) as engine:
        mark = bench.mark()
        start(engine)
        wait_for(lambda: len(writes(bench, mark)) >= 1)
        if hung:
            bench.fault(SUPPLY, "hang")
        assert engine.stop() == 0
    sent = [line for _, line in messages(bench, SUPPLY, mark)]
    assert OFF in sent
    assert not any(line.startswith(":SOUR1:VOLT ") for line in sent[sent.index(OFF) :])


@promise("crash.rule")
def test_after_kill_9_the_next_start_aborts_before_anything_else(
    own_bench: SimBench, tmp_path: Path
) -> None:
    bench = own_bench
    with engine_on(bench, tmp_path, engine_process) as engine:
        mark = bench.mark()
        sweep_id = start(engine, 30.0, 1.0)
        wait_for(lambda: len(writes(bench, mark)) >= 3)
        engine.process.send_signal(signal.SIGKILL)
        engine.process.wait()
    mark = bench.mark()
    with engine_on(bench, tmp_path) as engine:
        sent = messages(bench, SUPPLY, mark)
        lines = [line for _, line in sent]
        assert lines[0] == "*IDN?"
        assert lines[1] == OFF, lines[:6]
        told = status(engine, sweep_id)
        assert (told["status"], told["needs_attention"]) == ("failed", False)
        assert engine.tool("stop_sweep", sweep_id=sweep_id)["result"]["status"] == "failed"
    assert [line for line in lines if line.startswith(":SOUR1:VOLT ")] == []


def test_what_the_owner_lets_stay_on_is_on_after_kill_9_and_a_stop_switches_it_off(
    own_bench: SimBench, tmp_path: Path
) -> None:
    bench = own_bench
    owner = {"format": 1, bench.serial(SUPPLY): {"may_stay_on": ["output_on"]}}
    (tmp_path / "bench.yaml").write_text(json.dumps(owner))
    with engine_on(bench, tmp_path, engine_process) as engine:
        mark = bench.mark()
        sweep_id = start(engine, 30.0, 1.0)
        wait_for(lambda: len(writes(bench, mark)) >= 3)
        engine.process.send_signal(signal.SIGKILL)
        engine.process.wait()
    mark = bench.mark()
    with engine_on(bench, tmp_path) as engine:
        lines = [line for _, line in messages(bench, SUPPLY, mark)]
        assert [line for line in lines if line.startswith(":OUTP CH") and "?" not in line] == []
        told = status(engine, sweep_id)
        assert (told["status"], told["needs_attention"]) == ("failed", False)
        assert f"Its owner lets it stay on, so these were left out: {OFF}." in told["error"]
        engine.tool("bench__stop_all")
        assert OFF in [line for _, line in messages(bench, SUPPLY, mark)]


@promise("stop-all.hung-one-delays-none")
def test_stop_all_reaches_the_others_at_once_beside_one_that_hangs(
    engine: Engine, bench: SimBench
) -> None:
    bench.tell("psu2", ":OUTP CH1,ON")
    bench.fault(SUPPLY, "hang")
    mark = bench.mark()

    def states() -> dict[str, str]:
        told = engine.tool("bench__stop_all")["result"]
        assert not told["is_confirmed"]
        return {one["alias"]: one["state"] for one in told["instruments"]}

    # How soon is measured by benchmarks.stop_latency; here the one hangs until the others obeyed.
    wait_for(lambda: states() == {"psu1": "trying", "psu2": "confirmed", "dmm1": "taken"})
    for name in ("psu1", "psu2"):
        assert any(OFF in entry["text"] for entry in bench.log(name, mark))
    bench.clear()
    wait_for(lambda: connected(engine) == 3)
