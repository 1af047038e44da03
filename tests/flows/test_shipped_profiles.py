"""Every shipped profile against its simulation, by the road that a caller takes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from edged.profiles.model import Profile
from tests.bench.engine_process import running_engine
from tests.bench.profile_matrix import SIMULATED, MatrixBench, instruments_flag, smallest


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MatrixBench]:
    directory = tmp_path_factory.mktemp("shipped")
    with running_engine(directory, "--instruments", instruments_flag()) as engine:
        yield MatrixBench.of(engine)


def faults_of(bench: MatrixBench, profile: Profile) -> list[str]:
    commands = [c for c in profile.commands.values() if not c.requires_sweep]
    return [fault for c in commands if (fault := bench.fault_of(profile, smallest(c)))]


def test_every_command_works_with_its_smallest_arguments(bench: MatrixBench) -> None:
    with ThreadPoolExecutor(len(SIMULATED)) as callers:
        found = callers.map(lambda profile: faults_of(bench, profile), SIMULATED.values())
        assert [fault for faults in found for fault in faults] == []
