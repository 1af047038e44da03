"""What a person is shown before a yes: the same text everywhere, and all that would be sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.bench.engine import Engine, running_engine
from tests.bench.mcp_client import McpClient
from tests.flows.test_approvals import client_of, data_of, edged, next_message, waits
from tests.promises import promise

BENCH = """\
format: 1
psu1:
  confirm: [output_on, "set_voltage.voltage > 24"]
psu2:
  confirm: ["set_voltage.voltage > 24"]
  confirm_by: [client]
"""
YES = {"action": "accept", "content": {"approve": True}}
NO = {"action": "decline"}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    place = tmp_path_factory.mktemp("approval-text")
    (place / "bench.yaml").write_text(BENCH)
    with running_engine(place, "--instruments", "psu1,psu2=rigol_dp832") as running:
        yield running


@pytest.fixture
async def alice(engine: Engine) -> AsyncIterator[McpClient]:
    client = await client_of(engine, elicitation={})
    yield client
    await client.call("bench__stop_all")


def iv_curve(points: int) -> dict[str, Any]:
    return {
        "name": "execute_sequence",
        "arguments": {
            "instrument_id": "psu1",
            "sequence_name": "iv_curve",
            "parameters": {
                "channel": 1, "start": 20.01, "stop": 32, "points": points,
                "current_limit": 0.5, "settle_ms": 0,
            },
        },
    }  # fmt: skip


def sweep_of(unit: str, target: float, measures: int, measured: str = "") -> dict[str, Any]:
    measure = {
        "instrument_id": measured or unit,
        "command_name": "measure_voltage",
        "parameters": {"channel": 1},
    }
    return {
        "instrument_id": unit,
        "command_name": "set_voltage",
        "parameters": {"channel": 1},
        "target_value": target,
        "sweep_rate": 100,
        "measure": [measure] * measures,
    }


def texts_of(engine: Engine, name: str) -> list[str]:
    """What rows of that name say; line ends are spelled out there."""
    rows = engine.rpc("audit.list", limit=100, tool=name)["rows"]
    return [row["parameters"]["text"].replace("\\x0a", "\n") for row in rows]


def asked_text(engine: Engine, name: str) -> str:
    """The text of one question in the audit log, which may take several rows."""
    found = [text for text in texts_of(engine, "approval.asked") if name in text]
    return found[0] + "".join(text.removeprefix(f"{name} continues: ") for text in found[1:])


@promise("approval.shown")
@promise("approval.every-line")
@pytest.mark.parametrize(("points", "answer"), [(311, NO), (20, YES)])
async def test_all_roads_show_the_same_text_of_every_line(
    engine: Engine, alice: McpClient, points: int, answer: dict[str, Any]
) -> None:
    message = alice.message("tools/call", iv_curve(points))
    async with await alice.open_post(message) as connection:
        await connection.read_head()
        form = await next_message(connection)
        (waiting,) = await waits(engine)
        text, name = waiting["text"], waiting["approval_id"]
        assert form["params"]["message"] == text
        status = data_of(await (await client_of(engine)).call("get_status"))
        assert [one["text"] for one in status["approvals"]] == [text]
        listed = await asyncio.to_thread(edged, engine, "approve")
        assert text in listed.stdout
        assert asked_text(engine, name) == text
        for said in (
            f"psu1: execute_sequence iv_curve, asked by test 1 at 127.0.0.1, needs your approval "
            f"({name}).",
            f"Parameters: channel 1, start 20.01 V, stop 32 V, points {points}, "
            "current_limit 0.5 A, settle_ms 0 ms.",
            f"It would send {waiting['line_count']:,} lines, digest {waiting['digest']}; ",
            f"{points + 1} lines of set_voltage, :SOUR{{channel}}:VOLT {{voltage}}: channel 1, "
            "voltage 20.010 to 32.000 V",
            "1 line of set_current, :SOUR1:CURR 0.5000: channel 1, current 0.5000 A",
            "1 line of output_on, :OUTP CH1,ON: channel 1",
            f"{points} lines of measure_current, ",
        ):
            assert said in text, text
        shown = (await asyncio.to_thread(edged, engine, "approve", "show", name)).stdout
        lines = shown.splitlines()
        assert lines[-1] == f"{waiting['line_count']} lines, digest {waiting['digest']}"
        assert len(lines) == waiting["line_count"] + 1
        assert lines.count("psu1: :OUTP CH1,ON") == 1
        assert sum(line.startswith("psu1: :SOUR1:VOLT ") for line in lines) == points + 1
        asked = {"jsonrpc": "2.0", "id": form["id"], "result": answer}
        await alice.post(asked)
        result = await next_message(connection)
    if answer is NO:
        assert "approval_denied" in json.dumps(result)
        return
    told = data_of(result["result"])
    assert told["status"] == "completed"
    (row,) = [row for row in texts_of(engine, "approval.approved") if name in row]
    assert waiting["digest"] in row


@promise("approval.shown")
async def test_what_does_not_fit_the_clients_form_is_asked_at_the_bench_and_the_call_says_so(
    engine: Engine, alice: McpClient
) -> None:
    (address,) = [
        one["id"]
        for one in data_of(await alice.call("list_instruments"))["instruments"]
        if one["alias"] == "psu2"
    ]
    call = {
        "name": "start_sweep",
        "arguments": sweep_of("psu1", 25, 32, address),
        "_meta": {"progressToken": "p"},
    }
    async with await alice.open_post(alice.message("tools/call", call)) as connection:
        await connection.read_head()
        # The first message is no form.
        told = (await next_message(connection))["params"]["message"]
        assert "does not fit the form of a client" in told
        assert "by cli or page" in told
        (waiting,) = await waits(engine)
        assert waiting["ways"] == ["cli", "page"]
        assert 4_000 < len(waiting["text"]) <= 8_000
        listed = await asyncio.to_thread(edged, engine, "approve")
        assert waiting["text"] in listed.stdout
        assert waiting["remark"] in listed.stdout
        assert asked_text(engine, waiting["approval_id"]) == waiting["text"]
        await asyncio.to_thread(edged, engine, "deny", waiting["approval_id"])
        result = await next_message(connection)
    assert "approval_denied" in json.dumps(result)
    alone = await alice.call("start_sweep", sweep_of("psu2", 25, 32, address))
    assert "does not fit the form of a client" in json.dumps(alone)
    assert "confirm_by" in data_of(alone)["error"]["remedy"]


@promise("approval.shown")
async def test_a_sweep_shows_where_it_begins_and_does_not_begin_elsewhere(
    engine: Engine, alice: McpClient
) -> None:
    bob = await client_of(engine)
    low = {"instrument_id": "psu1", "command_name": "set_voltage"}
    await bob.call("execute_command", {**low, "parameters": {"channel": 1, "voltage": 2}})
    calling = asyncio.create_task(bob.call("start_sweep", sweep_of("psu1", 26, 1)))
    (waiting,) = await waits(engine)
    assert "channel 1, voltage 12.000 to 26.000 V" in waiting["text"], waiting["text"]
    assert (
        "Parameters: channel 1, voltage 26 V, target_value 26 V, sweep_rate 100 V/s"
        in (waiting["text"])
    )
    await bob.call("execute_command", {**low, "parameters": {"channel": 1, "voltage": 3}})
    engine.rpc("approvals.approve", approval_id=waiting["approval_id"], by="anna")
    said = json.dumps(await calling)
    assert "has changed since it was approved" in said


@promise("approval.shown")
async def test_what_nobody_could_be_shown_is_refused(engine: Engine, alice: McpClient) -> None:
    line = ":OUTP CH1,ON" + ";:SOURce1:VOLTage:LEVel:IMMediate:AMPLitude 1" * 25
    asked = {"instrument_id": "psu1", "scpi_command": line}
    result = data_of(await alice.call("send_scpi", asked))
    assert "cannot be shown as a whole" in json.dumps(result)
    assert (await waits(engine, 0)) == []
