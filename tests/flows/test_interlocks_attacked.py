"""Interlocks whose meters hang, lie and are late, whose supplies hang, and that are two at once."""

from __future__ import annotations

import json
import signal
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import engine_process
from tests.bench.guarded_supply import done, engine_on
from tests.bench.sim_bench import SimBench, running_bench
from tests.bench.waiting import HANGS_S, wait_for
from tests.promises import promise

POLL_S, MAX_AGE_S = 0.5, 5.0
"""A reading may be as old as a busy machine makes it: only a missing one trips."""
LATE_S = 20.0
"""What a loaded machine adds to what docs/promises.md says."""
NAMES = ("psu1", "psu2")


def rule(**more: Any) -> dict[str, Any]:
    return {
        "name": "rail",
        "when": {"instrument": "dmm1", "command": "measure_dc_voltage"},
        "must": "value < 3",
        "max_age_s": MAX_AGE_S,
        "poll_s": POLL_S,
        "guards": ["psu1"],
        "trip": "abort",
        **more,
    }


@contextmanager
def bench_of(
    directory: Path,
    *rules: dict[str, Any],
    instruments: str = "psu1,dmm1",
    told: dict[str, Any] | None = None,
    start: Callable[..., AbstractContextManager[Any]] = running_engine,
) -> Iterator[tuple[Any, SimBench]]:
    text = told or {"format": 1, "interlocks": list(rules)}
    (directory / "bench.yaml").write_text(json.dumps(text))
    with (
        running_bench("--instruments", instruments) as sim,
        engine_on(directory, sim, None, start) as engine,
    ):
        yield engine, sim


def call(engine: Engine, name: str, unit: str = "psu1", **parameters: Any) -> Any:
    return engine.tool(
        "execute_command",
        instrument_id=unit,
        command_name=name,
        parameters={"channel": 1, **parameters},
    )


def switch_on(engine: Engine, unit: str = "psu1") -> None:
    done(call(engine, "set_voltage", unit, voltage=1))
    done(call(engine, "output_on", unit))


def interlocks(engine: Engine) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in engine.tool("get_status")["result"]["interlocks"]}


def watches(engine: Engine, name: str = "rail") -> None:
    wait_for(lambda: interlocks(engine)[name]["state"] == "watching")


def is_on(sim: SimBench, unit: str = "psu1") -> bool:
    return bool(sim.state(unit)["ch1"]["is_on"])


def goes_off(sim: SimBench, unit: str = "psu1") -> None:
    """In time: poll_s, max_age_s and a second, and what a loaded machine adds."""
    wait_for(lambda: not is_on(sim, unit), POLL_S + MAX_AGE_S + 1 + LATE_S)


def is_kept(engine: Engine) -> bool:
    """Whether a trip is on disk, with its row; its abort does not wait for that."""
    rows = engine.rpc("audit.list", limit=20)["rows"]
    return any(row["tool"] == "interlock.tripped" for row in rows)


def sequences(engine: Engine) -> list[dict[str, Any]]:
    return list(engine.tool("get_status")["result"]["sequences"])


def lockouts(engine: Engine) -> list[dict[str, Any]]:
    return list(engine.tool("get_status")["result"]["lockouts"])


def tripped_by_metrics(engine: Engine) -> float:
    page = f"http://127.0.0.1:{engine.ports['rpc_port']}/metrics"
    with urllib.request.urlopen(page, timeout=HANGS_S) as answer:
        lines = answer.read().decode().splitlines()
    (found,) = [one for one in lines if one.startswith("edged_interlocks_tripped ")]
    return float(found.split()[1])


@promise("interlock.trip")
def test_a_bad_reading_has_it_off_within_poll_s_and_a_second(tmp_path: Path) -> None:
    with bench_of(tmp_path, rule()) as (engine, sim):
        for _ in range(3):
            switch_on(engine)
            watches(engine)
            sim.tell("psu1", ":SOUR1:VOLT 5")
            goes_off(sim)
            sim.tell("psu1", ":SOUR1:VOLT 1")
            wait_for(lambda: interlocks(engine)["rail"]["state"] != "watching")


