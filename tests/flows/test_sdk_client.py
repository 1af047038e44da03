"""Other people's clients against a real engine, old and new side by side: their code decides."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.engine_process import EngineProcess, running_engine
from tests.bench.sdk_session import CLIENTS, SdkSession, sdk_session
from tests.bench.sim_bench import SimBench, running_bench
from tests.promises import promise

# fastmcp's stateless client offers no way to listen for changes.
LISTENING = [name for name in CLIENTS if name != "fastmcp"]


@contextlib.contextmanager
def bench_of_two(directory: Path) -> Iterator[tuple[SimBench, EngineProcess]]:
    """An engine with two supplies of one kind, the second of which is switched off."""
    with running_bench("--instruments", "psu1=rigol_dp832,psu2=rigol_dp832") as bench:
        bench.fault("psu2", "refuse")
        config = {
            "INSTRUMENTS": [
                {"address": bench.address("psu1"), "name": "psu1"},
                {"address": bench.address("psu2"), "name": "psu2"},
            ],
            "GONE_AFTER_SEC": 1,
        }
        with running_engine(directory, sim=False, config=config) as engine:
            yield bench, engine


@promise("clients.official")
@promise("list-changed.second-instance")
@promise("names.never-retarget")
def test_official_clients_hear_side_by_side_of_instruments_that_come_and_go(
    tmp_path: Path,
) -> None:
    with bench_of_two(tmp_path) as (bench, engine), contextlib.ExitStack() as stack:
        clients = {
            name: stack.enter_context(sdk_session(name, engine.mcp_url)) for name in LISTENING
        }
        for client in clients.values():
            assert "rigol_dp832__measure_voltage" in client.do("list")

        bench.clear("psu2")
        engine.tool("scan_instruments")
        for name, client in clients.items():
            assert client.do("wait_list_changed", within_s=5), name
            names = client.do("list")
            assert "rigol_dp832__set_voltage" not in names
            setters = sorted(tool for tool in names if tool.endswith("__set_voltage"))
            assert len(setters) == 2
            why = client.refused("rigol_dp832__set_voltage", channel=1, voltage=1)
            assert any(f"now called '{tool}'" in why for tool in setters)

        bench.fault("psu2", "refuse")
        for name, client in clients.items():
            assert client.do("wait_list_changed", within_s=20), name
        left = [tool for tool in client.do("list") if tool.endswith("__set_voltage")]
        assert len(left) == 1
        mark = bench.mark()
        assert client.call(left[0], channel=1, voltage=2.5)["success"] is True
        assert any("VOLT 2.5" in text for text in bench.received("psu1", since=mark))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    with running_engine(
        tmp_path_factory.mktemp("sdk"), "--instruments", "psu1=rigol_dp832"
    ) as running:
        yield running


@promise("clients.official")
@promise("revisions.all-at-one-endpoint")
@pytest.mark.parametrize("name", CLIENTS)
def test_an_official_client_calls_hears_progress_gives_up_and_goes_on(
    engine: EngineProcess, name: str
) -> None:
    with sdk_session(name, engine.mcp_url) as client:
        expected = "2026-07-28" if name in ("python-sdk-2", "fastmcp") else "2025-11-25"
        assert client.greeting == {"protocol": expected, "server": "edged"}
        done = client.call("rigol_dp832__set_voltage", channel=2, voltage=1.5)
        assert done["data"]["set"]["voltage"] == 1.5
        _refuses_what_it_must(client)
        streamed = client.do(
            "progress",
            name="start_stream",
            arguments={
                "instrument_id": "psu1",
                "command_name": "measure_voltage",
                "parameters": {"channel": 1},
                "interval_ms": 20,
                "duration_ms": 100,
            },
        )
        counted = [step for step, _ in streamed["progress"]]
        assert counted == list(range(1, len(counted) + 1))
        assert json.loads(streamed["text"])["count"] == len(counted) >= 4
        hung = {"instrument_id": "psu1", "scpi_command": "DIAG:DELAY? 1"}
        assert client.do("cancel", name="send_scpi", arguments=hung, after_s=0.2) == "cancelled"
        answer = client.call("send_scpi", instrument_id="psu1", scpi_command="*IDN?")
        assert "DP832A" in answer["response"]


def _refuses_what_it_must(client: SdkSession) -> None:
    assert "no tool 'nope'" in client.refused("nope")
    far = client.do(
        "call", name="rigol_dp832__set_voltage", arguments={"channel": 1, "voltage": 99}
    )
    assert far["is_error"] is True
    assert "over the maximum 32 V" in far["text"]
