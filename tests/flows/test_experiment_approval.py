"""A person approves a plan, on every road by which a call can be approved: real engines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench import command_line
from tests.bench.engine import Engine, running_engine
from tests.bench.mcp_client import CAPABILITIES_KEY, McpClient, modern
from tests.bench.waiting import first
from tests.flows.test_approvals import NO, YES, client_of, data_of, is_on, next_message, waits
from tests.promises import promise

BENCH = """\
format: 1
psu1:
  confirm: [output_on]
  confirm_ttl_s: 30
load1:
  confirm: [input_on]
  confirm_by: [cli]
"""
PLAN = """\
format: 1
experiment: lamp
roles: {s: psu1, m: dmm1}
with: {s: {channel: 1}}
steps:
  - {command: s.set_voltage_and_current, parameters: {voltage: 5, current: 0.2}}
  - {command: s.output_on}
  - {measure: {v: m.measure_dc_voltage}}
  - {ask: led, text: "Is it on?", type: confirm, timeout_s: 600}
finally: [{ramp: s.set_voltage, to: 0, rate: 100}]
"""
START = "bench__start_experiment"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    place = tmp_path_factory.mktemp("approved")
    (place / "bench.yaml").write_text(BENCH)
    saved = place / "saved"
    saved.mkdir()
    (saved / "lamp.yaml").write_text(PLAN)
    units = "psu1,dmm1=keysight_34461a,load1=rigol_dl3021"
    config = {"EXPERIMENT_DIRS": [str(saved)]}
    with running_engine(place, "--instruments", units, config=config) as running:
        yield running


@pytest.fixture(autouse=True)
def _tidy(engine: Engine) -> Iterator[None]:
    yield
    engine.stop_all()
    engine.tidy()


def status(engine: Engine, run_id: str) -> dict[str, Any]:
    told: dict[str, Any] = engine.tool("bench__control_run", run_id=run_id)["result"]
    return told


async def at(engine: Engine, run_id: str, step: str) -> dict[str, Any]:
    """Once the run stands at this step."""

    def there() -> dict[str, Any] | None:
        told = status(engine, run_id)
        return told if told["step"] == step else None

    return await asyncio.to_thread(first, there)


@promise("experiment.approval")
@pytest.mark.parametrize("is_yes", [True, False])
async def test_the_form_of_a_client_shows_the_envelope_and_its_answer_counts(
    engine: Engine, is_yes: bool
) -> None:
    client = await client_of(engine, elicitation={})
    message = client.message("tools/call", {"name": START, "arguments": {"name": "lamp"}})
    async with await client.open_post(message) as connection:
        await connection.read_head()
        asked = await next_message(connection)
        text = asked["params"]["message"]
        assert "file lamp" in text
        assert "\n  psu1: output_on (channel 1), once\n" in text
        assert "\n  finally, however it ends: psu1: set_voltage\n" in text
        assert not is_on(engine)
        answer = {"action": "accept", "content": {"approve": is_yes}}
        await client.post({"jsonrpc": "2.0", "id": asked["id"], "result": answer})
        result = (await next_message(connection))["result"]
    if is_yes:
        await at(engine, data_of(result)["run_id"], "steps[3]")
    else:
        assert data_of(result)["error"]["code"] == "approval_denied"
    assert is_on(engine) == is_yes


async def rounds(engine: Engine, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
    client = McpClient(engine.ports["mcp_port"])
    params = {
        "name": START,
        "arguments": arguments,
        "_meta": {CAPABILITIES_KEY: {"elicitation": {"form": {}}}},
        **more,
    }
    message, headers = modern(client.message("tools/call", params))
    reply: dict[str, Any] = (await client.post(message, headers)).messages()[-1]
    return reply


@promise("experiment.approval")
async def test_under_the_newest_revision_a_repeated_start_brings_the_answer(
    engine: Engine,
) -> None:
    for arguments in ({"text": PLAN}, {"name": "lamp"}):
        asked = (await rounds(engine, arguments))["result"]
        assert asked["resultType"] == "input_required"
        state = asked["requestState"]
        # Another plan is another question.
        other = {"text": PLAN.replace("voltage: 5", "voltage: 6")}
        said = await rounds(engine, other, requestState=state, inputResponses=YES)
        assert "is of another call" in json.dumps(said)
        assert not is_on(engine)
        done = await rounds(engine, arguments, requestState=state, inputResponses=YES)
        run_id = data_of(done["result"])["run_id"]
        await at(engine, run_id, "steps[3]")
        assert is_on(engine)
        engine.stop_all()
        again = await rounds(engine, arguments, requestState=state, inputResponses=YES)
        assert "used already" in json.dumps(again)
    state = (await rounds(engine, {"name": "lamp"}))["result"]["requestState"]
    denied = await rounds(engine, {"name": "lamp"}, requestState=state, inputResponses=NO)
    assert "approval_denied" in json.dumps(denied)
    assert not is_on(engine)


@promise("experiment.approval")
async def test_the_command_line_says_what_it_waits_for_and_the_question_can_be_read(
    engine: Engine, tmp_path: Path
) -> None:
    where = ("--state-dir", str(engine.state_dir))
    file = tmp_path / "lamp.yaml"
    file.write_text(PLAN)
    words = ("experiment", "start", str(file), "--detach", *where)
    starting = asyncio.create_task(asyncio.to_thread(command_line.edged, *words))
    (waiting,) = await waits(engine)
    await asyncio.sleep(1.5)
    name = waiting["approval_id"]
    listed = await asyncio.to_thread(command_line.edged, "approve", *where)
    assert "psu1: output_on (channel 1), once" in listed.stdout
    shown = await asyncio.to_thread(command_line.edged, "approve", "show", name, *where)
    assert "psu1: set_voltage (channel 1, voltage 0 V), ramped at most at 100/s" in shown.stdout
    await asyncio.to_thread(command_line.edged, "approve", name, "--by", "anna", *where)
    started = await starting
    assert f"waits for approval {name} (edged approve {name})" in started.stderr
    assert "asks a person  approval, answers\n" in started.stdout
    run_id = started.stdout.splitlines()[-1].split()[0]
    await at(engine, run_id, "steps[3]")
    meta = engine.rpc("runs.show", run_id=run_id)["meta"]
    assert meta["details"]["approval"] == name
    rows = engine.rpc("audit.list", limit=200)["rows"]
    told = {row["tool"]: json.dumps(row["parameters"]) for row in rows}
    assert f"{name}: {run_id} of plan-" in told["approval.used"]
    # The steps of the run name it.
    assert [row["on_behalf_of"] for row in rows if row["command"] == "output_on"][-1] == run_id


@promise("experiment.approval")
async def test_an_agent_cannot_approve_its_own_plan(engine: Engine) -> None:
    alice = await client_of(engine)
    calling = asyncio.create_task(alice.call(START, {"name": "lamp"}))
    (waiting,) = await waits(engine)
    name = waiting["approval_id"]
    for tool, arguments in (
        ("approvals.approve", {"approval_id": name, "by": "anna"}),
        ("bench__control_run", {"run_id": name, "action": "answer", "value": "yes"}),
        (START, {"name": "lamp", "approval_id": name}),
    ):
        reply = await alice.post(
            alice.message("tools/call", {"name": tool, "arguments": arguments})
        )
        said = json.dumps(reply.messages()[-1])
        assert '"isError": true' in said or '"error"' in said, said
    assert [one["approval_id"] for one in await waits(engine)] == [name]
    assert not is_on(engine)
    await alice.call("bench__stop_all")
    assert "was ended by stop all" in json.dumps(await calling)


async def test_a_start_that_waits_keeps_nobody_from_the_bench(engine: Engine) -> None:
    alice = await client_of(engine)
    calling = asyncio.create_task(alice.call(START, {"name": "lamp"}))
    (waiting,) = await waits(engine)
    low = {"instrument_id": "psu1", "command_name": "set_voltage",
           "parameters": {"channel": 1, "voltage": 1}}  # fmt: skip
    assert data_of(await alice.call("execute_command", low))["success"] is True
    engine.rpc("approvals.approve", approval_id=waiting["approval_id"], by="anna")
    run_id = data_of(await calling)["run_id"]
    await at(engine, run_id, "steps[3]")
    refused = await alice.call("execute_command", low)
    assert "leased" in json.dumps(refused)
