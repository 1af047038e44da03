"""Experiments go on after a crash at any step: nothing is repeated unseen, and nothing jumps."""

from __future__ import annotations

import asyncio
import csv
import json
import tempfile
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from edged.actions.caller import Caller, Route
from edged.engine.virtual_time import VirtualClock
from edged.errors import EdgedError
from edged.profiles.bench_file import parse_bench
from edged.profiles.confirm import ConfirmRule, Way
from edged.profiles.unit_rules import UnitRules
from edged.runs.recordings.data_nc import valid_rows
from edged.runs.recordings.reader import verdicts_of_run
from edged.runs.recordings.registry import Recording
from edged.runs.wording import stopped_by
from tests.bench.engine import Engine
from tests.bench.engine_process import engine_process
from tests.bench.lives import (
    Life,
    Lives,
    action,
    control,
    in_virtual_time,
    is_over,
    operate,
    started,
    until,
)
from tests.bench.shipped import shipped_library
from tests.bench.sim_bench import running_bench
from tests.bench.waiting import wait_for
from tests.flows.test_experiments import control as control_of
from tests.flows.test_experiments import ended, start
from tests.flows.test_sweeps import engine_on
from tests.promises import promise

UNITS = {"psu1": "rigol_dp832", "psu2": "rigol_dp832", "dmm1": "keysight_34461a"}
RATES = {"psu1": 2.0, "psu2": 2.0}
SET = ":SOUR1:VOLT "
ON = ":OUTP CH1,ON"
OFF = ":OUTP CH1,OFF"
MET = 6
"""Messages before the first of the map."""
CELLS = [(g, d) for g in range(3) for d in range(4)]


def mapped(at: str = "v_g", *, ask: bool = False, **more: Any) -> dict[str, Any]:
    """A map of 3 by 4 points over two supplies, with a check of each."""
    return {
        "format": 1,
        "experiment": "map",
        "roles": {"g": "psu1", "d": "psu2", "m": "dmm1"},
        "with": {"g": {"channel": 1}, "d": {"channel": 1}},
        "steps": [
            {"first": [
                {"command": "g.set_current", "parameters": {"current": 0.2}},
                {"command": "d.set_current", "parameters": {"current": 0.2}},
                {"command": "g.output_on"},
                {"command": "d.output_on"},
            ]},
            {"let": {"sum": 0}},
            {
                "for": "v_g", "in": {"lin": [0, 1, 3]}, "set": "g.set_voltage",
                "rate": RATES["psu1"],
                "steps": [{
                    "for": "v_d", "in": {"lin": [0, 1.2, 4]}, "set": "d.set_voltage",
                    "rate": RATES["psu2"], "snake": True,
                    "steps": [
                        {"measure": {"v": "m.measure_dc_voltage"}},
                        {"check": "on the grid", "value": "{sum}", "min": 0, "max": 11},
                        {"let": {"sum": "{sum + 1}"}},
                        {"row": {"total": "sum"}},
                    ],
                }],
            },
        ],
        "finally": [
            {"ramp": "d.set_voltage", "to": 0, "rate": RATES["psu2"]},
            {"ramp": "g.set_voltage", "to": 0, "rate": RATES["psu1"]},
            {"command": "d.output_off"},
            {"command": "g.output_off"},
        ],
        "resume": {"at": at, "ask": ask},
        **more,
    }  # fmt: skip


