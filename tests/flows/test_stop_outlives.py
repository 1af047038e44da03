"""What was switched on is not forgotten by kill -9: the next stop all knows what to doubt."""

from __future__ import annotations

from pathlib import Path

from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.sim_bench import running_bench
from tests.bench.waiting import wait_for
from tests.flows.test_sweeps import engine_on
from tests.promises import promise


def switch_on_and_kill(engine: EngineProcess) -> None:
    answer = engine.tool(
        "execute_command",
        instrument_id="psu1",
        command_name="output_on",
        parameters={"channel": 1},
    )
    assert not answer["is_error"], answer
    engine.process.kill()
    engine.process.wait()


@promise("stop-all.outlives")
def test_after_kill_an_output_that_cannot_be_asked_any_more_is_not_confirmed(
    tmp_path: Path,
) -> None:
    with running_bench("--instruments", "psu1=rigol_dp832,dmm1=keysight_34461a") as bench:
        with engine_on(bench, tmp_path, engine_process) as engine:
            switch_on_and_kill(engine)
        with engine_on(bench, tmp_path) as engine:
            bench.fault("psu1", "hang")
            told = engine.tool("bench__stop_all")["result"]
            assert told["is_confirmed"] is False
            doubted = {one["alias"]: one["unconfirmed"] for one in told["instruments"]}
            assert doubted == {"psu1": ["OUTP CH1"], "dmm1": []}
            # It goes on being tried, and is off as soon as the instrument answers.
            bench.clear("psu1")
            wait_for(lambda: not bench.state("psu1")["ch1"]["is_on"])
            wait_for(lambda: engine.stop_all()["is_confirmed"])


@promise("stop-all.outlives")
def test_one_that_is_gone_stays_in_doubt_until_somebody_has_looked(tmp_path: Path) -> None:
    with running_bench("--instruments", "psu1=rigol_dp832,dmm1=keysight_34461a") as bench:
        with engine_on(bench, tmp_path, engine_process) as engine:
            [psu] = [i for i in engine.tool("list_instruments")["result"] if i["alias"] == "psu1"]
            switch_on_and_kill(engine)
        bench.remove("psu1")
        with engine_on(bench, tmp_path) as engine:
            told = engine.tool("bench__stop_all")["result"]
            assert told["is_confirmed"] is False
            states = {one["instrument_id"]: one["state"] for one in told["instruments"]}
            assert states[psu["id"]] == "absent"
            seen = engine.rpc("stop.seen_off", instrument_id=psu["id"], by="Ada")
            assert seen["outputs"] == ["OUTP CH1"]
            assert engine.stop_all()["is_confirmed"]
            assert engine.tool("get_status")["result"]["told_on"] == []
            rows = engine.rpc("audit.list", limit=50)["rows"]
            assert any("Ada has seen off: OUTP CH1" in str(row) for row in rows)
