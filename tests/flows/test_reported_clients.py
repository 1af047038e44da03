"""MCP clients of public reports at a real engine: what edged answers to each.

Those of schemas, names, sessions and progress have tests of their own (docs/users-pains.md, C1 to
C14); these are the requests that were found to be served well, and shall stay so.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edged.cli.main import main
from tests.bench.engine import Engine, running_engine
from tests.bench.mcp_client import McpClient
from tests.bench.waiting import HANGS_S

LONGEST_INSTRUCTIONS = 2_048
LONGEST_DESCRIPTION = 1_024
"""Characters that Claude Code and others read of them; the rest they cut off."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(tmp_path_factory.mktemp("reported")) as running:
        yield running


def at(engine: Engine, path: str = "") -> McpClient:
    return McpClient(engine.ports["mcp_port"], path or engine.ports["mcp_path"])


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", "/.well-known/oauth-protected-resource"),
        ("GET", "/.well-known/oauth-protected-resource/mcp"),
        ("GET", "/.well-known/oauth-authorization-server"),
        ("GET", "/.well-known/oauth-authorization-server/mcp"),
        ("GET", "/.well-known/openid-configuration"),
        ("GET", "/mcp/.well-known/openid-configuration"),
        ("POST", "/register"),
        ("POST", "/token"),
    ],
)
async def test_who_looks_for_a_login_is_told_in_json_that_there_is_none(
    engine: Engine, verb: str, path: str
) -> None:
    """xpzouying/xiaohongshu-mcp#636."""
    answer = await at(engine, path).send(verb, b"{}" if verb == "POST" else b"")
    assert answer.status == 404
    assert answer.headers["content-type"].startswith("application/json")
    assert "error" in answer.json()


@pytest.mark.parametrize("session", ["", "null", "undefined", "0"])
async def test_an_id_that_is_no_session_is_404_so_that_the_client_begins_anew(
    engine: Engine, session: str
) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    answer = await at(engine).post(ping, {"Mcp-Session-Id": session})
    assert answer.status == 404
    assert answer.json()["id"] == 1


@pytest.mark.parametrize("number", ["1.0", "1.5", "1e3", "true", "[]", "{}"])
async def test_an_id_that_is_no_whole_number_and_no_text_is_refused(
    engine: Engine, number: str
) -> None:
    """laravel/mcp#206, OniMods#261."""
    answer = await at(engine).post(b'{"jsonrpc":"2.0","id":%s,"method":"ping"}' % number.encode())
    assert answer.status == 400
    assert answer.json()["id"] is None
    assert answer.json()["error"]["code"] == -32600


async def test_a_container_is_told_which_key_lets_its_name_pass(
    engine: Engine, tmp_path: Path
) -> None:
    host = {"Host": "host.docker.internal:8767"}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    refused = await at(engine).post(ping, host)
    assert refused.status == 403
    assert "ALLOWED_HOSTS" in refused.json()["error"]["message"]
    with running_engine(tmp_path, config={"ALLOWED_HOSTS": ["host.docker.internal"]}) as friendly:
        for name in ("host.docker.internal:8767", "HOST.docker.internal", "host.docker.internal."):
            assert (await at(friendly).post(ping, {"Host": name})).status == 200


async def test_every_listed_resource_is_read(engine: Engine) -> None:
    """modelcontextprotocol/python-sdk#1574."""
    client = at(engine)
    await client.initialize("2025-11-25")
    async with asyncio.timeout(HANGS_S):
        while len(json.loads((await client.call("list_instruments"))["content"][0]["text"])) < 3:
            await asyncio.sleep(0.05)
    listed = (await client.request("resources/list")).json()["result"]["resources"]
    assert len(listed) >= 9
    for entry in listed:
        told = (await client.request("resources/read", {"uri": entry["uri"]})).json()
        contents = told["result"]["contents"]
        assert [content["uri"] for content in contents] == [entry["uri"]]
        assert all("text" in one or base64.b64decode(one["blob"]) for one in contents)


async def test_no_client_cuts_off_instructions_or_descriptions(engine: Engine) -> None:
    """anthropics/claude-code#81268, insights-mcp#340."""
    client = at(engine)
    begun = (await client.initialize("2025-11-25")).json()["result"]
    assert 0 < len(begun["instructions"]) <= LONGEST_INSTRUCTIONS
    tools: list[dict[str, Any]] = []
    cursor: str | None = None
    while cursor is None or cursor:
        told = await client.request("tools/list", {"cursor": cursor} if cursor else {})
        page = told.json()["result"]
        tools += page["tools"]
        cursor = page.get("nextCursor", "")
    assert len(tools) > 60
    assert max(len(tool["description"]) for tool in tools) <= LONGEST_DESCRIPTION


async def test_a_list_that_was_sent_as_its_json_reserves_nothing(engine: Engine) -> None:
    """anthropics/claude-code#59227, openclaw#96922, fastmcp#932."""
    client = at(engine)
    await client.initialize("2025-11-25")
    told = await client.call("bench__reserve", {"instruments": '["psu1"]'})
    assert told.get("isError") or "code" in told, told
    assert "psu1" in json.dumps(told)
    leases = json.loads((await client.call("get_status"))["content"][0]["text"])["leases"]
    assert leases == []


def test_a_client_is_given_the_address_that_the_engine_listens_at(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    """googleapis/mcp-toolbox#400: localhost may be ::1 first, where nobody listens."""
    assert main(["connect", "claude", "--state-dir", str(engine.state_dir)]) == 0
    told = capsys.readouterr().out
    assert f"http://127.0.0.1:{engine.ports['mcp_port']}/mcp" in told
    assert "localhost" not in told
