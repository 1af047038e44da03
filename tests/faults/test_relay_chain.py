"""The relay route as its users meet it: real processes, TLS, and the official SDK's client."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import pyvisa
from pyvisa.constants import StatusCode
from pyvisa.resources import MessageBasedResource

from pyvisa_edged import EdgedVisaError
from tests.bench.relay_chain import Chain, a_port, running_chain
from tests.bench.sdk_session import sdk_session
from tests.bench.waiting import wait_for
from tests.promises import promise


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    with running_chain(tmp_path_factory.mktemp("chain"), a_port) as running:
        yield running


@promise("relay.whole-chain")
def test_the_official_client_works_through_the_whole_chain(chain: Chain) -> None:
    token = chain.token("list_instruments", "execute_command:measure_voltage", "start_stream")
    with sdk_session("python-sdk-1", chain.url(), token) as client:
        assert client.greeting["server"] == "edged"
        assert "list_instruments" in client.do("list")
        assert {"psu1", "dmm1"} <= {entry["alias"] for entry in client.call("list_instruments")}
        read = {"instrument_id": "psu1", "command_name": "measure_voltage"}
        done = client.call("execute_command", **read, parameters={"channel": 1})
        assert done["success"] is True
        streamed = client.do(
            "progress",
            name="start_stream",
            arguments={
                **read,
                "parameters": {"channel": 1},
                "interval_ms": 50,
                "duration_ms": 1_500,
            },
        )
        counted = [step for step, _ in streamed["progress"]]
        assert counted == list(range(1, len(counted) + 1))
        assert len(counted) >= 4
        long = {**read, "parameters": {"channel": 1}, "interval_ms": 50, "duration_ms": 60_000}
        given_up = client.do("cancel", name="start_stream", arguments=long, after_s=0.3)
        assert given_up == "cancelled"
        refused = client.refused("send_scpi", instrument_id="psu1", scpi_command="*IDN?")
        assert "not among those" in refused


def test_what_the_token_does_not_allow_is_refused_with_its_own_code(chain: Chain) -> None:
    token = chain.token("execute_command")
    call = {"name": "execute_command", "arguments": {"instrument_id": "psu1"}}
    cases = {"output_on": -33004}
    for command, code in cases.items():
        call["arguments"] = {
            "instrument_id": "psu1",
            "command_name": command,
            "parameters": {"channel": 1},
        }
        status, reply = chain.post(token, "tools/call", **call)
        assert (status, reply["error"]["code"]) == (200, code)
    status, reply = chain.post(token, "tools/call", name="get_status", arguments={})
    assert (status, reply["error"]["code"], reply["id"]) == (200, -33003, 1)
    status, reply = chain.post("x.y.z", "ping")
    assert (status, reply["error"]["code"], reply["id"]) == (401, -33001, 1)
    other = chain.token("get_status", edge="edge-2")
    assert chain.post(other, "ping")[0] == 401


@promise("approval.every-road")
@promise("lease.every-road")
@promise("interlock.every-road")
def test_what_several_share_and_what_guards_them_holds_over_the_relay(tmp_path: Path) -> None:
    guarded = {
        "name": "rail",
        "when": {"instrument": "dmm1", "command": "measure_dc_voltage"},
        "must": "value > 99",
        "poll_s": 1,
        "max_age_s": 5,
        "guards": ["psu1.set_current"],
    }
    rules = {"format": 1, "psu1": {"confirm": ["output_on"]}, "interlocks": [guarded]}
    (tmp_path / "bench.yaml").write_text(json.dumps(rules))
    channel = {"channel": 1}
    with running_chain(tmp_path, a_port) as chain:
        tools = ("execute_command", "bench__reserve", "bench__release")
        ada = chain.token(*tools, danger=True)
        bob = chain.token(*tools, danger=True, sub="bob")
        wait_for(lambda: chain.post(ada, "ping")[0] == 200)

        def asked(token: str, command: str, **parameters: float) -> str:
            arguments = {
                "instrument_id": "psu1",
                "command_name": command,
                "parameters": {**channel, **parameters},
            }
            status, reply = chain.post(token, "tools/call", name=tools[0], arguments=arguments)
            assert status == 200, reply
            return json.dumps(reply)

        assert "guarded by the interlock rail" in asked(ada, "set_current", current=0.1)
        reserve = {"instruments": ["psu1"], "purpose": "burn-in"}
        status, reply = chain.post(ada, "tools/call", name=tools[1], arguments=reserve)
        assert (status, reply["result"].get("isError", False)) == (200, False), reply
        lease = json.loads(reply["result"]["content"][0]["text"])
        assert "is reserved by user:ada" in asked(bob, "set_voltage", voltage=1)
        assert '"isError": true' not in asked(ada, "set_voltage", voltage=1)
        with ThreadPoolExecutor(1) as pool:
            waits = pool.submit(asked, ada, "output_on")
            wait_for(lambda: bool(waiting(chain)))
            (question,) = waiting(chain)
            assert ":OUTP CH1,ON" in question["text"]
            assert "ada" in question["who"]
            rpc(chain, "approvals.approve", approval_id=question["approval_id"], by="anna")
            assert '"isError": true' not in waits.result(timeout=30)
        status, reply = chain.post(
            ada, "tools/call", name=tools[2], arguments={"lease_id": lease["lease_id"]}
        )
        assert status == 200
        assert '"isError": true' not in asked(bob, "set_voltage", voltage=1)


def rpc(chain: Chain, method: str, **params: object) -> Any:
    """Of the engine behind the supervisor."""
    port = json.loads((chain.state_dir / "engine.json").read_text())["rpc_port"]
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/rpc", body.encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)["result"]


def waiting(chain: Chain) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rpc(chain, "approvals.list")["approvals"]
    return found


@contextlib.contextmanager
def program(chain: Chain) -> Iterator[MessageBasedResource]:
    """A program of PyVISA's with psu1 open, as its environment says."""
    rm = pyvisa.ResourceManager(f"{chain.url()}@edged")
    try:
        unit = rm.open_resource("psu1", read_termination="\n")
        assert isinstance(unit, MessageBasedResource)
        yield unit
    finally:
        rm.close()