def recorded(directory: Path, run_id: str) -> tuple[list[dict[str, str]], dict[str, Any], Path]:
    (folder,) = (directory / "data").rglob(run_id)
    with (folder / "data.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    return rows, json.loads((folder / "meta.json").read_text()), folder


def assert_no_step_is_too_large(bench: Lives) -> None:
    for unit, rate in RATES.items():
        told = [(one.at_s, float(one.text)) for one in bench.writes(unit, SET)]
        for (before_s, before), (at_s, value) in pairwise([(-1e9, 0.0), *told]):
            step = abs(value - before)
            assert step <= rate * 0.1 + 1e-6, f"{unit}: {before} to {value}"
            assert step <= rate * (at_s - before_s) * 1.001 + 1e-6, f"{unit}: {value} came too soon"
            assert value != before, f"{unit}: {value} was set twice"


def assert_each_cell_is_there_once(directory: Path, run_id: str) -> None:
    rows, meta, folder = recorded(directory, run_id)
    names = list(rows[0])
    valid = [dict(zip(names, row, strict=True)) for row in valid_rows(folder, meta)]
    for column in ("v", "total"):
        found = [(row["n_v_g"], row["n_v_d"]) for row in valid if row[column] is not None]
        assert sorted(found) == CELLS, column
    _, (unit,) = verdicts_of_run(directory / "data" / "runs", run_id)
    assert sorted(check.value for check in unit.checks) == list(range(12))  # type: ignore[type-var]
    # What was worked out from pass to pass goes on as if nothing had been.
    totals = [row["total"] for row in valid if row["total"] is not None]
    assert totals == list(range(1, 13))


async def crashed_at(
    directory: Path, clock: VirtualClock, dies_at: tuple[int, ...], plan: dict[str, Any]
) -> tuple[Lives, Life, str]:
    """An experiment in lives that die behind so many messages of theirs, until it is over."""
    bench = Lives(directory, clock, UNITS)
    run_id = ""
    for number in (*dies_at, 0):
        async with bench.life() as life:
            life.dies_at = life.sent + number if number else 0
            run_id = run_id or await started(life, plan)
            await until(life, partial(is_over, life, run_id))
            if life.corpse is None:
                break
    return bench, life, run_id


def places() -> list[int]:
    """Behind how many messages each write and each reading of the map has just arrived."""
    found: list[int] = []

    async def work(clock: VirtualClock) -> None:
        with tempfile.TemporaryDirectory() as directory:
            bench, life, run_id = await crashed_at(Path(directory), clock, (), mapped())
            assert_is_as_without_a_crash(bench, life, run_id)
            texts = [one.text for one in bench.sent[MET:]]
            # Before the first there is no pass; behind the last reading comes ``finally``.
            first = max(number for number, text in enumerate(texts) if text == ON)
            last = max(number for number, text in enumerate(texts) if text == "READ?")
            found.extend(
                number + 1
                for number in range(first + 1, last + 1)
                if texts[number].startswith((SET, "READ?"))
            )

    in_virtual_time(work)
    return found


def assert_is_as_without_a_crash(bench: Lives, life: Life, run_id: str) -> None:
    told = life.experiments.status(run_id)
    assert (told["state"], told["error"], told["verdict"]) == ("completed", None, "pass")
    assert (told["done"], told["total"]) == (24, 24)
    assert_each_cell_is_there_once(life.directory, run_id)
    assert_no_step_is_too_large(bench)
    for unit in RATES:
        assert not bench.state(unit)["ch1"]["is_on"]


@promise("experiment.resume")
@pytest.mark.parametrize(("at", "every"), [("v_g", 6), ("v_d", 1)])
def test_after_a_crash_at_any_step_each_cell_is_there_once_and_nothing_jumps(
    tmp_path: Path, at: str, every: int
) -> None:
    async def work(clock: VirtualClock) -> None:
        bench, life, run_id = await crashed_at(directory, clock, (place,), mapped(at))
        assert_is_as_without_a_crash(bench, life, run_id)
        told = life.experiments.status(run_id)
        assert told["notes"] == ["It was interrupted by a crash, and resumed (attempt 2)"]

    for place in places()[::every]:
        directory = tmp_path / str(place)
        directory.mkdir()
        in_virtual_time(work)


@promise("experiment.resume")
@pytest.mark.parametrize("dies_at", [(40, 1), (40, 20), (60, 60), (90, 25, 30), (30, 3, 3, 3)])
def test_a_crash_of_what_was_resumed_is_as_the_first(
    tmp_path: Path, dies_at: tuple[int, ...]
) -> None:
    async def work(clock: VirtualClock) -> None:
        bench, life, run_id = await crashed_at(tmp_path, clock, dies_at, mapped("v_d"))
        assert_is_as_without_a_crash(bench, life, run_id)

    in_virtual_time(work)


def test_a_row_of_a_first_step_is_there_once(tmp_path: Path) -> None:
    plan = mapped()
    plan["steps"][0]["first"].append({"measure": {"dark": "m.measure_dc_voltage"}})

    async def work(clock: VirtualClock) -> None:
        _, life, run_id = await crashed_at(tmp_path, clock, (60,), plan)
        told = life.experiments.status(run_id)
        assert (told["state"], told["done"], told["total"]) == ("completed", 25, 25)
        rows, meta, folder = recorded(life.directory, run_id)
        assert [row["attempt"] for row in rows if row["dark"]] == ["1"]
        events = (folder / "events.jsonl").read_text().splitlines()
        (again,) = (event for event in events if "row_again" in event)
        assert "dark" in again
        assert len(list(valid_rows(folder, meta))) == 25

    in_virtual_time(work)


async def interrupted(bench: Lives, plan: dict[str, Any], dies_at: int = 60) -> str:
    """A run that was killed; its id."""
    async with bench.life() as life:
        life.dies_at = life.sent + dies_at
        run_id = await started(life, plan)
        await life.died.wait()
    return run_id


def test_one_that_asks_waits_until_a_person_resumes_it(tmp_path: Path) -> None:
    async def work(clock: VirtualClock) -> None:
        bench = Lives(tmp_path, clock, UNITS)
        run_id = await interrupted(bench, mapped(ask=True))
        async with bench.life() as life:
            await asyncio.sleep(60)
            told = await control(life, run_id, "status")
            assert (told["state"], told["reason"]) == ("interrupted", "it can be resumed")
            assert not any(bench.state(unit)["ch1"]["is_on"] for unit in RATES)
            await control(life, run_id, "note", value="the power was gone")
            assert (await control(life, run_id, "resume"))["state"] == "running"
            await until(life, partial(is_over, life, run_id))
            assert_is_as_without_a_crash(bench, life, run_id)
            notes = life.experiments.status(run_id)["notes"]
            assert any("the power was gone" in note for note in notes)

    in_virtual_time(work)


def test_one_that_was_killed_before_its_first_pass_says_so_and_can_be_aborted(
    tmp_path: Path,
) -> None:
    async def work(clock: VirtualClock) -> None:
        bench = Lives(tmp_path, clock, UNITS)
        run_id = await interrupted(bench, mapped(), dies_at=2)
        async with bench.life() as life:
            with pytest.raises(EdgedError, match="before its first pass was written down"):
                await control(life, run_id, "resume")
            with pytest.raises(EdgedError, match="nothing to pause"):
                await control(life, run_id, "pause")
            mark = len(bench.sent)
            assert (await control(life, run_id, "abort"))["state"] == "stopped"
            assert {one.unit for one in bench.sent[mark:] if one.text == OFF} == set(RATES)

    in_virtual_time(work)


def test_one_whose_row_was_lost_is_known_by_its_recording(tmp_path: Path) -> None:
    async def work(clock: VirtualClock) -> None:
        bench = Lives(tmp_path, clock, UNITS)
        run_id = await interrupted(bench, mapped())
        assert bench.now.corpse is not None
        (bench.now.corpse / "edged.db").unlink()
        async with bench.life() as life:
            told = await control(life, run_id, "status")
            assert (told["state"], "nothing to resume" in told["reason"]) == ("interrupted", True)
            assert (await control(life, run_id, "abort"))["state"] == "stopped"

    in_virtual_time(work)


def test_an_abort_ramps_down_from_where_it_stands_and_keeps_what_was_measured(
    tmp_path: Path,
) -> None:
    async def work(clock: VirtualClock) -> None:
        bench = Lives(tmp_path, clock, UNITS)
        run_id = await interrupted(bench, mapped(ask=True), dies_at=125)
        before, _, _ = recorded(bench.now.corpse, run_id)  # type: ignore[arg-type]
        async with bench.life() as life:
            told = await control(life, run_id, "abort")
            assert (told["state"], told["verdict"], told["error"]) == ("stopped", "aborted", None)
            rows, meta, folder = recorded(life.directory, run_id)
            assert (rows, meta["status"]) == (before, "stopped")
            assert len(list(valid_rows(folder, meta))) == len(before)
            assert_no_step_is_too_large(bench)
            assert [bench.writes(unit, SET)[-1].text for unit in RATES] == ["0.000", "0.000"]

    in_virtual_time(work)


def test_one_that_nobody_resumes_is_aborted_by_itself_and_is_stopped(tmp_path: Path) -> None:
    plan = mapped(resume={"at": "v_g", "within_h": 0.05, "ask": True})

    async def work(clock: VirtualClock) -> None:
        bench = Lives(tmp_path, clock, UNITS)
        run_id = await interrupted(bench, plan)
        async with bench.life() as life:
            await asyncio.sleep(100)
            assert (await control(life, run_id, "status"))["state"] == "interrupted"
            await asyncio.sleep(100)
            told = await control(life, run_id, "status")
            assert (told["state"], "not resumed" in told["reason"]) == ("stopped", True)
            assert_no_step_is_too_large(bench)
        async with bench.life() as life:
            assert life.experiments.left.get(run_id) is None

    in_virtual_time(work)


def test_nothing_goes_on_by_itself_once_everything_was_stopped(tmp_path: Path) -> None:
    async def work(clock: VirtualClock) -> None:
        bench = Lives(tmp_path, clock, UNITS)
        run_id = await interrupted(bench, mapped())
        async with bench.life(absent=("dmm1",)) as life:
            await asyncio.sleep(5)
            await life.core.work.registry.stop_all(stopped_by("somebody"))
            await life.core.meet(bench.units[2], 2)
            await asyncio.sleep(60)
            assert (await control(life, run_id, "status"))["state"] == "interrupted"
            assert (await control(life, run_id, "resume"))["state"] == "running"

    in_virtual_time(work)


def test_one_goes_on_by_itself_as_soon_as_its_units_are_there_and_safe(tmp_path: Path) -> None:
    async def work(clock: VirtualClock) -> None:
        bench = Lives(tmp_path, clock, UNITS)
        run_id = await interrupted(bench, mapped())
        bench.is_off.add("psu1")
        async with bench.life(absent=("psu1",)) as life:
            await asyncio.sleep(600)
            told = await control(life, run_id, "status")
            assert "g: " in told["reason"]
            assert "is not connected" in told["reason"]
            bench.is_off.clear()
            mark = len(bench.sent)
            await life.core.meet(bench.units[0], 0)
            await until(life, partial(is_over, life, run_id))
            assert_is_as_without_a_crash(bench, life, run_id)
            writes = [one.text for one in bench.sent[mark:] if one.unit == "psu1"]
            writes = [text for text in writes if "?" not in text]
            assert writes[0] == OFF, "it is made safe before it is used again"

    in_virtual_time(work)


LIMITED = "format: 1\npsu1: {limits: {set_voltage: {voltage: {max: 0.7}}}}"


@promise("experiment.resume-only-if")
def test_what_is_not_as_it_was_is_a_refusal_that_says_which(tmp_path: Path) -> None:
    async def refused(life: Life, run_id: str, says: str) -> None:
        with pytest.raises(EdgedError, match=says):
            await control(life, run_id, "resume")
        told = await control(life, run_id, "status")
        assert told["state"] == "interrupted"
        assert told["reason"].startswith("it can be resumed; not yet: ")

    async def work(clock: VirtualClock) -> None:
        bench = Lives(tmp_path, clock, UNITS)
        run_id = await interrupted(bench, mapped(ask=True))
        async with bench.life(absent=("psu2",)) as life:
            await refused(life, run_id, "d: .* is not connected")
        owner = parse_bench(LIMITED, "bench.yaml", shipped_library())
        bench.rules["psu1"] = owner.rules_for("psu1")
        async with bench.life() as life:
            await refused(life, run_id, "over the maximum 0.7 V")
        del bench.rules["psu1"]
        async with bench.life() as life:
            (plan,) = (life.directory / "data").rglob("plan.yaml")
            text = plan.read_text()
            plan.write_text(text.replace("1.2", "1.3"))
            await refused(life, run_id, "was changed")
            plan.write_text(text)
            lease = await life.core._leases.reserve(
                Caller(route=Route.DIRECT, session_id="s", client="another"), ["psu1"],
                ttl_s=900, purpose="mine",
            )  # fmt: skip
            await refused(life, run_id, "reserved by another")
            await life.core._leases.release(lease["lease_id"])
            await bench.swap("psu1")
        async with bench.life() as life:
            await refused(life, run_id, "g: at psu1 another unit answers")

    in_virtual_time(work)


ASKING = UnitRules(key="psu1", confirm=(ConfirmRule(text="output_on", name="output_on"),))


@promise("experiment.resume-only-if")
def test_an_approval_survives_a_crash_only_where_the_owner_says_so(tmp_path: Path) -> None:
    async def work(clock: VirtualClock) -> None:
        bench = Lives(tmp_path, clock, UNITS)
        bench.rules["psu1"] = ASKING
        async with bench.life() as life:
            life.dies_at = life.sent + 60
            run_id = await started(life, mapped(ask=True), approval_id="ask-1")
            await life.died.wait()
        async with bench.life() as life:
            with pytest.raises(EdgedError, match="was denied"):
                await asked_again(life, run_id, is_yes=False)
            says = "has ended with the crash: the owner of psu1 does not let it survive one"
            assert says in (await control(life, run_id, "status"))["reason"]
        bench.rules["psu1"] = replace(ASKING, approval_survives_crash=True)
        async with bench.life() as life:
            life.dies_at = life.sent + 30
            await control(life, run_id, "resume")
            await life.died.wait()
        async with bench.life() as life:
            await control(life, run_id, "resume")
            await until(life, partial(is_over, life, run_id))
            assert_is_as_without_a_crash(bench, life, run_id)

    in_virtual_time(work)


async def asked_again(life: Life, run_id: str, *, is_yes: bool) -> dict[str, Any]:
    """Resume a run whose approval is lost; a person at the bench answers so."""
    resuming = asyncio.create_task(control(life, run_id, "resume"))
    await until(life, life.core._approvals.listed)
    (question,) = life.core._approvals.listed()
    assert run_id in str(question)
    await life.core._approvals.answer(
        question["approval_id"], is_yes=is_yes, way=Way.CLI, by="anna"
    )
    return await resuming


@promise("experiment.resume-only-if")
def test_who_resumes_a_run_whose_approval_is_lost_is_asked_for_another(tmp_path: Path) -> None:
    async def work(clock: VirtualClock) -> None:
        bench = Lives(tmp_path, clock, UNITS)
        bench.rules["psu1"] = ASKING
        async with bench.life() as life:
            life.dies_at = life.sent + 60
            run_id = await started(life, mapped(ask=True), approval_id="ask-1")
            await life.died.wait()
        async with bench.life() as life:
            left = life.experiments.left.get(run_id)
            assert left is not None
            assert (await asked_again(life, run_id, is_yes=True))["state"] == "running"
            with pytest.raises(EdgedError, match="ended already"):
                await life.experiments.left.resume(action(life.core), left)
            await until(life, partial(is_over, life, run_id))
            assert_is_as_without_a_crash(bench, life, run_id)

    in_virtual_time(work)


def test_an_approval_lasts_no_longer_than_it_would_have_without_a_crash(tmp_path: Path) -> None:
    async def work(clock: VirtualClock) -> None:
        bench = Lives(tmp_path, clock, UNITS)
        bench.rules["psu1"] = replace(ASKING, approval_survives_crash=True)
        async with bench.life() as life:
            life.dies_at = life.sent + 60
            run_id = await started(life, mapped(ask=True, at_most_h=1), approval_id="ask-1")
            await life.died.wait()
        async with bench.life() as life:
            await asyncio.sleep(3_600)
            with pytest.raises(EdgedError, match="was denied"):
                await asked_again(life, run_id, is_yes=False)
            assert "its time is over" in (await control(life, run_id, "status"))["reason"]

    in_virtual_time(work)


def test_a_run_whose_rows_the_disk_refuses_has_nothing_to_resume_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_self: Recording) -> bool:
        return False

    async def work(clock: VirtualClock) -> None:
        bench = Lives(tmp_path, clock, UNITS)
        monkeypatch.setattr(Recording, "written", refused)
        run_id = await interrupted(bench, mapped())
        async with bench.life() as life:
            with pytest.raises(EdgedError, match="its rows could not be written"):
                await control(life, run_id, "resume")

    in_virtual_time(work)


