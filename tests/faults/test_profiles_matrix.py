"""Every shipped profile against its simulation, each argument at both ends and one step outside."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from edged.clock import SystemClock
from edged.profiles.model import Command
from edged.profiles.template import effective_bound, render
from tests.bench.engine_process import engine_process
from tests.bench.profile_matrix import (
    EXCUSED,
    SIMULATED,
    TRIES,
    MatrixBench,
    cases,
    instruments_flag,
    refusals,
    smallest,
    switches,
)
from tests.promises import promise

pytestmark = pytest.mark.timeout(1200)  # the first waits for all trials
AT_ONCE = 6
ENDED_WITHIN_S = 60.0


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MatrixBench]:
    directory = tmp_path_factory.mktemp("matrix")
    # A process: hasty instruments lose what comes too soon, and this one is busy with the trials.
    with engine_process(directory, "--instruments", instruments_flag()) as engine:
        yield MatrixBench.of(engine)


@dataclass(frozen=True)
class Tried:
    """What was wrong with a profile, a sentence each.

    Attributes:
        sequences: with a sequence, or with what was on after it.
        ends: with its commands at both ends of their arguments.
        outside: what was taken, or sent, one step outside.
        sweeps: with a sweep, by command; empty where nothing was.
    """

    sequences: list[str]
    ends: list[str]
    outside: list[str]
    sweeps: dict[str, str]


@pytest.fixture(scope="module")
def tried(bench: MatrixBench) -> dict[str, Future[Tried]]:
    """Each profile's own trial, all of them over: one unit waits while others work."""
    with ThreadPoolExecutor(AT_ONCE) as callers:
        return {key: callers.submit(try_profile, bench, key) for key in sorted(SIMULATED)}


def try_profile(bench: MatrixBench, key: str) -> Tried:
    commands = SIMULATED[key].commands.values()
    return Tried(
        sequences=faults_of_sequences(bench, key),
        outside=faults_outside(bench, key),
        ends=faults_at_ends(bench, key),
        sweeps={c.name: fault_of_sweep(bench, key, c) for c in commands if c.sweep is not None},
    )


@promise("profile.every-command-works")
@pytest.mark.parametrize("key", sorted(SIMULATED))
def test_every_command_works_at_both_ends_of_every_argument(
    tried: dict[str, Future[Tried]], key: str
) -> None:
    assert tried[key].result().ends == []


def faults_at_ends(bench: MatrixBench, key: str) -> list[str]:
    profile = SIMULATED[key]
    commands = [one for one in profile.commands.values() if not one.requires_sweep]
    faults = [bench.fault_of(profile, case) for command in commands for case in cases(command)]
    return list(filter(None, faults))


@pytest.mark.parametrize(
    "key", sorted(key for key, profile in SIMULATED.items() if profile.sequences)
)
def test_every_sequence_runs_and_a_dangerous_one_ends_with_all_off(
    tried: dict[str, Future[Tried]], key: str
) -> None:
    assert tried[key].result().sequences == []


def faults_of_sequences(bench: MatrixBench, key: str) -> list[str]:
    faults = []
    for sequence in SIMULATED[key].sequences.values():
        arguments = smallest(sequence).arguments
        if (key, sequence.name, "minimum") in EXCUSED:
            continue
        for _ in range(TRIES):
            answer = bench.run_sequence(key, sequence.name, arguments)
            if not answer["is_error"] or "in time" not in str(answer):
                break
        if answer["is_error"]:
            faults.append(f"{key}.{sequence.name} {arguments}: {answer}")
        if sequence.is_dangerous and any(switches(bench.state(key))):
            faults.append(f"{key}.{sequence.name} left something on")
    return faults


@pytest.mark.parametrize("key", sorted(SIMULATED))
def test_one_step_outside_is_refused_and_sends_nothing(
    tried: dict[str, Future[Tried]], key: str
) -> None:
    assert tried[key].result().outside == []


def faults_outside(bench: MatrixBench, key: str) -> list[str]:
    profile = SIMULATED[key]
    received: list[str] = []
    # A line that is still being recovered from the trial before says this meanwhile.
    recovering = {"*IDN?", profile.connection.errors.query}
    for _ in range(TRIES):
        since = bench.mark()
        wrong = [case for command in profile.commands.values() for case in refusals(command)]
        taken = [str(case) for case in wrong if not bench.run(profile, case)["is_error"]]
        received = bench.received(key, since)
        if taken or not received or not recovering.issuperset(received):
            return taken + received
    return received


def test_every_shipped_instrument_obeys_a_stop_of_the_whole_bench(
    bench: MatrixBench, tried: dict[str, Future[Tried]]
) -> None:
    assert all(one.done() for one in tried.values())
    names = {str(instrument_id): key for key, instrument_id in bench.ids.items()}
    stopped = bench.engine.stop_all()["instruments"]
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
    tried: dict[str, Future[Tried]], key: str, name: str
) -> None:
    assert tried[key].result().sweeps[name] == ""


def fault_of_sweep(bench: MatrixBench, key: str, command: Command) -> str:
    profile, name = SIMULATED[key], command.name
    assert command.sweep is not None
    case = smallest(command)
    bound = effective_bound(command.parameters[command.sweep.parameter], case.arguments)
    assert bound.min is not None
    assert bound.max is not None
    span = bound.max - bound.min
    target = bound.min + span / 4
    status: dict[str, Any] = {}
    for _ in range(TRIES):
        if not bench.is_prepared(profile, case):
            continue
        status = wait_ended(bench, start(bench, key, name, target, span / 2))
        if status["status"] == "completed":
            break
        # One that has failed keeps its parameter until somebody stops it.
        bench.engine.tool("stop_sweep", sweep_id=status["sweep_id"])
    if status.get("status") != "completed":
        return f"it did not arrive: {status}"
    for _ in range(TRIES):
        sweep_id = start(bench, key, name, bound.min + span / 2, span / 1000)
        since = bench.mark()
        stopped = bench.engine.tool("stop_sweep", sweep_id=sweep_id, hold=False)
        if stopped["result"]["status"] == "stopped":
            break
        # A busy machine: the simulation has not answered the abort's question.
        if "did not answer in time" not in str(stopped["result"]["error"]):
            return f"it was not stopped: {stopped}"
    else:
        return f"it was not stopped: {stopped}"
    # Without an abort of its own a sweep ends by its unit's.
    steps = command.sweep.abort or profile.abort
    abort = [render(step.send, command.parameters, case.arguments) for step in steps]
    received = bench.received(key, since)
    found = [line for line in received if line in abort]
    # A selection is sent once more before each query that it belongs to.
    is_aborted = any(found[at : at + len(abort)] == abort for at in range(len(found)))
    return "" if is_aborted else f"it was not aborted by {abort}: {received}"
