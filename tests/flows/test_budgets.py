"""How often the owner lets a command be sent: real engines on the simulated bench."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import engine_process
from tests.bench.waiting import wait_for
from tests.promises import promise


@contextmanager
def bench(
    directory: Path,
    budget: dict[str, Any],
    start: Callable[..., AbstractContextManager[Any]] = running_engine,
    **more: Any,
) -> Iterator[Any]:
    rules = {"format": 1, "psu1": {"budget": budget, **more}}
    (directory / "bench.yaml").write_text(json.dumps(rules))
    with start(directory) as engine:
        yield engine


def call(engine: Engine, name: str, **parameters: Any) -> Any:
    return engine.tool(
        "execute_command",
        instrument_id="psu1",
        command_name=name,
        parameters={"channel": 1, **parameters},
    )


def done(engine: Engine, name: str, **parameters: Any) -> None:
    answer = call(engine, name, **parameters)
    assert "error" not in answer, answer


def refusal(answer: Any) -> Any:
    assert answer["error"]["code"] == "budget", answer
    return answer["error"]


def sent(engine: Engine, line: str) -> int:
    entries = engine.sim("log", instrument="psu1", limit=10_000)["entries"]
    return "".join(e["text"] for e in entries if e["direction"] == "in").count(f"{line}\n")


@promise("budget.every-road")
def test_it_counts_over_all_roads_and_the_refusal_says_when_it_is_allowed_again(
    tmp_path: Path,
) -> None:
    with bench(tmp_path, {"output_on": {"per_hour": 4}}) as engine:
        dynamic = next(
            tool["name"]
            for tool in engine.rpc("tools/list")["tools"]
            if tool["name"].endswith("rigol_dp832__output_on")
        )
        raw = {"instrument_id": "psu1", "scpi_command": ":OUTP CH1,ON"}
        done(engine, "output_on")
        assert "error" not in engine.tool(dynamic, channel=1)
        assert engine.tool("send_scpi", **raw)["result"]["error"] is None
        point = {
            "instrument_id": "psu1",
            "sequence_name": "voltage_point",
            "parameters": {"channel": 1, "voltage": 1},
        }
        assert "error" not in engine.tool("execute_sequence", **point)
        before = sent(engine, ":OUTP CH1,ON")
        assert before == 4
        for tool, arguments in (
            (dynamic, {"channel": 1}),
            ("send_scpi", raw),
            ("send_scpi", {**raw, "scpi_command": "OUTPUT CH1,1"}),
            ("execute_sequence", point),
        ):
            assert refusal(engine.tool(tool, **arguments))["data"]["command"] == "output_on"
        error = refusal(call(engine, "output_on"))
        assert "output_on was sent 4 times in the last hour" in error["message"]
        assert "allowed again at" in error["message"]
        assert 3_500 < error["data"]["retry_after_s"] <= 3_600
        assert sent(engine, ":OUTP CH1,ON") == before
        (told,) = engine.tool("get_status")["result"]["budgets"]
        assert (told["spent"], told["per_hour"]) == (4, 4)
        rows = engine.rpc("audit.list", limit=500)["rows"]
        assert [row for row in rows if row["code"] == "budget"]


@promise("budget.only-what-goes-out")
def test_what_was_refused_denied_or_rehearsed_does_not_count(tmp_path: Path) -> None:
    budget = {"set_voltage": {"per_hour": 1}, "output_on": {"per_hour": 1}}
    limits = {"set_voltage": {"voltage": {"max": 5}}}
    with bench(tmp_path, budget, limits=limits, confirm=["output_on"]) as engine:
        assert call(engine, "set_voltage", voltage=9)["error"]["code"] == "bad_arguments"
        engine.rpc("lockout.set", instrument_id="psu1", reason="hands", by="test")
        assert call(engine, "set_voltage", voltage=1)["error"]["code"] == "locked_out"
        engine.rpc("lockout.clear", instrument_id="psu1")
        dry = engine.tool(
            "execute_command", instrument_id="psu1", command_name="set_voltage",
            parameters={"channel": 1, "voltage": 1}, dry_run=True,
        )  # fmt: skip
        assert "error" not in dry
        with ThreadPoolExecutor(1) as pool:
            waits = pool.submit(call, engine, "output_on")
            wait_for(lambda: engine.rpc("approvals.list")["approvals"])
            (question,) = engine.rpc("approvals.list")["approvals"]
            engine.rpc("approvals.deny", approval_id=question["approval_id"], by="test")
            assert waits.result(30)["error"]["code"] == "approval_denied"
            spent = {
                b["command"]: b["spent"] for b in engine.tool("get_status")["result"]["budgets"]
            }
            assert spent == {"set_voltage": 0, "output_on": 0}
            waits = pool.submit(call, engine, "output_on")
            wait_for(lambda: engine.rpc("approvals.list")["approvals"])
            (question,) = engine.rpc("approvals.list")["approvals"]
            engine.rpc("approvals.approve", approval_id=question["approval_id"], by="test")
            assert "error" not in waits.result(30)
        done(engine, "set_voltage", voltage=1)
        refusal(call(engine, "set_voltage", voltage=2))
        # Nobody is asked about what would be refused.
        refusal(call(engine, "output_on"))
        assert engine.rpc("approvals.list")["approvals"] == []


@promise("budget.survives")
def test_kill_9_and_a_restart_give_nothing_back(tmp_path: Path) -> None:
    with bench(tmp_path, {"output_on": {"per_hour": 2}}, engine_process) as engine:
        done(engine, "output_on")
        done(engine, "output_on")
        engine.process.send_signal(signal.SIGKILL)
        engine.process.wait()
    with engine_process(tmp_path) as engine:
        error = refusal(call(engine, "output_on"))
        assert error["data"]["spent"] == 2
        assert engine.stop() == 0
    with engine_process(tmp_path) as engine:
        refusal(call(engine, "output_on"))


@promise("budget.never-more")
def test_a_hundred_calls_at_once_never_pass_it(tmp_path: Path) -> None:
    with bench(tmp_path, {"output_on": {"per_hour": 7}}) as engine:
        with ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(lambda _: call(engine, "output_on"), range(100)))
        assert sum("error" not in answer for answer in answers) == 7
        assert sent(engine, ":OUTP CH1,ON") == 7
        two = {"instrument_id": "psu1", "scpi_command": ":OUTP CH1,ON;:OUTP CH1,ON"}
        refusal(engine.tool("send_scpi", **two))


@promise("budget.never-more")
def test_two_are_so_far_apart_as_the_owner_says(tmp_path: Path) -> None:
    with bench(tmp_path, {"output_on": {"min_interval_s": 600}}) as engine:
        done(engine, "output_on")
        error = refusal(call(engine, "output_on"))
        assert "less than 600 s ago" in error["message"]
        assert 590 < error["data"]["retry_after_s"] <= 600


@promise("budget.runs")
def test_a_run_that_would_pass_it_is_refused_before_its_first_step(tmp_path: Path) -> None:
    budget = {"set_voltage": {"per_hour": 5}, "output_on": {"min_interval_s": 60}}
    with bench(tmp_path, budget) as engine:
        before = engine.sim("log", instrument="psu1", limit=10_000)["last"]
        sweep = {
            "instrument_id": "psu1", "command_name": "set_voltage", "parameters": {"channel": 1},
            "target_value": 5, "sweep_rate": 2,
        }  # fmt: skip
        error = refusal(engine.tool("start_sweep", **sweep))
        assert "5 an hour" in error["message"]
        curve = {
            "instrument_id": "psu1", "sequence_name": "iv_curve",
            "parameters": {"channel": 1, "stop": 2, "points": 9},
        }  # fmt: skip
        error = refusal(engine.tool("execute_sequence", **curve))
        entries = engine.sim("log", instrument="psu1", since=before, limit=10_000)["entries"]
        told = [e["text"] for e in entries if e["direction"] == "in" and "?" not in e["text"]]
        assert told == []
        assert {b["spent"] for b in engine.tool("get_status")["result"]["budgets"]} == {0}


@promise("budget.stops-pass")
def test_what_makes_safe_has_none(tmp_path: Path) -> None:
    with bench(tmp_path, {"output_on": {"per_hour": 1}, "set_voltage": {"per_hour": 1}}) as engine:
        done(engine, "set_voltage", voltage=1)
        done(engine, "output_on")
        refusal(call(engine, "set_voltage", voltage=2))
        for _ in range(3):
            done(engine, "output_off")
            assert engine.stop_all()["is_confirmed"]


@promise("budget.every-road")
def test_no_other_name_or_line_is_a_way_around_it(tmp_path: Path) -> None:
    with bench(tmp_path, {"output_on": {"per_hour": 1}}) as engine:
        done(engine, "output_on")
        listed = engine.tool("list_instruments")["result"]
        (unit,) = [one for one in listed if one["alias"] == "psu1"]
        answer = engine.tool(
            "execute_command", instrument_id=unit["id"], command_name="output_on",
            parameters={"channel": 1},
        )  # fmt: skip
        refusal(answer)
        began = engine.sim("log", instrument="psu1", limit=10_000)["last"]
        for line in (":SOUR1:VOLT 1;:OUTP CH1,ON", ":OUTPut:STATe CH1,ON", "*RCL 1", "*SAV 1"):
            answer = engine.tool("send_scpi", instrument_id="psu1", scpi_command=line)
            assert answer["is_error"] or answer["result"]["error"], (line, answer)
        entries = engine.sim("log", instrument="psu1", since=began, limit=10_000)["entries"]
        assert [e["text"] for e in entries if e["direction"] == "in" and "?" not in e["text"]] == []


@promise("budget.runs")
def test_each_step_of_a_sweep_counts_and_the_next_sweep_is_refused_whole(tmp_path: Path) -> None:
    with bench(tmp_path, {"set_voltage": {"per_hour": 30}}) as engine:
        done(engine, "set_voltage", voltage=0)
        sweep = {
            "instrument_id": "psu1", "command_name": "set_voltage", "parameters": {"channel": 1},
            "target_value": 1, "sweep_rate": 1,
        }  # fmt: skip
        assert "error" not in engine.tool("start_sweep", **sweep)
        wait_for(lambda: not engine.tool("get_status")["result"]["sweeps"])
        (told,) = engine.tool("get_status")["result"]["budgets"]
        before = sent_voltages(engine)
        assert 3 < told["spent"] == before
        refusal(engine.tool("start_sweep", **{**sweep, "target_value": 9}))
        assert sent_voltages(engine) == before


@promise("budget.runs")
def test_a_step_that_meets_one_that_others_used_up_ends_its_run_with_its_finally(
    tmp_path: Path,
) -> None:
    curve = {
        "instrument_id": "psu1", "sequence_name": "iv_curve",
        "parameters": {"channel": 1, "stop": 1, "points": 9, "settle_ms": 300},
    }  # fmt: skip
    with (
        bench(tmp_path, {"set_voltage": {"per_hour": 12}}) as engine,
        ThreadPoolExecutor(1) as pool,
    ):
        running = pool.submit(engine.tool, "execute_sequence", **curve)
        wait_for(lambda: engine.tool("get_status")["result"]["sequences"])
        for _ in range(5):
            call(engine, "set_voltage", voltage=0.5)
        answer = running.result(30)
        assert answer["error"]["code"] == "step_failed", answer
        assert "in the last hour" in str(answer)
        assert not engine.sim("state")["instruments"]["psu1"]["state"]["ch1"]["is_on"]
        assert engine.tool("get_status")["result"]["budgets"][0]["spent"] == 12


@promise("budget.survives")
def test_what_was_on_its_way_to_a_line_that_hangs_counts_after_kill_9(tmp_path: Path) -> None:
    with (
        bench(tmp_path, {"output_on": {"per_hour": 1}}, engine_process) as engine,
        ThreadPoolExecutor(1) as pool,
    ):
        engine.sim("fault", instrument="psu1", kind="freeze")
        waits = pool.submit(call, engine, "output_on")
        wait_for(lambda: engine.tool("get_status")["result"]["budgets"][0]["spent"] == 1)
        wait_for(lambda: '"output_on"' in json.dumps(engine.rpc("audit.list", limit=50)["rows"]))
        engine.process.send_signal(signal.SIGKILL)
        engine.process.wait()
        assert waits.exception(30) is not None
    with engine_process(tmp_path) as engine:
        assert refusal(call(engine, "output_on"))["data"]["spent"] == 1


def sent_voltages(engine: Engine) -> int:
    entries = engine.sim("log", instrument="psu1", limit=10_000)["entries"]
    text = "".join(e["text"] for e in entries if e["direction"] == "in")
    return len(re.findall(r"VOLT [0-9]", text))


@promise("budget.bench-file")
@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ({"outputs_on": {"per_hour": 1}}, "Did you mean"),
        ({"output_off": {"per_hour": 1}}, "safe and cannot be under budget"),
        ({"output_on": {}}, "limits nothing"),
        ({"output_on": {"per_hour": 0}}, "1 to 3600"),
        ({"output_on": {"per_hour": 1.5}}, "whole number"),
        ({"output_on": {"min_interval_s": -1}}, "over 0"),
        ({"output_on": {"per_day": 1}}, "per_day"),
        ({"measure_voltage": {"per_hour": 1}}, "only asks"),
    ],
)
def test_a_budget_that_could_mean_nothing_is_an_error_with_its_line(
    budget: dict[str, Any], said: str
) -> None:
    from edged.errors import Invalid
    from edged.profiles.bench_file import parse_bench
    from tests.bench.shipped import shipped_library

    text = json.dumps({"format": 1, "DP8B26AM00234": {"budget": budget, "deny": ["ovp_off"]}})
    with pytest.raises(Invalid) as refused:
        parse_bench(text, "bench.yaml", shipped_library())
    assert said in str(refused.value)
    assert "bench.yaml:1:" in str(refused.value)
