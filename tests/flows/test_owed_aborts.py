"""What an experiment could not make safe is tried again, as a sweep's abort is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edged.actions.action import Purpose, RunCommand, StopAll
from edged.engine.virtual_time import VirtualClock
from edged.errors import EdgedError, ErrorCode
from edged.profiles.model import CommandStep
from edged.runs.experiments.steps import Steps
from tests.bench.lives import Life, Lives, action, control, in_virtual_time, started, until
from tests.promises import promise

UNITS = {"psu1": "rigol_dp832", "dmm1": "keysight_34461a"}
ON, OFF = ":OUTP CH1,ON", ":OUTP CH1,OFF"


def plan(*steps: Any) -> dict[str, Any]:
    return {
        "format": 1,
        "experiment": "x",
        "roles": {"s": "psu1"},
        "with": {"s": {"channel": 1}},
        "steps": [
            {"command": "s.set_voltage", "parameters": {"voltage": 1}},
            {"command": "s.output_on"},
            *steps,
        ],
        "finally": [{"command": "s.output_off"}],
    }


async def aborted_deaf(life: Life, bench: Lives) -> str:
    """A run that is aborted while its unit hears nothing; it has ended."""
    run_id = await started(life, plan({"wait_s": 600}))
    await until(life, lambda: ON in texts(bench))
    await asyncio.sleep(1)
    bench.is_deaf.add("psu1")
    await control(life, run_id, "abort")
    told = life.experiments.status(run_id)
    assert told["state"] == "failed"
    assert "may still be on" in told["error"]
    return run_id


def texts(bench: Lives, since: int = 0) -> list[str]:
    return [one.text for one in bench.sent[since:] if one.unit == "psu1"]


def journalled(life: Life) -> list[str]:
    journal = life.core.bench.store.journal
    return [*journal._left, *journal._open]


async def written(life: Life) -> ErrorCode | None:
    """What somebody else's write to the unit is refused with."""
    asked = action(life.core)
    write = RunCommand(
        tool="execute_command",
        caller=replace(asked.caller, client="another"),
        action_id=asked.action_id,
        instrument_id="psu1",
        command_name="set_voltage",
        parameters={"channel": 1, "voltage": 2},
    )
    error: EdgedError | None = (await life.core.bench.perform(write)).error
    return None if error is None else error.code


def alive(tmp_path: Path, work: Callable[[Lives, Life], Any]) -> None:
    async def live(clock: VirtualClock) -> None:
        bench = Lives(tmp_path, clock, UNITS)
        async with bench.life() as life:
            await work(bench, life)

    in_virtual_time(live)


@promise("experiment.abort-retried")
def test_an_abort_that_its_unit_did_not_take_is_tried_again_and_holds_the_unit(
    tmp_path: Path,
) -> None:
    async def work(bench: Lives, life: Life) -> None:
        run_id = await aborted_deaf(life, bench)
        run = life.experiments.find(run_id)
        assert run.owes_abort
        assert journalled(life) == [f"{run_id}.1"]
        assert await written(life) is ErrorCode.LEASED
        await asyncio.sleep(1)
        mark = len(bench.sent)
        bench.is_deaf.clear()
        await until(life, lambda: not run.owes_abort)
        assert OFF in texts(bench, mark)
        assert not bench.state("psu1")["ch1"]["is_on"]
        await asyncio.sleep(1)
        assert journalled(life) == []
        assert not run.needs_attention
        assert await written(life) is None
        assert life.experiments.status(run_id)["state"] == "failed"

    alive(tmp_path, work)


@promise("experiment.abort-retried")
def test_after_finally_steps_that_its_unit_did_not_take_the_abort_is_tried_until_it_does(
    tmp_path: Path,
) -> None:
    async def work(bench: Lives, life: Life) -> None:
        run_id = await started(life, plan({"wait_s": 5}))
        run = life.experiments.find(run_id)
        await until(life, lambda: ON in texts(bench))
        await asyncio.sleep(1)
        bench.is_deaf.add("psu1")
        await run.ended.wait()
        told = life.experiments.status(run_id)
        assert told["state"] == "failed"
        assert "Its finally steps failed" in told["error"]
        assert run.owes_abort
        bench.is_deaf.clear()
        await until(life, lambda: not run.owes_abort)
        assert not bench.state("psu1")["ch1"]["is_on"]
        await asyncio.sleep(1)
        assert journalled(life) == []

    alive(tmp_path, work)


def test_an_abort_that_is_never_taken_is_given_up_and_wants_attention_until_a_stop_is_obeyed(
    tmp_path: Path,
) -> None:
    async def work(bench: Lives, life: Life) -> None:
        run_id = await aborted_deaf(life, bench)
        run = life.experiments.find(run_id)
        await asyncio.sleep(life.core.bench.config.abort_after_crash_sec + 60)
        assert run.needs_attention
        assert not run.owes_abort
        assert journalled(life) == [f"{run_id}.1"]
        bench.is_deaf.clear()
        asked = action(life.core)
        stop = StopAll(tool="bench__stop_all", caller=asked.caller, action_id=asked.action_id)
        await life.core.work.bench_stop.stop_all(stop)
        await asyncio.sleep(1)
        assert not run.needs_attention
        assert journalled(life) == []

    alive(tmp_path, work)


def test_after_a_crash_before_it_was_taken_the_next_start_sends_it_and_the_run_stays_failed(
    tmp_path: Path,
) -> None:
    async def work(clock: VirtualClock) -> None:
        bench = Lives(tmp_path, clock, UNITS)
        async with bench.life() as life:
            run_id = await aborted_deaf(life, bench)
            await asyncio.sleep(1)
            assert life.experiments.find(run_id).owes_abort
            life.die()
        bench.is_deaf.clear()
        mark = len(bench.sent)
        async with bench.life() as life:
            await asyncio.sleep(1)
            assert OFF in texts(bench, mark)
            assert journalled(life) == []
            (told,) = [now for now in life.core.work.registry.runs() if now.head.run_id == run_id]
            assert told.state == "failed"
            assert life.experiments.left.get(run_id) is None

    in_virtual_time(work)


def test_a_mistake_of_our_own_in_finally_leaves_the_rest_done_and_the_unit_aborted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = Steps._command

    async def broken(steps: Steps, step: CommandStep) -> None:
        if steps._purpose is Purpose.FINALLY_STEP:
            raise KeyError("a bug")
        await command(steps, step)

    monkeypatch.setattr(Steps, "_command", broken)

    async def work(bench: Lives, life: Life) -> None:
        run_id = await started(life, plan())
        run = life.experiments.find(run_id)
        await until(life, run.ended.is_set)
        await asyncio.sleep(1)
        told = life.experiments.status(run_id)
        assert told["state"] == "failed"
        assert "edged made a mistake" in told["error"]
        assert OFF in texts(bench)
        assert journalled(life) == []

    alive(tmp_path, work)
