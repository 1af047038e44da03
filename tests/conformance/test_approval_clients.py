"""Other people's clients are asked for approval, and their person answers: both generations."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.sdk_session import SdkSession, sdk_session
from tests.conformance.inspector import Inspector
from tests.promises import promise

BENCH = "format: 1\npsu1: {confirm: [output_on], confirm_ttl_s: 30}\n"
ON = {"instrument_id": "psu1", "command_name": "output_on", "parameters": {"channel": 1}}
WITHIN_S = 20.0
YES = {"action": "accept", "content": {"approve": True}}
NO = {"action": "decline"}
CLIENTS = {
    "python-sdk-1": "2025-11-25",
    "python-sdk-2": "2026-07-28",
    "python-sdk-2-legacy": "2025-11-25",
    "typescript-sdk-1": "2025-11-25",
    "typescript-sdk-2": "2026-07-28",
    "typescript-sdk-2-legacy": "2025-11-25",
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    place = tmp_path_factory.mktemp("approvals")
    (place / "bench.yaml").write_text(BENCH)
    with engine_process(place) as running:
        yield running


@promise("approval.by-client")
@promise("approval.rounds")
@pytest.mark.parametrize("name", CLIENTS)
def test_a_clients_person_is_asked_and_what_is_said_counts(
    engine: EngineProcess, tmp_path: Path, name: str
) -> None:
    with sdk_session(name, f"http://127.0.0.1:{engine.ports['mcp_port']}/mcp") as client:
        assert client.greeting["protocol"] == CLIENTS[name]
        client.do("person", says=NO)
        said = client.do("call", name="execute_command", arguments=ON)
        assert said["is_error"]
        assert "approval_denied" in said["text"]
        assert not output(client)
        (asked,) = client.do("person", says=YES)
        assert ":OUTP CH1,ON" in asked
        assert client.call("execute_command", **ON)["success"] is True
        assert len(client.do("person", says=NO)) == 1
        assert output(client)
        client.call("execute_command", **{**ON, "command_name": "output_off"})
        assert client.do("person", says=NO) == []


def output(client: SdkSession) -> bool:
    asked: dict[str, Any] = {**ON, "command_name": "get_output"}
    told = client.call("execute_command", **asked)
    return json.dumps(told["data"]) == "true"


@promise("approval.at-the-bench")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspectors_command_line_waits_for_the_bench(
    engine: EngineProcess, tmp_path: Path, era: str
) -> None:
    """It has nobody to ask, says so, and its calls are answered at the bench."""
    inspector = Inspector(f"http://127.0.0.1:{engine.ports['mcp_port']}/mcp", era, tmp_path)
    calling = inspector.start_call("rigol_dp832__output_on", channel=1)
    deadline = time.monotonic() + WITHIN_S
    while not (waiting := engine.rpc("approvals.list")["approvals"]):
        assert calling.poll() is None, calling.communicate()
        assert time.monotonic() < deadline, "nobody is asked"
        time.sleep(0.05)  # noqa: TID251 - a real engine has no event to wait for
    assert ":OUTP CH1,ON" in waiting[0]["text"]
    engine.rpc("approvals.approve", approval_id=waiting[0]["approval_id"], by="anna")
    told, complaints = calling.communicate(timeout=WITHIN_S)
    assert calling.returncode == 0, complaints
    assert '"success":true' in told.replace(" ", "").replace("\\", "")
    inspector.call("rigol_dp832__output_off", channel=1)
