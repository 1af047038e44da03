"""What a client calls itself goes with its calls, whichever revision it speaks."""

from __future__ import annotations

import pytest

from edged.actions.caller import CLIENT_CHARS, client_text, who_of
from tests.bench.mcp_client import CAPABILITIES_KEY, MODERN, VERSION_KEY, McpClient
from tests.bench.mcp_endpoint import Endpoint, running_endpoint
from tests.promises import promise

INFO_KEY = "io.modelcontextprotocol/clientInfo"


async def seen(endpoint: Endpoint, client: McpClient) -> tuple[str, str]:
    """What a call of this client is told under: client and who."""
    await client.call("echo")
    caller = endpoint.tools.calls[-1].caller
    return caller.client, caller.who


@promise("callers.named")
async def test_a_session_is_named_by_the_client_info_of_its_initialize() -> None:
    async with running_endpoint() as endpoint:
        one, other = endpoint.client(), endpoint.client()
        one.client_info = {"name": "claude-code", "version": "2.1"}
        other.client_info = {"name": "notebook", "version": "7"}
        for client in (one, other):
            client.headers["User-Agent"] = "httpx/1"
            await client.initialize()
        assert await seen(endpoint, one) == ("claude-code 2.1", "claude-code 2.1 at 127.0.0.1")
        assert await seen(endpoint, other) == ("notebook 7", "notebook 7 at 127.0.0.1")
        first = endpoint.tools.calls[0].caller
        await one.call("echo")
        assert endpoint.tools.calls[-1].caller is first


@promise("callers.named")
async def test_one_who_is_not_named_is_named_by_its_user_agent_else_by_its_address() -> None:
    async with running_endpoint() as endpoint:
        client = endpoint.client()
        assert await seen(endpoint, client) == ("127.0.0.1", "127.0.0.1")
        client.headers["User-Agent"] = "curl/8.5.0"
        for _ in range(3):
            assert await seen(endpoint, client) == ("curl/8.5.0", "curl/8.5.0 at 127.0.0.1")
        client.client_info = {"name": "", "version": ""}
        await client.initialize()
        assert await seen(endpoint, client) == ("curl/8.5.0", "curl/8.5.0 at 127.0.0.1")


@promise("callers.named")
@pytest.mark.parametrize(
    ("info", "name"),
    [
        ({"name": "agent", "version": "3"}, "agent 3"),
        ({"name": "agent"}, "agent"),
        ({"name": 5}, "curl/8"),
        ("agent", "curl/8"),
        (None, "curl/8"),
    ],
)
async def test_without_a_session_each_request_says_it(info: object, name: str) -> None:
    async with running_endpoint() as endpoint:
        client = McpClient(endpoint.port, version=MODERN)
        meta = {VERSION_KEY: MODERN, CAPABILITIES_KEY: {}, INFO_KEY: info}
        asked = client.message("tools/call", {"name": "echo", "arguments": {}, "_meta": meta})
        headers = {"Mcp-Method": "tools/call", "Mcp-Name": "echo", "User-Agent": "curl/8"}
        for _ in range(3):
            answer = await client.post(asked, headers)
            assert answer.status == 200, answer
            assert endpoint.tools.calls[-1].caller.client == name


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("claude-code 2.1", "claude-code 2.1"),
        (" a\x00b\r\nc\x1b[31m ", "a b c [31m"),
        ("\u202eevil\u2066 \u200b\ud800", "evil"),
        ("x" * 500, "x" * CLIENT_CHARS),
        ("", ""),
    ],
)
def test_what_a_client_says_of_itself_is_one_short_line(said: str, text: str) -> None:
    assert client_text(said) == text


@pytest.mark.parametrize(
    ("client", "remote", "subject", "who"),
    [
        ("a 1", "10.0.0.7", "", "a 1 at 10.0.0.7"),
        ("a 1", "10.0.0.7", "alice", "a 1 for alice at 10.0.0.7"),
        ("10.0.0.7", "10.0.0.7", "alice", "alice at 10.0.0.7"),
        ("", "10.0.0.7", "", "10.0.0.7"),
        ("a 1", "", "", "a 1"),
        ("", "", "", "somebody"),
    ],
)
def test_who_a_caller_is_for_people(client: str, remote: str, subject: str, who: str) -> None:
    assert who_of(client, remote, subject) == who