@promise("experiment.may-stay-on")
def test_what_the_owner_lets_stay_on_is_on_when_the_rest_is_off(tmp_path: Path) -> None:
    async def work(clock: VirtualClock) -> None:
        bench = Lives(tmp_path, clock, UNITS)
        bench.rules["psu1"] = UnitRules(key="psu1", may_stay_on=frozenset({"output_on"}))
        run_id = await interrupted(bench, mapped(ask=True))
        async with bench.life() as life:
            told = await control(life, run_id, "status")
            assert "Its owner lets it stay on" in told["error"]
            assert bench.state("psu1")["ch1"]["is_on"]
            assert not bench.state("psu2")["ch1"]["is_on"]
            await control(life, run_id, "resume")
            await until(life, partial(is_over, life, run_id))
            assert_is_as_without_a_crash(bench, life, run_id)

    in_virtual_time(work)


def test_a_unit_that_was_interrupted_is_aborted_and_tested_again_as_its_second_try(
    tmp_path: Path,
) -> None:
    steps = [
        {"ask": "serial", "text": "Serial?", "type": "text"},
        {"command": "s.output_on"},
        {"measure": {"v": "m.measure_dc_voltage"}},
        {"check": "idle", "value": "{v}", "max": 1},
        {"ask": "led", "text": "Is the LED on?", "type": "pass_fail"},
    ]
    plan = {
        "format": 1,
        "experiment": "boards",
        "roles": {"s": "psu1", "m": "dmm1"},
        "with": {"s": {"channel": 1}},
        "steps": [
            {"for": "board", "in": {"count": 3}, "unit": "{serial}", "steps": steps,
             "finally": [{"command": "s.output_off"}]},
        ],
        "resume": {"at": "board", "ask": False},
    }  # fmt: skip

    async def work(clock: VirtualClock) -> None:
        bench = Lives(tmp_path, clock, UNITS)
        async with bench.life() as life:
            run_id = await started(life, plan)
            await operate(life, run_id, ["A1", "pass", "A2"])
            await until(life, lambda: life.experiments.status(run_id)["question"])
            life.die()
        async with bench.life() as life:
            await until(life, lambda: life.experiments.status(run_id)["state"] == "running")
            await operate(life, run_id, ["A2", "pass", "A3", "pass"])
            await until(life, partial(is_over, life, run_id))
            told = life.experiments.status(run_id)
            assert (told["state"], told["verdict"], told["done"]) == ("completed", "pass", 3)
            assert [(unit["unit"], unit["try"], unit["verdict"]) for unit in told["units"]] == [
                ("A1", 1, "pass"), ("A2", 1, "aborted"), ("A2", 2, "pass"), ("A3", 1, "pass"),
            ]  # fmt: skip
            _, results = verdicts_of_run(life.directory / "data" / "runs", run_id)
            assert [(one.unit, one.try_number, one.verdict.value) for one in results] == [
                ("A1", 1, "pass"), ("A2", 1, "aborted"), ("A2", 2, "pass"), ("A3", 1, "pass"),
            ]  # fmt: skip

    in_virtual_time(work)


