"""Whatever bytes arrive at the MCP port: no 5xx, no hang, and the next client is served."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.bench.fake_resources import FakeResources
from tests.bench.mcp_client import Connection, McpClient, modern
from tests.bench.mcp_endpoint import running_endpoint
from tests.bench.waiting import HANGS_S

METHODS = [
    "initialize",
    "ping",
    "tools/list",
    "tools/call",
    "server/discover",
    "subscriptions/listen",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "completion/complete",
    "notifications/initialized",
    "notifications/cancelled",
    "nonsense",
]
KEYS = [
    "_meta",
    "argument",
    "arguments",
    "cursor",
    "name",
    "notifications",
    "progressToken",
    "ref",
    "requestId",
    "uri",
    "x",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)
    ),
    max_leaves=8,
)
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.sampled_from(["2.0", "1.0", 2])},
    optional={"id": JSON, "method": st.sampled_from(METHODS) | JSON, "params": JSON},
)
LIVE = "a live session"
HEADERS = st.dictionaries(
    st.sampled_from(
        [
            "Accept",
            "Mcp-Session-Id",
            "MCP-Protocol-Version",
            "Mcp-Method",
            "Last-Event-ID",
            "Expect",
        ]
    ),
    st.sampled_from(
        ["2025-03-26", "2026-07-28", "*/*", "text/event-stream", "ping", "a-1", "", LIVE]
    ),
    max_size=4,
)
MODERN_CALLS = st.builds(
    lambda method, params: modern({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}),
    st.sampled_from(METHODS),
    st.fixed_dictionaries(
        {},
        optional={
            "name": st.sampled_from(["echo", "count", "nothing"]),
            "uri": st.sampled_from(["test://text", "test://nothing"]),
            "arguments": JSON,
            "ref": JSON,
            "argument": JSON,
            "notifications": JSON,
            "cursor": JSON,
        },
    ),
)
VERBS = st.sampled_from(["GET", "POST", "POST", "DELETE", "PUT"])


async def exchange(port: int, data: bytes) -> int:
    """Status of the first answer, 0 when the server just closed; only a stream may not end."""
    async with await Connection.to(port) as connection:
        connection.send(data)
        connection.half_close()
        status, headers = 100, dict[str, str]()
        while status == 100:
            try:
                status, headers = await connection.read_head()
            except (asyncio.IncompleteReadError, ConnectionError):
                return 0
        if headers.get("content-type") != "text/event-stream":
            await connection.read_rest()
        return status


async def status_of(data: bytes) -> int:
    """Of the first answer; 0 when the server just closed."""
    async with running_endpoint(slow_sender_s=0.05, resources=FakeResources()) as mcp:
        mcp.tools.gate.set()
        status = await exchange(mcp.port, data)
        assert (await mcp.client().request("ping")).status == 200
    return status


@given(VERBS, MESSAGES | st.lists(MESSAGES, max_size=3) | JSON, HEADERS)
def test_no_message_makes_a_5xx(verb: str, message: object, headers: dict[str, str]) -> None:
    body = json.dumps(message).encode()
    data = McpClient(8767).bytes_of(verb, body if verb == "POST" else b"", headers)
    assert asyncio.run(status_of(data)) < 500


@given(MODERN_CALLS, HEADERS)
def test_no_modern_call_makes_a_5xx(
    call: tuple[dict[str, Any], dict[str, str]], headers: dict[str, str]
) -> None:
    message, own = call
    body = json.dumps(message).encode()
    data = McpClient(8767).bytes_of("POST", body, {**headers, **own})
    assert asyncio.run(status_of(data)) < 500


@given(st.lists(st.tuples(VERBS, MESSAGES, HEADERS), min_size=8, max_size=16))
def test_nothing_is_left_of_any_messages_once_their_sessions_have_expired(
    requests: list[tuple[str, object, dict[str, str]]],
) -> None:
    asyncio.run(leaves_nothing(requests))


async def leaves_nothing(requests: list[tuple[str, object, dict[str, str]]]) -> None:
    """Send them all, some in a live session, and wait until the endpoint is as it was."""
    async with running_endpoint(
        slow_sender_s=0.05, session_idle_s=0.05, resources=FakeResources()
    ) as mcp:
        mcp.tools.gate.set()
        tasks = len(asyncio.all_tasks())
        session = await mcp.session()
        for verb, message, headers in requests:
            body = json.dumps(message).encode() if verb == "POST" else b""
            told = {k: session.session_id if v == LIVE else v for k, v in headers.items()}
            data = McpClient(mcp.port).bytes_of(verb, body, told)
            await exchange(mcp.port, data)
        async with asyncio.timeout(HANGS_S):
            while (
                mcp.surface.session_count
                or mcp.surface.connection_count
                or len(asyncio.all_tasks()) > tasks
            ):
                await asyncio.sleep(0.005)


@given(
    st.binary(max_size=200),
    st.integers(min_value=0, max_value=200),
    st.integers(min_value=0, max_value=20),
)
def test_no_broken_request_makes_a_5xx(noise: bytes, at: int, lost: int) -> None:
    call = McpClient(8767).tool_call("echo")
    whole = McpClient(8767).bytes_of("POST", json.dumps(call).encode(), {"Connection": "close"})
    assert asyncio.run(status_of(whole[:at] + noise + whole[at + lost :])) < 500
