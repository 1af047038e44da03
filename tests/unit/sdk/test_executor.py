"""One wrapper's executor over scripted workers: order, deadlines, losses and rests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from edged.errors import Conflict, ErrorCode, Failed
from edged.sdk.executor import MOST_WAITING, WrapperState
from edged.sdk.process import WorkerDied
from edged.sdk.wrapper import stamp_of
from tests.bench.driven_clock import DrivenClock, settle
from tests.bench.fake_worker import SPECS, WorkerBench, loaded
from tests.promises import promise


@pytest.fixture
async def bench(driven_clock: DrivenClock) -> AsyncIterator[WorkerBench]:
    made = WorkerBench(driven_clock)
    yield made
    await made.executor.stop()


async def up(bench: WorkerBench) -> WorkerBench:
    bench.executor.start()
    await bench.executor.looked.wait()
    return bench


def later() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


async def failing(bench: WorkerBench, name: str) -> Failed:
    with pytest.raises(Failed) as failed:
        await bench.run(name)
    return failed.value


async def test_a_loaded_wrapper_has_tools_and_says_so_once(bench: WorkerBench) -> None:
    await up(bench)
    assert bench.executor.state is WrapperState.READY
    assert [spec.name for spec in bench.executor.specs] == ["read", "set", "arm", "off"]
    bench.answers = [{"value": 1.5}]
    assert await bench.run("read") == 1.5
    assert bench.executor.has_answered


async def test_calls_run_one_after_the_other_and_safe_ones_first(bench: WorkerBench) -> None:
    await up(bench)
    first = later()
    bench.answers = [first]
    calls = [asyncio.ensure_future(bench.run(name)) for name in ("off", "read", "arm", "off")]
    await settle()
    assert [method for method, _ in bench.asked] == ["off"]
    first.set_result({"value": None})
    await asyncio.gather(*calls)
    assert [method for method, _ in bench.asked] == ["off", "off", "read", "arm"]
    assert bench.kills == 0, "a safe call is not ended for another safe one"


async def test_a_call_beyond_what_may_wait_is_refused_but_for_a_safe_one(
    bench: WorkerBench,
) -> None:
    await up(bench)
    running = later()
    bench.answers = [running]
    calls = [asyncio.ensure_future(bench.run("read"))]
    await settle()
    calls += [asyncio.ensure_future(bench.run("read")) for _ in range(MOST_WAITING)]
    await settle()
    with pytest.raises(Conflict) as busy:
        await bench.run("read")
    assert busy.value.data["running"] == "read"
    safe = asyncio.ensure_future(bench.run("off"))
    running.set_result({"value": 1.0})
    await asyncio.gather(safe, *calls)
    assert bench.asked[1][0] == "off"


async def test_one_that_is_no_longer_wanted_is_not_begun(bench: WorkerBench) -> None:
    await up(bench)
    running = later()
    bench.answers = [running]
    first = asyncio.ensure_future(bench.run("read"))
    await settle()
    second = asyncio.ensure_future(bench.run("arm"))
    await settle()
    second.cancel()
    await settle()
    running.set_result({"value": 1.0})
    assert await first == 1.0
    await settle()
    assert [method for method, _ in bench.asked] == ["read"]


async def test_one_that_was_called_back_while_it_waited_is_not_begun(bench: WorkerBench) -> None:
    def recalled() -> None:
        raise Failed("Everything was stopped.", code=ErrorCode.PREEMPTED)

    await up(bench)
    running = later()
    bench.answers = [running, {"value": 2.0}]
    first = asyncio.ensure_future(bench.run("read"))
    await settle()
    spec = next(spec for spec in bench.executor.specs if spec.name == "arm")
    second = asyncio.ensure_future(bench.executor.run_tool(spec, {}, recalled))
    third = asyncio.ensure_future(bench.run("read"))
    await settle()
    running.set_result({"value": 1.0})
    with pytest.raises(Failed, match="Everything was stopped"):
        await second
    assert (await first, await third) == (1.0, 2.0)
    assert [method for method, _ in bench.asked] == ["read", "read"]


async def test_a_running_call_whose_caller_left_ends_by_itself(bench: WorkerBench) -> None:
    await up(bench)
    running = later()
    bench.answers = [running, {"value": 2.0}]
    left = asyncio.ensure_future(bench.run("arm"))
    await settle()
    left.cancel()
    await settle()
    assert bench.executor.running == "arm"
    running.set_result({"value": None})
    assert await bench.run("read") == 2.0
    assert bench.kills == 0


async def test_a_deadline_kills_and_the_next_worker_serves(bench: WorkerBench) -> None:
    await up(bench)
    bench.answers = [TimeoutError(), {"value": 3.0}]
    failed = await failing(bench, "arm")
    assert failed.code is ErrorCode.TIMEOUT
    assert bench.kills == 1
    assert await bench.run("read") == 3.0
    assert len(bench.workers) == 2
    assert bench.executor.last_loss == "toy.arm took over 30 s."


@promise("sdk.crash")
async def test_losses_in_a_row_make_the_rests_longer_and_a_success_forgets_them(
    bench: WorkerBench, driven_clock: DrivenClock
) -> None:
    await up(bench)
    bench.answers = [WorkerDied("crashed (SIGSEGV)"), WorkerDied("crashed (SIGSEGV)")]
    assert "crashed (SIGSEGV) while read ran" in (await failing(bench, "read")).message
    await failing(bench, "read")
    await settle()
    assert len(bench.workers) == 2, "the second in a row rests first"
    bench.answers = [{"value": 1.0}]
    waiting = asyncio.ensure_future(bench.run("read"))
    await driven_clock.advance(1.1)
    assert await waiting == 1.0
    bench.answers = [WorkerDied("crashed (SIGSEGV)"), {"value": 2.0}]
    await failing(bench, "read")
    assert await bench.run("read") == 2.0, "no rest after a success"


async def test_a_safe_call_ends_the_rest_at_once(
    bench: WorkerBench, driven_clock: DrivenClock
) -> None:
    await up(bench)
    bench.answers = [WorkerDied("crashed (SIGSEGV)") for _ in range(4)]
    await failing(bench, "arm")
    for _ in range(3):
        waiting = asyncio.ensure_future(failing(bench, "arm"))
        await driven_clock.advance(1.1)
        await waiting
    await settle()
    starts = len(bench.workers)
    off = asyncio.ensure_future(bench.run("off"))
    await driven_clock.advance(0.05)
    await off
    assert len(bench.workers) == starts + 1


async def test_one_that_dies_while_it_is_loaded_is_tried_again_after_rests(
    bench: WorkerBench, driven_clock: DrivenClock
) -> None:
    bench.starts = [WorkerDied("crashed (SIGSEGV)"), WorkerDied("crashed (SIGSEGV)")]
    await up(bench)
    await settle()
    assert bench.executor.state is WrapperState.RESTARTING
    assert "crashed (SIGSEGV) while it was loaded" in bench.executor.problem
    await driven_clock.advance(1.1)
    assert bench.executor.state is WrapperState.READY


async def test_a_safe_call_does_not_wait_long_for_one_that_runs(bench: WorkerBench) -> None:
    await up(bench)
    bench.answers = [later(), {"value": None}]
    running = asyncio.ensure_future(bench.run("arm"))
    await settle()
    await bench.run("off")
    assert [method for method, _ in bench.asked] == ["arm", "off"]
    with pytest.raises(Failed, match="ended by toy__off") as ended:
        await running
    assert ended.value.code is ErrorCode.PREEMPTED
    assert bench.executor.state is WrapperState.READY


async def test_a_lockout_ends_what_runs_and_withdraws_what_waits(bench: WorkerBench) -> None:
    await up(bench)
    bench.answers = [later()]
    calls = [asyncio.ensure_future(bench.run(name)) for name in ("arm", "read")]
    await settle()
    assert sorted(bench.executor.stop_calls()) == ["toy__arm", "toy__read"]
    for call in calls:
        with pytest.raises(Failed, match="ended by lockout of sdk:"):
            await call


async def test_a_worker_that_ends_while_nothing_runs_is_replaced(bench: WorkerBench) -> None:
    await up(bench)
    bench.workers[0].die()
    await settle()
    assert len(bench.workers) == 2
    assert bench.executor.state is WrapperState.READY
    assert bench.executor.restarts == 1


@promise("sdk.comes-back")
async def test_a_broken_one_is_tried_again_when_its_file_has_changed(
    driven_clock: DrivenClock, tmp_path: Path
) -> None:
    path = tmp_path / "toy.py"
    path.write_text("")
    bench = WorkerBench(driven_clock, path)
    error = {"type": "RuntimeError", "message": "no licence", "line": 3}
    bench.starts = [{"broken": error, "stamp": stamp_of(path)}, loaded()]
    await up(bench)
    assert bench.executor.state is WrapperState.BROKEN
    assert bench.executor.problem == f"{path}:3: it could not be loaded: RuntimeError: no licence"
    path.write_text("# corrected")
    async with asyncio.timeout(20):
        while bench.executor.state is not WrapperState.READY:
            await driven_clock.advance(1.0)
            await asyncio.sleep(0.01)  # stat runs on a thread of its own
    await bench.executor.stop()


async def test_specifications_that_break_a_rule_make_it_broken(bench: WorkerBench) -> None:
    bench.starts = [loaded([{"name": "x", "description": "y"}])]
    await up(bench)
    assert bench.executor.state is WrapperState.BROKEN
    assert 'toy.py:1:1: toy.x has no "method".' in bench.executor.problem


async def test_a_missing_library_is_told_until_a_call_goes_well(bench: WorkerBench) -> None:
    missing = {"kind": "SdkMissing", "message": "libx.so is not here.", "remedy": "Install X."}
    bench.starts = [loaded(missing=missing)]
    await up(bench)
    assert bench.executor.state is WrapperState.LIBRARY_MISSING
    bench.answers = [{"error": {**missing, "type": "SdkMissing"}}, {"value": 1.0}]
    failed = await failing(bench, "read")
    assert (failed.code, failed.remedy) == (ErrorCode.SDK_MISSING, "Install X.")
    assert not bench.executor.has_answered
    assert await bench.run("read") == 1.0
    assert bench.executor.state is WrapperState.READY


async def test_stopping_tells_everybody_who_waits(bench: WorkerBench) -> None:
    await up(bench)
    bench.answers = [later()]
    calls = [asyncio.ensure_future(bench.run(name)) for name in ("arm", "read")]
    await settle()
    await bench.executor.stop()
    for call in calls:
        with pytest.raises(Failed, match="ended because the engine stopped"):
            await call
    with pytest.raises(Failed, match="The daemon stops"):
        await bench.run("read")


@pytest.mark.parametrize(
    "nonsense", [{}, {"loaded": 7}, {"loaded": {}}, {"answer": 1}, {"broken": "x"}]
)
async def test_a_worker_that_says_what_nobody_understands_is_replaced(
    bench: WorkerBench, driven_clock: DrivenClock, nonsense: Any
) -> None:
    bench.starts = [nonsense, nonsense, loaded()]
    await up(bench)
    await driven_clock.advance(1.1)
    assert bench.executor.state is WrapperState.READY
    bench.answers = [{"error": 7}, {"value": 1.0}]
    failed = await failing(bench, "read")
    assert "could not be understood" in str(failed) or failed.code is ErrorCode.WRAPPER_FAILED
    await driven_clock.advance(1.1)
    assert await bench.run("read") == 1.0


async def test_other_tools_after_a_restart_are_told_of(bench: WorkerBench) -> None:
    await up(bench)
    before = bench.executor.digest
    bench.starts = [loaded(SPECS[:1])]
    bench.workers[0].die()
    await settle()
    assert [spec.name for spec in bench.executor.specs] == ["read"]
    assert bench.executor.digest != before
