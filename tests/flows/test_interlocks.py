"""What a meter must say before, and while, a supply is on: real engines on the simulated bench."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import engine_process
from tests.bench.sim_bench import running_bench
from tests.bench.waiting import first, wait_for
from tests.promises import promise

POLL_S, MAX_AGE_S = 0.3, 5.0
"""A reading may be as old as a busy machine makes it: only a missing one trips."""
AT_MOST = "value < 3"


def rules(**more: Any) -> str:
    entry = {
        "name": "rail",
        "when": {"instrument": "dmm1", "command": "measure_dc_voltage"},
        "must": AT_MOST,
        "max_age_s": MAX_AGE_S,
        "poll_s": POLL_S,
        "guards": ["psu1"],
        "trip": "abort",
        **more,
    }
    return json.dumps({"format": 1, "interlocks": [entry]})


@contextmanager
def bench(
    directory: Path,
    config: dict[str, Any] | None = None,
    start: Callable[..., AbstractContextManager[Any]] = running_engine,
    **more: Any,
) -> Iterator[Any]:
    (directory / "bench.yaml").write_text(rules(**more))
    with start(directory, config=config or {}) as engine:
        yield engine


def command(name: str, **parameters: Any) -> dict[str, Any]:
    return {
        "instrument_id": "psu1",
        "command_name": name,
        "parameters": {"channel": 1, **parameters},
    }


def call(engine: Engine, name: str, **parameters: Any) -> Any:
    return engine.tool("execute_command", **command(name, **parameters))


def done(engine: Engine, name: str, **parameters: Any) -> None:
    """Call until it is done: a busy machine may keep the meter from answering in time at first."""
    wait_for(lambda: "error" not in call(engine, name, **parameters))


def state(engine: Engine) -> dict[str, Any]:
    (found,) = engine.tool("get_status")["result"]["interlocks"]
    return found  # type: ignore[no-any-return]


def is_on(engine: Engine) -> bool:
    return bool(engine.sim("state")["instruments"]["psu1"]["state"]["ch1"]["is_on"])


def written(engine: Engine) -> list[str]:
    """What the supply was told, questions apart."""
    entries = engine.sim("log", instrument="psu1", limit=10_000)["entries"]
    told = [entry["text"].strip() for entry in entries if entry["direction"] == "in"]
    return [line for line in told if "?" not in line]


def rows(engine: Engine, tool: str) -> list[dict[str, Any]]:
    return [row for row in engine.rpc("audit.list", limit=500)["rows"] if row["tool"] == tool]


SWEEP = {
    "instrument_id": "psu1",
    "command_name": "set_voltage",
    "parameters": {"channel": 1},
    "target_value": 2,
    "sweep_rate": 0.5,
}


@promise("interlock.every-road")
def test_a_bad_reading_refuses_a_guarded_write_on_every_road_and_nothing_is_sent(
    tmp_path: Path,
) -> None:
    with bench(tmp_path, must="value > 3", poll_s=10, max_age_s=30) as engine:
        before = written(engine)
        dynamic = next(
            tool["name"]
            for tool in engine.rpc("tools/list")["tools"]
            if tool["name"].endswith("rigol_dp832__set_voltage")
        )
        point = {
            "instrument_id": "psu1",
            "sequence_name": "voltage_point",
            "parameters": {"channel": 1, "voltage": 1},
        }
        for tool, arguments in (
            ("execute_command", command("set_voltage", voltage=1)),
            (dynamic, {"channel": 1, "voltage": 1}),
            ("send_scpi", {"instrument_id": "psu1", "scpi_command": ":SOUR1:VOLT 1"}),
            ("start_sweep", SWEEP),
            ("execute_sequence", point),
        ):
            answer = engine.tool(tool, **arguments)
            assert answer["error"]["code"] == "interlock", (tool, answer)
            assert "guarded by the interlock rail" in answer["error"]["message"]
            assert "must be: value > 3" in answer["error"]["message"]
        assert written(engine) == before
        done(engine, "output_off")
        assert engine.stop_all()["is_confirmed"]
        assert state(engine)["reason"] is None


@promise("interlock.every-road")
def test_a_raw_line_that_no_profile_knows_may_be_what_is_guarded(tmp_path: Path) -> None:
    with bench(tmp_path, must="value > 3", guards=["psu1.output_on"]) as engine:
        before = written(engine)
        for line in ("*RCL 1", "*TRG", ":OUTP:TRACK CH1,ON", ":TIM CH1,ON", "*CLS;:RECALL 1"):
            answer = engine.tool("send_scpi", instrument_id="psu1", scpi_command=line)
            error = answer["result"]["error"]
            assert error["code"] == "raw_scpi_restricted", (line, answer)
            assert "the interlock" in error["message"]
        # One that has more commands than are judged might hold it behind them.
        for filling in ("*CLS;", ":SOUR1:VOLT?;"):
            line = filling * 64 + ":OUTP CH1,ON"
            answer = engine.tool("send_scpi", instrument_id="psu1", scpi_command=line)
            assert answer["error"]["code"] == "bad_scpi", (line, answer)
        assert written(engine) == before
        for line in ("*CLS", ":SOUR1:VOLT 1", ":OUTP CH1,OFF"):
            answer = engine.tool("send_scpi", instrument_id="psu1", scpi_command=line)
            assert answer["result"]["error"] is None, (line, answer)


@promise("interlock.until-obeyed")
def test_the_abort_of_a_trip_is_tried_until_it_is_obeyed(tmp_path: Path) -> None:
    # After a crash and a stop it would be given up at once.
    with bench(tmp_path, config={"ABORT_AFTER_CRASH_SEC": 0}) as engine:
        done(engine, "set_voltage", voltage=2)
        done(engine, "output_on")
        wait_for(lambda: state(engine)["state"] == "watching")
        engine.sim("fault", instrument="psu1", kind="refuse")
        engine.sim("fault", instrument="dmm1", kind="refuse")
        wait_for(lambda: state(engine)["reason"] is not None)
        status = engine.tool("get_status")["result"]
        unit = next(i for i in engine.tool("list_instruments")["result"] if i["alias"] == "psu1")
        assert unit["id"] in status["stopping"]
        assert is_on(engine)
        engine.sim("clear", instrument="psu1")
        wait_for(lambda: not is_on(engine))
        wait_for(lambda: not engine.tool("get_status")["result"]["stopping"])


@promise("interlock.trip")
def test_a_bad_reading_while_it_is_on_trips_runs_the_abort_ends_the_sweep_and_is_told(
    tmp_path: Path,
) -> None:
    with bench(tmp_path, guards=["psu1.output_on"]) as engine:
        done(engine, "set_voltage", voltage=1)
        assert state(engine)["last"] is None
        done(engine, "output_on")
        wait_for(lambda: state(engine)["state"] == "watching")
        sweep = engine.tool("start_sweep", **{**SWEEP, "target_value": 20, "sweep_rate": 4})
        sweep_id = sweep["result"]["sweep_id"]
        wait_for(lambda: state(engine)["reason"] is not None)
        wait_for(lambda: not is_on(engine))
        status = engine.tool("get_sweep_status", sweep_id=sweep_id)["result"]
        wait_for(lambda: engine.tool("get_sweep_status", sweep_id=sweep_id)["result"]["status"]
              == "stopped")  # fmt: skip
        status = engine.tool("get_sweep_status", sweep_id=sweep_id)["result"]
        assert status["reason"] == "the interlock rail tripped"
        told = state(engine)
        assert "dmm1.measure_dc_voltage is" in told["reason"]
        assert told["tripped_ms"]
        (entry,) = engine.tool("bench__check")["result"]["interlocks"]
        assert entry["reason"] == told["reason"]
        (row,) = rows(engine, "interlock.tripped")
        assert told["reason"] in json.dumps(row)
        assert not rows(engine, "interlock.read")
        polls = [r for r in engine.rpc("audit.list", limit=500)["rows"]
                 if r["command"] == "measure_dc_voltage"]  # fmt: skip
        assert not polls
        # Weaker than a lockout: it may be switched on again where the reading is good.
        done(engine, "set_voltage", voltage=1)
        wait_for(lambda: "error" not in call(engine, "output_on"))


@promise("interlock.missing")
@pytest.mark.parametrize("fault", ["freeze", "refuse", "garbage", "timeout"])
def test_a_meter_that_hangs_vanishes_or_talks_nonsense_trips_and_its_return_switches_nothing_on(
    tmp_path: Path, fault: str
) -> None:
    with bench(tmp_path) as engine:
        done(engine, "set_voltage", voltage=1)
        done(engine, "output_on")
        wait_for(lambda: state(engine)["state"] == "watching")
        count = {"count": 1_000} if fault in {"garbage", "timeout"} else {}
        engine.sim("fault", instrument="dmm1", kind=fault, **count)
        wait_for(lambda: not is_on(engine))
        assert "gave no reading" in state(engine)["reason"]
        answer = call(engine, "output_on")
        assert answer["error"]["code"] == "interlock"
        assert "gave no reading" in answer["error"]["message"]
        engine.sim("clear", instrument="dmm1")
        done(engine, "output_off")
        wait_for(lambda: "error" not in call(engine, "set_voltage", voltage=1))
        assert not is_on(engine)
        wait_for(lambda: "error" not in call(engine, "output_on"))
        assert is_on(engine)


@promise("interlock.trip")
def test_a_meter_in_other_hands_is_read_all_the_same(tmp_path: Path) -> None:
    with bench(tmp_path) as engine:
        engine.rpc("leases.reserve", instruments=["dmm1"], purpose="calibration", by="anna")
        engine.rpc("lockout.set", instrument_id="dmm1", reason="being wired", by="anna")
        done(engine, "set_voltage", voltage=2)
        done(engine, "output_on")
        wait_for(lambda: state(engine)["state"] == "watching")
        call(engine, "set_voltage", voltage=5)
        wait_for(lambda: not is_on(engine))
        assert "must be: value < 3" in state(engine)["reason"]


@promise("interlock.trip")
def test_a_meter_whose_owner_lets_few_ask_it_is_read_as_any_other(tmp_path: Path) -> None:
    text = json.loads(rules(guards=["psu1", "dmm1"]))
    marked = {**text, "dmm1": {"is_dangerous": ["measure_dc_voltage"]}}
    (tmp_path / "bench.yaml").write_text(json.dumps(marked))
    with running_engine(tmp_path) as engine:
        engine.rpc("lockout.set", instrument_id="dmm1", reason="being wired", by="anna")
        done(engine, "set_voltage", voltage=2)
        done(engine, "output_on")
        wait_for(lambda: state(engine)["state"] == "watching" and state(engine)["last"])
        assert not rows(engine, "interlock")
        call(engine, "set_voltage", voltage=5)
        wait_for(lambda: not is_on(engine))
        assert "must be: value < 3" in state(engine)["reason"]


@promise("interlock.lockout")
def test_a_trip_locks_out_until_the_owner_lifts_it(tmp_path: Path) -> None:
    with bench(tmp_path, trip="lockout") as engine:
        done(engine, "set_voltage", voltage=2)
        done(engine, "output_on")
        call(engine, "set_voltage", voltage=5)
        wait_for(lambda: not is_on(engine))
        (lock,) = first(lambda: engine.tool("get_status")["result"]["lockouts"])
        assert lock["by"] == "the interlock rail"
        assert "must be: value < 3" in lock["reason"]
        answer = call(engine, "set_voltage", voltage=1)
        assert answer["error"]["code"] == "locked_out"
        engine.rpc("lockout.clear", instrument_id="psu1")
        wait_for(lambda: "error" not in call(engine, "set_voltage", voltage=1))
        done(engine, "output_on")


@promise("interlock.cool-down")
def test_after_a_trip_it_cools_down_also_over_a_restart(tmp_path: Path) -> None:
    with bench(tmp_path, start=engine_process, cool_down_s=600) as engine:
        done(engine, "set_voltage", voltage=2)
        done(engine, "output_on")
        call(engine, "set_voltage", voltage=5)
        wait_for(lambda: not is_on(engine))
        wait_for(lambda: "cools down" in json.dumps(call(engine, "output_on")))
        assert state(engine)["cools_s"] > 500
        engine.process.send_signal(signal.SIGKILL)
        engine.process.wait()
    # The wall's clock was wrong until somebody set it.
    with closing(sqlite3.connect(engine.state_dir / "edged.db")) as connection:
        connection.execute("UPDATE interlock_trip SET tripped_ms = tripped_ms - 86400000")
        connection.commit()
    with engine_process(tmp_path) as engine:
        answer = call(engine, "output_on")
        assert answer["error"]["code"] == "interlock"
        assert "cools down" in answer["error"]["message"]
        assert answer["error"]["data"]["retry_after_s"] > 400


@promise("interlock.survives")
def test_after_kill_9_what_was_on_is_watched_again_at_once(tmp_path: Path) -> None:
    with running_bench("--instruments", "psu1,dmm1") as sim:
        names = ("psu1", "dmm1")
        config = {"INSTRUMENTS": [{"address": sim.address(n), "name": n} for n in names]}
        (tmp_path / "bench.yaml").write_text(rules())
        with engine_process(tmp_path, sim=False, config=config) as engine:
            done(engine, "set_voltage", voltage=2)
            done(engine, "output_on")
            wait_for(lambda: state(engine)["state"] == "watching")
            engine.process.send_signal(signal.SIGKILL)
            engine.process.wait()
        sim.fault("dmm1", "freeze")
        with engine_process(tmp_path, sim=False, config=config) as engine:
            wait_for(lambda: state(engine)["reason"] is not None)
            wait_for(lambda: not sim.state("psu1")["ch1"]["is_on"])


@promise("interlock.meter-is-kept-free")
def test_while_it_guards_no_call_may_keep_its_meter_for_longer_than_a_reading_may_age(
    tmp_path: Path,
) -> None:
    question = {"instrument_id": "dmm1", "command_name": "measure_dc_voltage"}
    with bench(tmp_path) as engine:
        assert "error" not in engine.tool("execute_command", **question)
        done(engine, "set_voltage", voltage=1)
        done(engine, "output_on")
        wait_for(lambda: state(engine)["state"] == "watching")
        answer = engine.tool("execute_command", **question)
        assert answer["error"]["code"] == "interlock"
        assert "longer than max_age_s 5" in answer["error"]["message"]
        done(engine, "output_off")
        wait_for(lambda: state(engine)["state"] == "idle")
        assert "error" not in engine.tool("execute_command", **question)


@promise("interlock.bench-file")
def test_a_rule_that_is_changed_is_in_force_without_a_restart(tmp_path: Path) -> None:
    with bench(tmp_path, must="value > 3") as engine:
        assert call(engine, "set_voltage", voltage=1)["error"]["code"] == "interlock"
        (tmp_path / "bench.yaml").write_text(rules())
        wait_for(lambda: "error" not in call(engine, "set_voltage", voltage=1))
