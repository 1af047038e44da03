"""Twenty boards with an operator who scans twice, answers late, walks away and swaps boards.

Example 2 of the design on simulated twins, in virtual time: each answer reaches the question that
it is for, and the reports count what happened.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from edged.engine.virtual_time import VirtualClock
from edged.errors import Conflict
from edged.runs.experiments.run import ExperimentRun, OpenQuestion
from edged.runs.recordings.reader import export_run
from tests.bench.lives import (
    Life,
    Lives,
    control,
    in_virtual_time,
    is_over,
    operate,
    started,
    until,
)
from tests.bench.twin_lab import TwinLab, on_twins
from tests.promises import promise

EXAMPLE = Path(__file__).parent.parent / "bench" / "experiments" / "board_test.yaml"
UNITS = ("psu1", "dmm1", "load1")
BOARDS = 20
THINKS_S = 2.0
SCANS_TWICE, ANSWERS_LATE, WALKS_AWAY, SWAPS, DARK, RETESTS = 3, 5, 8, 11, 13, 16
"""Numbers of boards, from 1, at which the operator does that; DARK has no light."""


def serial(board: int) -> str:
    return f"R33-{board:06d}"


@dataclass
class Operator:
    """Answers the questions of a run as a script says.

    Attributes:
        refused: the answers that were refused, with the question that was open then.
        asked: the text of each question.
    """

    bench: TwinLab
    run: ExperimentRun
    refused: list[tuple[str, str]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    board: int = 0

    async def work(self) -> None:
        answered = 0
        while True:
            await self.bench.clock.sleep(0.05)
            question = self.run.question
            if question is None or question.number == answered:
                continue
            answered = question.number
            self.asked.append(question.text)
            await self.bench.clock.sleep(THINKS_S)
            await self.answer(question)

    async def answer(self, question: OpenQuestion) -> None:
        name = question.step.name
        if name == "serial":
            self.board += 1
            scanned = self.board - 1 if self.board in {SWAPS, RETESTS} else self.board
            self.say(serial(scanned), question.number)
            if self.board == SCANS_TWICE:
                # The scanner reads twice; what it sends names no question.
                await self.bench.clock.sleep(0.1)
                self.refuse(serial(scanned), None)
        elif name == "seated" and self.board == WALKS_AWAY:
            await self.bench.clock.sleep(700)
        elif name == "led" and self.board == ANSWERS_LATE:
            await self.bench.clock.sleep(61)
            self.refuse("pass", question.number)
        elif name == "led":
            self.say("fail" if self.board == DARK else "pass", question.number)
        else:
            # Board 11 is board 10, on the table by mistake; number 15 is tested again on purpose.
            self.say("no" if self.board == SWAPS and "again" in question.text else "yes",
                     question.number)  # fmt: skip

    def say(self, value: Any, number: int | None) -> None:
        self.bench.experiments.answer(self.run, value, number)

    def refuse(self, value: Any, number: int | None) -> None:
        with pytest.raises(Conflict) as refused:
            self.say(value, number)
        question = self.run.question
        self.refused.append((str(refused.value), question.step.name if question else ""))


@dataclass(frozen=True, kw_only=True)
class Shift:
    """What twenty boards came to."""

    status: Mapping[str, Any]
    verdicts: Mapping[str, str]
    refused: tuple[tuple[str, str], ...]
    asked: tuple[str, ...]
    is_on: tuple[bool, bool]
    junit: str
    openhtf: tuple[str, ...]


def shift() -> Shift:
    async def work(bench: TwinLab) -> Shift:
        run = await bench.run(EXAMPLE.read_text(), parameters={"boards": BOARDS})
        operator = Operator(bench, run)
        working = asyncio.create_task(operator.work())
        await bench.over(run)
        working.cancel()
        return Shift(
            status=bench.experiments.status(run.run_id),
            verdicts={name: verdict.value for name, verdict in run.unit_verdicts.items()},
            refused=tuple(operator.refused),
            asked=tuple(operator.asked),
            is_on=(bench.state("psu1")["ch1"]["is_on"], bench.state("load1")["is_on"]),
            junit=whole(lambda at: export_run(bench.data, run.run_id, "junit", at)),
            openhtf=tuple(each_unit(bench.data, run.run_id)),
        )

    return on_twins(work, *UNITS)


def whole(piece: Callable[[int], dict[str, Any]]) -> str:
    text, offset = "", 0
    while True:
        told = piece(offset)
        text += told["content"]
        if told["next_offset"] is None:
            return text
        offset = told["next_offset"]


def each_unit(root: Path, run_id: str) -> list[str]:
    records: list[str] = []
    offset: int | None = 0
    while offset is not None:
        told = export_run(root, run_id, "openhtf", offset)
        records.append(told["content"])
        offset = told["next_offset"]
    return records


@pytest.fixture(scope="module")
def done() -> Shift:
    return shift()


@promise("experiment.answer")
def test_each_answer_reaches_its_question_or_is_refused(done: Shift) -> None:
    assert done.status["state"] == "completed"
    (twice, seated), (late, _) = done.refused
    assert "within 0.3 s" in twice or "No question is open" in twice
    assert seated in {"seated", ""}
    assert "ended" in late or "No question is open" in late
    # Nothing was asked twice for them: a number for each board, and one more for each seen before.
    assert Counter(text.split()[0] for text in done.asked)["Scan"] == BOARDS
    again = [text for text in done.asked if "again" in text]
    assert again == [
        f"{serial(10)} was tested in this run already: pass. Test it again?",
        f"{serial(15)} was tested in this run already: pass. Test it again?",
    ]


@promise("experiment.incomplete")
def test_the_verdicts_count_what_happened(done: Shift) -> None:
    expected = {serial(board): "pass" for board in range(1, BOARDS + 1)}
    expected[serial(ANSWERS_LATE)] = "incomplete"
    expected[serial(WALKS_AWAY)] = "incomplete"
    expected[serial(DARK)] = "fail"
    # Swapped: the pass belongs to no board. Tested again: try 2 of another.
    del expected[serial(SWAPS)], expected[serial(RETESTS)]
    expected[str(SWAPS)] = "incomplete"
    assert done.verdicts == expected
    assert done.status["verdict"] == "fail"
    assert done.is_on == (False, False)


def test_the_reports_have_each_try_once(done: Shift) -> None:
    top = ET.fromstring(done.junit)
    suites = [(suite.get("name"), int(suite.get("failures", "0"))) for suite in top]
    assert len(suites) == BOARDS
    names = Counter(str(name).split(" ")[0] for name, _ in suites)
    assert names[serial(15)] == 2
    assert (names[serial(10)], names[serial(11)]) == (1, 0)
    assert [name for name, failures in suites if failures] == [
        serial(ANSWERS_LATE), serial(WALKS_AWAY), str(SWAPS), serial(DARK),
    ]  # fmt: skip
    records = [json.loads(text) for text in done.openhtf]
    outcomes = Counter((record["dut_id"], record["outcome"]) for record in records)
    assert len(records) == BOARDS
    assert outcomes[serial(15), "PASS"] == 2
    assert outcomes[serial(DARK), "FAIL"] == 1
    assert sum(outcome == "PASS" for _, outcome in outcomes.elements()) == BOARDS - 4


CRASHES = 7
PROFILES = {"psu1": "rigol_dp832", "dmm1": "keysight_34461a", "load1": "rigol_dl3021"}


def answers(first: int, last: int) -> list[str]:
    return [said for board in range(first, last + 1) for said in (serial(board), "yes", "pass")]


@promise("experiment.resume")
def test_a_crash_in_board_seven_costs_that_board_one_try_and_no_other_any(tmp_path: Path) -> None:
    async def led(life: Life, run_id: str) -> None:
        await until(life, lambda: (question := asked(life, run_id)) and "LED" in question["text"])

    def asked(life: Life, run_id: str) -> Any:
        return life.experiments.status(run_id)["question"]

    async def work(clock: VirtualClock) -> None:
        bench = Lives(tmp_path, clock, PROFILES)
        async with bench.life() as life:
            run_id = await started(life, EXAMPLE.read_text())
            await operate(life, run_id, [*answers(1, CRASHES - 1), serial(CRASHES), "yes"])
            await led(life, run_id)
            assert bench.state("psu1")["ch1"]["is_on"]
            life.die()
        async with bench.life() as life:
            await control(life, run_id, "resume")
            # Nothing is on while the operator is asked which board this is.
            assert not bench.state("psu1")["ch1"]["is_on"]
            assert not bench.state("load1")["is_on"]
            await operate(life, run_id, answers(CRASHES, BOARDS))
            await until(life, lambda: is_over(life, run_id))
            told = life.experiments.status(run_id)
            assert (told["state"], told["verdict"]) == ("completed", "pass")
            data = life.directory / "data" / "runs"
            suites = ET.fromstring(whole(lambda at: export_run(data, run_id, "junit", at)))
            names = [str(suite.get("name")) for suite in suites]
            tried = [serial(board) for board in range(1, BOARDS + 1)]
            tried.insert(CRASHES, f"{serial(CRASHES)} (try 2)")
            assert names == tried
            records = [json.loads(text) for text in each_unit(data, run_id)]
            outcomes = [(record["dut_id"], record["outcome"]) for record in records]
            assert Counter(outcome for _, outcome in outcomes) == {"PASS": BOARDS, "ABORTED": 1}
            assert (serial(CRASHES), "ABORTED") in outcomes

    in_virtual_time(work)
