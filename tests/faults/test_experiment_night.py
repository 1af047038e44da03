"""R(T) for a day in virtual time: a stage that overshoots and drifts, a meter that is lost.

The result must be that of an undisturbed day, and what the engine holds must not grow.
"""

from __future__ import annotations

import asyncio
import csv
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from edged.engine.virtual_time import VirtualClock
from edged_sim.faults import FaultKind, WireFault
from tests.bench.lives import Lives, in_virtual_time, is_over, started, until
from tests.bench.twin_lab import TwinLab, on_twins
from tests.bench.unruly_stage import unruly_stages
from tests.promises import promise

EXAMPLES = Path(__file__).parent.parent / "bench" / "experiments"
UNITS = ("tc1", "smu1", "dmm1")
SECONDS_AN_HOUR = 3_600
LOST_AT_H = 10.0
LOST_S = 600.0
ATTEMPT = "steps[4].steps[2].steps"
LOOKS_EVERY_S = SECONDS_AN_HOUR
MOST_GROWTH_MB = 4.0
"""Over 20 hours."""
NOISE_OHMS = 0.02
PLAN = """\
format: 1
experiment: r_of_t
roles: {stage: tc1, source: smu1, meter: dmm1}
with: {stage: {output: 1}}
bounds: {stage.set_setpoint.temperature: [70, 300]}
at_most_h: 48
log: {T_log: {command: stage.measure_temperature, every_s: 60}}
watch: [{read: stage.measure_temperature, must: "value < 200", every_s: 60, else: abort}]
steps:
  - {command: source.source_current, parameters: {current: 0, voltage_limit: 2}}
  - {command: source.output_on}
  - {command: stage.heater_on, parameters: {range: high}}
  - {let: {T: 180, step: 5, r: 0, r_last: 0, done: 1000}}
  - repeat: point
    at_most: 100
    until: "done <= 80"
    steps:
      - {ramp: stage.set_setpoint, to: "{T}", rate: 0.2}
      - settle: stage.measure_temperature
        target: "{T}"
        within: 0.3
        drift: 0.15
        for_s: 2700
        every_s: 60
        timeout_s: 14400
      - for: try_again
        in: {count: 30}
        on_error: skip
        steps:
          - {command: source.set_current, parameters: {current: 1.0e-2}}
          - {wait_s: 60}
          - {read: {v_p: meter.measure_dc_voltage, T_p: stage.measure_temperature}}
          - {command: source.set_current, parameters: {current: -1.0e-2}}
          - {wait_s: 60}
          - {read: {v_n: meter.measure_dc_voltage, T_n: stage.measure_temperature}}
          - {let: {r: "{(v_p - v_n) / 2.0e-2}"}}
          - {row: {T_set: T, T_s: (T_p + T_n) / 2, r: r}}
          - {leave: try_again}
      - let:
          step: "{min(max(0.02 * r * step / max(abs(r - r_last), 0.001 * r), 0.2), 5)}"
          r_last: "{r}"
          done: "{T}"
          T: "{max(T - step, 80)}"
finally:
  - {ramp: source.set_current, to: 0, rate: 1.0e-2}
  - {command: source.output_off}
  - {command: stage.heater_off}
"""


@dataclass(frozen=True, kw_only=True)
class Day:
    """What a run came to.

    Attributes:
        rows: T_set, T_s, r of each.
        hours: how long it took.
        logged: how many readings its log has.
        resident_mb: of this process, each hour.
        most_k: the highest temperature that was logged.
    """

    state: str
    rows: np.ndarray[Any, np.dtype[np.float64]]
    hours: float
    logged: int
    notes: tuple[str, ...]
    is_on: bool
    resident_mb: tuple[float, ...]
    most_k: float


def day(plan: str = PLAN, *, is_lost: bool = False) -> Day:
    async def work(bench: TwinLab) -> Day:
        run = await bench.run(plan)
        resident: list[float] = []
        process = psutil.Process()

        async def look() -> None:
            while True:
                await bench.clock.sleep(LOOKS_EVERY_S)
                resident.append(process.memory_info().rss / 2**20)

        async def lose() -> None:
            await bench.clock.sleep(LOST_AT_H * SECONDS_AN_HOUR)
            # In the middle of a reading.
            while not run.path.startswith(ATTEMPT):
                await bench.clock.sleep(5)
            name = bench.station("dmm1").name
            bench.twins.apply(name, WireFault(kind=FaultKind.FREEZE))
            await bench.clock.sleep(LOST_S)
            await bench.twins.clear(name)

        beside = [asyncio.create_task(look())]
        if is_lost:
            beside.append(asyncio.create_task(lose()))
        await bench.over(run)
        for task in beside:
            task.cancel()
        folder = next(bench.data.rglob(run.run_id))
        with (folder / "data.csv").open() as rows:
            found = [[float(row[key]) for key in ("T_set", "T_s", "r")]
                     for row in csv.DictReader(rows)]  # fmt: skip
        with (folder / "T_log.csv").open() as rows:
            logged = [float(row["T_log"]) for row in csv.DictReader(rows)]
        return Day(
            state=run.status,
            rows=np.array(found),
            hours=run.elapsed_s(bench.clock.monotonic()) / SECONDS_AN_HOUR,
            logged=len(logged),
            notes=tuple(run.said),
            is_on=bool(bench.state("smu1")["is_on"]),
            resident_mb=tuple(resident),
            most_k=max(logged),
        )

    return on_twins(work, *UNITS)


