"""The timer inside a supply: set going before its output goes on, fed, stopped, told of."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

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
    write_bench_file,
)
from tests.bench.sim_bench import SimBench, running_bench
from tests.bench.supervised import supervised
from tests.bench.waiting import wait_for
from tests.promises import promise

LIMIT_S = 3.0
ON = "OUTP ON,(@1)"
ENABLE = "OUTP:PROT:WDOG ON"
DISABLE = "OUTP:PROT:WDOG OFF"
ASK = "STAT:QUES:COND? (@1)"


@pytest.fixture
def bench() -> Iterator[SimBench]:
    with running_bench("--instruments", "psu1=keysight_n6700") as running:
        yield running


@pytest.fixture
def engine(bench: SimBench, tmp_path: Path) -> Iterator[Engine]:
    with engine_on(tmp_path, bench, LIMIT_S) as running:
        yield running


@pytest.fixture
def process(bench: SimBench, tmp_path: Path) -> Iterator[EngineProcess]:
    with engine_on(tmp_path, bench, LIMIT_S, engine_process) as running:
        yield running


@promise("dead-man.armed-first")
def test_it_runs_before_the_output_goes_on_by_each_road(engine: Engine, bench: SimBench) -> None:
    assert not is_running(bench)
    for road in ("typed", "raw"):
        begun = bench.mark()
        if road == "typed":
            done(command(engine, "output_on"))
        else:
            done(engine.tool("send_scpi", instrument_id="psu1", scpi_command=ON))
        heard = bench.received("psu1", since=begun)
        before = heard[: heard.index(ON)]
        assert before.index(ASK) < before.index("OUTP:PROT:WDOG:DEL 3") < before.index(ENABLE)
        assert ASK in before[before.index(ENABLE) :]
        assert is_on(bench)
        assert [one["state"] for one in dead_men(engine)] == ["armed"]
        engine.stop_all()
        wait_for(lambda: not is_running(bench))


@promise("dead-man.armed-first")
def test_a_rehearsal_tells_the_lines_that_would_set_it_going_and_sends_none(
    engine: Engine, bench: SimBench
) -> None:
    begun = bench.mark()
    dry = {"instrument_id": "psu1", "dry_run": True}
    typed = engine.tool(
        "execute_command", command_name="output_on", parameters={"channel": 1}, **dry
    )
    for told in (done(typed), done(engine.tool("send_scpi", scpi_command=ON, **dry))):
        lines = told["would_send"]
        assert lines.index(ASK) < lines.index("OUTP:PROT:WDOG:DEL 3") < lines.index(ENABLE)
        assert lines.index(ENABLE) < lines.index(ON)
        assert "its dead-man runs" in [check["what"] for check in told["checks"]]
    assert bench.received("psu1", since=begun) == []
    assert not is_running(bench)
    switch_on(engine)
    told = done(
        engine.tool(
            "execute_command", command_name="set_voltage",
            parameters={"channel": 1, "voltage": 2}, **dry,
        )
    )  # fmt: skip
    assert ENABLE not in told["would_send"]


@promise("dead-man.disarmed")
def test_it_is_fed_while_something_is_on_and_stopped_once_all_is_known_to_be_off(
    engine: Engine, bench: SimBench
) -> None:
    switch_on(engine)
    begun = bench.mark()
    wait_for(lambda: bench.received("psu1", since=begun).count(ASK) >= 4)
    assert is_on(bench)
    assert not bench.state("psu1")["watchdog"]["is_tripped"]
    assert DISABLE not in bench.received("psu1")
    assert engine.stop_all()["is_confirmed"]
    wait_for(lambda: not is_running(bench))
    wait_for(lambda: dead_men(engine) == [])
    assert events(engine) == ["dead_man.disarmed"]


@promise("dead-man.disarmed")
def test_outputs_that_a_check_finds_off_have_it_stopped(engine: Engine, bench: SimBench) -> None:
    switch_on(engine)
    done(command(engine, "output_off"))
    assert is_running(bench)
    done(engine.tool("bench__check"))
    wait_for(lambda: not is_running(bench))


@promise("dead-man.untouched")
def test_no_caller_stops_slows_or_clears_it(engine: Engine, bench: SimBench) -> None:
    switch_on(engine)
    begun = bench.mark()
    for line in (DISABLE, "outp:prot:wdog:del 3600", "OUTP:PROT:CLE (@1)", "*RST", "*RCL 1"):
        answer = engine.tool("send_scpi", instrument_id="psu1", scpi_command=line)
        # What the profile does not know is not sent to such a unit at all.
        assert answer["result"]["error"]["code"] in {"dead_man", "raw_scpi_restricted"}, answer
    heard = bench.received("psu1", since=begun)
    assert set(heard) <= {ASK}
    assert is_on(bench)


@promise("dead-man.trip-is-a-persons")
def test_one_that_has_switched_off_is_told_everywhere_and_cleared_by_a_person_alone(
    process: EngineProcess, bench: SimBench
) -> None:
    switch_on(process)
    sweep = done(
        process.tool(
            "start_sweep",
            instrument_id="psu1",
            command_name="set_voltage",
            parameters={"channel": 1},
            target_value=10,
            sweep_rate=0.01,
        )
    )
    process.process.send_signal(signal.SIGSTOP)
    try:
        wait_for(lambda: not is_on(bench))
    finally:
        process.process.send_signal(signal.SIGCONT)
    wait_for(lambda: [one["state"] for one in dead_men(process)] == ["tripped"])
    wait_for(
        lambda: (
            process.tool("get_sweep_status", sweep_id=sweep["sweep_id"])["result"]["status"]
            == "failed"
        )
    )
    told = process.tool("get_sweep_status", sweep_id=sweep["sweep_id"])["result"]
    assert "its dead-man switched the outputs off" in told["error"]
    wait_for(lambda: "dead_man.tripped" in events(process))
    [unit] = done(process.tool("bench__check"))["instruments"]
    assert any("dead-man" in problem for problem in unit["problems"]), unit
    begun = bench.mark()
    answer = command(process, "output_on")
    assert answer["is_error"]
    assert "dead_man" in str(answer)
    assert "OUTP:PROT:CLE (@1:4)" in str(answer)
    process.stop_all()
    cleared = command(process, "clear_protection")
    assert cleared["is_error"], cleared
    heard = bench.received("psu1", since=begun)
    assert not any("CLE" in line or line in {ON, ENABLE, DISABLE} for line in heard)
    # A person, at the instrument.
    bench.tell("psu1", "OUTP:PROT:CLE (@1:4)")
    wait_for(lambda: dead_men(process) == [])
    done(command(process, "output_on"))
    assert is_on(bench)
    assert is_running(bench)


@promise("dead-man.disarmed")
@promise("dead-man.restart")
def test_an_orderly_end_leaves_it_running_and_the_next_start_feeds_it(
    bench: SimBench, tmp_path: Path
) -> None:
    with engine_on(tmp_path, bench, 8.0, engine_process) as engine:
        switch_on(engine)
        assert engine.stop() == 0
    assert is_running(bench)
    assert is_on(bench)
    begun = bench.mark()
    with engine_on(tmp_path, bench, 8.0, engine_process) as engine:
        heard = bench.received("psu1", since=begun)
        # Before it was greeted, let alone registered.
        assert heard[:3] == ["*IDN?"] * 3
        wait_for(lambda: "dead_man.armed" in events(engine))
        assert is_on(bench)
        assert [one["state"] for one in dead_men(engine)] == ["armed"]
        assert engine.stop_all()["is_confirmed"]
        wait_for(lambda: not is_running(bench))
        assert engine.stop() == 0


@promise("dead-man.restart")
def test_another_unit_at_the_address_is_told_nothing(bench: SimBench, tmp_path: Path) -> None:
    with engine_on(tmp_path, bench, 8.0, engine_process) as engine:
        switch_on(engine)
        port = bench.port("psu1")
        assert engine.stop() == 0
    bench.remove("psu1")
    bench.add("psu1", "keysight_n6700", port=port, serial="MY99999999")
    begun = bench.mark()
    with engine_on(tmp_path, bench, None, engine_process) as engine:
        assert engine.stop() == 0
    heard = bench.received("psu1", since=begun)
    assert heard[0] == "*IDN?"
    assert not any("WDOG" in line or line == ASK for line in heard)


@promise("dead-man.armed-first")
def test_where_it_cannot_be_set_going_nothing_is_switched_on(
    engine: Engine, bench: SimBench
) -> None:
    bench.fault("psu1", "hang")
    answer = command(engine, "output_on")
    assert answer["is_error"]
    assert ON not in bench.received("psu1")


@promise("dead-man.trip-is-a-persons")
@pytest.mark.parametrize("model", ["tdk_g10_100", "delta_sm500_cp_90", "keysight_n7951a"])
def test_each_makers_timer_switches_off_and_holds_until_it_was_looked_at(
    model: str, tmp_path: Path
) -> None:
    with (
        running_bench("--instruments", f"psu1={model}") as bench,
        engine_on(tmp_path, bench, LIMIT_S, engine_process) as engine,
    ):
        answer = engine.tool("execute_command", instrument_id="psu1", command_name="output_on")
        done(answer)
        assert is_on(bench)
        assert is_running(bench)
        engine.process.send_signal(signal.SIGSTOP)
        try:
            wait_for(lambda: not is_on(bench))
        finally:
            engine.process.send_signal(signal.SIGCONT)
        wait_for(lambda: [one["state"] for one in dead_men(engine)] == ["tripped"])
        for _ in range(3):
            answer = engine.tool("execute_command", instrument_id="psu1", command_name="output_on")
            assert "dead_man" in str(answer), answer
        assert not is_on(bench)
        engine.stop_all()
        if model != "delta_sm500_cp_90":
            bench.tell("psu1", "OUTP:PROT:CLE")
        wait_for(lambda: dead_men(engine) == [])
        wait_for(lambda: not is_running(bench))


@promise("dead-man.restart")
def test_under_a_supervisor_a_timer_shorter_than_a_restart_is_refused(
    bench: SimBench, tmp_path: Path
) -> None:
    write_bench_file(tmp_path, 4.0)
    with supervised(tmp_path, bench) as one:
        answer = command(one.engine(), "output_on")
        assert answer["is_error"]
        assert "5 or more" in str(answer)
    assert ON not in bench.received("psu1")
    assert ENABLE not in bench.received("psu1")


@promise("dead-man.restart")
def test_a_supervised_engine_that_is_killed_leaves_the_output_on_and_fed(
    bench: SimBench, tmp_path: Path
) -> None:
    write_bench_file(tmp_path, 6.0)
    with supervised(tmp_path, bench) as one:
        switch_on(one.engine())
        old = one.facts()["pid"]
        os.kill(old, signal.SIGKILL)
        wait_for(lambda: one.facts().get("pid") not in {None, old})
        wait_for(one.connected)
        wait_for(lambda: "dead_man.armed" in events(one.engine()))
        begun = bench.mark()
        wait_for(lambda: bench.received("psu1", since=begun).count(ASK) >= 4)
        assert is_on(bench)
        assert not bench.state("psu1")["watchdog"]["is_tripped"]