@promise("visa.permission")
def test_a_visa_program_is_told_of_an_expired_token_and_goes_on_with_a_new_one(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGED_TOKEN", chain.token("send_scpi", lives_s=4))
    with program(chain) as unit:
        assert unit.query("*IDN?").startswith("RIGOL")

        def is_refused() -> bool:
            try:
                unit.query("*IDN?")
            except EdgedVisaError as refused:
                return refused.error_code == StatusCode.error_no_permission
            return False

        wait_for(is_refused)
        monkeypatch.setenv("EDGED_TOKEN", chain.token("send_scpi"))
        assert unit.query("*IDN?").startswith("RIGOL")


@promise("lease.id-is-the-key")
@promise("visa.guards")
def test_a_visa_program_works_under_the_lease_whose_id_it_presents_and_under_no_other(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = chain.token("bench__reserve", "bench__release")
    bob = chain.token("send_scpi", sub="bob")

    def told(tool: str, **arguments: object) -> Any:
        status, reply = chain.post(ada, "tools/call", name=tool, arguments=arguments)
        assert (status, reply["result"].get("isError", False)) == (200, False), reply
        return json.loads(reply["result"]["content"][0]["text"])

    def outcome(lease: str, token: str = bob) -> str:
        """What a program of bob's is told that sets something; empty: it was done."""
        monkeypatch.setenv("EDGED_TOKEN", token)
        monkeypatch.setenv("EDGED_LEASE", lease)
        with program(chain) as unit:
            assert unit.query(":SOUR1:VOLT?")
            try:
                unit.write(":SOUR1:VOLT 1")
            except EdgedVisaError as refused:
                return str(refused)
        return ""

    lease = told("bench__reserve", instruments=["psu1"], purpose="burn-in")["lease_id"]
    other = told("bench__reserve", instruments=["dmm1"], purpose="night")["lease_id"]
    try:
        assert outcome(lease) == ""
        assert "psu1 is reserved by user:ada" in outcome("")
        assert "does not exist, or has ended" in outcome(lease[:-1] + "!")
        assert "is of dmm1, not of psu1" in outcome(other)
        # Its holder has it by its subject, with no id at all.
        assert outcome("", chain.token("send_scpi")) == ""
    finally:
        for lease_id in (lease, other):
            told("bench__release", lease_id=lease_id)
    assert "does not exist, or has ended" in outcome(lease)
    for log in chain.directory.glob("*.log"):
        assert lease not in log.read_text(errors="replace"), log


@promise("dry-run.every-road")
def test_a_dry_run_over_the_relay_is_judged_as_the_call_and_tells_its_lines(chain: Chain) -> None:
    channel = {"channel": 1}
    on = {"instrument_id": "psu1", "command_name": "output_on", "parameters": channel}
    curve = {"instrument_id": "psu1", "sequence_name": "iv_curve"}
    roads = {
        "execute_command": on,
        "execute_sequence": {**curve, "parameters": {**channel, "stop": 1, "points": 2}},
        "send_scpi": {"instrument_id": "psu1", "scpi_command": ":OUTP CH1,ON"},
        "start_sweep": {
            "instrument_id": "psu1", "command_name": "set_voltage", "parameters": channel,
            "target_value": 1, "sweep_rate": 1,
        },
        "rigol_dp832__output_on": channel,
    }  # fmt: skip
    strong, weak = chain.token(*roads, danger=True), chain.token(*roads)
    for tool, arguments in roads.items():
        asked = {"name": tool, "arguments": {**arguments, "dry_run": True}}
        status, reply = chain.post(strong, "tools/call", **asked)
        assert (status, reply["result"].get("isError", False)) == (200, False), reply
        told = json.loads(reply["result"]["content"][0]["text"])
        assert told["would_send"], tool
        if tool != "start_sweep":
            assert ":OUTP CH1,ON" in told["would_send"], tool
            status, reply = chain.post(weak, "tools/call", **asked)
            assert (status, reply["error"]["code"]) == (200, -33004), tool
    status, reply = chain.post(
        strong, "tools/call", name="execute_command",
        arguments={**on, "command_name": "get_output"},
    )  # fmt: skip
    assert json.loads(reply["result"]["content"][0]["text"])["data"] is False


def test_no_token_is_in_any_log(chain: Chain) -> None:
    token = chain.token("get_status")
    chain.post(token, "ping")
    chain.post(token[:-4] + "AAAA", "ping")
    parts = [part for part in token.split(".") if len(part) > 20]
    for log in chain.directory.glob("*.log"):
        text = log.read_text(errors="replace")
        assert not [part for part in parts if part in text], log
    assert json.loads((chain.state_dir / "jwks.json").read_text())["url"]


@promise("relay.engine-back")
def test_a_killed_engine_and_a_restarted_nats_are_503_at_once_and_come_back_by_themselves(
    tmp_path: Path,
) -> None:
    with running_chain(tmp_path, a_port) as chain:
        token = chain.token("get_status")
        os.kill(chain.engine_pid(), signal.SIGKILL)
        began = time.monotonic()
        status, reply = chain.post(token, "ping")
        assert (status, time.monotonic() - began < 1.5) == (503, True)
        assert "error" in reply
        assert wait_for(lambda: chain.post(token, "ping", front=1)[0] == 200) < 6
        wait_for(lambda: relay_link(chain) == "connected")
        chain.nats.stop()
        began = time.monotonic()
        assert chain.post(token, "ping")[0] == 503
        assert time.monotonic() - began < 2.5
        wait_for(lambda: relay_link(chain) == "reconnecting")
        chain.nats.start()
        wait_for(lambda: chain.post(token, "ping", front=0)[0] == 200)
        wait_for(lambda: chain.post(token, "ping", front=1)[0] == 200)
        wait_for(lambda: relay_link(chain) == "connected")


@promise("relay.engine-back")
def test_the_official_client_goes_on_after_the_engine_was_killed_and_nats_restarted(
    tmp_path: Path,
) -> None:
    with running_chain(tmp_path, a_port) as chain:
        token = chain.token("list_instruments", "execute_command:measure_voltage", "start_stream")
        read = {
            "instrument_id": "psu1",
            "command_name": "measure_voltage",
            "parameters": {"channel": 1},
        }
        with sdk_session("python-sdk-1", chain.url(), token) as client:
            assert client.call("execute_command", **read)["success"] is True
            os.kill(chain.engine_pid(), signal.SIGKILL)
            wait_for(lambda: chain.post(token, "ping", front=1)[0] == 200)
            # Sessions live in the engine: a client begins another one, and works on.
            client.reconnect()
            assert client.call("execute_command", **read)["success"] is True
            chain.nats.stop()
            chain.nats.start()
            wait_for(lambda: chain.post(token, "ping", front=0)[0] == 200)
            # The session outlived the server that carried it.
            assert client.call("execute_command", **read)["success"] is True
            long = {**read, "interval_ms": 50, "duration_ms": 60_000}
            given_up = client.do("cancel", name="start_stream", arguments=long, after_s=0.5)
            assert given_up == "cancelled"
            wait_for(lambda: chain.rpc_tool("get_status")["result"]["streams"] == [])


def relay_link(chain: Chain) -> str:
    """The state that get_status and the supervisor's file agree on; empty where they do not yet."""
    told = chain.rpc_tool("get_status")["result"]["relay"]["link"]
    kept = json.loads((chain.state_dir / "supervisor.json").read_text())["relay"]
    return str(told["state"]) if told == kept else ""