@promise("interlock.missing")
@pytest.mark.parametrize("fault", ["freeze", "refuse", "garbage", "timeout", "hang"])
def test_no_reading_has_it_off_within_poll_s_max_age_s_and_a_second(
    tmp_path: Path, fault: str
) -> None:
    with bench_of(tmp_path, rule()) as (engine, sim):
        switch_on(engine)
        watches(engine)
        sim.fault("dmm1", fault, count=1_000 if fault in {"garbage", "timeout"} else None)
        goes_off(sim)
        assert "gave no reading" in interlocks(engine)["rail"]["reason"]


@promise("interlock.missing")
def test_a_hundred_writes_that_wait_for_a_hung_meter_make_the_trip_no_later(
    tmp_path: Path,
) -> None:
    with bench_of(tmp_path, rule()) as (engine, sim):
        switch_on(engine)
        watches(engine)
        sim.fault("dmm1", "freeze")
        with ThreadPoolExecutor(100) as pool:
            answers = [pool.submit(call, engine, "set_voltage", voltage=1) for _ in range(100)]
            goes_off(sim)
            assert all(answer.result(HANGS_S)["is_error"] for answer in answers)


@promise("interlock.trip")
def test_while_the_line_of_one_supply_hangs_the_others_trip_again_and_again(
    tmp_path: Path,
) -> None:
    guarding = rule(guards=list(NAMES))
    with (
        bench_of(tmp_path, guarding, instruments="psu1,psu2=rigol_dp832,dmm1") as (engine, sim),
        ThreadPoolExecutor(1) as pool,
    ):
        for unit in NAMES:
            switch_on(engine, unit)
        curve = {
            "instrument_id": "psu1",
            "sequence_name": "iv_curve",
            "parameters": {"channel": 1, "stop": 2, "points": 400},
        }
        running = pool.submit(engine.tool, "execute_sequence", **curve)
        wait_for(lambda: any(run["steps_executed"] > 8 for run in sequences(engine)))
        watches(engine)
        sim.fault("psu1", "freeze")
        for _ in range(2):
            sim.fault("dmm1", "refuse")
            goes_off(sim, "psu2")
            assert is_on(sim, "psu1")
            sim.clear("dmm1")
            wait_for(lambda: not call(engine, "output_on", "psu2")["is_error"])
            watches(engine)
        # And by a hand at its front panel, while the meter is bad still.
        sim.fault("dmm1", "refuse")
        goes_off(sim, "psu2")
        sim.tell("psu2", ":OUTP CH1,ON")
        done(call(engine, "get_output", "psu2"))
        goes_off(sim, "psu2")
        sim.clear("psu1")
        wait_for(lambda: not is_on(sim, "psu1"))
        assert running.result(HANGS_S)["is_error"]


@promise("interlock.lockout")
def test_every_guarded_unit_is_locked_out_at_once_though_the_line_of_one_hangs(
    tmp_path: Path,
) -> None:
    guarding = rule(guards=list(NAMES), trip="lockout")
    with bench_of(tmp_path, guarding, instruments="psu1,psu2=rigol_dp832,dmm1") as (engine, sim):
        for unit in NAMES:
            switch_on(engine, unit)
        sweep = {
            "instrument_id": "psu1", "command_name": "set_voltage", "parameters": {"channel": 1},
            "target_value": 2, "sweep_rate": 0.01,
        }  # fmt: skip
        done(engine.tool("start_sweep", **sweep))
        watches(engine)
        sim.fault("psu1", "freeze")
        sim.fault("dmm1", "refuse")
        goes_off(sim, "psu2")
        assert {one["alias"] for one in lockouts(engine)} == set(NAMES)
        assert call(engine, "output_on", "psu2")["error"]["code"] == "locked_out"


@promise("interlock.lockout")
def test_a_trip_leaves_what_a_person_said_when_he_locked_it_out(tmp_path: Path) -> None:
    with bench_of(tmp_path, rule(trip="lockout")) as (engine, sim):
        switch_on(engine)
        watches(engine)
        engine.rpc("lockout.set", instrument_id="psu1", reason="hands inside", by="anna")
        sim.tell("psu1", ":SOUR1:VOLT 5")
        goes_off(sim)
        wait_for(lambda: "rail" in lockouts(engine)[0]["reason"])
        (lock,) = lockouts(engine)
        assert lock["by"] == "anna"
        assert lock["reason"].startswith("hands inside")
        assert "must be: value < 3" in lock["reason"]


