"""Resources as clients meet them: a real engine on a simulated bench, real sockets."""

from __future__ import annotations

import asyncio
import base64
import json
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.engine import Engine, running_engine
from tests.bench.mcp_client import Connection, McpClient, modern
from tests.bench.waiting import HANGS_S
from tests.promises import promise


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(tmp_path_factory.mktemp("resources")) as running:
        yield running


@pytest.fixture
async def client(engine: Engine) -> McpClient:
    client = McpClient(engine.ports["mcp_port"], engine.ports["mcp_path"])
    await client.initialize("2025-11-25")
    async with asyncio.timeout(HANGS_S):
        while len(json.loads((await client.call("list_instruments"))["content"][0]["text"])) < 3:
            await asyncio.sleep(0.05)
    return client


async def listed(client: McpClient) -> dict[str, dict[str, Any]]:
    answer = await client.request("resources/list")
    return {entry["uri"]: entry for entry in answer.json()["result"]["resources"]}


async def read(client: McpClient, uri: str) -> dict[str, Any]:
    answer = await client.request("resources/read", {"uri": uri})
    assert "result" in answer.json(), answer.json()
    (content,) = answer.json()["result"]["contents"]
    assert content["uri"] == uri
    return dict(content)


async def rows_of(engine: Engine, uri: str) -> list[dict[str, Any]]:
    """The rows of the audit about a resource, once there are any."""
    async with asyncio.timeout(HANGS_S):
        while True:
            rows = engine.rpc("audit.list", limit=200)["rows"]
            found = [row for row in rows if row["parameters"].get("uri") == uri]
            if found:
                return found
            await asyncio.sleep(0.05)


async def result_of(client: McpClient, tool: str, **arguments: Any) -> Any:
    return json.loads((await client.call(tool, arguments))["content"][0]["text"])


@promise("mcp.resources")
async def test_what_stands_on_the_bench_is_listed_and_read_as_the_tools_tell_it(
    client: McpClient, engine: Engine
) -> None:
    entries = await listed(client)
    instruments = await result_of(client, "list_instruments")
    there = json.loads((await read(client, "edged://instruments"))["text"])
    # When each was heard last is told by two clocks, which differ by a millisecond now and then.
    assert [{**one, "heard_ms": 0} for one in there] == [
        {**one, "heard_ms": 0} for one in instruments
    ]
    for instrument in instruments:
        (uri,) = (uri for uri in entries if uri.endswith(f"/{instrument['id']}"))
        (told,) = await result_of(client, "get_capabilities", instrument_id=instrument["id"])
        assert json.loads((await read(client, uri))["text"]) == told
    assert "edged://profiles/rigol_dp832" in entries
    page = await read(client, "edged://profiles/rigol_dp832")
    assert page["mimeType"] == "text/markdown"
    assert page["text"].startswith("# Rigol DP832\n")
    command = await read(client, "edged://instruments/psu1/commands/set_voltage")
    assert json.loads(command["text"])["parameters"]["properties"]["voltage"]["maximum"] == 32
    rows = await rows_of(engine, "edged://profiles/rigol_dp832")
    assert [(r["tool"], r["outcome"], r["route"]) for r in rows] == [
        ("get_capabilities", "ok", "direct")
    ]


async def test_a_captured_waveform_is_a_blob_of_what_fetch_waveform_gives(
    client: McpClient,
) -> None:
    taken = await result_of(
        client, "execute_command", instrument_id="scope1", command_name="capture_waveform"
    )
    data = taken["data"]
    uri = f"edged://waveforms/{data['stream_id']}/{data['point_index']}"
    assert (await listed(client))[uri]["size"] == 4 * data["y_length"]
    content = await read(client, uri)
    fetched = await result_of(
        client, "fetch_waveform", stream_id=data["stream_id"], point_index=data["point_index"]
    )
    assert content["blob"] == fetched["y_data"]
    assert len(array("f", base64.b64decode(content["blob"]))) == data["y_length"]
    assert content["_meta"]["y_unit"] == data["y_unit"]


@promise("mcp.resource-news")
async def test_a_sweep_is_listed_followed_and_then_read_as_a_recording(
    client: McpClient, engine: Engine
) -> None:
    async with await client.open_stream() as stream:
        started = await result_of(
            client,
            "start_sweep",
            instrument_id="psu1",
            command_name="set_voltage",
            target_value=2,
            sweep_rate=1,
            parameters={"channel": 1},
            measure=[
                {
                    "instrument_id": "psu1",
                    "command_name": "measure_voltage",
                    "parameters": {"channel": 1},
                }
            ],
        )
        uri = f"edged://sweeps/{started['sweep_id']}"
        answer = await client.request("resources/subscribe", {"uri": uri})
        assert answer.json()["result"] == {}
        assert uri in await listed(client)
        told = await until(stream, "notifications/resources/updated")
        assert told["params"] == {"uri": uri}
        status = json.loads((await read(client, uri))["text"])
        assert {"columns", "points"} <= set(status)
        engine.tool("stop_sweep", sweep_id=started["sweep_id"])
        await until(stream, "notifications/resources/list_changed")
    run = f"edged://runs/{started['sweep_id']}"
    async with asyncio.timeout(HANGS_S):
        while json.loads((await read(client, run))["text"])["meta"]["status"] == "running":
            await asyncio.sleep(0.05)
    entries = await listed(client)
    assert run in entries
    assert uri not in entries
    assert json.loads((await read(client, uri))["text"])["status"] == "stopped"


async def test_a_stream_is_heard_on_a_listen_stream(client: McpClient, engine: Engine) -> None:
    started = engine.tool(
        "start_stream",
        instrument_id="psu1",
        command_name="measure_voltage",
        interval_ms=50,
        duration_ms=60_000,
        detach=True,
    )["result"]
    uri = f"edged://streams/{started['stream_id']}"
    alone = McpClient(client.port)
    wish = {"resourcesListChanged": True, "resourceSubscriptions": [uri]}
    message, headers = modern(alone.message("subscriptions/listen", {"notifications": wish}))
    async with await alone.open_post(message, headers) as stream:
        await stream.read_head()
        told = await until(stream, "notifications/resources/updated")
        assert told["params"]["uri"] == uri
        assert json.loads((await read(client, uri))["text"])["count"] > 0
        engine.tool("stop_stream", stream_id=started["stream_id"])
        await until(stream, "notifications/resources/list_changed")


async def test_instruments_and_commands_are_completed(client: McpClient) -> None:
    template = "edged://instruments/{instrument_id}/commands/{command_name}"
    answer = await client.request(
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": template},
            "argument": {"name": "command_name", "value": "measure_v"},
            "context": {"arguments": {"instrument_id": "psu1"}},
        },
    )
    assert answer.json()["result"]["completion"]["values"] == ["measure_voltage"]
    answer = await client.request(
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": template},
            "argument": {"name": "instrument_id", "value": "sco"},
        },
    )
    assert answer.json()["result"]["completion"]["values"] == ["scope1"]


async def until(stream: Connection, method: str) -> dict[str, Any]:
    """The next notification of that method."""
    async with asyncio.timeout(HANGS_S):
        while True:
            event = await stream.next_event()
            assert event is not None
            if event.data and event.json().get("method") == method:
                return dict(event.json())


def test_the_shipped_documentation_names_every_kind(request: pytest.FixtureRequest) -> None:
    from edged.tools.resources import KINDS

    page = (Path(request.config.rootpath) / "docs" / "resources.md").read_text()
    assert [kind.template for kind in KINDS.values() if f"`{kind.template}`" not in page] == []
