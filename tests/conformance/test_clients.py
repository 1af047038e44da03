"""Everybody's clients against a real engine process, each through the whole list.

Connect, list, call, progress (of start_stream too), list_changed, cancel, reconnect when the engine
has been restarted. What a client does not offer stands in docs/conformance.md.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.restarting_bench import RestartingBench, restarting_bench, two_supplies
from tests.bench.sdk_session import CLIENTS, NODE_CLIENTS, SdkSession, sdk_session
from tests.bench.sim_bench import SimBench
from tests.promises import promise

ALL = [*CLIENTS, *NODE_CLIENTS]
STATELESS = {"python-sdk-2", "fastmcp", "typescript-sdk-2"}
DEAF = {"fastmcp"}
"""Its stateless mode offers no way to listen for changes."""
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


@promise("clients.official")
@pytest.mark.parametrize("name", ALL)
def test_a_client_does_the_whole_list_and_comes_back_after_a_restart(
    bench: RestartingBench, name: str
) -> None:
    with sdk_session(name, bench.mcp_url) as client:
        revision = "2026-07-28" if name in STATELESS else "2025-11-25"
        assert client.greeting == {"protocol": revision, "server": "edged"}
        lists_and_calls(client)
        hears_progress(client)
        if name not in DEAF:
            hears_of_changes(client, bench)
        frees_the_instrument_when_it_gives_up(client, bench)
        bench.restart()
        after = client.order("call", name="get_status", arguments={})
        assert ("ok" in after) is (name in STATELESS), after
        client.reconnect()
        assert client.greeting == {"protocol": revision, "server": "edged"}
        lists_and_calls(client)
        if name not in DEAF:
            hears_of_changes(client, bench)


def lists_and_calls(client: SdkSession) -> None:
    (setter,) = setters(client)
    done = client.call(setter, channel=2, voltage=1.5)
    assert done["data"]["set"]["voltage"] == 1.5
    assert "no tool 'nope'" in client.refused("nope")
    far = client.do("call", name=setter, arguments={"channel": 1, "voltage": 99})
    assert (far["is_error"], "over the maximum 32 V" in far["text"]) == (True, True)
    # Its tool has an output schema, by which some clients judge errors, too.
    lost = client.do("call", name="get_sweep_status", arguments={"sweep_id": "nosuch"})
    assert (lost["is_error"], "no sweep 'nosuch'" in lost["text"]) == (True, True)


def setters(client: SdkSession) -> list[str]:
    """One a supply; its name depends on how many of its kind there have been."""
    return [tool for tool in client.do("list") if tool.endswith("__set_voltage")]


def hears_progress(client: SdkSession) -> None:
    streamed = client.do("progress", name="start_stream", arguments=STREAM | {"duration_ms": 400})
    counted = [step for step, _ in streamed["progress"]]
    assert counted == list(range(1, len(counted) + 1))
    # A busy machine skips points of the grid, and counts them.
    assert json.loads(streamed["text"])["count"] == len(counted) >= 2
    assert json.loads(streamed["progress"][0][1])["unit"] == "V"


def hears_of_changes(client: SdkSession, bench: RestartingBench) -> None:
    bench.plug()
    assert client.do("wait_list_changed", within_s=WITHIN_S)
    assert len(setters(client)) == 2
    bench.unplug()
    assert client.do("wait_list_changed", within_s=WITHIN_S)
    assert len(setters(client)) == 1


def frees_the_instrument_when_it_gives_up(client: SdkSession, bench: RestartingBench) -> None:
    endless = STREAM | {"duration_ms": 600_000}
    assert client.do("cancel", name="start_stream", arguments=endless, after_s=0.3) == "cancelled"
    deadline = time.monotonic() + WITHIN_S
    while bench.engine.tool("get_status")["result"]["streams"]:
        assert time.monotonic() < deadline, "the stream runs on"
        time.sleep(0.05)  # noqa: TID251 - a real engine has no event to wait for
    hung = {"instrument_id": "psu1", "scpi_command": "DIAG:DELAY? 50"}
    assert client.do("cancel", name="send_scpi", arguments=hung, after_s=0.3) == "cancelled"
    answer = client.call("send_scpi", instrument_id="psu1", scpi_command="*IDN?")
    assert "DP832A" in answer["response"]
