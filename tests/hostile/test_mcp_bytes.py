"""Whatever bytes arrive at the MCP port: no 5xx, no hang, and the next client is served."""

from __future__ import annotations

import asyncio
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bench.mcp_client import McpClient
from tests.bench.mcp_endpoint import running_endpoint

METHODS = ["initialize", "ping", "tools/list", "tools/call", "server/discover", "nonsense"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "_meta", "cursor", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.sampled_from(["2.0", "1.0", 2])},
    optional={"id": JSON, "method": st.sampled_from(METHODS) | JSON, "params": JSON},
)
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
    st.sampled_from(["2025-03-26", "2026-07-28", "*/*", "text/event-stream", "ping", "a-1", ""]),
    max_size=4,
)
VERBS = st.sampled_from(["GET", "POST", "POST", "DELETE", "PUT"])


async def status_of(data: bytes) -> int:
    """Of the first answer; 0 when the server just closed."""
    async with running_endpoint(slow_sender_s=0.05) as mcp:
        mcp.tools.gate.set()
        raw = await asyncio.wait_for(mcp.exchange(data, half_close=True), 5)
        assert (await mcp.client().request("ping")).status == 200
    return int(raw.split(b" ", 2)[1]) if raw else 0


@settings(max_examples=60, deadline=None)
@given(VERBS, MESSAGES | st.lists(MESSAGES, max_size=3) | JSON, HEADERS)
def test_no_message_makes_a_5xx(verb: str, message: object, headers: dict[str, str]) -> None:
    body = json.dumps(message).encode()
    data = McpClient(8767).bytes_of(verb, body if verb == "POST" else b"", headers)
    assert asyncio.run(status_of(data)) < 500


@settings(max_examples=60, deadline=None)
@given(
    st.binary(max_size=200),
    st.integers(min_value=0, max_value=200),
    st.integers(min_value=0, max_value=20),
)
def test_no_broken_request_makes_a_5xx(noise: bytes, at: int, lost: int) -> None:
    call = McpClient(8767).tool_call("echo")
    whole = McpClient(8767).bytes_of("POST", json.dumps(call).encode(), {"Connection": "close"})
    assert asyncio.run(status_of(whole[:at] + noise + whole[at + lost :])) < 500
