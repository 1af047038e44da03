"""Every shipped profile against its simulation, each argument at both ends and one step outside."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from edged.clock import SystemClock
from edged.profiles.template import effective_bound, render
from tests.bench.engine_process import engine_process
from tests.bench.profile_matrix import (
    SIMULATED,
    TRIES,
    MatrixBench,
    cases,
    instruments_flag,
    refusals,
    smallest,
)

pytestmark = pytest.mark.timeout(600)
STOPS = 10
ENDED_WITHIN_S = 60.0


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MatrixBench]:
    directory = tmp_path_factory.mktemp("matrix")
    with engine_process(directory, "--instruments", instruments_flag()) as engine:
        yield MatrixBench.of(engine)


@pytest.mark.parametrize("key", sorted(SIMULATED))
def test_every_command_works_at_both_ends_of_every_argument(bench: MatrixBench, key: str) -> None:
    profile = SIMULATED[key]
    faults = []
    for command in profile.commands.values():
        if command.requires_sweep:
            continue
        faults += [bench.fault_of(profile, case) for case in cases(command)]
    assert list(filter(None, faults)) == []


@pytest.mark.parametrize("key", sorted(SIMULATED))
def test_one_step_outside_is_refused_and_sends_nothing(bench: MatrixBench, key: str) -> None:
    profile = SIMULATED[key]
    # A unit that timed out in the test before, on a busy machine, is asked for its name meanwhile.
    for _ in range(TRIES):
        since = bench.mark()
        wrong = [case for command in profile.commands.values() for case in refusals(command)]
        taken = [case for case in wrong if not bench.run(profile, case)["is_error"]]
        assert taken == []
        if (received := bench.received(key, since)) != ["*IDN?"]:
            break
    assert received == []


def test_every_shipped_instrument_obeys_a_stop_of_the_whole_bench(bench: MatrixBench) -> None:
    names = {str(instrument_id): key for key, instrument_id in bench.ids.items()}
    stopped: list[dict[str, Any]] = []
    # On a busy machine twenty instruments do not all answer within the second of the answer.
    for _ in range(STOPS):
        stopped = bench.engine.tool("bench__stop_all")["result"]["instruments"]
        if all(one["state"] != "trying" for one in stopped):
            break
    # Lint lets none be without an abort but what puts nothing out.
    wordless = {key for key, profile in SIMULATED.items() if not profile.abort}
    faults = {
        key: one["error"] or one["state"]
        for one in stopped
        if one["state"] not in {"confirmed", "taken"}
        and (key := names[one["instrument_id"]]) not in wordless
    }
    assert faults == {}


def sweepables() -> list[tuple[str, str]]:
    return [
        (key, command.name)
        for key, profile in sorted(SIMULATED.items())
        for command in profile.commands.values()
        if command.sweep is not None
    ]


def start(bench: MatrixBench, key: str, name: str, target: float, rate: float) -> str:
    command = SIMULATED[key].commands[name]
    assert command.sweep is not None
    others = smallest(command).arguments
    others.pop(command.sweep.parameter)
    answer = bench.engine.tool(
        "start_sweep",
        instrument_id=bench.ids[key],
        command_name=name,
        target_value=target,
        sweep_rate=rate,
        parameters=others,
    )
    assert not answer["is_error"], answer
    return str(answer["result"]["sweep_id"])


def wait_ended(bench: MatrixBench, sweep_id: str) -> dict[str, Any]:
    clock = SystemClock()
    deadline = clock.monotonic() + ENDED_WITHIN_S
    while True:
        status: dict[str, Any] = bench.engine.tool("get_sweep_status", sweep_id=sweep_id)["result"]
        if status["status"] != "running" or clock.monotonic() > deadline:
            return status
        time.sleep(0.05)  # noqa: TID251 - a real process has no event to wait for


@pytest.mark.parametrize(("key", "name"), sweepables())
def test_whatever_can_be_swept_arrives_and_is_aborted_by_a_stop(
    bench: MatrixBench, key: str, name: str
) -> None:
    profile = SIMULATED[key]
    command = profile.commands[name]
    assert command.sweep is not None
    case = smallest(command)
    swept = command.sweep.parameter
    bound = effective_bound(command.parameters[swept], case.arguments)
    assert bound.min is not None
    assert bound.max is not None
    span = bound.max - bound.min
    target = bound.min + span / 4
    for _ in range(TRIES):
        bench.prepare(profile, case)
        status = wait_ended(bench, start(bench, key, name, target, span / 2))
        if status["status"] == "completed" or "in time" not in str(status["error"]):
            break
    assert status["status"] == "completed", status
    sweep_id = start(bench, key, name, bound.min + span / 2, span / 1000)
    since = bench.mark()
    stopped = bench.engine.tool("stop_sweep", sweep_id=sweep_id, hold=False)
    assert stopped["result"]["status"] == "stopped", stopped
    # Without an abort of its own a sweep ends by its unit's.
    steps = command.sweep.abort or profile.abort
    abort = [render(step.send, command.parameters, case.arguments) for step in steps]
    received = bench.received(key, since)
    found = [line for line in received if line in abort]
    # A selection is sent once more before each query that it belongs to.
    assert abort, command
    assert any(found[at : at + len(abort)] == abort for at in range(len(found))), received
