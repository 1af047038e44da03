"""What an attacker tried to get past a person's yes, and what a restart must not forget."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import engine_process
from tests.bench.mcp_client import CAPABILITIES_KEY, McpClient, modern
from tests.bench.waiting import HANGS_S
from tests.promises import promise

BENCH = """\
format: 1
psu1: {confirm: [output_on, "set_voltage.voltage >= 24"], confirm_ttl_s: 60}
psu2: {confirm: ["set_voltage.voltage >= 24"]}
"""
INSTRUMENTS = "psu1,psu2=rigol_dp832"
ON = {"instrument_id": "psu1", "command_name": "output_on", "parameters": {"channel": 1}}
YES = {"approval": {"action": "accept", "content": {"approve": True}}}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    (tmp_path / "bench.yaml").write_text(BENCH)
    with running_engine(tmp_path, "--instruments", INSTRUMENTS) as running:
        yield running


async def client_of(engine: Engine) -> McpClient:
    client = McpClient(engine.ports["mcp_port"])
    await client.initialize("2025-11-25")
    return client


async def round_trip(engine: Engine, **more: Any) -> dict[str, Any]:
    client = McpClient(engine.ports["mcp_port"])
    params = {
        "name": "execute_command",
        "arguments": ON,
        "_meta": {CAPABILITIES_KEY: {"elicitation": {}}},
        **more,
    }
    message, headers = modern(client.message("tools/call", params))
    reply: dict[str, Any] = (await client.post(message, headers)).messages()[-1]
    return reply


async def asked(engine: Engine) -> str:
    state: str = (await round_trip(engine))["result"]["requestState"]
    return state


def is_on(engine: Engine, name: str = "psu1") -> bool:
    wanted = {"command_name": "get_output", "parameters": {"channel": 1}}
    return bool(engine.tool("execute_command", instrument_id=name, **wanted)["result"]["data"])


async def waiting(engine: Engine) -> dict[str, Any]:
    async with asyncio.timeout(HANGS_S):
        while True:
            found = (await asyncio.to_thread(engine.rpc, "approvals.list"))["approvals"]
            if found:
                one: dict[str, Any] = found[0]
                return one
            await asyncio.sleep(0.05)


@promise("approval.ends")
async def test_a_sequence_that_is_still_judged_when_all_is_stopped_does_not_begin(
    engine: Engine,
) -> None:
    client, other = await client_of(engine), await client_of(engine)
    long = {
        "instrument_id": "psu2",
        "sequence_name": "iv_curve",
        "parameters": {"channel": 1, "stop": 1, "points": 1000, "settle_ms": 0},
        "detach": True,
    }
    calling = asyncio.create_task(client.call("execute_sequence", long))
    await asyncio.sleep(0.1)
    await other.call("bench__stop_all")
    said = await calling
    if not said.get("isError"):
        # It had begun before the stop, which then has ended it.
        run_id = said["structuredContent"]["run_id"]
        told = (await other.call("bench__runs", {"run_id": run_id}))["structuredContent"]
        assert told["state"] != "running"
    assert not is_on(engine, "psu2")


@promise("approval.rounds")
@pytest.mark.parametrize("how", ["a denial", "a stop"])
async def test_what_ended_a_question_is_not_forgotten_by_a_crash(tmp_path: Path, how: str) -> None:
    (tmp_path / "bench.yaml").write_text(BENCH)
    with engine_process(tmp_path) as first:
        state = await asked(first)
        if how == "a denial":
            name = (await waiting(first))["approval_id"]
            first.rpc("approvals.deny", approval_id=name, by="anna")
        else:
            await (await client_of(first)).call("bench__stop_all")
            # Its end is written down behind the answer.
            await asyncio.sleep(1.0)
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
    with engine_process(tmp_path) as second:
        said = await round_trip(second, requestState=state, inputResponses=YES)
        assert "used already, or its question has ended" in json.dumps(said)
        assert not is_on(second)


@promise("approval.ends")
@pytest.mark.parametrize("what", ["lockout", "lease"])
async def test_what_stands_in_the_way_ends_a_question_that_its_client_carries_about(
    engine: Engine, what: str
) -> None:
    state = await asked(engine)
    if what == "lockout":
        engine.rpc("lockout.set", instrument_id="psu1", reason="hands inside", by="anna")
        engine.rpc("lockout.clear", instrument_id="psu1")
    else:
        other = await client_of(engine)
        lease = await other.call("bench__reserve", {"instruments": ["psu1"]})
        await other.call("bench__release", {"lease_id": lease["structuredContent"]["lease_id"]})
    assert engine.rpc("approvals.list")["approvals"] == []
    said = await round_trip(engine, requestState=state, inputResponses=YES)
    assert "its question has ended" in json.dumps(said)
    assert not is_on(engine)


@promise("approval.at-the-bench")
async def test_what_a_person_is_shown_is_what_would_go_out_however_it_is_written(
    engine: Engine,
) -> None:
    client = await client_of(engine)
    for blanks in (200, 3000):
        line = ":OUTP" + " " * blanks + "CH1,ON"
        arguments = {"instrument_id": "psu1", "scpi_command": line}
        calling = asyncio.create_task(client.call("send_scpi", arguments))
        shown = await waiting(engine)
        assert f"\n  :OUTP ({blanks} blanks) CH1,ON\n" in shown["text"]
        engine.rpc("approvals.deny", approval_id=shown["approval_id"], by="anna")
        await calling
    assert not is_on(engine)


@promise("approval.every-road")
async def test_a_value_that_is_rounded_up_to_the_bound_is_asked_about(
    engine: Engine,
) -> None:
    client = await client_of(engine)
    near = {**ON, "command_name": "set_voltage", "parameters": {"channel": 1, "voltage": 23.9999}}
    calling = asyncio.create_task(client.call("execute_command", near))
    shown = await waiting(engine)
    assert "\n  :SOUR1:VOLT 24.000\n" in shown["text"]
    engine.rpc("approvals.deny", approval_id=shown["approval_id"], by="anna")
    assert "approval_denied" in json.dumps(await calling)


@promise("approval.at-the-bench")
async def test_an_edit_that_has_nothing_to_do_with_it_leaves_a_yes_good(
    engine: Engine, tmp_path: Path
) -> None:
    client = await client_of(engine)
    calling = asyncio.create_task(client.call("execute_command", ON))
    shown = await waiting(engine)
    (tmp_path / "bench.yaml").write_text(BENCH.replace("psu1: {", "psu1: {location: here, "))
    async with asyncio.timeout(HANGS_S):
        while True:
            listed = await asyncio.to_thread(engine.tool, "list_instruments")
            if any(one["location"] == "here" for one in listed["result"]):
                break
            await asyncio.sleep(0.1)
    engine.rpc("approvals.approve", approval_id=shown["approval_id"], by="anna")
    result = await calling
    assert not result.get("isError"), result
    assert is_on(engine)


@promise("lease.secret")
async def test_no_lease_id_gets_into_the_record_wherever_it_was_written(
    engine: Engine,
) -> None:
    client = await client_of(engine)
    lease = (await client.call("bench__reserve", {"instruments": ["psu1"]}))["structuredContent"]
    lease_id = lease["lease_id"]
    for tool, arguments in (
        ("execute_command", {**ON, "lease": {"lease_id": lease_id}}),
        ("bench__release", {"id": lease_id}),
        ("bench__renew", {"leaseId": lease_id}),
        ("bench__reserve", {"instruments": [lease_id]}),
        ("bench__stop_run", {"run_id": lease_id}),
    ):
        await client.call(tool, arguments)
    rows = json.dumps(engine.rpc("audit.list", limit=100))
    assert lease_id not in rows
    history = await client.call("bench__history", {})
    assert lease_id not in json.dumps(history)
