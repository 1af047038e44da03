"""Sentences of the specification of experiments that no other test holds."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edged.actions.action import RunCommand
from edged.errors import ErrorCode
from tests.bench.twin_lab import TwinLab, on_twins, the_truth
from tests.unit.experiments.test_plans import plan, volts

METER = "m.measure_dc_voltage"


def garbage(unit: str, query: str) -> str | None:
    """A meter that answers no number."""
    return "nonsense" if unit == "dmm1" and query.startswith("READ?") else None


def rows_of(lab: TwinLab, run_id: str) -> list[dict[str, str]]:
    (folder,) = lab.data.rglob(run_id)
    with (Path(folder) / "data.csv").open() as lines:
        return list(csv.DictReader(lines))


async def ended(lab: TwinLab, wanted: Any) -> tuple[dict[str, Any], list[dict[str, str]]]:
    run = await lab.run(wanted)
    await lab.over(run)
    return lab.experiments.status(run.run_id), rows_of(lab, run.run_id)


def test_equal_questions_of_one_measure_are_asked_once() -> None:
    async def story(lab: TwinLab) -> None:
        reads = {"u": "s.measure_all.voltage", "p": "s.measure_all.power", "v": METER, "w": METER}
        _, (row,) = await ended(lab, plan({"measure": reads}))
        assert len([line for _, line in lab.sent if line.startswith("READ?")]) == 1
        assert len([line for _, line in lab.sent if line.startswith(":MEAS:ALL?")]) == 1
        assert row["v"] == row["w"] != ""
        assert row["u"]
        assert row["p"]

    on_twins(story, "psu1", "dmm1")


@pytest.mark.parametrize(("then", "state"), [("nan", "completed"), ("fail", "failed")])
def test_a_reading_that_does_not_come_is_tried_again_and_flagged_or_fails(
    then: str, state: str
) -> None:
    async def story(lab: TwinLab) -> None:
        wanted = plan({"measure": {"v": METER, "i": "s.measure_current"}},
                      on_missing={"m": {"tries": 3, "then": then}})  # fmt: skip
        told, rows = await ended(lab, wanted)
        assert told["state"] == state
        assert len([line for _, line in lab.sent if line.startswith("READ?")]) == 3
        if then == "nan":
            assert (rows[0]["v"], rows[0]["flags"]) == ("", "v: bad_answer")
            assert rows[0]["i"]

    on_twins(story, "psu1", "dmm1", lie=garbage)


def test_a_watch_without_a_reading_pauses_and_goes_on_by_itself() -> None:
    watch = {"read": METER, "must": "value > -1", "every_s": 1, "else": "pause",
             "again": "value > -1", "for_s": 3}  # fmt: skip

    async def story(lab: TwinLab) -> None:
        run = await lab.run(plan({"wait_s": 20}, watch=[watch]))
        await lab.clock.sleep(5)
        assert lab.experiments.status(run.run_id)["state"] == "paused"
        lab.lie = the_truth
        await lab.clock.sleep(2)
        assert lab.experiments.status(run.run_id)["state"] == "paused"
        await lab.clock.sleep(5)
        assert lab.experiments.status(run.run_id)["state"] == "running"
        await lab.over(run)
        assert lab.experiments.status(run.run_id)["state"] == "completed"

    on_twins(story, "psu1", "dmm1", lie=garbage)


def test_an_error_may_skip_a_pass_and_a_repeat_may_fail_at_its_most() -> None:
    async def story(lab: TwinLab) -> None:
        steps = [{"read": {"v": METER}}, {"row": {"x": "v"}}]
        loop = {"for": "i", "in": [1, 2, 3], "on_error": "skip", "steps": steps}
        told, rows = await ended(lab, plan(loop))
        assert (told["state"], rows, len(told["notes"])) == ("completed", [], 3)
        never = {"repeat": "k", "at_most": 2, "until": "1 > 2", "steps": [], "on_at_most": "fail"}
        told, _ = await ended(lab, plan(never))
        assert told["state"] == "failed"
        assert "did not hold after 2 passes" in told["error"]

    on_twins(story, "psu1", "dmm1", lie=garbage)


def test_calls_of_the_same_client_wait_for_a_pause_and_readings_pass() -> None:
    async def story(lab: TwinLab) -> None:
        start = lab.action("bench__start_experiment", plan=plan(volts(1), {"wait_s": 60}))
        caller = replace(start.caller, session_id="its session")
        begun = await lab.core.bench.perform(replace(start, caller=caller))
        run = lab.experiments.find(begun.data["run_id"])

        async def called(name: str, **parameters: Any) -> Any:
            outcome = await lab.core.bench.perform(
                RunCommand(
                    tool="execute_command",
                    caller=caller,
                    action_id=lab.core.bench.new_id(),
                    instrument_id=lab.core.bench.pool.get("psu1").id,
                    command_name=name,
                    parameters={"channel": 2, **parameters},
                )
            )
            return outcome.error and outcome.error.code

        await lab.clock.sleep(1)
        assert await called("set_voltage", voltage=1) is ErrorCode.LEASED
        assert await called("measure_voltage") is None
        lab.experiments.pause(run, "a look")
        assert await called("set_voltage", voltage=1) is None
        lab.experiments.resume(run)
        assert await called("set_voltage", voltage=2) is ErrorCode.LEASED

    on_twins(story, "psu1", "dmm1")


def test_a_status_is_short_and_a_check_says_how_much_goes_to_disk() -> None:
    async def story(lab: TwinLab) -> None:
        loop = {"for": "i", "in": {"count": 200}, "steps": [{"measure": {"v": METER}}]}
        checked = (await lab.tool("bench__check_experiment", plan=plan(loop))).data
        run = await lab.run(plan(loop))
        await lab.over(run)
        (folder,) = lab.data.rglob(run.run_id)
        size = (folder / "data.csv").stat().st_size + (folder / "data.nc").stat().st_size
        assert size / 2 <= checked["bytes"] <= 4 * size
        assert len(json.dumps(lab.experiments.status(run.run_id))) <= 1_000

    on_twins(story, "psu1", "dmm1")
