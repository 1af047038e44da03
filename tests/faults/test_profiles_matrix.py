"""Every shipped profile against its simulation, each argument at both ends and one step outside."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bench.engine_process import running_engine
from tests.bench.profile_matrix import (
    SIMULATED,
    MatrixBench,
    cases,
    instruments_flag,
    refusals,
)

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MatrixBench]:
    directory = tmp_path_factory.mktemp("matrix")
    with running_engine(directory, "--instruments", instruments_flag()) as engine:
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
    since = bench.mark()
    taken = []
    for command in profile.commands.values():
        taken += [case for case in refusals(command) if not bench.run(profile, case)["is_error"]]
    assert taken == []
    assert bench.received(key, since) == []
