"""The supervisor seen from another machine, which is a network namespace with a wire between."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from tests.bench.waiting import HANGS_S
from tests.faults.network_bench import ALL_OF_IT_S, REPOSITORY
from tests.promises import promise


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    directory = tmp_path_factory.mktemp("network")
    done = subprocess.run(
        ["unshare", "-rn", sys.executable, "-m", "tests.faults.network_bench", str(directory)],
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


@promise("network.no-configuration")
@pytest.mark.parametrize("how", ["by ip", "by name"])
def test_a_machine_on_the_private_network_needs_no_configuration(
    seen: Mapping[str, Any], how: str
) -> None:
    status, _, body = seen[how]
    assert status == 200
    assert body["result"]["serverInfo"]["name"] == "edged"


@pytest.mark.parametrize("how", ["foreign host", "foreign origin", "outside"])
def test_who_comes_under_a_foreign_name_or_from_a_foreign_network_gets_403(
    seen: Mapping[str, Any], how: str
) -> None:
    status, _, body = seen[how]
    assert status == 403
    assert "error" in body


@promise("supervisor.away-at-once")
@pytest.mark.parametrize("where", ["away, private", "away, loopback"])
def test_an_engine_that_was_killed_is_answered_for_at_once(
    seen: Mapping[str, Any], where: str
) -> None:
    status, _, body = seen[where]
    assert status == 503
    # One of a hundred may meet a busy machine.
    assert seen["median s"] < 1.0
    assert body["error"]["code"] == -32600


@promise("supervisor.restarts")
def test_the_engine_is_back_by_itself_and_no_descriptor_is_left(seen: Mapping[str, Any]) -> None:
    # How soon is for `benchmarks.restart` to say: this machine may be busy.
    assert seen["back after s"] < HANGS_S
    assert seen["descriptors grown by"] <= 2


def test_an_engine_that_hangs_is_killed_and_started_again(seen: Mapping[str, Any]) -> None:
    assert seen["back after hang s"] < HANGS_S


def test_an_address_that_comes_up_later_is_listened_on(seen: Mapping[str, Any]) -> None:
    assert seen["new address after s"] < HANGS_S
