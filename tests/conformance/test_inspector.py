"""The MCP Inspector's command lines against a real engine process.

They show no progress, and cancel by going away; see docs/conformance.md.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.restarting_bench import RestartingBench, restarting_bench, two_supplies
from tests.bench.sim_bench import SimBench
from tests.conformance.inspector import Inspector
from tests.promises import promise

WITHIN_S = 20.0
STREAM = {
    "instrument_id": "psu1",
    "command_name": "measure_voltage",
    "parameters": {"channel": 1},
    "interval_ms": 20,
}


@pytest.fixture(scope="module")
def sim() -> Iterator[SimBench]:
    with two_supplies() as running:
        yield running


@pytest.fixture
def bench(sim: SimBench, tmp_path: Path) -> Iterator[RestartingBench]:
    with restarting_bench(sim, tmp_path) as running:
        yield running


@pytest.fixture(params=["legacy", "modern"])
def inspector(request: pytest.FixtureRequest, bench: RestartingBench, tmp_path: Path) -> Inspector:
    return Inspector(bench.mcp_url, request.param, tmp_path)


@promise("clients.official")
def test_the_inspector_lists_calls_and_gives_up(
    bench: RestartingBench, inspector: Inspector
) -> None:
    names = [tool["name"] for tool in inspector.ask("--method", "tools/list", "--strict")["tools"]]
    assert "rigol_dp832__set_voltage" in names
    done = inspector.call("rigol_dp832__set_voltage", channel=2, voltage=1.5)
    assert done["data"]["set"]["voltage"] == 1.5
    streamed = inspector.call(
        "start_stream", "--tool-metadata", "progressToken=p1", **STREAM, duration_ms=400
    )
    assert streamed["count"] >= 2

    endless = inspector.start_call("start_stream", **STREAM, duration_ms=600_000)
    wait_for_streams(bench, 1)
    endless.send_signal(signal.SIGINT)
    endless.communicate(timeout=WITHIN_S)
    wait_for_streams(bench, 0)


@promise("clients.official")
def test_the_inspectors_kept_connection_sees_changes_and_outlives_a_restart(
    bench: RestartingBench, inspector: Inspector
) -> None:
    with inspector.connection():
        wait_for_setters(inspector, 1)
        bench.plug()
        wait_for_setters(inspector, 2)
        bench.unplug()
        wait_for_setters(inspector, 1)
        bench.restart()
        wait_for_session(inspector)
        wait_for_setters(inspector, 1)
        status = inspector.kept("tools/call", "get_status")
        assert status["isError"] is False


def wait_for_session(inspector: Inspector) -> None:
    """Its stream comes back a second after it broke, and finds that the session is gone.

    What is called before, while an engine that starts in less is there already, is only told so.
    """
    deadline = time.monotonic() + WITHIN_S
    while True:
        try:
            inspector.kept("tools/list")
        except AssertionError as refused:
            if "initialize again" not in str(refused) or time.monotonic() > deadline:
                raise
        else:
            return


def wait_for_setters(inspector: Inspector, count: int) -> None:
    """The kept connection lists this many; it keeps its list until it hears of a change."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        tools = inspector.kept("tools/list")["tools"]
        if sum(tool["name"].endswith("__set_voltage") for tool in tools) == count:
            return
        assert time.monotonic() < deadline, f"it does not list {count} supplies"


def wait_for_streams(bench: RestartingBench, count: int) -> None:
    deadline = time.monotonic() + WITHIN_S
    while len(bench.engine.tool("get_status")["result"]["streams"]) != count:
        assert time.monotonic() < deadline, f"there are not {count} streams"
        time.sleep(0.05)  # noqa: TID251 - a real engine has no event to wait for