@promise("interlock.trip")
def test_of_two_that_guard_one_unit_each_holds(tmp_path: Path) -> None:
    rail = rule(cool_down_s=600)
    lead = rule(name="lead", must="value > -1", trip="lockout", guards=["psu1.output_on"])
    with bench_of(tmp_path, rail, lead) as (engine, sim):
        switch_on(engine)
        watches(engine)
        watches(engine, "lead")
        sim.fault("dmm1", "refuse")
        goes_off(sim)
        wait_for(lambda: all(one["reason"] for one in interlocks(engine).values()))
        (lock,) = lockouts(engine)
        assert lock["by"] == "the interlock lead"
        sim.clear("dmm1")
        engine.rpc("lockout.clear", instrument_id="psu1")
        wait_for(lambda: "cools down" in json.dumps(call(engine, "output_on")))
        assert not is_on(sim)


@promise("interlock.trip")
def test_a_trip_is_told_until_a_guarded_write_has_met_a_good_reading(tmp_path: Path) -> None:
    with bench_of(tmp_path, rule(), start=engine_process) as (engine, sim):
        switch_on(engine)
        watches(engine)
        sim.tell("psu1", ":SOUR1:VOLT 5")
        goes_off(sim)
        wait_for(lambda: interlocks(engine)["rail"]["state"] == "idle")
        assert "must be" in interlocks(engine)["rail"]["reason"]
        # What an alert goes by is asked each half minute, say.
        assert tripped_by_metrics(engine) == 1
        engine.process.send_signal(signal.SIGKILL)
        engine.process.wait()
        sim.tell("psu1", ":SOUR1:VOLT 1")
        with engine_on(tmp_path, sim, None, engine_process) as again:
            assert "must be" in interlocks(again)["rail"]["reason"]
            wait_for(lambda: not call(again, "set_voltage", voltage=1)["is_error"])
            assert interlocks(again)["rail"]["reason"] is None
            assert tripped_by_metrics(again) == 0
            again.process.send_signal(signal.SIGKILL)
            again.process.wait()
        with engine_on(tmp_path, sim, None, engine_process) as last:
            assert interlocks(last)["rail"]["reason"] is None


@promise("interlock.every-road")
def test_a_typed_recall_may_be_what_is_guarded_as_a_raw_one_may(tmp_path: Path) -> None:
    guarding = rule(must="value > 100", guards=["psu1.output_on"])
    model = "psu1=siglent_spd3303x,dmm1"
    with bench_of(tmp_path, guarding, instruments=model) as (engine, sim):
        begun = sim.mark()
        answer = engine.tool(
            "execute_command",
            instrument_id="psu1",
            command_name="recall_state",
            parameters={"memory": 1},
        )
        assert answer["error"]["code"] == "interlock", answer
        assert sim.received("psu1", since=begun) == []


@promise("raw.safe-passes")
def test_a_raw_off_passes_although_a_guarded_command_sends_the_same_line(tmp_path: Path) -> None:
    guarding = rule(must="value > 100", guards=["psu1.set_tracking"])
    model = "psu1=siglent_spd3303x,dmm1"
    with bench_of(tmp_path, guarding, instruments=model) as (engine, sim):
        engine.rpc("lockout.set", instrument_id="psu1", reason="rewiring", by="anna")
        begun = sim.mark()
        lines = ("OUTP CH1,OFF", "OUTP:TRACK 1", "OUTP CH1,ON")
        first, *others = (
            engine.tool("send_scpi", instrument_id="psu1", scpi_command=line) for line in lines
        )
        done(first)
        assert [other["result"]["error"]["code"] for other in others] == ["locked_out"] * 2
        sent = sim.received("psu1", since=begun)
        assert [line for line in sent if "OUTP" in line] == ["OUTP CH1,OFF"]


@promise("interlock.every-road")
def test_where_the_guarded_command_is_not_known_every_write_may_be_it(tmp_path: Path) -> None:
    guarding = rule(must="value > 100", guards=["psu1.recall_state", "psu2.output_on"])
    text = {"format": 1, "interlocks": [guarding], "psu2": {"expose": ["recall_state"]}}
    models = "psu1,psu2=rigol_dp832,dmm1"
    with bench_of(tmp_path, instruments=models, told=text) as (engine, sim):
        # The one has no such command; the other has no profile, for what its owner says of it.
        assert interlocks(engine)["rail"]["unknown"] == guarding["guards"]
        begun = sim.mark()
        assert call(engine, "output_on")["error"]["code"] == "interlock"
        for unit, code in (("psu1", "interlock"), ("psu2", "raw_scpi_restricted")):
            line = {"instrument_id": unit, "scpi_command": ":OUTP CH1,ON"}
            answer = engine.tool("send_scpi", **line)
            assert (answer["result"] or answer)["error"]["code"] == code
            assert not any("ON" in line for line in sim.received(unit, since=begun))
        done(call(engine, "output_off"))


