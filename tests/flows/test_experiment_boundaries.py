"""Whatever somebody wants of a run, at each of its step boundaries: what reached the units.

On simulated twins in virtual time; each run is the same up to the boundary at which it is paused,
aborted or stopped. A boundary is before each step, and before each step of a ramp.
"""

from __future__ import annotations

import asyncio
import csv
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import pytest

from edged.runs.experiments.run import ExperimentRun
from edged.runs.experiments.steps import Steps
from edged.runs.wording import stopped_by
from tests.bench.twin_lab import TwinLab, on_twins
from tests.promises import promise

UNITS = ("smu1", "smu2")
RATE = {"smu1": 5.0, "smu2": 10.0}
GATE, DRAIN = (0.0, 1.0), (0.0, 1.5)
PAUSED_S = 40.0
SET = re.compile(r":SOUR:VOLT:LEV ([-\d.]+)")
PLAN: dict[str, Any] = {
    "format": 1,
    "experiment": "small_map",
    "roles": {"gate": "smu1", "drain": "smu2"},
    "steps": [
        {"command": "gate.source_voltage", "parameters": {"voltage": 0, "current_limit": 1e-3}},
        {"command": "drain.source_voltage", "parameters": {"voltage": 0, "current_limit": 0.02}},
        {"command": "gate.output_on"},
        {"command": "drain.output_on"},
        {"for": "v_g", "in": list(GATE), "set": "gate.set_voltage", "rate": RATE["smu1"],
         "steps": [
            {"for": "v_d", "in": list(DRAIN), "set": "drain.set_voltage", "rate": RATE["smu2"],
             "steps": [{"measure": {"i_d": "drain.measure.current"}}, {"wait_s": 0.2}]},
         ]},
    ],
    "finally": [
        {"ramp": "drain.set_voltage", "to": 0, "rate": RATE["smu2"]},
        {"ramp": "gate.set_voltage", "to": 0, "rate": RATE["smu1"]},
        {"command": "drain.output_off"},
        {"command": "gate.output_off"},
    ],
}  # fmt: skip
ALL_OFF = dict.fromkeys(UNITS, False)
Wish = Callable[[TwinLab, ExperimentRun], Coroutine[Any, Any, None]]


@dataclass(frozen=True, kw_only=True)
class Told:
    """One run.

    Attributes:
        written: (seconds, unit, line) of each line that changes something, in order.
        wished_at: how many of these there were when somebody wanted something.
        cells: the values of both loops in each row of data.csv.
        is_on: unit → whether its output is on in the end.
        boundaries: how many there were.
        is_cleaning: its ``finally`` was under way when somebody wanted something.
        paused_s: for how long it was paused.
    """

    state: str
    written: tuple[tuple[float, str, str], ...]
    wished_at: int
    cells: tuple[tuple[float, float], ...]
    is_on: dict[str, bool]
    boundaries: int
    is_cleaning: bool
    paused_s: float
    notes: tuple[str, ...]

    @property
    def lines(self) -> list[tuple[str, str]]:
        """What was written, without when."""
        return [(unit, line) for _, unit, line in self.written]

    @property
    def unit_levels(self) -> dict[str, float]:
        """The last level that each unit was set to."""
        levels = dict.fromkeys(UNITS, 0.0)
        for unit, line in self.lines:
            if match := SET.fullmatch(line):
                levels[unit] = float(match[1])
        return levels


def is_write(line: str) -> bool:
    """Whether it changes the output; settings of a measurement are repeated by each of them."""
    return "?" not in line and not line.startswith((":SENS:FUNC", ":FORM", ":ARM", ":TRIG"))


def told(wish: Wish | None = None, at: int = -1) -> Told:
    """Run the map; at its boundary number ``at`` somebody wants something."""

    async def work(bench: TwinLab) -> Told:
        wishes: list[asyncio.Task[None]] = []
        passed, wished_at, is_cleaning = 0, 0, False
        boundary = Steps.boundary

        async def counted(steps: Steps) -> None:
            nonlocal passed, wished_at, is_cleaning
            passed += 1
            if passed - 1 == at and wish is not None:
                wished_at = sum(is_write(line) for _, line in bench.sent)
                is_cleaning = steps._run.path.startswith("finally")
                wishes.append(asyncio.ensure_future(wish(bench, steps._run)))
                await asyncio.sleep(0)
            await boundary(steps)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Steps, "boundary", counted)
            run = await bench.run(PLAN)
            await bench.over(run)
            await asyncio.gather(*wishes)
        (data,) = bench.data.rglob(f"{run.run_id}/data.csv")
        with data.open() as rows:
            cells = tuple((float(row["v_g"]), float(row["v_d"])) for row in csv.DictReader(rows))
        return Told(
            state=run.status,
            written=tuple(
                (at, unit, line)
                for at, (unit, line) in zip(bench.sent_at, bench.sent, strict=True)
                if is_write(line)
            ),
            wished_at=wished_at,
            cells=cells,
            is_on={name: bool(bench.state(name)["is_on"]) for name in UNITS},
            boundaries=passed,
            is_cleaning=is_cleaning,
            paused_s=run.frozen_s,
            notes=tuple(run.said),
        )

    return on_twins(work, *UNITS)


