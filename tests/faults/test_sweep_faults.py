"""Sweeps through a wire that spoils answers in every way, and what is found after a crash."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from edged.runs.sweeps.ramp_plan import NETWORK_USUAL_S
from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.fault_proxy import FaultProxy, How, Spoil
from tests.bench.sim_bench import SimBench, running_bench
from tests.bench.waiting import wait_for
from tests.flows.test_sweeps import (
    OFF,
    SLACK_S,
    SUPPLY,
    assert_within_the_rate,
    connected,
    engine_on,
    messages,
    start,
    status,
    writes,
)
from tests.promises import promise

RATE = 2.0
TARGET = 1.6
HELD_BACK_S = (0.0, 0.0, 0.005, 0.05, 0.3)


@pytest.fixture(scope="module")
def bench() -> Iterator[SimBench]:
    with running_bench("--instruments", "psu1") as running:
        yield running


@pytest.fixture(autouse=True)
def rested(bench: SimBench) -> None:
    bench.clear()
    bench.tell(SUPPLY, ":SOUR1:VOLT 0", ":OUTP CH1,OFF")


# A doubled answer makes this a unit that sends more than it was asked for: questions then wait.
@promise("sweep.never-a-jump")
async def test_whatever_the_wire_does_no_write_comes_too_far_or_too_fast(
    bench: SimBench, tmp_path: Path
) -> None:
    async with FaultProxy(bench.port(SUPPLY)) as proxy:
        address = f"TCPIP::127.0.0.1::{proxy.port}::SOCKET"
        config = {"INSTRUMENTS": [{"address": address, "name": SUPPLY}], "GONE_AFTER_SEC": 30}
        running = engine_process(tmp_path, sim=False, config=config)
        engine = await asyncio.to_thread(running.__enter__)
        try:
            for how in How:
                for nth in (1, 2, 3):
                    await _one_fault(engine, bench, proxy, how, nth)
        finally:
            await proxy.heal()
            await asyncio.to_thread(running.__exit__, None, None, None)


@promise("sweep.never-a-jump")
async def test_a_wire_that_delays_at_random_brings_no_two_steps_closer_together(
    bench: SimBench, tmp_path: Path
) -> None:
    by_chance = random.Random(7)
    async with FaultProxy(bench.port(SUPPLY)) as proxy:
        address = f"TCPIP::127.0.0.1::{proxy.port}::SOCKET"
        config = {"INSTRUMENTS": [{"address": address, "name": SUPPLY}], "GONE_AFTER_SEC": 30}
        running = engine_process(tmp_path, sim=False, config=config)
        engine = await asyncio.to_thread(running.__enter__)
        try:
            await asyncio.to_thread(wait_for, lambda: connected(engine) == 1, 20)
            mark = bench.mark()
            sweep_id = await asyncio.to_thread(start, engine, 4.0, RATE)
            proxy.held_back_s = lambda: by_chance.choice(HELD_BACK_S)
            for _ in range(40):
                proxy.always = Spoil(How.DELAY, seconds=by_chance.choice(HELD_BACK_S))
                await asyncio.sleep(by_chance.uniform(0.02, 0.2))
            await proxy.heal()

            def is_over() -> bool:
                return status(engine, sweep_id)["status"] != "running"

            await asyncio.to_thread(wait_for, is_over, 20)
            told = status(engine, sweep_id)
        finally:
            await proxy.heal()
            await asyncio.to_thread(running.__exit__, None, None, None)
    assert told["status"] == "completed", told
    assert told["behind_s"] > 0.1
    # Steps of 0.1 s: none may come sooner than that but for the usual round trip and the log's own.
    assert_within_the_rate(writes(bench, mark), RATE, SLACK_S + NETWORK_USUAL_S)


async def _one_fault(
    engine: EngineProcess, bench: SimBench, proxy: FaultProxy, how: How, nth: int
) -> None:
    """A sweep whose ``nth`` exchange after its second step is spoiled; then all is well again."""

    def connected() -> bool:
        listed = engine.tool("list_instruments")["result"]
        return bool(listed) and listed[0]["is_connected"]

    def over() -> bool:
        told = status(engine, sweep_id)
        return told["status"] != "running" and told["abort"]["state"] != "pending"

    await asyncio.to_thread(wait_for, connected, 20)
    bench.tell(SUPPLY, ":SOUR1:VOLT 0")
    mark = bench.mark()
    sweep_id = await asyncio.to_thread(start, engine, TARGET, RATE)
    await asyncio.to_thread(wait_for, lambda: len(writes(bench, mark)) >= 2)
    proxy.next(*[Spoil(How.PASS)] * (nth - 1), Spoil(how))
    await asyncio.sleep(0.5)
    await proxy.heal()
    await asyncio.to_thread(wait_for, over, 20)
    told = status(engine, sweep_id)
    assert_within_the_rate(writes(bench, mark), RATE)
    if told["status"] == "completed":
        assert told["set_value"] == TARGET
    else:
        assert told["status"] == "failed", told
        sent = [line for _, line in messages(bench, SUPPLY, mark)]
        last_write = max(i for i, line in enumerate(sent) if line.startswith(":SOUR1:VOLT "))
        assert OFF in sent[last_write:], how


@promise("crash.rule")
def test_after_kill_9_a_bench_that_somebody_took_over_is_left_alone(
    bench: SimBench, tmp_path: Path
) -> None:
    with engine_on(bench, tmp_path, engine_process) as engine:
        sweep_id = start(engine, 30.0, 1.0)
        wait_for(lambda: status(engine, sweep_id)["steps"] >= 2)
        engine.process.send_signal(signal.SIGKILL)
        engine.process.wait()
    bench.tell(SUPPLY, ":SOUR1:VOLT 12", ":OUTP CH1,ON")
    mark = bench.mark()
    with engine_on(bench, tmp_path, engine_process, ABORT_AFTER_CRASH_SEC=0) as engine:
        told = status(engine, sweep_id)
        assert told["needs_attention"], told
        assert OFF not in [line for _, line in messages(bench, SUPPLY, mark)]
        assert [s["sweep_id"] for s in engine.tool("get_status")["result"]["sweeps"]] == [sweep_id]
        engine.tool("bench__stop_all")
        assert engine.tool("get_status")["result"]["sweeps"] == []
        assert OFF in [line for _, line in messages(bench, SUPPLY, mark)]


@promise("sequence.finally-after-crash")
def test_after_kill_9_a_sequences_finally_steps_run_at_the_next_start(
    bench: SimBench, tmp_path: Path
) -> None:
    with engine_on(bench, tmp_path, engine_process) as engine:
        _post_sequence(bench, engine)
    mark = bench.mark()
    with engine_on(bench, tmp_path, engine_process):
        lines = [line for _, line in messages(bench, SUPPLY, mark)]
    assert lines[:2] == ["*IDN?", OFF]
    assert bench.ask(SUPPLY, ":OUTP? CH1") == "OFF"


def _post_sequence(bench: SimBench, engine: EngineProcess) -> None:
    """Start a sequence without waiting for it, and kill the engine once the output is on."""
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "execute_sequence",
        "params": {
            "instrument_id": SUPPLY,
            "sequence_name": "voltage_point",
            "parameters": {"voltage": 2, "settle_ms": 30_000},
        },
    }
    body = json.dumps(call).encode()
    head = (
        "POST /rpc HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", engine.ports["rpc_port"]), 5) as client:
        client.sendall(head.encode() + body)
        wait_for(lambda: bench.ask(SUPPLY, ":OUTP? CH1") == "ON")
        engine.process.send_signal(signal.SIGKILL)
        engine.process.wait()
