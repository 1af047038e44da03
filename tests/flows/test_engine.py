"""The engine as its users meet it: a real process on a simulated bench."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from jsonschema import Draft202012Validator

from edged.service import START_FILE
from tests.bench import command_line
from tests.bench.answering_server import answering_server
from tests.bench.command_line import NO_PROFILES
from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import REPOSITORY, engine_process
from tests.bench.mcp_client import Answer
from tests.bench.mcp_rules import holds
from tests.bench.waiting import HANGS_S, wait_for
from tests.promises import promise

SUPPLY = "psu1"
ACCEPT = "application/json, text/event-stream"
COMPOSITION = {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$ref"}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(tmp_path_factory.mktemp("engine")) as running:
        yield running


@pytest.fixture(autouse=True)
def healthy_bench(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "engine" in request.fixturenames:
        request.getfixturevalue("engine").sim("clear")


def mcp(
    engine: Engine, method: str, version: str = "", **params: Any
) -> tuple[int, dict[str, Any]]:
    """One sessionless POST, as curl sends it."""
    more = {"MCP-Protocol-Version": version} if version else {}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    request = urllib.request.Request(
        engine.mcp_url,
        body.encode(),
        {"Content-Type": "application/json", "Accept": ACCEPT, **more},
    )
    try:
        with urllib.request.urlopen(request, timeout=HANGS_S) as reply:
            return reply.status, Answer.of(reply).messages()[-1]
    except urllib.error.HTTPError as refused:
        return refused.code, Answer.of(refused).messages()[-1]


def call(engine: Engine, tool: str, **arguments: Any) -> dict[str, Any]:
    """One tools/call: its result."""
    status, reply = mcp(engine, "tools/call", name=tool, arguments=arguments)
    assert status == 200
    assert "result" in reply, reply
    result: dict[str, Any] = reply["result"]
    return result


def data_of(result: dict[str, Any]) -> Any:
    return json.loads(result["content"][0]["text"])


def arrived(engine: Engine, since: int, name: str = SUPPLY) -> list[str]:
    """What the simulated instrument was sent since then."""
    entries = engine.sim("log", instrument=name, since=since)["entries"]
    return [entry["text"] for entry in entries if entry["direction"] == "in"]


def mark(engine: Engine) -> int:
    last: int = engine.sim("log", limit=1)["last"]
    return last


@promise("mcp.smoke")
def test_initialize_answers_200_and_a_result(engine: Engine) -> None:
    status, reply = mcp(
        engine,
        "initialize",
        protocolVersion="2025-03-26",
        capabilities={},
        clientInfo={"name": "test", "version": "0"},
    )
    assert status == 200
    assert reply["result"]["protocolVersion"] == "2025-03-26"


@promise("mcp.smoke")
def test_the_engine_prints_its_real_addresses_last_and_smoke_finds_them(tmp_path: Path) -> None:
    """The ports are free ones here, so what is printed cannot be the default."""
    with engine_process(tmp_path) as engine:
        page = engine.mcp_url.removesuffix(engine.ports["mcp_path"]) + "/bench"
        printed = [
            line for line in engine.log.read_text().splitlines() if "  http://127.0.0.1" in line
        ]
        assert [line.split()[-1] for line in printed] == [engine.rpc_url, engine.mcp_url, page]
        before, _, after = engine.log.read_text().partition(printed[0])
        assert "engine_started" in before
        assert after.strip().splitlines()[:2] == [line.strip() for line in printed[1:]]
        (tmp_path / "var").symlink_to(engine.state_dir)
        done = subprocess.run(
            ["bash", str(REPOSITORY / "tests" / "smoke.sh")],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[0] == engine.mcp_url
        assert '"protocolVersion":"2025-03-26"' in done.stdout


@promise("mcp.no-old-transport")
@pytest.mark.parametrize("path", ["/sse", "/messages", "/mcp/sse", "/"])
def test_the_old_transport_does_not_exist(engine: Engine, path: str) -> None:
    url = engine.mcp_url.replace("/mcp", path)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(url, timeout=5)
    with refused.value:
        assert refused.value.code == 404
        assert "error" in json.load(refused.value)


def test_nothing_is_rate_limited(engine: Engine) -> None:
    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(lambda _: mcp(engine, "tools/list")[0], range(300)))
    assert set(answers) == {200}


@promise("tools.static-present")
def test_the_tools_list_has_static_tools_with_all_four_hints(engine: Engine) -> None:
    tools = {tool["name"]: tool for tool in mcp(engine, "tools/list")[1]["result"]["tools"]}
    for name in ("list_instruments", "get_capabilities", "scan_instruments", "list_profiles",
                 "get_status", "execute_command", "execute_sequence", "send_scpi"):  # fmt: skip
        assert len(tools[name]["annotations"]) >= 4
        assert tools[name]["description"]
    assert tools["send_scpi"]["annotations"]["destructiveHint"] is True
    assert tools["get_status"]["annotations"]["readOnlyHint"] is True
    dynamic = [name for name in tools if name.startswith("rigol_dp832__")]
    assert "rigol_dp832__set_voltage" in dynamic
    assert tools["rigol_dp832__output_on"]["annotations"]["destructiveHint"] is True
    assert tools["rigol_dp832__set_voltage"]["annotations"]["destructiveHint"] is False
    assert tools["rigol_dp832__measure_voltage"]["annotations"]["readOnlyHint"] is True


@promise("revisions.every-rule")
@holds("tools.names", "tools.schemas", "tools.described")
def test_every_listed_tool_has_a_name_a_description_and_a_flat_schema(
    engine: Engine,
) -> None:
    for tool in mcp(engine, "tools/list")[1]["result"]["tools"]:
        assert re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", tool["name"]), tool["name"]
        assert tool["description"], tool["name"]
        schema = tool["inputSchema"]
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object", tool["name"]
        assert not COMPOSITION & set(schema), tool["name"]
        if not schema.get("properties"):
            assert schema["additionalProperties"] is False, tool["name"]


@promise("revisions.every-rule")
@holds("tools.output-schema")
def test_every_static_tool_keeps_its_output_schema(engine: Engine) -> None:
    _, listed = mcp(engine, "tools/list", version="2025-11-25")
    promised = {
        tool["name"]: Draft202012Validator(tool["outputSchema"])
        for tool in listed["result"]["tools"]
        if "outputSchema" in tool
    }
    kept: set[str] = set()

    def keeps(tool: str, **arguments: Any) -> dict[str, Any]:
        params = {"name": tool, "arguments": arguments}
        result = mcp(engine, "tools/call", version="2025-11-25", **params)[1]["result"]
        assert result["isError"] is False, result
        promised[tool].validate(result["structuredContent"])
        kept.add(tool)
        structured: dict[str, Any] = result["structuredContent"]
        return structured

    for tool in ("list_instruments", "get_capabilities", "scan_instruments", "list_profiles"):
        keeps(tool)
    keeps("send_scpi", instrument_id=SUPPLY, scpi_command="*IDN?")
    channel = {"instrument_id": SUPPLY, "parameters": {"channel": 2}}
    keeps("execute_command", **channel, command_name="measure_voltage")
    point = {"channel": 2, "voltage": 0.5, "settle_ms": 0}
    keeps(
        "execute_sequence",
        instrument_id=SUPPLY,
        sequence_name="voltage_point",
        parameters=point,
    )
    sweep = keeps(
        "start_sweep", **channel, command_name="set_voltage", target_value=9, sweep_rate=0.5
    )
    keeps("get_status")
    keeps("get_sweep_status", sweep_id=sweep["sweep_id"], points=5)
    keeps("stop_sweep", sweep_id=sweep["sweep_id"])
    stream = {"instrument_id": "scope1", "command_name": "capture_waveform"}
    done = keeps("start_stream", **stream, interval_ms=50, duration_ms=60)
    keeps("stop_stream", stream_id=done["stream_id"])
    keeps("fetch_waveform", stream_id=done["stream_id"], point_index=0)
    steps = [{"wait_s": 60}]
    plan = {"format": 1, "experiment": "x", "roles": {"s": SUPPLY}, "steps": steps}
    checked = keeps("bench__check_experiment", plan=plan)
    run = keeps("bench__start_experiment", plan_id=checked["plan_id"])
    keeps("bench__control_run", run_id=run["run_id"], action="abort")
    assert kept == set(promised)


@promise("tools.cached-state-touches-nothing")
def test_reading_what_is_known_sends_no_byte(engine: Engine) -> None:
    before = mark(engine)
    for tool in ("list_instruments", "get_capabilities", "list_profiles", "get_status"):
        assert call(engine, tool)["isError"] is False
    assert engine.sim("log", since=before)["entries"] == []


def test_list_instruments_filters_by_any_field_whatever_the_case(engine: Engine) -> None:
    found = data_of(call(engine, "list_instruments", filter="rigol tech"))
    assert {entry["alias"] for entry in found} == {"psu1", "scope1"}
    assert {entry["is_connected"] for entry in found} == {True}


def test_a_value_is_set_measured_and_read_back(engine: Engine) -> None:
    done = data_of(call(engine, "rigol_dp832__set_voltage", channel=1, voltage=5.0))
    assert done["success"] is True
    assert done["data"]["set"] == {"channel": 1, "voltage": 5.0}
    assert done["data"]["readback"] == pytest.approx(5.0, abs=0.01)
    assert data_of(call(engine, "rigol_dp832__output_on", channel=1))["success"] is True
    measured = {"data": 0.0}
    deadline = time.monotonic() + HANGS_S
    while abs(measured["data"] - 5.0) > 0.1 and time.monotonic() < deadline:
        # The output settles; a real one does too.
        measured = data_of(
            call(
                engine,
                "execute_command",
                instrument_id=SUPPLY,
                command_name="measure_voltage",
                parameters={"channel": 1},
                is_query=True,
            )
        )
    assert measured["unit"] == "V"
    assert measured["data"] == pytest.approx(5.0, abs=0.1)
    assert data_of(call(engine, "rigol_dp832__output_off", channel=1))["success"] is True


@promise("limits.nothing-sent")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"channel": 1, "voltage": 32.5}, ("voltage", "32.5", "32")),
        ({"channel": 3, "voltage": 6.0}, ("voltage", "6", "5.3")),
        ({"channel": 1, "voltage": True}, ("voltage", "true")),
        ({"channel": 1, "voltage": "5"}, ("voltage",)),
        ({"channel": 4, "voltage": 5}, ("channel", "4", "3")),
        ({"channel": 1, "voltage": 5, "volts": 5}, ("volts",)),
        ({"channel": 1}, ("voltage",)),
        ({"channel": 1.5, "voltage": 5}, ("channel",)),
    ],
)
@holds("mistake.coerced-arguments")
def test_what_fails_validation_sends_nothing_and_says_why(
    engine: Engine, arguments: dict[str, Any], words: tuple[str, ...]
) -> None:
    before = mark(engine)
    for tool, given in (
        ("rigol_dp832__set_voltage", arguments),
        (
            "execute_command",
            {"instrument_id": SUPPLY, "command_name": "set_voltage", "parameters": arguments},
        ),
    ):
        status, reply = mcp(engine, "tools/call", name=tool, arguments=given)
        assert status == 200
        assert reply["error"]["code"] == -32602
        for word in words:
            assert word in reply["error"]["message"]
    assert arrived(engine, before) == []


def test_scpi_cannot_be_smuggled_through_a_line_end(engine: Engine) -> None:
    before = mark(engine)
    _, reply = mcp(
        engine,
        "tools/call",
        name="send_scpi",
        arguments={"instrument_id": SUPPLY, "scpi_command": "*IDN?\n:OUTP CH1,ON"},
    )
    assert reply["error"]["code"] == -32602
    assert arrived(engine, before) == []


def test_an_unknown_tool_is_an_error_and_an_unknown_instrument_a_tool_error(
    engine: Engine,
) -> None:
    _, reply = mcp(engine, "tools/call", name="no_such_tool", arguments={})
    assert reply["error"]["code"] == -32602
    result = call(engine, "send_scpi", instrument_id="psu9", scpi_command="*IDN?")
    assert result["isError"] is True
    assert "psu1" in result["content"][0]["text"]


@promise("raw.refusal-in-its-shape")
def test_a_failed_send_scpi_is_an_error_in_its_shape(engine: Engine) -> None:
    # What a raw line of before left owed must not meet the fault in its place.
    call(engine, "send_scpi", instrument_id=SUPPLY, scpi_command="*IDN?")
    engine.sim("fault", instrument="psu1", kind="timeout", count=1)
    result = call(engine, "send_scpi", instrument_id=SUPPLY, scpi_command="*IDN?")
    assert result["isError"] is True
    assert data_of(result)["response"] is None
    assert data_of(result)["execution_time_ms"] > 0
    error = data_of(result)["error"]
    assert error["code"] == "timeout"
    assert error["message"]
    assert error["remedy"]


def test_the_instruments_own_error_is_told_with_what_was_sent(engine: Engine) -> None:
    result = call(engine, "send_scpi", instrument_id=SUPPLY, scpi_command=":NO:SUCH:HEADER 1")
    assert "-113" in data_of(result)["error"]["message"]
    assert data_of(result)["error"]["sent"][0] == ":NO:SUCH:HEADER 1"


@promise("instruments.no-late-answer")
def test_a_late_answer_is_never_the_next_calls_answer(engine: Engine) -> None:
    """20 of 20: the answer of a question that timed out comes while the next one is asked."""
    for turn in range(20):
        engine.sim("fault", instrument="psu1", kind="late", seconds=0.15, count=1)
        slow = {"instrument_id": SUPPLY, "scpi_command": f'DIAG:DELAY? 0.02,"old{turn}"'}
        with ThreadPoolExecutor(1) as other:
            asked = other.submit(engine.tool, "send_scpi", **slow)
            echo = f"new{turn}"
            answer = engine.tool(
                "send_scpi", instrument_id=SUPPLY, scpi_command=f'DIAG:ECHO? "{echo}"'
            )
            asked.result()
        found = answer["result"]["response"]
        assert found is None or echo in found


@promise("instruments.hung-one-delays-none")
def test_a_hung_instrument_delays_neither_others_nor_the_list(engine: Engine) -> None:
    with ThreadPoolExecutor(1) as other:
        before = mark(engine)
        engine.sim("fault", instrument="dmm1", kind="timeout")
        hung = other.submit(
            engine.tool, "execute_command", instrument_id="dmm1", command_name="fetch"
        )
        wait_for(lambda: any("FETC?" in text for text in arrived(engine, before, "dmm1")))
        assert engine.tool("send_scpi", instrument_id=SUPPLY, scpi_command="*IDN?")["result"][
            "response"
        ]
        assert mcp(engine, "tools/list")[0] == 200
        assert not hung.done()
        engine.tool("bench__stop_all")
        hung.result()


@promise("stop.beside-hung-read")
def test_a_safe_command_gets_past_a_hung_query(engine: Engine) -> None:
    before = mark(engine)
    with ThreadPoolExecutor(1) as other:
        hung = other.submit(
            engine.tool, "send_scpi", instrument_id=SUPPLY, scpi_command="DIAG:DELAY? 30"
        )
        wait_for(lambda: any("DELAY" in text for text in arrived(engine, before)))
        done = engine.tool("rigol_dp832__output_off", channel=1)
        assert done["is_error"] is False, done
        assert hung.result()["result"]["response"] is None
    assert any("OUTP" in text and "OFF" in text for text in arrived(engine, before))


@promise("lockout.refuses-writes")
def test_a_write_behind_a_slow_question_is_refused_if_locked_out_meanwhile(
    engine: Engine,
) -> None:
    before = mark(engine)
    with ThreadPoolExecutor(2) as others:
        slow = others.submit(
            engine.tool, "send_scpi", instrument_id=SUPPLY, scpi_command="DIAG:DELAY? 0.6"
        )
        while not any("DELAY" in text for text in arrived(engine, before)):
            time.sleep(0.05)  # noqa: TID251 - a real process has no event to wait for
        waiting = others.submit(engine.tool, "rigol_dp832__output_on", channel=1)
        while not any(
            (row["phase"], row["command"]) == ("intent", "output_on")
            for row in engine.rpc("audit.list", limit=3)["rows"]
        ):
            time.sleep(0.05)  # noqa: TID251 - as above
        locking = {"instrument_id": SUPPLY, "reason": "hands inside", "by": "anna"}
        try:
            engine.rpc("lockout.set", **locking)
            assert waiting.result()["error"]["code"] == "locked_out"
            assert slow.result()["is_error"] is False
        finally:
            engine.rpc("lockout.clear", instrument_id=SUPPLY)
    assert not [text for text in arrived(engine, before) if ",ON" in text]


@promise("rpc.token-never-gates-mcp")
def test_the_rpc_token_does_not_gate_mcp(tmp_path: Path) -> None:
    config = {"INBOUND_AUTH_TOKEN": "s3cret"}
    with running_engine(tmp_path, "--instruments", "psu1=rigol_dp832", config=config) as engine:
        assert mcp(engine, "tools/list")[0] == 200
        with pytest.raises(urllib.error.HTTPError) as refused:
            engine.rpc("status")
        refused.value.close()
        assert refused.value.code == 401


@promise("mcp.port-taken")
def test_a_taken_mcp_port_is_one_warning_and_the_rest_lives(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with running_engine(
            tmp_path, "--instruments", "psu1=rigol_dp832", config={"MCP_PORT": port}
        ) as engine:
            status = engine.tool("get_status")["result"]
            assert status["mcp"]["port"] is None
            assert status["instrument_count"] == 1
            assert str(port) in status["mcp"]["error"]
            # A busy machine may be warned of in other words.
            warnings = [x["event"] for x in lines_of(engine) if x["level"] == "warning"]
            assert [event for event in warnings if "mcp" in event] == ["mcp_not_listening"]


@promise("mcp.port-freed")
def test_an_mcp_port_that_becomes_free_is_bound_once_and_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with engine_process(
            tmp_path,
            "--instruments",
            "psu1=rigol_dp832",
            config={"MCP_PORT": port, "RESCAN_INTERVAL_SEC": 1},
        ) as engine:
            assert engine.ports["mcp_port"] is None
            taken.close()
            wait_for(lambda: engine.tool("get_status")["result"]["mcp"]["port"])
            told = engine.tool("get_status")["result"]["mcp"]
            assert (told["port"], told["error"]) == (port, "")
            file = json.loads((engine.state_dir / "engine.json").read_text())
            assert (file["mcp_port"], file["pid"]) == (port, engine.ports["pid"])
            began = json.loads((engine.state_dir / START_FILE).read_text())
            assert (began["pid"], began["bench_file"]) == (file["pid"], file["bench_file"])
            with socket.create_connection(("127.0.0.1", port), 5):
                pass
            events = [line["event"] for line in lines_of(engine)]
            assert events.count("mcp_not_listening") == events.count("mcp_listening") == 1


def lines_of(engine: Engine) -> list[dict[str, Any]]:
    return [json.loads(x) for x in engine.log.read_text().splitlines() if x[:1] == "{"]


@promise("mcp.disabled")
def test_mcp_disabled_leaves_the_port_closed(tmp_path: Path) -> None:
    with engine_process(
        tmp_path, "--instruments", "psu1=rigol_dp832", config={"MCP_ENABLED": False}
    ) as engine:
        assert engine.tool("get_status")["result"]["mcp"]["enabled"] is False
        listening = [
            connection.laddr[1]
            for connection in psutil.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN and connection.pid == engine.process.pid
        ]
        assert listening == [engine.ports["rpc_port"]]


@promise("rpc.port-taken")
def test_a_taken_rpc_port_is_one_warning_and_stops_and_mcp_work(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with running_engine(
            tmp_path,
            "--instruments",
            "psu1=rigol_dp832",
            config={"RPC_PORT": port, "RESCAN_INTERVAL_SEC": 1, "INBOUND_AUTH_TOKEN": "s3cret"},
        ) as engine:
            assert engine.ports["rpc_port"] is None
            _, status = mcp(engine, "tools/call", name="get_status", arguments={})
            told = json.loads(status["result"]["content"][0]["text"])["rpc"]
            assert told["port"] is None
            assert f"{port} on 127.0.0.1 cannot be bound: it is held by python" in told["error"]
            _, stopped = mcp(engine, "tools/call", name="bench__stop_all", arguments={})
            assert stopped["result"].get("isError") is not True
            said = run_cli(engine, "status")
            assert said.returncode == 69
            assert "could not bind its RPC port" in said.stderr
            assert "PID" in said.stderr
            checked = run_cli(engine, "doctor")
            assert re.search(r"FAIL.*RPC.*could not bind its RPC port", checked.stdout)
            taken.close()
            wait_for(lambda: json.loads((engine.state_dir / "engine.json").read_text())["rpc_port"])
            assert run_cli(engine, "status").returncode == 0
            events = [line["event"] for line in lines_of(engine)]
            assert events.count("rpc_not_listening") == events.count("rpc_listening") == 1


def run_cli(engine: Engine, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {"EDGED_INBOUND_AUTH_TOKEN": "s3cret", **NO_PROFILES}
    return command_line.edged(*words, "--state-dir", str(engine.state_dir), environ=environ)


@promise("rpc.proof")
def test_a_program_that_has_the_port_of_a_killed_engine_gets_no_token(tmp_path: Path) -> None:
    with engine_process(
        tmp_path, "--instruments", "psu1=rigol_dp832", config={"INBOUND_AUTH_TOKEN": "s3cret"}
    ) as engine:
        assert run_cli(engine, "status").returncode == 0
        key = engine.state_dir / "rpc_key"
        assert key.stat().st_mode & 0o777 == 0o600
        os.kill(engine.process.pid, signal.SIGKILL)
        engine.process.wait(HANGS_S)
        with answering_server(engine.ports["rpc_port"]) as impostor:
            impostor.result({})
            said = run_cli(engine, "status")
            assert said.returncode == 69
            assert "Another program has port" in said.stderr
            assert impostor.asked == []
            assert "s3cret" not in str(impostor.proved)


@promise("engine.one-a-state-directory")
def test_a_second_engine_in_the_same_state_directory_is_refused_with_the_pid(
    engine: Engine,
) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "edged.cli.main", "engine", "--mcp-port", "0", "--rpc-port", "0",
         "--state-dir", str(engine.state_dir)],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert ended.returncode == 69
    assert str(engine.ports["pid"]) in ended.stderr


@promise("engine.sigterm")
def test_sigterm_ends_it_also_beside_a_hung_instrument(tmp_path: Path) -> None:
    with engine_process(tmp_path, "--instruments", "psu1=rigol_dp832") as engine:
        children = psutil.Process(engine.process.pid).children(recursive=True)
        assert children
        with ThreadPoolExecutor(1) as other:
            before = mark(engine)
            hung = other.submit(
                mcp, engine, "tools/call", name="send_scpi",
                arguments={"instrument_id": SUPPLY, "scpi_command": "DIAG:DELAY? 30"},
            )  # fmt: skip
            wait_for(lambda: any("DELAY" in text for text in arrived(engine, before)))
            assert engine.stop() == 0
            assert hung.exception() is not None or hung.result()
        assert not (engine.state_dir / "engine.json").exists()
        psutil.wait_procs(children, HANGS_S)
        assert not any(child.is_running() for child in children)


def test_a_killed_engine_takes_its_simulated_bench_with_it(tmp_path: Path) -> None:
    with engine_process(tmp_path, "--instruments", "psu1=rigol_dp832") as engine:
        children = psutil.Process(engine.process.pid).children(recursive=True)
        engine.process.send_signal(signal.SIGKILL)
        engine.process.wait(HANGS_S)
        gone, alive = psutil.wait_procs(children, HANGS_S)
        assert gone
        assert not alive


def test_a_broken_bench_file_stops_the_start_with_its_line(tmp_path: Path) -> None:
    bench = tmp_path / "bench.yaml"
    bench.write_text("format: 1\nDP8B26AM00234:\n  limitz: {}\n")
    ended = subprocess.run(
        [sys.executable, "-m", "edged.cli.main", "engine", "--mcp-port", "0", "--rpc-port", "0",
         "--state-dir", str(tmp_path / "s"), "--set", f"BENCH_FILE={bench}"],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert ended.returncode == 78
    assert "limitz" in ended.stderr
    assert "bench.yaml:3" in ended.stderr
