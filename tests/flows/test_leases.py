"""Who has reserved a unit, on every road: real engines on the simulated bench."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench import command_line
from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import engine_process
from tests.bench.mcp_client import McpClient
from tests.bench.waiting import HANGS_S
from tests.promises import promise

SET = {
    "instrument_id": "psu1",
    "command_name": "set_voltage",
    "parameters": {"channel": 1, "voltage": 2.0},
}
SWEEP = {
    "instrument_id": "psu1",
    "command_name": "set_voltage",
    "parameters": {"channel": 1},
    "target_value": 5,
    "sweep_rate": 0.05,
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(tmp_path_factory.mktemp("leases")) as running:
        yield running


@pytest.fixture
async def alice(engine: Engine) -> AsyncIterator[McpClient]:
    client = await client_of(engine, "claude-code")
    yield client
    for lease in engine.rpc("leases.list")["leases"]:
        engine.rpc("leases.break", lease_id=lease["lease_id"], reason="test is over", by="test")
    await client.call("bench__stop_all")


@pytest.fixture
async def bob(engine: Engine) -> McpClient:
    return await client_of(engine, "notebook")


async def client_of(engine: Engine, name: str) -> McpClient:
    client = McpClient(engine.ports["mcp_port"])
    client.client_info = {"name": name, "version": "7"}
    await client.initialize("2025-06-18")
    return client


async def told(client: McpClient, tool: str, /, **arguments: Any) -> Any:
    result = await client.call(tool, arguments)
    assert not result.get("isError"), result
    if "structuredContent" in result:
        return result["structuredContent"]
    return json.loads(result["content"][0]["text"])


async def refused(client: McpClient, tool: str, /, **arguments: Any) -> str:
    result = await client.call(tool, arguments)
    assert result.get("isError"), result
    return json.dumps(result)


async def reserved(client: McpClient, *units: str, **more: Any) -> dict[str, Any]:
    lease: dict[str, Any] = await told(
        client, "bench__reserve", instruments=list(units) or ["psu1"], purpose="burn-in", **more
    )
    return lease


def edged(
    engine: Engine, *words: str, status: int = 0, lease: str = ""
) -> subprocess.CompletedProcess[str]:
    environ = {"EDGED_LEASE": lease} if lease else {}
    done = command_line.edged(*words, "--state-dir", str(engine.state_dir), environ=environ)
    assert done.returncode == status, done.stderr + done.stdout
    return done


@promise("lease.every-road")
async def test_what_somebody_has_reserved_others_do_not_write_to_on_any_road(
    engine: Engine, alice: McpClient, bob: McpClient
) -> None:
    lease = await reserved(alice)
    assert lease["instruments"] == [
        row["id"] for row in engine.rpc("instruments")["result"] if row["alias"] == "psu1"
    ]
    names = [tool["name"] for tool in engine.rpc("tools/list")["tools"]]
    (dynamic,) = [name for name in names if name.endswith("__set_voltage")]
    why = "psu1 is reserved by claude-code 7 at 127.0.0.1 for 'burn-in'"
    for tool, arguments in (
        ("execute_command", SET),
        (dynamic, SET["parameters"]),
        ("send_scpi", {"instrument_id": "psu1", "scpi_command": ":SOUR1:VOLT 2"}),
        ("start_sweep", SWEEP),
        (
            "execute_sequence",
            {
                "instrument_id": "psu1",
                "sequence_name": "voltage_point",
                "parameters": {"channel": 1, "voltage": 1},
            },
        ),
    ):
        said = await refused(bob, tool, **arguments)
        assert why in said, said
        assert lease["lease_id"] not in said
        answer = engine.tool(tool, **arguments)
        assert answer["error"]["code"] == "leased", answer
        assert not (await alice.call(tool, {**arguments, "dry_run": True})).get("isError")
    done = edged(engine, "scpi", "psu1", ":SOUR1:VOLT 2", status=1)
    assert why in done.stderr
    forecast = await told(bob, "execute_command", **SET, dry_run=True)
    assert why in json.dumps(forecast["conflicts"])
    await told(alice, "execute_command", **SET)


@promise("lease.stops-pass")
async def test_reads_stops_safe_commands_and_lockouts_pass(
    engine: Engine, alice: McpClient, bob: McpClient
) -> None:
    await reserved(alice)
    sweep_id = (await told(alice, "start_sweep", **SWEEP))["sweep_id"]
    measured = {
        "instrument_id": "psu1", "command_name": "measure_voltage", "parameters": {"channel": 1},
    }  # fmt: skip
    await told(bob, "execute_command", **measured)
    await told(bob, "send_scpi", instrument_id="psu1", scpi_command="*IDN?")
    off = {"instrument_id": "psu1", "command_name": "output_off", "parameters": {"channel": 1}}
    await told(bob, "execute_command", **off)
    async with asyncio.timeout(HANGS_S):
        while (await told(bob, "get_sweep_status", sweep_id=sweep_id))["status"] == "running":
            pass
    sweep_id = (await told(alice, "start_sweep", **SWEEP))["sweep_id"]
    await told(bob, "bench__stop_run", run_id=sweep_id)
    for wrong in ("lease-nobody", "lease-" + "x" * 22):
        await told(bob, "execute_command", **off, lease=wrong)
        assert (await told(bob, "bench__stop_all", lease=wrong))["is_confirmed"]
    locked = engine.rpc("lockout.set", instrument_id="psu1", reason="hands", by="anna")
    assert locked["is_present"]
    assert "locked out" in await refused(alice, "execute_command", **SET)
    engine.rpc("lockout.clear", instrument_id="psu1")


@promise("lease.id-is-the-key")
async def test_whoever_presents_the_id_is_the_holder_and_another_id_is_refused(
    engine: Engine, alice: McpClient, bob: McpClient
) -> None:
    lease_id = (await reserved(alice))["lease_id"]
    other_id = (await reserved(bob, "dmm1"))["lease_id"]
    await told(bob, "execute_command", **SET, lease=lease_id)
    bob.headers["Edged-Lease"] = lease_id
    await told(bob, "execute_command", **SET)
    del bob.headers["Edged-Lease"]
    assert "is of dmm1, not of psu1" in await refused(bob, "execute_command", **SET, lease=other_id)
    said = await refused(alice, "execute_command", **SET, lease="lease-none")
    assert "does not exist, or has ended" in said
    said = json.dumps(await alice.call("execute_command", {**SET, "lease": 7}))
    assert "does not exist, or has ended" in said
    off = {**SET, "command_name": "output_off", "parameters": {"channel": 1}, "lease": [7]}
    assert (await told(alice, "execute_command", **off))["success"] is True
    await told(alice, "bench__stop_all", lease={"lease_id": lease_id})
    edged(engine, "scpi", "psu1", ":SOUR1:VOLT 1.5", lease=lease_id)
    edged(engine, "scpi", "psu1", ":SOUR1:VOLT 1.5", "--lease", lease_id)
    await told(alice, "bench__release", lease_id=lease_id)
    said = await refused(bob, "execute_command", **SET, lease=lease_id)
    assert "does not exist, or has ended" in said
    await told(bob, "execute_command", **SET)


@promise("lease.without-a-session")
@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("per_call", [False, True], ids=["no session", "a session per call"])
async def test_a_caller_that_is_new_with_each_call_is_told_how_to_present_its_lease(
    engine: Engine, *, per_call: bool
) -> None:
    async def agent() -> McpClient:
        if per_call:
            return await client_of(engine, "adapter")
        return McpClient(engine.ports["mcp_port"])

    listed = (await (await agent()).request("tools/list")).json()["result"]["tools"]
    takes = {tool["name"] for tool in listed if "lease" in tool["inputSchema"]["properties"]}
    writes = {tool["name"] for tool in listed if not tool["annotations"]["readOnlyHint"]}
    assert takes == writes
    assert {"execute_command", "send_scpi", "start_sweep", "rigol_dp832__set_voltage"} <= takes
    lease = await told(await agent(), "bench__reserve", instruments=["psu1"])
    # An adapter that opens a session for each call does not know that it does.
    assert "the lease_id as the argument `lease` of every call that writes" in lease["how"]
    assert ("You have no session" in lease["how"]) is not per_call
    assert "present its id as the argument `lease`" in await refused(
        await agent(), "execute_command", **SET
    )
    presented = {"lease": lease["lease_id"]}
    await told(await agent(), "execute_command", **SET, **presented)
    given = {"channel": 1, "voltage": 3.0}
    await told(await agent(), "rigol_dp832__set_voltage", **given, **presented)
    await told(await agent(), "bench__release", lease_id=lease["lease_id"])


@promise("lease.secret")
async def test_the_id_stands_in_no_refusal_list_history_or_record(
    engine: Engine, alice: McpClient, bob: McpClient
) -> None:
    lease_id = (await reserved(alice))["lease_id"]
    await told(bob, "execute_command", **SET, lease=lease_id)
    await told(bob, "bench__renew", lease_id=lease_id, ttl_s=60)
    shown = [
        await told(bob, tool)
        for tool in ("get_status", "list_instruments", "bench__check", "bench__history")
    ]
    shown += [await refused(bob, "bench__reserve", instruments="all"), engine.rpc("audit.list")]
    await told(bob, "bench__release", lease_id=lease_id)
    shown += [engine.rpc("audit.list"), engine.log.read_text()]
    assert lease_id not in json.dumps(shown)


@promise("lease.shown")
async def test_who_has_it_what_for_and_until_when_is_shown_where_people_look(
    engine: Engine, alice: McpClient, bob: McpClient
) -> None:
    lease = await reserved(alice, "psu1", ttl_s=1000)
    holder = {
        "who": "claude-code 7 at 127.0.0.1",
        "purpose": "burn-in",
        "expires_ms": pytest.approx(lease["expires_ms"], abs=60_000),
    }
    rows = (await told(bob, "list_instruments"))["instruments"]
    assert {row["alias"]: row["lease"] for row in rows}["psu1"] == holder
    assert {row["alias"]: row["lease"] for row in rows}["dmm1"] is None
    for tool in ("get_status", "bench__check"):
        (told_lease,) = (await told(bob, tool))["leases"]
        assert told_lease["instruments"] == ["psu1"]
        assert told_lease["who"] == holder["who"]
        assert "lease_id" not in told_lease
    assert (
        "psu1: reserved by claude-code 7 at 127.0.0.1 for burn-in" in edged(engine, "status").stdout
    )
    listed = edged(engine, "lease", "list").stdout
    assert "burn-in" in listed
    assert lease["lease_id"] in listed


@promise("lease.runs")
async def test_a_unit_on_which_anothers_run_is_under_way_is_not_given(
    alice: McpClient, bob: McpClient
) -> None:
    sweep_id = (await told(bob, "start_sweep", **SWEEP))["sweep_id"]
    said = await refused(alice, "bench__reserve", instruments=["psu1"])
    assert f"psu1 is held by {sweep_id}" in said
    assert "by notebook 7 at 127.0.0.1" in said
    await reserved(bob)
    await told(bob, "stop_sweep", sweep_id=sweep_id)


@promise("lease.owner-breaks")
async def test_only_the_owner_breaks_one_and_it_is_a_row(
    engine: Engine, alice: McpClient, bob: McpClient
) -> None:
    await reserved(alice)
    names = [tool["name"] for tool in engine.rpc("tools/list")["tools"]]
    assert not [name for name in names if "break" in name]
    done = edged(engine, "lease", "break", "psu1", "--reason", "gone home", "--by", "anna")
    assert "no longer reserved by claude-code 7" in done.stdout
    await told(bob, "execute_command", **SET)
    rows = engine.rpc("audit.list")["rows"]
    assert [row for row in rows if row["tool"] == "leases.break"]
    (ended,) = [row for row in rows if "gone home" in json.dumps(row) and "psu1" in str(row)][-1:]
    assert "broken by anna: gone home" in json.dumps(ended)


@promise("lease.fence")
async def test_a_write_that_waited_under_a_lease_that_ended_is_not_sent(
    engine: Engine, alice: McpClient
) -> None:
    await reserved(alice)
    await told(alice, "execute_command", **SET)
    engine.sim("fault", instrument="psu1", kind="late", seconds=2, count=1)
    reading = asyncio.create_task(
        alice.call("send_scpi", {"instrument_id": "psu1", "scpi_command": ":SOUR1:VOLT?"})
    )
    while "busy" not in (await told(alice, "get_status"))["instruments_by_state"]:
        await asyncio.sleep(0.05)
    waiting = asyncio.create_task(
        alice.call("execute_command", {**SET, "parameters": {"channel": 1, "voltage": 4.5}})
    )
    while not (await told(alice, "get_status"))["waiting_calls"]:
        await asyncio.sleep(0.05)
    engine.rpc("leases.break", lease_id="psu1", reason="mine", by="anna")
    again = asyncio.create_task(reserved(alice))
    assert "was ended by the end of the lease of " in json.dumps(await waiting)
    await reading
    await again
    sent = [row["text"] for row in engine.rpc("trace", instrument_id="psu1")["exchanges"]]
    assert not [line for line in sent if "4.5" in line]


@promise("lease.survives")
async def test_it_outlives_kill_9_and_is_reached_by_its_id(tmp_path: Path) -> None:
    with engine_process(tmp_path) as engine:
        lease = await reserved(await client_of(engine, "claude-code"), ttl_s=600)
        os.kill(engine.process.pid, signal.SIGKILL)
        engine.process.wait()
    with engine_process(tmp_path) as engine:
        bob = await client_of(engine, "notebook")
        assert "reserved by claude-code 7" in await refused(bob, "execute_command", **SET)
        await told(bob, "execute_command", **SET, lease=lease["lease_id"])
        await told(bob, "bench__release", lease_id=lease["lease_id"])
        again = await reserved(bob)
        assert again["fence"] == lease["fence"] + 1


@promise("lease.max")
async def test_none_lasts_longer_than_the_owner_lets_it_and_0_gives_none(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with running_engine(tmp_path / "a", config={"LEASE_MAX_SEC": 1}) as engine:
        alice, bob = await client_of(engine, "claude-code"), await client_of(engine, "notebook")
        await reserved(alice)
        async with asyncio.timeout(HANGS_S):
            while (await told(bob, "get_status"))["leases"]:
                await told(alice, "execute_command", **SET)
        await told(bob, "execute_command", **SET)
        rows = engine.rpc("audit.list")["rows"]
        assert "too_long" in json.dumps([row for row in rows if row["tool"] == "lease.ended"])
    with running_engine(tmp_path / "b", config={"LEASE_MAX_SEC": 0}) as engine:
        alice = await client_of(engine, "claude-code")
        assert "gives no leases" in await refused(alice, "bench__reserve", instruments="all")


@promise("lease.on-expiry")
@pytest.mark.parametrize(
    ("on_expiry", "state"), [("keep", "running"), ("hold", "holding"), ("abort", "stopped")]
)
async def test_what_becomes_of_a_run_whose_lease_ends_is_the_owners_word(
    tmp_path: Path, on_expiry: str, state: str
) -> None:
    (tmp_path / "bench.yaml").write_text(f"format: 1\npsu1: {{on_expiry: {on_expiry}}}\n")
    with running_engine(tmp_path) as engine:
        alice = await client_of(engine, "claude-code")
        lease = await reserved(alice)
        sweep_id = (await told(alice, "start_sweep", **SWEEP))["sweep_id"]
        await told(alice, "bench__release", lease_id=lease["lease_id"])
        async with asyncio.timeout(HANGS_S):
            while (await told(alice, "get_sweep_status", sweep_id=sweep_id))["status"] != state:
                await asyncio.sleep(0.05)
        bob = await client_of(engine, "notebook")
        if state != "stopped":
            said = await refused(bob, "bench__reserve", instruments=["psu1"])
            assert f"held by {sweep_id}" in said
        else:
            await reserved(bob)


@promise("lease.all-or-none")
async def test_all_means_what_is_registered_now_and_all_or_none_are_given(
    engine: Engine, alice: McpClient, bob: McpClient
) -> None:
    await reserved(bob, "dmm1")
    said = await refused(alice, "bench__reserve", instruments="all")
    assert "dmm1 is reserved by notebook 7" in said
    await told(bob, "execute_command", **SET)
    said = await refused(alice, "bench__reserve", instruments=["psu9"])
    assert "psu9" in said
    said = json.dumps(await alice.call("bench__reserve", {"instruments": ["psu1"], "ttl_s": 5}))
    assert "30" in said
    printed = edged(engine, "lease", "reserve", "psu1", "scope1", "--purpose", "night").stdout
    lease_id = printed.rpartition("EDGED_LEASE=")[2].strip()
    assert "reserved by edged lease" in await refused(bob, "execute_command", **SET)
    edged(engine, "lease", "renew", lease_id, "--ttl", "60")
    edged(engine, "lease", "release", lease_id)
    edged(engine, "lease", "release", lease_id, status=1)
    assert "dmm1" in edged(engine, "lease", "list").stdout


async def test_a_lease_is_released_in_a_shell_by_its_instrument_too_but_only_ones_own(
    engine: Engine, alice: McpClient
) -> None:
    lease = await reserved(alice, "dmm1")
    edged(engine, "lease", "reserve", "psu1")
    edged(engine, "lease", "renew", "psu1", "--ttl", "60")
    assert "no longer reserved" in edged(engine, "lease", "release", "psu1").stdout
    assert "no lease 'psu1'" in edged(engine, "lease", "release", "psu1", status=1).stderr
    said = edged(engine, "lease", "release", "dmm1", status=1).stderr
    assert "dmm1 is reserved by claude-code" in said
    assert "edged lease break dmm1" in said
    edged(engine, "lease", "release", lease["lease_id"])


@promise("lease.every-road")
async def test_a_dangerous_question_of_a_run_is_a_write_to_the_unit_that_it_asks(
    tmp_path: Path,
) -> None:
    rules = "format: 1\ndmm1: {is_dangerous: [measure_dc_voltage]}\n"
    (tmp_path / "bench.yaml").write_text(rules)
    question = {"instrument_id": "dmm1", "command_name": "measure_dc_voltage"}
    with running_engine(tmp_path) as engine:
        alice, bob = await client_of(engine, "claude-code"), await client_of(engine, "notebook")
        await reserved(alice, "dmm1")
        for tool, arguments in (
            ("execute_command", question),
            ("start_stream", {**question, "interval_ms": 100}),
            ("start_sweep", {**SWEEP, "measure": [question]}),
        ):
            assert "dmm1 is reserved by" in await refused(bob, tool, **arguments), tool
        await told(bob, "start_sweep", **SWEEP)