@promise("experiment.pause")
def test_a_set_point_that_was_moved_by_hand_in_a_pause_is_ramped_back(tmp_path: Path) -> None:
    async def work(clock: VirtualClock) -> None:
        bench = Lives(tmp_path, clock, UNITS)
        steps = [
            {"ramp": "s.set_voltage", "to": 1, "rate": 2},
            {"wait_s": 10},
            {"row": {"x": "1"}},
            {"wait_s": 10},
        ]
        plan = {
            "format": 1,
            "experiment": "x",
            "roles": {"s": "psu1"},
            "with": {"s": {"channel": 1}},
            "steps": steps,
        }
        async with bench.life() as life:
            run_id = await started(life, plan)
            await asyncio.sleep(5)
            await control(life, run_id, "pause")
            bench.turn("psu1", ":SOUR1:VOLT 3")
            mark = len(bench.sent)
            await asyncio.sleep(5)
            await control(life, run_id, "resume")
            await until(life, partial(is_over, life, run_id))
            assert life.experiments.status(run_id)["state"] == "completed"
            told = [float(one.text) for one in bench.writes("psu1", SET, since=mark)]
            assert told == pytest.approx([round(3 - 0.2 * n, 3) for n in range(1, 11)])
            times = [one.at_s for one in bench.writes("psu1", SET, since=mark)]
            assert all(b - a >= 0.0999 for a, b in pairwise(times))
            rows, _, _ = recorded(life.directory, run_id)
            assert float(rows[0]["elapsed_s"]) > times[-1] - bench.sent[0].at_s - 1

    in_virtual_time(work)


