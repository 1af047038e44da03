"""The HiSLIP server seen from another machine, which is a network namespace with a wire between."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.faults.hislip_network import VANISHED_WITHIN_S
from tests.faults.network_bench import ALL_OF_IT_S, REPOSITORY
from tests.promises import promise


def seen_in(directory: Path, *words: str) -> Mapping[str, Any]:
    done = subprocess.run(
        ["unshare", "-rn", sys.executable, "-m", "tests.faults.hislip_network", *words],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=ALL_OF_IT_S,
        check=False,
    )
    log = (directory / "supervisor.log").read_text()[-4_000:]
    assert done.returncode == 0, done.stderr + log
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    directory = tmp_path_factory.mktemp("network")
    return seen_in(directory, str(directory))


@promise("hislip.supervised")
def test_both_connections_of_a_session_are_carried(seen: Mapping[str, Any]) -> None:
    assert "DP832A" in seen["by ip"]["answer"]
    assert seen["by ip"]["has_lock"]


@promise("hislip.supervised")
def test_the_record_has_the_address_that_a_program_came_from(seen: Mapping[str, Any]) -> None:
    assert seen["who"] == ["HiSLIP zz at 10.77.0.2"]


@promise("hislip.supervised")
def test_who_comes_from_a_network_that_is_not_allowed_is_told_so(seen: Mapping[str, Any]) -> None:
    assert "ALLOWED_NETWORKS" in seen["outside"]["fatal"]


@promise("hislip.names")
def test_an_unknown_name_is_told_those_there_are_over_the_network(seen: Mapping[str, Any]) -> None:
    assert "hislip_dmm1, hislip_psu1, hislip_scope1" in seen["unknown"]["fatal"]


@promise("hislip.supervised")
def test_an_engine_that_is_away_is_answered_for(seen: Mapping[str, Any]) -> None:
    assert "The engine is not running" in seen["away"]["fatal"]


@promise("hislip.supervised")
def test_the_supervisor_tells_where_the_port_is_open(seen: Mapping[str, Any]) -> None:
    assert seen["supervisor.json"]["port"] == 4880
    assert seen["supervisor.json"]["addresses"]


@promise("hislip.bounds")
def test_a_program_whose_computer_vanished_is_noticed(seen: Mapping[str, Any]) -> None:
    assert seen["vanished after s"] < VANISHED_WITHIN_S


@promise("hislip.supervised")
def test_without_expose_visa_nobody_reaches_it_from_the_network(tmp_path: Path) -> None:
    told = seen_in(tmp_path, str(tmp_path), "closed")
    assert told["by ip"] == {"error": "ConnectionRefusedError"}
    assert "DP832A" in told["loopback"]["answer"]
