"""What would make an experiment a toy, each tried on simulated twins in virtual time.

docs/users-pains.md has all of them with their tests; here are those that no other test has.
"""

from __future__ import annotations

from typing import Any

import pytest

from edged.errors import Conflict
from edged.runs.experiments.run import ExperimentRun
from tests.bench.twin_lab import TwinLab, on_twins
from tests.bench.unruly_stage import unruly_stages
from tests.promises import promise

HOUR_S = 3_600.0


def plan(*steps: Any, **more: Any) -> dict[str, Any]:
    return {
        "format": 1,
        "experiment": "x",
        "roles": {"s": "psu1"},
        "with": {"s": {"channel": 1}},
        "steps": list(steps),
        **more,
    }


def ended(wanted: Any) -> tuple[ExperimentRun, list[str]]:
    """The run of a plan, and the lines that reached the units."""

    async def work(bench: TwinLab) -> tuple[ExperimentRun, list[str]]:
        run = await bench.run(wanted)
        await bench.over(run)
        return run, [line for _, line in bench.sent]

    return on_twins(work, "psu1")


def test_the_longest_move_is_never_timed_out() -> None:
    on = {"command": "s.set_voltage_and_current", "parameters": {"voltage": 0, "current": 0.2}}
    run, lines = ended(plan(on, {"ramp": "s.set_voltage", "to": 0.2, "rate": 4e-6},
                                    at_most_h=20))  # fmt: skip
    assert run.status == "completed"
    assert run.elapsed_s(0) > 13 * HOUR_S
    assert ":SOUR1:VOLT 0.200" in lines


def test_settled_is_not_the_first_touch_of_the_band(monkeypatch: pytest.MonkeyPatch) -> None:
    unruly_stages(monkeypatch)
    settle = {"settle": "t.measure_temperature", "target": 120, "within": 1, "for_s": 600,
              "every_s": 20, "timeout_s": 20_000}  # fmt: skip
    wanted = {
        "format": 1, "experiment": "x", "roles": {"t": "tc1"}, "with": {"t": {"output": 1}},
        "steps": [
            {"command": "t.heater_on", "parameters": {"range": "high"}},
            {"command": "t.set_setpoint", "parameters": {"temperature": 120}},
            settle,
            {"measure": {"kelvin": "t.measure_temperature"}},
        ],
    }  # fmt: skip

    async def work(bench: TwinLab) -> tuple[list[float], float]:
        run = await bench.run(wanted)
        seen: list[float] = []
        while not run.ended.is_set():
            if run.path == "steps[2]":
                seen.append(bench.station("tc1").instrument.state.loops[1].kelvin)
            await bench.clock.sleep(20)
        await bench.over(run)
        assert run.status == "completed", run.error
        return seen, float(run.last_row["kelvin"])

    seen, last = on_twins(work, "tc1")
    touched = [abs(kelvin - 120) <= 1 for kelvin in seen]
    first = touched.index(True)
    # It went through the band and out of it, and then stood in it for ten minutes.
    assert False in touched[first:]
    assert all(touched[-600 // 20 :])
    assert abs(last - 120) <= 1


def test_a_progress_that_is_not_known_is_none_and_not_nought() -> None:
    steps = [{"measure": {"v": "s.measure_voltage"}}, {"wait_s": 10}]
    wanted = plan({"repeat": "r", "at_most": 50, "until": "v > 1", "steps": steps})

    async def work(bench: TwinLab) -> dict[str, Any]:
        run = await bench.run(wanted)
        await bench.clock.sleep(35)
        told = bench.experiments.status(run.run_id)
        await bench.stop_all()
        return told

    told = on_twins(work, "psu1")
    assert (told["done"], told["total"], told["loops"]) == (4, None, {"r": "4 of 50"})


def test_a_value_that_leaves_its_bounds_while_it_runs_is_not_sent() -> None:
    let = {"let": {"v": "{(v + 1) * 2}"}}
    set_to = {"command": "s.set_voltage", "parameters": {"voltage": "{v}"}}
    run, lines = ended(
        plan(
            {"read": {"v": "s.measure_voltage"}},
            {"for": "i", "in": {"count": 5}, "steps": [let, set_to]},
            bounds={"s.set_voltage.voltage": [0, 10]},
        ),
    )
    assert run.status == "failed"
    sent = [float(line.split()[1]) for line in lines if line.startswith(":SOUR1:VOLT ")]
    # 2, 6, and then 14.
    assert sent == pytest.approx([2, 6], abs=0.1)


@promise("experiment.pause")
def test_a_pause_that_the_plan_allows_does_not_use_up_the_time_of_the_run() -> None:
    async def work(bench: TwinLab) -> tuple[str, str]:
        run = await bench.run(plan({"wait_s": 60}, {"wait_s": 1}))
        await bench.clock.sleep(5)
        bench.experiments.pause(run, "lunch")
        await bench.clock.sleep(0.9 * HOUR_S)
        bench.experiments.resume(run)
        await bench.over(run)
        return run.status, run.reason

    assert on_twins(work, "psu1") == ("completed", "")


@promise("experiment.answer")
def test_of_two_clients_who_answer_the_first_counts_and_the_second_is_told() -> None:
    ask = {"text": "?", "type": "choice", "options": ["left", "right"]}

    async def work(bench: TwinLab) -> tuple[str, Any]:
        run = await bench.run(plan({"ask": "side", **ask}, {"row": {"said": "side"}}))
        while run.question is None:
            await bench.clock.sleep(0.1)
        number = run.question.number
        await bench.clock.sleep(1)
        bench.experiments.answer(run, "left", number)
        with pytest.raises(Conflict) as second:
            bench.experiments.answer(run, "right", number)
        await bench.over(run)
        return str(second.value), run.last_row["said"]

    said, value = on_twins(work, "psu1")
    assert "nothing was answered" in said
    assert value == "left"


def test_a_question_that_nobody_answers_leaves_nothing_on() -> None:
    steps = (
        {"command": "s.set_voltage_and_current", "parameters": {"voltage": 30, "current": 0.2}},
        {"command": "s.output_on"},
        {"ask": "ok", "text": "?", "type": "confirm", "timeout_s": 60},
    )

    async def work(bench: TwinLab) -> tuple[str, bool, float]:
        run = await bench.run(plan(*steps, **{"finally": [{"command": "s.output_off"}]}))
        began = bench.clock.monotonic()
        await bench.over(run)
        took = bench.clock.monotonic() - began
        return run.status, bench.state("psu1")["ch1"]["is_on"], took

    status, is_on, took = on_twins(work, "psu1")
    assert (status, is_on) == ("stopped", False)
    assert took < 65
