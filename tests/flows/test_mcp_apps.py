"""MCP Apps: what a host is told, and what it reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from edged.protocol.apps import BENCH_APP, EXTENSION, MIME_TYPE, RUN_APP
from tests.bench.engine import Engine, running_engine
from tests.bench.mcp_client import McpClient, modern
from tests.promises import promise

MOST_BYTES = 150_000
SHOWN = {
    "get_status": BENCH_APP,
    "list_instruments": BENCH_APP,
    "start_sweep": RUN_APP,
    "get_sweep_status": RUN_APP,
    "start_stream": RUN_APP,
    "fetch_waveform": RUN_APP,
    "bench__runs": RUN_APP,
}
SESSIONS = ("2025-03-26", "2025-06-18", "2025-11-25")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(tmp_path_factory.mktemp("apps")) as running:
        yield running


async def asked(engine: Engine, version: str, method: str, **params: Any) -> Any:
    """The result of a request in a revision, with or without a session."""
    client = McpClient(engine.ports["mcp_port"])
    call = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    if version in SESSIONS:
        greeted = await client.initialize(version)
        if method == "initialize":
            return greeted.json()["result"]
        return (await client.post(call)).messages()[-1]["result"]
    message, headers = modern(call)
    return (await client.post(message, headers)).messages()[-1]["result"]


@promise("app.offered")
@pytest.mark.parametrize("version", [*SESSIONS, "2026-07-28"])
async def test_tools_name_their_panel_in_every_revision_that_has_room_for_it(
    engine: Engine, version: str
) -> None:
    method = "initialize" if version in SESSIONS else "server/discover"
    extensions = (await asked(engine, version, method))["capabilities"].get("extensions")
    tools = (await asked(engine, version, "tools/list"))["tools"]
    named = {tool["name"]: tool["_meta"] for tool in tools if "_meta" in tool}
    if version == "2025-03-26":
        assert extensions is None
        assert named == {}
        return
    assert extensions == {EXTENSION: {"mimeTypes": [MIME_TYPE]}}
    assert named == {
        tool: {"ui": {"resourceUri": uri}, "ui/resourceUri": uri} for tool, uri in SHOWN.items()
    }


@promise("app.one-file")
@pytest.mark.parametrize("uri", [BENCH_APP, RUN_APP])
@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
async def test_a_panel_is_one_small_file_that_reaches_no_network(
    engine: Engine, uri: str, version: str
) -> None:
    (content,) = (await asked(engine, version, "resources/read", uri=uri))["contents"]
    assert content["mimeType"] == "text/html;profile=mcp-app"
    assert content["uri"] == uri
    text = content["text"]
    assert text.lower().startswith("<!doctype html>")
    assert len(text.encode()) <= MOST_BYTES
    assert not re.search(r"(?:src|href)=[\"'](?!data:|#)", text)
    assert not re.search(r"\b(?:fetch|WebSocket|XMLHttpRequest|EventSource|import)\(", text)
    assert not re.search(r"^\s*(?:import|export)\b", text, re.MULTILINE)
    assert [text.lower().count(end) for end in ("</style", "</script")] == [1, 2]
    for theme in ("light", "dark"):
        assert re.search(rf'html\[data-theme="{theme}"\] {{ color-scheme: {theme};\n\s*--', text)
    listed = await asked(engine, version, "resources/list")
    assert uri not in {entry["uri"] for entry in listed["resources"]}


@promise("app.one-file")
async def test_a_panel_that_is_not_there_is_said_to_be_none(engine: Engine) -> None:
    client = McpClient(engine.ports["mcp_port"])
    await client.initialize("2025-11-25")
    for uri in ("ui://edged/other", "ui://edged/", "ui://edged/../bench", "ui://other/bench"):
        call = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": uri}}
        answer = (await client.post(call)).messages()[-1]
        assert answer["error"]["code"] == -32002, answer
