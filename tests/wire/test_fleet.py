"""Fronts, the fleet and edges around the real MCP endpoint, with a real nats-server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_aiohttp import AiohttpClient

from edged.actions.caller import Caller, Route
from edged.actions.tool import ToolCall
from edged.errors import ErrorCode, Failed, Refused
from edged.relay.envelope import Cancel, Open
from edged_relay.fleet.tools import FleetTools
from edged_relay.login import LoginMetadata
from tests.bench.bad_fleet_tokens import lasting_bad_fleet_tokens
from tests.bench.fleet_bench import ALL_TOOLS, UNIT, FleetBench, Front, running_fleet
from tests.bench.listener_server import already_at
from tests.bench.mcp_client import Answer, McpClient, modern
from tests.bench.waiting import HANGS_S
from tests.promises import promise

Bench = FleetBench
Get = Callable[..., Awaitable[Answer]]
FIVE = [
    "fleet__list_edges",
    "fleet__find_instrument",
    "fleet__history",
    "fleet__stop_everywhere",
    "fleet__call",
]


@pytest.fixture
async def bench(tmp_path: Path, free_port: Callable[[], int]) -> AsyncIterator[Bench]:
    async with running_fleet(tmp_path, free_port()) as made:
        yield made


@pytest.fixture
def get(bench: Bench, aiohttp_client: AiohttpClient) -> Get:
    async def asked(front: Front, path: str = "/fleet", token: str = "", **headers: str) -> Answer:
        client = await aiohttp_client(already_at(front.port))
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        given = {"Accept": "application/json", **bearer, **headers}
        async with client.get(path, headers=given) as reply:
            return Answer(reply.status, reply.headers, await reply.read())

    return asked


async def structured(client: McpClient, name: str, /, **arguments: Any) -> Any:
    result = await client.call(name, arguments)
    assert result.get("isError") is not True, result
    schema = FleetTools().find(name).output_schema
    assert schema is not None
    assert result["structuredContent"].keys() <= schema["properties"].keys()
    return result["structuredContent"]


async def error_of(client: McpClient, name: str, /, **arguments: Any) -> Any:
    message = client.message("tools/call", {"name": name, "arguments": arguments})
    return (await client.post(message)).json()["error"]


@promise("fleet.json")
async def test_two_fronts_tell_the_same_of_every_edge(bench: Bench, get: Get) -> None:
    first, second = await bench.front(), await bench.front()
    one, two = await bench.edge("edge-1"), await bench.edge("edge-2")
    await one.say(page="http://10.0.0.7:8767/bench")
    await two.say(units=[])
    await bench.known("edge-1", "edge-2")
    token = bench.token("fleet__list_edges")
    told = [(await get(front, token=token)).json() for front in (first, second)]
    for answer in told:
        for edge in answer["edges"]:
            assert abs(edge.pop("last_ms") - 1_000 * time.time()) < 5_000  # noqa: TID251
    assert told[0] == told[1]
    assert told[0]["edges"][0] == {
        "edge_id": "edge-1",
        "state": "here",
        "version": "1.0",
        "units": [UNIT],
        "runs": [],
        "lockouts": [],
        "page": "http://10.0.0.7:8767/bench",
    }
    assert [edge["page"] for edge in told[0]["edges"]] == ["http://10.0.0.7:8767/bench", None]
    # A token sees what it lists.
    few = bench.token("fleet__list_edges", edges_allow=["edge-2", "edge-7"])
    (seen,) = (await get(first, token=few)).json()["edges"]
    assert seen["edge_id"] == "edge-2"


@promise("fleet.page-shell")
async def test_a_browser_gets_an_empty_page_that_holds_nothing_of_any_bench(
    bench: Bench, get: Get
) -> None:
    front = await bench.front()
    edge = await bench.edge()
    await edge.say()
    await bench.known("edge-1")
    shell = await get(front, Accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert shell.status == 200
    assert shell.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in shell.headers["content-security-policy"]
    assert shell.headers["cache-control"] == "no-store"
    for name in ("/fleet/page.js", "/fleet/page.css"):
        part = await get(front, name)
        assert part.status == 200
        for said in (b"edge-1", b"DP832", b"localStorage", b"innerHTML", b"document.cookie"):
            assert said not in shell.body + part.body
    # Who is no browser, or shows a token, gets JSON or a refusal.
    assert (await get(front, Accept="*/*")).status == 401
    assert (await get(front, token="x.y.z", Accept="text/html")).status == 401
    for path in ("/fleet/static/index.html", "/fleet/../setup.cfg", "/fleet/page.js/.."):
        assert (await get(front, path)).status == 404
    assert (await get(front, Host="evil.example")).status == 403
    assert (await get(front, Origin="https://evil.example")).status == 403
    posted = await McpClient(front.port, path="/fleet").send("POST")
    assert (posted.status, posted.headers["allow"]) == (405, "GET, HEAD")


@promise("fleet.http-sd")
async def test_prometheus_finds_the_metrics_of_the_edges_that_have_some(
    bench: Bench, get: Get
) -> None:
    front = await bench.front()
    one, two = await bench.edge("edge-1"), await bench.edge("edge-2")
    await one.say(metrics="10.0.0.7:8767/metrics")
    await two.say()
    await bench.known("edge-1", "edge-2")
    month = {"exp": bench.issuer.now_s + 30 * 86_400}
    token = bench.token("fleet/http_sd", **month)
    told = await get(front, "/fleet/http_sd", token)
    assert told.headers["content-type"] == "application/json"
    assert told.json() == [
        {
            "targets": ["10.0.0.7:8767"],
            "labels": {"__metrics_path__": "/metrics", "edge_id": "edge-1"},
        }
    ]
    # It opens nothing else, and another token does not open this.
    assert (await get(front, token=token)).status == 403
    client = bench.client(token=token)
    assert (await error_of(client, "fleet__list_edges"))["code"] == -33003
    assert (await get(front, "/fleet/http_sd", bench.token("fleet__list_edges"))).status == 403


@promise("fleet.own-host")
async def test_an_edge_is_shown_at_its_own_host_alone_whatever_address_it_announces(
    bench: Bench, get: Get
) -> None:
    front = await bench.front()
    ends = {edge_id: await bench.edge(edge_id) for edge_id in ("edge-1", "edge-2", "edge-3")}
    month = {"exp": bench.issuer.now_s + 30 * 86_400}
    sd = bench.token("fleet/http_sd", edges_allow=list(ends), **month)
    look = bench.token("fleet__list_edges", edges_allow=list(ends))

    async def shown(edge_id: str, host: str) -> tuple[list[str], str | None]:
        """Where Prometheus is sent, and people."""
        before = front.table.find(edge_id)
        await ends[edge_id].say(metrics=f"{host}:8767/metrics", page=f"http://{host}:8767/bench")
        async with asyncio.timeout(HANGS_S):
            while front.table.find(edge_id) is before:
                await asyncio.sleep(0.01)
        places = (await get(front, "/fleet/http_sd", sd)).json()
        listed = (await get(front, token=look)).json()["edges"]
        (page,) = [edge["page"] for edge in listed if edge["edge_id"] == edge_id]
        targets = [p["targets"][0] for p in places if p["labels"]["edge_id"] == edge_id]
        return targets, page

    for host in ELSEWHERE:
        # One that the owner has named is asked there; one in a network must be a machine of it.
        expected = ["10.0.0.7:8767"], "http://10.0.0.7:8767/bench"
        assert await shown("edge-1", host) == expected
        assert await shown("edge-2", host) == ([], None)
        assert await shown("edge-3", host) == ([], None)
    there = ["10.20.3.4:8767"], "http://10.20.3.4:8767/bench"
    assert await shown("edge-2", "10.20.3.4") == there
    assert await shown("edge-3", "10.20.3.4") == ([], None)


ELSEWHERE = (
    "127.0.0.1",
    "localhost",
    "169.254.169.254",
    "metadata.google.internal",
    "10.0.0.8",
    "10.20.3.4.evil.example",
    "0x0a140304",
    "[::ffff:10.20.3.4]",
    "[::1]",
    "0.0.0.0",
    "8.8.8.8",
)


@promise("fleet.token-claims")
async def test_no_bad_token_gets_in_at_any_of_the_fleet_s_doors(bench: Bench, get: Get) -> None:
    front = await bench.front()
    bad = {**lasting_bad_fleet_tokens(bench.issuer), "of an edge": bench.issuer.mint(), "none": ""}
    for name, token in bad.items():
        for path in ("/fleet", "/fleet/http_sd"):
            assert (await get(front, path, token)).status == 401, (name, path)
        client = bench.client(token=token or "x")
        answer = await client.post(client.tool_call("fleet__list_edges"))
        assert (answer.status, answer.error_code) == (401, -33001), name
        assert answer.headers["www-authenticate"].startswith("Bearer")
    # And a good one opens no edge's own address.
    client = McpClient(front.port, path="/mcp/edge-1")
    client.headers["Authorization"] = f"Bearer {bench.token()}"
    assert (await client.post(client.tool_call("echo"))).status == 401


@promise("login.told")
async def test_a_refusal_names_this_front_s_metadata_and_never_what_an_edge_says(
    bench: Bench,
) -> None:
    login = LoginMetadata.of("https://relay.example", "https://issuer.example")
    front = await bench.front(login=login)
    evil = 'Bearer resource_metadata="https://evil.example/x"'
    refusal = b'{"jsonrpc":"2.0","id":1,"error":{"code":-33001,"message":"no"}}'
    for edge, status in (("edge-1", 401), ("edge-2", 200)):
        await bench.hostile_edge(
            edge, refusal, status=status, headers=(("www-authenticate", evil),)
        )
    place = "https://relay.example/.well-known/oauth-protected-resource"

    async def told(path: str, token: str) -> str:
        client = McpClient(front.port, path=path)
        if token:
            client.headers["Authorization"] = f"Bearer {token}"
        answer = await client.post(client.tool_call("echo"))
        assert answer.status == 401
        return answer.headers["www-authenticate"]

    one = bench.issuer.mint()
    assert await told("/mcp/edge-1", one) == (
        f'Bearer error="invalid_token", resource_metadata="{place}/mcp/edge-1"'
    )
    for path in ("/mcp", "/mcp/edge-1"):
        assert await told(path, "") == f'Bearer resource_metadata="{place}{path}"'
        assert await told(path, "x.y.z") == (
            f'Bearer error="invalid_token", resource_metadata="{place}{path}"'
        )
    client = McpClient(front.port, path="/mcp/edge-2")
    second = bench.issuer.mint(aud="edge:edge-2", edge_id="edge-2")
    client.headers["Authorization"] = f"Bearer {second}"
    assert "www-authenticate" not in (await client.post(client.tool_call("echo"))).headers


LENGTHS: dict[str, tuple[int, tuple[tuple[str, str], ...]]] = {
    "too-long": (200, (("content-length", "5"),)),
    "too-short": (200, (("content-length", "9999"),)),
    "negative": (200, (("content-length", "-1"),)),
    "no-number": (200, (("content-length", "abc"),)),
    "two": (200, (("content-length", "5"), ("content-length", "6"))),
    "no-content": (204, ()),
    "not-modified": (304, (("content-length", "5"),)),
}


@promise("relay.isolation")
@pytest.mark.parametrize("name", LENGTHS)
async def test_an_edge_cannot_answer_the_next_request_of_a_connection_that_a_proxy_shares(
    bench: Bench, name: str
) -> None:
    front = await bench.front()
    status, headers = LENGTHS[name]
    forged = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
    await bench.hostile_edge("edge-1", forged, status=status, headers=headers)
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    head = (
        "POST /mcp/edge-1 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {bench.issuer.mint()}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    other = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    try:
        writer.write(head.encode() + body + other)
        async with asyncio.timeout(HANGS_S):
            try:
                told = await reader.read(-1)
            except ConnectionResetError:
                told = b""
    finally:
        writer.close()
    # Half an answer is followed by nothing, an answer of the front itself by its next one.
    assert b"forged" not in told or name == "too-short"
    assert told.endswith(b"ok") is told.startswith(b"HTTP/1.1 503")


@promise("fleet.every-edge")
async def test_a_token_for_every_edge_counts_where_the_front_s_owner_says_so(
    bench: Bench, get: Get
) -> None:
    closed, open_ = await bench.front(), await bench.front(takes_all=True)
    edge = await bench.edge()
    await edge.say()
    await bench.known("edge-1")
    token = bench.token(edges_allow=["*"])
    assert (await get(closed, token=token)).status == 401
    assert len((await get(open_, token=token)).json()["edges"]) == 1
    called = await structured(bench.client(1, token), "fleet__call", edge_id="edge-1", tool="echo")
    assert called["edge_id"] == "edge-1"


@promise("fleet.five-tools")
@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
async def test_the_endpoint_has_exactly_five_tools_and_no_sessions(
    bench: Bench, version: str
) -> None:
    await bench.front()
    client = bench.client()
    client.version = ""
    opened = await client.initialize(version)
    result = opened.json()["result"]
    assert result["capabilities"] == {"tools": {}}
    assert "mcp-session-id" not in opened.headers
    assert "fleet__call" in result["instructions"]
    tools = (await client.request("tools/list")).json()["result"]["tools"]
    assert [tool["name"] for tool in tools] == FIVE
    assert (await client.send("GET")).status == 405
    assert (await client.send("DELETE")).status == 405
    assert (await client.request("prompts/list")).error_code == -32601
    assert (await client.request("resources/list")).error_code == -32601


async def test_the_newest_revision_is_served_as_an_edge_serves_it(bench: Bench) -> None:
    await bench.front()
    edge = await bench.edge()
    await edge.say()
    await bench.known("edge-1")
    client = bench.client()
    message, headers = modern(client.tool_call("fleet__list_edges"))
    answer = await client.post(message, headers)
    (row,) = answer.json()["result"]["structuredContent"]["edges"]
    assert row["edge_id"] == "edge-1"


@promise("fleet.sessionless")
async def test_each_request_of_a_client_may_come_to_another_front(bench: Bench) -> None:
    await bench.front()
    await bench.front()
    edge = await bench.edge()
    await edge.say()
    await bench.known("edge-1")
    client = bench.client()
    await client.initialize()
    for front in (1, 0, 1):
        client.port = bench.fronts[front].port
        assert (await structured(client, "fleet__list_edges"))["edges"][0]["state"] == "here"


@promise("fleet.own-entry")
@pytest.mark.parametrize("tool", FIVE)
async def test_each_tool_needs_an_entry_of_its_own(bench: Bench, tool: str) -> None:
    await bench.front()
    others = [name for name in ALL_TOOLS if name != tool]
    arguments = {"edge_id": "edge-1", "tool": "echo"} if tool == "fleet__call" else {}
    without = bench.client(token=bench.token(*others))
    assert (await error_of(without, tool, **arguments))["code"] == -33003
    assert (await error_of(bench.client(), "fleet__nothing"))["code"] == -33003
    named = bench.client(token=bench.token("fleet__nothing"))
    assert (await error_of(named, "fleet__nothing"))["code"] == -32602


@promise("fleet.find")
async def test_a_free_instrument_is_found_first(bench: Bench) -> None:
    await bench.front()
    one, two = await bench.edge("edge-1"), await bench.edge("edge-2")
    meter = {**UNIT, "id": "usb-2", "model": "DMM6500", "instrument_class": "multimeter"}
    await one.say(units=[{**UNIT, "is_in_use": True}, meter])
    await two.say()
    await bench.known("edge-1", "edge-2")
    client = bench.client()
    found = (await structured(client, "fleet__find_instrument", model="rigol dp8"))["instruments"]
    assert [(row["edge_id"], row["is_free"]) for row in found] == [
        ("edge-2", True),
        ("edge-1", False),
    ]
    taken = await structured(client, "fleet__find_instrument", free=False)
    assert [row["id"] for row in taken["instruments"]] == ["usb-1"]
    meters = await structured(client, "fleet__find_instrument", **{"class": "Multimeter"})
    assert [row["id"] for row in meters["instruments"]] == ["usb-2"]
    wrong = await client.call("fleet__find_instrument", {"volts": 60})
    assert wrong["isError"] is True


async def test_an_optional_argument_that_is_null_was_left_out(bench: Bench) -> None:
    await bench.front()
    edge = await bench.edge()
    await edge.say()
    await bench.known("edge-1")
    client = bench.client(edges_allow=["edge-1"])
    nulls: dict[str, dict[str, Any]] = {
        "fleet__list_edges": {"state": None, "after": None, "limit": None},
        "fleet__find_instrument": {"model": None, "class": None, "free": None, "limit": None},
        "fleet__history": {"edge_ids": None, "since_s": None, "outcome": None, "limit": None},
        "fleet__call": {"edge_id": "edge-1", "tool": "echo", "arguments": None},
    }
    for name, arguments in nulls.items():
        assert (await client.call(name, arguments)).get("isError") is not True, name
    assert edge.endpoint.tools.calls[-1].arguments == {}
    assert edge.endpoint.tools.calls[-2].arguments == {}
    whole = client.message("tools/call", {"name": "fleet__stop_everywhere", "arguments": None})
    assert (await client.post(whole)).json()["result"]["structuredContent"]["is_confirmed"]
    needed = await client.call("fleet__call", {"edge_id": None, "tool": "echo"})
    assert "edge_id is null" in needed["content"][0]["text"]


@promise("fleet.call")
async def test_a_call_runs_at_its_edge_under_the_caller_s_own_token(bench: Bench) -> None:
    await bench.front()
    edge = await bench.edge()
    client = bench.client()
    told = await structured(
        client, "fleet__call", edge_id="edge-1", tool="echo", arguments={"a": 1}
    )
    assert (told["edge_id"], told["tool"], told["is_error"]) == ("edge-1", "echo", False)
    call = edge.endpoint.tools.calls[-1]
    assert call.arguments == {"a": 1}
    assert call.caller.subject == "user:ada"
    assert call.caller.claims is not None
    assert call.caller.claims.edges_allow == {"edge-1", "edge-2"}
    assert call.caller.lease == ""
    # A lease of that edge goes with the call, as it does to the edge itself.
    client.headers["Edged-Lease"] = "lease-7"
    await structured(client, "fleet__call", edge_id="edge-1", tool="echo")
    assert edge.endpoint.tools.calls[-1].caller.lease == "lease-7"
    del client.headers["Edged-Lease"]
    # What the token does not name at the edge is refused there.
    few = bench.client(token=bench.token("fleet__call"))
    refused = await error_of(few, "fleet__call", edge_id="edge-1", tool="bench__stop_all")
    assert refused["code"] == -33003
    assert "edge-1" in refused["message"]
    # An edge that the token does not list is not reached, be it there or not.
    for edge_id in ("edge-3", "edge-1.down", "*"):
        error = await error_of(client, "fleet__call", edge_id=edge_id, tool="echo")
        assert error["code"] == -33003
    away = await client.call("fleet__call", {"edge_id": "edge-2", "tool": "echo"})
    assert away["isError"] is True
    assert "Nothing was passed on" in away["content"][0]["text"]
    assert away["structuredContent"]["error"]["code"] == "edge_failed"
    # What fails at the edge has its error where every failure has it.
    edge.endpoint.tools.fails("broken", Failed("It smokes.", code=ErrorCode.TIMEOUT))
    failed = await client.call("fleet__call", {"edge_id": "edge-1", "tool": "broken"})
    assert failed["isError"] is True
    assert failed["structuredContent"]["error"]["message"] == "It smokes."
    assert failed["structuredContent"]["result"]["error"]["message"] == "It smokes."


@promise("fleet.call")
async def test_an_edge_hears_of_a_client_that_goes_away_and_judges_by_itself_what_that_ends(
    bench: Bench,
) -> None:
    await bench.front()
    heard = await bench.silent_edge("edge-1", takes=True)
    client = bench.client()
    arguments = {"edge_id": "edge-1", "tool": "start_stream"}
    call = client.message("tools/call", {"name": "fleet__call", "arguments": arguments})
    connection = await client.open_post(call)
    async with asyncio.timeout(HANGS_S):
        while not any(isinstance(envelope, Open) for envelope in heard):
            await asyncio.sleep(0.01)
        connection.abort()
        while not any(isinstance(envelope, Cancel) for envelope in heard):
            await asyncio.sleep(0.01)


@promise("fleet.token-at-edge")
async def test_an_edge_without_relay_fleet_and_an_http_connection_take_no_fleet_token(
    bench: Bench,
) -> None:
    await bench.front()
    closed = await bench.edge("edge-1", takes_fleet=False)
    open_ = await bench.edge("edge-2")
    client = bench.client()
    refused = await error_of(client, "fleet__call", edge_id="edge-1", tool="echo")
    assert refused["code"] == -33003
    assert "RELAY_FLEET" in refused["message"]
    assert closed.endpoint.tools.calls == []
    # Straight at the edge it is worth nothing, whatever the client says of its way.
    token = bench.token()
    for more in (
        {},
        {"Edged-Peer": "relay 203.0.113.7"},
        {"Edged-Peer": "s relay 203.0.113.7"},
        {"Authorization": f"Bearer {token}"},
    ):
        straight = McpClient(open_.endpoint.port, path="/mcp")
        straight.headers = {**straight.headers, "Edge-Caller-JWT": token, **more}
        answer = await straight.post(straight.tool_call("echo"))
        assert (answer.status, answer.error_code) == (401, -33001)
    assert open_.endpoint.tools.calls == []


@promise("fleet.token-at-edge")
async def test_every_bad_fleet_token_that_a_hostile_front_sends_is_refused_by_the_edge(
    bench: Bench,
) -> None:
    front = await bench.front()
    edge = await bench.edge()
    reach = front.fleet._desk.reach
    bad = {
        **lasting_bad_fleet_tokens(bench.issuer),
        "of other edges": bench.token(edges_allow=["edge-2"]),
        "a month for Prometheus": bench.token(
            "fleet/http_sd", exp=bench.issuer.now_s + 30 * 86_400
        ),
        "none": "",
    }
    passed = []
    for name, token in bad.items():
        caller = Caller(route=Route.RELAY, remote="203.0.113.7", bearer=token)
        try:
            await reach.call("edge-1", caller, "echo", {})
        except Refused:
            continue
        passed.append(name)
    assert passed == []
    assert edge.endpoint.tools.calls == []


@promise("fleet.history")
async def test_the_history_of_all_benches_is_one_list_and_no_edge_speaks_for_another(
    bench: Bench,
) -> None:
    await bench.front()
    one, two = await bench.edge("edge-1"), await bench.edge("edge-2")
    await one.say()
    await two.say()
    await bench.known("edge-1", "edge-2")
    told = await structured(bench.client(), "fleet__history", since_s=60)
    assert sorted(row["edge_id"] for row in told["rows"]) == ["edge-1", "edge-2"]
    times = [row["time_ms"] for row in told["rows"]]
    assert times == sorted(times, reverse=True)
    assert one.endpoint.tools.calls[-1].arguments == {"since_s": 60}
    # An edge that is not here is told of as well: what it did is not in the list.
    some = bench.client(edges_allow=["edge-1", "edge-9"])
    edges = (await structured(some, "fleet__history"))["edges"]
    assert [(edge["edge_id"], edge["is_answered"]) for edge in edges] == [
        ("edge-1", True),
        ("edge-9", False),
    ]
    assert "away" in edges[1]["error"]
    few = await structured(some, "fleet__history", limit=1, edge_ids=["edge-1"])
    assert (len(few["rows"]), few["more"]) == (1, False)
    both = await structured(bench.client(), "fleet__history", limit=1)
    assert (len(both["rows"]), both["more"]) == (1, True)
    assert both["rows"][0]["time_ms"] == max(times)
    named = await structured(bench.client(), "fleet__history", edge_ids=["edge-2"])
    assert [edge["edge_id"] for edge in named["edges"]] == ["edge-2"]
    other = await error_of(bench.client(), "fleet__history", edge_ids=["edge-2", "edge-9"])
    assert other["code"] == -33003


@promise("fleet.stop-everywhere")
async def test_everything_is_stopped_beside_one_that_hangs_and_that_one_is_not_confirmed(
    bench: Bench,
) -> None:
    await bench.front()
    good, hangs = await bench.edge("edge-1"), await bench.edge("edge-2")
    let_go, finished = asyncio.Event(), asyncio.Event()

    async def hang(_call: ToolCall) -> Any:
        await let_go.wait()
        finished.set()
        return {"is_confirmed": True}

    hangs.endpoint.tools.add("bench__stop_all", hang)
    # Of edge-9 nobody ever heard; it is told of all the same.
    client = bench.client(edges_allow=["edge-1", "edge-2", "edge-9"])
    told = await structured(client, "fleet__stop_everywhere")
    assert told["is_confirmed"] is False
    rows = {row["edge_id"]: row for row in told["edges"]}
    assert {name: row["is_confirmed"] for name, row in rows.items()} == {
        "edge-1": True,
        "edge-2": False,
        "edge-9": False,
    }
    assert "has not answered" in rows["edge-2"]["error"]
    assert "not connected" in rows["edge-9"]["error"]
    assert good.endpoint.tools.calls[-1].caller.subject == "user:ada"
    # What was begun goes on.
    let_go.set()
    async with asyncio.timeout(HANGS_S):
        await finished.wait()
    all_good = bench.client(edges_allow=["edge-1"])
    assert (await structured(all_good, "fleet__stop_everywhere"))["is_confirmed"] is True


@promise("fleet.stop-everywhere")
async def test_an_edge_that_did_not_confirm_or_refused_is_not_confirmed(bench: Bench) -> None:
    await bench.front()
    edge = await bench.edge("edge-1")
    await bench.edge("edge-2", takes_fleet=False)

    async def unsure(_call: ToolCall) -> Any:
        return {"is_confirmed": False, "unproved": ["psu"]}

    edge.endpoint.tools.add("bench__stop_all", unsure)
    told = await structured(bench.client(), "fleet__stop_everywhere")
    first, second = told["edges"]
    assert (first["is_confirmed"], first["report"]["unproved"]) == (False, ["psu"])
    assert second["is_confirmed"] is False
    assert "RELAY_FLEET" in second["error"]
    few = bench.client(token=bench.token("fleet__stop_everywhere"))
    assert (await structured(few, "fleet__stop_everywhere"))["is_confirmed"] is False


def result_of(structured: str) -> bytes:
    return f'{{"jsonrpc":"2.0","id":1,"result":{{"structuredContent":{structured}}}}}'.encode()


GARBAGE = {
    "no-bytes": b"",
    "no-json": b"\xff\xfe",
    "sse": b'data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n',
    "not-a-number": result_of('{"is_confirmed":false,"volts":NaN}'),
    "no-float": result_of('{"is_confirmed":false,"volts":1e999}'),
    "half-a-pair": result_of('{"is_confirmed":false,"volts":"\\ud800"}'),
    "twice": result_of('{"is_confirmed":false,"is_confirmed":true}'),
    "deep": result_of('{"a":' * 900 + "1" + "}" * 900),
    "deeper": b'{"result":' + b"[" * 100_000,
    "long-number": result_of('{"is_confirmed":false,"volts":' + "9" * 5_000 + "}"),
    "long": result_of('{"is_confirmed":true,"x":"' + "x" * (3 << 20) + '"}'),
    "true-as-text": result_of('{"is_confirmed":"true"}'),
    "a-list": result_of('[{"is_confirmed":true}]'),
}


@promise("fleet.stop-everywhere")
async def test_an_edge_that_answers_garbage_spoils_no_stop_of_the_others(bench: Bench) -> None:
    await bench.front()
    await bench.edge("edge-1")
    for name, body in GARBAGE.items():
        await bench.hostile_edge(name, body)
    client = bench.client(edges_allow=["edge-1", *GARBAGE])
    told = await structured(client, "fleet__stop_everywhere")
    confirmed = {row["edge_id"] for row in told["edges"] if row["is_confirmed"]}
    assert (told["is_confirmed"], confirmed) == (False, {"edge-1"})
    assert len(told["edges"]) == 1 + len(GARBAGE)
    history = await structured(client, "fleet__history", edge_ids=["edge-1", *GARBAGE])
    answered = {edge["edge_id"] for edge in history["edges"] if edge["is_answered"]}
    assert answered == {"edge-1"}
    for name in ("not-a-number", "no-float", "half-a-pair", "deep", "deeper", "long-number"):
        called = await client.call("fleet__call", {"edge_id": name, "tool": "echo"})
        assert "not as an edge does" in called["content"][0]["text"], name


@promise("fleet.stop-everywhere")
async def test_reports_that_one_answer_cannot_hold_are_left_out_and_no_verdict_is(
    bench: Bench,
) -> None:
    await bench.front()
    report = result_of('{"is_confirmed":false,"unproved":"' + "psu " * 7_500 + '"}')
    names = [f"edge-{number}" for number in range(5)]
    for name in names:
        await bench.hostile_edge(name, report)
    client = bench.client(edges_allow=names)
    told = await structured(client, "fleet__stop_everywhere")
    assert [row["edge_id"] for row in told["edges"]] == names
    assert ["report" in row for row in told["edges"]] == [True, True, False, False, False]
    assert all("could not confirm" in row["error"] for row in told["edges"])
    assert "too long" in told["edges"][-1]["error"]


@promise("fleet.stop-everywhere")
async def test_a_stop_that_an_edge_may_get_late_is_not_taken_back(bench: Bench) -> None:
    await bench.front()
    heard = await bench.silent_edge("edge-1")
    client = bench.client(edges_allow=["edge-1"])
    told = await structured(client, "fleet__stop_everywhere")
    assert "has not answered" in told["edges"][0]["error"]
    assert "Nothing was passed on" not in told["edges"][0]["error"]
    assert any(isinstance(envelope, Open) for envelope in heard)
    assert not any(isinstance(envelope, Cancel) for envelope in heard)
    # Any other call is, so that nothing is switched on behind the back of who asked for it.
    await client.call("fleet__call", {"edge_id": "edge-1", "tool": "echo"})
    async with asyncio.timeout(HANGS_S):
        while not any(isinstance(envelope, Cancel) for envelope in heard):
            await asyncio.sleep(0.01)


@promise("fleet.stop-everywhere")
async def test_a_client_that_goes_away_stops_no_stop(bench: Bench) -> None:
    await bench.front()
    edge = await bench.edge("edge-1")
    asked, gate, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(_call: ToolCall) -> Any:
        asked.set()
        await gate.wait()
        done.set()
        return {"is_confirmed": True}

    edge.endpoint.tools.add("bench__stop_all", slow)
    client = bench.client(edges_allow=["edge-1"])
    message, headers = modern(client.tool_call("fleet__stop_everywhere"))
    connection = await client.open_post(message, headers)
    async with asyncio.timeout(HANGS_S):
        await asked.wait()
    connection.abort()
    gate.set()
    async with asyncio.timeout(HANGS_S):
        await done.wait()


@promise("fleet.own-voice")
async def test_the_broker_lets_no_edge_speak_for_another(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    async with running_fleet(tmp_path, free_port(), is_guarded=True) as bench:
        front = await bench.front()
        one, two = await bench.edge("edge-1"), await bench.edge("edge-2")
        await one.say()
        await two.say(version="2.0")
        await bench.known("edge-1", "edge-2")
        forged = json.dumps({"version": "6.6.6"}).encode()
        await two.say_bytes(forged, "edge-1")
        async with asyncio.timeout(HANGS_S):
            while "edged.edge-1.up.here" not in two.link.status.last_error:
                await asyncio.sleep(0.01)
        assert "permissions violation" in two.link.status.last_error.lower()
        # What it says next of itself comes through, and nothing of the other did.
        await two.say(version="2.1")
        async with asyncio.timeout(HANGS_S):
            while front.table.listed({"edge-2"})[0].said.version != "2.1":
                await asyncio.sleep(0.01)
        assert front.table.listed({"edge-1"})[0].said.version == "1.0"
        log = (bench.nats.directory / "nats.log").read_text()
        assert "Publish Violation" in log
        assert "edged.edge-1.up.here" in log


@promise("fleet.last-good-stays")
async def test_hostile_announcements_leave_the_last_good_one_and_the_front_alive(
    bench: Bench,
) -> None:
    front = await bench.front()
    edge = await bench.edge()
    await edge.say()
    await bench.known("edge-1")
    for data in (
        b"",
        b"\xff" * 100,
        b"[" * 60_000,
        b"{" * 70_000,
        json.dumps({"version": "1", "units": [{**UNIT, "alias": "<script>" * 30}]}).encode(),
        json.dumps({"version": "1", "page": "javascript:alert(1)"}).encode(),
        b"0" * 900_000,
    ):
        await edge.say_bytes(data)
    # An announcement that the next, good one follows has been judged when that one is there.
    await edge.say(version="1.1")
    async with asyncio.timeout(HANGS_S):
        while front.table.listed({"*"})[0].said.version != "1.1":
            assert front.table.listed({"*"})[0].said.units == (UNIT,)
            await asyncio.sleep(0.01)


async def test_the_fleet_is_told_again_once_the_broker_is_back(bench: Bench) -> None:
    front = await bench.front()
    edge = await bench.edge()
    await edge.say()
    await bench.known("edge-1")
    bench.nats.stop()
    client = bench.client()
    gone = await client.call("fleet__call", {"edge_id": "edge-1", "tool": "echo"})
    assert gone["isError"] is True
    # What was heard is still told.
    assert (await structured(client, "fleet__list_edges"))["edges"][0]["edge_id"] == "edge-1"
    bench.nats.start()
    async with asyncio.timeout(15):
        while not (front.link.is_connected and edge.link.is_connected):
            await asyncio.sleep(0.05)
    await edge.say(version="2.0")
    async with asyncio.timeout(HANGS_S):
        while front.table.listed({"*"})[0].said.version != "2.0":
            await asyncio.sleep(0.01)
    assert await structured(client, "fleet__call", edge_id="edge-1", tool="echo")