@promise("interlock.trip")
def test_an_output_that_was_read_to_be_on_is_watched(tmp_path: Path) -> None:
    with bench_of(tmp_path, rule(guards=["psu1.output_on"])) as (engine, sim):
        # A person, at the front panel.
        sim.tell("psu1", ":SOUR1:VOLT 1", ":OUTP CH1,ON")
        assert interlocks(engine)["rail"]["state"] == "idle"
        done(call(engine, "get_output"))
        watches(engine)
        sim.tell("psu1", ":SOUR1:VOLT 5")
        goes_off(sim)


@promise("interlock.survives")
@promise("interlock.until-obeyed")
@pytest.mark.parametrize("ending", ["kill", "stop"])
def test_a_trip_that_was_not_obeyed_is_no_less_one_after_a_restart_with_a_good_reading(
    tmp_path: Path, ending: str
) -> None:
    with bench_of(tmp_path, rule(), start=engine_process) as (engine, sim):
        switch_on(engine)
        watches(engine)
        sim.fault("psu1", "freeze")
        sim.fault("dmm1", "refuse")
        wait_for(lambda: interlocks(engine)["rail"]["reason"] is not None)
        wait_for(lambda: is_kept(engine))
        if ending == "stop":
            engine.stop()
        else:
            engine.process.kill()
            engine.process.wait()
        assert is_on(sim)
        sim.clear()
        with engine_on(tmp_path, sim, None, engine_process) as again:
            goes_off(sim)
            assert "gave no reading" in interlocks(again)["rail"]["reason"]
            wait_for(lambda: not call(again, "output_on")["is_error"])
            watches(again)
            again.process.kill()
            again.process.wait()
        # Somebody has seen a good reading since.
        with engine_on(tmp_path, sim, None, engine_process) as last:
            watches(last)
            assert is_on(sim)


@promise("interlock.survives")
def test_what_a_person_switches_on_after_a_trip_no_restart_switches_off(tmp_path: Path) -> None:
    with bench_of(tmp_path, rule(guards=["psu1.output_on"]), start=engine_process) as (engine, sim):
        switch_on(engine)
        watches(engine)
        sim.tell("psu1", ":SOUR1:VOLT 5")
        goes_off(sim)
        sim.tell("psu1", ":SOUR1:VOLT 1")
        wait_for(lambda: interlocks(engine)["rail"]["state"] == "idle")
        sim.tell("psu1", ":OUTP CH1,ON")
        done(call(engine, "get_output"))
        watches(engine)
        # What was read goes to disk with the next write at the latest.
        done(call(engine, "set_voltage", voltage=1))
        engine.process.kill()
        engine.process.wait()
        with engine_on(tmp_path, sim, None, engine_process) as again:
            watches(again)
            wait_for(lambda: interlocks(again)["rail"]["last"] is not None)
            assert is_on(sim)
            assert "must be" in interlocks(again)["rail"]["reason"]


@promise("interlock.survives")
def test_after_kill_9_between_a_trip_and_its_abort_it_is_made_off_and_stays_locked_out(
    tmp_path: Path,
) -> None:
    with bench_of(tmp_path, rule(trip="lockout"), start=engine_process) as (engine, sim):
        switch_on(engine)
        watches(engine)
        sim.fault("psu1", "freeze")
        sim.fault("dmm1", "refuse")
        wait_for(lambda: bool(lockouts(engine)))
        assert is_on(sim)
        engine.process.send_signal(signal.SIGKILL)
        engine.process.wait()
        sim.clear("psu1")
        with engine_on(tmp_path, sim, None, engine_process) as again:
            goes_off(sim)
            assert [one["by"] for one in lockouts(again)] == ["the interlock rail"]
            assert call(again, "output_on")["error"]["code"] == "locked_out"
