"""The reports that a plan asks for are there when a unit, and when the run, is over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from edged.errors import ErrorCode, Failed
from tests.bench.twin_lab import TwinLab, on_twins
from tests.promises import promise

EXAMPLES = Path(__file__).parent.parent.parent / "bench" / "experiments"
BOARDS = (EXAMPLES / "board_test.yaml").read_text()
ANSWERS: list[Any] = [
    "R33-000001", "yes", "pass",
    "R33-000002", "no",
    # It has been tested, and is meant.
    "R33-000001", "yes", "yes", "fail",
]  # fmt: skip
UNITS = ("psu1", "dmm1", "load1")


async def folder_of(lab: TwinLab, run_id: str) -> Path:
    (found,) = lab.core.bench.config.data_dir.rglob(run_id)
    return found


async def boards_run(lab: TwinLab, **more: Any) -> str:
    """The id of a run of three boards, the first of which comes twice; it is over."""
    outcome = await lab.start({"text": BOARDS, "parameters": {"boards": 3}, **more})
    run_id = str(outcome.data["run_id"])
    await lab.answers(run_id, ANSWERS)
    assert (await lab.ended(run_id))["state"] == "completed"
    return run_id


@promise("experiment.reports")
def test_each_unit_has_its_reports_and_the_run_has_one() -> None:
    async def story(lab: TwinLab) -> None:
        outcome = await lab.start({"text": BOARDS, "parameters": {"boards": 3}})
        run_id = outcome.data["run_id"]
        await lab.answers(run_id, ANSWERS[:3])
        await lab.core.bench.clock.sleep(5)
        reports = await folder_of(lab, run_id) / "reports"
        # The first board is over, and the run waits for the next.
        first = {f"1-R33-000001.{form}" for form in ("xml", "json", "html")}
        assert {file.name for file in reports.iterdir()} == first
        await lab.answers(run_id, ANSWERS[3:], number=4)
        await lab.ended(run_id)
        await lab.core.bench.clock.sleep(5)
        names = ["1-R33-000001", "2-R33-000002", "3-R33-000001_try_2_"]
        expected = {f"{name}.{form}" for name in names for form in ("xml", "json", "html")}
        assert {file.name for file in reports.iterdir()} == {*expected, "run.html"}
        verdicts = [
            json.loads((reports / f"{name}.json").read_text())["metadata"]["verdict"]
            for name in names
        ]
        assert verdicts == ["pass", "incomplete", "fail"]
        (suite,) = ET.fromstring((reports / f"{names[2]}.xml").read_text())
        assert (suite.get("name"), suite.get("failures")) == ("R33-000001 (try 2)", "1")
        assert "board_test" in (reports / "run.html").read_text()
        page = (reports / f"{names[2]}.html").read_text()
        assert all(said in page for said in ("R33-000001 (try 2): fail", "idle current"))
        assert "REG-33" in page
        told = lab.core.work.experiments.get().status(run_id)
        assert told["verdict"] == "incomplete" or told["verdict"] == "fail"
        assert told["reports"] == {"folder": "reports", "count": 10, "newest": "run.html"}
        meta = json.loads((reports.parent / "meta.json").read_text())
        assert meta["details"]["reports"]["folder"] == "reports"
        events = (reports.parent / "events.jsonl").read_text().splitlines()
        assert len(json.loads(events[-1])["files"]) == 10

    on_twins(story, *UNITS)


@promise("experiment.reports")
def test_a_report_that_fails_is_a_note_and_changes_nothing() -> None:
    async def story(lab: TwinLab) -> None:
        async def fails(_run_id: str) -> bytes:
            raise Failed("the printer is out of paper", code=ErrorCode.RECORDING_FAILED)

        lab.core.work.experiments.get()._make_html = fails
        run_id = await boards_run(lab)
        await lab.core.bench.clock.sleep(5)
        told = lab.core.work.experiments.get().status(run_id)
        assert (told["state"], told["error"]) == ("completed", None)
        note = "reports: run.html could not be written: the printer is out of paper"
        assert told["notes"][-1] == note
        assert told["reports"]["count"] == 9

    on_twins(story, *UNITS)


@pytest.mark.parametrize("formats", [["junit"], ["openhtf"]])
def test_a_report_of_verdicts_where_nothing_is_judged_is_an_error_of_the_check(
    formats: list[str],
) -> None:
    wanted = {
        "format": 1, "experiment": "x", "roles": {"s": "psu1"}, "steps": [{"wait_s": 0}],
        "report": {"formats": formats},
    }  # fmt: skip

    async def story(lab: TwinLab) -> None:
        told = (await lab.tool("bench__check_experiment", plan=wanted)).data
        assert [one["code"] for one in told["errors"]] == ["no_checks"]

    on_twins(story, "psu1")


def test_a_run_without_units_has_one_file_of_each_and_none_is_written_unasked() -> None:
    steps = [{"let": {"x": 2}}, {"check": "size", "value": "x", "max": 1}]
    wanted = {"format": 1, "experiment": "x", "roles": {"s": "psu1"}, "steps": steps}

    async def story(lab: TwinLab) -> None:
        for more in ({}, {"report": {"formats": ["junit", "openhtf"]}}):
            outcome = await lab.start({"plan": {**wanted, **more}})
            run_id = outcome.data["run_id"]
            await lab.ended(run_id)
            await lab.core.bench.clock.sleep(2)
            folder = await folder_of(lab, run_id)
            found = sorted(file.name for file in folder.glob("reports/*"))
            assert found == ([f"1-{run_id}.json", "run.xml"] if more else [])

    on_twins(story, "psu1")
