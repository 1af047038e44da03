"""The official Python SDK's client against a real engine: other people's code decides."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench.engine_process import REPOSITORY, running_engine
from tests.bench.sim_bench import running_bench
from tests.promises import promise

PYTHON = REPOSITORY / ".venv-clients" / "mcp1" / "bin" / "python"
SCRIPT = REPOSITORY / "tests" / "clients" / "mcp1_session.py"


class SdkSession:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.greeting = self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the client ended"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def order(self, what: str, **more: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": what, **more}) + "\n")
        self.process.stdin.flush()
        return self._read()

    def do(self, what: str, **more: Any) -> Any:
        answer = self.order(what, **more)
        assert "ok" in answer, answer
        return answer["ok"]

    def refused(self, name: str, **arguments: Any) -> str:
        """The protocol error that a call meets."""
        answer = self.order("call", name=name, arguments=arguments)
        assert "error" in answer, answer
        return str(answer["error"])

    def call(self, name: str, **arguments: Any) -> Any:
        result = self.do("call", name=name, arguments=arguments)
        assert result["is_error"] is False, result
        return json.loads(result["text"])


@contextlib.contextmanager
def sdk_session(url: str) -> Iterator[SdkSession]:
    process = subprocess.Popen(
        [str(PYTHON), str(SCRIPT), url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield SdkSession(process)
    finally:
        with contextlib.suppress(BrokenPipeError):
            if process.stdin:
                process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


@promise("clients.python-sdk-1")
@promise("list-changed.second-instance")
@promise("names.never-retarget")
def test_the_sdk_client_lists_calls_and_hears_of_instruments_that_come_and_go(
    tmp_path: Path,
) -> None:
    with running_bench("--instruments", "psu1=rigol_dp832,psu2=rigol_dp832") as bench:
        bench.fault("psu2", "refuse")
        config = {
            "INSTRUMENTS": [
                {"address": bench.address("psu1"), "name": "psu1"},
                {"address": bench.address("psu2"), "name": "psu2"},
            ],
            "GONE_AFTER_SEC": 1,
        }
        with (
            running_engine(tmp_path, sim=False, config=config) as engine,
            sdk_session(engine.mcp_url) as client,
        ):
            assert client.greeting["server"] == "edged"
            assert "rigol_dp832__measure_voltage" in client.do("list")
            done = client.call("rigol_dp832__set_voltage", channel=2, voltage=1.5)
            assert done["success"] is True

            bench.clear("psu2")
            engine.tool("scan_instruments")
            assert client.do("wait_list_changed", within_s=5)
            names = client.do("list")
            assert "rigol_dp832__set_voltage" not in names
            setters = sorted(name for name in names if name.endswith("__set_voltage"))
            assert len(setters) == 2
            why = client.refused("rigol_dp832__set_voltage", channel=1, voltage=1)
            assert any(f"now called '{name}'" in why for name in setters)

            bench.fault("psu2", "refuse")
            assert client.do("wait_list_changed", within_s=20)
            left = [name for name in client.do("list") if name.endswith("__set_voltage")]
            assert len(left) == 1
            mark = bench.mark()
            assert client.call(left[0], channel=1, voltage=2.5)["success"] is True
            assert any("VOLT 2.5" in text for text in bench.received("psu1", since=mark))


def test_the_sdk_client_hears_every_point_of_a_stream_and_its_result(tmp_path: Path) -> None:
    with (
        running_engine(tmp_path, "--instruments", "psu1=rigol_dp832") as engine,
        sdk_session(engine.mcp_url) as session,
    ):
        answer = session.do(
            "watch",
            name="start_stream",
            arguments={
                "instrument_id": "psu1",
                "command_name": "measure_voltage",
                "parameters": {"channel": 1},
                "interval_ms": 50,
                "duration_ms": 500,
            },
        )
    result = json.loads(answer["text"])
    assert result["status"] == "ended"
    assert [number for number, _ in answer["heard"]] == list(range(1, result["count"] + 1))
    assert json.loads(answer["heard"][-1][1]) == result["last"]
