"""Every shipped profile against its simulation, by the road that a caller takes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from edged.profiles.model import Profile
from tests.bench.engine import running_engine
from tests.bench.profile_matrix import (
    EXCUSED,
    SIMULATED,
    TRIES,
    MatrixBench,
    instruments_flag,
    smallest,
    switches,
)
from tests.promises import promise


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MatrixBench]:
    directory = tmp_path_factory.mktemp("shipped")
    with running_engine(directory, "--instruments", instruments_flag()) as engine:
        yield MatrixBench.of(engine)


def faults_of(bench: MatrixBench, profile: Profile) -> list[str]:
    commands = [c for c in profile.commands.values() if not c.requires_sweep]
    return [fault for c in commands if (fault := bench.fault_of(profile, smallest(c)))]


def sequence_faults_of(bench: MatrixBench, profile: Profile) -> list[str]:
    """What went wrong with a sequence, or was still on when it had ended."""
    faults = []
    for sequence in profile.sequences.values():
        arguments = smallest(sequence).arguments
        if (profile.key, sequence.name, "minimum") in EXCUSED:
            continue
        for _ in range(TRIES):
            answer = bench.run_sequence(profile.key, sequence.name, arguments)
            if not answer["is_error"] or "in time" not in str(answer):
                break
        if answer["is_error"]:
            faults.append(f"{profile.key}.{sequence.name} {arguments}: {answer}")
        if sequence.is_dangerous and any(switches(bench.state(profile.key))):
            faults.append(f"{profile.key}.{sequence.name} left something on")
    return faults


@promise("profile.every-command-works")
def test_every_command_works_with_its_smallest_arguments(bench: MatrixBench) -> None:
    with ThreadPoolExecutor(len(SIMULATED)) as callers:
        found = callers.map(lambda profile: faults_of(bench, profile), SIMULATED.values())
        assert [fault for faults in found for fault in faults] == []


def test_every_sequence_runs_and_a_dangerous_one_ends_with_all_off(bench: MatrixBench) -> None:
    with ThreadPoolExecutor(len(SIMULATED)) as callers:
        found = callers.map(lambda p: sequence_faults_of(bench, p), SIMULATED.values())
        assert [fault for faults in found for fault in faults] == []
