"""What the owner wants to be asked about, on every road: real engines on the simulated bench."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench import command_line
from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import engine_process
from tests.bench.mcp_client import CAPABILITIES_KEY, Connection, McpClient, modern
from tests.bench.waiting import HANGS_S
from tests.promises import promise

BENCH = """\
format: 1
psu1:
  confirm: [output_on, "set_voltage.voltage > 24", "sequence:iv_curve"]
  confirm_ttl_s: 30
load1:
  confirm: [input_on]
  confirm_by: [cli]
  confirm_ttl_s: 1
smu1:
  confirm: [output_on]
  confirm_by: [client]
"""
ON = {"instrument_id": "psu1", "command_name": "output_on", "parameters": {"channel": 1}}
HIGH = {
    "instrument_id": "psu1",
    "command_name": "set_voltage",
    "parameters": {"channel": 1, "voltage": 25.0},
}
LOW = {**HIGH, "parameters": {"channel": 1, "voltage": 2.0}}
INSTRUMENTS = "psu1,load1=rigol_dl3021,smu1=keithley_2450"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    place = tmp_path_factory.mktemp("approvals")
    (place / "bench.yaml").write_text(BENCH)
    with running_engine(place, "--instruments", INSTRUMENTS) as running:
        yield running


@pytest.fixture
async def alice(engine: Engine) -> AsyncIterator[McpClient]:
    client = await client_of(engine)
    yield client
    await client.call("bench__stop_all")


async def client_of(engine: Engine, version: str = "2025-11-25", **capabilities: Any) -> McpClient:
    client = McpClient(engine.ports["mcp_port"], capabilities=capabilities)
    await client.initialize(version)
    return client


def data_of(result: dict[str, Any]) -> Any:
    if "structuredContent" in result:
        return result["structuredContent"]
    return json.loads(result["content"][0]["text"])


async def waits(engine: Engine, count: int = 1) -> list[dict[str, Any]]:
    async with asyncio.timeout(HANGS_S):
        while True:
            found = await asyncio.to_thread(engine.rpc, "approvals.list")
            if len(found["approvals"]) == count:
                waiting: list[dict[str, Any]] = found["approvals"]
                return waiting
            await asyncio.sleep(0.05)


def edged(engine: Engine, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = command_line.edged(*words, "--state-dir", str(engine.state_dir))
    assert done.returncode == status, done.stderr + done.stdout
    return done


def is_on(engine: Engine) -> bool:
    told = engine.tool(
        "execute_command",
        instrument_id="psu1",
        command_name="get_output",
        parameters={"channel": 1},
    )
    return bool(told["result"]["data"])


@promise("approval.at-the-bench")
@pytest.mark.parametrize("verb", ["approve", "deny"])
async def test_a_call_waits_until_somebody_at_the_bench_answers(
    engine: Engine, alice: McpClient, verb: str
) -> None:
    calling = asyncio.create_task(alice.call("execute_command", ON))
    (waiting,) = await waits(engine)
    assert "\n  :OUTP CH1,ON\n" in waiting["text"]
    assert "\nParameters: channel 1.\n" in waiting["text"]
    assert (waiting["instrument"], waiting["who"]) == ("psu1", "test 1 at 127.0.0.1")
    assert not is_on(engine)
    listed = await asyncio.to_thread(edged, engine, "approve")
    assert waiting["approval_id"] in listed.stdout
    assert ":OUTP CH1,ON" in listed.stdout
    told = await asyncio.to_thread(edged, engine, "approve", "--json")
    assert json.loads(told.stdout) == [waiting]
    status = data_of(await alice.call("get_status"))
    assert [one["approval_id"] for one in status["approvals"]] == [waiting["approval_id"]]
    glance = await asyncio.to_thread(edged, engine, "status")
    assert f"edged approve {waiting['approval_id']}" in glance.stdout
    name = waiting["approval_id"]
    await asyncio.to_thread(edged, engine, verb, name, "--by", "anna")
    result = await calling
    assert is_on(engine) == (verb == "approve")
    if verb == "deny":
        assert data_of(result)["error"]["code"] == "approval_denied"
        assert "anna" in json.dumps(result)
    # The first answer counts, and it counts once.
    again = await asyncio.to_thread(edged, engine, "approve", name, status=1)
    assert name in again.stderr
    rows = [row["tool"] for row in engine.rpc("audit.list", limit=20)["rows"]]
    assert {"approval.asked", "approval.approved" if verb == "approve" else "approval.denied"} <= (
        set(rows)
    )


@promise("approval.at-the-bench")
async def test_a_verb_of_the_shell_says_once_what_it_waits_for_and_its_output_stays_pure(
    engine: Engine,
) -> None:
    words = ("psu1", "OUTP CH1,ON", "--json")
    sending = asyncio.create_task(asyncio.to_thread(edged, engine, "scpi", *words))
    (waiting,) = await waits(engine)
    await asyncio.sleep(3.5)
    name = waiting["approval_id"]
    await asyncio.to_thread(edged, engine, "approve", name)
    sent = await sending
    told = f"send_scpi on psu1 waits for approval {name} (edged approve {name})"
    assert sent.stderr.splitlines() == [f"edged: {told}"]
    assert "response" in json.loads(sent.stdout)
    await asyncio.to_thread(engine.tool, "bench__stop_all")


@promise("approval.every-road")
async def test_every_road_asks_and_what_is_below_the_bound_does_not(
    engine: Engine, alice: McpClient
) -> None:
    names = [tool["name"] for tool in engine.rpc("tools/list")["tools"]]
    (dynamic,) = [name for name in names if name.endswith("dp832__output_on")]
    roads: list[tuple[str, dict[str, Any]]] = [
        ("execute_command", HIGH),
        (dynamic, {"channel": 1}),
        ("send_scpi", {"instrument_id": "psu1", "scpi_command": ":SOUR1:VOLT 25"}),
        ("send_scpi", {"instrument_id": "psu1", "scpi_command": ":OUTPut:STATe CH1,1"}),
        ("execute_sequence", {"instrument_id": "psu1", "sequence_name": "iv_curve",
                              "parameters": {"channel": 1, "stop": 1, "points": 2}}),
        ("start_sweep", {"instrument_id": "psu1", "command_name": "set_voltage",
                         "parameters": {"channel": 1}, "target_value": 25, "sweep_rate": 100}),
    ]  # fmt: skip
    for tool, arguments in roads:
        calling = asyncio.create_task(alice.call(tool, arguments))
        (waiting,) = await waits(engine)
        assert waiting["line_count"] > 0, tool
        engine.rpc("approvals.deny", approval_id=waiting["approval_id"], by="anna")
        assert "approval_denied" in json.dumps(await calling), tool
        dry_run = data_of(await alice.call(tool, {**arguments, "dry_run": True}))
        assert dry_run["needs"] == ["approval"], tool
        assert not dry_run["conflicts"], tool
    assert data_of(await alice.call("execute_command", LOW))["success"] is True
    # What the profile does not know might be just that.
    unknown = {"instrument_id": "psu1", "scpi_command": ":FOO 1"}
    assert "raw_scpi_restricted" in json.dumps(await alice.call("send_scpi", unknown))
    # What validation would refuse is not asked about.
    bad = {**HIGH, "parameters": {"channel": 1, "voltage": 99.0}}
    assert "over the maximum" in json.dumps(await alice.call("execute_command", bad))
    assert not is_on(engine)


@promise("approval.every-road")
async def test_a_sweep_is_asked_about_once_and_then_runs_to_its_end(
    engine: Engine, alice: McpClient
) -> None:
    sweep = {"instrument_id": "psu1", "command_name": "set_voltage",
             "parameters": {"channel": 1}, "sweep_rate": 10}  # fmt: skip
    for target in (26, 1):
        calling = asyncio.create_task(alice.call("start_sweep", {**sweep, "target_value": target}))
        # Down as well: it begins above the bound.
        (waiting,) = await waits(engine)
        engine.rpc("approvals.approve", approval_id=waiting["approval_id"], by="anna")
        sweep_id = data_of(await calling)["sweep_id"]
        async with asyncio.timeout(HANGS_S):
            while True:
                told = data_of(await alice.call("get_sweep_status", {"sweep_id": sweep_id}))
                if told["status"] != "running":
                    break
                await asyncio.sleep(0.05)
        assert (told["status"], told["reason"]) == ("completed", "target reached"), told
    low = data_of(await alice.call("start_sweep", {**sweep, "target_value": 2}))
    assert low["status"] == "running"


@promise("approval.every-road")
async def test_a_sequence_is_asked_about_once_as_a_whole(engine: Engine, alice: McpClient) -> None:
    arguments = {"instrument_id": "psu1", "sequence_name": "iv_curve",
                 "parameters": {"channel": 1, "stop": 1, "points": 2}}  # fmt: skip
    calling = asyncio.create_task(alice.call("execute_sequence", arguments))
    (waiting,) = await waits(engine)
    # Its steps that the owner wants to be asked about are in it.
    assert "OUTP CH1,ON" in waiting["text"]
    engine.rpc("approvals.approve", approval_id=waiting["approval_id"], by="anna")
    assert data_of(await calling)["status"] == "completed"


@promise("approval.ends")
async def test_stops_lockouts_and_others_leases_end_what_waits(
    engine: Engine, alice: McpClient
) -> None:
    bob = await client_of(engine)

    async def ended(how: Any) -> str:
        calling = asyncio.create_task(alice.call("execute_command", ON))
        (waiting,) = await waits(engine)
        await how()
        said = json.dumps(await calling)
        await waits(engine, 0)
        late = await asyncio.to_thread(edged, engine, "approve", waiting["approval_id"], status=1)
        assert "waits for an answer" in late.stderr
        assert not is_on(engine)
        return said

    async def stop() -> None:
        await bob.call("bench__stop_all")

    async def lock() -> None:
        await asyncio.to_thread(
            engine.rpc, "lockout.set", instrument_id="psu1", reason="hands inside", by="anna"
        )

    async def lease() -> None:
        await bob.call("bench__reserve", {"instruments": ["psu1"], "purpose": "burn-in"})

    assert "was ended by stop all of " in await ended(stop)
    assert "hands inside" in await ended(lock)
    engine.rpc("lockout.clear", instrument_id="psu1")
    assert "is reserved by" in await ended(lease)
    for one in engine.rpc("leases.list")["leases"]:
        engine.rpc("leases.break", lease_id=one["lease_id"], reason="over", by="anna")


@promise("approval.ends")
async def test_a_call_that_is_cancelled_waits_no_more(engine: Engine, alice: McpClient) -> None:
    message = alice.message("tools/call", {"name": "execute_command", "arguments": ON})
    async with await alice.open_post(message):
        await waits(engine)
        await alice.notify("notifications/cancelled", {"requestId": message["id"]})
        await waits(engine, 0)
    assert not is_on(engine)


@promise("approval.ends")
async def test_what_nobody_answers_fails_in_time_and_safe_commands_never_wait(
    engine: Engine, alice: McpClient
) -> None:
    on = {"instrument_id": "load1", "command_name": "input_on", "parameters": {}}
    result = await alice.call("execute_command", on)
    assert "needs approval at the bench" in json.dumps(result)
    assert data_of(result)["error"]["remedy"]
    off = {**ON, "command_name": "output_off"}
    assert data_of(await alice.call("execute_command", off))["success"] is True
    # One that only its client may answer, and that cannot ask, does not wait at all.
    alone = {"instrument_id": "smu1", "command_name": "output_on", "parameters": {}}
    result = await alice.call("execute_command", alone)
    assert "its client cannot be asked" in json.dumps(result)


@promise("approval.progress")
async def test_whoever_listens_is_told_that_it_waits(engine: Engine, alice: McpClient) -> None:
    params = {"name": "execute_command", "arguments": ON, "_meta": {"progressToken": "p"}}
    async with await alice.open_post(alice.message("tools/call", params)) as connection:
        status, headers = await connection.read_head()
        assert (status, headers["content-type"]) == (200, "text/event-stream")
        event = await next_message(connection)
        assert event["params"]["progressToken"] == "p"
        assert "waits for a person's approval" in event["params"]["message"]
        (waiting,) = await waits(engine)
        engine.rpc("approvals.deny", approval_id=waiting["approval_id"], by="anna")
        assert (await next_message(connection))["result"]["isError"] is True


async def next_message(connection: Connection) -> dict[str, Any]:
    while True:
        event = await connection.next_event()
        assert event is not None
        if event.data:
            told: dict[str, Any] = event.json()
            return told


ANSWERS = [
    ({"action": "accept", "content": {"approve": True}}, True),
    ({"action": "accept", "content": {"approve": False}}, False),
    ({"action": "accept", "content": {}}, False),
    ({"action": "decline"}, False),
    ({"action": "cancel"}, False),
]


@promise("approval.by-client")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
@pytest.mark.parametrize(("answer", "is_yes"), ANSWERS)
async def test_a_client_that_shows_forms_is_asked_on_the_calls_own_stream(
    engine: Engine, alice: McpClient, version: str, answer: dict[str, Any], is_yes: bool
) -> None:
    client = await client_of(engine, version, elicitation={})
    message = client.message("tools/call", {"name": "execute_command", "arguments": ON})
    async with await client.open_post(message) as connection:
        status, _ = await connection.read_head()
        assert status == 200
        asked = await next_message(connection)
        assert asked["method"] == "elicitation/create"
        assert ("mode" in asked["params"]) == (version == "2025-11-25")
        assert ":OUTP CH1,ON" in asked["params"]["message"]
        assert asked["params"]["requestedSchema"]["properties"]["approve"]["type"] == "boolean"
        assert not is_on(engine)
        # An answer with another id is nobody's.
        await client.post({"jsonrpc": "2.0", "id": "edged-0", "result": answer})
        got = await client.post({"jsonrpc": "2.0", "id": asked["id"], "result": answer})
        assert got.status == 202
        result = await next_message(connection)
        assert result["id"] == message["id"]
        assert result["result"].get("isError", False) is not is_yes
    assert is_on(engine) == is_yes


@promise("approval.by-client")
async def test_a_client_that_cannot_ask_after_all_leaves_it_to_the_bench(
    engine: Engine, alice: McpClient
) -> None:
    client = await client_of(engine, elicitation={"form": {}})
    message = client.message("tools/call", {"name": "execute_command", "arguments": ON})
    async with await client.open_post(message) as connection:
        await connection.read_head()
        asked = await next_message(connection)
        error = {"code": -32601, "message": "no"}
        await client.post({"jsonrpc": "2.0", "id": asked["id"], "error": error})
        (waiting,) = await waits(engine)
        engine.rpc("approvals.approve", approval_id=waiting["approval_id"], by="anna")
        assert "result" in await next_message(connection)
    assert is_on(engine)


@promise("approval.by-client")
async def test_an_answer_at_the_bench_withdraws_the_clients_dialog(
    engine: Engine, alice: McpClient
) -> None:
    client = await client_of(engine, elicitation={})
    message = client.message("tools/call", {"name": "execute_command", "arguments": ON})
    async with await client.open_post(message) as connection:
        await connection.read_head()
        asked = await next_message(connection)
        (waiting,) = await waits(engine)
        engine.rpc("approvals.approve", approval_id=waiting["approval_id"], by="anna")
        withdrawn = await next_message(connection)
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"]["requestId"] == asked["id"]
        assert "result" in await next_message(connection)


YES = {"approval": {"action": "accept", "content": {"approve": True}}}
NO = {"approval": {"action": "decline"}}


async def round_trip(
    engine: Engine, arguments: dict[str, Any] = ON, /, **more: Any
) -> dict[str, Any]:
    client = McpClient(engine.ports["mcp_port"])
    params = {
        "name": "execute_command",
        "arguments": arguments,
        "_meta": {CAPABILITIES_KEY: {"elicitation": {"form": {}}}},
        **more,
    }
    message, headers = modern(client.message("tools/call", params))
    reply: dict[str, Any] = (await client.post(message, headers)).messages()[-1]
    return reply


@promise("approval.rounds")
async def test_under_the_newest_revision_the_answer_asks_and_the_call_is_repeated(
    engine: Engine, alice: McpClient
) -> None:
    asked = (await round_trip(engine))["result"]
    assert asked["resultType"] == "input_required"
    form = asked["inputRequests"]["approval"]
    assert form["method"] == "elicitation/create"
    assert form["params"]["mode"] == "form"
    assert ":OUTP CH1,ON" in form["params"]["message"]
    state = asked["requestState"]
    assert not is_on(engine)
    done = (await round_trip(engine, requestState=state, inputResponses=YES))["result"]
    assert done["resultType"] == "complete"
    assert is_on(engine)
    await alice.call("execute_command", {**ON, "command_name": "output_off"})
    again = await round_trip(engine, requestState=state, inputResponses=YES)
    assert "requestState was used already" in json.dumps(again)
    assert not is_on(engine)


@promise("approval.rounds")
async def test_a_state_is_good_for_one_call_of_one_caller_and_for_no_other(
    engine: Engine, alice: McpClient
) -> None:
    state = (await round_trip(engine))["result"]["requestState"]
    other = {**ON, "parameters": {"channel": 2}}
    for arguments, bad in (
        (other, state),
        (ON, state[:-4] + "AAAA"),
        (ON, "x" + state),
        (ON, "nothing"),
        (ON, "." * 10_000),
    ):
        said = await round_trip(engine, arguments, requestState=bad, inputResponses=YES)
        assert "requestState" in json.dumps(said), bad
        assert "input_required" not in json.dumps(said)
    for wrong in ({"requestState": 5}, {"inputResponses": []}, {"inputResponses": {"approval": 1}}):
        assert (await round_trip(engine, **wrong))["error"]["code"] == -32602
    # Without an answer it is asked again, and the state is still good.
    still = (await round_trip(engine, requestState=state))["result"]
    assert still["resultType"] == "input_required"
    assert not is_on(engine)
    denied = await round_trip(engine, requestState=state, inputResponses=NO)
    assert "approval_denied" in json.dumps(denied)
    after = await round_trip(engine, requestState=still["requestState"], inputResponses=YES)
    assert "used already" in json.dumps(after)
    assert not is_on(engine)


@promise("approval.rounds")
async def test_a_yes_at_the_bench_lets_the_repeated_call_pass_once(
    engine: Engine, alice: McpClient
) -> None:
    state = (await round_trip(engine))["result"]["requestState"]
    (waiting,) = await waits(engine)
    engine.rpc("approvals.approve", approval_id=waiting["approval_id"], by="anna")
    assert (await round_trip(engine))["result"]["resultType"] == "complete"
    assert is_on(engine)
    used = await round_trip(engine, requestState=state, inputResponses=YES)
    assert "used already" in json.dumps(used)


@promise("approval.rounds")
async def test_a_stop_ends_what_was_asked_and_not_answered(
    engine: Engine, alice: McpClient
) -> None:
    state = (await round_trip(engine))["result"]["requestState"]
    await alice.call("bench__stop_all")
    said = await round_trip(engine, requestState=state, inputResponses=YES)
    assert "has ended" in json.dumps(said)
    assert not is_on(engine)


@promise("approval.rounds")
async def test_what_was_used_up_is_used_up_after_a_crash(tmp_path: Path) -> None:
    (tmp_path / "bench.yaml").write_text(BENCH)
    with engine_process(tmp_path) as first:
        used = (await round_trip(first))["result"]["requestState"]
        await round_trip(first, requestState=used, inputResponses=NO)
        fresh = (await round_trip(first))["result"]["requestState"]
        assert (first.state_dir / "approval.key").stat().st_mode & 0o777 == 0o600
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
    with engine_process(tmp_path) as second:
        for state in (used, fresh):
            said = await round_trip(second, requestState=state, inputResponses=YES)
            assert ("used already" in json.dumps(said)) == (state == used)
        assert is_on(second)


@promise("approval.ends")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
async def test_a_client_that_goes_away_takes_its_question_along(
    engine: Engine, alice: McpClient, version: str
) -> None:
    if version == "2026-07-28":
        client = McpClient(engine.ports["mcp_port"])
        params = {"name": "execute_command", "arguments": ON}
        message, headers = modern(client.message("tools/call", params))
        connection = await client.open_post(message, headers)
    else:
        client = await client_of(engine, version, elicitation={})
        message = client.message("tools/call", {"name": "execute_command", "arguments": ON})
        connection = await client.open_post(message)
    async with connection:
        await waits(engine)
        connection.abort()
    await waits(engine, 0)
    assert not is_on(engine)


@promise("approval.ends")
async def test_a_verb_that_is_ended_takes_its_question_along(
    engine: Engine, alice: McpClient
) -> None:
    (tool,) = [
        one["name"]
        for one in engine.rpc("tools/list")["tools"]
        if one["name"].endswith("dp832__output_on")
    ]
    words = ["call", tool, "channel=1", "--state-dir", str(engine.state_dir)]
    calling = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "edged", *words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    (waiting,) = await waits(engine)
    calling.terminate()
    await calling.wait()
    await waits(engine, 0)
    assert waiting["instrument"] == "psu1"
    assert not is_on(engine)
