"""Experiments on a running engine with a simulated bench: checked, run, paused, answered, ended."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edged.runs.experiments.steps import Steps
from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import engine_process
from tests.bench.sim_bench import running_bench
from tests.bench.waiting import first, wait_for
from tests.flows.test_sweeps import engine_on
from tests.promises import promise

EXAMPLES = Path(__file__).parent.parent / "bench" / "experiments"
SIMS = "psu1=rigol_dp832,dmm1=keysight_34461a,load1=rigol_dl3021"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    directory = tmp_path_factory.mktemp("experiments")
    with running_engine(directory, "--instruments", SIMS) as running:
        yield running


@pytest.fixture(autouse=True)
def _tidy(engine: Engine) -> Iterator[None]:
    yield
    for run in engine.tool("get_status")["result"]["experiments"]:
        control(engine, run["run_id"], action="abort")
    engine.tidy()


def plan(*steps: Any, **more: Any) -> dict[str, Any]:
    return {
        "format": 1,
        "experiment": "x",
        "roles": {"s": "psu1", "m": "dmm1"},
        "with": {"s": {"channel": 1}},
        "steps": list(steps),
        "finally": [{"ramp": "s.set_voltage", "to": 0, "rate": 100}, {"command": "s.output_off"}],
        **more,
    }


ON = ({"command": "s.set_voltage_and_current", "parameters": {"voltage": 0, "current": 0.2}},
      {"command": "s.output_on"})  # fmt: skip


def start(engine: Engine, wanted: dict[str, Any], **more: Any) -> str:
    told = engine.tool("bench__start_experiment", plan=wanted, **more)
    assert not told["is_error"], told
    return str(told["result"]["run_id"])


def control(engine: Engine, run_id: str, **asked: Any) -> dict[str, Any]:
    told = engine.tool("bench__control_run", run_id=run_id, **asked)
    assert not told["is_error"], told
    result: dict[str, Any] = told["result"]
    return result


def ended(engine: Engine, run_id: str) -> dict[str, Any]:
    def over() -> dict[str, Any] | None:
        told = control(engine, run_id)
        return None if told["state"] in {"running", "paused"} else told

    return first(over)


def asked(engine: Engine, run_id: str, number: int) -> dict[str, Any]:
    def open_() -> dict[str, Any] | None:
        question = control(engine, run_id)["question"]
        return question if question is not None and question["number"] == number else None

    question = first(open_)
    time.sleep(0.35)  # noqa: TID251 - an answer at once belongs to the question before
    return question


def rows(engine: Engine, run_id: str) -> list[dict[str, Any]]:
    told = engine.tool("bench__runs", run_id=run_id, rows=1000)["result"]
    return [dict(zip(told["columns"], row, strict=True)) for row in told["rows"]]


def is_on(engine: Engine) -> bool:
    told = engine.tool("send_scpi", instrument_id="psu1", scpi_command=":OUTP? CH1")
    return bool(told["result"]["response"] == "ON")


def test_a_map_over_two_loops_is_measured_and_recorded(engine: Engine) -> None:
    run_id = start(
        engine,
        plan(
            *ON,
            {
                "for": "v", "in": {"lin": [0, 1, 3]}, "set": "s.set_voltage", "rate": 100,
                "steps": [{
                    "for": "i", "in": [0.1, 0.2], "set": "s.set_current", "snake": True,
                    "steps": [{"measure": {"volts": "m.measure_dc_voltage"}}],
                }],
            },
        ),
    )  # fmt: skip
    told = ended(engine, run_id)
    assert (told["state"], told["error"], told["done"], told["total"]) == ("completed", None, 6, 6)
    found = rows(engine, run_id)
    assert [(row["n_v"], row["n_i"]) for row in found] == [
        (0, 0), (0, 1), (1, 1), (1, 0), (2, 0), (2, 1),
    ]  # fmt: skip
    assert [row["volts"] for row in found] == pytest.approx([0, 0, 0.5, 0.5, 1, 1], abs=0.02)
    assert not is_on(engine)


@promise("experiment.whole-check")
def test_a_plan_with_errors_does_not_start_and_says_all_of_them(engine: Engine) -> None:
    told = engine.tool("bench__start_experiment", plan=plan({"command": "s.output_onn"}))
    assert told["is_error"]
    assert told["error"]["data"]["errors"][0]["remedy"] == "Write s.output_on."


def test_what_was_checked_is_started_by_its_id(engine: Engine) -> None:
    checked = engine.tool("bench__check_experiment", plan=plan({"wait_s": 0}))["result"]
    assert checked["ok"]
    told = engine.tool("bench__start_experiment", plan_id=checked["plan_id"])["result"]
    assert ended(engine, told["run_id"])["state"] == "completed"


def test_a_limit_of_the_owner_is_an_error_of_the_check(engine: Engine) -> None:
    wrong = engine.tool(
        "bench__check_experiment", plan=plan({"ramp": "s.set_voltage", "to": 100, "rate": 1})
    )["result"]
    assert not wrong["ok"]
    assert "over the maximum 32 V" in wrong["errors"][0]["message"]


@promise("experiment.pause")
def test_a_pause_holds_at_a_boundary_and_leaves_the_output_on(engine: Engine) -> None:
    run_id = start(engine, plan(*ON, {"wait_s": 30}, {"row": {"x": "1"}}))
    wait_for(lambda: control(engine, run_id)["step"] == "steps[2]")
    assert control(engine, run_id, action="pause")["state"] == "paused"
    before = control(engine, run_id)["elapsed_s"]
    time.sleep(0.3)  # noqa: TID251 - that time passes is what is tested
    assert control(engine, run_id)["elapsed_s"] == before
    assert is_on(engine)
    assert control(engine, run_id, action="resume")["state"] == "running"
    control(engine, run_id, action="skip")
    told = ended(engine, run_id)
    assert told["state"] == "completed"
    assert any("skipped" in note for note in told["notes"])


@promise("experiment.finally")
def test_an_abort_runs_finally_and_makes_safe(engine: Engine) -> None:
    run_id = start(engine, plan(*ON, {"wait_s": 60}))
    wait_for(lambda: control(engine, run_id)["step"] == "steps[2]")
    told = control(engine, run_id, action="abort")
    assert told["state"] == "stopped"
    assert told["verdict"] == "aborted"
    assert not is_on(engine)


@promise("experiment.finally")
def test_stop_all_ends_it_and_only_safe_commands_of_finally_run(engine: Engine) -> None:
    run_id = start(engine, plan(*ON, {"wait_s": 60}))
    wait_for(lambda: control(engine, run_id)["step"] == "steps[2]")
    engine.stop_all()
    told = ended(engine, run_id)
    assert told["state"] == "stopped"
    assert "finally[0] was left out: everything was stopped" in told["notes"]
    assert not is_on(engine)


def test_a_safe_command_of_somebody_ends_the_run_that_writes_there(engine: Engine) -> None:
    run_id = start(engine, plan(*ON, {"wait_s": 60}, {"command": "s.output_on"}))
    wait_for(lambda: control(engine, run_id)["step"] == "steps[2]")
    told = engine.tool(
        "execute_command",
        instrument_id="psu1",
        command_name="output_off",
        parameters={"channel": 1},
    )
    assert not told["is_error"], told
    assert ended(engine, run_id)["state"] == "stopped"
    assert not is_on(engine)


def test_a_note_is_kept_also_after_the_end(engine: Engine) -> None:
    run_id = start(engine, plan({"wait_s": 0}))
    ended(engine, run_id)
    control(engine, run_id, action="note", value="the good one")
    (events,) = (engine.state_dir.parent / "data").rglob(f"{run_id}/events.jsonl")
    wait_for(lambda: "the good one" in events.read_text())


def test_a_step_that_fails_ends_the_run_as_failed_and_safe(engine: Engine) -> None:
    run_id = start(engine, plan(*ON, {"poll": "m.measure_dc_voltage", "until": "value > 9",
                                      "timeout_s": 0.2}))  # fmt: skip
    told = ended(engine, run_id)
    assert told["state"] == "failed"
    assert told["error"].startswith("steps[2]: m.measure_dc_voltage answered ")
    assert "'value > 9' did not become true" in told["error"]
    assert not is_on(engine)


def test_two_experiments_do_not_share_a_unit(engine: Engine) -> None:
    run_id = start(engine, plan({"wait_s": 60}))
    told = engine.tool("bench__start_experiment", plan=plan({"wait_s": 1}))
    assert told["is_error"]
    assert run_id in told["error"]["message"]


@promise("experiment.incomplete")
def test_boards_are_tested_one_by_one_each_with_its_verdict(engine: Engine) -> None:
    text = (EXAMPLES / "board_test.yaml").read_text()
    told = engine.tool("bench__start_experiment", text=text, parameters={"boards": 3})["result"]
    run_id = told["run_id"]
    answers: list[Any] = [
        "R33-000001", "yes", "pass",
        "R33-000002", "no",
        "R33-000003", "yes", "fail",
    ]  # fmt: skip
    for number, answer in enumerate(answers, 1):
        asked(engine, run_id, number)
        control(engine, run_id, action="answer", value=answer, question=number)
    told = ended(engine, run_id)
    assert told["state"] == "completed"
    assert told["verdict"] == "fail"
    assert {unit["unit"]: unit["verdict"] for unit in told["units"]} == {
        "R33-000001": "pass",
        "R33-000002": "incomplete",
        "R33-000003": "fail",
    }


def test_a_board_that_passes_at_its_second_try_makes_the_run_pass(engine: Engine) -> None:
    steps = [
        {"ask": "serial", "text": "Serial?", "type": "text"},
        {"ask": "led", "text": "Is the LED on?", "type": "pass_fail"},
    ]
    loop = {"for": "board", "in": {"count": 2}, "unit": "{serial}", "steps": steps}
    run_id = start(engine, plan(loop))
    for number, answer in enumerate(["A1", "fail", "A1", "yes", "pass"], 1):
        asked(engine, run_id, number)
        control(engine, run_id, action="answer", value=answer, question=number)
    told = ended(engine, run_id)
    assert [(unit["try"], unit["verdict"]) for unit in told["units"]] == [(1, "fail"), (2, "pass")]
    assert told["verdict"] == "pass"


@promise("experiment.answer")
def test_an_answer_to_a_question_that_has_ended_never_answers_the_next(engine: Engine) -> None:
    ask = {"text": "?", "type": "confirm"}
    run_id = start(engine, plan({"ask": "a", **ask}, {"ask": "b", **ask}))
    asked(engine, run_id, 1)
    control(engine, run_id, action="answer", value="yes", question=1)
    asked(engine, run_id, 2)
    late = engine.tool("bench__control_run", run_id=run_id, action="answer", value=True, question=1)
    assert late["is_error"]
    assert "Question 1 has ended" in late["error"]["message"]
    assert control(engine, run_id)["question"]["name"] == "b"


def test_an_answer_that_fits_no_question_of_its_kind_is_refused(engine: Engine) -> None:
    run_id = start(engine, plan({"ask": "n", "text": "?", "type": "number", "min": 1, "max": 3}))
    asked(engine, run_id, 1)
    for value in ("many", 7, "nan"):
        told = engine.tool("bench__control_run", run_id=run_id, action="answer", value=value)
        assert told["is_error"], told
    control(engine, run_id, action="answer", value="2")
    assert ended(engine, run_id)["state"] == "completed"


def test_a_watch_that_does_not_hold_aborts(engine: Engine) -> None:
    watch = {"read": "m.measure_dc_voltage", "must": "value < -1", "every_s": 0.1, "else": "abort"}
    run_id = start(engine, plan(*ON, {"wait_s": 60}, watch=[watch]))
    told = ended(engine, run_id)
    assert told["state"] == "stopped"
    assert "value < -1 does not hold: it was " in told["reason"]


def test_a_watch_in_which_edged_makes_a_mistake_ends_the_run(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_steps: Steps, _target: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(Steps, "look", broken)
    watch = {"read": "m.measure_dc_voltage", "must": "value < 9", "every_s": 0.1, "else": "note"}
    run_id = start(engine, plan(*ON, {"wait_s": 60}, watch=[watch]))
    told = ended(engine, run_id)
    assert (told["state"], told["verdict"]) == ("failed", "error")
    assert "edged made a mistake" in told["error"]
    assert not is_on(engine)


def test_a_unit_whose_finally_fails_is_told_with_its_verdict(engine: Engine) -> None:
    loop = {
        "for": "b", "in": {"count": 1}, "unit": "{b}",
        "steps": [{"read": {"v": "s.measure_current"}}, {"check": "c", "value": "{v}", "max": 1}],
        "finally": [{"wait_s": "{1 / v}"}],
    }  # fmt: skip
    told = ended(engine, start(engine, plan(loop)))
    assert told["state"] == "failed"
    assert [(unit["unit"], unit["try"]) for unit in told["units"]] == [("0", 1)]
    assert told["under_test"] is None


def test_settled_is_what_stands_still(engine: Engine) -> None:
    step = {"settle": "m.measure_dc_voltage", "drift": 0.1, "for_s": 0.5, "every_s": 0.1}
    run_id = start(engine, plan(step, {"row": {"x": "1"}}))
    told = ended(engine, run_id)
    assert (told["state"], told["done"]) == ("completed", 1)


def test_what_was_measured_and_judged_is_in_files(engine: Engine) -> None:
    check = {"check": "idle", "value": "{v}", "max": 1, "unit": "V"}
    run_id = start(engine, plan({"measure": {"v": "m.measure_dc_voltage"}}, check))
    assert ended(engine, run_id)["verdict"] == "pass"
    (folder,) = (engine.state_dir.parent / "data").rglob(run_id)
    assert {"plan.yaml", "resolved.json", "meta.json", "data.csv", "checks.csv"} <= {
        file.name for file in folder.iterdir()
    }
    with (folder / "checks.csv").open() as lines:
        (row,) = list(csv.DictReader(lines))
    assert (row["name"], row["verdict"], row["max"]) == ("idle", "pass", "1")


def test_logs_and_checks_are_read_beside_the_rows(engine: Engine) -> None:
    check = {"check": "idle", "value": "{v}", "max": 1, "unit": "V"}
    log = {"amps": {"command": "s.measure_current", "every_s": 0.1}}
    steps = ({"measure": {"v": "m.measure_dc_voltage"}}, check, {"wait_s": 1})
    run_id = start(engine, plan(*steps, log=log))
    assert ended(engine, run_id)["verdict"] == "pass"
    told = engine.tool("bench__runs", run_id=run_id)["result"]
    assert (told["verdict"], told["tables"], told["tested"]) == ("pass", ["amps", "checks"], [])
    assert (Path(told["folder"]) / "data.csv").exists()
    logged = engine.tool("bench__runs", run_id=run_id, table="amps", rows=1)["result"]
    assert (logged["columns"], logged["units"][0]) == (["amps", "elapsed_s"], "A")
    assert logged["total_rows"] >= 2
    assert len(logged["rows"]) == 1
    checks = engine.tool("bench__runs", run_id=run_id, table="checks")["result"]
    assert "verdict" in checks["columns"]
    wrong = engine.tool("bench__runs", run_id=run_id, table="../meta")
    assert "it has amps, checks" in str(wrong)


def test_an_answer_is_followed_by_a_status_without_its_question(engine: Engine) -> None:
    run_id = start(engine, plan({"ask": "n", "text": "?", "type": "text"}, {"wait_s": 60}))
    asked(engine, run_id, 1)
    assert control(engine, run_id, action="answer", value="x")["question"] is None


def test_a_run_is_in_the_status_and_in_the_list_of_runs(engine: Engine) -> None:
    run_id = start(engine, plan({"wait_s": 60}))
    listed = engine.tool("get_status")["result"]["experiments"]
    assert [told["step"] for told in listed if told["run_id"] == run_id]
    listed = engine.tool("bench__runs", kind="experiment")["result"]["runs"]
    assert run_id in {run["run_id"] for run in listed}
    assert engine.tool("bench__stop_run", run_id=run_id)["result"]["status"] == "stopped"


def test_texts_and_whole_numbers_of_a_loop_are_set_as_they_are(engine: Engine) -> None:
    loop = {
        "for": "mode",
        "in": ["constant_current", "constant_resistance"],
        "set": "l.set_mode",
        "steps": [{"row": {"mode_now": "mode"}}],
    }
    wanted = {"format": 1, "experiment": "x", "roles": {"l": "load1"}, "steps": [loop]}
    run_id = start(engine, wanted)
    told = ended(engine, run_id)
    assert (told["state"], told["error"]) == ("completed", None)
    assert [row["mode_now"] for row in rows(engine, run_id)] == loop["in"]


@promise("experiment.rehearsed")
def test_a_rehearsal_runs_the_plan_on_twins_and_sends_nothing_to_the_bench(engine: Engine) -> None:
    ask = {"ask": "seated", "text": "Board in the fixture?", "type": "confirm"}
    steps = (*ON, {"wait_s": 7200}, ask, {"measure": {"v": "m.measure_dc_voltage"}})
    wanted = plan(*steps, at_most_h=4)
    told = engine.tool("bench__check_experiment", plan=wanted, rehearse=True)
    assert not told["is_error"], told
    rehearsal = told["result"]["rehearsal"]
    assert rehearsal["no_model"] == []
    assert rehearsal["virtual_s"] >= 7200
    assert (rehearsal["result"]["state"], rehearsal["result"]["done"]) == ("completed", 1)
    assert not is_on(engine)
    assert engine.tool("get_status")["result"]["experiments"] == []


@promise("experiment.crash-safe")
def test_after_kill_9_every_unit_is_made_safe_and_the_run_is_interrupted(tmp_path: Path) -> None:
    with running_bench("--instruments", SIMS) as bench:
        with engine_on(bench, tmp_path, engine_process) as engine:
            run_id = start(engine, plan(*ON, {"measure": {"v": "m.measure_dc_voltage"}},
                                        {"wait_s": 60}))  # fmt: skip
            wait_for(lambda: control(engine, run_id)["step"] == "steps[3]")
            assert bench.state("psu1")["ch1"]["is_on"]
            (data,) = first(lambda: list((tmp_path / "data").rglob(f"{run_id}/data.csv")))
            # Rows go to the disk each second.
            wait_for(lambda: len(data.read_text().splitlines()) == 2)
            engine.process.kill()
            engine.process.wait()
        with engine_on(bench, tmp_path) as engine:
            wait_for(lambda: not bench.state("psu1")["ch1"]["is_on"])
            (told,) = engine.tool("bench__runs", kind="experiment")["result"]["runs"]
            assert (told["run_id"], told["state"]) == (run_id, "interrupted")
            assert len(rows(engine, run_id)) == 1