def has_done(engine: Engine, run_id: str, done: int) -> bool:
    return bool(control_of(engine, run_id)["done"] >= done)


@promise("experiment.resume")
def test_a_real_engine_that_is_killed_twice_goes_on(tmp_path: Path) -> None:
    plan = json.loads(json.dumps(mapped()).replace('"rate": 2.0', '"rate": 20'))
    sims = ",".join(f"{name}={profile}" for name, profile in UNITS.items())

    with running_bench("--instruments", sims) as bench:
        run_id = ""
        for done in (6, 14, 24):
            with engine_on(bench, tmp_path, engine_process) as engine:
                run_id = run_id or start(engine, plan)
                wait_for(partial(has_done, engine, run_id, done))
                if done < 24:
                    engine.process.kill()
                    engine.process.wait()
                    continue
                told = ended(engine, run_id)
                assert (told["state"], told["verdict"]) == ("completed", "pass")
        assert_each_cell_is_there_once(tmp_path, run_id)
        assert not any(bench.state(unit)["ch1"]["is_on"] for unit in RATES)


def test_a_run_on_the_simulated_bench_of_a_killed_engine_goes_on(tmp_path: Path) -> None:
    plan = json.loads(json.dumps(mapped()).replace('"rate": 2.0', '"rate": 20'))
    sims = ("--instruments", ",".join(f"{name}={profile}" for name, profile in UNITS.items()))
    data = {"DATA_DIR": str(tmp_path / "data")}
    with engine_process(tmp_path, *sims, config=data) as engine:
        run_id = start(engine, plan)
        wait_for(partial(has_done, engine, run_id, 6))
        engine.process.kill()
        engine.process.wait()
    # Its bench has ended with it; another one is where that was.
    with engine_process(tmp_path, *sims, config=data) as engine:
        wait_for(partial(has_done, engine, run_id, 24))
        told = ended(engine, run_id)
        assert (told["state"], told["verdict"]) == ("completed", "pass")
    assert_each_cell_is_there_once(tmp_path, run_id)