def test_a_day_with_an_unruly_stage_and_a_lost_meter_gives_the_curve_of_a_quiet_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quiet = day(PLAN.replace("for_s: 2700", "for_s: 180"))
    unruly_stages(monkeypatch)
    found = day(is_lost=True)
    assert (quiet.state, found.state) == ("completed", "completed")
    assert found.hours > 26
    assert found.most_k > 182
    assert any("try_again" in note for note in found.notes)
    assert quiet.notes == ()
    assert not found.is_on
    # Each set-point once, from above to below, and every value is there.
    set_k = found.rows[:, 0]
    assert set_k[0] == 180
    assert set_k[-1] == 80
    assert all(after < before for before, after in pairwise(set_k))
    assert np.isfinite(found.rows).all()
    assert np.abs(found.rows[:, 1] - set_k).max() < 0.5
    # By the temperature that was measured, since the stage is not where it was set.
    expected = np.interp(found.rows[:, 1], quiet.rows[::-1, 1], quiet.rows[::-1, 2])
    assert np.abs(found.rows[:, 2] - expected).max() < NOISE_OHMS
    assert found.logged == pytest.approx(found.hours * 60, rel=0.02)
    assert found.resident_mb[-1] - found.resident_mb[5] < MOST_GROWTH_MB


PROFILES = {"tc1": "lakeshore_335", "smu1": "keithley_2400", "dmm1": "keysight_34461a"}
CRASHES_AT_H = (1.0, 4.0)
DEAF_AT_H = 2.5
FIRST = """\
  - first:
    - {command: source.source_current, parameters: {current: 0, voltage_limit: 2}}
    - {command: source.output_on}
    - {command: stage.heater_on, parameters: {range: high}}
"""
"""Nothing of it is trusted to have survived a crash."""
BEGIN, LET = PLAN.index("  - {command: source.source_current"), PLAN.index("  - {let")
SHORT = f"{PLAN[:BEGIN]}{FIRST}{PLAN[LET:]}resume: {{at: point, within_h: 8, ask: false}}\n"
SHORT = SHORT.replace("T: 180", "T: 110").replace("for_s: 2700", "for_s: 1200")


def night(directory: Path, plan: str, *, is_disturbed: bool) -> list[dict[str, float]]:
    """The rows of a run, in several lives of the engine where it is disturbed."""
    found: list[dict[str, float]] = []

    async def disturb(bench: Lives, hour: float, what: str) -> None:
        await bench.clock.sleep(hour * SECONDS_AN_HOUR - bench.clock.monotonic())
        if what == "crash":
            bench.now.die()
            return
        bench.is_deaf.add("dmm1")
        await bench.clock.sleep(LOST_S)
        bench.is_deaf.clear()

    async def work(clock: VirtualClock) -> None:
        bench = Lives(directory, clock, PROFILES)
        events = [(hour, "crash") for hour in CRASHES_AT_H] + [(DEAF_AT_H, "loss")]
        tasks = [
            asyncio.create_task(disturb(bench, clock.monotonic() / SECONDS_AN_HOUR + hour, what))
            for hour, what in events
            if is_disturbed
        ]
        run_id = ""
        for _ in range(1 + len(CRASHES_AT_H) * is_disturbed):
            async with bench.life() as life:
                run_id = run_id or await started(life, plan)
                await until(life, partial(is_over, life, run_id))
        told = life.experiments.status(run_id)
        assert (told["state"], told["error"]) == ("completed", None)
        assert all(task.done() for task in tasks)
        assert not bench.state("smu1")["is_on"]
        (folder,) = (life.directory / "data").rglob(run_id)
        with (folder / "data.csv").open() as rows:
            found.extend(
                {key: float(row[key]) for key in ("T_set", "T_s", "r", "attempt")}
                for row in csv.DictReader(rows)
            )

    in_virtual_time(work)
    return found


@promise("experiment.resume")
def test_two_crashes_and_a_lost_meter_leave_the_curve_of_a_quiet_night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("quiet", "disturbed"):
        (tmp_path / name).mkdir()
    quiet = night(
        tmp_path / "quiet", SHORT.replace("for_s: 1200", "for_s: 180"), is_disturbed=False
    )
    unruly_stages(monkeypatch)
    found = night(tmp_path / "disturbed", SHORT, is_disturbed=True)
    assert {row["attempt"] for row in found} == {1, 2, 3}
    set_k = [row["T_set"] for row in found]
    assert (set_k[0], set_k[-1]) == (110, 80)
    assert all(after < before for before, after in pairwise(set_k))
    curve = sorted((row["T_s"], row["r"]) for row in quiet)
    for row in found:
        expected = np.interp(row["T_s"], *zip(*curve, strict=True))
        assert abs(row["r"] - expected) < NOISE_OHMS
        assert abs(row["T_s"] - row["T_set"]) < 0.5


@promise("experiment.rehearsed")
def test_hours_of_an_adaptive_plan_are_rehearsed_to_their_end() -> None:
    """Example 3 as written: how many steps it takes hangs on what it measures."""

    async def work(bench: TwinLab) -> tuple[str, int, float]:
        run = await bench.run((EXAMPLES / "r_of_t.yaml").read_text())
        await bench.over(run)
        return run.status, run.rows, run.elapsed_s(bench.clock.monotonic())

    status, rows, took = on_twins(work, *UNITS)
    assert status == "completed"
    assert rows >= (300 - 77) / 5
    assert took > 5 * SECONDS_AN_HOUR
