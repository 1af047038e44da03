"""Timers inside supplies when something else is wrong: another unit, a start, the bench file."""

from __future__ import annotations

import os
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.bench.engine import Engine
from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.guarded_supply import (
    command,
    dead_men,
    done,
    engine_on,
    events,
    is_on,
    is_running,
    switch_on,
)
from tests.bench.sim_bench import SimBench, running_bench
from tests.bench.supervised import supervised
from tests.bench.waiting import wait_for
from tests.promises import promise

TWO = "psu1=keysight_n6700,psu2=keysight_n6700"
ON = "OUTP ON,(@1)"
SWITCHES = re.compile(r"OUTP(UT:STATE)? (ON|1)")
ENABLE = "OUTP:PROT:WDOG ON"


def of(engine: Engine, unit: str, name: str, **parameters: Any) -> Any:
    return engine.tool(
        "execute_command",
        instrument_id=unit,
        command_name=name,
        parameters={"channel": 1, **parameters},
    )


def stays_on(bench: SimBench, unit: str, seconds: float) -> None:
    until = time.monotonic() + seconds
    wait_for(lambda: time.monotonic() > until or not is_on(bench, unit), seconds + 5)
    assert is_on(bench, unit)
    assert not bench.state(unit)["watchdog"]["is_tripped"]


@promise("dead-man.restart")
def test_at_a_start_a_unit_that_hangs_has_no_other_go_off(tmp_path: Path) -> None:
    (tmp_path / "bench.yaml").write_text(
        "format: 1\npsu1: {dead_man_s: 6}\npsu2: {dead_man_s: 6}\n"
    )
    with running_bench("--instruments", TWO) as bench:
        with engine_on(tmp_path, bench, None, engine_process) as engine:
            for unit in ("psu1", "psu2"):
                done(of(engine, unit, "output_on"))
            engine.process.send_signal(signal.SIGKILL)
            engine.process.wait()
        bench.fault("psu2", "freeze")
        entries = {name: bench.instruments[name] for name in ("psu1",)}
        absent = {name: one for name, one in bench.instruments.items() if name not in entries}
        bench.instruments = entries
        try:
            with engine_on(tmp_path, bench, None, engine_process):
                stays_on(bench, "psu1", 8)
        finally:
            bench.instruments = {**entries, **absent}


@promise("dead-man.restart")
def test_one_that_must_not_be_used_keeps_no_other_from_being_fed(tmp_path: Path) -> None:
    owners = tmp_path / "bench.yaml"
    owners.write_text("format: 1\npsu1: {dead_man_s: 6}\npsu2: {dead_man_s: 6}\n")
    with (
        running_bench("--instruments", TWO) as bench,
        supervised(tmp_path, bench) as one,
    ):
        engine = one.engine()
        done(of(engine, "psu2", "output_on"))
        # Shorter than a restart takes: it is refused; and a person has it on.
        owners.write_text(
            "format: 1\npsu1: {dead_man_s: 3, deny: [set_current]}\npsu2: {dead_man_s: 6}\n"
        )
        wait_for(lambda: of(engine, "psu1", "set_current", current=0.1)["is_error"])
        assert "5 or more" in str(of(engine, "psu1", "output_on"))
        bench.tell("psu1", ON)
        done(of(engine, "psu1", "get_output"))
        stays_on(bench, "psu2", 9)
        assert not is_running(bench, "psu1")


@promise("dead-man.armed-first")
def test_an_output_that_was_read_to_be_on_has_it_set_going(tmp_path: Path) -> None:
    with (
        running_bench("--instruments", "psu1=keysight_n6700") as bench,
        engine_on(tmp_path, bench, 3.0) as engine,
    ):
        # A person, at the front panel.
        bench.tell("psu1", ON)
        assert not is_running(bench)
        done(command(engine, "get_output"))
        wait_for(lambda: is_running(bench))
        assert [one["state"] for one in dead_men(engine)] == ["armed"]
        wait_for(lambda: events(engine) == ["dead_man.armed"])