@pytest.fixture(scope="module")
def undisturbed() -> Told:
    found = told()
    assert found.state == "completed"
    assert found.cells == tuple((v_g, v_d) for v_g in GATE for v_d in DRAIN)
    return found


async def pause(bench: TwinLab, run: ExperimentRun) -> None:
    bench.experiments.pause(run, "paused")
    await bench.clock.sleep(PAUSED_S)
    bench.experiments.resume(run)


async def abort(bench: TwinLab, run: ExperimentRun) -> None:
    await bench.experiments.abort(run, stopped_by("somebody"))


async def stop_all(bench: TwinLab, _run: ExperimentRun) -> None:
    await bench.stop_all()


def no_step_is_larger_than_its_rate(found: Told) -> None:
    held = dict.fromkeys(UNITS, (-1e9, 0.0))
    for at, unit, line in found.written:
        if match := SET.fullmatch(line):
            before_at, before = held[unit]
            volts = float(match[1])
            # The resolution of the source, 50 µV.
            assert abs(volts - before) <= RATE[unit] * (at - before_at) + 1e-4, (at, unit, line)
            held[unit] = (at, volts)


def test_equal_runs_send_equal_bytes(undisturbed: Told) -> None:
    assert told() == undisturbed
    no_step_is_larger_than_its_rate(undisturbed)
    assert undisturbed.is_on == ALL_OFF


@promise("experiment.pause")
def test_a_pause_at_each_boundary_repeats_nothing_and_leaves_nothing_out(undisturbed: Told) -> None:
    for at in range(undisturbed.boundaries):
        found = told(pause, at)
        assert found.paused_s == pytest.approx(PAUSED_S, abs=1e-3), at
        assert found.state == "completed", at
        assert found.lines == undisturbed.lines, at
        assert found.cells == undisturbed.cells, at
        assert found.is_on == ALL_OFF, at
        no_step_is_larger_than_its_rate(found)


@promise("experiment.finally")
def test_an_abort_at_each_boundary_ramps_down_and_switches_off(undisturbed: Told) -> None:
    for at in range(undisturbed.boundaries):
        found = told(abort, at)
        # Who aborts a run whose steps are done finds its ``finally`` under way.
        assert found.state == ("completed" if found.is_cleaning else "stopped"), at
        assert found.lines[: found.wished_at] == undisturbed.lines[: found.wished_at], at
        assert found.cells == undisturbed.cells[: len(found.cells)], at
        assert (found.unit_levels, found.is_on) == (dict.fromkeys(UNITS, 0.0), ALL_OFF), at
        assert not any(line == ":OUTP ON" for _, line in found.lines[found.wished_at :]), at
        no_step_is_larger_than_its_rate(found)


@promise("experiment.finally")
def test_after_stop_all_at_each_boundary_only_safe_lines_are_sent(undisturbed: Told) -> None:
    for at in range(undisturbed.boundaries):
        found = told(stop_all, at)
        assert found.state == ("completed" if found.is_cleaning else "stopped"), at
        first = next(number for number, (_, line) in enumerate(found.lines) if line == ":ABOR")
        assert first <= found.wished_at + 1, at
        assert found.lines[:first] == undisturbed.lines[:first], at
        assert {line for _, line in found.lines[first:]} <= {":ABOR", ":OUTP OFF"}, at
        assert found.is_on == ALL_OFF, at
        no_step_is_larger_than_its_rate(found)


@promise("experiment.finally")
def test_stop_all_while_it_is_paused_switches_off_at_each_boundary(undisturbed: Told) -> None:
    async def pause_and_stop(bench: TwinLab, run: ExperimentRun) -> None:
        if not run.body or not run.body.done():
            bench.experiments.pause(run, "paused")
        await bench.clock.sleep(PAUSED_S)
        await bench.stop_all()

    for at in range(0, undisturbed.boundaries, 3):
        found = told(pause_and_stop, at)
        if found.is_cleaning:
            continue
        assert found.state == "stopped", at
        assert found.lines[: found.wished_at] == undisturbed.lines[: found.wished_at], at
        assert {line for _, line in found.lines[found.wished_at :]} <= {":ABOR", ":OUTP OFF"}, at
        assert found.is_on == ALL_OFF, at
