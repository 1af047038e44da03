"""What each client is told, by the form that its own documentation shows."""

from __future__ import annotations

import json
import os
import re
import shlex
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edged.cli.connect import CLIENTS, ClientTarget, query_of, run, why_loopback
from edged.config.keys import ListedTools
from edged.errors import Failed
from edged.host import address_of
from edged.surfaces.mcp.seams import Choice, ToolListing
from edged.surfaces.mcp.tool_list import read_choice

BENCH = ClientTarget(name="bench", url="http://10.0.0.7:8767/mcp")
RELAYED = ClientTarget(name="bench", url="https://relay.example.org/mcp/edge-1", needs_token=True)


def of_json(client: str, target: ClientTarget) -> Any:
    return json.loads(CLIENTS[client].write(target))


def test_a_running_engine_says_where_it_listens_and_whether(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["claude", "--state-dir", str(tmp_path), "--json"]
    facts = {"pid": os.getpid(), "rpc_port": 1, "mcp_port": 5, "mcp_path": "/lab"}
    (tmp_path / "engine.json").write_text(json.dumps(facts))
    assert run(words) == 0
    assert json.loads(capsys.readouterr().out)["url"] == "http://127.0.0.1:5/lab"
    (tmp_path / "engine.json").write_text(json.dumps({**facts, "mcp_port": None}))
    with pytest.raises(Failed, match="does not listen for MCP"):
        run(words)


def test_claude_code_gets_its_own_command() -> None:
    words = shlex.split(CLIENTS["claude"].write(BENCH))
    assert words == ["claude", "mcp", "add", "--transport", "http", "bench", BENCH.url]
    relayed = shlex.split(CLIENTS["claude"].write(RELAYED))
    assert relayed[-2:] == ["--header", "Authorization: Bearer $EDGED_TOKEN"]


def test_cursor_and_the_general_form_have_mcp_servers() -> None:
    assert of_json("cursor", BENCH) == {"mcpServers": {"bench": {"url": BENCH.url}}}
    entry = {"type": "http", "url": BENCH.url}
    assert of_json("json", BENCH) == {"mcpServers": {"bench": entry}}


def test_vs_code_has_servers_and_asks_for_the_token() -> None:
    entry = {"type": "http", "url": BENCH.url}
    assert of_json("vscode", BENCH) == {"servers": {"bench": entry}}
    relayed = of_json("vscode", RELAYED)
    asked = relayed["inputs"][0]["id"]
    assert relayed["servers"]["bench"]["headers"]["Authorization"] == f"Bearer ${{input:{asked}}}"


def test_claude_desktop_gets_a_local_server_that_carries_the_calls() -> None:
    (entry,) = of_json("claude-desktop", BENCH)["mcpServers"].values()
    assert entry == {
        "command": "npx",
        "args": ["-y", "mcp-remote", BENCH.url, "--transport", "http-only", "--allow-http"],
    }
    (relayed,) = of_json("claude-desktop", RELAYED)["mcpServers"].values()
    assert "--allow-http" not in relayed["args"]
    assert relayed["args"][-2:] == ["--header", "Authorization:${EDGED_AUTHORIZATION}"]
    assert relayed["env"] == {"EDGED_AUTHORIZATION": "Bearer $EDGED_TOKEN"}
    assert not any(" " in word for word in relayed["args"])


@pytest.mark.parametrize(
    ("client", "path", "entry", "token"),
    [
        ("windsurf", "mcpServers", {"serverUrl": BENCH.url}, "${env:EDGED_TOKEN}"),
        ("gemini-cli", "mcpServers", {"httpUrl": BENCH.url}, "$EDGED_TOKEN"),
        (
            "cline",
            "mcpServers",
            {"type": "streamableHttp", "url": BENCH.url},
            "${env:EDGED_TOKEN}",
        ),
        ("zed", "context_servers", {"url": BENCH.url}, "$EDGED_TOKEN"),
        ("opencode", "mcp.servers", {"type": "remote", "url": BENCH.url}, "{env:EDGED_TOKEN}"),
    ],
)
def test_each_other_client_gets_its_own_keys(
    client: str, path: str, entry: dict[str, str], token: str
) -> None:
    told, relayed = of_json(client, BENCH), of_json(client, RELAYED)
    for key in path.split("."):
        told, relayed = told[key], relayed[key]
    assert told == {"bench": entry}
    assert relayed["bench"]["headers"] == {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize("name", ["bench", "lab 2.left", 'the "big" one', "Prüfstand"])
def test_codex_gets_toml(name: str) -> None:
    target = replace(BENCH, name=name)
    assert tomllib.loads(CLIENTS["codex"].write(target)) == {
        "mcp_servers": {name: {"url": BENCH.url}}
    }
    relayed = tomllib.loads(CLIENTS["codex"].write(replace(RELAYED, name=name)))
    assert relayed["mcp_servers"][name]["bearer_token_env_var"] == "EDGED_TOKEN"


def test_clients_that_take_few_tools_get_the_short_list() -> None:
    whole = {name for name, client in CLIENTS.items() if client.tools is None}
    assert whole == {"claude", "json", "pyvisa"}
    assert {client.tools for client in CLIENTS.values()} == {None, ListedTools.ESSENTIAL}


def test_pyvisa_gets_the_two_lines_to_paste() -> None:
    opened = 'rm = pyvisa.ResourceManager("http://10.0.0.7:8767/mcp@edged")'
    assert CLIENTS["pyvisa"].write(BENCH).splitlines() == ["import pyvisa", opened]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_token_itself_is_never_part_of_it(client: str) -> None:
    text = CLIENTS[client].write(RELAYED)
    assert re.search(r"Bearer [${].*edged.token|bearer_token_env_var", text, re.IGNORECASE)
    assert "Authorization" not in CLIENTS[client].write(BENCH)


@pytest.mark.parametrize(
    ("bound", "addresses", "found"),
    [
        ((), ("127.0.0.1", "192.168.1.5"), "127.0.0.1"),
        (("192.168.1.5",), ("127.0.0.1", "192.168.1.5"), "192.168.1.5"),
        (("0.0.0.0",), ("127.0.0.1", "203.0.113.5", "10.1.1.1"), "10.1.1.1"),
        (("fd00::7", "10.1.1.1"), ("fd00::7", "10.1.1.1"), "10.1.1.1"),
        (("fd00::7",), ("fd00::7",), "fd00::7"),
        (("fe80::1%eth0",), ("fe80::1%eth0",), "127.0.0.1"),
        (("0.0.0.0",), ("203.0.113.5",), "127.0.0.1"),
    ],
)
def test_the_address_is_one_that_the_private_network_reaches(
    bound: tuple[str, ...], addresses: tuple[str, ...], found: str
) -> None:
    assert address_of(bound, addresses) == found


def test_it_is_told_why_no_other_machine_has_an_address() -> None:
    assert "no supervisor has opened" in why_loopback(())
    assert "no address on a private network" in why_loopback(("0.0.0.0",))


@pytest.mark.parametrize(
    ("tools", "instruments", "query"),
    [
        (None, [], ""),
        ("essential", [], "?tools=essential"),
        ("static", ["psu1", "dmm 1"], "?tools=static&instrument=psu1,dmm+1"),
        (None, ["USB0::0x1AB1::1::INSTR"], "?instrument=USB0::0x1AB1::1::INSTR"),
    ],
)
def test_a_client_that_chooses_its_tools_gets_them_in_its_url(
    tools: str | None, instruments: list[str], query: str
) -> None:
    assert query_of(tools, instruments) == query
    assert read_choice(query[1:], Choice(ToolListing.ALL)) == Choice(
        ToolListing(tools or "all"), tuple(instruments)
    )