@promise("dead-man.armed-first")
@pytest.mark.parametrize("road", ["dynamic", "short", "long", "compound", "sequence"])
def test_it_runs_before_the_output_goes_on_by_whatever_road(tmp_path: Path, road: str) -> None:
    with (
        running_bench("--instruments", "psu1=keysight_n6700") as bench,
        engine_on(tmp_path, bench, 3.0) as engine,
    ):
        lines = {
            "short": "OUTP 1,(@1)",
            "long": ":OUTPUT:STATE ON,(@1)",
            "compound": "VOLT 2,(@1);:OUTP ON,(@1)",
        }
        if road == "dynamic":
            name = next(
                tool["name"]
                for tool in engine.rpc("tools/list")["tools"]
                if tool["name"].endswith("__output_on")
            )
            done(engine.tool(name, channel=1))
        elif road == "sequence":
            run = {"parameters": {"channel": 1, "voltage": 1}}
            done(
                engine.tool(
                    "execute_sequence", instrument_id="psu1", sequence_name="voltage_point", **run
                )
            )
        else:
            line = lines[road]
            done(engine.tool("send_scpi", instrument_id="psu1", scpi_command=line))
        heard = bench.received("psu1")
        assert heard.index(ENABLE) < min(
            at for at, text in enumerate(heard) if SWITCHES.search(text)
        )


@promise("dead-man.trip-is-a-persons")
@pytest.mark.parametrize("model", ["keysight_n6700", "delta_sm500_cp_90"])
def test_a_trip_that_was_heard_holds_over_kill_9(model: str, tmp_path: Path) -> None:
    def on(engine: EngineProcess) -> Any:
        channel = {"channel": 1} if model == "keysight_n6700" else {}
        return engine.tool(
            "execute_command",
            instrument_id="psu1",
            command_name="output_on",
            parameters=channel,
        )

    with running_bench("--instruments", f"psu1={model}") as bench:
        with engine_on(tmp_path, bench, 3.0, engine_process) as engine:
            done(on(engine))
            os.kill(engine.process.pid, signal.SIGSTOP)
            try:
                wait_for(lambda: not is_on(bench))
            finally:
                os.kill(engine.process.pid, signal.SIGCONT)
            wait_for(lambda: "dead_man.tripped" in events(engine))
            os.kill(engine.process.pid, signal.SIGKILL)
            engine.process.wait()
        with engine_on(tmp_path, bench, 3.0, engine_process) as engine:
            wait_for(lambda: [one["state"] for one in dead_men(engine)] == ["tripped"])
            assert on(engine)["is_error"]
            assert not is_on(bench)


@promise("dead-man.trip-is-a-persons")
def test_a_trip_fails_streams_and_sequences_too(tmp_path: Path) -> None:
    stream = {
        "instrument_id": "psu1",
        "command_name": "measure_voltage",
        "parameters": {"channel": 1},
        "interval_ms": 200,
        "duration_ms": 60_000,
    }
    point = {"channel": 1, "voltage": 1, "settle_ms": 60_000}
    with (
        running_bench("--instruments", "psu1=keysight_n6700") as bench,
        engine_on(tmp_path, bench, 3.0, engine_process) as engine,
        ThreadPoolExecutor(2) as pool,
    ):
        switch_on(engine)
        measuring = pool.submit(engine.tool, "start_stream", **stream)
        setting = pool.submit(
            engine.tool,
            "execute_sequence",
            instrument_id="psu1",
            sequence_name="voltage_point",
            parameters=point,
        )
        wait_for(lambda: len(under_way(engine)) == 2)
        engine.process.send_signal(signal.SIGSTOP)
        try:
            wait_for(lambda: not is_on(bench))
        finally:
            engine.process.send_signal(signal.SIGCONT)
        for running in (measuring, setting):
            answer = running.result(20)
            assert answer["is_error"] or answer["result"]["status"] == "failed", answer
            # A question that was on its way when the engine was stopped has run out of time.
            late = "did not answer in time" in str(answer) and running is measuring
            assert late or "its dead-man switched the outputs off" in str(answer)
        assert under_way(engine) == []


def under_way(engine: Engine) -> list[Any]:
    status = done(engine.tool("get_status"))
    return [*status["streams"], *status["sequences"]]
