"""The server card: for any page that names this machine rightly, and with nothing of the bench."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from edged import __version__
from edged.protocol.revisions import SUPPORTED_VERSIONS
from tests.bench.mcp_client import Answer, Connection
from tests.bench.mcp_endpoint import Endpoint, running_endpoint
from tests.promises import promise

# What the extension's schema asks of a card (schema.json as of 2026-10).
SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
NAME = re.compile(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")


async def asked(
    endpoint: Endpoint, verb: str = "GET", path: str = "/mcp/server-card", **headers: str
) -> Answer:
    lines = {"Host": f"127.0.0.1:{endpoint.port}", **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
    async with await Connection.to(endpoint.port) as connection:
        connection.send(f"{verb} {path} HTTP/1.1\r\n{head}\r\n".encode())
        status, told = await connection.read_head()
        size = 0 if verb == "HEAD" or status in (204, 304) else int(told.get("content-length", 0))
        body = await connection.reader.readexactly(size)
    return Answer(status, told, body)


@promise("card.served")
async def test_the_card_names_the_endpoint_as_it_was_asked_and_what_initialize_says() -> None:
    async with running_endpoint() as endpoint:
        answer = await asked(endpoint, Accept="application/mcp-server-card+json")
        begun = (await endpoint.client().initialize("2025-11-25")).json()["result"]["serverInfo"]
        assert answer.status == 200
        assert answer.headers["content-type"] == "application/mcp-server-card+json"
        card: dict[str, Any] = json.loads(answer.body)
        assert card.pop("$schema") == SCHEMA
        assert NAME.fullmatch(name := card.pop("name"))
        assert begun["name"] in name
        assert 1 <= len(card.pop("description")) <= 100
        assert card == {
            "version": __version__,
            "title": begun["title"],
            "remotes": [
                {
                    "type": "streamable-http",
                    "url": f"http://127.0.0.1:{endpoint.port}/mcp",
                    "supportedProtocolVersions": list(SUPPORTED_VERSIONS),
                }
            ],
        }
        again = await asked(endpoint, If_None_Match=answer.headers["etag"])
        assert (again.status, again.body) == (304, b"")
        head = await asked(endpoint, "HEAD")
        assert head.status == 200
        assert head.headers["content-length"] == str(len(answer.body))


@promise("card.guarded")
async def test_any_page_may_read_it_and_no_foreign_host_is_answered() -> None:
    async with running_endpoint() as endpoint:
        for origin in ("https://anybody.example", "null"):
            answer = await asked(endpoint, Origin=origin)
            assert answer.status == 200
            assert answer.headers["access-control-allow-origin"] == "*"
            before = await asked(endpoint, "OPTIONS", Origin=origin)
            assert before.status == 204
            assert before.headers["access-control-allow-methods"] == "GET"
        for wrong in ({"Host": "evil.example"}, {"Host": "evil.example", "Origin": "null"}):
            refused = await asked(endpoint, **wrong)
            assert refused.status == 403
            assert refused.json()["error"]["code"] == -32600
        assert (await asked(endpoint, Edge_Caller_JWT="")).status == 404


@pytest.mark.parametrize(
    ("verb", "path", "status"),
    [
        ("POST", "/mcp/server-card", 405),
        ("DELETE", "/mcp/server-card", 405),
        ("GET", "/mcp/server-card/", 404),
        ("GET", "/mcp/server-cards", 404),
        ("GET", "/server-card", 404),
        ("GET", "/mcp/server-card?x=1", 200),
    ],
)
async def test_it_is_read_at_its_own_path_alone(verb: str, path: str, status: int) -> None:
    async with running_endpoint() as endpoint:
        assert (await asked(endpoint, verb, path)).status == status


async def test_it_stands_beside_whatever_path_the_owner_chose() -> None:
    async with running_endpoint(path="/lab/mcp/") as endpoint:
        card = json.loads((await asked(endpoint, path="/lab/mcp/server-card")).body)
        assert card["remotes"][0]["url"].endswith("/lab/mcp/")
