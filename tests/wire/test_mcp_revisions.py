"""What differs between revisions, over real sockets; the core's own tables are tested in unit."""

from __future__ import annotations

from typing import Any

import pytest

from edged.surfaces.mcp.seams import ToolListing
from tests.bench.mcp_client import MODERN, Answer, modern
from tests.bench.mcp_endpoint import Endpoint, running_endpoint
from tests.bench.mcp_rules import holds
from tests.promises import promise

LEGACY = ["2025-03-26", "2025-06-18", "2025-11-25"]


async def ask(mcp: Endpoint, method: str, params: dict[str, Any] | None = None) -> Answer:
    message, headers = modern(mcp.client().message(method, params or {}))
    return await mcp.client().post(message, headers)


@pytest.mark.parametrize("version", LEGACY)
async def test_each_handshake_revision_is_negotiated(mcp: Endpoint, version: str) -> None:
    answer = await mcp.client().initialize(version)
    assert answer.json()["result"]["protocolVersion"] == version


@pytest.mark.parametrize("version", ["2024-10-07", MODERN, "2099-01-01"])
async def test_a_version_without_handshake_here_gets_the_newest_that_has_one(
    mcp: Endpoint, version: str
) -> None:
    answer = await mcp.client().request(
        "initialize",
        {
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    )
    assert answer.json()["result"]["protocolVersion"] == "2025-11-25"


async def test_ping_is_answered_with_an_empty_object(mcp: Endpoint) -> None:
    for version in LEGACY:
        client = await mcp.session(version)
        assert (await client.request("ping")).json()["result"] == {}


async def test_an_unknown_method_is_32601_with_200_and_in_modern_404(mcp: Endpoint) -> None:
    answer = await (await mcp.session()).request("tasks/list")
    assert (answer.status, answer.error_code) == (200, -32601)
    for method in ("tasks/list", "resources/subscribe", "initialize", "ping", "logging/setLevel"):
        answer = await ask(mcp, method)
        assert (answer.status, answer.error_code) == (404, -32601), method


async def test_batches_are_of_2025_03_26_only(mcp: Endpoint) -> None:
    for version in LEGACY[1:]:
        client = await mcp.session(version)
        assert (await client.post([client.message("ping")])).status == 400
    message, headers = modern(mcp.client().message("tools/list"))
    assert (await mcp.client().post([message], headers)).status == 400


async def test_an_unknown_version_header_is_400(mcp: Endpoint) -> None:
    client = await mcp.session()
    client.version = "2027-01-01"
    assert (await client.request("ping")).status == 400


@holds("tools.fields", "tools.annotations")
async def test_tools_are_listed_with_what_each_revision_knows(mcp: Endpoint) -> None:
    fields = {}
    for version in LEGACY:
        answer = await (await mcp.session(version)).request("tools/list")
        (echo, *_) = answer.json()["result"]["tools"]
        fields[version] = set(echo)
        assert set(echo["annotations"]) >= {
            "readOnlyHint",
            "destructiveHint",
            "idempotentHint",
            "openWorldHint",
        }
    assert "title" not in fields["2025-03-26"]
    assert "title" in fields["2025-06-18"]


async def test_the_list_is_the_same_bytes_until_the_tools_change(mcp: Endpoint) -> None:
    client = await mcp.session()
    first = await client.request("tools/list", request_id=1)
    second = await client.request("tools/list", request_id=1)
    assert first.body == second.body
    mcp.tools.add("late_comer", mcp.tools.call)
    mcp.tools.change()
    third = await client.request("tools/list", request_id=1)
    assert third.json()["result"]["tools"][-1]["name"] == "late_comer"


@holds("list.cursor")
async def test_a_long_list_comes_in_pages_of_a_megabyte(mcp: Endpoint) -> None:
    for number in range(30):
        mcp.tools.add(f"long_{number}", mcp.tools.call, description="x" * 100_000)
    client = await mcp.session()
    names: list[str] = []
    cursor: str | None = None
    pages = 0
    while True:
        answer = await client.request("tools/list", {"cursor": cursor} if cursor else {})
        result = answer.json()["result"]
        names += [tool["name"] for tool in result["tools"]]
        pages += 1
        assert len(answer.body) < 1_200_000
        cursor = result.get("nextCursor")
        if cursor is None:
            break
    assert pages == 3
    assert names == [tool.name for tool in mcp.tools.tools()]
    for bad in ("nonsense", 7):
        assert (await client.request("tools/list", {"cursor": bad})).error_code == -32602


@promise("mcp.listing-choice")
async def test_a_client_chooses_what_is_listed_by_the_query(mcp: Endpoint) -> None:
    mcp.tools.add("psu__on", mcp.tools.call, instrument_id="USB0::1", is_essential=True)
    mcp.tools.add("psu__rare", mcp.tools.call, instrument_id="USB0::1", is_essential=False)
    mcp.tools.add("dmm__read", mcp.tools.call, instrument_id="USB0::2", is_essential=True)

    async def dynamic(query: str) -> list[str]:
        client = mcp.client()
        client.path = f"/mcp{query}"
        await client.initialize()
        # What a session was opened with stays.
        client.path = "/mcp"
        tools = (await client.request("tools/list")).json()["result"]["tools"]
        assert "echo" in {tool["name"] for tool in tools}
        return [tool["name"] for tool in tools if "__" in tool["name"]]

    assert await dynamic("") == ["psu__on", "psu__rare", "dmm__read"]
    assert await dynamic("?tools=essential") == ["psu__on", "dmm__read"]
    assert await dynamic("?tools=static") == []
    assert await dynamic("?tools=all&instrument=psu1") == ["psu__on", "psu__rare"]
    assert await dynamic("?tools=essential&instrument=psu1&other=1") == ["psu__on"]
    assert await dynamic("?instrument=nobody") == []
    client = mcp.client()
    client.path = "/mcp?tools=essential"
    await client.initialize()
    for query, names in {
        "?tools=static": [],
        "?tools=all": ["psu__on", "psu__rare", "dmm__read"],
        "?instrument=psu1": ["psu__on"],
        "?tools=all&instrument=psu1": ["psu__on", "psu__rare"],
        "?other=1": ["psu__on", "dmm__read"],
        "": ["psu__on", "dmm__read"],
    }.items():
        client.path = f"/mcp{query}"
        listed = (await client.request("tools/list")).json()["result"]["tools"]
        assert [tool["name"] for tool in listed if "__" in tool["name"]] == names, query
    client = mcp.client()
    client.path = "/mcp?tools=some"
    assert (await client.request("tools/list")).status == 400


@promise("mcp.listing-choice")
async def test_the_owner_decides_what_is_listed_to_who_does_not_choose() -> None:
    async with running_endpoint(listing=ToolListing.STATIC) as mcp:
        mcp.tools.add("psu__on", mcp.tools.call, instrument_id="USB0::1")
        answer = await (await mcp.session()).request("tools/list")
        assert "psu__on" not in answer.body.decode()


async def test_instructions_are_short(mcp: Endpoint) -> None:
    mcp.tools.add("list_instruments", mcp.tools.call)
    result = (await mcp.client().initialize()).json()["result"]
    assert len(result.get("instructions", "").split()) < 150


@promise("mcp.long-list-told")
@pytest.mark.parametrize("count", [50, 80])
async def test_a_list_that_is_long_is_told_with_the_url_of_the_short_one(
    mcp: Endpoint, count: int
) -> None:
    for number in range(count):
        mcp.tools.add(f"psu__{number}", mcp.tools.call, instrument_id="USB0::1", is_essential=False)
    client = mcp.client()
    url = f"http://127.0.0.1:{mcp.port}/mcp?tools=essential"
    told = (await client.initialize()).json()["result"].get("instructions", "")
    assert (url in told) is (count > 60)
    discovered = (await ask(mcp, "server/discover")).json()["result"].get("instructions", "")
    assert (url in discovered) is (count > 60)
    short = mcp.client()
    short.path = "/mcp?tools=essential"
    assert "short one" not in (await short.initialize()).body.decode()


@promise("mcp.long-list-told")
async def test_the_short_list_is_of_the_instruments_that_the_client_has_chosen(
    mcp: Endpoint,
) -> None:
    for number in range(80):
        mcp.tools.add(f"psu__{number}", mcp.tools.call, instrument_id="USB0::1", is_essential=False)
    for query in ("instrument=psu1", "tools=all&instrument=psu1,rack%202"):
        client = mcp.client()
        client.path = f"/mcp?{query}"
        told = (await client.initialize()).json()["result"]["instructions"]
        chosen = query.rpartition("instrument=")[2].replace("%20", "+")
        assert f"/mcp?tools=essential&instrument={chosen} is the short one" in told


async def test_modern_discover_says_everything(mcp: Endpoint) -> None:
    answer = await ask(mcp, "server/discover")
    result = answer.json()["result"]
    assert result["supportedVersions"] == [*LEGACY, MODERN]
    assert result["capabilities"] == {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {},
        "completions": {},
        "extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}},
    }
    assert result["resultType"] == "complete"
    assert "mcp-session-id" not in answer.headers


async def test_modern_calls_need_no_session(mcp: Endpoint) -> None:
    answer = await ask(mcp, "tools/call", {"name": "echo", "arguments": {"a": 1}})
    result = answer.json()["result"]
    assert result["structuredContent"] == {"echo": {"a": 1}}
    assert result["resultType"] == "complete"
    answer = await ask(mcp, "tools/call", {"name": "unknown"})
    assert (answer.status, answer.error_code) == (400, -32602)


async def test_a_modern_header_must_repeat_the_body(mcp: Endpoint) -> None:
    message, headers = modern(mcp.client().tool_call("echo"))
    for name in ("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"):
        answer = await mcp.client().post(message, {**headers, name: "2025-11-25"})
        assert (answer.status, answer.error_code) == (400, -32020), name


async def test_modern_listen_acknowledges_then_tells_of_changes(mcp: Endpoint) -> None:
    message, headers = modern(
        mcp.client().message(
            "subscriptions/listen",
            {"notifications": {"toolsListChanged": True, "promptsListChanged": True}},
            request_id="sub-1",
        )
    )
    key = "io.modelcontextprotocol/subscriptionId"
    async with await mcp.client().open_post(message, headers) as stream:
        await stream.read_head()
        first = await stream.next_event()
        assert first is not None
        assert first.json()["method"] == "notifications/subscriptions/acknowledged"
        assert first.json()["params"]["notifications"] == {"toolsListChanged": True}
        mcp.tools.change()
        change = await stream.next_event()
        assert change is not None
        assert change.json()["params"]["_meta"] == {key: "sub-1"}
        assert change.id == ""
        await mcp.surface.stop(1.0)
        last = await stream.next_event()
        assert last is not None
        assert last.json()["result"]["_meta"][key] == "sub-1"
        assert await stream.next_event() is None


async def test_listen_without_a_stream_is_refused(mcp: Endpoint) -> None:
    message, headers = modern(mcp.client().message("subscriptions/listen", {"notifications": {}}))
    answer = await mcp.client().post(message, {**headers, "Accept": "application/json"})
    assert answer.status == 400
