"""Other people's clients against a real engine, each by itself: their code decides."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.bench.engine import Engine, running_engine
from tests.bench.sdk_session import CLIENTS, SdkSession, sdk_session
from tests.bench.waiting import wait_for
from tests.promises import promise

STREAM = {
    "instrument_id": "psu1",
    "command_name": "measure_voltage",
    "parameters": {"channel": 1},
    "interval_ms": 20,
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(
        tmp_path_factory.mktemp("sdk"), "--instruments", "psu1=rigol_dp832"
    ) as running:
        yield running


@promise("clients.official")
@promise("revisions.all-at-one-endpoint")
@pytest.mark.parametrize("name", CLIENTS)
def test_an_official_client_calls_hears_progress_gives_up_and_goes_on(
    engine: Engine, name: str
) -> None:
    with sdk_session(name, engine.mcp_url) as client:
        expected = "2026-07-28" if name in ("python-sdk-2", "fastmcp") else "2025-11-25"
        assert client.greeting == {"protocol": expected, "server": "edged"}
        done = client.call("rigol_dp832__set_voltage", channel=2, voltage=1.5)
        assert done["data"]["set"]["voltage"] == 1.5
        _refuses_what_it_must(client)
        short = STREAM | {"duration_ms": 200}
        streamed = client.do("progress", name="start_stream", arguments=short)
        counted = [step for step, _ in streamed["progress"]]
        assert counted == list(range(1, len(counted) + 1))
        assert json.loads(streamed["text"])["count"] == len(counted) >= 2
        endless = STREAM | {"duration_ms": 600_000}
        given_up = client.do("cancel", name="start_stream", arguments=endless, after_s=0.1)
        assert given_up == "cancelled"
        _ends_its_streams(engine)
        hung = {"instrument_id": "psu1", "scpi_command": "DIAG:DELAY? 50"}
        assert client.do("cancel", name="send_scpi", arguments=hung, after_s=0.1) == "cancelled"
        answer = client.call("send_scpi", instrument_id="psu1", scpi_command="*IDN?")
        assert "DP832A" in answer["response"]
        _ends_its_streams(engine)


def _ends_its_streams(engine: Engine) -> None:
    wait_for(lambda: not engine.tool("get_status")["result"]["streams"])


def _refuses_what_it_must(client: SdkSession) -> None:
    assert "no tool 'nope'" in client.refused("nope")
    far = client.do(
        "call", name="rigol_dp832__set_voltage", arguments={"channel": 1, "voltage": 99}
    )
    assert far["is_error"] is True
    assert "over the maximum 32 V" in far["text"]
