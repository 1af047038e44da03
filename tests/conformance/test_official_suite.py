"""The official conformance suites, stable and pre-release, in server mode.

Against the real endpoint with the tools and resources they ask for; and, where a scenario needs
none of those, against a real engine, whose every message they hold against the schema.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.engine_process import engine_process
from tests.conformance.official_suite import (
    Check,
    excuses,
    fixture_server,
    run_suite,
    unexcused,
)
from tests.promises import promise

RUNS = [
    ("0.1", "2025-06-18"),
    ("0.1", "2025-11-25"),
    ("0.2 (pre-release)", "2025-03-26"),
    ("0.2 (pre-release)", "2025-06-18"),
    ("0.2 (pre-release)", "2025-11-25"),
    ("0.2 (pre-release)", "2026-07-28"),
    ("0.2 (pre-release)", ""),
]
OF_ANY_SERVER = {
    "caching",
    "dns-rebinding-protection",
    "http-header-validation",
    "input-required-result-unsupported-methods",
    "ping",
    "resources-list",
    "server-initialize",
    "server-session-lifecycle",
    "server-sse-multiple-streams",
    "server-stateless",
    "tools-list",
}
"""Scenarios that need no fixture."""


@pytest.fixture(scope="module")
def fixture_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], list[Check]]:
    with fixture_server() as url:
        return {
            (suite, version): run_suite(suite, version, url, tmp_path_factory.mktemp("suite"))
            for suite, version in RUNS
        }


@promise("revisions.official-suite")
@pytest.mark.parametrize(("suite", "version"), RUNS)
def test_every_scenario_that_applies_passes(
    fixture_runs: dict[tuple[str, str], list[Check]], suite: str, version: str
) -> None:
    assert unexcused(fixture_runs[suite, version]) == []


@promise("revisions.official-suite")
def test_what_the_page_excuses_does_fail(
    fixture_runs: dict[tuple[str, str], list[Check]],
) -> None:
    failed = [check for run in fixture_runs.values() for check in run if not check.ok]
    seen = {check.scenario for check in failed} | {check.full_name for check in failed}
    assert sorted(set(excuses()) - seen) == []


@promise("revisions.official-suite")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
def test_a_real_engine_passes_what_needs_no_fixture(tmp_path: Path, version: str) -> None:
    with engine_process(tmp_path, "--instruments", "psu1=rigol_dp832") as engine:
        checks = run_suite("0.2 (pre-release)", version, engine.mcp_url, tmp_path / "suite")
    of_any = [c for c in checks if c.scenario in OF_ANY_SERVER or c.name == "wire-schema-valid"]
    assert len(of_any) >= 6
    needs_fixture = {
        "sep-2575-http-server-no-independent-requests-on-stream",
        "sep-2575-server-no-log-without-loglevel",
    }
    assert unexcused([check for check in of_any if check.name not in needs_fixture]) == []
